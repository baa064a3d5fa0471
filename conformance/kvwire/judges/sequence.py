"""Sequence: numbers, holes, restarts, and what was lost (spec/sequence.md)."""

from __future__ import annotations

import itertools

from kvwire.history.offered import Anchor, Offered, Parts
from kvwire.history.timeline import Answer, Arrival, Batch, Gap, Incarnation, Live
from kvwire.judges.area import ABSURD, HEX_BYTES, Area, Context, at_batch, judge
from kvwire.judges.verdict import Where
from kvwire.trace.calls import (
    BurstCall,
    CacheCall,
    FaultCall,
    PublishCall,
    ResetCall,
    RestartCall,
    StartCall,
    StopCall,
)
from kvwire.trace.marks import TailDone
from kvwire.trace.records import Record
from kvwire.trace.stimuli import Offer, offers
from kvwire.wire.events import Event

NEVER = 2**63
"""Later than every record."""


class Sequence(Area):
    """Reads live arrivals, replay answers, offers and restarts."""

    name = "sequence"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.records: dict[int, Record] = {}
        self.stimuli: list[tuple[int, Record]] = []
        self.tails: list[int] = []
        """Records at which the batch that was offered last had not come within its bound."""
        self.restarts: list[int] = []
        self.disturbed: list[int] = []
        """Records of stimuli across which numbers and offers are not compared."""
        self.lives: list[Incarnation] = []
        self.leading = False
        """Nothing of this incarnation was missed, and no event of it was seen yet."""

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live:
            self.records[index] = record
        match record.detail:
            case PublishCall() | BurstCall() | FaultCall():
                self.stimuli.append((index, record))
            case TailDone(outcome="bound"):
                self.tails.append(index)
            case RestartCall(succeeded=True):
                self.restarts.append(index)
                self.disturbed.append(index)
            case CacheCall() | ResetCall() | StartCall() | StopCall():
                # They may cause batches which were not offered, or numbers begin anew after them.
                self.disturbed.append(index)

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.lives.append(incarnation)
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
        for restart, later in itertools.pairwise([*self.restarts, NEVER]):
            self.zero_again(restart, later)
        if not self.lives:
            return
        offered = Offered(offers(self.stimuli), self.lives, self.disturbed)
        if offered.splits:
            self.open("KVW-SEQ-002", "the publisher sends one offered batch as several")
        else:
            for earlier, later_one in offered.pairs():
                self.one_by_one(earlier, later_one, offered)
            self.whole_batches(*offered.shed())
        self._losses(offered)

    def _at(self, record: int) -> Where:
        frames = self.records[record].frames or ()
        number = int.from_bytes(frames[1], "big") if len(frames) > 1 else None
        shown = frames[1][:HEX_BYTES].hex() if len(frames) > 1 else None
        return Where(
            record=record, number=None if number is None else str(number), frame="sequence", offset=0, hex=shown
        )

    # live arrivals

    @judge("KVW-SEQ-003")
    def no_filled_hole(self, live: Live) -> None:
        """KVW-SEQ-003: A publisher MUST NOT fill a hole: within an incarnation no batch is sent live under a number
        that is lower than one already sent and was not sent before.

        A late copy of a batch that another witness or a replay delivered is a duplicate and no filled hole.
        """
        if live.arrival in (Arrival.NEXT, Arrival.AHEAD):
            self.saw("KVW-SEQ-003")
        elif live.arrival is Arrival.FILLED:
            self.broke(
                "KVW-SEQ-003",
                f"a number above {live.previous}, the last one sent",
                f"number {live.number}, which was missing until then, after {live.previous} ({live.source})",
                self._at(live.record),
            )

    @judge("KVW-SEQ-004")
    def no_reuse(self, live: Live) -> None:
        """KVW-SEQ-004: A publisher MUST NOT use a sequence number for two different batches within an incarnation."""
        if live.arrival in (Arrival.NEXT, Arrival.AHEAD):
            self.saw("KVW-SEQ-004")
        elif live.arrival is Arrival.REUSED:
            frames = self.records[live.record].frames or (b"", b"", b"")
            where = Where(
                record=live.record,
                number=str(live.number),
                frame="payload",
                offset=0,
                hex=frames[2][:HEX_BYTES].hex(),
            )
            self.broke(
                "KVW-SEQ-004",
                f"number {live.number} for one batch only, that of record {live.other}",
                f"another batch under number {live.number} after {live.previous}, without a disconnect",
                where,
            )

    # the first number

    def _judge_first(self, requirement: str, answer: Answer, life: Incarnation) -> None:
        """What the first number of a replay answer from 0 says, unless the ring may have evicted what came before."""
        ring = self.context.statement.ring
        begins = f"replay from 0 begins at {answer.numbers[0]}"
        if answer.numbers[0] == 0:
            self.saw(requirement)
        elif ring is None:
            self.open(
                requirement,
                f"{begins}; the size of the ring is not declared, so that it may have evicted what came before",
            )
        elif len(answer.numbers) >= ring:
            self.open(requirement, f"{begins}, and the ring is full")
        else:
            self.broke(
                requirement,
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
    def first_zero(self) -> None:
        """KVW-SEQ-001: A publisher MUST give the first batch of a stream the sequence number 0.

        Only the first life: later ones are KVW-SEQ-007's. A ring that may have evicted leaves it open.
        """
        if not self.lives:
            return
        life = self.lives[0]
        answer = self._from_zero(life, before=min(self.restarts, default=NEVER))
        if life.origin_known:
            self.saw("KVW-SEQ-001")
        elif answer is None:
            self.open("KVW-SEQ-001", "no replay answer from 0, and the first live number is not the first one sent")
        else:
            self._judge_first("KVW-SEQ-001", answer, life)

    @judge("KVW-SEQ-007")
    def zero_again(self, restart: int, later: int) -> None:
        """KVW-SEQ-007: A publisher MUST begin again at sequence number 0 in every new incarnation, whatever number
        the last one reached.

        Shown by the first replay from 0 that is asked for after the harness restarted the publisher and before the
        restart after that, or by a new incarnation whose number 0 was seen. Live numbers alone do not show it: those
        of the old life are still under way, and the first of the new one are lost.
        """
        for life in self.lives:
            answer = self._from_zero(life, restart, later)
            if answer is not None:
                self._judge_first("KVW-SEQ-007", answer, life)
                return
        for life in self.lives[1:]:
            if life.origin_known and restart < life.batches[0].record < later:
                self.saw("KVW-SEQ-007")
                return
        self.open("KVW-SEQ-007", "no replay from 0 after the restart, and no number 0 of a new incarnation")

    @judge("KVW-SEQ-008")
    def leading_clear(self, batch: Batch, event: Event) -> None:
        """KVW-SEQ-008: A publisher SHOULD send `AllBlocksCleared` as the first event of every incarnation.

        Only an incarnation that is known from 0 up to its first event shows it.
        """
        if event.kind == "cleared":
            self.saw("KVW-SEQ-008")
        else:
            self.broke(
                "KVW-SEQ-008",
                "`AllBlocksCleared` as the first event of the incarnation",
                f"`{event.tag}` in number {batch.number}",
                at_batch(batch, event=event),
            )

    # what was offered

    @judge("KVW-SEQ-002")
    def one_by_one(self, earlier: Anchor, later: Anchor, offered: Offered) -> None:
        """KVW-SEQ-002: A publisher MUST raise the sequence number by exactly one for every batch offered for
        publication, including batches that it then drops.

        Between two offers that were found, each other offer has a number of its own, seen or missing, and each missing
        number is an offer's, unless the publisher makes batches of its own, such as heartbeats. A batch that cannot be
        encoded takes a number too. An adapter that splits an offer leaves it open; one that failed may have reached the
        publisher or not.
        """
        others, seen, missing = offered.between(earlier, later)
        heartbeats = self.context.statement.bounds.heartbeat_s is not None or (not others and seen)
        rises = later.batch.number > earlier.batch.number
        if rises and others <= missing + seen and (missing <= others or heartbeats):
            self.saw("KVW-SEQ-002")
            return
        own = max(0, seen - others)
        self.broke(
            "KVW-SEQ-002",
            f"number {earlier.batch.number + others + own + 1}: {others + 1} batches were offered since number "
            f"{earlier.batch.number}" + (f", and {own} more were sent" if own else ""),
            f"number {later.batch.number}",
            at_batch(later.batch),
        )

    @judge("KVW-SEQ-010")
    def whole_batches(self, whole: list[Offer], parts: list[Parts]) -> None:
        """KVW-SEQ-010: A publisher that sheds load MUST shed whole batches, never single events of a batch.

        Events that stand in one offer only tell. A batch of several that was shed leaves none of them anywhere.
        """
        self.saw("KVW-SEQ-010", len(whole))
        for part in parts:
            self.broke(
                "KVW-SEQ-010",
                f"all {len(part.offer.events)} events of an offered batch, or none",
                f"{part.seen} of them, in number {part.batch.number}",
                at_batch(part.batch),
            )

    # what was lost

    def _losses(self, offered: Offered) -> None:
        if any(life.batches[-1].number >= ABSURD for life in self.lives if life.batches):
            self.open("KVW-SEQ-009", "the numbers count nothing")
            return
        found = {anchor.position: anchor for anchor in offered.anchors}
        later = sorted(found)
        out = self._out_of_queue(offered, found)
        before: Anchor | None = None
        waiting: list[int] = []
        """When earlier offers of this life had left the queue at the latest, those that may be in it."""
        for position, offer in enumerate(offered.offers):
            if position and any(offered.offers[position - 1].record < at < offer.record for at in self.restarts):
                waiting, before = [], None
            waiting = [record for record in waiting if record > offer.record]
            if offer.accepted and position in found:
                self.saw("KVW-SEQ-009")
            elif offer.accepted:
                after = next((found[at] for at in later if at > position), None)
                self.nothing_lost(offer, before, after, len(waiting), offered)
            waiting.append(out[position])
            before = found.get(position, before)

    @staticmethod
    def _out_of_queue(offered: Offered, found: dict[int, Anchor]) -> list[int]:
        """For each offer the record at which it or a later one was seen: a queue keeps its order."""
        out = [NEVER] * (len(offered.offers) + 1)
        for position in range(len(offered.offers) - 1, -1, -1):
            seen = found[position].batch.record if position in found else NEVER
            out[position] = min(seen, out[position + 1])
        return out

    @judge("KVW-SEQ-009")
    def nothing_lost(
        self, offer: Offer, before: Anchor | None, after: Anchor | None, waiting: int, offered: Offered
    ) -> None:
        """KVW-SEQ-009: A publisher MUST NOT lose a batch that it accepted while its queue was below its declared
        capacity and that it could encode.

        Lost is what has no place among the numbers between its neighbours, or what a complete replay answer around it
        lacks too, or, where nothing came after it, what did not come within the bound that the harness waited, nor by
        replay after that; any other missing batch stays open. At most so many batches waited as were offered and not
        seen yet.
        """
        queue = self.context.statement.queue or 1
        if waiting >= queue:
            self.open("KVW-SEQ-009", f"an accepted batch was not seen; {waiting} others may have filled the queue")
        elif after is not None and before is not None and before.life != after.life:
            self.open("KVW-SEQ-009", "an accepted batch was not seen, and no later one of its life")
        elif (how := self._never(offer) if after is None else self._lost(before, after, offered)) is None:
            self.open("KVW-SEQ-009", "an accepted batch was not seen, and no complete replay answer tells why")
        else:
            self.broke(
                "KVW-SEQ-009",
                f"the accepted batch with ts bits {offer.ts.hex()}, live or by replay",
                f"no batch with it: {how}",
                Where(record=offer.record),
            )

    def _lost(self, before: Anchor | None, after: Anchor, offered: Offered) -> str | None:
        """How it is known that nothing else came between two offers; None when it is not."""
        life = self.lives[after.life]
        first = life.batches[0].number if before is None else before.batch.number
        if before is not None and not offered.between(before, after)[2]:
            return f"numbers {first} and {after.batch.number} leave no room for it"
        for answer in self.context.timeline.answers:
            if answer.incarnation != after.life or not answer.ended or not answer.numbers:
                continue
            whole = answer.numbers[0] == 0 if before is None else answer.numbers[0] <= first
            if whole and after.batch.number in answer.numbers:
                return f"the live streams and a complete replay answer of {len(answer.numbers)} batches lack it"
        return None

    def _never(self, offer: Offer) -> str | None:
        """How it is known that an offer after which nothing came is lost; None when it is not."""
        waited = next((tail for tail in self.tails if tail > offer.record), None)
        if waited is None or any(offer.record < restart < waited for restart in self.restarts):
            return None
        asked = any(answer.request > waited for answer in self.context.timeline.answers)
        if self.context.stream.replay is not None and not asked:
            return None
        return "nothing came within the bound that it was waited for" + (", nor by replay after that" if asked else "")
