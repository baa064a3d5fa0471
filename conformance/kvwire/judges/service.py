"""Replay under pressure: many clients, slow ones, vanished ones, and what they cost the others (spec/replay.md)."""

from __future__ import annotations

import itertools
from collections import Counter

from kvwire.history.exchanges import UNTOLD, Exchange, Exchanges
from kvwire.judges.area import Area, Context, judge
from kvwire.judges.verdict import Where
from kvwire.trace.marks import LiveAwaited, ReplayLoad
from kvwire.trace.records import Record

FLOOR = 16 * 2**20
"""Bytes by which the memory of a process may grow for reasons of its own."""
OVERHEAD = 3
"""How much more than its payload a batch may take in memory: frames, objects, what an allocator keeps."""


class Service(Area):
    """Reads requests, answers and what was awaited live meanwhile; decides at the end."""

    name = "service"
    memory = "O(requests)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.exchanges = Exchanges()
        self.awaited: list[tuple[int, LiveAwaited]] = []
        self.loads: list[tuple[int, ReplayLoad]] = []

    def on_record(self, index: int, record: Record) -> None:
        match record.detail:
            case LiveAwaited() as awaited:
                self.awaited.append((index, awaited))
            case ReplayLoad() as load:
                self.loads.append((index, load))
            case _:
                self.exchanges.take(index, record)

    def finish(self) -> None:
        in_peace = True
        for index, awaited in self.awaited:
            if awaited.during == "nothing":
                in_peace = awaited.outcome == "seen"
            elif awaited.during == "replay":
                self.live_in_time(index, awaited, in_peace=in_peace)
            else:
                self.goes_on_live(index, awaited)
        for exchange in self.exchanges.by_client.values():
            if exchange.situation in ("together", "beside"):
                self.at_once(exchange)
            elif exchange.situation == "after":
                self.goes_on_serving(exchange)
            elif exchange.situation == "beyond" and exchange.outcome is not None:
                self.bounded(exchange)
        for before, under in itertools.pairwise(self.loads):
            if (before[1].phase, under[1].phase) == ("before", "under"):
                self.memory_bounded(before, under)
        if self.loads and not self.tally("KVW-REP-019").witnesses:
            self.open("KVW-REP-019", "what was asked for is less than what a bounded publisher may buffer")

    # the live stream

    @judge("KVW-REP-011")
    def live_in_time(self, index: int, awaited: LiveAwaited, *, in_peace: bool) -> None:
        """KVW-REP-011: A publisher MUST NOT delay live publication by replay beyond the declared bound `live_delay_s`.

        What the harness caused while replay was busy was seen before the bound was over, or it was not. Only
        where one was seen in time when replay was idle: else something else delays it.
        """
        if awaited.outcome == "seen":
            self.saw("KVW-REP-011")
        elif not in_peace:
            self.open("KVW-REP-011", "live batches were not seen in time without replay either")
        else:
            self.broke(
                "KVW-REP-011",
                f"live batches within {awaited.bound_s:g} s while replay clients wait for their answers",
                f"{awaited.heard or 0} of {awaited.offered} that were offered",
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
        if not exchange.items and exchange.outcome not in UNTOLD:
            self.saw("KVW-REP-017")

    def _served(self, requirement: str, exchange: Exchange, expected: str) -> None:
        if exchange.outcome == "marker":
            self.saw(requirement)
        elif exchange.outcome in UNTOLD:
            self.open(requirement, UNTOLD[exchange.outcome])
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

    def goes_on_live(self, index: int, awaited: LiveAwaited) -> None:
        """KVW-REP-018, for live subscribers."""
        if awaited.outcome == "seen":
            self.saw("KVW-REP-018")
        else:
            self.broke(
                "KVW-REP-018",
                f"a live batch within {awaited.bound_s:g} s after replay clients vanished",
                f"none, of {awaited.offered} that were offered",
                Where(record=index),
            )

    # memory

    @judge("KVW-REP-019")
    def memory_bounded(self, first: tuple[int, ReplayLoad], second: tuple[int, ReplayLoad]) -> None:
        """KVW-REP-019: A publisher MUST keep the memory that it uses for replay bounded, whatever its clients do.

        Clients that never read ask for far more answers than may wait (`replay_waiting`, and the one that is being
        given). A publisher that buffers whole answers for all that may wait, each of a full ring (`ring`), is bounded;
        what grows beyond that, and beyond what objects and allocators add, grows with the requests.
        """
        (begins, before), (ends, under) = first, second
        requests = Counter(
            exchange.connection
            for exchange in self.exchanges.by_client.values()
            if exchange.situation == "vanishing" and begins < exchange.request < ends
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
                Where(record=ends),
            )
        elif asked >= 2 * allowed:
            self.saw("KVW-REP-019")
