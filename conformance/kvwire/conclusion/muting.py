"""What of a stream the harness itself chose, so that no sentence about it is judged."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvwire.history.timeline import Batch
from kvwire.trace.stimuli import Offer, same_event
from kvwire.wire.events import TWO_64, Event


class Muting:
    """Tells which batches and events on the wire are what the harness offered.

    An event is, as often as it was offered before it was seen. A rank is the harness's only where the adapter says
    that it passes one on.
    """

    def __init__(self, offered: Sequence[Offer], sets: Iterable[str]) -> None:
        self._stamps = {offer.ts for offer in offered}
        self._ranks = {offer.rank for offer in offered if "rank" in sets}
        self._events: dict[tuple[Any, ...], list[tuple[int, Mapping[str, Any]]]] = {}
        for offer in offered:
            for event in offer.events:
                self._events.setdefault(self._key(event), []).append((offer.record, event))
        self.any = bool(offered)
        self.ours = 0
        self.theirs = 0

    @staticmethod
    def _key(event: Mapping[str, Any]) -> tuple[Any, ...]:
        hashes = event.get("block_hashes") or ()
        return event.get("type"), tuple(value % TWO_64 for value in hashes if isinstance(value, int))

    def batch(self, batch: Batch) -> frozenset[str]:
        """``ts`` when the harness stamped the batch, ``rank`` when it is the one that the harness passed."""
        ours: set[str] = set()
        ts = batch.reading.ts
        if ts is not None and struct.pack(">d", ts) in self._stamps:
            ours.add("ts")
        if batch.reading.rank in self._ranks:
            ours.add("rank")
        return frozenset(ours)

    def event(self, batch: Batch, event: Event) -> frozenset[str]:
        """``engine`` when the event is what was offered; anything else is the publisher's own."""
        if not self.any:
            return frozenset()
        candidates = self._events.get((event.tag, event.hashes), [])
        for at, (record, offered) in enumerate(candidates):
            if record < batch.record and same_event(offered, event):
                del candidates[at]
                self.ours += 1
                return frozenset({"engine"})
        self.theirs += 1
        return frozenset()
