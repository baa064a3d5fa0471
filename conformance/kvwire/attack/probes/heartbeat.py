"""An idle time, and whether the declared heartbeat comes."""

from __future__ import annotations

import time
from typing import Literal

from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.standard.statement import Stream
from kvwire.trace.marks import IdleDone
from kvwire.wire.dialect import read
from kvwire.wire.framing import split_live

LONGEST_S = 2.0
"""The longest declared interval that a plain run waits for."""
GRACE_S = 1.0
"""What a heartbeat may be late: this machine may be busy."""
TRIES = 3
"""How often something else may come in between."""


def wait(session: Session, stream: Stream, interval: float) -> None:
    """Wait for an empty batch after silence, again where none comes; record what came of it."""
    for _ in session.attempts(stream.name):
        if _wait(session, stream, interval) != "bound":
            return


def _wait(session: Session, stream: Stream, interval: float) -> Literal["seen", "bound", "busy"] | None:
    """One wait, for twice the interval; what came of it, None when the run is over.

    ``busy``: something else came each time.
    """
    bound = 2 * interval + GRACE_S
    outcome: Literal["seen", "bound", "busy"] = "busy"
    after = 0.0
    for _ in range(TRIES):
        began = time.monotonic()
        before = session.counts(stream)

        def spoken(before: dict[str, int] = before) -> bool:
            return any(count > before[source] for source, count in session.counts(stream).items())

        came = session.wait(spoken, bound)
        after = time.monotonic() - began
        if session.left() <= 0:
            return None
        if not came:
            outcome = "bound"
            break
        if after >= interval / 2 and _newest_is_empty(session, stream):
            outcome = "seen"
            break
    session.mark(IdleDone(outcome=outcome, after_s=round(after, 3), bound_s=bound), stream.name)
    return outcome


def _newest_is_empty(session: Session, stream: Stream) -> bool:
    for record in reversed(session.recorder.records):
        if record.is_live and record.stream == stream.name and record.frames is not None:
            parts = split_live(record.frames)
            return parts is not None and not read(parts[1]).events
    return False


def run(session: Session) -> None:
    """Every stream of the run."""
    interval = session.statement.bounds.heartbeat_s
    if interval is None or interval > LONGEST_S:
        return
    for stream in session.streams:
        wait(session, stream, interval)


def run_long(session: Session) -> None:
    """Every stream, where the interval is longer than a plain run waits."""
    interval = session.statement.bounds.heartbeat_s
    if interval is not None and interval > LONGEST_S:
        for stream in session.streams:
            wait(session, stream, interval)


PROBE = Probe(
    name="heartbeat",
    run=run,
    needs=frozenset({"heartbeat"}),
    serves="LIV-002",
    bounds=f"twice the declared interval and {GRACE_S:g} s, where the interval is {LONGEST_S:g} s at most",
)
LONG = Probe(
    name="heartbeat-long",
    run=run_long,
    needs=frozenset({"heartbeat"}),
    serves="LIV-002",
    mode="thorough",
    bounds=f"twice the declared interval and {GRACE_S:g} s",
)
