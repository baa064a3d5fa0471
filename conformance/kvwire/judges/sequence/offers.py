"""What was offered against the numbers: one each, whole batches, and none lost that was accepted."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from kvwire.history.offered import Anchor, Offered, Parts
from kvwire.history.segments import HANDSHAKE
from kvwire.history.timeline import Incarnation
from kvwire.judges.area import ABSURD, Area, Context, Say, at_batch, judge, unused
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import Wait, sure
from kvwire.trace.calls import CacheCall, ResetCall, RestartCall, StartCall, StatsCall, StopCall
from kvwire.trace.detail import Detail, SocketEvent
from kvwire.trace.marks import TailDone
from kvwire.trace.records import told
from kvwire.trace.stimuli import Offer

DISTURBING = (CacheCall, ResetCall, StartCall, StopCall)
"""Calls that may cause batches which were not offered, or after which numbers begin anew."""
BEGINS = (StartCall, RestartCall)
"""Calls that begin a life."""
NEVER = 2**63
"""Later than every record."""
OWN = 8
"""Batches of the publisher's own, such as heartbeats, that may wait in its queue beside those that were offered."""


class Offers(Area):
    """Reads what was offered, when it was waited for, and where each offer went."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.lives: Sequence[Incarnation] = ()
        self.restarts: Sequence[int] = ()
        self.tails: Sequence[int] = ()
        """Records at which the batch that was offered last had not come, for so often that it will not."""
        self.calls: Sequence[tuple[int, Detail]] = ()
        """Calls that begin a life or end it, or after which batches may wait besides offers."""
        self.seen: dict[int, list[tuple[int, int]]] = {}
        """By life, the records of its batches in order, and the highest number that was seen by then."""

    def _tails(self) -> Iterator[int]:
        waits: list[Wait] = []
        for index, tail, wait in self.facts.stalls.waits(self.facts.stimuli, TailDone):
            waits = [*waits, wait] if tail.outcome == "bound" else []
            if sure(waits):
                yield index

    def finish(self) -> None:
        if not self.context.header.can:
            return
        self.lives = self.context.timeline.incarnations
        self.restarts = self.facts.restarts
        self.tails = list(self._tails())
        self.calls = list(told(self.facts.stimuli, CacheCall, ResetCall, StopCall, StartCall, RestartCall))
        if not self.lives:
            self._silent()
            return
        disturbed = sorted([*self.restarts, *(index for index, _ in told(self.facts.stimuli, *DISTURBING))])
        offered = Offered(self.facts.offers, self.lives, disturbed)
        if offered.splits:
            self.one_by_one.open("the publisher sends one offered batch as several")
        else:
            for earlier, later in offered.pairs():
                self.one_by_one(earlier, later, offered)
            self.whole_batches(*offered.shed())
        self._losses(offered)

    # what was offered

    @judge("KVW-SEQ-002")
    def one_by_one(self, say: Say, earlier: Anchor, later: Anchor, offered: Offered) -> None:
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
            say.saw()
            return
        own = max(0, seen - others)
        say.broke(
            f"number {earlier.batch.number + others + own + 1}: {others + 1} batches were offered since number "
            f"{earlier.batch.number}" + (f", and {own} more were sent" if own else ""),
            f"number {later.batch.number}",
            at_batch(later.batch),
        )

    @judge("KVW-SEQ-010", unclaimed=unused, memory="O(window)")
    def whole_batches(self, say: Say, whole: list[Offer], parts: list[Parts]) -> None:
        """KVW-SEQ-010: A publisher that sheds load MUST shed whole batches, never single events of a batch.

        Events that stand in one offer only tell. A batch of several that was shed leaves none of them anywhere.
        """
        say.saw(len(whole))
        for part in parts:
            say.broke(
                f"all {len(part.offer.events)} events of an offered batch, or none",
                f"{part.seen} of them, in number {part.batch.number}",
                at_batch(part.batch),
            )

    # what was lost

    def _losses(self, offered: Offered) -> None:
        if any(life.batches[-1].number >= ABSURD for life in self.lives if life.batches):
            self.nothing_lost.open("the numbers count nothing")
            return
        found = {anchor.position: anchor for anchor in offered.anchors}
        later = sorted(found)
        out = self._out_of_queue(offered, found)
        records = [offer.record for offer in offered.offers]
        emptied = [
            index
            for index, call in told(self.facts.stimuli, StatsCall)
            if call.succeeded and call.offered is not None and (call.sent or 0) + (call.dropped or 0) >= call.offered
        ]
        before: Anchor | None = None
        waiting: list[int] = []
        """When earlier offers of this life had left the queue at the latest, those that may be in it."""
        for position, offer in enumerate(offered.offers):
            if position and any(offered.offers[position - 1].record < at < offer.record for at in self.restarts):
                waiting, before = [], None
            waiting = [record for record in waiting if record > offer.record]
            if not offer.accepted and not (offer.doomed or offer.failed):
                after = next((found[at] for at in later[bisect.bisect(later, position) :]), None)
                room = len(waiting) if self._among_offers(offer) else self._numbered(offer, after)
                if room is not None:
                    self._refused(offer, room)
            if offer.accepted and position in found:
                self.nothing_lost.saw()
            elif offer.accepted:
                after = next((found[at] for at in later if at > position), None)
                left = next((record for record in emptied if record > offer.record), NEVER)
                last = bisect.bisect_left(records, min(out[position], left), lo=position + 1)
                behind = sum(other.accepted for other in offered.offers[position + 1 : last])
                self.nothing_lost(offer, before, after, max(len(waiting), behind), offered)
            waiting.append(out[position])
            before = found.get(position, before)

    def _among_offers(self, offer: Offer) -> bool:
        """Whether a batch came to a publisher that runs, and in which nothing but offers can wait."""
        return (call := self._called(offer)) is None or isinstance(call, BEGINS)

    def _called(self, offer: Offer) -> Detail | None:
        """The last of ``calls`` before an offer."""
        at = bisect.bisect_left(self.calls, offer.record, key=lambda call: call[0])
        return self.calls[at - 1][1] if at else None

    def _numbered(self, offer: Offer, after: Anchor | None) -> int | None:
        """How many batches can wait beside an offer, whoever made them; None where that is not known.

        As many as have numbers between the highest that was seen before it and that of the next offer that was found,
        in the same life.
        """
        if after is None or isinstance(self._called(offer), StopCall) or self._in_later_life(offer, None, after):
            return None
        if after.life not in self.seen:
            highest = -1
            seen: list[tuple[int, int]] = []
            for batch in sorted(self.lives[after.life].batches, key=lambda batch: batch.record):
                highest = max(highest, batch.number)
                seen.append((batch.record, highest))
            self.seen[after.life] = seen
        before = bisect.bisect(self.seen[after.life], (offer.record, -1))
        return after.batch.number - self.seen[after.life][before - 1][1] if before else None

    def _refused(self, offer: Offer, waiting: int) -> None:
        """A batch was dropped at once: not for a full queue, where fewer wait than the declared one holds."""
        queue = self.context.statement.queue or 1
        if waiting + OWN < queue:
            self.nothing_lost.broke(
                f"a batch accepted while {waiting} others wait at most, as the declared queue holds {queue}",
                "not accepted",
                Where(record=offer.record),
            )

    def _silent(self) -> None:
        """Batches were accepted, waited for, and nothing was ever heard on a stream that could be heard."""
        heard = any(said.event == HANDSHAKE for _, said in told(self.facts.details, SocketEvent))
        waited = max(self.tails, default=-1)
        accepted = [offer for offer in self.facts.offers if offer.accepted and offer.record < waited]
        if not accepted or not heard:
            return
        queue = self.context.statement.queue or 1
        for offer in accepted[-queue:]:
            self.nothing_lost.broke(
                f"{len(accepted)} batches, which were accepted",
                "none: nothing came within the bound that the last of them was waited for",
                Where(record=offer.record),
            )

    @staticmethod
    def _out_of_queue(offered: Offered, found: dict[int, Anchor]) -> list[int]:
        """For each offer the record at which it or a later one was seen: a queue keeps its order."""
        out = [NEVER] * (len(offered.offers) + 1)
        for position in range(len(offered.offers) - 1, -1, -1):
            seen = found[position].batch.record if position in found else NEVER
            out[position] = min(seen, out[position + 1])
        return out

    @judge("KVW-SEQ-009", memory="O(holes)")
    def nothing_lost(
        self, say: Say, offer: Offer, before: Anchor | None, after: Anchor | None, waiting: int, offered: Offered
    ) -> None:
        """KVW-SEQ-009: A publisher MUST NOT drop a batch that it could encode while fewer batches than its declared
        queue holds are waiting to be sent.

        A batch that is not accepted was dropped at once. Lost is what has no place among the numbers between its
        neighbours, or what a complete replay answer around it lacks too, or, where nothing came after it, what did not
        come within the bound that the harness waited, nor by replay after that; any other missing batch stays open. A
        full queue drops what comes: at most so many waited as were offered before it and not seen yet. Or it drops
        what waited longest: at most so many waited behind it as were accepted before one of them was seen, or all
        counted as sent or dropped.
        """
        queue = self.context.statement.queue or 1
        if waiting >= queue:
            say.open(f"an accepted batch was not seen; {waiting} others may have filled the queue")
        elif after is not None and self._in_later_life(offer, before, after):
            say.open("an accepted batch was not seen, and no later one of its life")
        elif (how := self._never(offer) if after is None else self._lost(before, after, offered)) is None:
            say.open("an accepted batch was not seen, and no complete replay answer tells why")
        else:
            say.broke(
                f"the accepted batch with ts bits {offer.ts.hex()}, live or by replay",
                f"no batch with it: {how}",
                Where(record=offer.record),
            )

    def _in_later_life(self, offer: Offer, before: Anchor | None, after: Anchor) -> bool:
        """Whether what was seen after an offer can be of a later life, into which nothing that waits is carried."""
        if before is not None and before.life != after.life:
            return True
        return any(isinstance(call, BEGINS) and offer.record < at < after.offer.record for at, call in self.calls)

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
