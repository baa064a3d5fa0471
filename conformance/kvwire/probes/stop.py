"""The two ends of a driven run: does it still work, and does it stop in good order?"""

from __future__ import annotations

from kvwire.probes.live import prime
from kvwire.probes.session import Probe, Session

GRACE_S = 1.0
"""What the witnesses get on top of the declared bound to see the publisher go."""


def sanity(session: Session) -> None:
    """One batch that every witness sees, and the counters."""
    prime(session)
    session.stats()


def run(session: Session) -> None:
    """Stop when everything has been seen, and wait for the witnesses to see the publisher go."""
    driver = session.driver
    assert driver is not None
    recorder = session.recorder
    session.settle()
    session.stats()
    driver.stop()
    stream = session.driven.name
    session.wait(
        lambda: all(
            recorder.disconnects(stream, source) >= recorder.handshakes(stream, source)
            for source in recorder.witnesses(stream)
        ),
        session.statement.bounds.stop_s + GRACE_S,
    )
    if "stats" in driver.can:
        session.stats()


SANITY = Probe(
    name="sanity",
    mode="quick",
    run=sanity,
    needs=frozenset({"start"}),
    bounds="both witnesses see a batch within prime_s",
)
STOP = Probe(
    name="stop",
    mode="quick",
    run=run,
    needs=frozenset({"start", "stop"}),
    bounds="the publisher goes within the declared stop_s, which the witnesses see a second later at most",
)
