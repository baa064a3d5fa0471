"""Envelope: three frames, the topic, the number's frame, and one msgpack value (spec/envelope.md)."""

from __future__ import annotations

from kvwire.judges.area import ABSURD, HEX_BYTES, Area, Say, at_record, judge, unless
from kvwire.judges.step import Step
from kvwire.judges.verdict import Where
from kvwire.trace.records import Record
from kvwire.wire.msgpack import LimitError, WireError, walked
from kvwire.wire.plain import read_quickly


class Envelope(Area):
    """Reads live records as they came."""

    def on_step(self, step: Step) -> None:
        self.three_frames.saw(step.messages)
        self.one_topic.saw(step.messages)
        self.utf8_topic.saw(step.messages)
        self.one_value.saw(step.messages)
        if self.context.stream.topic is not None:
            self.declared_topic.saw(step.messages)
        self.number_frame.saw(step.numbered)

    def on_record(self, index: int, record: Record) -> None:
        if not record.is_live or record.frames is None or index in self.facts.copies:
            return
        frames = record.frames
        self.three_frames(index, frames)
        if len(frames) != 3:
            return  # which frame is missing, or too many, cannot be told
        topic, sequence, payload = frames
        self.one_topic(index, topic)
        self.declared_topic(index, topic)
        self.utf8_topic(index, topic)
        self.number_frame(index, sequence)
        self.one_value(index, sequence, payload)

    @judge("KVW-ENV-001")
    def three_frames(self, say: Say, index: int, frames: tuple[bytes, ...]) -> None:
        """KVW-ENV-001: A publisher MUST send every batch as one message of exactly three frames: topic, sequence
        number, payload.
        """
        if len(frames) == 3:
            say.saw()
            return
        shown = " | ".join(frame[:HEX_BYTES].hex() or "(empty)" for frame in frames)
        say.broke(
            "three frames: topic, sequence number, payload",
            f"{len(frames)} frames: {shown}",
            Where(record=index, frame="message", offset=0, hex=b"".join(frames)[:HEX_BYTES].hex()),
        )

    @judge("KVW-ENV-002")
    def one_topic(self, say: Say, index: int, topic: bytes) -> None:
        """KVW-ENV-002: A publisher MUST send the same topic frame with every batch of a stream.

        The first message is no witness: there is nothing to differ from.
        """
        if self.facts.topic is None:
            self.facts.topic = topic
        elif topic == self.facts.topic:
            say.saw()
        else:
            say.broke(
                f"the topic {self.facts.topic!r} of the messages before",
                f"the topic {topic!r}",
                at_record(index, "topic", topic),
            )

    @judge("KVW-ENV-003", unclaimed=unless(lambda stream, _: stream.topic is not None), declares="streams.topic")
    def declared_topic(self, say: Say, index: int, topic: bytes) -> None:
        """KVW-ENV-003: A publisher MUST send the topic that it declares for the stream, byte for byte.

        Without a declared topic there is no occasion to break it.
        """
        declared = self.context.stream.topic
        if declared is None:
            return
        if topic == declared.encode():
            say.saw()
        else:
            say.broke(
                f"the declared topic {declared!r}",
                f"the topic {topic!r}",
                at_record(index, "topic", topic),
            )

    @judge("KVW-ENV-004")
    def utf8_topic(self, say: Say, index: int, topic: bytes) -> None:
        """KVW-ENV-004: A publisher MUST send a topic frame that is valid UTF-8 (it may be empty)."""
        try:
            topic.decode()
        except UnicodeDecodeError as error:
            say.broke("a topic frame that is valid UTF-8", str(error), at_record(index, "topic", topic))
        else:
            say.saw()

    @judge("KVW-ENV-005")
    def number_frame(self, say: Say, index: int, frame: bytes) -> None:
        """KVW-ENV-005: A publisher MUST send the sequence number as a frame of exactly 8 bytes, an unsigned integer
        in big-endian order.

        Byte order: the second number of a little-endian counter is already 2^56, and no publisher sends that many.

        An absurd number is therefore taken as little-endian when its reversal is small.
        """
        if len(frame) != 8:
            say.broke(
                "a frame of 8 bytes",
                f"{len(frame)} bytes: {frame[:HEX_BYTES].hex() or '(empty)'}",
                at_record(index, "sequence", frame),
            )
            return
        big, little = int.from_bytes(frame, "big"), int.from_bytes(frame, "little")
        if big >= ABSURD and little < 2**32:
            say.broke(
                f"{little.to_bytes(8, 'big').hex()}, the number {little} in big-endian order",
                f"{frame.hex()}, which is {little} in little-endian order",
                at_record(index, "sequence", frame),
            )
        elif big:
            say.saw()

    @judge("KVW-ENV-006")
    def one_value(self, say: Say, index: int, sequence: bytes, payload: bytes) -> None:
        """KVW-ENV-006: A publisher MUST send as payload exactly one well-formed msgpack value (every `str` in it
        valid UTF-8) with no bytes after it.

        A payload beyond the bounds of the harness stays open.
        """
        number = int.from_bytes(sequence, "big") if len(sequence) == 8 else None
        seen, offset = "", 0
        if read_quickly(payload) is not None:
            say.saw()
            return
        try:
            node = walked(payload)
        except LimitError as error:
            say.open(str(error))
            return
        except WireError as error:
            seen, offset = str(error), error.offset
        else:
            if node.end < len(payload):
                seen, offset = f"{len(payload) - node.end} bytes after the value", node.end
            elif (bad := node.first_bad_text()) is not None:
                seen, offset = "a `str` that is not valid UTF-8", bad.start
        if not seen:
            say.saw()
            return
        say.broke(
            "exactly one well-formed msgpack value and no bytes after it",
            seen,
            Where(
                record=index,
                number=None if number is None else str(number),
                frame="payload",
                offset=offset,
                hex=payload[offset : offset + HEX_BYTES].hex(),
            ),
        )
