"""What people see: what it comes to first, then failures, what is open, and what holds, folded by area."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console
from tests.conclusion.test_notices import RANKS, heard, rounds, trace
from tests.conclusion.test_summary import LOST, told
from tests.kit.stories import Story, removed, stored

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Trouble
from kvwire.conclusion.summary import Wanted
from kvwire.conclusion.untried import Why
from kvwire.report.console import render
from kvwire.report.words import WHY, closing, singular
from kvwire.standard import registry
from kvwire.trace.records import Trace


def report(
    made: Trace,
    profile: str = "core",
    *,
    width: int = 100,
    verbose: bool = False,
    trouble: str = "",
    wanted: Wanted | None = None,
) -> str:
    seen = conclude(made, registry.load(), registry.profile(profile), wanted)
    if trouble:
        seen = msgspec.structs.replace(seen, troubles=(Trouble(text=trouble),))
    out = io.StringIO()
    render(seen, Console(file=out, width=width, no_color=True), verbose=verbose)
    return out.getvalue()


def broken() -> Story:
    story = Story().told(3)
    story.send(stored("a"))
    story.send(stored("a"))
    return story


def test_a_lost_connection_stands_within_the_first_three_lines() -> None:
    head = "\n".join(report(trace(LOST), width=140).splitlines()[:3])
    assert "no claim: connection to s lost after 6 s, not back" in head
    assert "conformant" not in report(trace(LOST))


def test_what_failed_stands_before_what_holds() -> None:
    text = report(told(broken()), "replay")
    places = [text.index(part) for part in ("not conformant (RES-001)", "FAIL KVW-RES-001", "open, ", "ENV 6 ✓")]
    assert places == sorted(places)
    assert text.rstrip().splitlines()[-1].startswith("not conformant (RES-001)")
    assert "KVW-ENV-001" not in text
    assert re.search(r"^  in +BlockStored of 1 hash, medium GPU$", text, re.MULTILINE)


def test_the_table_is_there_when_asked_for_without_what_the_profile_leaves_out() -> None:
    text = report(told(), verbose=True)
    assert re.search(r"^KVW-ENV-001 +MUST +PASS ×3", text, re.MULTILINE)
    assert "KVW-ENV-001" not in report(told())
    assert "KVW-REP-001" not in text


def test_trouble_stands_at_the_top() -> None:
    assert report(told(), trouble="no ZeroMQ handshake").splitlines()[2] == "ERROR no ZeroMQ handshake"


def test_a_silent_publisher_is_one_line_and_not_forty() -> None:
    text = report(trace([(0.0, "s", "up")], end=3.0))
    assert text.splitlines()[1].startswith("inconclusive: connected, and nothing came in 3 s")
    assert re.search(r"^open, nothing came: \d\d sentences$", text, re.MULTILINE)
    assert "ENV-001" not in text
    assert len(text.splitlines()) < 15


@pytest.mark.parametrize("width", [80, 140])
def test_thirty_two_ranks_fit_on_a_screen(width: int) -> None:
    text = report(trace(rounds(RANKS, 4), names=RANKS, end=1.3), width=width)
    assert "32 streams: 128 batches, 128 BlockStored, form map" in text
    assert len(text.splitlines()) <= 24


def test_a_sentence_that_many_streams_break_is_shown_once() -> None:
    again = [(at, name, what) for at, name, what in rounds(RANKS, 2)]
    made = trace(again, names=RANKS, end=1.3)
    twice = [record for record in made.records for _ in range(2 if record.is_live else 1)]
    records = [
        msgspec.structs.replace(record, frames=(record.frames[0], record.frames[1][:4], record.frames[2]))
        if record.frames
        else record
        for record in twice
    ]
    text = report(msgspec.structs.replace(made, records=tuple(records)))
    assert text.count("FAIL KVW-ENV-005 on rank-0 and 31 more streams") == 1
    assert text.count("KVW-ENV-005") == 1
    assert text.count("--only ENV-005") == 1


def test_lines_of_areas_are_not_broken_within_one() -> None:
    for line in report(told(), "replay", width=80).splitlines():
        if line.startswith("ENV "):
            assert line.count("·") > 2
            assert not line.endswith("·")
            return
    pytest.fail("no line of areas")


def test_counts_are_said_and_how_to_see_more() -> None:
    (line,) = re.findall(r"^\d+ sentences: .*$", report(trace(heard(1, 2))), re.MULTILINE)
    numbers = [int(number) for number in re.findall(r"\d+", line)]
    assert numbers[0] == sum(numbers[1:])
    assert line.endswith("; -v shows each")


def test_every_reason_has_words() -> None:
    assert set(WHY) == set(Why)


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("1 hashes", "1 hash"),
        ("1 batches, 1 blocks", "1 batch, 1 block"),
        ("1 of 1 occasions", "1 of 1 occasion"),
        ("1 blocks are still announced", "1 block is still announced"),
        ("1 end markers, 1 lists, 1 bytes", "1 end marker, 1 list, 1 byte"),
        ("21 blocks are still announced", "21 blocks are still announced"),
        ("11 hashes", "11 hashes"),
        ("0.1 blocks, 2–1 events, -1 tokens", "0.1 blocks, 2–1 events, -1 tokens"),
        ("1 hashers", "1 hashers"),
    ],
)
def test_one_is_singular(text: str, one: str) -> None:
    assert singular(text) == one


def chained() -> Story:
    """A chain that hangs on a block which was removed: one cause, and what follows from it in the same store."""
    story = Story().begin()
    story.send(stored("ab", lora_id=1))
    story.send(removed("a"))
    story.send(stored("b", parent="a", lora_id=2))
    return story


def test_a_failure_is_told_under_the_one_that_it_follows_from_and_all_are_counted() -> None:
    made = told(chained())
    text = report(made)
    broken = [
        one for one in conclude(made, registry.load(), registry.profile("core")).outcomes if one.verdict == "FAIL"
    ]
    heads = [one for one in broken if not one.follows]
    assert 0 < len(heads) < len(broken)
    assert len(re.findall("^FAIL KVW-", text, re.MULTILINE)) == len(heads)
    assert len(re.findall("^  with it  FAIL ", text, re.MULTILINE)) == len(broken) - len(heads)
    assert f" {len(broken)} FAIL" in text
    again = " ".join(text.split()).partition("again: ")[2]
    for one in broken:
        if one.follows == heads[0].requirement or one is heads[0]:
            assert f"--only {one.requirement.removeprefix('KVW-')}" in again
    verbose = report(made, verbose=True)
    assert len(re.findall("^FAIL KVW-", verbose, re.MULTILINE)) == len(broken)


def test_what_is_open_says_how_it_is_closed_and_long_lists_are_short() -> None:
    text = report(told())
    assert "to close it: run with --thorough, or let its engine do such things meanwhile" in text
    assert re.search(r"open, nothing was seen that could have broken it: .*?LIV-001 003…007", " ".join(text.split()))
    assert "to close it: let its engine do such things meanwhile" in report(told(mode="thorough"))
    passive = report(trace(heard(*range(1, 10)), target="zmq:"))
    assert "to close it: listen for longer while it works (--for 60)" in passive


@pytest.mark.parametrize(("mode", "way"), [("quick", "run without --quick"), ("plain", "run with --thorough")])
def test_what_a_mode_left_out_names_the_mode_that_has_it(mode: str, way: str) -> None:
    assert closing(Why.MODE, "driven", mode) == way


def test_what_only_asked_for_is_not_said_to_be_wanted_by_the_profile() -> None:
    text = report(told(), wanted=Wanted(only=("LIV-007",)))
    assert "asked for by --only, and not shown: LIV-007" in text
    assert "profile core wants" not in text


def test_a_finding_says_what_was_done_just_before_and_of_which_adapter_it_is() -> None:
    text = " ".join(report(told(chained())).split())
    assert "in BlockStored of 1 hash, medium GPU, adapter 2" in text
