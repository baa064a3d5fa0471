"""The streams and fleets of the judges' tests as sessions. They are written, not received: always the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import msgspec

from kvwire_generators.sessions.index import Session, broken, honest

UGLY = "ugly-"
FLEET = "fleet-"
PROFILE = "replay"


def stories() -> Iterator[Session]:
    """Every story as a session, held to a profile of the standard.

    Raises:
        sessions.SessionError: when others speak of one than should.
    """
    from tests.judges.hashing.test_fleet import FLEETS  # in a checkout, with what its tests need
    from tests.judges.test_honest_but_ugly import ROWS

    for fleet, spoken in FLEETS:
        ids = sorted({f"KVW-{name}" for names in spoken.values() for name in names})
        name, comment = _said(FLEET, fleet)
        flags = ("synthetic", "two-streams")
        yield (
            broken(name, comment, flags, ids, fleet())
            if ids
            else honest(name, comment, (*flags, "honest"), ("KVW-HSH-001", "KVW-HSH-002", "KVW-HSH-003"), fleet())
        )
    for tell, witnesses in ROWS:
        told = tell().trace()
        name, comment = _said(UGLY, tell)
        yield honest(
            name=name,
            comment=comment,
            flags=("synthetic", "honest"),
            requirements=dict.fromkeys(f"KVW-{name}" for name in witnesses.split()),
            recording=msgspec.structs.replace(told, header=msgspec.structs.replace(told.header, profile=PROFILE)),
        )


def _said(prefix: str, tell: Callable[[], object]) -> tuple[str, str]:
    """Name and comment of a session, after the function that tells it."""
    name = tell.__name__.replace("_", "-")
    return prefix + name, inspect.cleandoc(tell.__doc__ or name)
