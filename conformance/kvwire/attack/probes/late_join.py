"""Late and repeated joiners: what they rebuild from replay and the live stream, against one that joined before them.

The consumer is the reference's. That a joiner rebuilds the same follows from what replay has to hold, so that no
sentence of its own speaks of it: what is found is noted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.traffic import Traffic
from kvwire.attack.probes.workload import some
from kvwire.trace.marks import Joined
from kvwire_reference.consumer import Consumer
from kvwire_reference.residents import Place

JOINS = 3
"""How many join late, each while batches are on their way."""
BETWEEN = 8
"""Batches between one and the next."""
POLL_S = 0.01

Blocks = frozenset[tuple[Place, int]]


class Joining:
    """Consumers of the driven stream, and the work that they watch."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.stream = session.driven
        self.traffic = Traffic(session)
        self.consumers: list[Consumer] = []

    def join(self) -> Consumer:
        """One more."""
        stream = self.stream
        topic = (stream.topic or "").encode()
        algorithm = self.session.statement.of_stream(stream.name).algorithm
        consumer = Consumer(stream.endpoint, stream.replay, topic=topic, algorithm=algorithm)
        self.consumers.append(consumer)
        return consumer

    def follow(self, until: Callable[[], bool], bound_s: float) -> bool:
        """Let all consumers and the witnesses take in what comes, until the condition holds; bounded."""
        end = time.monotonic() + bound_s
        while not until():
            if time.monotonic() >= end or self.session.left() <= 0:
                return False
            self.poll()
        return True

    def poll(self) -> None:
        """Let all consumers and the witnesses take in what is there."""
        for consumer in self.consumers:
            consumer.poll(POLL_S / len(self.consumers))
        self.session.recorder.pump()

    def level(self) -> bool:
        """Whether every consumer has applied the newest batch that a witness has seen, and asks nothing."""
        newest = self.session.recorder.newest(self.stream.name)
        return all(consumer.settled and consumer.stream.last == newest for consumer in self.consumers)

    def compare(self, early: Consumer, late: Consumer, at: int | None) -> None:
        """Record what a late one knows, against the early one."""
        known, rebuilt = _blocks(early), _blocks(late)
        self.session.mark(
            Joined(
                at=None if at is None else str(at),
                settled=self.level(),
                complete=early.residents.complete and late.residents.complete,
                blocks=len(known),
                missing=len(known - rebuilt),
                extra=len(rebuilt - known),
            ),
            self.stream.name,
        )


def _blocks(consumer: Consumer) -> Blocks:
    tables = consumer.residents.tables()
    return frozenset((place, value) for place, table in tables.items() for value in table)


def run(session: Session) -> None:
    """One joins; while batches go on others do, one after the other; all are compared with the first at the end."""
    joining = Joining(session)
    if session.driven.replay is None or session.driven.mode == "bind" or not joining.traffic.able:
        return
    recorder, bound = session.recorder, session.limits.settle_s
    late: list[tuple[int | None, Consumer]] = []
    try:
        early = joining.join()
        joining.follow(joining.level, bound)
        some(session)
        for _ in range(JOINS):
            at = recorder.newest(session.driven.name)
            late.append((at, joining.join()))
            for _ in range(BETWEEN):
                joining.traffic.one()
                joining.poll()
        session.settle()
        joining.follow(joining.level, bound)
        for at, consumer in late:
            joining.compare(early, consumer, at)
    finally:
        for consumer in joining.consumers:
            consumer.close()


PROBE = Probe(
    name="joiner",
    run=run,
    needs=frozenset({"start", "replayable"}),
    must_survive=("KVW-REP-018",),
    bounds="what consumers know is awaited for settle_s",
)
