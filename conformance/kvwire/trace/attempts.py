"""Attempts to make ``publish`` wait, read back from the records of a trace."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvwire.trace.calls import OFFERING
from kvwire.trace.marks import StrainBegins, StrainDone
from kvwire.trace.records import Record, Records
from kvwire.trace.stimuli import offers


class Strain(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: its record, the calls in it, the longest of them and the longest stall of the machine, in ms."""

    record: int
    situation: str
    calls: int
    longest_ms: float
    stalled_ms: float


def strains(records: Records) -> Iterator[Strain]:
    """Every attempt of one stream that was carried to its end, in order."""
    begun: int | None = None
    offering: list[tuple[int, Record]] = []
    for index, record in records:
        match record.detail:
            case StrainBegins():
                begun, offering = index, []
            case StrainDone() as done if begun is not None:
                times = [offer.blocked_us for offer in offers(offering) if offer.blocked_us is not None]
                yield Strain(
                    record=begun,
                    situation=done.situation,
                    calls=len(times),
                    longest_ms=max(times, default=0) / 1000,
                    stalled_ms=done.stalled_ms,
                )
                begun = None
            case detail if isinstance(detail, OFFERING):
                offering.append((index, record))
