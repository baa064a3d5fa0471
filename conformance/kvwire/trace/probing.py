"""Which probe was at work when a record was made: read back from the marks of a trace, where it has any."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable

from kvwire.trace.marks import ProbeMark
from kvwire.trace.records import Record, told


def probes(records: Iterable[Record]) -> Callable[[int], str | None]:
    """Tells from the index of a record the probe during which it was made; None outside of any."""
    return probes_at(enumerate(records))


def probes_at(records: Iterable[tuple[int, Record]]) -> Callable[[int], str | None]:
    """The same from records with their indices, those of marks at least."""
    marks = [(index, mark.name if mark.phase == "begins" else None) for index, mark in told(records, ProbeMark)]

    def probe_of(record: int) -> str | None:
        at = bisect.bisect_right(marks, record, key=lambda mark: mark[0])
        return marks[at - 1][1] if at else None

    return probe_of
