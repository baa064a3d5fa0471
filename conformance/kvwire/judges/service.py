"""Replay under pressure: many clients, slow ones, vanished ones, and what they cost the others (spec/replay.md)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import msgspec

from kvwire.exchanges import SEND_MARK, SYSTEM_BUFFER, Exchange, Exchanges, Hole, holes
from kvwire.judges.area import Area, Context, at_record, judge
from kvwire.trace import Record, Source
from kvwire.verdict import Where

OPEN = {
    "count": "an answer exceeds the bound of the harness",
    "over": "the run ended before an answer did",
}
"""Outcomes of an exchange that say nothing of the publisher."""
FLOOR = 16 * 2**20
"""Bytes by which the memory of a process may grow for reasons of its own."""
OVERHEAD = 3
"""How much more than its payload a batch may take in memory: frames, objects, what an allocator keeps."""


class _Resumed(msgspec.Struct, frozen=True):
    """A connection that paused: for how long, its receive high-water mark, its requests and the batches of each."""

    paused_s: float
    rcvhwm: int
    requests: int
    retained: int

    @property
    def overflows(self) -> bool:
        """Whether the answers are more than the pipes of a ROUTER without options and of the client take."""
        return self.requests * self.retained >= SEND_MARK + self.rcvhwm + SYSTEM_BUFFER


class _Load(msgspec.Struct, frozen=True):
    """The memory of the publisher, and the payload of one whole answer with its count of batches; in bytes."""

    record: int
    phase: str
    rss: int
    answer_bytes: int
    batches: int


class Service(Area):
    """Reads requests, answers and what was awaited live meanwhile; decides at the end."""

    name = "service"
    memory = "O(ring)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.exchanges = Exchanges()
        self.awaited: list[tuple[int, Record]] = []
        self.resumed: dict[str, _Resumed] = {}
        self.loads: list[_Load] = []

    def on_record(self, index: int, record: Record) -> None:
        detail = record.detail
        if record.source == Source.STIMULUS and record.event == "live-awaited":
            self.awaited.append((index, record))
        elif record.source == Source.STIMULUS and record.event == "replay-resumed":
            self.resumed[str(detail["connection"])] = msgspec.convert(detail, _Resumed)
        elif record.source == Source.STIMULUS and record.event == "replay-load":
            self.loads.append(msgspec.convert({"record": index, **detail}, _Load))
        else:
            self.exchanges.take(index, record)

    def finish(self) -> None:
        in_peace = True
        for index, record in self.awaited:
            if record.detail["during"] == "nothing":
                in_peace = record.detail["outcome"] == "seen"
            elif record.detail["during"] == "replay":
                self.live_in_time(index, record, in_peace=in_peace)
            else:
                self.goes_on_live(index, record)
        for exchange in self.exchanges.by_client.values():
            if exchange.situation in ("together", "beside"):
                self.at_once(exchange)
            elif exchange.situation == "after":
                self.goes_on_serving(exchange)
            elif exchange.situation == "beyond" and exchange.outcome is not None:
                self.bounded(exchange)
        self._slow()
        for before, under in itertools.pairwise(self.loads):
            if (before.phase, under.phase) == ("before", "under"):
                self.memory_bounded(before, under)
        if self.loads and not self.tally("KVW-REP-019").witnesses:
            self.open("KVW-REP-019", "what was asked for is less than what a bounded publisher may buffer")

    # the live stream

    @judge("KVW-REP-011")
    def live_in_time(self, index: int, record: Record, *, in_peace: bool) -> None:
        """KVW-REP-011: A publisher MUST NOT delay live publication by replay beyond the declared bound `live_delay_s`.

        A batch that the harness caused while replay was busy was seen before the bound was over, or it was not. Only
        where one was seen in time when replay was idle: else something else delays it.
        """
        if record.detail["outcome"] == "seen":
            self.saw("KVW-REP-011")
        elif not in_peace:
            self.open("KVW-REP-011", "live batches were not seen in time without replay either")
        else:
            self.broke(
                "KVW-REP-011",
                f"a live batch within {record.detail['bound_s']:g} s while replay clients wait for their answers",
                f"none, of {record.detail['offered']} that were offered",
                Where(record=index),
            )

    # many clients

    @judge("KVW-REP-012")
    def at_once(self, exchange: Exchange) -> None:
        """KVW-REP-012: A publisher MUST serve several replay clients at once, up to the declared number
        `replay_clients`.

        Clients that ask together, and clients that ask while others do not read: none has to wait for one that does
        not read.
        """
        beside = "while other clients do not read" if exchange.situation == "beside" else "together with others"
        self._served("KVW-REP-012", exchange, f"the end of an answer that was asked for {beside}")

    @judge("KVW-REP-017")
    def bounded(self, exchange: Exchange) -> None:
        """KVW-REP-017: A publisher MAY bound the clients that it serves at once and the requests that wait per client,
        as declared in `replay_clients` and `replay_waiting`; what exceeds them waits or is dropped.
        """
        if not exchange.items and exchange.outcome not in OPEN:
            self.saw("KVW-REP-017")

    def _served(self, requirement: str, exchange: Exchange, expected: str) -> None:
        if exchange.outcome == "marker":
            self.saw(requirement)
        elif exchange.outcome in OPEN:
            self.open(requirement, OPEN[exchange.outcome])
        elif exchange.outcome is not None:
            self.broke(
                requirement,
                expected,
                f"{len(exchange.data)} batches and no end marker in time ({exchange.outcome}){exchange.oddities}",
                Where(record=exchange.done),
            )

    # clients that vanish

    @judge("KVW-REP-018")
    def goes_on_serving(self, exchange: Exchange) -> None:
        """KVW-REP-018: A publisher MUST go on serving live subscribers and other replay clients when a replay client
        vanishes.
        """
        self._served("KVW-REP-018", exchange, "an answer to another client after some vanished")

    def goes_on_live(self, index: int, record: Record) -> None:
        """KVW-REP-018, for live subscribers."""
        if record.detail["outcome"] == "seen":
            self.saw("KVW-REP-018")
        else:
            self.broke(
                "KVW-REP-018",
                f"a live batch within {record.detail['bound_s']:g} s after replay clients vanished",
                f"none, of {record.detail['offered']} that were offered",
                Where(record=index),
            )

    # clients that pause

    def _slow(self) -> None:
        answers = {answer.source: answer for answer in self.context.timeline.answers}
        sent: dict[int | None, dict[int, int]] = defaultdict(dict)
        for live in self.context.timeline.live:
            sent[live.incarnation].setdefault(live.number, live.record)
        lives = {
            self.exchanges.by_client[answer.source].connection: answer.incarnation
            for answer in answers.values()
            if answer.source in self.exchanges.by_client and answer.incarnation is not None
        }
        for exchange in self.exchanges.by_client.values():
            answer = answers.get(exchange.client)
            if not exchange.slow or exchange.outcome is None or exchange.done is None or answer is None:
                continue
            life = lives.get(exchange.connection)
            others = (other for other in answers.values() if other.incarnation == life)
            later = [other for other in others if other.request > exchange.done]
            left_out = holes(answer, sent[life], later)
            if left_out is not None:
                self._left_out(exchange, left_out)
            elif exchange.situation == "paused":
                self.open("KVW-REP-010", "no later answer tells what was retained when the client had paused")

    def _completes(self) -> bool:
        """Whether every answer on some connection that paused came to its end, though its pipes cannot hold them."""
        ended: dict[str, bool] = {}
        for exchange in self.exchanges.by_client.values():
            resumed = self.resumed.get(exchange.connection)
            if exchange.situation == "paused" and resumed is not None and resumed.overflows:
                ended[exchange.connection] = bool(exchange.ends) and ended.get(exchange.connection, True)
        return any(ended.values())

    def _left_out(self, exchange: Exchange, left_out: tuple[Hole, ...]) -> None:
        at_end = next((hole for hole in left_out if hole.at_end), None)
        if exchange.ends:
            self.no_false_end(exchange, at_end)
        elif not exchange.data and exchange.outcome not in OPEN:
            self.saw("KVW-REP-009")
        if exchange.situation != "paused":
            return
        for hole in left_out:
            if hole.evicted and (exchange.ends or not hole.at_end):
                self.goes_on_from_oldest(exchange, hole)
        if not exchange.ends and at_end is not None and at_end.evicted and self._completes():
            self.goes_on_from_oldest(exchange, at_end)
        else:
            self.resumes(exchange, left_out)

    @judge("KVW-REP-009")
    def no_false_end(self, exchange: Exchange, at_end: Hole | None) -> None:
        """KVW-REP-009: A publisher MUST NOT send the end marker to a client that it gave up on, or for a request that
        it dropped.

        The answer to a client that did not read ends with the marker, and before it, at its end, batches are missing
        that a later answer holds. In the middle of an answer they are KVW-REP-008's.
        """
        if at_end is None or at_end.evicted or not at_end.retained:
            self.saw("KVW-REP-009")
            return
        end = exchange.ends[0]
        self.broke(
            "KVW-REP-009",
            f"no end marker without the {len(at_end.retained)} batches from {at_end.first} on, which were retained",
            f"the end marker after {len(exchange.data)} batches",
            at_record(end.record, "message", b"".join(end.frames)),
        )

    @judge("KVW-REP-020")
    def goes_on_from_oldest(self, exchange: Exchange, hole: Hole) -> None:
        """KVW-REP-020: A publisher MUST go on from the oldest retained batch when batches of an answer were evicted
        before they could be sent.

        The hole begins with batches that were evicted; those in it that a later answer holds should have been sent. An
        answer that breaks off there breaks it only if the publisher completes answers after a pause otherwise.
        """
        if not hole.retained:
            if hole.end is not None:
                self.saw("KVW-REP-020")
            return
        went_on = "the end marker" if exchange.ends else "nothing"
        self.broke(
            "KVW-REP-020",
            f"number {hole.retained[0]}, the oldest retained after {hole.evicted} batches from {hole.first} on were "
            "evicted",
            f"{went_on if hole.end is None else f'number {hole.end}'} next",
            Where(record=exchange.done),
        )

    @judge("KVW-REP-010")
    def resumes(self, exchange: Exchange, left_out: tuple[Hole, ...]) -> None:
        """KVW-REP-010: A publisher SHOULD complete the answer for a client that stops reading and resumes within the
        declared bound `replay_resume_s`.

        A witness is an answer on a connection whose requests together ask for more than its pipes take: what fits into
        them is completed by the sockets alone.
        """
        resumed = self.resumed.get(exchange.connection)
        bound = self.context.statement.bounds.replay_resume_s
        if resumed is None or (not resumed.overflows and exchange.ends):
            return
        if exchange.outcome in OPEN:
            self.open("KVW-REP-010", OPEN[exchange.outcome])
        elif resumed.paused_s > bound:
            self.open("KVW-REP-010", f"the pause lasted {resumed.paused_s:g} s, longer than the declared {bound:g} s")
        elif exchange.ends:
            self.saw("KVW-REP-010")
        else:
            retained = sum(len(hole.retained) for hole in left_out)
            self.broke(
                "KVW-REP-010",
                f"{len(exchange.data) + retained} batches and the end marker after a pause within {bound:g} s",
                f"{len(exchange.data)} batches and no end marker (receive high-water mark {resumed.rcvhwm})",
                Where(record=exchange.done),
            )

    # memory

    @judge("KVW-REP-019")
    def memory_bounded(self, before: _Load, under: _Load) -> None:
        """KVW-REP-019: A publisher MUST keep the memory that it uses for replay bounded, whatever its clients do.

        Clients that never read ask for far more answers than may wait (`replay_waiting`, and the one that is being
        given). A publisher that buffers whole answers for all that may wait, each of a full ring (`ring`), is bounded;
        what grows beyond that, and beyond what objects and allocators add, grows with the requests.
        """
        requests = Counter(
            exchange.connection
            for exchange in self.exchanges.by_client.values()
            if exchange.situation == "vanishing" and before.record < exchange.request < under.record
        )
        waiting = 1 + self.context.statement.bounds.replay_waiting
        answers = sum(min(count, waiting) for count in requests.values())
        ring = self.context.statement.ring or before.batches
        whole = before.answer_bytes * max(ring, before.batches) // before.batches
        allowed = answers * whole * OVERHEAD + FLOOR
        asked = requests.total() * before.answer_bytes
        grown = under.rss - before.rss
        if grown > allowed:
            self.broke(
                "KVW-REP-019",
                f"at most {allowed >> 20} MiB more for {answers} answers of {ring} batches each",
                f"{grown >> 20} MiB more after {requests.total()} requests from clients that do not read",
                Where(record=under.record),
            )
        elif asked >= 2 * allowed:
            self.saw("KVW-REP-019")
