"""A result against a file of expected failures, in both directions; and a file from a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.expected_failures import Entry, ExpectedFailuresError, dump, general, held, lacking, read
from kvwire.conclusion.result import Outcome, Result
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit, Finding, Verdict, Where
from kvwire.standard import registry

TODAY = "2027-03-01"
A, B = "KVW-BAT-001", "KVW-SEQ-008"


def outcome(requirement: str, verdict: str, seen: str = "", stream: str = "s") -> Outcome:
    broken = verdict in ("FAIL", "WARN")
    return Outcome(
        requirement=requirement,
        stream=stream,
        verdict=Verdict(verdict),
        level="MUST",
        sentence="A publisher MUST …",
        witnesses=int(verdict == "PASS"),
        reason="" if broken else seen,
        findings=[Finding(expected="three", seen=seen, where=Where(record=1))] if broken else [],
    )


def told(*outcomes: Outcome, missing: tuple[str, ...] = (), trouble: str = "", **fields: Any) -> Result:
    """A result of these outcomes, with fields of its run or its summary."""
    run = {key: value for key, value in fields.items() if key in result.Run.__struct_fields__}
    return Result(
        run=result.Run(
            **{
                "format": result.FORMAT,
                "edition": "1",
                "target": "t",
                "implementation": "",
                "level": "driven",
                "profile": "core",
                "streams": sorted({one.stream for one in outcomes}),
                "sets": [],
                "mode": "plain",
                "probes": [],
                "left_out": [],
                "statement_sha256": "0" * 64,
                **run,
            }
        ),
        outcomes=outcomes,
        holes=(),
        streams=(),
        troubles=(result.Trouble(text=trouble),) if trouble else (),
        summary=result.Summary(
            headline="h",
            total=1,
            sentences={},
            not_judged={},
            conclusive_missing=list(missing),
            **{key: value for key, value in fields.items() if key not in run},
        ),
    )


def entry(requirement: str = A, reason: str = "known", **fields: Any) -> Entry:
    return msgspec.convert({"id": requirement, "reason": reason, **fields}, Entry)


def against(seen: Result, *entries: Entry, strict: bool = False) -> tuple[int | None, list[str]]:
    """Exit code and lines of a result held against entries."""
    summary = held(seen, entries, TODAY, Wanted(strict=strict)).summary
    return summary.exit, summary.unexpected


def test_what_is_expected_is_marked_and_does_not_count() -> None:
    seen = told(outcome(A, "FAIL", "two"), outcome(B, "WARN", "none"), outcome("KVW-BAT-002", "PASS"))
    whole = held(seen, (entry(link="https://x.org/1"),), TODAY, Wanted())
    assert [one.expected for one in whole.outcomes] == ["known (https://x.org/1)", "", ""]
    assert (whole.summary.expected, whole.summary.unexpected, whole.summary.exit) == (1, [], Exit.CONFORMANT)
    assert against(seen, entry(), strict=True) == (Exit.NOT_CONFORMANT, [])
    assert against(seen, entry(), entry(B, verdict="WARN"), strict=True) == (Exit.CONFORMANT, [])
    assert against(seen) == (Exit.NOT_CONFORMANT, [])


def test_nothing_expected_changes_no_exit_code() -> None:
    for verdict, code in (("PASS", 0), ("WARN", 0), ("FAIL", 1), ("NOT-APPLICABLE", 3)):
        assert against(told(outcome(A, verdict, "x"))) == (code, [])
    assert against(told(outcome(A, "INCONCLUSIVE"), outcome(B, "PASS"))) == (0, [])
    assert against(told(outcome(A, "INCONCLUSIVE"), outcome(B, "PASS"), missing=(A,))) == (3, [])
    assert against(told(outcome(A, "PASS"), trouble="no")) == (4, [])


def test_what_had_to_be_concluded_and_was_not_can_be_expected() -> None:
    seen = told(outcome(A, "INCONCLUSIVE", "no room"), outcome(B, "PASS"), missing=(A,))
    assert against(seen, entry(verdict="INCONCLUSIVE", message="no ")) == (0, [])
    code, (line,) = against(seen, entry())
    assert code == Exit.NOT_CONFORMANT
    assert line == f"{A} is INCONCLUSIVE (no room), and FAIL or WARN was expected: its entry matches nothing"


@pytest.mark.parametrize(
    ("seen", "fields", "line"),
    [
        (outcome(A, "PASS"), {}, "passes, and FAIL or WARN was expected: remove its entry"),
        (outcome(A, "FAIL", "two"), {"message": "four"}, "fails in another way: three; seen two; expected was: four"),
        (
            outcome(A, "INCONCLUSIVE", "no room"),
            {"verdict": "INCONCLUSIVE", "message": "no time"},
            "is INCONCLUSIVE in another way: no room; expected was: no time",
        ),
        (outcome(A, "FAIL", "two"), {"verdict": "WARN"}, "is FAIL (three; seen two), and WARN was expected"),
        (outcome(A, "NOT-APPLICABLE", "not claimed"), {}, "is NOT-APPLICABLE (not claimed), and FAIL or WARN was"),
        (outcome(A, "FAIL", "two"), {"stream": "t"}, "on t was not judged, and FAIL or WARN was expected"),
        (outcome(B, "PASS"), {}, "was not judged, and FAIL or WARN was expected: its entry matches nothing"),
        (outcome(A, "FAIL", "two"), {"expires": "2027-02-28"}, ": its entry expired on 2027-02-28"),
        (outcome(A, "PASS"), {"expires": "2027-02-28", "unsteady": True}, ": its entry expired on 2027-02-28"),
        (outcome(A, "FAIL", "two"), {"reason": " "}, ": its entry gives no reason"),
    ],
)
def test_an_entry_that_does_not_come_true_is_a_failure(seen: Outcome, fields: dict[str, Any], line: str) -> None:
    code, lines = against(told(seen), entry(**fields))
    assert code == Exit.NOT_CONFORMANT
    assert len(lines) == 1
    assert lines[0].removeprefix(A).strip().startswith(line.strip())


def test_an_entry_counts_on_its_last_day() -> None:
    assert against(told(outcome(A, "FAIL", "two")), entry(expires=TODAY)) == (0, [])


def test_what_is_unsteady_may_as_well_not_occur() -> None:
    for verdict in ("FAIL", "PASS"):
        assert against(told(outcome(A, verdict, "two")), entry(unsteady=True)) == (0, [])
    assert against(told(outcome(A, "FAIL", "two")), entry(unsteady=True, message="four")) == (1, [])


def test_an_unsteady_entry_stands_in_for_a_steady_one_and_nothing_else_does() -> None:
    """As on a machine without IPv6: where a sentence is open there, its failure elsewhere is no lie."""
    pair = entry(verdict="FAIL"), entry(verdict="INCONCLUSIVE", unsteady=True)
    assert against(told(outcome(A, "FAIL", "two")), *pair) == (0, [])
    assert against(told(outcome(A, "INCONCLUSIVE"), outcome(B, "PASS"), missing=(A,)), *pair) == (0, [])
    code, lines = against(told(outcome(A, "PASS")), *pair)
    assert (code, len(lines)) == (1, 1)
    other = entry(verdict="FAIL", message="three; seen four")
    assert against(told(outcome(A, "FAIL", "two")), entry(), other)[0] == Exit.NOT_CONFORMANT


def test_one_stream_of_several() -> None:
    seen = told(outcome(A, "FAIL", "two", "s"), outcome(A, "PASS", "", "t"))
    assert against(seen, entry()) == (0, [])
    assert against(seen, entry(stream="s")) == (0, [])
    assert against(seen, entry(stream="t"))[0] == 1


def test_of_a_restricted_run_only_what_it_judged_is_asked_for() -> None:
    assert against(told(outcome(B, "PASS"), only=["SEQ"]), entry()) == (0, [])
    assert against(told(outcome(A, "PASS"), only=["BAT"]), entry())[0] == 1


def test_an_interrupted_run_accuses_no_entry() -> None:
    assert against(told(outcome(A, "INCONCLUSIVE"), interrupted=True), entry()) == (None, [])


def test_trouble_is_an_error_whatever_was_expected() -> None:
    assert against(told(outcome(A, "PASS"), trouble="no"), entry())[0] == Exit.ERROR


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        (None, True),
        ("", True),
        ("three", True),
        ("three; seen 2 of 5 at tcp://*:9 (a", True),
        ("three; seen * of * at", True),
        ("*of", True),
        ("seen", False),
        ("three; seen . of", False),
    ],
)
def test_a_message_is_how_the_first_finding_begins(pattern: str | None, matches: bool) -> None:
    assert entry(message=pattern).matches(outcome(A, "FAIL", "2 of 5 at tcp://*:9 (a)\nb")) == matches


# files


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "expected.toml"
    path.write_text('[[expected]]\nid = "BAT-001"\nreason = "r"\nexpires = 2027-01-31\n', encoding="utf-8")
    assert read(path, registry.load()) == (entry(A, "r", expires="2027-01-31"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[expected]]\nid = 'BAT-001'\n", "missing required field `reason`"),
        ("[[expected]]\nid = 'BAT-999'\nreason = 'r'\n", "no requirement 'BAT-999'"),
        ("[[expected]]\nid = 'BAT-001'\nreason = 'r'\nverdict = 'PASS'\n", "Invalid enum value 'PASS'"),
        ("[[expected]]\nid = 'BAT-001'\nreason = 'r'\nexpires = 'soon'\n", "expires"),
        ("[[expected]]\nid = 'BAT-001'\nreason = 'r'\nexpires = 2027-01-31T10:00:00\n", "expires"),
        ("[[expected]]\nid = 'BAT-001'\nreason = 'r'\nwhy = 'r'\n", "unknown field `why`"),
        ("[[expeted]]\nid = 'BAT-001'\nreason = 'r'\n", "unknown field `expeted`"),
        ("expected = 3\n", "not a file of expected failures"),
        ("expected = ['expires']\n", "not a file of expected failures"),
        ("[[", "not TOML"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "expected.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExpectedFailuresError) as raised:
        read(path, registry.load())
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExpectedFailuresError, match="No such file"):
        read(tmp_path / "none", registry.load())


def test_what_is_lacking_expects_the_run_that_it_was_taken_from(tmp_path: Path) -> None:
    seen = told(
        outcome(A, "FAIL", '113 batches at tcp://127.0.0.1:5 of "x\\y"\x7f'),
        outcome(B, "WARN", "none"),
        outcome("KVW-BAT-002", "INCONCLUSIVE", "nothing"),
        outcome("KVW-BAT-003", "INCONCLUSIVE", "nothing"),
        missing=("KVW-BAT-002",),
    )
    new = lacking(seen, (entry(B),))
    assert [(one.id, one.verdict, one.reason) for one in new] == [(A, "FAIL", ""), ("KVW-BAT-002", "INCONCLUSIVE", "")]
    path = tmp_path / "expected.toml"
    path.write_text(dump(new), encoding="utf-8")
    again = read(path, registry.load())
    assert again == new
    code, lines = against(seen, *again, entry(B), strict=True)
    assert (code, [line.partition(": ")[2] for line in lines]) == (1, ["its entry gives no reason"] * 2)
    explained = [msgspec.structs.replace(one, reason="r") for one in again]
    assert against(seen, *explained, entry(B), strict=True) == (0, [])
    assert lacking(seen, (*explained, entry(B))) == ()


def test_of_several_streams_each_has_its_entry() -> None:
    seen = told(outcome(A, "FAIL", "two", "s"), outcome(A, "FAIL", "two", "t"))
    assert [one.stream for one in lacking(seen, ())] == ["s", "t"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"only": ["SEQ"]}, "--only"),
        ({"mode": "quick"}, "--quick"),
        ({"interrupted": True}, "interrupted"),
        ({"trouble": "no handshake"}, "in trouble: no handshake"),
    ],
)
def test_a_partial_run_gives_no_file(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ExpectedFailuresError, match=words):
        lacking(told(outcome(A, "FAIL", "two"), **fields), ())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("113 batches, the first with number 0", "* batches, the first with number *"),
        ("a hash, -2551554832126214904", "a hash, *"),
        ("2 of v2_sha256_64/u32 at (start-0-bytes)", "* of v2_sha256_64/u32 at (start-0-bytes)"),
        ("clear text of 'tenant-07dbf924a6048457'", "clear text of 'tenant-*'"),
        ("'ipc:///tmp/x-1/kept' took 107, 98 ms (instance-12, queue 4)", "'ipc://*' took * ms*"),
        ("'tcp://127.0.0.1:24471' bound", "'tcp://*' bound"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(text: str, kept: str) -> None:
    assert general(text) == kept
    assert entry(message=general(text)).says(text)


def test_a_result_stream_is_read_as_it_was_written() -> None:
    seen = held(told(outcome(A, "FAIL", "two"), trouble="no", only=["BAT"]), (entry(),), TODAY, Wanted())
    assert result.parse(result.dump(seen)) == seen


@pytest.mark.parametrize(
    ("raw", "words"), [(b"", "0 lines `run`"), (b"{}", "line 1: not of a result stream"), (b"x", "line 1")]
)
def test_what_is_no_result_stream_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(result.ResultError, match=words):
        result.parse(raw)


def test_no_clock_is_read() -> None:
    """The date is handed in: the same result and date give the same bytes."""
    assert not {"datetime", "time"} & set(vars(expected_failures))
