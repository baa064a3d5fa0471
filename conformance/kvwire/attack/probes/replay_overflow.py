"""Answers that are more than the pipes of a connection take.

Some are for a client that reads all the time but for a moment. The moment comes when the answer begins, and is shorter
than the answer takes: the pipes are full, and then there is room again, while the publisher is still sending. One that
goes on as if nothing had happened leaves a hole behind, and has room for the end marker. Meanwhile nothing is recorded,
so that the client is as fast as it can be.

Then as many requests wait as are declared, and live batches beside them: one that gives a whole answer between two
batches keeps the last of them waiting for all of the answers.
"""

from __future__ import annotations

import contextlib
import time

import zmq

from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.replay_client import Client, ReplayClients, Request
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.traffic import Traffic
from kvwire.attack.probes.replay_pressure import CALM, MARKS, PLAIN, Attack
from kvwire.standard.protocol import Refused, Start
from kvwire.wire.framing import END_SEQUENCE, SEND_MARK, SYSTEM_BUFFER

RETAINED = 4000
"""Batches of an answer: some 2500 are what pipes and system take."""
RING = RETAINED + 500
"""Room for these, and for what is offered later, where the publisher can be told."""
OVERFLOW = 2 * SEND_MARK + SYSTEM_BUFFER
OFFERED = 100
"""Batches that are offered at once, unless the queue takes fewer, and are seen before the next ones are."""
SEEN_S = 1.0
MOMENT_S = 0.002
"""The pause in an answer of which nothing is known yet; the others are shares of what that one took."""
SHARES = (0.3, 0.4, 0.2, 0.1) * 3
WHOLE = 2
"""How many whole answers show that nothing is lost in a pause."""
TELLING = 4
"""How many more answers there are at most until one comes to its end: only such a one tells what was retained."""
BURST = 128
"""Live batches that are offered at once beside waiting requests."""
CLIENTS = 16
"""Clients that wait then, unless fewer are declared."""
DRAINED_S = 15.0
"""How long the publisher gets to come to an end with them afterwards."""
SILENT_MS = 100
"""How long an answer may be silent before the rest of it is awaited, and recorded as it comes."""


def fill(session: Session) -> None:
    """Publish so many batches, and hear them."""
    traffic, recorder, stream = Traffic(session), session.recorder, session.driven
    queue = session.statement.queue or OFFERED
    ring = session.statement.ring or RETAINED
    offered = max(1, min(OFFERED, queue // 2))

    def heard() -> int:
        return recorder.newest(stream.name) or 0

    for _ in range(RETAINED // offered):
        due = heard() + offered
        if due >= min(RETAINED, ring) or session.left() <= 0:
            break
        traffic.many(offered)

        def seen(due: int = due) -> bool:
            return heard() >= due

        session.wait(seen, SEEN_S)


def gulp(replays: ReplayClients, client: Client, pause_s: float) -> float:
    """Read the answer that a client waits for, after a pause when it begins, and record it then.

    Return how long it took, in seconds, from its first message to its last.
    """
    frames: list[tuple[bytes, ...]] = []
    if not client.socket.poll(int(1000 * replays.session.limits.replay_s)):
        return 0.0
    began = ended = time.monotonic()
    time.sleep(pause_s)
    while client.socket.poll(SILENT_MS):
        with contextlib.suppress(zmq.Again):
            while True:
                frames.append(tuple(client.socket.recv_multipart(zmq.DONTWAIT)))
        ended = time.monotonic()
        if END_SEQUENCE in frames[-1]:
            break
    for message in frames:
        replays.take_in(client, message)
    return ended - began


def crowd(session: Session, replays: ReplayClients) -> None:
    """Offer live batches at once, in peace and then while as many requests wait as are declared; nobody reads them."""
    for _ in session.attempts():
        if _crowd(session, replays):
            break


def _crowd(session: Session, replays: ReplayClients) -> bool:
    traffic, stream, bounds = Traffic(session), session.driven, session.statement.bounds
    burst = max(1, min(BURST, (session.statement.queue or BURST) // 2))
    if not any(traffic.awaited("nothing", burst) for _ in range(CALM)):
        return True
    clients = [replays.connect(stream, mark=MARKS[0]) for _ in range(max(1, min(CLIENTS, bounds.replay_clients)))]
    for client in clients:
        client.reading = False
        for _ in range(max(1, bounds.replay_waiting)):
            replays.request(client, 0, situation="vanishing")
    before = session.recorder.newest(stream.name) or 0
    in_time = traffic.awaited("replay", burst)
    replays.vanish(clients)
    session.wait(lambda: (session.recorder.newest(stream.name) or 0) >= before + burst, DRAINED_S)
    return in_time


def attack(session: Session) -> None:
    """Ask for everything again and again, until an answer has a hole and an end, or some are whole in spite of a pause.

    The first answer tells how long they take, the last one what was retained.
    """
    with contextlib.suppress(Refused):
        fill(session)
    with ReplayClients(session) as replays:
        stream = session.driven
        numbers = sorted(replays.heard(stream, 0))
        if len(numbers) < OVERFLOW:
            return
        attacker = Attack(session, replays, stream, PLAIN)

        def answer(pause_s: float) -> tuple[float, Request]:
            client = attacker.pause(numbers, SEND_MARK)
            took = gulp(replays, client, pause_s)
            attacker.resume([client], pause_s, numbers, ask_behind=True)
            return took, client.requests[0]

        took, _ = answer(MOMENT_S)
        whole = 0
        for share in SHARES:
            _, request = answer(share * took)
            whole += request.marked and len(request.numbers) == len(numbers)
            if whole == WHOLE or (request.marked and request.holes) or session.left() <= 0:
                break
        for _ in range(TELLING):
            if session.left() <= 0 or answer(MOMENT_S)[1].marked:
                break
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
