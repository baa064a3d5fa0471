"""The numbers of a stream as ranges; O(holes)."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from kvwire.trace.records import Record
from kvwire.wire.framing import split_live


class Ranges:
    """Numbers that came live, in whatever order. ``first_records``: in which records the first ones of ranges stand."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.first_records: list[int] = []

    @classmethod
    def of(cls, records: Iterable[tuple[int, Record]]) -> Ranges:
        """Those of the live messages of a stream."""
        ranges = cls()
        for index, record in records:
            ranges.take(index, record)
        return ranges

    def take(self, index: int, record: Record) -> None:
        """Note the number of a record that is a live message."""
        if record.is_live and record.frames is not None and (parts := split_live(record.frames)) is not None:
            self.add(parts[0], index)

    def add(self, number: int, record: int) -> None:
        """Note a number."""
        ends = self.ends
        if ends and number == ends[-1] + 1:
            ends[-1] = number
            return
        at = bisect.bisect_right(self.starts, number) - 1
        if at >= 0 and number <= ends[at]:
            return
        below = at >= 0 and ends[at] + 1 == number
        above = at + 1 < len(ends) and self.starts[at + 1] == number + 1
        if below and above:
            ends[at] = ends[at + 1]
            for column in (self.starts, ends, self.first_records):
                del column[at + 1]
        elif below:
            ends[at] = number
        elif above:
            self.starts[at + 1], self.first_records[at + 1] = number, record
        else:
            for column, value in ((self.starts, number), (ends, number), (self.first_records, record)):
                column.insert(at + 1, value)

    def __len__(self) -> int:
        return sum(self.ends) - sum(self.starts) + len(self.ends)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.starts, self.ends, strict=True))

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Two numbers of each, the last one before a hole and the first one behind it."""
        return list(zip(self.ends, self.starts[1:], strict=False))

    def record_of(self, start: int) -> int:
        """The record in which the first number of a range came first."""
        return self.first_records[bisect.bisect_left(self.starts, start)]

    def hold(self, first: int, last: int) -> bool:
        """Whether all numbers from first to last are there."""
        at = bisect.bisect_right(self.starts, first) - 1
        return at >= 0 and last <= self.ends[at]

    def meet(self, other: Ranges) -> bool:
        """Whether a number is in both."""
        return any(other.touches(first, last) for first, last in self)

    def touches(self, first: int, last: int) -> bool:
        """Whether any number from first to last is there."""
        at = bisect.bisect_right(self.starts, last) - 1
        return at >= 0 and self.ends[at] >= first

    @classmethod
    def union(cls, many: Iterable[Ranges]) -> Ranges:
        """All numbers of several; their records do not tell anything."""
        joined = cls()
        for first, last in sorted(pair for ranges in many for pair in ranges):
            if joined.ends and first <= joined.ends[-1] + 1:
                joined.ends[-1] = max(joined.ends[-1], last)
            else:
                joined.starts.append(first)
                joined.ends.append(last)
                joined.first_records.append(-1)
        return joined
