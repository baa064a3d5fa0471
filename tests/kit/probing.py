"""Probes against a live target, and what they left in the trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvwire.attack.probes.kit.session import Limits, Session
from kvwire.attack.targets import TraceTarget, parse
from kvwire.attack.witness import Recorder
from kvwire.history.timeline import build
from kvwire.trace.records import Kind, Record, Source, told
from kvwire.wire import dialect
from kvwire.wire.events import Event
from kvwire.wire.framing import split_live

QUICK = Limits(handshake_s=2.0, prime_s=2.0, listen_s=0.3, settle_s=1.0, quiet_s=0.15, replay_s=0.5, late_s=0.05)


@contextmanager
def session(recorder: Recorder, text: str, limits: Limits = QUICK) -> Iterator[Session]:
    target = parse(text)
    assert not isinstance(target, TraceTarget)
    opened = target.open(recorder)
    try:
        yield opened.session(recorder, limits=limits)
    finally:
        opened.close()


def marks(recorder: Recorder, kind: type[Kind]) -> list[Kind]:
    return [detail for _, detail in told(enumerate(recorder.records), kind)]


def events(recorder: Recorder, source: Source = Source.LIVE_A, end: int | None = None) -> list[Event]:
    found: list[Event] = []
    for record in recorder.records[:end]:
        if record.source == source and record.frames is not None and (parts := split_live(record.frames)):
            found += dialect.read(parts[1]).events
    return found


def is_whole(records: list[Record]) -> bool:
    """Whether every life was heard from its start without a gap."""
    timeline = build(enumerate(records))
    return all(not incarnation.gaps and incarnation.origin_known for incarnation in timeline.incarnations)
