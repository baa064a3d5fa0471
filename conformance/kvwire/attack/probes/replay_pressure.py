"""Replay under pressure: many clients, clients that pause or vanish, too many requests; meanwhile live batches.

Every request says in which *situation* it is made: ``together`` with others, ``paused`` on a connection that does not
read for a while, ``beyond`` the requests that may wait there, ``behind`` them when it reads again, ``beside`` a client
that does not read, on one that will be ``vanishing``, ``after`` that, or ``req`` from a REQ socket. Pauses are as long
as what is done in them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec
import zmq

from kvwire.attack.probes.kit.killed_client import kill_one
from kvwire.attack.probes.kit.replay_client import QUIET_S, Client, ReplayClients, Request
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.slow_reader import SlowReader
from kvwire.attack.probes.kit.traffic import Traffic
from kvwire.standard.statement import Stream
from kvwire.trace.marks import During, ReplayKilled, ReplayLoad, ReplayResumed
from kvwire.wire.framing import SEND_MARK, SYSTEM_BUFFER

SPARSE = 10
"""Of so many numbers one is there at least, or they are no count of batches."""
MARKS = (1, SEND_MARK)
"""Receive high-water marks of clients that pause: the smallest, and the default."""
BEYOND = 40
"""Requests on a paused connection on top of those that may wait."""
SAMPLES = 20
"""How often the memory of the publisher is looked at until it is steady."""
SAMPLE_S = 0.05
STEADY = 2**20
"""Bytes by which memory that is steady may grow between two looks."""
CALM = 3
"""How often a live batch may be late before the attack, on a busy machine."""
EXTRA = 4
"""How many clients more than declared ask at once, in a crowd."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How hard an attack is.

    ``retained`` batches it wants to find retained, ``evicted`` it causes at most to evict others; ``clients`` ask at
    once, unless fewer are declared (None: as many as are declared, and then a crowd of more that do not read);
    ``flood`` requests come on a connection that never reads; clients pause for ``pauses`` times the ``pause_s`` of the
    run; ``kill``: one client is a process that is killed.
    """

    retained: int
    evicted: int
    clients: int | None
    flood: int
    pauses: float = 1.0
    kill: bool = False


PLAIN = Scale(retained=450, evicted=1500, clients=8, flood=200)
LONG = Scale(retained=3000, evicted=20_000, clients=None, flood=1000, pauses=3.0, kill=True)


class Attack:
    """The attack on the replay of one stream. ``traffic`` is None for a stream that is not driven."""

    def __init__(self, session: Session, replays: ReplayClients, stream: Stream, scale: Scale) -> None:
        self.session = session
        self.replays = replays
        self.stream = stream
        self.scale = scale
        self.bounds = session.statement.bounds
        driven = stream.name == session.driven.name
        traffic = Traffic(session)
        self.traffic = traffic if driven and traffic.able else None

    def live(self, during: During) -> bool:
        """Whether a live batch is seen in time, where one can be caused; again where it is not."""
        if self.traffic is None or during == "nothing":
            return self.traffic is None or self.traffic.awaited(during)
        return any(self.traffic.awaited(during) for _ in self.session.attempts(self.stream.name))

    def whole(self) -> Request | None:
        """Everything that is retained; None when replay is not in order even when left in peace.

        What is sent meanwhile, on a stream that is busy, belongs to no answer.
        """
        self.session.recorder.pump()
        before = self.replays.heard(self.stream, 0)
        request = self.replays.ask(self.stream, 0)
        self.replays.linger()
        numbers = request.numbers
        rising = all(before < after for before, after in itertools.pairwise(numbers))
        ends_well = request.outcome == "marker" and request.messages == len(numbers) + 1
        if not (rising and ends_well and numbers) or numbers[-1] - numbers[0] >= SPARSE * len(numbers):
            return None
        return request if {number for number in before if number >= numbers[0]} <= set(numbers) else None

    # several at once

    def together(self) -> bool:
        """Ask from several clients at once, while live traffic runs, and by a REQ socket, which reads one message.

        Whether anybody was served at all. Again where not all were.
        """
        served = False
        for _ in self.session.attempts(self.stream.name):
            requests = self._together()
            served = served or any(request.marked for request in requests)
            if all(request.marked for request in requests):
                break
        req = self.replays.connect(self.stream, kind=zmq.REQ)
        self.replays.request(req, self.session.recorder.newest(self.stream.name) or 0, situation="req")
        self.replays.await_answers([req])
        return served

    def _together(self) -> list[Request]:
        declared = self.bounds.replay_clients
        count = max(1, declared if self.scale.clients is None else min(self.scale.clients, declared))
        clients = [self.replays.connect(self.stream) for _ in range(count)]
        newest = self.session.recorder.newest(self.stream.name) or 0
        requests = [
            self.replays.request(client, at * newest // count, situation="together")
            for at, client in enumerate(clients)
        ]
        for _ in range(count):
            if self.traffic is not None:
                self.traffic.one()
            self.replays.listen(0)
        self.replays.await_answers(clients)
        return requests

    # clients that pause

    def requests(self, numbers: Sequence[int], mark: int) -> int:
        """How many answers are more than the pipes of a connection take, as far as so many requests may wait."""
        enough = -(-(SEND_MARK + mark + SYSTEM_BUFFER) // len(numbers))
        return min(enough, max(1, self.bounds.replay_waiting))

    def pause(self, numbers: Sequence[int], mark: int, *, beyond: int = 0) -> Client:
        """A connection with requests from the first batches on, together more than its pipes take, not read yet.

        ``numbers`` are retained. Each start is another batch, so that each answer tells which request it belongs to.
        """
        client = self.replays.connect(self.stream, mark=mark)
        client.reading = False
        client.known = dict(itertools.pairwise(numbers))
        for start in numbers[: self.requests(numbers, mark)]:
            self.replays.request(client, start, situation="paused")
        for start in numbers[-2 : -2 - beyond : -1] if len(numbers) > 2 * beyond else ():
            self.replays.request(client, start, situation="beyond")
        return client

    def resume(
        self, clients: Iterable[Client], paused_s: float, numbers: Sequence[int], *, ask_behind: bool = False
    ) -> None:
        """Read again, after so long a pause, and await all answers."""
        clients = list(clients)
        for client in clients:
            self.session.mark(
                ReplayResumed(
                    connection=client.name,
                    rcvhwm=client.mark,
                    paused_s=round(paused_s, 3),
                    requests=self.requests(numbers, client.mark),
                    retained=len(numbers),
                ),
                self.stream.name,
            )
            client.reading = True
            client.heard_at = time.monotonic()
        if ask_behind:
            self.replays.hear_out(clients, numbers)
        self.replays.await_answers(clients)

    def paused(self, whole: Request) -> None:
        """Two connections that do not read, and beside them live batches and clients that do.

        Again where an answer does not come to its end.
        """
        self._repeat(self._paused, whole)

    def _repeat(self, attack: Callable[[Request], bool], whole: Request) -> None:
        """An attack until it says that it got its answers, or it is certain that it will not; then of what is there."""
        found: Request | None = whole
        for attempt in self.session.attempts(self.stream.name):
            if attempt:
                found = self.whole()
            if found is None or attack(found):
                break

    def _paused(self, whole: Request) -> bool:
        began = time.monotonic()
        clients = [self.pause(whole.numbers, mark, beyond=BEYOND if mark == MARKS[-1] else 0) for mark in MARKS]
        middle = whole.numbers[len(whole.numbers) // 2]
        in_time = self.live("replay")
        self.beside(middle)
        if in_time:
            pause_s = self.scale.pauses * self.session.limits.pause_s
            self.session.wait(lambda: False, max(0.0, pause_s - (time.monotonic() - began)))
            self.live("replay")
        self.resume(clients, time.monotonic() - began, whole.numbers, ask_behind=True)
        self.replays.ask(self.stream, 0)
        return not any(_in_vain(client) for client in clients)

    def beside(self, start: int) -> bool:
        """Two more clients; whether both are served, in half the time that those who pause may pause.

        Again where one is not.
        """
        return any(self._beside(start) for _ in self.session.attempts(self.stream.name))

    def _beside(self, start: int) -> bool:
        clients = [self.replays.connect(self.stream) for _ in range(2)]
        requests = [self.replays.request(client, start, situation="beside") for client in clients]
        bound = min(self.session.limits.replay_s, self.bounds.replay_resume_s / 2)
        self.replays.await_answers(clients, bound)
        return all(request.outcome == "marker" for request in requests)

    def evicted(self, whole: Request) -> None:
        """A connection that does not read while the ring evicts what it is still owed; again where it breaks off."""
        self._repeat(self._evicted, whole)

    def _evicted(self, whole: Request) -> bool:
        ring = self.session.statement.ring
        newest = self.session.recorder.newest(self.stream.name)
        if self.traffic is None or ring is None or newest is None:
            return True
        if len(whole.numbers) < min(self.scale.retained, ring) // 2 or ring > self.scale.evicted:
            return True
        began = time.monotonic()
        client = self.pause(whole.numbers, MARKS[0])
        # What is left of the answers then is little, and everything before it is gone.
        self.traffic.until(newest + ring - len(whole.numbers) // 16, ring)
        self.session.settle()
        self.resume([client], time.monotonic() - began, whole.numbers)
        self.replays.ask(self.stream, 0)
        return not _in_vain(client)

    def crowd(self, whole: Request) -> None:
        """As many clients as are declared, and some more, none of which reads; those that came last may be dropped."""
        began = time.monotonic()
        clients: list[Client] = []
        for at in range(self.bounds.replay_clients + EXTRA):
            client = self.replays.connect(self.stream, mark=MARKS[0])
            client.reading = False
            situation = "paused" if at < self.bounds.replay_clients else "beyond"
            self.replays.request(client, whole.numbers[0], situation=situation)
            clients.append(client)
        self.live("replay")
        self.resume(clients, time.monotonic() - began, whole.numbers)
        self.replays.ask(self.stream, 0)

    # clients that vanish

    def vanish(self, whole: Request) -> None:
        """Many requests on connections that never read, then their end; meanwhile memory, live batches and others."""
        self.load("before", whole)
        flood = self.replays.connect(self.stream, mark=MARKS[0])
        others = [self.replays.connect(self.stream, mark=MARKS[0]) for _ in range(3)]
        for client in (flood, *others):
            client.reading = False
        for at in range(self.scale.flood):
            self.replays.request(flood, at % 8, situation="vanishing")
        for client in others:
            self.replays.request(client, 0, situation="vanishing")
        self.live("replay")
        self.beside(whole.numbers[-1])
        self.load("under", whole)
        for client in (flood, *others):  # in the middle of an answer, not before it
            client.socket.poll(int(1000 * QUIET_S))
        self.replays.vanish([flood, *others])
        self.live_and_served(whole)

    def kill(self, whole: Request) -> None:
        """A client that is killed while it is being answered."""
        self.session.mark(ReplayKilled(answered=kill_one(self.stream, self.session.recorder.curve)), self.stream.name)
        self.live_and_served(whole)

    def live_and_served(self, whole: Request) -> None:
        """Whether the publisher goes on after clients vanished."""
        self.live("vanished")
        self.replays.ask(self.stream, whole.numbers[-1], situation="after")

    def load(self, phase: Literal["before", "under"], whole: Request) -> None:
        """Record how much memory the publisher uses, once that no longer grows, and how large a whole answer is."""
        used: list[int] = []
        while len(used) < SAMPLES and (len(used) < 2 or used[-1] > used[-2] + STEADY):
            stats = self.session.stats()
            if stats is None or stats.rss is None:
                return
            used.append(stats.rss)
            self.session.wait(lambda: False, SAMPLE_S)
        size, batches = whole.payload_bytes, len(whole.numbers)
        load = ReplayLoad(phase=phase, rss=used[-1], answer_bytes=size, batches=batches)
        self.session.mark(load, self.stream.name)


def _in_vain(client: Client) -> bool:
    """Whether it was awaited in vain what it is owed, whatever becomes of requests beyond those that may wait."""
    vain = (request for request in client.requests if request.outcome in ("timeout", "unreachable"))
    return any(request.situation != "beyond" for request in vain)


def _attack(session: Session, scale: Scale) -> None:
    """Every stream that has a replay endpoint."""
    for stream in session.streams:
        if stream.replay is None:
            continue
        with ReplayClients(session) as replays:
            attack = Attack(session, replays, stream, scale)
            if attack.traffic is not None:
                retained = min(scale.retained, session.statement.ring or scale.retained)
                attack.traffic.until(retained - 1, retained)
                session.settle()
            whole = attack.whole()
            if whole is None or not any(attack.live("nothing") for _ in range(CALM)):
                continue
            if not attack.together():
                continue
            attack.paused(whole)
            if (now := attack.whole()) is not None:
                SlowReader(session, replays, stream, now.numbers).run()
                replays.ask(stream, 0)
            if scale.clients is None:
                attack.crowd(whole)
            attack.evicted(whole)
            if (whole := attack.whole()) is None:
                continue
            attack.vanish(whole)
            if scale.kill:
                attack.kill(whole)


def run(session: Session) -> None:
    """An attack that takes seconds."""
    _attack(session, PLAIN)


def run_long(session: Session) -> None:
    """An attack of thousands of batches, with long pauses and more clients than are declared."""
    _attack(session, LONG)


BOUNDS = (
    "answers as in the replay probe; live batches are awaited for live_delay_s; clients pause for pause_s, and as long "
    "as clients beside them are awaited"
)
PROBE = Probe(
    name="replay-pressure",
    run=run,
    needs=frozenset({"replayable"}),
    serves="REP-008 REP-009 REP-010 REP-011 REP-012 REP-013 REP-017 REP-019 REP-020",
    must_survive=("KVW-REP-018",),
    bounds=BOUNDS,
)
VOLUME = msgspec.structs.replace(PROBE, name="replay-volume", run=run_long, mode="thorough")
