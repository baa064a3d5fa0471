"""The live subscription: is every stream healthy, and do both witnesses hear it?"""

from __future__ import annotations

from kvwire.attack.probes.kit.readiness import handshakes, prime
from kvwire.attack.probes.kit.session import Probe, Session

HEARD = "ENV SEQ-003 SEQ-004 SEQ-005 BAT EVT CHN HSH RES-001 RES-002 RES-004 RES-005 RNK-001 RNK-002 RNK-003"
"""Sentences that whatever is heard of a stream can break."""


def run(session: Session) -> None:
    """Handshakes; then prime a driven stream, or listen to one that cannot be driven."""
    if not handshakes(session):
        return
    if session.driver is not None:
        prime(session)
    else:
        session.wait(lambda: False, session.limits.listen_s)


PROBE = Probe(
    name="live",
    mode="quick",
    run=run,
    needs=frozenset({"passive"}),
    serves=f"{HEARD} SEQ-006 SEQ-008 SEQ-019",
    bounds="handshakes within handshake_s; a driven stream is primed within prime_s, another is heard for listen_s",
)
