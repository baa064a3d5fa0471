"""Numbers as they came: each once, in order, and from 0 in every life."""

from __future__ import annotations

import itertools

import msgspec

from kvwire.history.timeline import Answer, Arrival, Batch, Gap, Incarnation, Live
from kvwire.judges.area import HEX_BYTES, Area, Context, Say, at_batch, judge, unused
from kvwire.judges.step import Step
from kvwire.judges.verdict import Where
from kvwire.trace.calls import StatsCall
from kvwire.trace.records import Record, told
from kvwire.wire.events import Event
from kvwire.wire.framing import END_NUMBER, number_of

NEVER = 2**63
"""Later than every record."""
LAST = END_NUMBER - 1
"""The highest number that a batch can have."""
FEW = 3
"""So many batches can be missed, or be of the publisher's own, without telling anything."""
MANY = 8
"""Below this number a life before tells nothing of where the next one goes on: that many can be dropped by chance."""


class Numbers(Area):
    """Reads live arrivals, replay answers and restarts."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.epochs: dict[str, tuple[Incarnation, Batch]] = {}
        """Each epoch that was named, with the first incarnation that had it, and the batch."""
        self.named: str | None = None
        """The epoch of this incarnation."""

    def on_record(self, index: int, record: Record) -> None:
        if not record.is_live:
            return
        frames = record.frames or ()
        if (
            index not in self.facts.copies
            and len(frames) > 1
            and (number := number_of(frames[1])) is not None
            and number >= LAST
        ):
            self.below_the_marker(index, number)

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.facts.leading = incarnation.origin_known
        self.life = incarnation
        self.named = None

    def on_gap(self, gap: Gap) -> None:
        self.facts.leading = False
        if gap.maybe_restart:
            self.named = None

    def on_event(self, batch: Batch, event: Event) -> None:
        if event.kind == "cleared" and event.epoch is not None:
            self.may_name_its_epoch()
            if self.named is None:
                self.named = event.epoch
                self.own_epoch(batch, event, event.epoch)
        if self.facts.leading:
            self.facts.leading = False
            self.leading_clear(batch, event)

    def on_step(self, step: Step) -> None:
        self.no_filled_hole.saw(step.in_order)
        self.no_reuse.saw(step.in_order)

    def on_live(self, live: Live) -> None:
        self.no_filled_hole(live)
        self.no_reuse(live)

    def finish(self) -> None:
        self._beside()
        self.first_zero()
        for restart, later in itertools.pairwise([*self.facts.restarts, NEVER]):
            self.zero_again(restart, later)

    def _beside(self) -> None:
        """Say of numbers that came twice, or late, that further counters have them, where they do."""
        found = self.facts.senders
        if found is None:
            return
        ranks = sorted({batch.reading.rank for batch in self.facts.reused if batch.reading.rank is not None})
        said = f"; {found.text}" + (f", of rank {ranks[0]}" if len(ranks) == 1 else "")
        for judged in (self.no_filled_hole, self.no_reuse):
            findings = judged.tally.findings
            findings[:] = [msgspec.structs.replace(finding, seen=finding.seen + said) for finding in findings]

    def _frames(self, record: int) -> tuple[bytes, ...]:
        held = self.facts.recent.get(record)
        return () if held is None else held.frames or ()

    def _at(self, record: int) -> Where:
        frames = self._frames(record)
        number = int.from_bytes(frames[1], "big") if len(frames) > 1 else None
        shown = frames[1][:HEX_BYTES].hex() if len(frames) > 1 else None
        return Where(
            record=record, number=None if number is None else str(number), frame="sequence", offset=0, hex=shown
        )

    # live arrivals

    @judge("KVW-SEQ-006", unclaimed=unused, memory="O(1)")
    def below_the_marker(self, say: Say, index: int, number: int) -> None:
        """KVW-SEQ-006: A publisher MUST NOT give a batch the number 2^64−1, which is reserved for the end marker of
        replay.

        A stream that comes as far as 2^64−2 shows that it stops there; others have no occasion.
        """
        if number == LAST:
            say.saw()
        else:
            say.broke(f"a number of at most {LAST}", f"{number}, the end marker's, live", self._at(index))

    @judge("KVW-SEQ-003", memory="O(holes)")
    def no_filled_hole(self, say: Say, live: Live) -> None:
        """KVW-SEQ-003: A publisher MUST NOT fill a hole: within an incarnation no batch is sent live under a number
        that is lower than one already sent and was not sent before.

        A late copy of a batch that another witness or a replay delivered is a duplicate and no filled hole.
        """
        if live.arrival in (Arrival.NEXT, Arrival.AHEAD):
            say.saw()
        elif live.arrival is Arrival.FILLED:
            say.broke(
                f"a number above {live.previous}, the last one sent",
                f"number {live.number}, which was missing until then, after {live.previous} ({live.source})",
                self._at(live.record),
            )

    @judge("KVW-SEQ-004", memory="O(window)")
    def no_reuse(self, say: Say, live: Live) -> None:
        """KVW-SEQ-004: A publisher MUST NOT use a sequence number for two different batches within an incarnation."""
        if live.arrival in (Arrival.NEXT, Arrival.AHEAD):
            say.saw()
        elif live.arrival is Arrival.REUSED:
            payload = (self._frames(live.record) or (b"",))[-1]
            where = Where(
                record=live.record,
                number=str(live.number),
                frame="payload",
                offset=0,
                hex=payload[:HEX_BYTES].hex(),
            )
            say.broke(
                f"number {live.number} for one batch only, that of record {live.other}",
                f"another batch under number {live.number} after {live.previous}, without a disconnect",
                where,
            )

    # the first number

    def _judge_first(self, say: Say, answer: Answer, life: Incarnation, newest: int, between: tuple[int, int]) -> None:
        """What the first number of a replay answer from 0 says, unless the ring has evicted what came before, or may
        have: it has where a lower number of this life was heard.

        A hole at the start is a hole: what came before can have been dropped, unless the publisher counts nothing as
        dropped ``between`` these records, or goes on right where the life before stopped, at ``newest``.
        """
        restart, later = between
        ring = self.context.statement.ring
        first = answer.numbers[0]
        goes_on = MANY <= newest < first <= newest + FEW
        begins = f"replay from 0 begins at {first}"
        batch = next((batch for batch in life.batches if batch.number == first), None)
        begun = min((held.record for held in life.batches), default=-1) > restart
        if first == 0:
            say.saw()
        elif begun and any(held.number < first for held in life.batches):
            say.open(f"{begins}; lower numbers were heard, and are not retained")
        elif ring is None:
            say.open(
                f"{begins}; the size of the ring is not declared, so that it may have evicted what came before",
            )
        elif len(answer.numbers) >= ring:
            say.open(f"{begins}, and the ring is full")
        elif batch is None or not (goes_on or self._dropped_nothing(min(held.record for held in life.batches), later)):
            say.open(f"{begins}, and what came before may have been dropped")
        else:
            say.broke(
                "number 0 for the first batch",
                f"{begins} with {len(answer.numbers)} batches, though the ring holds {ring}"
                + (f"; the life before had reached {newest}" if goes_on else " and nothing was dropped"),
                at_batch(batch),
            )

    def _dropped_nothing(self, after: int, before: int) -> bool:
        """Whether the publisher counted, between two records, no batch as dropped."""
        calls = told(self.facts.stimuli, StatsCall)
        return any(after < index < before and call.succeeded and call.dropped == 0 for index, call in calls)

    def _newest(self, before: int) -> int:
        """The highest number that was heard live before a record; -1 when none was."""
        return max((live.number for live in self.context.timeline.live if live.record < before), default=-1)

    def _kept(self, answer: Answer, restart: int) -> Batch | None:
        """A batch of the answer that was heard before a restart, and whose ``ts`` no life after it can have.

        Two lives can send the same bytes under one number where a clock stands still or ticks slowly: only what is
        older than another batch of before the restart counts.
        """
        exchange = self.facts.exchanges.get(answer.source)
        if exchange is None:
            return None
        held = {number_of(item.sequence): item.payload for item in exchange.data}
        before = [batch for life in self.context.timeline.incarnations for batch in life.batches]
        before = [batch for batch in before if batch.live is not None and batch.live < restart]
        stamps = [batch.reading.ts for batch in before if batch.reading.ts is not None]
        newest = max(stamps, default=0.0)
        for batch in before:
            ts = batch.reading.ts
            if ts is not None and ts < newest and held.get(batch.number) == batch.payload:
                return batch
        return None

    def _counted(self, after: int, before: int) -> int | None:
        """The most batches that the publisher counted in the life between two records; None where it did not count."""
        calls = told(self.facts.stimuli, StatsCall)
        counts = [call.offered for at, call in calls if after < at < before and call.succeeded]
        return max((count for count in counts if count is not None), default=None)

    def _goes_on(self, answer: Answer, restart: int, counted: int) -> bool:
        """Whether an answer goes on where the life before stopped, far above what was offered since.

        A publisher's own batches may not be counted, so that a few more prove nothing.
        """
        return self._newest(restart) < answer.numbers[0] and answer.numbers[0] >= 2 * counted + FEW

    def _from_zero(self, incarnation: Incarnation, after: int = -1, before: int = NEVER) -> Answer | None:
        """The first complete answer from 0 of an incarnation that was asked for between two records."""
        for answer in self.context.timeline.answers:
            whole = answer.start == 0 and answer.numbers and answer.ended
            if whole and answer.incarnation == incarnation.index and after < answer.request < before:
                return answer
        return None

    @judge("KVW-SEQ-001")
    def first_zero(self, say: Say) -> None:
        """KVW-SEQ-001: A publisher MUST give the first batch of a stream the sequence number 0.

        Only the first life: later ones are KVW-SEQ-007's. A ring that may have evicted leaves it open.
        """
        lives = self.context.timeline.incarnations
        if not lives:
            return
        life = lives[0]
        later = min(self.facts.restarts, default=NEVER)
        answer = self._from_zero(life, before=later)
        if life.origin_known:
            say.saw()
        elif answer is None:
            say.open("no replay answer from 0, and the first live number is not the first one sent")
        else:
            self._judge_first(say, answer, life, -1, (-1, later))

    @judge("KVW-SEQ-007")
    def zero_again(self, say: Say, restart: int, later: int) -> None:
        """KVW-SEQ-007: A publisher MUST begin again at sequence number 0 in every new incarnation, whatever number
        the last one reached.

        Shown by the first replay from 0 that is asked for after the harness restarted the publisher and before the
        restart after that, or by a new incarnation whose number 0 was seen. Live numbers alone do not show it: those
        of the old life are still under way, and the first of the new one are lost. An answer that holds batches of
        before the restart shows that the life before goes on.
        """
        lives = self.context.timeline.incarnations
        for life in lives:
            answer = self._from_zero(life, restart, later)
            if answer is None:
                continue
            if (kept := self._kept(answer, restart)) is not None:
                say.broke(
                    "number 0 for the first batch of the new incarnation",
                    f"replay after the restart holds number {kept.number} of before it: {len(answer.numbers)} batches "
                    f"from {answer.numbers[0]} to {answer.numbers[-1]}",
                    at_batch(kept),
                )
            elif (counted := self._counted(restart, later)) is not None and self._goes_on(answer, restart, counted):
                say.broke(
                    "number 0 for the first batch of the new incarnation",
                    f"replay from 0 begins at {answer.numbers[0]}, and the publisher counts {counted} batches in this "
                    f"life; the life before had reached {self._newest(restart)}",
                    Where(record=answer.request, number=str(answer.numbers[0])),
                )
            else:
                self._judge_first(say, answer, life, self._newest(restart) if counted is None else -1, (restart, later))
            return
        for life in lives[1:]:
            if life.origin_known and restart < life.batches[0].record < later:
                say.saw()
                return
        say.open("no replay from 0 after the restart, and no number 0 of a new incarnation")

    # epochs

    @judge("KVW-SEQ-019", memory="O(1)")
    def may_name_its_epoch(self, say: Say) -> None:
        """KVW-SEQ-019: A publisher MAY name its incarnation by a string in the key `epoch` of `AllBlocksCleared`."""
        say.saw()

    @judge("KVW-SEQ-020", unclaimed=unused, memory="O(instances)")
    def own_epoch(self, say: Say, batch: Batch, event: Event, epoch: str) -> None:
        """KVW-SEQ-020: A publisher MUST NOT use one `epoch` for two incarnations.

        The first epoch of each incarnation is compared with those of the incarnations before. One and the same batch
        is no second naming: then it is one life that was taken for two.
        """
        if self.epochs and epoch not in self.epochs:
            say.saw()
        life, first = self.epochs.setdefault(epoch, (self.life, batch))
        if life is self.life:
            return
        if (first.number, first.payload) == (batch.number, batch.payload):
            say.open(f"incarnations {life.index} and {self.life.index} begin with the same bytes and may be one")
            return
        say.broke(
            "an epoch of its own for each incarnation",
            f"epoch {epoch!r} in incarnation {self.life.index}, which incarnation {life.index} had",
            at_batch(batch, event=event),
        )

    @judge("KVW-SEQ-008")
    def leading_clear(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-SEQ-008: A publisher SHOULD send `AllBlocksCleared` as the first event of every incarnation.

        Only an incarnation that is known from 0 up to its first event shows it.
        """
        if event.kind == "cleared":
            say.saw()
        else:
            say.broke(
                "`AllBlocksCleared` as the first event of the incarnation",
                f"`{event.tag}` in number {batch.number}",
                at_batch(batch, event=event),
            )
