"""The same run on a bad day: what its witnesses missed. The publisher did what it did, so whoever speaks is wrong.

Each day is made of a recorded run by leaving out live messages, as a subscriber misses them that comes late, is too
slow or is cut off. What the harness did to the publisher, and what was answered to a replay request, stays. Where it
drives, it awaits what it causes and says in the trace that it saw it: there each message is left to one witness.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec

from kvwire.standard.registry import LEVELS, ControlLevel
from kvwire.trace.records import LIVE, Record, Trace

LATE = 1 / 3
"""Of the messages of a stream, those that were sent before anybody listened."""
LOSSES = 0.03
"""Of all messages, those at which a witness loses some."""
LONGEST = 20
"""How many it loses then, at most."""
LISTENING: tuple[ControlLevel, ...] = ("passive", "replayable")


class BadDay(msgspec.Struct, frozen=True):
    """What is left of a run, and the levels of control at which the harness could have made such a trace."""

    change: Callable[[Trace], Trace]
    levels: tuple[ControlLevel, ...] = LISTENING


def late(trace: Trace) -> Trace:
    """Nobody listened in the beginning: neither witness has the first third of a stream."""
    places: dict[str, list[int]] = {}
    for at, record in enumerate(trace.records):
        if record.is_live:
            places.setdefault(record.stream, []).append(at)
    begins = {stream: of[int(len(of) * LATE)] for stream, of in places.items()}
    return _kept(trace, lambda at, record: at >= begins[record.stream])


def lossy(trace: Trace) -> Trace:
    """Each witness loses messages, here one and there many, now and then the same as the other one."""
    chance = random.Random(1)
    left: dict[tuple[str, str], int] = {}

    def kept(_: int, record: Record) -> bool:
        way = record.stream, record.source
        if left.get(way, 0) == 0 and chance.random() < LOSSES:
            left[way] = chance.randint(1, LONGEST)
        lost = left.get(way, 0) > 0
        left[way] = left.get(way, 0) - lost
        return not lost

    return _kept(trace, kept)


def deaf(trace: Trace) -> Trace:
    """One witness hears nothing of the second half, and the other nothing of the first."""
    half = len(trace.records) // 2
    return _kept(trace, lambda at, record: (at < half) is (record.source == LIVE[0]))


def uneven(trace: Trace) -> Trace:
    """Of what both witnesses have, half is left to the one that heard it first."""
    chance = random.Random(1)
    heard: set[tuple[str, tuple[bytes, ...] | None]] = set()

    def kept(_: int, record: Record) -> bool:
        message = record.stream, record.frames
        again = message in heard
        heard.add(message)
        return not again or chance.random() < 1 / 2

    return _kept(trace, kept)


def cut(trace: Trace) -> Trace:
    """The harness ended in the middle."""
    return msgspec.structs.replace(trace, records=trace.records[: len(trace.records) // 2], interrupted=True)


def _kept(trace: Trace, kept: Callable[[int, Record], bool]) -> Trace:
    chosen = tuple(record for at, record in enumerate(trace.records) if not record.is_live or kept(at, record))
    return msgspec.structs.replace(trace, records=chosen)


BAD_DAYS: Mapping[str, BadDay] = {
    "late": BadDay(late, LEVELS),
    "lossy": BadDay(lossy),
    "deaf": BadDay(deaf),
    "uneven": BadDay(uneven, ("driven",)),
    "cut": BadDay(cut, LEVELS),
}
"""Every bad day by name."""
