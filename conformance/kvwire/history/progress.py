"""How far the live stream had come when something else was recorded.

Numbers tell, not records: a batch that one witness lost and another delivers late stands where its number is.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import msgspec

from kvwire.history.segments import REPLACING
from kvwire.history.timeline import Timeline
from kvwire.trace.instances import Records
from kvwire.trace.records import Record
from kvwire.trace.stimuli import succeeded

Place = tuple[int, int]
"""Incarnation and number."""
END: Place = (2**63, 0)
"""Behind every place."""


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
        if succeeded(record, "stats") and record.detail.get("offered") is not None:
            self._counts.append((index, int(record.detail["offered"])))

    def heard(self, index: int, place: Place | None) -> bool:
        """Whether a stream that had come to a place when a record was made was drained, as far as it was counted."""
        offered = next((count for at, count in reversed(self._counts) if at < index), 0)
        return place is not None and place[1] + 1 >= offered


class Stimulus(msgspec.Struct, frozen=True):
    """Something that was done to the publisher, and the place that its live stream had reached then.

    ``known``: that is certain; else it is the place of the last stimulus whose place is. ``drained``: all that the
    publisher had counted as offered was heard by then.
    """

    index: int
    record: Record
    place: Place
    known: bool
    drained: bool


def stimuli(records: Records, timeline: Timeline) -> tuple[Stimulus, ...]:
    """The stimuli of a stream, from their records, in order: so are their places."""
    heard = Heard(timeline, [index for index, record in records if record.event in REPLACING])
    counted = Counted()
    found: list[Stimulus] = []
    last: Place = (-1, -1)
    for index, record in records:
        place = heard.when(index)
        last = place or last
        found.append(Stimulus(index, record, last, place is not None, counted.heard(index, place)))
        counted.add(index, record)
    return tuple(found)
