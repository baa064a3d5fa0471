"""Sequence: numbers, holes, restarts, and what was lost (spec/sequence.md)."""

from __future__ import annotations

import struct

from kvwire.judges.area import HEX_BYTES, Area, Context, at_batch, judge
from kvwire.stimuli import Offer, offers, recognised, succeeded
from kvwire.timeline import Answer, Arrival, Batch, Incarnation, Live
from kvwire.trace import Record
from kvwire.verdict import Where


class Sequence(Area):
    """Reads live arrivals, replay answers, offers and restarts."""

    name = "sequence"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.records: dict[int, Record] = {}
        self.stimuli: list[tuple[int, Record]] = []
        self.restarts: list[int] = []
        self.others: list[int] = []
        """Records of stimuli that may cause batches of the engine's own."""
        self.batches: list[list[Batch]] = []
        self.lives: list[Incarnation] = []

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live:
            self.records[index] = record
        elif record.event == "publish":
            self.stimuli.append((index, record))
        elif succeeded(record, "restart"):
            self.restarts.append(index)
        elif record.event in ("cache", "reset"):
            self.others.append(index)

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.lives.append(incarnation)
        self.batches.append(list(incarnation.batches))
        self.leading_clear(incarnation)

    def finish(self) -> None:
        for live in self.context.timeline.live:
            self.no_filled_hole(live)
            self.no_reuse(live)
        self.first_zero()
        for restart in self.restarts:
            self.zero_again(restart)
        offered = offers(self.stimuli)
        matched = self._match(offered) if self.lives else [[] for _ in offered]
        self.one_by_one(offered, matched)
        self.nothing_lost(offered, matched)

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

    def _full_ring(self, answer: Answer) -> bool | None:
        """Whether the ring may have evicted before this answer; None when its size is not declared."""
        ring = self.context.statement.ring
        return None if ring is None else len(answer.numbers) >= ring

    def _from_zero(self, incarnation: int) -> Answer | None:
        for answer in self.context.timeline.answers:
            if answer.start == 0 and answer.incarnation == incarnation and answer.numbers and answer.ended:
                return answer
        return None

    def _first_number(self, requirement: str, incarnation: Incarnation) -> None:
        if incarnation.origin_known:
            self.saw(requirement)
            return
        answer = self._from_zero(incarnation.index)
        if answer is None:
            self.open(requirement, "no replay answer from 0, and the first live number is not the first one sent")
        elif (full := self._full_ring(answer)) is None:
            self.open(
                requirement,
                f"replay from 0 begins at {answer.numbers[0]}; the size of the ring is not declared, so that it may "
                "have evicted what came before",
            )
        elif full:
            self.open(requirement, f"replay from 0 begins at {answer.numbers[0]}, and the ring is full")
        else:
            batch = incarnation.batches[0]
            self.broke(
                requirement,
                "number 0 for the first batch",
                f"replay from 0 begins at {answer.numbers[0]} with {len(answer.numbers)} batches, though the ring "
                f"holds {self.context.statement.ring}",
                at_batch(batch),
            )

    @judge("KVW-SEQ-001")
    def first_zero(self) -> None:
        """KVW-SEQ-001: A publisher MUST give the first batch of a stream the sequence number 0.

        Only the first life: later ones are KVW-SEQ-007's. A ring that may have evicted leaves it open.
        """
        if self.lives:
            self._first_number("KVW-SEQ-001", self.lives[0])

    @judge("KVW-SEQ-007")
    def zero_again(self, restart: int) -> None:
        """KVW-SEQ-007: A publisher MUST begin again at sequence number 0 in every new incarnation, whatever number
        the last one reached.
        """
        after = [life for life in self.lives[1:] if life.batches and life.batches[0].record > restart]
        if after:
            self._first_number("KVW-SEQ-007", after[0])
            return
        numbers = [live for live in self.context.timeline.live if live.record > restart]
        if numbers:
            first = numbers[0]
            self.broke(
                "KVW-SEQ-007",
                "a new incarnation that begins again at number 0",
                f"number {first.number} after the restart, going on from {first.previous}",
                self._at(first.record),
            )
        else:
            self.open("KVW-SEQ-007", "nothing was seen after the restart")

    @judge("KVW-SEQ-008")
    def leading_clear(self, incarnation: Incarnation) -> None:
        """KVW-SEQ-008: A publisher SHOULD send `AllBlocksCleared` as the first event of every incarnation."""
        if not incarnation.origin_known:
            return
        for step in incarnation.steps():
            if not isinstance(step, Batch):
                return
            if step.reading.events:
                first = step.reading.events[0]
                if first.kind == "cleared":
                    self.saw("KVW-SEQ-008")
                else:
                    self.broke(
                        "KVW-SEQ-008",
                        "`AllBlocksCleared` as the first event of the incarnation",
                        f"`{first.tag}` in number {step.number}",
                        at_batch(step, event=first),
                    )
                return

    # what was offered

    def _life_of(self, record: int) -> int:
        """The index into ``lives`` that an offer made at ``record`` belongs to, by the restarts before it."""
        return min(sum(1 for restart in self.restarts if restart < record), len(self.lives) - 1)

    def _match(self, offered: tuple[Offer, ...]) -> list[list[Batch]]:
        """For each offer the batches of its life that carry it: by ``ts``, else by its events and in order.

        A publisher may stamp batches anew, and may send one offered batch as several.
        """
        free = [{batch.number: batch for batch in life} for life in self.batches]
        found: list[list[Batch]] = [[] for _ in offered]
        stamps = [
            {struct.pack(">d", batch.reading.ts): batch for batch in life if batch.reading.ts is not None}
            for life in self.batches
        ]
        for index, offer in enumerate(offered):
            batch = stamps[self._life_of(offer.record)].get(offer.ts) if stamps else None
            if batch is not None:
                found[index] = [batch]
                free[self._life_of(offer.record)].pop(batch.number, None)
        for index, offer in enumerate(offered):
            if not found[index] and free:
                found[index] = self._by_events(offer, free[self._life_of(offer.record)])
        return found

    def _by_events(self, offer: Offer, free: dict[int, Batch]) -> list[Batch]:
        """The first batches, not matched yet and seen after the offer, that hold its events; they are used up."""
        wanted = list(offer.events)
        taken: list[Batch] = []
        for _, batch in sorted(free.items()):
            seen = batch.reading.events
            if batch.record < offer.record or len(seen) > max(len(wanted), len(offer.events)):
                continue
            if all(recognised(event, got) for event, got in zip(wanted, seen, strict=False)) and (
                bool(seen) == bool(offer.events)
            ):
                taken.append(batch)
                del wanted[: len(seen)]
                if not wanted:
                    break
        for batch in taken:
            free.pop(batch.number)
        return taken if not wanted else []

    @judge("KVW-SEQ-002")
    def one_by_one(self, offered: tuple[Offer, ...], matched: list[list[Batch]]) -> None:
        """KVW-SEQ-002: A publisher MUST raise the sequence number by exactly one for every batch offered for
        publication, including batches that it then drops.

        The k-th offer after another has a number k higher. An adapter that splits an offer leaves it open; one that
        failed may have reached the publisher or not, so that nothing is concluded across it.
        """
        if any(len(batches) > 1 for batches in matched):
            self.open("KVW-SEQ-002", "the publisher sends one offered batch as several")
            return
        before: tuple[int, int, int] | None = None
        for position, (offer, batches) in enumerate(zip(offered, matched, strict=True)):
            if not batches:
                before = None if offer.failed else before
                continue
            life, batch = self._life_of(offer.record), batches[0]
            if before is not None and before[0] == life and self._only_offers_between(offered[before[1]], offer):
                expected = before[2] + position - before[1]
                if batch.number == expected:
                    self.saw("KVW-SEQ-002")
                else:
                    self.broke(
                        "KVW-SEQ-002",
                        f"number {expected}: {position - before[1]} batches were offered since number {before[2]}",
                        f"number {batch.number}",
                        at_batch(batch),
                    )
            before = (life, position, batch.number)

    def _only_offers_between(self, earlier: Offer, later: Offer) -> bool:
        """Whether nothing but offers can have caused a batch between two offers."""
        return not any(earlier.record < record < later.record for record in self.others)

    @judge("KVW-SEQ-009")
    def nothing_lost(self, offered: tuple[Offer, ...], matched: list[list[Batch]]) -> None:
        """KVW-SEQ-009: A publisher MUST NOT lose a batch that it accepted while its queue was below its declared
        capacity and that it could encode.

        Only a loss that a complete replay answer proves is the publisher's; any other missing batch stays open.
        """
        queue = self.context.statement.queue
        for position, (offer, batches) in enumerate(zip(offered, matched, strict=True)):
            if not offer.accepted or not self.lives:
                continue
            life = self._life_of(offer.record)
            if batches:
                self.saw("KVW-SEQ-009")
                continue
            if queue is None or position >= queue:
                self.open("KVW-SEQ-009", "an accepted batch was not seen; the queue's capacity is not declared")
                continue
            later = [answer for answer in self.context.timeline.answers if self._covers(answer, offer, life)]
            if later:
                answer = later[0]
                self.broke(
                    "KVW-SEQ-009",
                    f"the accepted batch with ts bits {offer.ts.hex()}, live or by replay",
                    f"no batch with it: live streams and a complete replay answer of {len(answer.numbers)} batches "
                    "lack it",
                    Where(record=offer.record),
                )
            else:
                self.open("KVW-SEQ-009", "an accepted batch was not seen, and no complete replay answer tells why")

    def _covers(self, answer: Answer, offer: Offer, life: int) -> bool:
        if answer.request < offer.record or not answer.ended or answer.incarnation != life:
            return False
        return bool(answer.numbers) and answer.start == 0 and answer.numbers[0] == self.batches[life][0].number
