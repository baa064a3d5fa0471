"""What one live witness lacks and another source delivered: lost on the way to that witness.

It says nothing against the publisher, which sent it; nor does it leave a gap in the timeline, where one source is
enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import msgspec

from kvwire.history.timeline import Timeline
from kvwire.trace.records import LIVE


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers ``first`` to ``last`` of an incarnation that the witness ``source`` lacks; ``count`` were delivered."""

    source: str
    incarnation: int
    first: int
    last: int
    count: int
    delivered_by: str


class _Lacks:
    """What a witness lacks since it heard something last."""

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        self.count = 0
        self.by: set[str] = set()


class Losses:
    """The losses of every witness, between what it heard itself of an incarnation before and after.

    ``room``: how many are kept; ``more`` counts the rest. ``heard`` are the witnesses of this incarnation so far.
    """

    def __init__(self, room: int | None = None) -> None:
        self.heard: set[str] = set()
        self.more = 0
        self._room = room
        self._found: list[Loss] = []
        self._lacks: dict[str, _Lacks] = {}

    def begin(self) -> None:
        """Another incarnation."""
        self.heard.clear()
        self._lacks.clear()

    def settled(self, incarnation: int, number: int, seen_by: Set[str]) -> None:
        """The next batch, and who delivered it."""
        for source in LIVE:
            if source in seen_by:
                self.heard.add(source)
                if (lacks := self._lacks.pop(source, None)) is not None:
                    self._add(_loss(str(source), incarnation, lacks))
            elif source in self.heard:
                lacks = self._lacks.setdefault(source, _Lacks(number))
                lacks.last = number
                lacks.count += 1
                lacks.by.update(seen_by)

    def _add(self, loss: Loss) -> None:
        if self._room is not None and len(self._found) >= self._room:
            self.more += 1
        else:
            self._found.append(loss)

    def __iter__(self) -> Iterator[Loss]:
        return iter(sorted(self._found, key=lambda loss: (loss.source, loss.incarnation)))


def losses(timeline: Timeline) -> Losses:
    """The losses of a whole timeline."""
    heard: dict[tuple[str, int], set[int]] = {}
    for live in timeline.live:
        heard.setdefault((live.source, live.incarnation), set()).add(live.number)
    found = Losses()
    for incarnation in timeline.incarnations:
        found.begin()
        for batch in incarnation.batches:
            witnesses = {source for source in LIVE if batch.number in heard.get((source, incarnation.index), ())}
            found.settled(incarnation.index, batch.number, batch.seen_by | witnesses)
    return found


def _loss(source: str, incarnation: int, lacks: _Lacks) -> Loss:
    live = [name for name in sorted(lacks.by) if name.startswith("live-")]
    return Loss(
        source=source,
        incarnation=incarnation,
        first=lacks.first,
        last=lacks.last,
        count=lacks.count,
        delivered_by=" and ".join(live) if live else "a replay",
    )
