"""Publishers that break the envelope or the numbers: one small change each at the frame or at the number."""

from __future__ import annotations

import time
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from kvwire.peers.mutant import LISTENED, Session, mutant
from kvwire.peers.queue_faults import BURSTS
from kvwire_reference.outlet import Counters
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames, Ring
from kvwire_reference.wire import END_SEQUENCE, AllBlocksCleared, Batch


@mutant(
    "two-frames", breaks="ENV-001", change="live messages have no topic frame", reports="ATOM#2203", session=LISTENED
)
class TwoFrames(ZmqPublisher):
    def _send_live(self, frames: Frames) -> None:
        super()._send_live(frames[1:])


@mutant(
    "topic-per-message",
    breaks="ENV-002",
    change="the topic changes from message to message",
    also="ENV-003",
    reason="the topic is declared",
    session=LISTENED,
)
class TopicPerMessage(ZmqPublisher):
    def _frames(self, number: int, payload: bytes) -> Frames:
        return [self._topic + b"/%d" % (number % 2), *super()._frames(number, payload)[1:]]


@mutant(
    "other-topic",
    breaks="ENV-003",
    change="another topic than the configured one",
    reports="llm-d-inference-sim#624",
    session=LISTENED,
)
class OtherTopic(ZmqPublisher):
    def _frames(self, number: int, payload: bytes) -> Frames:
        return [self._topic + b"-other", *super()._frames(number, payload)[1:]]


@mutant(
    "topic-not-text",
    breaks="ENV-004",
    change="a topic that is not UTF-8",
    also="ENV-003",
    reason="the topic is declared",
    session=LISTENED,
)
class TopicNotText(ZmqPublisher):
    def _frames(self, number: int, payload: bytes) -> Frames:
        return [b"\xff\xfe", *super()._frames(number, payload)[1:]]


@mutant(
    "little-endian-number",
    breaks="ENV-005",
    change="the number's lowest byte comes first",
    driven="SEQ-002 SEQ-003 REP-002",
    reason="read in big-endian order the numbers do not count the offers, and fall after every 256",
    session=LISTENED,
)
class LittleEndianNumber(ZmqPublisher):
    def _frames(self, number: int, payload: bytes) -> Frames:
        topic, sequence, rest = super()._frames(number, payload)
        return [topic, sequence[::-1], rest]


@mutant("trailing-byte", breaks="ENV-006", change="one byte after the payload's value", session=LISTENED)
class TrailingByte(ZmqPublisher):
    def _encode(self, batch: Batch) -> bytes:
        return super()._encode(batch) + b"\x00"


@mutant(
    "first-is-one",
    breaks="SEQ-001",
    change="numbers begin at 1",
    levels=("driven",),
    driven="SEQ-007",
    reason="the life after the restart begins at 1 too",
    reports="dynamo#7463",
    session=Session(
        options="block_size=2&capacity=12&role=publish",
        probes=("live", "batches", "replay", "sanity"),
        limits={"batches": 12},
    ),
)
class FirstIsOne(ZmqPublisher):
    _skipped = False

    def _reserve(self) -> int:
        if not self._skipped:
            self._skipped = True
            super()._reserve()
        return super()._reserve()


@mutant(
    "skips-numbers",
    breaks="SEQ-002",
    change="a number is burnt now and then though nothing was offered",
    levels=("driven",),
    session=Session(options="block_size=2&capacity=12&role=publish", probes=("live", "restart")),
)
class SkipsNumbers(ZmqPublisher):
    def _reserve(self) -> int:
        if self._next_number % 10 == 9:
            super()._reserve()
        return super()._reserve()


def is_empty(payload: bytes) -> bool:
    """Whether a payload of ours holds no event: a fault that keeps to those harms no ledger."""
    return payload[10:11] == b"\x90"


@mutant(
    "fills-holes",
    breaks="SEQ-003",
    change="a batch is sent live after the one that follows it",
    session=Session(probes=("live", "batches"), level="passive", limits={"batches": 60}),
)
class FillsHoles(ZmqPublisher):
    """Holds every tenth empty batch back."""

    _held: Frames | None = None

    def _send_live(self, frames: Frames) -> None:
        if is_empty(frames[2]) and int.from_bytes(frames[1], "big") % 10 == 5 and self._held is None:
            self._held = frames
            return
        super()._send_live(frames)
        if self._held is not None:
            held, self._held = self._held, None
            super()._send_live(held)


@mutant(
    "reuses-numbers",
    breaks="SEQ-004",
    change="two batches are sent live under one number",
    reports="llm-d-inference-sim#575",
    session=Session(probes=("live", "batches"), level="passive"),
)
class ReusesNumbers(ZmqPublisher):
    """Sends every tenth empty batch under the number before its own, if another batch was sent under that."""

    _last = -1

    def _send_live(self, frames: Frames) -> None:
        number = int.from_bytes(frames[1], "big")
        if is_empty(frames[2]) and number % 10 == 5 and self._last == number - 1:
            frames = [frames[0], (number - 1).to_bytes(8, "big"), frames[2]]
        self._last = number
        super()._send_live(frames)


@mutant(
    "falls-back",
    breaks="SEQ-004",
    change="the number falls without a disconnect",
    replayable="REP-001",
    driven="REP-001 SEQ-002 SEQ-009",
    reason="replay holds the second batch of a number, the first live one was another; offers and numbers part ways",
    reports="llm-d-inference-sim#575",
    session=Session(probes=("live", "batches"), level="passive", limits={"batches": 60}),
)
class FallsBack(ZmqPublisher):
    """Sets its number back by five, once, in the midst of empty batches; the ring forgets what it repeats.

    It goes on counting its offers.
    """

    _empty = 0
    _back = 0

    @property
    def counters(self) -> Counters:
        counted = super().counters
        return msgspec.structs.replace(counted, offered=counted.offered + self._back)

    def publish(self, batch: Batch) -> bool:
        self._empty += not batch.events
        return super().publish(batch)

    def _reserve(self) -> int:
        if self._empty == 15:
            self._next_number -= 5
            self._back += 5
        return super()._reserve()

    def _remember(self, number: int, frames: Frames) -> None:
        if number <= self._ring.newest:
            kept = Ring(self.config.ring)
            at = 0
            while (entry := self._ring.at_or_after(at)) is not None and entry.number < number:
                kept.append(entry)
                at = entry.number + 1
            self._ring = kept
            if self._replay is not None:
                self._replay._ring = kept  # noqa: SLF001 - the ring is one for both
        super()._remember(number, frames)


LOSSY_BELOW = 100
"""The number below which batches are lost, so that the end of a longer stream is whole."""


@mutant(
    "loses-every-third",
    breaks="SEQ-009",
    change="every third batch is lost, its number burnt",
    levels=("driven",),
    session=Session(options="block_size=2&capacity=12&role=publish", probes=("live", "restart")),
)
class LosesEveryThird(ZmqPublisher):
    """Loses a batch after it took its number; a clear is let through."""

    def _send_next(self) -> None:
        number, batch = self._queue.head()
        cleared = any(isinstance(event, AllBlocksCleared) for event in batch.events)
        if number < LOSSY_BELOW and number % 3 == 2 and not cleared:
            self._queue.take()
            self._sent += 1
            return
        super()._send_next()


@mutant(
    "loses-without-a-hole",
    breaks="SEQ-002",
    change="a batch is lost and its number given to the next one",
    levels=("driven",),
    driven="SEQ-009",
    reason="what was lost had been accepted",
    reports="TensorRT-LLM#17631 dynamo#711",
    session=Session(probes=("live", "batches"), limits={"batches": 60}),
)
class LosesWithoutAHole(ZmqPublisher):
    """Loses every tenth empty batch before it takes a number, so that no subscriber can see it."""

    _empty = 0

    def publish(self, batch: Batch) -> bool:
        self._empty += not batch.events
        if not batch.events and self._empty % 10 == 0:
            return True
        return super().publish(batch)


@mutant(
    "goes-on-after-restart",
    breaks="SEQ-007",
    change="a new incarnation carries the number on",
    levels=("driven",),
    session=Session(probes=("live", "restart")),
)
class GoesOnAfterRestart(ZmqPublisher):
    _carried: ClassVar[int] = 0
    """The next number of the incarnation before, in this process."""
    _begun = False

    def _reserve(self) -> int:
        if not self._begun:
            self._begun = True
            self._next_number = self._carried
        number = super()._reserve()
        GoesOnAfterRestart._carried = self._next_number
        return number


@mutant(
    "no-leading-clear",
    breaks="SEQ-008",
    change="a stream does not begin with a clear",
    levels=("replayable", "driven"),
    reports="llm-d-router#2853",
    session=Session(level="replayable"),
)
class NoLeadingClear(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, clear_first=False))


@mutant(
    "number-of-the-end-marker",
    breaks="SEQ-006",
    change="an empty batch follows each clear, under the number of the end marker",
    session=LISTENED,
)
class NumberOfTheEndMarker(ZmqPublisher):
    """To tell live subscribers that the cache is empty, as replay clients are told that there is no more."""

    def _send_next(self) -> None:
        _, batch = self._queue.head()
        super()._send_next()
        if any(isinstance(event, AllBlocksCleared) for event in batch.events):
            self._send_live([self._topic, END_SEQUENCE, self._encode(replace(batch, events=()))])


@mutant(
    "keeps-counter-and-ring",
    breaks="SEQ-007",
    change="a restart goes on with the counter and the ring of the life before",
    levels=("driven",),
    session=Session(
        options="block_size=2&capacity=12&role=publish", probes=("live", "batches", "restart"), limits={"batches": 12}
    ),
)
class KeepsCounterAndRing(ZmqPublisher):
    """As one that keeps both in a file."""

    _kept: ClassVar[tuple[int, list[tuple[int, Frames]]] | None] = None
    """Of the incarnation before, in this process: the next number, and what was retained."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, clear_first=False))
        if self._kept is not None:
            self._next_number, retained = self._kept
            for number, frames in retained:
                super()._remember(number, frames)
        self._all: list[tuple[int, Frames]] = []
        if config.clear_first:
            self.publish(Batch(time.time(), (AllBlocksCleared(),), self.rank))

    def _remember(self, number: int, frames: Frames) -> None:
        super()._remember(number, frames)
        self._all.append((number, frames))
        KeepsCounterAndRing._kept = self._next_number, self._all


@mutant(
    "one-epoch",
    breaks="SEQ-020",
    change="every life of a publisher has the same epoch",
    levels=("replayable", "driven"),
    session=Session(probes=("live", "replay", "restart")),
)
class OneEpoch(ZmqPublisher):
    """Names its deployment where it should name its incarnation; in the leading clear alone."""

    def _encode(self, batch: Batch) -> bytes:
        if self._sent or not any(isinstance(event, AllBlocksCleared) for event in batch.events):
            return super()._encode(batch)
        clear = {"type": "AllBlocksCleared", "epoch": "production"}
        return msgspec.msgpack.encode([batch.ts, [clear], batch.data_parallel_rank])


@mutant(
    "sends-nothing",
    breaks="SEQ-009",
    change="whatever is accepted is counted as sent, and nothing is",
    levels=("driven",),
    session=BURSTS,
)
class SendsNothing(ZmqPublisher):
    """Answers replay requests with the end marker."""

    def _send_live(self, frames: Frames) -> None:
        pass

    def _remember(self, number: int, frames: Frames) -> None:
        pass
