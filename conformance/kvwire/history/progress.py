"""How far the live stream had come when something else was recorded.

Numbers tell, not records: a batch that one witness lost and another delivers late stands where its number is.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from kvwire.history.timeline import Timeline
from kvwire.trace.calls import StatsCall
from kvwire.trace.records import Record

Place = tuple[int, int]
"""Incarnation and number."""


class Heard:
    """The places of one stream. ``replaced``: records at which the harness started, restarted or stopped it."""

    def __init__(self, timeline: Timeline, replaced: Sequence[int]) -> None:
        live = sorted(
            (batch.live, (life.index, batch.number))
            for life in timeline.incarnations
            for batch in life.batches
            if batch.live is not None
        )
        self._records = [record for record, _ in live]
        self._newest: list[Place] = []
        for _, place in live:
            self._newest.append(max(place, self._newest[-1]) if self._newest else place)
        self._replaced = replaced

    def when(self, record: int) -> Place | None:
        """The newest batch that was heard before a record; None before the first, or if another life began since."""
        at = bisect.bisect_left(self._records, record) - 1
        if at < 0 or any(self._records[at] < index < record for index in self._replaced):
            return None
        return self._newest[at]


class Counted:
    """The publisher's own counts of offers: was everything that they include heard when something else was recorded?"""

    def __init__(self) -> None:
        self._counts: list[tuple[int, int]] = []

    def add(self, index: int, record: Record) -> None:
        """Take note of a ``stats`` stimulus that carries a count."""
        match record.detail:
            case StatsCall(succeeded=True, offered=int(offered)):
                self._counts.append((index, offered))

    def heard(self, index: int, place: Place | None) -> bool:
        """Whether a stream that had come to a place when a record was made was drained, as far as it was counted."""
        offered = next((count for at, count in reversed(self._counts) if at < index), 0)
        return place is not None and place[1] + 1 >= offered


class Agenda:
    """What is to be done once the stream stands at a place, in order of places and then of records."""

    def __init__(self) -> None:
        self._items: list[tuple[Place, int, Callable[[], None]]] = []
        self._next = 0

    def add(self, place: Place | None, record: int, act: Callable[[], None]) -> None:
        """Add something before anything is done; nothing is done at a place that is not known."""
        if place is not None:
            bisect.insort(self._items, (place, record, act), key=lambda item: item[:2])

    def reach(self, place: Place) -> None:
        """Do what is to be done before a place."""
        while self._next < len(self._items) and self._items[self._next][0] < place:
            act = self._items[self._next][2]
            self._next += 1
            act()
