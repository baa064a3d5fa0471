"""Is a stream there, and does every witness hear it?"""

from __future__ import annotations

import time

from kvwire.attack.probes.kit.session import Session
from kvwire.standard.protocol import Refused
from kvwire.trace.marks import Primed, Unreachable

RETRY_S = 0.05
"""How long a throwaway batch may take to be seen before another is sent."""


def handshakes(session: Session, more_than: dict[tuple[str, str], int] | None = None) -> bool:
    """Wait until every witness has a handshake with its streams, or one more than ``more_than`` says.

    What has none within the bound is marked ``unreachable``, stream by stream.
    """
    recorder = session.recorder
    before = more_than or {}

    def missing(stream: str) -> list[str]:
        return [
            source.value
            for source in recorder.witnesses(stream)
            if recorder.handshakes(stream, source) <= before.get((stream, source), 0)
        ]

    bound = session.limits.handshake_s
    healthy = session.wait(lambda: not any(missing(stream.name) for stream in session.streams), bound)
    if not healthy:
        for stream in session.streams:
            if of := missing(stream.name):
                session.mark(Unreachable(endpoint=stream.endpoint, of=tuple(of), bound_s=bound), stream.name)
    return healthy


def prime(session: Session) -> bool:
    """Cause batches that mean nothing until every witness of the driven stream has seen one more; bounded.

    A subscription takes effect some time after the handshake, and nothing but a batch shows that it has.
    """
    stream = session.driven
    before = session.counts(stream)

    def seen() -> bool:
        return session.seen_by_all(stream, before)

    end = time.monotonic() + session.limits.prime_s
    while _throw(session) and not session.wait(seen, RETRY_S):
        if time.monotonic() >= end or session.left() <= 0:
            break
    session.mark(Primed(seen=seen(), bound_s=session.limits.prime_s), stream.name)
    return seen()


def _throw(session: Session) -> bool:
    """Cause one throwaway batch; False when the adapter can cause none."""
    driver = session.driver
    assert driver is not None
    try:
        if "cache" in driver.can:
            driver.cache(session.offers.throwaway())
            return True
        if "publish" in driver.can:
            driver.publish(session.offers.batch(session.offers.thrown()))
            return True
    except Refused as refusal:
        session.trouble(f"a throwaway batch was refused: {refusal}", session.driven.name)
    return False
