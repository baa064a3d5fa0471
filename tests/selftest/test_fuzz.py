"""The fuzzer finds what it is for, and what is known to be met well stays so."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.stories import Story, stored

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.selftest.fuzz import TARGETS, Finding, Target, fuzz
from kvwire.trace import files
from kvwire.trace.records import TraceError


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutated_data_ends_with_a_clear_error_or_a_verdict(target: Target) -> None:
    found = list(fuzz(target, 3, 60.0, at_most=12))
    assert [one for one in found if isinstance(one, Finding)] == []
    assert found[-1] == 12


def test_what_is_met_badly_is_found_once_and_can_be_made_again() -> None:
    def breaks(raw: bytes) -> None:
        raise ZeroDivisionError(len(raw))

    bad = Target(name="bad", seeds=lambda: [b"{}"], run=breaks, clear=(ValueError,))
    *found, count = fuzz(bad, 1, 60.0, at_most=5)
    assert count == 5
    assert len(found) == 1
    assert isinstance(found[0], Finding)
    assert found[0].what.startswith("ZeroDivisionError")
    again = next(iter(fuzz(bad, 1, 60.0, at_most=5)))
    assert isinstance(again, Finding)
    assert again.content == found[0].content


def test_a_target_that_nobody_knows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["selftest", "fuzz", "nothing"]) == Exit.USAGE
    assert "no target 'nothing'; there are payload, trace" in " ".join(capsys.readouterr().err.split())


CALLS: tuple[tuple[str, dict[str, object], str], ...] = (
    ("publish", {"batch": {"ts": 1.0, "events": [{"block_hashes": ["1x"]}]}}, "no batch"),
    ("publish", {"batch": {"events": []}}, "no batch: KeyError"),
    ("burst", {"batches": [{"ts": 1.0, "events": []}], "accepted": [True, True]}, "accepted speaks of 2 batches"),
    ("resident", {"hashes": ["18013317135)90605405"]}, "matching regex"),
    ("cache", {"tokens": [-1]}, "token -1 is neither an id"),
    ("cache", {"tokens": ["zz"]}, "token 'zz' is neither an id"),
)


@pytest.mark.parametrize(("event", "detail", "said"), CALLS)
def test_what_no_harness_writes_is_refused_with_its_line(event: str, detail: dict[str, object], said: str) -> None:
    story = Story()
    story.send(stored("a"))
    lines = list(files.lines(story.trace()))
    lines.insert(
        2, msgspec.json.encode({"t_ns": 1, "source": "stimulus", "stream": "s", "event": event, "detail": detail})
    )
    with pytest.raises(TraceError, match="line 3") as caught:
        files.parse(lines)
    assert said in str(caught.value)


@pytest.mark.parametrize("field", ["t_ns", "connection", "life"])
def test_numbers_beyond_64_bits_are_refused(field: str) -> None:
    line = {"t_ns": 1, "source": "live-a", "stream": "s", field: 2**64}
    lines = list(files.lines(Story().trace()))
    lines.insert(1, msgspec.json.encode(line))
    with pytest.raises(TraceError, match="line 2"):
        files.parse(lines)
