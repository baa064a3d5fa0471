"""The course of a stream: its numbers, and how many blocks were resident, over the seconds of a run."""

from __future__ import annotations

from itertools import islice

import msgspec

from kvwire.conclusion.allowance import RESIDENT, Allowance
from kvwire.conclusion.diagnosis.residents import Residents
from kvwire.history.follower import HORIZON, Entry, Follower
from kvwire.history.timeline import Batch, Gap, Incarnation, Live
from kvwire.trace.records import Record, StreamInfo

COURSE = 240
"""At most so many points of a stream's course are drawn, and so many of its restarts and gaps."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a stream: its incarnation, seconds of the run, number, and how many blocks were resident behind it."""

    life: int
    after_s: float
    number: int
    resident: int


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """The course of a stream: its points, and when numbers fell back (a restart) or were left out (a gap)."""

    stream: str
    points: tuple[Point, ...]
    restarts: tuple[float, ...]
    gaps: tuple[float, ...]


class Courser:
    """Follows one stream, record by record, and remembers every so many batches; O(resident), and the horizon."""

    def __init__(self, info: StreamInfo) -> None:
        self._stream = info.name
        self._follower = Follower(self, replay=info.replay is not None, horizon=HORIZON)
        self._times: dict[int, float] = {}
        """When the last messages came, by record."""
        self._after_s = 0.0
        self._allowance = Allowance()
        self._residents = Residents()
        self._points: list[Point] = []
        self._every = 1
        self._batches = 0
        self._last: Point | None = None
        self._restarts: list[float] = []
        self._gaps: list[float] = []
        self._life = 0
        self._new = self._lost = False

    def take(self, index: int, record: Record, after_s: float) -> None:
        """Take the next record of the stream, or of none."""
        self._after_s = after_s
        self._allowance.now_ns = record.t_ns
        if record.frames is not None:
            self._times[index] = after_s
            if record.is_live:
                self._follower.is_copy(index, record)
        self._follower.take(index, record)
        if len(self._times) > 4 * HORIZON.batches:
            self._times = dict(islice(self._times.items(), 2 * HORIZON.batches, None))

    def course(self) -> Course | None:
        """The stream is over: its course, None where nothing was sent."""
        self._follower.finish()
        self._ends()
        if not self._points:
            return None
        return Course(
            stream=self._stream,
            points=tuple(self._points),
            restarts=tuple(self._restarts),
            gaps=tuple(self._gaps),
        )

    # what is settled

    def begins(self, incarnation: Incarnation) -> None:
        """An incarnation; the last batch of the one before is a point, and so is its first."""
        self._ends()
        self._batches = 0
        self._life = incarnation.index
        self._new, self._lost = incarnation.index > 0, False
        self._residents = Residents()

    def entry(self, number: int, entry: Entry) -> None:
        """The next batch, which came live and ascending."""
        self.batch(Batch(number=number, payload=entry.payload, record=entry.first, live=entry.first, seen_by=NOBODY))

    def batch(self, batch: Batch) -> None:
        """The next batch. One that came by replay only has no time of its own, and is no point."""
        self._allowance.read(batch)
        for event in batch.reading.events:
            self._residents.take(event, batch.number)
        if len(self._residents) > RESIDENT:
            self._residents = Residents()
        if batch.live is None:
            return
        after_s = self._times.get(batch.live, self._after_s)
        if self._new and len(self._restarts) < COURSE:
            self._restarts.append(after_s)
        if self._lost and len(self._gaps) < COURSE:
            self._gaps.append(after_s)
        self._new = self._lost = False
        self._last = Point(life=self._life, after_s=after_s, number=batch.number, resident=len(self._residents))
        if self._batches % self._every == 0:
            self._points.append(self._last)
            if len(self._points) > COURSE:
                self._points, self._every = self._points[::2], 2 * self._every
        self._batches += 1

    def _ends(self) -> None:
        if self._last is not None and self._points[-1] is not self._last:
            self._points.append(self._last)

    def gap(self, gap: Gap) -> None:
        """Numbers that nobody delivered."""
        self._lost = gap.first <= gap.last

    def in_order(self) -> None:
        """A live message in order."""

    def live(self, live: Live) -> None:
        """A live message that was classified."""


NOBODY: frozenset[str] = frozenset()
