"""The same run on a bad day: what its witnesses missed. The publisher did what it did, so whoever speaks is wrong.

Each day is made of a recorded run by leaving out live messages, as a subscriber misses them that comes late, is too slow
or is cut off. What the harness did to the publisher, and what was answered to a replay request, stays.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec

from kvwire.trace.records import LIVE, Record, Trace

LATE = 1 / 3
"""Of the messages of a stream, those that were sent before anybody listened."""
LOSSES = 0.01
"""Of all messages, those at which a witness loses some."""
LONGEST = 40
"""How many it loses then, at most."""


def late(trace: Trace) -> Trace:
    """Nobody listened in the beginning: neither witness has the first third of a stream."""
    numbers: dict[str, list[int]] = {}
    for at, record in enumerate(trace.records):
        if record.is_live:
            numbers.setdefault(record.stream, []).append(at)
    begins = {stream: places[int(len(places) * LATE)] for stream, places in numbers.items()}
    return _kept(trace, lambda at, record: at >= begins[record.stream])


def lossy(trace: Trace) -> Trace:
    """Each witness loses messages, here one and there many, now and then the same as the other one."""
    chance = random.Random(1)
    left = dict.fromkeys(((stream, source) for stream in {r.stream for r in trace.records} for source in LIVE), 0)

    def kept(_: int, record: Record) -> bool:
        way = record.stream, record.source
        if not left.get(way, 0) and chance.random() < LOSSES:
            left[way] = chance.randint(1, LONGEST)
        if left.get(way, 0):
            left[way] -= 1
            return False
        return True

    return _kept(trace, kept)


def deaf(trace: Trace) -> Trace:
    """One witness hears nothing of the second half, and the other nothing of the first."""
    half = len(trace.records) // 2
    return _kept(trace, lambda at, record: (at < half) is (record.source == LIVE[0]))


def cut(trace: Trace) -> Trace:
    """The harness ended in the middle."""
    return msgspec.structs.replace(trace, records=trace.records[: len(trace.records) // 2], interrupted=True)


def _kept(trace: Trace, kept: Callable[[int, Record], bool]) -> Trace:
    chosen = tuple(record for at, record in enumerate(trace.records) if not record.is_live or kept(at, record))
    return msgspec.structs.replace(trace, records=chosen)


BAD_DAYS: Mapping[str, Callable[[Trace], Trace]] = {"late": late, "lossy": lossy, "deaf": deaf, "cut": cut}
"""Every bad day by name."""
