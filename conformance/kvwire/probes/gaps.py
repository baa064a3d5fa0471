"""Losses inside the publisher: a queue that is too small, batches that come to grief, a subscriber that does not read.

Every batch holds two stores of blocks that no other holds, so that whatever is seen of it tells where it went.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zmq

from kvwire.dialect import read
from kvwire.probes.asking import Asker
from kvwire.probes.beside import attacked
from kvwire.probes.session import Probe, Session
from kvwire.protocol import Refused, Start, Unsupported
from kvwire.statement import Stream
from kvwire.timeline import split_live
from kvwire.trace import Record
from kvwire.witness_process import HANDSHAKE_SUCCEEDED, Monitor, Socket, prepare

QUEUE = 4
BURST = 200
"""Batches that are offered at once: many more than the queue holds, so that it is full most of the time."""
MARK = 16
"""Messages that wait for a subscriber that reads nothing, where the publisher can be told."""
LARGE_BLOCKS = 128
LARGE = 80
"""Batches for such a subscriber, and their blocks: some 600 KB, more than its mark and what a system buffers."""
TAIL_S = 5.0
"""How long the batch that was offered last is waited for."""
AGAIN_S = 0.02
"""How long a full queue gets before another batch is offered."""
FAULTS = ("encode", "send")
STARTS = (Start(queue=QUEUE, hwm=MARK), Start(queue=QUEUE), Start(hwm=MARK), Start())
"""What the instance is started with: the first that it takes."""


class Markers:
    """Makes batches that can be told apart by every one of their events."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.events = 2
        """Events of a batch; one where the publisher takes no several."""

    def batch(self, blocks: int = 1) -> dict[str, Any]:
        """One batch."""
        offers = self.session.offers
        return offers.batch(*[offers.root(blocks) for _ in range(self.events)])

    def one(self, blocks: int = 1) -> bool:
        """Offer one batch; whether it was accepted."""
        driver = self.session.driver
        assert driver is not None
        try:
            return driver.publish(self.batch(blocks)).accepted
        except Refused:
            if self.events == 1:
                raise
            self.events = 1
            return driver.publish(self.batch(blocks)).accepted

    def burst(self, count: int) -> None:
        """Offer so many batches, at once where the adapter can."""
        driver = self.session.driver
        assert driver is not None
        batches = [self.batch() for _ in range(count)]
        if "burst" in driver.can:
            driver.burst(batches)
            return
        for batch in batches:
            driver.publish(batch)


def tail(session: Session, markers: Markers) -> bool:
    """Offer one more batch, as soon as one is accepted, and wait until it is seen: then what came before is decided."""
    stream = session.driven
    recorder = session.recorder
    began = time.monotonic()
    read_to = len(recorder.records)
    accepted = markers.one()
    stamp = session.offers.stamp

    def seen() -> bool:
        nonlocal read_to
        new, read_to = recorder.records[read_to:], len(recorder.records)
        return any(_stamp(record) >= stamp for record in new if record.stream == stream.name and record.is_live)

    while not accepted and session.left() > 0 and time.monotonic() - began < TAIL_S:
        if session.wait(seen, AGAIN_S):
            break
        accepted, stamp = markers.one(), session.offers.stamp
    came = session.wait(seen, TAIL_S)
    after = round(time.monotonic() - began, 3)
    session.mark("tail-done", stream.name, outcome="seen" if came else "bound", after_s=after, bound_s=TAIL_S)
    return came


def _stamp(record: Record) -> float:
    """The ``ts`` of a live message; below every other where it has none."""
    parts = None if record.frames is None else split_live(record.frames)
    ts = None if parts is None else read(parts[1]).ts
    return -math.inf if ts is None else ts


def overflow(session: Session, markers: Markers) -> bool:
    """Many more batches at once than the queue holds."""
    markers.one()
    markers.burst(BURST)
    return tail(session, markers)


def grief(session: Session, markers: Markers) -> bool:
    """A batch that cannot be encoded, and one that cannot be sent, among others."""
    driver = session.driver
    assert driver is not None
    for kind in FAULTS:
        markers.one()
        try:
            driver.fault(kind)
        except (Refused, Unsupported):
            continue
        markers.one()
        if not tail(session, markers):
            return False
    return True


@contextmanager
def sleeper(session: Session, stream: Stream) -> Iterator[bool]:
    """A subscriber that reads nothing; yields whether its connection came about. Not where the publisher dials."""
    if stream.mode == "bind":
        yield False
        return
    context: zmq.Context[Socket] = zmq.Context()
    try:
        socket: Socket = context.socket(zmq.SUB)
        prepare(socket, stream.endpoint)
        socket.set(zmq.RCVHWM, 1)
        socket.set(zmq.RCVBUF, 4096)
        socket.subscribe(b"")
        monitor = Monitor(socket)
        socket.connect(stream.endpoint)
        session.wait(lambda: HANDSHAKE_SUCCEEDED in monitor.drain(), session.limits.handshake_s)
        yield monitor.handshakes > 0
        monitor.close()
    finally:
        context.destroy(linger=0)


def asleep(session: Session, markers: Markers) -> bool:
    """Large batches while one subscriber reads nothing; the other has to get every one."""
    with sleeper(session, session.driven) as connected:
        session.mark("sleeper", session.driven.name, connected=connected)
        for _ in range(LARGE):
            if session.left() <= 0:
                break
            markers.one(LARGE_BLOCKS // markers.events)
        return tail(session, markers)


def attack(session: Session) -> None:
    """All of it, then what the publisher retained of it."""
    markers = Markers(session)
    for step in (overflow, grief, asleep):
        if session.left() <= 0 or not step(session, markers):
            break
    session.stats()
    stream = session.driven
    if stream.replay is not None:
        with Asker(session) as asker:
            asker.ask(stream, 0)


def run(session: Session) -> None:
    """On another instance, with a small queue where it takes one."""
    with (
        session.fresh() as instances,
        attacked(session, instances[0], "gaps", *STARTS) as own,
    ):
        if own is not None:
            attack(own)


PROBE = Probe(
    name="gaps",
    run=run,
    needs=frozenset({"fresh", "publish"}),
    must_survive=("KVW-SEQ-009",),
    bounds=f"{BURST} batches at once for a queue of {QUEUE}; the last batch of each step is awaited for {TAIL_S:g} s",
)
