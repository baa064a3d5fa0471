"""Replay under pressure: many clients, slow ones, vanished ones, and what they cost the others (spec/replay.md)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from kvwire.history.exchanges import UNTOLD, Exchange
from kvwire.judges.area import Area, Say, judge
from kvwire.judges.patience import Patience
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import Wait
from kvwire.trace.marks import LiveAwaited, ReplayLoad
from kvwire.trace.records import told

FLOOR = 16 * 2**20
"""Bytes by which the memory of a process may grow for reasons of its own."""
OVERHEAD = 3
"""How much more than its payload a batch may take in memory: frames, objects, what an allocator keeps."""


class Pressure(Area):
    """Reads requests, answers and what was awaited live meanwhile; decides at the end."""

    memory = "O(requests)"

    def finish(self) -> None:
        waits = list(self.facts.stalls.waits(self.facts.stimuli, LiveAwaited))
        self.live_in_time(waits)
        after_vanished = Patience(self.goes_on_serving)
        for index, awaited, wait in waits:
            if awaited.during == "vanished":
                self._live_after(after_vanished, index, awaited, wait)
        together = Patience(self.at_once)
        for exchange in self.facts.exchanges.values():
            if exchange.situation in ("together", "beside"):
                self.at_once(exchange, together)
            elif exchange.situation == "after":
                self.goes_on_serving(exchange, after_vanished)
            elif exchange.situation == "beyond" and exchange.outcome is not None:
                self.bounded(exchange)
        together.decide()
        after_vanished.decide()
        loads = list(told(self.facts.stimuli, ReplayLoad))
        for before, under in itertools.pairwise(loads):
            if (before[1].phase, under[1].phase) == ("before", "under"):
                self.memory_bounded(before, under)
        if loads and not self.memory_bounded.tally.witnesses:
            self.memory_bounded.open("what was asked for is less than what a bounded publisher may buffer")

    # the live stream

    @judge("KVW-REP-011", memory="O(1)")
    def live_in_time(self, say: Say, waits: Sequence[tuple[int, LiveAwaited, Wait]]) -> None:
        """KVW-REP-011: A publisher MUST NOT delay live publication by replay beyond the declared bound `live_delay_s`.

        What the harness caused while replay was busy was seen before the bound was over, or it was not, in several
        attempts. Only where one was seen in time when replay was idle: else something else delays it.
        """
        in_peace, group, patience = True, 0, Patience(say)
        for index, awaited, wait in waits:
            if awaited.during == "nothing":
                in_peace, group = awaited.outcome == "seen", index
            elif awaited.during != "replay":
                group = index
            elif awaited.outcome == "seen":
                say.saw()
                patience.came(group)
                group = index
            elif not in_peace:
                say.open("live batches were not seen in time without replay either")
            else:
                patience.missed(
                    group,
                    wait,
                    f"live batches within {awaited.bound_s:g} s while replay clients wait for their answers",
                    f"{awaited.heard or 0} of {awaited.offered} that were offered",
                    Where(record=index),
                )
        patience.decide()

    # many clients

    @judge("KVW-REP-012")
    def at_once(self, say: Say, exchange: Exchange, patience: Patience) -> None:
        """KVW-REP-012: A publisher MUST serve several replay clients at once, up to the declared number
        `replay_clients`.

        Clients that ask together, and clients that ask while others do not read: none has to wait for one that does
        not read.
        """
        beside = "while other clients do not read" if exchange.situation == "beside" else "together with others"
        self._served(say, exchange, f"the end of an answer that was asked for {beside}", patience)

    @judge("KVW-REP-017")
    def bounded(self, say: Say, exchange: Exchange) -> None:
        """KVW-REP-017: A publisher MAY bound the clients that it serves at once and the requests that wait per client,
        as declared in `replay_clients` and `replay_waiting`; what exceeds them waits or is dropped.
        """
        if not exchange.items and exchange.outcome not in UNTOLD:
            say.saw()

    def _served(self, say: Say, exchange: Exchange, expected: str, patience: Patience) -> None:
        seen = f"{len(exchange.data)} batches and no end marker in time ({exchange.outcome}){exchange.oddities}"
        where = Where(record=exchange.done)
        if exchange.outcome == "marker":
            say.saw()
            patience.came(exchange.about)
        elif exchange.outcome in UNTOLD:
            say.open(UNTOLD[exchange.outcome])
        elif exchange.vain:
            for wait in exchange.waits(self.facts.stalls):
                patience.missed(exchange.about, wait, expected, seen, where)
        elif exchange.outcome is not None:
            say.broke(expected, seen, where)

    # clients that vanish

    @judge("KVW-REP-018")
    def goes_on_serving(self, say: Say, exchange: Exchange, patience: Patience) -> None:
        """KVW-REP-018: A publisher MUST go on serving live subscribers and other replay clients when a replay client
        vanishes.
        """
        self._served(say, exchange, "an answer to another client after some vanished", patience)

    def _live_after(self, patience: Patience, index: int, awaited: LiveAwaited, wait: Wait) -> None:
        """KVW-REP-018, for live subscribers."""
        if awaited.outcome == "seen":
            self.goes_on_serving.saw()
            patience.came("live")
            return
        patience.missed(
            "live",
            wait,
            f"a live batch within {awaited.bound_s:g} s after replay clients vanished",
            f"none, of {awaited.offered} that were offered",
            Where(record=index),
        )

    # memory

    @judge("KVW-REP-019")
    def memory_bounded(self, say: Say, first: tuple[int, ReplayLoad], second: tuple[int, ReplayLoad]) -> None:
        """KVW-REP-019: A publisher MUST keep the memory that it uses for replay bounded, whatever its clients do.

        Clients that never read ask for far more answers than may wait (`replay_waiting`, and the one that is being
        given). A publisher that buffers whole answers for all that may wait, each of a full ring (`ring`), is bounded;
        what grows beyond that, and beyond what objects and allocators add, grows with the requests.
        """
        (begins, before), (ends, under) = first, second
        requests = Counter(
            exchange.connection
            for exchange in self.facts.exchanges.values()
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
            say.broke(
                f"at most {allowed >> 20} MiB more for {answers} answers of {ring} batches each",
                f"{grown >> 20} MiB more after {requests.total()} requests from clients that do not read",
                Where(record=ends),
            )
        elif asked >= 2 * allowed:
            say.saw()
