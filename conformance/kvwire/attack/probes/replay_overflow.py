"""Answers that are more than the pipes of a connection take, for a client that reads slowly (``kit/slow_reader``).

Then as many requests wait as are declared, and live batches beside them: one that gives a whole answer between two
batches keeps the last of them waiting for all of the answers.
"""

from __future__ import annotations

import contextlib

from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.slow_reader import OVERFLOW, SlowReader
from kvwire.attack.probes.kit.traffic import Traffic
from kvwire.attack.probes.replay_pressure import CALM, MARKS
from kvwire.standard.protocol import Refused, Start

RETAINED = 4000
"""Batches of an answer: some 2500 are what pipes and system take."""
MOST = 16_000
"""Batches that are retained for a crowd at most, where answers are quick."""
ANSWERED_S = 12.0
"""How long it has to take to answer a crowd, at the speed at which one client is answered: for several attempts."""
RING = MOST + 1000
"""Room for these, and for what is offered later, where the publisher can be told."""
OFFERED = 100
"""Batches that are offered at once, unless the queue takes fewer, and are seen before the next ones are."""
SEEN_S = 1.0
BURST = 128
"""Live batches that are offered at once beside waiting requests."""
CLIENTS = 16
"""Clients that wait then, unless fewer are declared."""
DRAINED_S = 15.0
"""How long the publisher gets to come to an end with them afterwards."""


def fill(session: Session, retained: int = RETAINED) -> None:
    """Publish until so many batches are retained, and hear them."""
    traffic, recorder, stream = Traffic(session), session.recorder, session.driven
    queue = session.statement.queue or OFFERED
    ring = session.statement.ring or retained
    offered = max(1, min(OFFERED, queue // 2))

    def heard() -> int:
        return recorder.newest(stream.name) or 0

    for _ in range(retained // offered):
        due = heard() + offered
        if due >= min(retained, ring) or session.left() <= 0:
            break
        traffic.many(offered)

        def seen(due: int = due) -> bool:
            return heard() >= due

        session.wait(seen, SEEN_S)


def crowd(session: Session, replays: ReplayClients) -> None:
    """Offer live batches at once, in peace and then while as many requests wait as are declared; nobody reads them."""
    traffic, stream, bounds = Traffic(session), session.driven, session.statement.bounds
    burst = max(1, min(BURST, (session.statement.queue or BURST) // 2))
    if not any(traffic.awaited("nothing", burst) for _ in range(CALM)):
        return
    clients = [replays.connect(stream, mark=MARKS[0]) for _ in range(_clients(session))]
    for client in clients:
        client.reading = False
        for _ in range(max(1, bounds.replay_waiting)):
            replays.request(client, 0, situation="vanishing")
    before = session.recorder.newest(stream.name) or 0
    any(traffic.awaited("replay", burst) for _ in session.attempts())  # while they still wait
    replays.vanish(clients)
    session.wait(lambda: (session.recorder.newest(stream.name) or 0) >= before + burst, DRAINED_S)


def _clients(session: Session) -> int:
    return max(1, min(CLIENTS, session.statement.bounds.replay_clients))


def attack(session: Session) -> None:
    """A client that reads slowly, and at last an answer that tells what was retained; then a crowd."""
    with contextlib.suppress(Refused):
        fill(session)
    with ReplayClients(session) as replays:
        stream = session.driven
        numbers = sorted(replays.heard(stream, 0))
        if len(numbers) < OVERFLOW:
            return
        speed = SlowReader(session, replays, stream, numbers).run()
        replays.ask(stream, 0)
        # Whoever answers them all before it sends another batch is to be late by far.
        enough = round(ANSWERED_S * speed / (_clients(session) * max(1, session.statement.bounds.replay_waiting)))
        if enough > len(numbers):
            with contextlib.suppress(Refused):
                fill(session, min(enough, MOST))
        crowd(session, replays)


def run(session: Session) -> None:
    """On another instance, with a ring that is large enough where it takes one."""
    with attacked(session, "torrent", Start(ring=RING), Start()) as own:
        if own is not None and own.driven.replay is not None:
            attack(own)


PROBE = Probe(
    name="torrent",
    run=run,
    needs=frozenset({"fresh", "publish", "replayable"}),
    serves="REP-008 REP-009 REP-010 REP-011 REP-020",
    must_survive=("KVW-REP-018",),
    bounds=f"{RETAINED} batches are offered, {OFFERED} at once, and awaited for {SEEN_S:g} s each time; answers as in "
    f"the replay probe; the last of {BURST} live batches within live_delay_s",
)
