"""Attempts to make ``publish`` wait, each in a situation: repeated while it does, and watched for stalls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zmq

from kvwire.attack.probes.kit.session import MOST, Session
from kvwire.attack.probes.kit.tagged_batches import TaggedBatches
from kvwire.attack.witness_process import HANDSHAKE_SUCCEEDED, Monitor, Socket, prepare
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.marks import StrainBegins, StrainDone

SMALL = 4096
"""What the system buffers for a client that does not read, in bytes. Tcp heeds it."""


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
        began_ns = time.monotonic_ns()
        session.mark(StrainBegins(situation=situation), stream)
        sends = act()
        session.mark(StrainDone(situation=situation), stream)
        counted += session.recorder.waited(began_ns, stream).held_ns < bound_us * 1000 / 2
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
        prepare(socket, endpoint, session.recorder.curve)
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
