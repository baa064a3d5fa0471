"""What people see: what it comes to first, then failures, what is open, and what holds, folded by area."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console
from tests.conclusion.test_notices import RANKS, heard, rounds, trace
from tests.conclusion.test_summary import LOST, told
from tests.kit.stories import Story, stored

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Trouble
from kvwire.conclusion.untried import Why
from kvwire.report.console import render
from kvwire.report.words import WHY, singular
from kvwire.standard import registry
from kvwire.trace.records import Trace


def report(made: Trace, profile: str = "core", *, width: int = 100, verbose: bool = False, trouble: str = "") -> str:
    seen = conclude(made, registry.load(), registry.profile(profile))
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
    assert text.count("KVW-ENV-005") == 2  # and how to see it again


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
