"""Batches that are asked for as soon as they are heard: a batch is retained before it is sent (spec/replay.md)."""

from __future__ import annotations

import time

from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.traffic import Traffic

TIMES = 8
HEARD_S = 1.0


def _heard(session: Session, before: int | None) -> int | None:
    """The next number that a witness hears, as soon as it does; None when none comes in time."""
    recorder, stream = session.recorder, session.driven.name
    end = time.monotonic() + HEARD_S
    while time.monotonic() < end and session.left() > 0:
        newest = recorder.newest(stream)
        if newest is not None and newest != before:
            return newest
        recorder.pump(0.001)
    return None


def run(session: Session) -> None:
    """Cause a batch, ask from its number over a connection that is there already, and once more a little later."""
    traffic, stream = Traffic(session), session.driven
    if stream.replay is None or not traffic.able:
        return
    with ReplayClients(session) as replays:
        for _ in range(TIMES):
            client = replays.connect(stream)
            session.settle()
            before = session.recorder.newest(stream.name)
            traffic.one()
            number = _heard(session, before)
            if number is None or not client.reached:
                return
            replays.request(client, number)
            replays.await_answers([client])
            replays.ask(stream, number)


PROBE = Probe(
    name="retention",
    run=run,
    needs=frozenset({"replayable"}),
    serves="REP-013",
    bounds=f"{TIMES} batches, each heard within {HEARD_S:g} s; answers as in the replay probe",
)
