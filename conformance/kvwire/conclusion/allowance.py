"""How much of one stream is shown and followed, so that no publisher makes its judging long or large."""

from __future__ import annotations

from kvwire.history.timeline import Batch
from kvwire.wire.plain import read_quickly

EVENTS, EVENTS_A_SECOND = 300_000, 2_000
"""How many events are shown one by one."""
SHOWN_ALL = "more events with faults than this harness shows one by one"
RESIDENT = 750_000
"""How many blocks of one stream are followed."""
LOOKED_BYTES = 2**21
"""After so many bytes of payloads it is counted how many there are."""
TOO_MANY = f"more than {RESIDENT} blocks of a stream are not followed"


class Allowance:
    """How many events of a stream are shown one by one: so many at once, and more for each second of the recording.

    Beyond that a batch with faults is not read. A batch counts as its events, and for the time that reading it takes.
    """

    def __init__(self) -> None:
        self.beyond = 0
        """Batches that were not read."""
        self.now_ns = 0
        """How far the recording has come."""
        self._left = EVENTS
        self._at = -1

    def read(self, batch: Batch, first: int = 0) -> None:
        """Read a batch, of which the events from ``first`` on are to be shown, or see to it that it is not."""
        if self._at < 0:
            self._at = self.now_ns
        elif (more := (self.now_ns - self._at) * EVENTS_A_SECOND // 10**9) > 0:
            self._left, self._at = min(EVENTS, self._left + more), self.now_ns
        if self._left <= 0 and (first or read_quickly(batch.payload) is None):
            self.beyond += 1
            batch.beyond(SHOWN_ALL)
        else:
            self._left -= len(batch.reading.events) - first + len(batch.payload) // 64
