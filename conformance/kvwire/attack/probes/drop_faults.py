"""Losses inside the publisher: a queue that is too small, batches that come to grief, a subscriber that is asleep."""

from __future__ import annotations

import time

import zmq

from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.publish_latency import strain, unread
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.tagged_batches import AGAIN_S, TAIL_S, TaggedBatches, tail, tail_once
from kvwire.standard.protocol import Refused, Start, Unsupported
from kvwire.trace.marks import FaultDone

QUEUE = 4
BURST = 200
"""Batches that are offered at once: many more than the queue holds, so that it is full most of the time."""
MARK = 16
"""Messages that wait for a subscriber that reads nothing, where the publisher can be told."""
LARGE_BLOCKS = 128
LARGE = 80
"""Batches for such a subscriber, and their blocks: some 600 KB, more than its mark and what a system buffers."""
FAULTS = ("encode", "send")
STARTS = (Start(queue=QUEUE, hwm=MARK), Start(queue=QUEUE), Start(hwm=MARK), Start())
"""What an instance is started with: the first that it takes."""


def overflow(session: Session, tagged: TaggedBatches) -> bool:
    """Many more batches at once than the queue holds."""

    def act() -> bool:
        tagged.one()
        tagged.burst([tagged.batch() for _ in range(BURST)])
        return tail(session, tagged)

    return strain(session, tagged, "full queue", act)


def grief(session: Session, tagged: TaggedBatches) -> bool:
    """A batch that cannot be encoded, and one that cannot be sent, among others."""
    driver = session.driver
    assert driver is not None
    for kind in FAULTS:
        tagged.one()
        try:
            driver.fault(kind)
        except (Refused, Unsupported):
            continue
        tagged.one()
        if not _goes_on(session, tagged, kind):
            return False
    return True


def _goes_on(session: Session, tagged: TaggedBatches, kind: str) -> bool:
    """Wait for a later batch; again where none comes, as this machine may be busy."""
    for attempt in session.attempts():
        began = time.monotonic()
        bound = AGAIN_S if attempt else TAIL_S
        came = tail_once(session, tagged, bound)
        session.mark(
            FaultDone(
                kind=kind,
                outcome="seen" if came else "bound",
                after_s=round(time.monotonic() - began, 3),
                bound_s=bound,
            ),
            session.driven.name,
        )
        if came:
            return True
    return False


def asleep(session: Session, tagged: TaggedBatches) -> bool:
    """Large batches while one subscriber reads nothing; the other has to get every one."""
    stream = session.driven

    def act() -> bool:
        for _ in range(LARGE):
            if session.left() <= 0:
                break
            tagged.one(LARGE_BLOCKS // tagged.events)
        return tail(session, tagged)

    with unread(session, zmq.SUB, stream.endpoint if stream.mode == "connect" else None) as connected:
        return strain(session, tagged, "a subscriber that does not read", act) if connected else True


def attack(session: Session) -> None:
    """All of it, then what the publisher retained of it."""
    tagged = TaggedBatches(session)
    for step in (overflow, grief, asleep):
        if session.left() <= 0 or not step(session, tagged):
            break
    session.stats()
    stream = session.driven
    if stream.replay is not None:
        with ReplayClients(session) as replays:
            replays.ask(stream, 0)


def run(session: Session) -> None:
    """On another instance, with a small queue where it takes one."""
    with attacked(session, "gaps", *STARTS) as own:
        if own is not None:
            attack(own)


PROBE = Probe(
    name="gaps",
    run=run,
    needs=frozenset({"fresh", "publish"}),
    serves="LIV-001 LIV-006 SEQ-002 SEQ-009 SEQ-010",
    must_survive=("KVW-SEQ-009",),
    bounds=f"{BURST} batches at once for a queue of {QUEUE}; the last batch of each step is awaited for {TAIL_S:g} s",
)
