"""Frames of live messages: what is one, and what is not (spec/envelope.md)."""

from __future__ import annotations

from kvwire.vectors.model import EnvelopeExpected, EnvelopeFile, EnvelopeInput, Group, Note, Test
from kvwire_generators.making import fault, links, make

EnvelopeTest = Test[EnvelopeInput, EnvelopeExpected]

EMPTY = "93cb41d9dd21606000009000"
"""An empty batch."""
CLEARED = "93cb41d9dd21600000009181a474797065b0416c6c426c6f636b73436c656172656400"
KV = b"kv".hex()

MISTAKES = {
    "little-endian-number": "the number is read little-endian, not big-endian",
    "signed-number": "the number is read as signed: it is unsigned",
    "rounded-number": "the number is rounded to 53 bits: it went through a floating-point number",
}
NOTES: dict[str, Note] = {
    "frame-count": fault("the message has another number of frames than three", "KVW-ENV-001"),
    "number-length": fault("the number has another length than 8 bytes", "KVW-ENV-005"),
    "reserved-number": fault("the number is 2^64−1, the end marker of replay", "KVW-SEQ-006"),
    "topic-not-utf-8": fault("the topic is not valid UTF-8", "KVW-ENV-004"),
    "payload-empty": fault("the payload has no byte, and so is no msgpack value", "KVW-ENV-006"),
    "big-integer": Note(kind="property", description="numbers beyond 2^53, which floating point cannot hold"),
    "opaque-payload": Note(
        kind="property",
        description="the payload is no batch, which is nothing that the frames tell",
        links=links("KVW-ENV-006"),
    ),
    **{
        name: Note(kind="mistake", description=text, requirements=("KVW-ENV-005",), links=links("KVW-ENV-005"))
        for name, text in MISTAKES.items()
    },
}


def number_mistakes(number: int) -> dict[str, str]:
    """What known mistakes read instead of a number."""
    found = {
        "little-endian-number": int.from_bytes(number.to_bytes(8, "big"), "little"),
        "signed-number": number - 2**64 if number >= 2**63 else number,
        "rounded-number": int(float(number)),
    }
    return {name: str(value) for name, value in sorted(found.items()) if value != number}


def _valid(
    slug: str, comment: str, number: int, *, topic: str = KV, payload: str = EMPTY, flags: tuple[str, ...] = ()
) -> EnvelopeTest:
    return EnvelopeTest(
        id=f"envelope-{slug}",
        comment=comment,
        flags=flags,
        requirements=("KVW-ENV-001", "KVW-ENV-004", "KVW-ENV-005"),
        result="valid",
        input=EnvelopeInput(frames=(topic, f"{number:016x}", payload)),
        expected=EnvelopeExpected(topic=topic, sequence=str(number), payload=payload),
        mistakes=number_mistakes(number),
    )


def _invalid(slug: str, comment: str, name: str, *frames: str) -> EnvelopeTest:
    return EnvelopeTest(
        id=f"envelope-{slug}",
        comment=comment,
        flags=(),
        requirements=NOTES[name].requirements,
        result="invalid",
        input=EnvelopeInput(frames=frames),
        expected=EnvelopeExpected(layer="frame", fault=name),
    )


def _numbers() -> tuple[EnvelopeTest, ...]:
    big = ("big-integer",)
    return (
        _valid("number-0", "the first number of a stream", 0),
        _valid("number-1", "the second", 1),
        _valid("number-127", "one byte", 127),
        _valid("number-258", "0102: not a palindrome", 258),
        _valid("number-2e31", "2^31", 2**31),
        _valid("number-2e32", "2^32", 2**32),
        _valid("number-bytes", "eight different bytes", 0x0102030405060708, flags=big),
        _valid("number-2e53-plus-1", "2^53+1", 2**53 + 1, flags=big),
        _valid("number-i63-max", "2^63−1", 2**63 - 1, flags=big),
        _valid("number-2e63", "2^63, negative when signed", 2**63, flags=big),
        _valid("number-largest", "2^64−2, the largest of a batch", 2**64 - 2, flags=big),
    )


def _topics() -> tuple[EnvelopeTest, ...]:
    return (
        _valid("topic-empty", "an empty topic, which is common", 3, topic=""),
        _valid("topic-model", "a topic of several parts", 3, topic=b"kv@10.0.0.1:5557@some/model".hex()),
        _valid("topic-unicode", "a topic beyond ASCII", 3, topic="kv/東京".encode().hex()),
        _valid("topic-nul", "a NUL byte in the topic", 3, topic=b"kv\0x".hex()),
        _valid("topic-like-number", "a topic of eight bytes", 3, topic=b"kvevents".hex()),
        _valid("topic-like-end", "a topic that holds the number's bytes", 3, topic="0000000000000003"),
        _valid("topic-long", "a topic of 300 bytes", 3, topic=(b"t" * 300).hex()),
        _valid("payload-clear", "a batch with an event", 0, payload=CLEARED),
        _valid("payload-one-byte", "a payload of one byte", 4, payload="c0", flags=("opaque-payload",)),
        _valid("payload-end-bytes", "a payload of eight bytes ff", 4, payload="ff" * 8, flags=("opaque-payload",)),
    )


def _faults() -> tuple[EnvelopeTest, ...]:
    n = "0000000000000001"
    return (
        _invalid("one-frame", "the payload alone", "frame-count", EMPTY),
        _invalid("two-frames", "topic and payload", "frame-count", KV, EMPTY),
        _invalid("two-frames-number", "number and payload", "frame-count", n, EMPTY),
        _invalid("four-frames", "an empty frame in front", "frame-count", "", KV, n, EMPTY),
        _invalid("four-frames-behind", "an empty frame behind", "frame-count", KV, n, EMPTY, ""),
        _invalid("number-empty", "no bytes", "number-length", KV, "", EMPTY),
        _invalid("number-4-bytes", "four bytes", "number-length", KV, "00000001", EMPTY),
        _invalid("number-7-bytes", "seven bytes", "number-length", KV, "00000000000001", EMPTY),
        _invalid("number-9-bytes", "nine bytes", "number-length", KV, "000000000000000001", EMPTY),
        _invalid("number-16-bytes", "sixteen bytes", "number-length", KV, "00" * 15 + "01", EMPTY),
        _invalid("number-text", "the number as text", "number-length", KV, b"1".hex(), EMPTY),
        _invalid("number-msgpack", "the number as nine bytes of msgpack", "number-length", KV, f"cf{n}", EMPTY),
        _invalid("number-reserved", "2^64−1", "reserved-number", KV, "ff" * 8, EMPTY),
        _invalid("topic-latin-1", "a topic in Latin-1", "topic-not-utf-8", "kvé".encode("latin-1").hex(), n, EMPTY),
        _invalid("topic-surrogate", "an encoded surrogate", "topic-not-utf-8", "eda080", n, EMPTY),
        _invalid("payload-empty", "no payload", "payload-empty", KV, n, ""),
    )


def files() -> dict[str, EnvelopeFile]:
    """The files of ``envelope/``."""
    groups = (
        Group(name="numbers", comment="Eight bytes, big-endian, unsigned.", tests=_numbers()),
        Group(name="topics and payloads", comment="Bytes that mean nothing to the envelope.", tests=_topics()),
        Group(name="faults", comment="Messages that are none.", tests=_faults()),
    )
    return {"envelope/live.json": make("kvwire/vectors/envelope/1", __name__, groups, NOTES)}
