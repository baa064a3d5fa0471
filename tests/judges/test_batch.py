"""BAT: an array of three, its timestamp, its events."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from tests.kit.stories import T0, Story, cleared, pack, payload, stored

from kvwire.judges.batch import Ticks
from kvwire.judges.verdict import Reason, Verdict

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE


def sent(*contents: bytes) -> Story:
    """A story of these payloads, numbered from 0."""
    story = Story()
    for content in contents:
        story.send(content=content)
    return story


def speaks(story: Story) -> dict[str, int]:
    """What of BAT is broken, and how often."""
    return {
        name: outcome.violations
        for name, outcome in story.outcomes().items()
        if name.startswith("BAT") and outcome.violations
    }


def test_an_honest_stream() -> None:
    story = Story().begin()
    story.send(stored("a"))
    story.send()
    outcomes = story.outcomes()
    assert {n: o.witnesses for n, o in outcomes.items() if n.startswith("BAT") and o.verdict is PASS} == {
        "BAT-001": 3,
        "BAT-002": 3,
        "BAT-003": 3,
        "BAT-004": 2,  # the first has nothing before it
        "BAT-005": 3,
    }


def test_a_batch_is_judged_once_however_many_saw_it() -> None:
    story = Story()
    story.send(by="a")
    story.replay()
    assert story.verdict("BAT-001") == (PASS, 1)


@pytest.mark.parametrize("value", [[T0, []], [T0, [], 0, 1], [], {"ts": T0}, T0, None])
def test_another_shape_breaks_one_sentence(value: Any) -> None:
    story = sent(pack(value))
    assert speaks(story) == {"BAT-001": 1}
    assert story.place("BAT-001")[:3] == ("0", "payload", 0)
    assert {name for name in story.witnessed() if name[:3] in ("BAT", "RNK")} == {"BAT-001"}


def test_what_is_no_msgpack_is_not_the_batchs_fault() -> None:
    story = sent(payload()[:-1])
    assert speaks(story) == {}
    assert story.verdict("BAT-001") == (OPEN, 0)


@pytest.mark.parametrize(
    ("ts", "seen"),
    [
        (b"\xce\x67\x74\x85\x80", "integer 1735689600"),
        (b"\xca\x4e\xce\xe9\x0b", "float32 1735689600"),
        (b"\xc0", "nil"),
        (b"\xd6\xff\x00\x00\x00\x00", "ext type -1 of 4 bytes"),
    ],
)
def test_a_ts_of_another_type(ts: bytes, seen: str) -> None:
    story = sent(b"\x93" + ts + b"\x90\x00")
    assert {"BAT-002": 1}.items() <= speaks(story).items()
    assert story.outcome("BAT-002").findings[0].seen.startswith(seen)
    assert story.place("BAT-002")[:3] == ("0", "payload", 1)
    assert story.outcome("BAT-003").witnesses == 0


@pytest.mark.parametrize("ts", [math.nan, math.inf, -1.0, 1e11, T0 * 1000])
def test_a_ts_that_is_no_number_of_seconds(ts: float) -> None:
    story = sent(payload(ts=ts))
    assert speaks(story) == {"BAT-003": 1}
    assert story.place("BAT-003") == ("0", "payload", 1, (b"\xcb" + struct.pack(">d", ts) + b"\x90\x00").hex())


def test_the_place_of_a_ts_behind_a_wide_header() -> None:
    story = sent(b"\xdc\x00\x03" + payload(ts=-1.0)[1:])
    assert story.place("BAT-003")[:3] == ("0", "payload", 3)


def test_a_ts_that_falls_is_a_warning() -> None:
    story = sent(payload(ts=5.0), payload(ts=5.0), payload(ts=4.0), payload(ts=4.5), payload(ts=6.0))
    assert story.outcome("BAT-004").verdict is WARN
    assert (story.outcome("BAT-004").witnesses, story.outcome("BAT-004").violations) == (4, 2)
    assert story.place("BAT-004")[:3] == ("2", "payload", 1)
    assert story.outcome("BAT-004").findings[0].expected == "a `ts` of at least 5.0, that of number 1"


def test_what_only_a_replay_showed_is_not_compared() -> None:
    story = sent(payload(ts=5.0))
    story.send(content=payload(ts=9.0), by="")
    story.send(content=payload(ts=6.0))
    story.replay()
    assert story.verdict("BAT-004") == (PASS, 1)


def test_one_batch_shows_no_order() -> None:
    assert sent(payload()).verdict("BAT-004") == (OPEN, 0)


def test_a_new_incarnation_and_what_may_be_one_begin_with_any_ts() -> None:
    story = Story().begin()
    story.send()
    story.restart()
    story.live(0, payload(cleared(), ts=9.0))
    story.disconnect()
    story.live(1, payload(ts=3.0))
    assert speaks(story) == {}


@pytest.mark.parametrize("events", [None, {}, 0])
def test_events_that_are_no_array(events: Any) -> None:
    story = sent(pack([T0, events, 0]))
    assert speaks(story) == {"BAT-005": 1}
    assert story.place("BAT-005")[:3] == ("0", "payload", 10)


def test_a_ts_that_the_harness_chose_is_not_judged_and_one_of_the_publisher_is() -> None:
    story = Story(sets=("engine", "ts"))
    story.publish(stored("a"))
    assert (story.outcome("BAT-003").verdict, story.outcome("BAT-003").reason) == (
        Verdict.NOT_APPLICABLE,
        Reason.OURS,
    )
    story.send(content=payload(ts=-3.0))
    assert story.verdict("BAT-003") == (FAIL, 1)


def test_clocks_of_harness_and_publisher_are_not_compared() -> None:
    story = Story(sets=("engine", "ts"))
    story.publish(stored("a"))
    story.send(content=payload(ts=T0 - 5.0))  # a heartbeat, stamped by a clock that is behind
    story.publish(stored("b", "a"))
    assert speaks(story) == {}
    story.send(content=payload(ts=T0 - 6.0))
    assert speaks(story) == {"BAT-004": 1}


# --- the resolution of ts ----------------------------------------------------------------------------------------


def ticking(stamps: list[float], *, epoch: bool = False) -> Story:
    """Batches with these stamps, told apart by their events."""
    story = Story()
    for at, ts in enumerate(stamps):
        clear = {**cleared(), "epoch": "e"} if epoch else cleared()
        story.send(content=payload(stored([at]) if at else clear, ts=ts))
    return story


BUSY = [T0 + at // 10 for at in range(40)]
"""Ten batches a second, by a clock of whole seconds."""


@pytest.mark.parametrize(
    ("stamps", "verdict"),
    [
        (BUSY, WARN),
        ([T0 + at // 10 / 20 for at in range(40)], WARN),
        ([0.0] * 300, WARN),
        ([T0 + at / 1000 for at in range(40)], PASS),
        ([T0 + 0.1 * at + 0.0003 for at in range(3)], PASS),
        ([T0] * 40, OPEN),  # a burst can be made within one tick of any clock
        ([T0 + at for at in range(40)], OPEN),  # a heartbeat each second, to the millisecond
        (BUSY[:20], OPEN),
        ([T0], OPEN),
    ],
)
def test_how_fine_a_clock_is(stamps: list[float], verdict: Verdict) -> None:
    story = ticking(stamps)
    assert story.outcome("BAT-007").verdict is verdict
    assert set(story.spoken()) <= {"BAT-007"}


def test_stamps_that_are_taken_several_at_once_come_to_the_same() -> None:
    one, several = Ticks(), Ticks()
    several.extend([])
    for at in range(0, len(BUSY), 4):
        several.extend(BUSY[at : at + 4])
    for ts in BUSY:
        one.add(ts)
    assert vars(several) == vars(one)


def test_a_coarse_clock_tells_nothing_where_no_life_was_seen_from_its_beginning() -> None:
    """The first batch can name the life."""
    story = Story()
    story.next = 5
    for at, ts in enumerate(BUSY):
        story.send(content=payload(stored([at]), ts=ts))
    assert story.outcome("BAT-007").verdict is OPEN


def test_a_life_that_is_named_needs_no_fine_clock() -> None:
    outcome = ticking(BUSY, epoch=True).outcome("BAT-007")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_USED)


def test_stamps_that_the_harness_chose_tell_nothing() -> None:
    story = Story(sets=("engine", "ts"))
    for name in range(40):
        ts = story.offer(stored([name]), ts=T0 + name // 10)
        story.send(content=payload(stored([name]), ts=ts))
    assert story.outcome("BAT-007").verdict is Verdict.NOT_APPLICABLE
