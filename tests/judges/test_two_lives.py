"""A run behind another one, cut off anywhere: what one life did is neither a fault nor an excuse of the next."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.kit.lives import two_lives

from kvwire.cache.ledger import Ledger
from kvwire.conclusion.conclude import conclude
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.trace.calls import PublishCall
from kvwire.trace.levels import lowered
from kvwire.trace.records import Trace
from kvwire.vectors import sessions

VECTORS = Path(__file__).parents[2] / "vectors"
NAMES = sorted(path.stem for path in (VECTORS / "session").glob("*.kvtrace"))
EPOCHS = frozenset({"KVW-SEQ-020"})
"""An epoch that comes again with the second life is one."""
SHORT = 12
"""Fewer records are no life."""


def spoken(recording: Trace) -> set[tuple[str, str]]:
    """Who speaks, by stream."""
    told = conclude(recording, registry.load(), registry.profile(recording.header.profile))
    return {(o.stream, o.requirement) for o in told.outcomes if o.verdict in (Verdict.FAIL, Verdict.WARN)}


def accused(name: str) -> set[tuple[str, str]]:
    """Who speaks of a session and of its beginning as two lives, and of neither alone."""
    recording = sessions.trace_of(VECTORS, name)
    if any(isinstance(record.detail, PublishCall) for record in recording.records):
        recording = lowered(recording, "replayable")  # offers name the times of the first life
    count = len(recording.records)
    found: set[tuple[str, str]] = set()
    if count >= SHORT:
        alone = spoken(recording)
        for cut in (count // 3, 2 * count // 3, count):
            beginning = msgspec.structs.replace(recording, records=recording.records[:cut])
            found |= spoken(two_lives(recording, cut)) - alone - spoken(beginning)
    return {(stream, requirement) for stream, requirement in found if requirement not in EPOCHS}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name.startswith("mutant-") else ()) for name in NAMES]
)
def test_nothing_of_a_life_is_held_against_the_next(name: str) -> None:
    assert accused(name) == set()


def test_a_ledger_that_remembers_another_life_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "begin", lambda *_, **__: None)
    assert {"KVW-RES-001"} <= {requirement for _, requirement in accused("eviction")}
