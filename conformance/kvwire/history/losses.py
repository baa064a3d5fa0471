"""What one live witness lacks and another source delivered: lost on the way to that witness.

It says nothing against the publisher, which sent it; nor does it leave a gap in the timeline, where one source is
enough.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from kvwire.history.timeline import Batch, Incarnation, Timeline


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers ``first`` to ``last`` of an incarnation that the witness ``source`` lacks; ``count`` were delivered."""

    source: str
    incarnation: int
    first: int
    last: int
    count: int
    delivered_by: str


def losses(timeline: Timeline) -> Iterator[Loss]:
    """The losses of every witness, between what it heard itself of an incarnation before and after."""
    heard: dict[tuple[str, int], set[int]] = defaultdict(set)
    for live in timeline.live:
        heard[live.source, live.incarnation].add(live.number)
    for (source, index), numbers in sorted(heard.items()):
        incarnation = timeline.incarnations[index]
        at = {batch.number: batch for batch in incarnation.batches}
        known = sorted(at)
        for before, after in itertools.pairwise(sorted(numbers)):
            missing = [at[n] for n in known[bisect.bisect(known, before) : bisect.bisect_left(known, after)]]
            if missing:
                yield _loss(source, incarnation, missing)


def _loss(source: str, incarnation: Incarnation, missing: list[Batch]) -> Loss:
    by = sorted(frozenset[str]().union(*(batch.seen_by for batch in missing)))
    live = [name for name in by if name.startswith("live-")]
    return Loss(
        source=source,
        incarnation=incarnation.index,
        first=missing[0].number,
        last=missing[-1].number,
        count=len(missing),
        delivered_by=" and ".join(live) if live else "a replay",
    )
