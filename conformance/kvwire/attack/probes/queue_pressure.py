"""The caller of ``publish`` while the publisher is busy with others: replay clients that do not read, and failures."""

from __future__ import annotations

import contextlib
import functools

import zmq

from kvwire.attack.probes.drop_faults import BURST, QUEUE
from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.publish_latency import strain, unread
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.tagged_batches import TaggedBatches, tail
from kvwire.standard.protocol import Refused, Start, Unsupported
from kvwire.trace.attempts import ATTEMPTS

RETAINED = 1200
"""Batches that replay has to answer with, so that answering takes its time."""
ROUNDS = 10
"""Of a thorough run."""
REQUESTS = 40
"""Requests for all of them that a client sends without reading an answer."""


def fill(session: Session, tagged: TaggedBatches) -> bool:
    """Give replay something to answer with: empty batches, less than a queue's worth at a time."""
    offers = session.offers
    with contextlib.suppress(Refused):
        for _ in range(RETAINED // (QUEUE - 1)):
            if session.left() <= 0:
                return False
            tagged.burst([offers.batch() for _ in range(QUEUE - 1)])
    return tail(session, tagged)


def unanswered(session: Session, tagged: TaggedBatches) -> bool:
    """A burst while a client waits for many answers that it does not read."""

    def act() -> bool:
        with unread(session, zmq.DEALER, session.driven.replay, REQUESTS):
            tagged.burst([tagged.batch() for _ in range(BURST)])
            return tail(session, tagged)

    return session.driven.replay is None or strain(session, tagged, "a replay client that does not read", act)


def failures(session: Session, tagged: TaggedBatches) -> bool:
    """A queue full of batches that cannot be encoded, and one that can, while replay has much to answer."""
    driver = session.driver
    assert driver is not None

    def act() -> bool:
        with unread(session, zmq.DEALER, session.driven.replay, REQUESTS):
            for _ in range(QUEUE + 2):
                driver.fault("encode")
            tagged.one()
            return tail(session, tagged)

    try:
        return strain(session, tagged, "a queue full of batches that cannot be encoded", act)
    except (Refused, Unsupported):
        return True


def attack(session: Session, rounds: int) -> None:
    """Replay, then failures too; the counters, memory among them, are asked before and after each round."""
    tagged = TaggedBatches(session)
    tagged.one()
    session.stats()
    for _ in range(rounds):
        sends = fill(session, tagged) and unanswered(session, tagged) and failures(session, tagged)
        session.stats()
        if not sends or session.left() <= 0:
            return


def run(session: Session, rounds: int = 1) -> None:
    """On another instance, with a small queue where it takes one."""
    with attacked(session, "pressure", Start(queue=QUEUE), Start()) as own:
        if own is not None:
            attack(own, rounds)


LONG = Probe(
    name="pressure-long",
    run=functools.partial(run, rounds=ROUNDS),
    needs=frozenset({"fresh", "publish"}),
    serves="LIV-001 SEQ-002 SEQ-009 SEQ-010",
    must_survive=("KVW-LIV-001",),
    mode="thorough",
    bounds=f"as `pressure`, {ROUNDS} times",
)
PROBE = Probe(
    name="pressure",
    run=run,
    needs=frozenset({"fresh", "publish"}),
    serves="LIV-001 SEQ-002 SEQ-009 SEQ-010",
    must_survive=("KVW-LIV-001",),
    bounds=f"{REQUESTS} requests that nobody reads, {BURST} batches at once; what makes the call wait is repeated "
    f"{ATTEMPTS} times",
)
