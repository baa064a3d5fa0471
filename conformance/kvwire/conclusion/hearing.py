"""What the records of a run tell beside the streams themselves, taken one at a time: no message is kept.

The sentences are judged elsewhere; this is for what surrounds them: connections, deaths, silence, probes, and the
events that stand at the places of findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvwire.history.rhythm import Heard
from kvwire.trace.packed import digest
from kvwire.trace.records import LIVE, Header, Record, Records, Trace

LIVE_NAMES = frozenset(map(str, LIVE))


class Pace:
    """When one stream was heard: nanoseconds of the first live message and the last (-1: none), and between two."""

    __slots__ = ("first_ns", "last_ns", "longest_ns")

    def __init__(self) -> None:
        self.first_ns = self.last_ns = -1
        self.longest_ns = 0


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
        self.cut = ""
        """Where the recording breaks off, if it has no end."""
        self.digest = ""
        """That of the recording."""
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
        if record.frames is None:
            self.details.append((index, record))
        elif record.source in LIVE_NAMES and (pace := self.paces.get(record.stream)) is not None:
            if pace.last_ns < 0:
                pace.first_ns = at
            elif at - pace.last_ns > pace.longest_ns:
                pace.longest_ns = at - pace.last_ns
            pace.last_ns = at
        return index

    def heard(self, name: str) -> Heard | None:
        """When a stream was heard; None where it never was."""
        pace = self.paces[name]
        if pace.last_ns < 0:
            return None
        return Heard(
            began_ns=self._begin,
            first_ns=pace.first_ns,
            last_ns=pace.last_ns,
            longest_ns=pace.longest_ns,
            ended_ns=self._newest,
        )

    def last(self, name: str) -> float | None:
        """When a stream was heard last; None where it never was."""
        pace = self.paces[name]
        return None if pace.last_ns < 0 else (pace.last_ns - self._begin) / 1e9

    @property
    def end(self) -> float:
        """When the last record was made."""
        return (self._newest - self._begin) / 1e9

    def at(self, record: Record) -> float:
        """When a record was made."""
        return self.at_ns(record.t_ns)

    def at_ns(self, t_ns: int) -> float:
        """When something was, by the clock of records."""
        return (t_ns - self._begin) / 1e9

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
        hearing.interrupted, hearing.cut, hearing.digest = trace.interrupted, trace.cut, digest(trace)
        return hearing


def of_stream(records: Iterable[tuple[int, Record]], stream: str) -> Records:
    """The records of one stream; those of no stream belong to every one."""
    return [(index, record) for index, record in records if record.stream in ("", stream)]
