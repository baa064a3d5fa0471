"""Replay under pressure: many clients, clients that pause or vanish, too many requests; meanwhile live batches.

Every request says in which *situation* it is made: ``together`` with others, ``paused`` on a connection that does not
read for a while, ``beyond`` the requests that may wait there, ``behind`` them when it reads again, ``beside`` a client
that does not read, on one that will be ``vanishing``, ``after`` that, or ``req`` from a REQ socket. Pauses are as long
as what is done in them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import zmq

from kvwire.exchanges import SEND_MARK, SYSTEM_BUFFER
from kvwire.probes.asking import POLL_MS, Asker, Client, Question
from kvwire.probes.session import Probe, Session
from kvwire.probes.traffic import Traffic
from kvwire.statement import Stream
from kvwire.timeline import DISCONNECTED, split_live

RETAINED = 450
"""Batches that an attack wants to find retained."""
SPARSE = 10
"""Of so many numbers one is there at least, or they are no count of batches."""
MARKS = (1, SEND_MARK)
"""Receive high-water marks of clients that pause: the smallest, and the default."""
CLIENTS = 8
"""How many clients ask at once, unless fewer are declared."""
BEYOND = 40
"""Requests on a paused connection on top of those that may wait."""
FLOOD = 200
"""Requests on a connection that never reads."""
EVICTED = 1500
"""The most batches that are caused to evict others."""
SAMPLES = 20
"""How often the memory of the publisher is looked at until it is steady."""
SAMPLE_S = 0.05
STEADY = 2**20
"""Bytes by which memory that is steady may grow between two looks."""
QUIET_S = 0.3
"""How long a connection is silent before the next request on it asks whether more will come."""
SURVIVE = ("KVW-REP-018",)


class Attack:
    """The attack on the replay of one stream. ``traffic`` is None for a stream that is not driven."""

    def __init__(self, session: Session, asker: Asker, stream: Stream) -> None:
        self.session = session
        self.asker = asker
        self.stream = stream
        self.bounds = session.statement.bounds
        driven = stream.name == session.driven.name
        traffic = Traffic(session)
        self.traffic = traffic if driven and traffic.able else None

    def live(self, during: str) -> bool:
        """Whether a live batch is seen in time, where one can be caused."""
        return self.traffic is None or self.traffic.awaited(during)

    def whole(self) -> Question | None:
        """Everything that is retained; None when replay is not in order even when left in peace."""
        question = self.asker.ask(self.stream, 0)
        self.asker.linger()
        numbers = question.numbers
        rising = all(before < after for before, after in itertools.pairwise(numbers))
        ends_well = question.outcome == "marker" and question.messages == len(numbers) + 1
        if not (rising and ends_well and numbers) or numbers[-1] - numbers[0] >= SPARSE * len(numbers):
            return None
        return question if self.sent(numbers[0]) <= set(numbers) else None

    def sent(self, first: int) -> set[int]:
        """The numbers from a first one on that a witness has seen live since it was last connected."""
        found: set[int] = set()
        for record in reversed(self.session.recorder.records):
            if record.stream != self.stream.name:
                continue
            if record.event == DISCONNECTED:
                break
            if record.is_live and record.frames and (parts := split_live(record.frames)) and parts[0] >= first:
                found.add(parts[0])
        return found

    # several at once

    def together(self) -> None:
        """Ask from several clients at once, while live traffic runs, and by a REQ socket, which reads one message."""
        count = max(1, min(CLIENTS, self.bounds.replay_clients))
        clients = [self.asker.connect(self.stream) for _ in range(count)]
        newest = self.session.recorder.newest(self.stream.name) or 0
        for at, client in enumerate(clients):
            self.asker.request(client, at * newest // count, situation="together")
        for _ in range(count):
            if self.traffic is not None:
                self.traffic.one()
            self.asker.listen(0)
        self.asker.await_answers(clients)
        req = self.asker.connect(self.stream, kind=zmq.REQ)
        self.asker.request(req, newest, situation="req")
        self.asker.await_answers([req])

    # clients that pause

    def requests(self, whole: Question, mark: int) -> int:
        """How many answers are more than the pipes of a connection take, as far as so many requests may wait."""
        enough = -(-(SEND_MARK + mark + SYSTEM_BUFFER) // len(whole.numbers))
        return min(enough, max(1, self.bounds.replay_waiting))

    def pause(self, whole: Question, mark: int, *, beyond: int = 0) -> Client:
        """A connection with requests from the first batches on, together more than its pipes take, not read yet.

        Each start is another batch, so that each answer tells which request it belongs to.
        """
        client = self.asker.connect(self.stream, mark=mark)
        client.reading = False
        for start in whole.numbers[: self.requests(whole, mark)]:
            self.asker.request(client, start, situation="paused")
        for start in whole.numbers[-2 : -2 - beyond : -1] if len(whole.numbers) > 2 * beyond else ():
            self.asker.request(client, start, situation="beyond")
        return client

    def resume(self, clients: Iterable[Client], since: float, whole: Question, *, ask_behind: bool) -> None:
        """Read again, and await all answers."""
        paused_s = round(time.monotonic() - since, 3)
        clients = list(clients)
        for client in clients:
            self.session.mark(
                "replay-resumed",
                self.stream.name,
                connection=client.name,
                rcvhwm=client.mark,
                paused_s=paused_s,
                requests=self.requests(whole, client.mark),
                retained=len(whole.numbers),
            )
            client.reading = True
            client.heard_at = time.monotonic()
        if ask_behind:
            self.hear_out(clients, whole)
        self.asker.await_answers(clients)

    def hear_out(self, clients: list[Client], whole: Question) -> None:
        """Hear connections until they are silent; then ask on those that owe an answer, from about their last number.

        A connection keeps its order, so that the answer to the last request shows that the others will not come.
        """
        for client in clients:
            while not client.idle and time.monotonic() - client.heard_at < QUIET_S and self.session.left() > 0:
                self.asker.listen(POLL_MS)
            last = client.last
            if client.idle or last is None or client.lost:
                continue
            unanswered = {question.start for question in client.questions if not question.messages}
            start = max((n for n in whole.numbers if n <= last and n not in unanswered), default=last)
            self.asker.request(client, start, situation="behind")

    def paused(self, whole: Question) -> None:
        """Two connections that do not read, and beside them live batches and clients that do."""
        began = time.monotonic()
        clients = [self.pause(whole, mark, beyond=BEYOND if mark == MARKS[-1] else 0) for mark in MARKS]
        middle = whole.numbers[len(whole.numbers) // 2]
        in_time = self.live("replay")
        self.beside(middle)
        if in_time:
            self.session.wait(lambda: False, max(0.0, self.session.limits.pause_s - (time.monotonic() - began)))
            self.live("replay")
        self.resume(clients, began, whole, ask_behind=True)
        self.asker.ask(self.stream, 0)

    def beside(self, start: int) -> bool:
        """Two more clients; whether both are served, in half the time that those who pause may pause."""
        clients = [self.asker.connect(self.stream) for _ in range(2)]
        questions = [self.asker.request(client, start, situation="beside") for client in clients]
        bound = min(self.session.limits.replay_s, self.bounds.replay_resume_s / 2)
        self.asker.await_answers(clients, bound)
        return all(question.outcome == "marker" for question in questions)

    def evicted(self, whole: Question) -> None:
        """A connection that does not read while the ring evicts what it is still owed."""
        ring = self.session.statement.ring
        newest = self.session.recorder.newest(self.stream.name)
        if self.traffic is None or ring is None or newest is None:
            return
        if len(whole.numbers) < RETAINED // 2 or ring > EVICTED:
            return
        began = time.monotonic()
        client = self.pause(whole, MARKS[0])
        # What is left of the answers then is little, and everything before it is gone.
        self.traffic.until(newest + ring - len(whole.numbers) // 16, ring)
        self.session.settle()
        self.resume([client], began, whole, ask_behind=False)
        self.asker.ask(self.stream, 0)

    # clients that vanish

    def vanish(self, whole: Question) -> bool:
        """Many requests on connections that never read, then their end; whether the publisher goes on.

        Meanwhile its memory, a live batch and another client.
        """
        self.load("before", whole)
        flood = self.asker.connect(self.stream, mark=MARKS[0])
        others = [self.asker.connect(self.stream, mark=MARKS[0]) for _ in range(3)]
        for client in (flood, *others):
            client.reading = False
        for at in range(FLOOD):
            self.asker.request(flood, at % 8, situation="vanishing")
        for client in others:
            self.asker.request(client, 0, situation="vanishing")
        in_time = self.live("replay")
        served = self.beside(whole.numbers[-1])
        self.load("under", whole)
        for client in (flood, *others):  # in the middle of an answer, not before it
            client.socket.poll(int(1000 * QUIET_S))
        self.asker.vanish([flood, *others])
        goes_on = self.live("vanished")
        after = self.asker.ask(self.stream, whole.numbers[-1], situation="after")
        return goes_on and in_time and served and after.outcome == "marker"

    def load(self, phase: str, whole: Question) -> None:
        """Record how much memory the publisher uses, once that no longer grows, and how large a whole answer is."""
        used: list[int] = []
        while len(used) < SAMPLES and (len(used) < 2 or used[-1] > used[-2] + STEADY):
            stats = self.session.stats()
            if stats is None or stats.rss is None:
                return
            used.append(stats.rss)
            self.session.wait(lambda: False, SAMPLE_S)
        size, batches = whole.payload_bytes, len(whole.numbers)
        self.session.mark(
            "replay-load", self.stream.name, phase=phase, rss=used[-1], answer_bytes=size, batches=batches
        )


def run(session: Session) -> None:
    """Every stream that has a replay endpoint."""
    for stream in session.streams:
        if stream.replay is None:
            continue
        with Asker(session) as asker:
            attack = Attack(session, asker, stream)
            if attack.traffic is not None:
                attack.traffic.until(RETAINED - 1, RETAINED)
                session.settle()
            whole = attack.whole()
            if whole is None or not attack.live("nothing"):
                continue
            attack.together()
            attack.paused(whole)
            attack.evicted(whole)
            if (whole := attack.whole()) is not None:
                attack.vanish(whole)


PROBE = Probe(
    name="replay-pressure",
    run=run,
    needs=frozenset({"replayable"}),
    must_survive=SURVIVE,
    bounds="answers as in the replay probe; live batches are awaited for live_delay_s; clients pause for pause_s, and "
    "as long as clients beside them are awaited",
)
