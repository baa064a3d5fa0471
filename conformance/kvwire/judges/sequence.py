"""Sequence: numbers, holes, restarts, and what was lost (spec/sequence.md)."""

from __future__ import annotations

import bisect
import itertools
import struct

import msgspec

from kvwire.events import Event
from kvwire.judges.area import HEX_BYTES, Area, Context, at_batch, judge
from kvwire.stimuli import Offer, offers, recognised, succeeded
from kvwire.timeline import Answer, Arrival, Batch, Gap, Incarnation, Live
from kvwire.trace import Record
from kvwire.verdict import Where

DISTURBING = frozenset({"cache", "reset", "fault", "start", "stop"})
"""Stimuli that may cause batches which were not offered, or after which numbers begin anew."""
NEVER = 2**63
"""Later than every record."""


class _Anchor(msgspec.Struct, frozen=True):
    """An offer that was found on the wire: its position among the offers, and where it is."""

    position: int
    offer: Offer
    life: int
    batch: Batch


class Sequence(Area):
    """Reads live arrivals, replay answers, offers and restarts."""

    name = "sequence"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.records: dict[int, Record] = {}
        self.stimuli: list[tuple[int, Record]] = []
        self.restarts: list[int] = []
        self.disturbed: list[int] = []
        """Records of stimuli across which numbers and offers are not compared."""
        self.lives: list[Incarnation] = []
        self.leading = False
        """Nothing of this incarnation was missed, and no event of it was seen yet."""

    def on_record(self, index: int, record: Record) -> None:
        if record.is_live:
            self.records[index] = record
        elif record.event == "publish":
            self.stimuli.append((index, record))
        elif succeeded(record, "restart"):
            self.restarts.append(index)
            self.disturbed.append(index)
        elif record.event in DISTURBING:
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
        offered = offers(self.stimuli)
        found = self._find(offered)
        anchors = [_Anchor(position, offered[position], *places[0]) for position, places in found.items()]
        if any(len(places) > 1 for places in found.values()):
            self.open("KVW-SEQ-002", "the publisher sends one offered batch as several")
        else:
            for earlier, later_one in itertools.pairwise(anchors):
                self.one_by_one(earlier, later_one, offered)
        self._losses(offered, anchors)

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

    def _find(self, offered: tuple[Offer, ...]) -> dict[int, list[tuple[int, Batch]]]:
        """For each offer that was found, by its position: life and batches that carry it, by ``ts``, else by events.

        A publisher may stamp batches anew, and may send one offered batch as several. What has the ``ts`` of no offer
        is compared by its events, in order, between the neighbours that are known.
        """
        stamps: dict[bytes, tuple[int, Batch]] = {}
        free: dict[tuple[int, int], Batch] = {}
        for life in self.lives:
            for batch in life.batches:
                free[life.index, batch.number] = batch
                if batch.reading.ts is not None:
                    stamps.setdefault(struct.pack(">d", batch.reading.ts), (life.index, batch))
        found = {at: [stamps[offer.ts]] for at, offer in enumerate(offered) if offer.ts in stamps}
        for places in found.values():
            free.pop((places[0][0], places[0][1].number), None)
        ceilings = {at: (places[0][0], places[0][1].number) for at, places in found.items()}
        floor = (-1, -1)
        for at, offer in enumerate(offered):
            if at not in found:
                ceiling = next((ceilings[later] for later in range(at, len(offered)) if later in ceilings), None)
                places = self._by_events(offer, free, floor, ceiling)
                if places:
                    found[at] = places
            if at in found:
                place = found[at][-1]
                floor = max(floor, (place[0], place[1].number))
        return dict(sorted(found.items()))

    def _by_events(
        self,
        offer: Offer,
        free: dict[tuple[int, int], Batch],
        floor: tuple[int, int],
        ceiling: tuple[int, int] | None,
    ) -> list[tuple[int, Batch]]:
        """The first free batches, in order, between two places and seen after the offer, that hold its events.

        They are used up.
        """
        wanted = list(offer.events)
        taken: list[tuple[int, Batch]] = []
        for place, batch in free.items():
            seen = batch.reading.events
            if not floor < place < (ceiling or (len(self.lives), 0)) or batch.record < offer.record:
                continue
            if bool(seen) != bool(offer.events) or len(seen) > len(wanted):
                continue
            if all(recognised(event, got) for event, got in zip(wanted, seen, strict=False)):
                taken.append((place[0], batch))
                del wanted[: len(seen)]
                if not wanted:
                    break
        if wanted:
            return []
        for life, batch in taken:
            del free[life, batch.number]
        return taken

    def _undisturbed(self, earlier: _Anchor, later: _Anchor, offered: tuple[Offer, ...]) -> bool:
        """Whether nothing but offers came between two offers, in one life that is known to be one."""
        if earlier.life != later.life:
            return False
        if any(earlier.offer.record < record < later.offer.record for record in self.disturbed):
            return False
        if any(earlier.batch.number < seam <= later.batch.number for seam in self.lives[earlier.life].seams):
            return False
        return not any(offer.failed for offer in offered[earlier.position + 1 : later.position])

    def _between(self, earlier: _Anchor, later: _Anchor) -> tuple[int, int, int]:
        """Between two offers: how many others were offered, how many other batches were seen, how many are missing."""
        batches = self.lives[earlier.life].batches
        first, last = (
            bisect.bisect_left(batches, anchor.batch.number, key=lambda batch: batch.number)
            for anchor in (earlier, later)
        )
        seen = max(0, last - first - 1)
        missing = max(0, later.batch.number - earlier.batch.number - 1 - seen)
        return later.position - earlier.position - 1, seen, missing

    @judge("KVW-SEQ-002")
    def one_by_one(self, earlier: _Anchor, later: _Anchor, offered: tuple[Offer, ...]) -> None:
        """KVW-SEQ-002: A publisher MUST raise the sequence number by exactly one for every batch offered for
        publication, including batches that it then drops.

        Between two offers that were found, each other offer has a number of its own, seen or missing, and each missing
        number is an offer's, unless the publisher makes batches of its own, such as heartbeats. An adapter that splits
        an offer leaves it open; one that failed may have reached the publisher or not.
        """
        if not self._undisturbed(earlier, later, offered):
            return
        others, seen, missing = self._between(earlier, later)
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

    # what was lost

    def _losses(self, offered: tuple[Offer, ...], anchors: list[_Anchor]) -> None:
        found = {anchor.position: anchor for anchor in anchors}
        before: _Anchor | None = None
        begun = 0
        for position, offer in enumerate(offered):
            if any(offered[begun].record < restart < offer.record for restart in self.restarts):
                begun, before = position, None
            if offer.accepted and position in found:
                self.saw("KVW-SEQ-009")
            elif offer.accepted:
                after = next((anchor for anchor in anchors if anchor.position > position), None)
                waiting = sum(
                    earlier not in found or found[earlier].batch.record > offer.record
                    for earlier in range(begun, position)
                )
                self.nothing_lost(offer, before, after, waiting)
            before = found.get(position, before)

    @judge("KVW-SEQ-009")
    def nothing_lost(self, offer: Offer, before: _Anchor | None, after: _Anchor | None, waiting: int) -> None:
        """KVW-SEQ-009: A publisher MUST NOT lose a batch that it accepted while its queue was below its declared
        capacity and that it could encode.

        Lost is what has no place among the numbers between its neighbours, or what a complete replay answer around it
        lacks too; any other missing batch stays open. At most so many batches waited as were offered and not seen yet.
        """
        queue = self.context.statement.queue or 1
        if waiting >= queue:
            self.open("KVW-SEQ-009", f"an accepted batch was not seen; {waiting} others may have filled the queue")
        elif after is None or (before is not None and before.life != after.life):
            self.open("KVW-SEQ-009", "an accepted batch was not seen, and no later one of its life")
        elif (how := self._lost(before, after)) is None:
            self.open("KVW-SEQ-009", "an accepted batch was not seen, and no complete replay answer tells why")
        else:
            self.broke(
                "KVW-SEQ-009",
                f"the accepted batch with ts bits {offer.ts.hex()}, live or by replay",
                f"no batch with it: {how}",
                Where(record=offer.record),
            )

    def _lost(self, before: _Anchor | None, after: _Anchor) -> str | None:
        """How it is known that nothing else came between two offers; None when it is not."""
        life = self.lives[after.life]
        first = life.batches[0].number if before is None else before.batch.number
        if before is not None and not self._between(before, after)[2]:
            return f"numbers {first} and {after.batch.number} leave no room for it"
        for answer in self.context.timeline.answers:
            if answer.incarnation != after.life or not answer.ended or not answer.numbers:
                continue
            whole = answer.numbers[0] == 0 if before is None else answer.numbers[0] <= first
            if whole and after.batch.number in answer.numbers:
                return f"the live streams and a complete replay answer of {len(answer.numbers)} batches lack it"
        return None
