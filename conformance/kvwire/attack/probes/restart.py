"""A new life of the publisher on the same endpoints, with the subscribers kept open."""

from __future__ import annotations

from kvwire.attack.probes.kit.readiness import handshakes, prime
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.workload import some


def run(session: Session) -> None:
    """Restart, wait for the witnesses to be back, work a little, and ask for everything from 0."""
    driver = session.driver
    assert driver is not None
    recorder = session.recorder
    session.settle()
    before: dict[tuple[str, str], int] = {
        (stream.name, source): recorder.handshakes(stream.name, source)
        for stream in session.streams
        for source in recorder.witnesses(stream.name)
    }
    driver.restart()
    session.offers.forget()
    if not handshakes(session, before):
        return
    prime(session)
    some(session)
    session.settle()
    for stream in session.streams:
        if stream.replay is not None:
            with ReplayClients(session) as replays:
                replays.ask(stream, 0)
                replays.linger()


PROBE = Probe(
    name="restart",
    run=run,
    needs=frozenset({"restart"}),
    serves="SEQ-001 SEQ-002 SEQ-007 SEQ-008 SEQ-009 SEQ-019 SEQ-020 REP-001 REP-026 REP-002 REP-003 REP-013 REP-014",
    must_survive=("KVW-SEQ-007",),
    bounds="handshakes within handshake_s, both witnesses primed within prime_s, replay as in the replay probe",
)
