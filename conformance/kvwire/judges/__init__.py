"""The judges: one file per area of the standard, and the table that gives each id its one place."""

from __future__ import annotations

from collections.abc import Mapping

from kvwire.judges.area import Area, table
from kvwire.judges.batch import BatchArea
from kvwire.judges.chain import Chain
from kvwire.judges.completeness import Completeness
from kvwire.judges.endpoint import Endpoint
from kvwire.judges.envelope import Envelope
from kvwire.judges.event import EventArea
from kvwire.judges.exposure import Exposure
from kvwire.judges.hashing import Hashing
from kvwire.judges.liveness import Liveness
from kvwire.judges.rank import Rank
from kvwire.judges.replay import Replay
from kvwire.judges.residency import Residency
from kvwire.judges.reuse import Reuse
from kvwire.judges.sequence import Sequence
from kvwire.judges.service import Service

AREAS: tuple[type[Area], ...] = (
    Envelope,
    Sequence,
    BatchArea,
    EventArea,
    Chain,
    Hashing,
    Residency,
    Reuse,
    Replay,
    Completeness,
    Service,
    Rank,
    Endpoint,
    Liveness,
    Exposure,
)
"""Every area that has a judge, in the order of reports."""

TABLE: Mapping[str, str] = {
    requirement: f"{area.name}.{method}" for area in AREAS for requirement, method in table(area).items()
}
"""Requirement id → ``file.method`` of the one place that decides it."""
