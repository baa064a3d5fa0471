"""What became of the batches that the harness offered: where each is on the wire, whole, in parts, or nowhere.

A batch is found by its ``ts``, else by its events: a publisher may stamp batches anew, and may send one as several.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kvwire.history.timeline import Attribution, Batch, Incarnation
from kvwire.trace.stimuli import Offer, recognised
from kvwire.wire.events import TWO_64

Place = tuple[int, int]
"""Incarnation and number."""


class Anchor(msgspec.Struct, frozen=True):
    """An offer that was found on the wire: its position among the offers, and where it is."""

    position: int
    offer: Offer
    life: int
    batch: Batch


class Parts(msgspec.Struct, frozen=True):
    """An offer of several events of which some are on the wire: how many of how many, and a batch that holds one."""

    offer: Offer
    seen: int
    batch: Batch


class Offered:
    """The offers of one stream against its incarnations. ``disturbed``: records across which neither is compared."""

    def __init__(self, offers: Sequence[Offer], lives: Sequence[Incarnation], disturbed: Sequence[int] = ()) -> None:
        self.offers = offers
        self.lives = lives
        self.disturbed = disturbed
        self.found = self._find()
        """For each offer that was found, by its position: life and batches that carry it."""
        self.anchors = [Anchor(position, offers[position], *places[0]) for position, places in self.found.items()]
        self.splits = any(len(places) > 1 for places in self.found.values())
        """Whether the publisher sends one offered batch as several."""

    def pairs(self) -> Iterator[tuple[Anchor, Anchor]]:
        """Each two offers that were found one after the other, and between which nothing but offers came.

        They are of one life that is known to be one. An empty batch that was stamped anew cannot be told from another
        empty one, a heartbeat say, and is not counted from.
        """
        sure = [anchor for anchor in self.anchors if anchor.offer.events or _stamped(anchor)]
        for earlier, later in itertools.pairwise(sure):
            if self._undisturbed(earlier, later):
                yield earlier, later

    def between(self, earlier: Anchor, later: Anchor) -> tuple[int, int, int]:
        """Between two offers: how many others were offered, how many other batches were seen, how many are missing."""
        batches = self.lives[earlier.life].batches
        first, last = (
            bisect.bisect_left(batches, anchor.batch.number, key=lambda batch: batch.number)
            for anchor in (earlier, later)
        )
        seen = max(0, last - first - 1)
        missing = max(0, later.batch.number - earlier.batch.number - 1 - seen)
        return later.position - earlier.position - 1, seen, missing

    def _undisturbed(self, earlier: Anchor, later: Anchor) -> bool:
        if earlier.life != later.life:
            return False
        if any(earlier.offer.record < record < later.offer.record for record in self.disturbed):
            return False
        if any(earlier.batch.number < seam <= later.batch.number for seam in self.lives[earlier.life].seams):
            return False
        return not any(offer.failed for offer in self.offers[earlier.position + 1 : later.position])

    # where they are

    def _find(self) -> dict[int, list[tuple[int, Batch]]]:
        """What has the ``ts`` of no offer is compared by its events, in order, between neighbours that are known.

        An offer that was not accepted is dropped: what looks like it, a heartbeat say, is something else. So is an
        empty batch that looks like an empty offer, where the publisher keeps the ``ts`` of others.
        """
        stamps: dict[bytes, tuple[int, Batch]] = {}
        free: dict[Place, Batch] = {}
        for life in self.lives:
            for batch in life.batches:
                free[life.index, batch.number] = batch
                if batch.reading.ts is not None:
                    stamps.setdefault(struct.pack(">d", batch.reading.ts), (life.index, batch))
        found = {at: [stamps[offer.ts]] for at, offer in enumerate(self.offers) if offer.ts in stamps}
        for places in found.values():
            free.pop((places[0][0], places[0][1].number), None)
        ceilings = {at: (places[0][0], places[0][1].number) for at, places in found.items()}
        ceiling: Place | None = None
        above: dict[int, Place | None] = {}
        for at in range(len(self.offers) - 1, -1, -1):
            ceiling = above[at] = ceilings.get(at, ceiling)
        floor = (-1, -1)
        for at, offer in enumerate(self.offers):
            sought = offer.accepted and (offer.events or not ceilings)
            if at not in found and sought and (places := self._by_events(offer, free, floor, above[at])):
                found[at] = places
            if at in found:
                place = found[at][-1]
                floor = max(floor, (place[0], place[1].number))
        return dict(sorted(found.items()))

    def _by_events(
        self, offer: Offer, free: dict[Place, Batch], floor: Place, ceiling: Place | None
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

    # in parts

    def shed(self) -> tuple[list[Offer], list[Parts]]:
        """The offers of several events that the publisher shed as a whole, and those that it shed in part.

        Only events that no other offer holds tell where a batch went.
        """
        carriers: dict[Hashable, list[Batch]] = defaultdict(list)
        for life in self.lives:
            for batch in life.batches:
                for event in batch.reading.events:
                    carriers[event.tag, event.hashes].append(batch)
        counts = Counter(_key(event) for offer in self.offers for event in offer.events)
        whole: list[Offer] = []
        parts: list[Parts] = []
        for at, offer in enumerate(self.offers):
            own = [_key(event) for event in offer.events if event.get("block_hashes")]
            if offer.failed or len(own) < 2 or len(own) < len(offer.events) or any(counts[key] > 1 for key in own):
                continue
            batches = [carriers[key][0] for key in own if key in carriers]
            if at in self.found:
                _, batch = self.found[at][0]
                if len(batches) < len(own) and _holds_only(batch, offer.events):
                    parts.append(Parts(offer, len(batches), batch))
            elif not batches and self._dropped(at):
                whole.append(offer)
            elif batches and len(batches) < len(own):
                parts.append(Parts(offer, len(batches), batches[0]))
        return whole, parts

    def _dropped(self, position: int) -> bool:
        """Whether it was the publisher that lost an offer which is nowhere."""
        if not self.offers[position].accepted:
            return True
        at = bisect.bisect(self.anchors, position, key=lambda anchor: anchor.position)
        if not 0 < at < len(self.anchors) or self.anchors[at - 1].life != self.anchors[at].life:
            return False
        first, last = self.anchors[at - 1].batch.number, self.anchors[at].batch.number
        gaps = [gap for gap in self.lives[self.anchors[at].life].gaps if first < gap.first and gap.last < last]
        return bool(gaps) and all(gap.attribution is Attribution.PUBLISHER for gap in gaps)


def _stamped(anchor: Anchor) -> bool:
    ts = anchor.batch.reading.ts
    return ts is not None and struct.pack(">d", ts) == anchor.offer.ts


def _key(event: Mapping[str, Any]) -> Hashable:
    hashes = event.get("block_hashes") or ()
    return event.get("type"), tuple(value % TWO_64 for value in hashes if isinstance(value, int))


def _holds_only(batch: Batch, offered: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a batch was read whole, and each of its events is one of the offered."""
    reading = batch.reading
    if reading.opaque or any(event.opaque for event in reading.events):
        return False
    return all(any(recognised(event, seen) for event in offered) for seen in reading.events)
