"""The verdicts that are committed: explained, shown in the README, and compared with a run in every way."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

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
    assert table.replaced(text, table.render()) == text, "run `tox -e table`"


@pytest.mark.parametrize("name", NAMES)
def test_each_failure_is_explained_and_each_explanation_is_of_a_failure(table: Any, name: str) -> None:
    summary = table.read(name)
    assert summary is not None
    assert table.unexplained(name, summary) == []


def test_each_failure_has_its_line_in_the_folder(table: Any) -> None:
    for name in NAMES[1:]:
        text = (ROOT / "implementations" / name / "README.md").read_text(encoding="utf-8")
        for key, (verdict, _) in table.explanations(name).items():
            if verdict in ("FAIL", "WARN"):
                assert f"| {key.removeprefix('KVW-')} " in text, f"{name}/README.md says nothing of {key}"


def test_the_reference_breaks_nothing_and_leaves_nothing_open(table: Any) -> None:
    verdicts = {entry.verdict for entry in table.read("reference").verdicts.values()}
    assert verdicts == {"PASS", "NOT-APPLICABLE"}


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


def explained(table: Any, folder: Path, text: str) -> list[str]:
    """What is said of a summary of one pass and one failure, with these explanations."""
    (folder / "x").mkdir()
    (folder / "x" / "baseline.toml").write_text(text, encoding="utf-8")
    verdicts = {"KVW-ENV-001": table.Entry("PASS"), "KVW-SEQ-001": table.Entry("FAIL", ("this", "that"))}
    problems: list[str] = table.unexplained("x", table.Summary("x 1", "core", "map", "driven", (), verdicts))
    return problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[fail]\nKVW-SEQ-001 = 'because'", None),
        ("[fail]\nSEQ-001 = 'because'", None),
        ("", "KVW-SEQ-001 is FAIL: say why"),
        ("[warn]\nKVW-SEQ-001 = 'because'", "KVW-SEQ-001 is not WARN"),
        ("[fail]\nKVW-SEQ-001 = ' '", "is empty"),
        ("[fail]\nKVW-SEQ-001 = 'because'\nKVW-ENV-001 = 'long ago'", "KVW-ENV-001 is not FAIL: remove"),
    ],
)
def test_explanations_are_held_against_verdicts(
    table: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, problem: str | None
) -> None:
    monkeypatch.setattr(table, "HOME", tmp_path)
    problems = explained(table, tmp_path, text)
    assert (problem is None and not problems) or any(problem in line for line in problems if problem)


def test_one_sentence_is_explained_once(table: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(table, "HOME", tmp_path)
    with pytest.raises(ValueError, match="under FAIL and under WARN"):
        explained(table, tmp_path, "[fail]\nKVW-SEQ-001 = 'a'\n[warn]\nKVW-SEQ-001 = 'b'")


@pytest.mark.parametrize("name", NAMES)
def test_what_varies_is_committed_at_its_worst(table: Any, name: str) -> None:
    verdicts = table.read(name).verdicts
    for key, others in table.unsteady(name).items():
        assert verdicts[key].verdict not in others
        assert aggregate([verdicts[key].verdict, *others]) in (verdicts[key].verdict, "INCONCLUSIVE")


@pytest.mark.parametrize(("seen", "settled"), [("PASS", "FAIL"), ("FAIL", "FAIL"), ("WARN", "WARN")])
def test_what_varies_is_no_difference(
    table: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seen: str, settled: str
) -> None:
    monkeypatch.setattr(table, "HOME", tmp_path)
    (tmp_path / "x").mkdir()
    text = "[fail]\nENV-001 = 'because'\n[unsteady]\nenv-1 = ['PASS']\n"
    (tmp_path / "x" / "baseline.toml").write_text(text, encoding="utf-8")
    name = "KVW-ENV-001"
    committed = summary(table, **{name: ("FAIL", "this", "that")})
    steady = table.steadied("x", committed, summary(table, **{name: (seen,)}))
    assert steady.verdicts[name].verdict == settled
    assert (steady == committed) == (seen == "PASS")
    assert table.explanations("x") == {name: ("FAIL", "because")}
    assert table.steadied("x", None, steady) == steady


# a run against what is committed


def summary(table: Any, **verdicts: tuple[str, ...]) -> Any:
    entries = {key: table.Entry(Verdict(verdict), tuple(said)) for key, (verdict, *said) in verdicts.items()}
    return table.Summary("x 1", "core", "map", "driven", ("ts",), entries)


@pytest.mark.parametrize(
    ("committed", "seen", "named"),
    [
        (("PASS",), ("PASS",), None),
        (("FAIL", "a", "b"), ("PASS",), "passes unexpectedly"),
        (("PASS",), ("FAIL", "a", "b"), "is another"),
        (("FAIL", "a", "b"), ("FAIL", "a", "c"), "fails in another way"),
        (("INCONCLUSIVE", "a"), ("NOT-APPLICABLE", "b"), "is another"),
    ],
)
def test_every_difference_is_named(
    table: Any, judge: Any, committed: tuple[str, ...], seen: tuple[str, ...], named: str | None
) -> None:
    problems = judge.differences(summary(table, A=committed), summary(table, A=seen))
    assert problems == [] if named is None else [line for line in problems if line.startswith("A ") and named in line]
    assert bool(problems) == (named is not None)


def test_what_is_new_gone_or_of_another_publisher_is_named(table: Any, judge: Any) -> None:
    old, new = summary(table, A=("PASS",)), summary(table, B=("PASS",))
    assert judge.differences(old, new) == ["A: was not judged, though committed", "B: PASS, not committed"]
    assert judge.differences(old, old._replace(profile="replay")) == ["profile: 'replay', committed 'core'"]
    assert judge.differences(None, new) == ["nothing is committed yet"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("113 batches, the first with number 0", "# batches, the first with number #"),
        ("a hash, -2551554832126214904", "a hash, #"),
        ("2 of v2_sha256_64/u32 at (start-0-bytes)", "# of v2_sha256_64/u32 at (start-0-bytes)"),
        ("clear text of 'tenant-07dbf924a6048457'", "clear text of 'tenant-#'"),
        ("'ipc:///tmp/x-1/kept' took 107, 98 ms (instance-12, queue 4)", "'ipc://…' took #, # ms"),
    ],
)
def test_numbers_and_paths_are_left_out(judge: Any, text: str, kept: str) -> None:
    assert judge.numberless(text) == kept


@pytest.mark.network
def test_the_reference_is_judged_as_committed(
    judge: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["judge.py", "reference"])
    assert judge.main() == 0, capsys.readouterr().err
    assert "conformant as far as this level shows" in capsys.readouterr().out
