"""The judges: a file or folder per chapter of the standard, and the table that gives each id its one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvwire.judges.area import Area, Judge, judges_of
from kvwire.judges.batch import BatchArea
from kvwire.judges.chain import Chain
from kvwire.judges.endpoint import Endpoint
from kvwire.judges.envelope import Envelope
from kvwire.judges.event.items import Items
from kvwire.judges.event.salts import Salts
from kvwire.judges.event.values import Values
from kvwire.judges.exposure import Exposure
from kvwire.judges.hashing import Hashing
from kvwire.judges.liveness import Liveness
from kvwire.judges.rank import Rank
from kvwire.judges.replay.answers import Answers
from kvwire.judges.replay.completeness import Completeness
from kvwire.judges.replay.pressure import Pressure
from kvwire.judges.residency.limit import Limit
from kvwire.judges.residency.reuse import Reuse
from kvwire.judges.residency.stream import Residency
from kvwire.judges.sequence.counters import Counters
from kvwire.judges.sequence.numbers import Numbers
from kvwire.judges.sequence.offers import Offers

AREAS: tuple[type[Area], ...] = (
    Envelope,
    Numbers,
    Offers,
    Counters,
    BatchArea,
    Values,
    Items,
    Salts,
    Chain,
    Hashing,
    Residency,
    Reuse,
    Limit,
    Answers,
    Completeness,
    Pressure,
    Rank,
    Endpoint,
    Liveness,
    Exposure,
)
"""Every area that has a judge, in the order of reports."""

JUDGES: Mapping[str, Judge[Any, ...]] = {judge.requirement: judge for area in AREAS for judge in judges_of(area)}
"""Requirement id → the one place that decides it."""

TABLE: Mapping[str, str] = {requirement: judge.place for requirement, judge in JUDGES.items()}
"""Requirement id → ``module.method`` of the one place that decides it."""
