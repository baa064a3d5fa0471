"""The verdicts that are committed: explained, shown in the README, and compared with a run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict, aggregate

ROOT = Path(__file__).parents[2]
NAMES = ("reference", "vllm", "vllm-0.32.0", "vllm-0.23.0", "vllm-engine", "sglang", "dynamo-trtllm", "dynamo-mocker")


@pytest.fixture(autouse=True)
def _beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "implementations"))


@pytest.fixture
def table() -> Any:
    return importlib.import_module("table")


@pytest.fixture
def judge() -> Any:
    return importlib.import_module("judge")


# what is committed


def test_the_readme_shows_what_is_committed(table: Any) -> None:
    text = table.README.read_text(encoding="utf-8")
    assert table.replaced(text, table.render()) == text, "run `tox -e generate`"


@pytest.mark.parametrize("name", NAMES)
def test_each_failure_is_explained_and_each_explanation_is_of_a_failure(table: Any, name: str) -> None:
    summary = table.read(name)
    assert summary is not None
    assert table.unexplained(name, summary) == []


def test_each_failure_has_its_line_in_the_folder(table: Any) -> None:
    for name in NAMES[1:]:
        text = (ROOT / "implementations" / name / "README.md").read_text(encoding="utf-8")
        for key, verdict in table.read(name).verdicts.items():
            if verdict in ("FAIL", "WARN"):
                assert f"| {key.removeprefix('KVW-')} " in text, f"{name}/README.md says nothing of {key}"


def test_the_reference_breaks_nothing_and_leaves_nothing_open(table: Any) -> None:
    assert set(table.read("reference").verdicts.values()) == {"PASS", "NOT-APPLICABLE"}


def test_columns_are_the_folders(table: Any, judge: Any) -> None:
    files = [path for name in ("adapter", "engine") for path in (ROOT / "implementations").glob(f"*/{name}.py")]
    folders = {path.parent.name for path in files}
    assert {*table.NAMES} == {"reference", *folders, *judge.SHARED}
    assert folders.isdisjoint(judge.SHARED)
    assert folders >= set(judge.SHARED.values())


# the table


def test_a_readme_without_markers_gets_them_at_its_end(table: Any) -> None:
    once = table.replaced("# Title\n\nText.\n", "| a |\n")
    assert once == f"# Title\n\nText.\n\n{table.BEGIN}\n| a |\n{table.END}"
    assert table.replaced(once, "| a |\n") == once
    assert "| b |" not in table.replaced(table.replaced(once, "| b |\n"), "| a |\n")
    with pytest.raises(ValueError, match="without"):
        table.replaced(f"{table.BEGIN}no end", "")


def test_a_summary_is_written_as_it_is_read(table: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    summary = table.read("dynamo-mocker")
    (tmp_path / "dynamo-mocker").mkdir()
    monkeypatch.setattr(table, "HOME", tmp_path)
    table.write("dynamo-mocker", summary)
    assert table.read("dynamo-mocker") == summary
    written = (tmp_path / "dynamo-mocker" / "verdicts.json").read_bytes()
    assert written == (ROOT / "implementations" / "dynamo-mocker" / "verdicts.json").read_bytes()
    assert table.read("vllm") is None


def summary(table: Any, **verdicts: str) -> Any:
    told = {f"KVW-BAT-00{key[1]}": Verdict(verdict) for key, verdict in verdicts.items()}
    return table.Summary(implementation="x 1", profile="core", form="map", level="driven", sets=("ts",), verdicts=told)


@pytest.fixture
def baseline(table: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Write the expectations of the implementation ``x``."""
    monkeypatch.setattr(table, "HOME", tmp_path)
    (tmp_path / "x").mkdir()

    def write(text: str) -> None:
        (tmp_path / "x" / "baseline.toml").write_text(text, encoding="utf-8")

    return write


FAILS = "[[expected]]\nid = 'BAT-002'\nverdict = 'FAIL'\nreason = "


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{FAILS}'because'", None),
        ("", "KVW-BAT-002 is FAIL: say why"),
        (f"{FAILS}'because'".replace("FAIL", "WARN"), "KVW-BAT-002 is not WARN"),
        (f"{FAILS}' '", "KVW-BAT-002 is FAIL: say why"),
        (f"{FAILS}'because'\n{FAILS.replace('2', '1')}'long ago'", "KVW-BAT-001 is not FAIL: remove"),
        (f"{FAILS}'because'\n{FAILS.replace('2', '1')}'at times'\nunsteady = true", None),
    ],
)
def test_explanations_are_held_against_verdicts(
    table: Any, baseline: Callable[[str], None], text: str, problem: str | None
) -> None:
    baseline(text)
    problems = table.unexplained("x", summary(table, b1="PASS", b2="FAIL"))
    assert (problem is None and not problems) or any(problem in line for line in problems if problem)


@pytest.mark.parametrize("name", NAMES)
def test_what_varies_is_committed_at_its_worst(table: Any, name: str) -> None:
    verdicts = table.read(name).verdicts
    for entry in table.entries(name):
        if entry.unsteady:
            assert aggregate([verdicts[entry.id], entry.verdict]) in (verdicts[entry.id], "INCONCLUSIVE")


def run_of(table: Any, verdict: str, expected: str) -> Result:
    """A result of one outcome."""
    return Result(
        run=result.Run(
            format=result.FORMAT,
            edition="1",
            target="t",
            implementation="x 1",
            level="driven",
            profile="core",
            streams=["s"],
            sets=["ts"],
            mode="plain",
            probes=[],
            left_out=[],
            statement_sha256="",
        ),
        outcomes=(
            result.Outcome(
                requirement="KVW-BAT-001",
                stream="s",
                verdict=Verdict(verdict),
                level="MUST",
                sentence="…",
                expected=expected,
            ),
        ),
        holes=(),
        streams=(result.Stream(name="s", form="map", batches=0, events={}, incarnations=1),),
        troubles=(),
        summary=result.Summary(headline="", total=1, sentences={}, not_judged={}, conclusive_missing=[]),
    )


@pytest.mark.parametrize(
    ("unsteady", "seen", "expected", "kept"),
    [
        ("true", "PASS", "", "FAIL"),
        ("true", "INCONCLUSIVE", "at times", "FAIL"),
        ("true", "INCONCLUSIVE", "", "INCONCLUSIVE"),
        ("true", "WARN", "", "WARN"),
        ("false", "PASS", "", "PASS"),
        ("false", "FAIL", "because", "FAIL"),
    ],
)
def test_what_varies_keeps_its_committed_verdict_where_it_was_expected(
    table: Any, judge: Any, baseline: Callable[[str], None], unsteady: str, seen: str, expected: str, kept: str
) -> None:
    baseline(f"{FAILS.replace('2', '1')}'because'\nunsteady = {unsteady}\n")
    committed = summary(table, b1="FAIL")
    told = judge.summarised("x", run_of(table, seen, expected), committed)
    assert told == summary(table, b1=kept)
    assert judge.summarised("x", run_of(table, seen, expected), None) == summary(table, b1=seen)


# a run against what is committed


def test_every_difference_is_named(table: Any, judge: Any) -> None:
    old, new = summary(table, b1="PASS", b2="FAIL"), summary(table, b1="FAIL", b3="PASS")
    assert judge.differences(old, old) == []
    assert judge.differences(old, new) == [
        "KVW-BAT-001: FAIL, committed PASS",
        "KVW-BAT-002: nothing, committed FAIL",
        "KVW-BAT-003: PASS, committed nothing",
    ]
    other = msgspec.structs.replace(old, profile="replay", sets=())
    assert judge.differences(old, other) == ["profile: replay, committed core", "sets: (), committed ('ts',)"]
    assert judge.differences(None, new) == ["nothing is committed yet"]


@pytest.mark.network
@pytest.mark.slow
def test_the_reference_is_judged_as_committed(
    judge: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["judge.py", "reference"])
    assert judge.main() == 0, capsys.readouterr().err
