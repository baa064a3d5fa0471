"""The profile of each stream that stands in every result: made when a run is over, from how it began."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvwire.conclusion.diagnosis.agreement import Agreement, compare
from kvwire.conclusion.diagnosis.stream_profile import Profiler, StreamProfile
from kvwire.trace.marks import ProbeMark
from kvwire.trace.records import Record, StreamInfo

RECORDS = 4096
"""So many records of a stream are looked at; a profile says when there were more."""
BYTES = 4 * 1024 * 1024
"""So many bytes of them."""
STREAMS = 4
"""More streams than so many share what these would be given."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is on the streams of a run, and of those that share prompts, whether they hash alike."""

    profiles: tuple[StreamProfile, ...] = ()
    agreements: tuple[Agreement, ...] = ()


class Beginning:
    """The first records of each declared stream; memory is bounded, and so is the time that the profiles take."""

    def __init__(self, streams: Sequence[StreamInfo]) -> None:
        share = max(1.0, len(streams) / STREAMS)
        self._streams = {info.name: _Kept(info, share) for info in streams}
        self.open = dict(self._streams)
        """The streams that take more."""

    def take(self, record: Record) -> None:
        """Take the next record of the run; which probe was at work says nothing of a stream."""
        if isinstance(record.detail, ProbeMark):
            return
        of = [record.stream] if record.stream else list(self.open)
        for name in of:
            if (stream := self.open.get(name)) is not None and not stream.take(record):
                del self.open[name]

    def told(self) -> Told:
        """A profile of each stream, and what came of comparing them."""
        several = len(self._streams) > 1
        made = [stream.profiler(prefixes=several) for stream in self._streams.values()]
        profiles = (profiler.made(part=kept.full) for profiler, kept in zip(made, self._streams.values(), strict=True))
        return Told(profiles=tuple(profiles), agreements=compare(made) if several else ())


class _Kept:
    def __init__(self, info: StreamInfo, share: float) -> None:
        self._info = info
        self._share = share
        self._records: list[Record] = []
        self._bytes = 0
        self.full = False

    def take(self, record: Record) -> bool:
        """Take a record, unless there are enough; whether it did."""
        self._bytes += sum(map(len, record.frames or ()))
        self.full = len(self._records) * self._share >= RECORDS or self._bytes * self._share > BYTES
        if not self.full:
            self._records.append(record)
        return not self.full

    def profiler(self, *, prefixes: bool) -> Profiler:
        profiler = Profiler(self._info, hurried=True, prefixes=prefixes)
        for record in self._records:
            profiler.take(record)
        return profiler
