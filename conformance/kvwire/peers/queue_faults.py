"""Publishers that fail under load or after a batch that comes to grief: one small change each of the queue."""

from __future__ import annotations

import time

import msgspec

from kvwire.peers.mutant import Session, mutant
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames
from kvwire_reference.wire import Batch

BURSTS = "bursts of 200 batches have to fill a queue: above 100 KB, however it is cut"
"""Why the session vectors have none of those that fail under load."""
STALLED_MS = 50
PAUSE_S = 0.12
"""How long a publisher rests that could not encode a batch."""
POLL_S = 0.001
"""How often one that waits for room looks whether there is some."""


@mutant(
    "no-heartbeat",
    breaks="LIV-002",
    change="a declared heartbeat is not sent",
    heartbeat=0.2,
    session=Session(probes=("live", "heartbeat"), level="passive"),
)
class NoHeartbeat(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(msgspec.structs.replace(config, heartbeat=None))


@mutant(
    "blocks-its-caller",
    breaks="LIV-001",
    change="the caller waits while the queue is full",
    levels=("driven",),
    reports="vllm#53859",
    session="40 requests for 1200 batches each: above 0.3 MB",
)
class BlocksItsCaller(ZmqPublisher):
    """Rests after a batch that it cannot encode too, as vLLM does."""

    def publish(self, batch: Batch) -> bool:
        while len(self._queue) >= self.config.max_queue and not self._stopped:
            time.sleep(POLL_S)
        return super().publish(batch)

    def _encode(self, batch: Batch) -> bytes:
        try:
            return super()._encode(batch)
        except ValueError:
            time.sleep(PAUSE_S)
            raise


@mutant(
    "sheds-single-events",
    breaks="SEQ-010",
    change="a batch for which there is no room is sent with its first event",
    levels=("driven",),
    session=BURSTS,
)
class ShedsSingleEvents(ZmqPublisher):
    def publish(self, batch: Batch) -> bool:
        if len(self._queue) >= self.config.max_queue and len(batch.events) > 1:
            with self._lock:
                self._queue.put(self._reserve(), msgspec.structs.replace(batch, events=batch.events[:1]))
                if not self._woken:
                    self._wake()
            return True
        return super().publish(batch)


@mutant(
    "numbers-what-it-keeps",
    breaks="SEQ-002",
    change="what is shed for a full queue takes no number",
    levels=("driven",),
    reports="TensorRT-LLM#17631",
    session=BURSTS,
)
class NumbersWhatItKeeps(ZmqPublisher):
    """Numbers a batch when it enters the queue, so that what is shed leaves no hole."""

    def publish(self, batch: Batch) -> bool:
        if len(self._queue) >= self.config.max_queue:
            return False
        return super().publish(batch)


@mutant(
    "numbers-what-it-encodes",
    breaks="SEQ-002",
    change="a batch that cannot be encoded takes no number",
    levels=("driven",),
    session=BURSTS,
)
class NumbersWhatItEncodes(ZmqPublisher):
    _encoded = 0

    def _frames(self, number: int, payload: bytes) -> Frames:
        self._encoded += 1
        return super()._frames(self._encoded - 1, payload)

    def _remember(self, number: int, frames: Frames) -> None:
        super()._remember(int.from_bytes(frames[1], "big"), frames)


@mutant(
    "stalls-after-a-failure",
    breaks="SEQ-009",
    change="nothing is sent any more after a batch that cannot be encoded",
    levels=("driven",),
    driven="LIV-006",
    reason="what it accepts and never sends is lost",
    session=BURSTS,
)
class StallsAfterAFailure(ZmqPublisher):
    """Goes on accepting."""

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


@mutant(
    "ends-with-a-batch",
    breaks="LIV-006",
    change="a batch that cannot be encoded ends the stream: nothing is accepted any more",
    levels=("driven",),
    session=BURSTS,
)
class EndsWithABatch(ZmqPublisher):
    """What is retained is still replayed."""

    _ended = False

    def publish(self, batch: Batch) -> bool:
        if self._ended:
            with self._lock:
                number = self._reserve()
            self._count_drop(number, "the stream has ended")
            return False
        try:
            self._encode(batch)
        except ValueError:
            self._ended = True
        return super().publish(batch)
