"""What is told, and how often."""

from __future__ import annotations

import json

import msgspec

from kvwire.watch.lines import FIRST, Line, Lines

KEY = ("t", "s", "KVW-SEQ-009")


def finding(seen: str = "5") -> Line:
    return Line(
        at="2026-11-30T00:00:00Z",
        what="finding",
        target="t",
        stream="s",
        requirement="KVW-SEQ-009",
        verdict="FAIL",
        number="7",
        expected="6",
        seen=seen,
    )


def test_of_what_comes_again_and_again_three_are_told_an_hour_and_then_a_count() -> None:
    said: list[Line] = []
    lines = Lines(said.append, 0.0, hour_s=10.0)
    for _ in range(100):
        lines.tell("connected", "t", "s", "again")
    lines.push()
    assert [line.what for line in said] == ["connected"] * FIRST
    assert not lines.late(9.0)
    assert lines.late(10.0)
    lines.counted(10.0, {})
    assert (said[-1].what, said[-1].of, said[-1].count) == ("more", "connected", 97)
    lines.tell("connected", "t", "s", "again")
    lines.push()
    assert said[-1].what == "connected"
    assert not lines.late(19.0)


def test_of_a_sentence_that_is_broken_on_and_on_the_rest_is_a_count_an_hour() -> None:
    said: list[Line] = []
    lines = Lines(said.append, 0.0)
    for _ in range(FIRST):
        lines.finding(finding())
    lines.push()
    for total in (1003, 1003, 1004):
        lines.counted(0.0, {KEY: total})
    assert [(line.what, line.count, line.total) for line in said[FIRST:]] == [
        ("more-findings", 1000, 1003),
        ("more-findings", 1, 1004),
    ]
    assert said[-1].words.endswith("FAIL KVW-SEQ-009 t s: 1 more, 1004 in all")


def test_what_is_not_of_the_profile_is_not_counted_out() -> None:
    said: list[Line] = []
    Lines(said.append, 0.0).counted(0.0, {KEY: 50})
    assert not said


def test_a_stranger_writes_no_second_line_and_nothing_that_a_terminal_obeys() -> None:
    line = finding("a\n2026 all is well\x1b[2J")
    assert (
        line.words == "2026-11-30T00:00:00Z FAIL KVW-SEQ-009 t s: a\\n2026 all is well\\x1b[2J; expected 6 (number 7)"
    )
    assert "\n" not in line.json
    assert "\x1b" not in line.json
    assert json.loads(line.json)["seen"] == "a\n2026 all is well\x1b[2J"


def test_what_several_streams_have_together_is_one_line_and_each_has_its_three() -> None:
    said: list[Line] = []
    lines = Lines(said.append, 0.0)
    for _ in range(FIRST + 1):
        for rank in range(32):
            lines.tell("connected", "t", f"rank-{rank}", "again")
    lines.tell("connected", "u", "s", "for the first time")
    lines.push()
    assert [len(line.streams) for line in said] == [32, 32, 32, 0]
    assert said[0].words.endswith("connected t rank-0, rank-1, rank-2, rank-3 and 28 more: again")
    assert (said[0].target, said[0].stream, said[-1].target, said[-1].stream) == ("t", "", "u", "s")


def test_of_several_targets_each_stream_is_named_with_its_own() -> None:
    said: list[Line] = []
    lines = Lines(said.append, 0.0)
    for target in "ab":
        lines.finding(msgspec.structs.replace(finding(), target=target))
    lines.push()
    (line,) = said
    assert (line.target, line.streams) == ("", ["a s", "b s"])
    assert line.words.startswith("2026-11-30T00:00:00Z FAIL KVW-SEQ-009 a s, b s: 5; expected 6")
