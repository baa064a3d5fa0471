"""Publishers that break the envelope or the numbers: one small change each at the frame or at the number."""

from __future__ import annotations

import msgspec

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames, Ring
from kvwire_reference.wire import AllBlocksCleared, Batch


class TwoFrames(ZmqPublisher):
    """Leaves the topic frame out of live messages."""

    def _send_live(self, frames: Frames) -> None:
        super()._send_live(frames[1:])


class TopicPerMessage(ZmqPublisher):
    """Puts the parity of the number into the topic."""

    def _frames(self, number: int, payload: bytes) -> Frames:
        return [self._topic + b"/%d" % (number % 2), *super()._frames(number, payload)[1:]]


class OtherTopic(ZmqPublisher):
    """Sends another topic than the configured one."""

    def _frames(self, number: int, payload: bytes) -> Frames:
        return [self._topic + b"-other", *super()._frames(number, payload)[1:]]


class TopicNotText(ZmqPublisher):
    """Sends a topic that is not UTF-8."""

    def _frames(self, number: int, payload: bytes) -> Frames:
        return [b"\xff\xfe", *super()._frames(number, payload)[1:]]


class LittleEndianNumber(ZmqPublisher):
    """Writes the sequence number with its lowest byte first."""

    def _frames(self, number: int, payload: bytes) -> Frames:
        topic, sequence, rest = super()._frames(number, payload)
        return [topic, sequence[::-1], rest]


class TrailingByte(ZmqPublisher):
    """Sends one byte after the payload's msgpack value."""

    def _encode(self, batch: Batch) -> bytes:
        return super()._encode(batch) + b"\x00"


class FirstIsOne(ZmqPublisher):
    """Counts from 1."""

    def __init__(self, config: PublisherConfig) -> None:
        self._skipped = False
        super().__init__(config)

    def _reserve(self) -> int:
        if not self._skipped:
            self._skipped = True
            super()._reserve()
        return super()._reserve()


class SkipsNumbers(ZmqPublisher):
    """Burns a number before every tenth batch, though nothing was offered."""

    def _reserve(self) -> int:
        if self._next_number % 10 == 9:
            super()._reserve()
        return super()._reserve()


def is_empty(payload: bytes) -> bool:
    """Whether a payload of ours holds no event: a fault that keeps to those harms no ledger."""
    return payload[10:11] == b"\x90"


class FillsHoles(ZmqPublisher):
    """Sends every tenth empty batch live only after the one that follows it."""

    def __init__(self, config: PublisherConfig) -> None:
        self._held: Frames | None = None
        super().__init__(config)

    def _send_live(self, frames: Frames) -> None:
        if is_empty(frames[2]) and int.from_bytes(frames[1], "big") % 10 == 5 and self._held is None:
            self._held = frames
            return
        super()._send_live(frames)
        if self._held is not None:
            held, self._held = self._held, None
            super()._send_live(held)


class ReusesNumbers(ZmqPublisher):
    """Sends every tenth empty batch live under the number before its own, if another batch was sent under that."""

    _last = -1

    def _send_live(self, frames: Frames) -> None:
        number = int.from_bytes(frames[1], "big")
        if is_empty(frames[2]) and number % 10 == 5 and self._last == number - 1:
            frames = [frames[0], (number - 1).to_bytes(8, "big"), frames[2]]
        self._last = number
        super()._send_live(frames)


class FallsBack(ZmqPublisher):
    """Sets its number back by five, once, in the midst of empty batches; the ring forgets what it repeats."""

    _empty = 0

    def _reserve(self) -> int:
        if self._empty == 15:
            self._next_number -= 5
        return super()._reserve()

    def publish(self, batch: Batch) -> bool:
        self._empty += not batch.events
        return super().publish(batch)

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


FIRST = 100
"""Below this number batches are lost, so that the end of a longer stream is whole."""


class Loses(ZmqPublisher):
    """Loses every third of its first batches after it took its number; a clear is let through."""

    def _send_next(self) -> None:
        number, batch = self._queue[0]
        cleared = any(isinstance(event, AllBlocksCleared) for event in batch.events)
        if number < FIRST and number % 3 == 2 and not cleared:
            self._queue.popleft()
            self._sent += 1
            return
        super()._send_next()


class LosesWithoutAHole(ZmqPublisher):
    """Loses every tenth empty batch before it takes a number, so that no subscriber can see it."""

    _empty = 0

    def publish(self, batch: Batch) -> bool:
        self._empty += not batch.events
        if not batch.events and self._empty % 10 == 0:
            return True
        return super().publish(batch)


_carried: list[int] = [0]
"""The next number of the life before, in this process."""


class GoesOnAfterRestart(ZmqPublisher):
    """Carries the number over into the next incarnation."""

    _begun = False

    def _reserve(self) -> int:
        if not self._begun:
            self._begun = True
            self._next_number = _carried[0]
        number = super()._reserve()
        _carried[0] = self._next_number
        return number


def without_clear(config: PublisherConfig) -> ZmqPublisher:
    """The reference, which does not begin a stream with ``AllBlocksCleared``."""
    return ZmqPublisher(msgspec.structs.replace(config, clear_first=False))
