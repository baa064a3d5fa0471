"""What the records of a run tell beside the streams themselves, taken one at a time: no message is kept.

The sentences are judged elsewhere; this is for what surrounds them: connections, deaths, silence, probes, and the
events that stand at the places of findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvwire.trace.instances import Rhythm
from kvwire.trace.records import Header, Record, Records, Trace


class Pace:
    """When one stream was heard, in seconds since the first record of the run."""

    def __init__(self) -> None:
        self.last: float | None = None
        self.longest = 0.0
        """The longest time between two messages."""

    def add(self, at: float) -> None:
        """A live message."""
        if self.last is not None and at - self.last > self.longest:
            self.longest = at - self.last
        self.last = at


class Hearing:
    """What was heard in a run. ``records`` is how many there were; ``details`` are those without frames.

    ``kept`` holds the records in which findings were made, by index; memory is O(details), and the findings.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self.records = 0
        self.details: list[tuple[int, Record]] = []
        self.kept: Mapping[int, Record] = {}
        self.interrupted = False
        self.rhythm = Rhythm()
        """Of the declared streams."""
        self.paces: dict[str, Pace] = {stream.name: Pace() for stream in header.streams}
        self._begin = 0
        self._newest = 0

    def take(self, record: Record) -> int:
        """Take the next record; its index."""
        index, at = self.records, record.t_ns
        self.records = index + 1
        if not index:
            self._begin = self._newest = at
        elif at > self._newest:
            self._newest = at
        if record.detail is not None:
            self.details.append((index, record))
        if record.is_live and (pace := self.paces.get(record.stream)) is not None:
            pace.add((at - self._begin) / 1e9)
            self.rhythm.add(record.stream, index)
        return index

    @property
    def end(self) -> float:
        """When the last record was made."""
        return (self._newest - self._begin) / 1e9

    def at(self, record: Record) -> float:
        """When a record was made."""
        return (record.t_ns - self._begin) / 1e9

    def details_of(self, stream: str) -> list[Record]:
        """What is told of one stream."""
        return [record for _, record in self.details if record.stream == stream]

    @classmethod
    def of(cls, trace: Trace) -> Hearing:
        """That of a whole trace."""
        hearing = cls(trace.header)
        for record in trace.records:
            hearing.take(record)
        hearing.kept = dict(enumerate(trace.records))
        hearing.interrupted = trace.interrupted
        return hearing


def of_stream(records: Iterable[tuple[int, Record]], stream: str) -> Records:
    """The records of one stream; those of no stream belong to every one."""
    return [(index, record) for index, record in records if record.stream in ("", stream)]
