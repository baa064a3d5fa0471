"""Which probe was at work when a record was made.

A probe stands between two records of source ``harness`` and event ``probe`` {name, phase: begins | ends}, which belong
to every stream. Traces that were recorded without them tell of none.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from kvwire.trace.records import Record, Source

PROBE = "probe"
BEGINS, ENDS = "begins", "ends"


def probes(records: Sequence[Record]) -> Callable[[int], str | None]:
    """Tells from the index of a record the probe during which it was made; None outside of any."""
    marks = [
        (index, str(record.detail["name"]) if record.detail["phase"] == BEGINS else None)
        for index, record in enumerate(records)
        if record.source == Source.HARNESS and record.event == PROBE
    ]
    starts = [index for index, _ in marks]

    def probe_of(record: int) -> str | None:
        at = bisect.bisect_right(starts, record)
        return marks[at - 1][1] if at else None

    return probe_of
