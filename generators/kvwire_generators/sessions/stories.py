"""The honest but ugly streams of the judges' tests as sessions. They are written, not received: always the same."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import msgspec

from kvwire_generators.sessions.index import Session, honest

PREFIX = "ugly-"
PROFILE = "replay"


def stories() -> Iterator[Session]:
    """Every story as a session, held to a profile of the standard.

    Raises:
        sessions.SessionError: when a judge speaks of one.
    """
    from tests.judges.test_honest_but_ugly import ROWS  # in a checkout, with what its tests need

    for tell, witnesses in ROWS:
        told = tell().trace()
        yield honest(
            name=PREFIX + tell.__name__.replace("_", "-"),
            comment=inspect.cleandoc(tell.__doc__ or tell.__name__.replace("_", " ")),
            flags=("synthetic", "honest"),
            requirements=dict.fromkeys(f"KVW-{name}" for name in witnesses.split()),
            recording=msgspec.structs.replace(told, header=msgspec.structs.replace(told.header, profile=PROFILE)),
        )
