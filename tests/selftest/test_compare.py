"""The guard notices whatever changes in a result, and nothing that stayed."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from kvwire.selftest.compare import CompareError, Comparison, compare, compared, corpus, told
from kvwire.standard import resources

LINES = (
    {"kind": "run", "target": "t"},
    {"kind": "outcome", "requirement": "KVW-SEQ-001", "stream": "s", "verdict": "FAIL", "findings": [{"seen": "3"}]},
    {"kind": "outcome", "requirement": "KVW-SEQ-002", "stream": "s", "verdict": "PASS", "witnesses": 2},
    {"kind": "summary", "counts": {"PASS": 1}},
)


def written(folder: Path, *lines: object) -> Path:
    folder.mkdir()
    (folder / "a").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def against(tmp_path: Path, *lines: object) -> Comparison:
    return compared(written(tmp_path / "before", *LINES), written(tmp_path / "after", *lines), ["a"])


def test_equal_results_have_one_digest(tmp_path: Path) -> None:
    same = against(tmp_path, *LINES)
    assert same.differences == ()
    assert same.digests[0] == same.digests[1]
    assert (same.traces, same.outcomes) == (1, 2)


@pytest.mark.parametrize(
    ("line", "changed", "field"),
    [
        (1, {"verdict": "PASS"}, "verdict"),
        (1, {"findings": [{"seen": "4"}]}, "findings[0].seen"),
        (1, {"findings": []}, "findings[]"),
        (2, {"witnesses": 3}, "witnesses"),
        (3, {"counts": {"PASS": 2}}, "counts.PASS"),
    ],
)
def test_a_changed_value_is_a_difference(tmp_path: Path, line: int, changed: object, field: str) -> None:
    after = [{**old, **changed} if at == line else old for at, old in enumerate(LINES)]  # type: ignore[dict-item]
    found = against(tmp_path, *after)
    assert field in [difference.field for difference in found.differences]
    assert found.digests[0] != found.digests[1]


def test_a_missing_line_is_a_difference(tmp_path: Path) -> None:
    assert {difference.line for difference in against(tmp_path, *LINES[:2], LINES[3]).differences} == {
        "outcome s KVW-SEQ-002"
    }


def test_a_field_that_one_side_alone_knows_is_named_and_no_difference(tmp_path: Path) -> None:
    found = against(tmp_path, *({**line, "probe": "live"} for line in LINES))
    assert found.differences == ()
    assert found.only_after == {"outcome.probe": 2, "run.probe": 1, "summary.probe": 1}
    assert found.only_before == {}


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match="no trace below"):
        corpus([tmp_path], tmp_path)


def test_the_trace_in_a_session_vector_of_shape_1_is_the_file_of_today(tmp_path: Path) -> None:
    lines = (resources.vectors() / "session" / "gap.kvtrace").read_text(encoding="utf-8").splitlines()
    header, *records, end = map(json.loads, lines)
    test = {"id": "session-gap", "input": {"trace": {"header": header, "records": records, "end": end}}}
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / "gap.json").write_text(json.dumps({"groups": [{"tests": [test]}]}), encoding="utf-8")
    ((name, path),) = corpus([tmp_path / "session"], tmp_path)
    assert name == "session__gap"
    assert Path(path).read_text(encoding="utf-8").splitlines() == lines


def test_session_vectors_are_judged_by_the_command_line_of_a_checkout(tmp_path: Path) -> None:
    session = tmp_path / "session"
    session.mkdir()
    for name in ("gap.kvtrace", "sessions.json"):
        shutil.copy(resources.vectors() / "session" / name, session)
    traces = corpus([session], tmp_path)
    assert [name for name, _ in traces] == ["session__gap"]
    told(Path(), traces, tmp_path / "results")  # whatever kvwire this Python has
    lines = [json.loads(line) for line in (tmp_path / "results" / "session__gap").read_bytes().splitlines()]
    assert [line["kind"] for line in lines][:: len(lines) - 1] == ["run", "exit"]


def test_a_compressed_trace_is_written_out(tmp_path: Path) -> None:
    """A commit that cannot read it is asked all the same."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "x-1.2.kvtrace.gz").write_bytes(gzip.compress(b"{}\n"))
    (tmp_path / "traces" / "y.kvtrace").write_bytes(b"{}\n")
    traces = dict(corpus([tmp_path / "traces"], tmp_path))
    assert list(traces) == ["traces__x-1.2", "traces__y"]
    assert Path(traces["traces__x-1.2"]).read_bytes() == b"{}\n"
    assert traces["traces__x-1.2"].endswith(".kvtrace")


def test_a_trace_that_is_refused_is_a_result_too(tmp_path: Path) -> None:
    (tmp_path / "x.kvtrace").write_bytes(b"{}\n")
    told(tmp_path, [("x", str(tmp_path / "x.kvtrace"))], tmp_path / "results")
    assert json.loads((tmp_path / "results" / "x").read_bytes()) == {"kind": "exit", "code": 2}


def test_an_unknown_revision_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.kvtrace").write_bytes(b"{}\n")
    with pytest.raises(CompareError, match="no checkout of 'nowhere'"):
        compare(Path(), "nowhere", ".", [tmp_path])
