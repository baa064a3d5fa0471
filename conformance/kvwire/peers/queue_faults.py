"""Publishers that fail under load or after a batch that comes to grief: one small change each of the queue."""

from __future__ import annotations

import time

import msgspec

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames
from kvwire_reference.wire import Batch

STALLED_MS = 50
PAUSE_S = 0.12
"""How long a publisher rests that could not encode a batch."""
FULL_S = 0.001
"""How often one that waits for room looks whether there is some."""


def without_heartbeat(config: PublisherConfig) -> ZmqPublisher:
    """The reference, which sends no heartbeat, whatever it declares."""
    return ZmqPublisher(msgspec.structs.replace(config, heartbeat=None))


class BlocksItsCaller(ZmqPublisher):
    """Lets its caller wait while the queue is full, and rests after a batch that it cannot encode, as vLLM does."""

    def publish(self, batch: Batch) -> bool:
        while len(self._queue) >= self.config.max_queue and not self._stopped:
            time.sleep(FULL_S)
        return super().publish(batch)

    def _encode(self, batch: Batch) -> bytes:
        try:
            return super()._encode(batch)
        except ValueError:
            time.sleep(PAUSE_S)
            raise


class ShedsSingleEvents(ZmqPublisher):
    """Sends a batch for which the queue has no room with its first event only."""

    def publish(self, batch: Batch) -> bool:
        if len(self._queue) >= self.config.max_queue and len(batch.events) > 1:
            with self._lock:
                self._queue.append((self._reserve(), msgspec.structs.replace(batch, events=batch.events[:1])))
                self._wake()
            return True
        return super().publish(batch)


class NumbersWhatItKeeps(ZmqPublisher):
    """Numbers a batch when it enters the queue, so that what is shed leaves no hole."""

    def publish(self, batch: Batch) -> bool:
        if len(self._queue) >= self.config.max_queue:
            return False
        return super().publish(batch)


class NumbersWhatItEncodes(ZmqPublisher):
    """Numbers a batch when it is encoded, so that one that cannot be encoded leaves no hole."""

    def __init__(self, config: PublisherConfig) -> None:
        self._encoded = 0
        super().__init__(config)

    def _frames(self, number: int, payload: bytes) -> Frames:
        self._encoded += 1
        return super()._frames(self._encoded - 1, payload)

    def _remember(self, number: int, frames: Frames) -> None:
        super()._remember(int.from_bytes(frames[1], "big"), frames)


class StallsAfterAFailure(ZmqPublisher):
    """Sends nothing more once a batch could not be encoded, and goes on accepting."""

    _stalled = False

    def _encode(self, batch: Batch) -> bytes:
        try:
            return super()._encode(batch)
        except ValueError:
            self._stalled = True
            raise

    def _send_next(self) -> None:
        if not self._stalled:
            super()._send_next()

    def _wait_ms(self) -> int | None:
        return STALLED_MS if self._stalled else super()._wait_ms()
