"""Attempts to make ``publish`` wait, each in a situation: repeated while it does, and watched for stalls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

import zmq

from kvwire.attack.probes.kit.session import Session
from kvwire.attack.probes.kit.tagged_batches import TaggedBatches
from kvwire.attack.witness_process import HANDSHAKE_SUCCEEDED, Monitor, Socket, prepare
from kvwire.trace.marks import StrainBegins, StrainDone

ATTEMPTS = 3
"""How often a situation is repeated in which the call took longer than declared."""
MOST = 6
"""How often at most, those on a machine that stood still included."""
TICK_S = 0.005
SMALL = 4096
"""What the system buffers for a client that does not read, in bytes. Tcp heeds it."""


class Stalls:
    """Inside, a thread that wakes up every few milliseconds; ``longest_ms`` is by how much it was late at worst.

    What holds it up holds up the adapter too: then the time that a call took says nothing.
    """

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._over.wait(TICK_S):
            now = time.monotonic()
            self.longest_ms = max(self.longest_ms, 1000 * (now - before - TICK_S))
            before = now


def strain(session: Session, tagged: TaggedBatches, situation: str, act: Callable[[], bool]) -> bool:
    """Carry out ``act`` in a situation; again while a call took longer than the declared ``publish_ms``.

    Return whether the publisher still sends, which ``act`` tells. What was offered in an attempt stands between the
    marks ``strain`` and ``strain-done``.
    """
    stream = session.driven.name
    bound_us = 1000 * session.statement.bounds.publish_ms
    sends = True
    counted = 0
    for _ in range(MOST):
        tagged.blocked_us.clear()
        session.mark(StrainBegins(situation=situation), stream)
        with Stalls() as stalls:
            sends = act()
        session.mark(StrainDone(situation=situation, stalled_ms=round(stalls.longest_ms, 1)), stream)
        counted += stalls.longest_ms < session.statement.bounds.publish_ms / 2
        waited = max(tagged.blocked_us, default=0) > bound_us
        if not sends or not waited or counted >= ATTEMPTS or session.left() <= 0:
            break
    return sends


@contextmanager
def unread(session: Session, kind: int, endpoint: str | None, requests: int = 0) -> Iterator[bool]:
    """A client that reads nothing, at an endpoint to which it can connect; yields whether its handshake came about.

    A SUB subscribes to everything; a DEALER asks so many times for all that is retained.
    """
    if endpoint is None:
        yield False
        return
    context: zmq.Context[Socket] = zmq.Context()
    try:
        socket: Socket = context.socket(kind)
        prepare(socket, endpoint)
        socket.set(zmq.RCVHWM, 1)
        socket.set(zmq.RCVBUF, SMALL)
        if kind == zmq.SUB:
            socket.subscribe(b"")
        monitor = Monitor(socket)
        socket.connect(endpoint)
        session.wait(lambda: HANDSHAKE_SUCCEEDED in monitor.drain(), session.limits.handshake_s)
        for _ in range(requests):
            socket.send_multipart((b"", bytes(8)), zmq.DONTWAIT)
        yield monitor.handshakes > 0
        monitor.close()
    finally:
        context.destroy(linger=0)
