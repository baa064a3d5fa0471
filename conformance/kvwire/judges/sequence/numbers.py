"""Numbers as they came: each once, in order, and from 0 in every life."""

from __future__ import annotations

import itertools

from kvwire.history.timeline import Answer, Arrival, Batch, Gap, Incarnation, Live
from kvwire.judges.area import HEX_BYTES, Area, Context, Say, at_batch, judge
from kvwire.judges.verdict import Where
from kvwire.trace.records import Record
from kvwire.wire.events import Event

NEVER = 2**63
"""Later than every record."""


class Numbers(Area):
    """Reads live arrivals, replay answers and restarts."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.records: dict[int, Record] = {}
        self.leading = False
        """Nothing of this incarnation was missed, and no event of it was seen yet."""

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live:
            self.records[index] = record

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.leading = incarnation.origin_known

    def on_gap(self, gap: Gap) -> None:
        self.leading = False

    def on_event(self, batch: Batch, event: Event) -> None:
        if self.leading:
            self.leading = False
            self.leading_clear(batch, event)

    def finish(self) -> None:
        for live in self.context.timeline.live:
            self.no_filled_hole(live)
            self.no_reuse(live)
        self.first_zero()
        for restart, later in itertools.pairwise([*self.facts.restarts, NEVER]):
            self.zero_again(restart, later)

    def _at(self, record: int) -> Where:
        frames = self.records[record].frames or ()
        number = int.from_bytes(frames[1], "big") if len(frames) > 1 else None
        shown = frames[1][:HEX_BYTES].hex() if len(frames) > 1 else None
        return Where(
            record=record, number=None if number is None else str(number), frame="sequence", offset=0, hex=shown
        )

    # live arrivals

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
            frames = self.records[live.record].frames or (b"", b"", b"")
            where = Where(
                record=live.record,
                number=str(live.number),
                frame="payload",
                offset=0,
                hex=frames[2][:HEX_BYTES].hex(),
            )
            say.broke(
                f"number {live.number} for one batch only, that of record {live.other}",
                f"another batch under number {live.number} after {live.previous}, without a disconnect",
                where,
            )

    # the first number

    def _judge_first(self, say: Say, answer: Answer, life: Incarnation) -> None:
        """What the first number of a replay answer from 0 says, unless the ring may have evicted what came before."""
        ring = self.context.statement.ring
        begins = f"replay from 0 begins at {answer.numbers[0]}"
        if answer.numbers[0] == 0:
            say.saw()
        elif ring is None:
            say.open(
                f"{begins}; the size of the ring is not declared, so that it may have evicted what came before",
            )
        elif len(answer.numbers) >= ring:
            say.open(f"{begins}, and the ring is full")
        else:
            say.broke(
                "number 0 for the first batch",
                f"{begins} with {len(answer.numbers)} batches, though the ring holds {ring}",
                at_batch(next(batch for batch in life.batches if batch.number == answer.numbers[0])),
            )

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
        answer = self._from_zero(life, before=min(self.facts.restarts, default=NEVER))
        if life.origin_known:
            say.saw()
        elif answer is None:
            say.open("no replay answer from 0, and the first live number is not the first one sent")
        else:
            self._judge_first(say, answer, life)

    @judge("KVW-SEQ-007")
    def zero_again(self, say: Say, restart: int, later: int) -> None:
        """KVW-SEQ-007: A publisher MUST begin again at sequence number 0 in every new incarnation, whatever number
        the last one reached.

        Shown by the first replay from 0 that is asked for after the harness restarted the publisher and before the
        restart after that, or by a new incarnation whose number 0 was seen. Live numbers alone do not show it: those
        of the old life are still under way, and the first of the new one are lost.
        """
        lives = self.context.timeline.incarnations
        for life in lives:
            answer = self._from_zero(life, restart, later)
            if answer is not None:
                self._judge_first(say, answer, life)
                return
        for life in lives[1:]:
            if life.origin_known and restart < life.batches[0].record < later:
                say.saw()
                return
        say.open("no replay from 0 after the restart, and no number 0 of a new incarnation")

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
