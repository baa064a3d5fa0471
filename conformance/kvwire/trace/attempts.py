"""Attempts to make ``publish`` wait, read back from the records of a trace.

What was offered in an attempt stands between ``strain`` {situation} and ``strain-done`` {situation, stalled_ms}: the
longest time for which a thread of the harness was held up meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kvwire.trace.records import Record, Source
from kvwire.trace.stimuli import OFFERING, offers


class Strain(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: its record, the calls in it, the longest of them and the longest stall of the machine, in ms."""

    record: int
    situation: str
    calls: int
    longest_ms: float
    stalled_ms: float


def strains(records: Sequence[tuple[int, Record]]) -> Iterator[Strain]:
    """Every attempt of one stream that was carried to its end, in order."""
    begun: int | None = None
    offering: list[tuple[int, Record]] = []
    for index, record in records:
        if record.source != Source.STIMULUS:
            continue
        if record.event == "strain":
            begun, offering = index, []
        elif record.event in OFFERING:
            offering.append((index, record))
        elif record.event == "strain-done" and begun is not None:
            times = [offer.blocked_us for offer in offers(offering) if offer.blocked_us is not None]
            yield Strain(
                record=begun,
                situation=str(record.detail["situation"]),
                calls=len(times),
                longest_ms=max(times, default=0) / 1000,
                stalled_ms=float(record.detail["stalled_ms"]),
            )
            begun = None
