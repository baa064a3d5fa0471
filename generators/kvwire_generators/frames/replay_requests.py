"""Replay requests (spec/replay.md)."""

from __future__ import annotations

from kvwire.vectors.model import Cite, Note, ReplayExpected, ReplayInput, Test
from kvwire_generators.frames.envelope_vectors import EMPTY, KV, MISTAKES, number_mistakes
from kvwire_generators.making import fault, links, quote

ReplayTest = Test[ReplayInput, ReplayExpected]

NOTES: dict[str, Note] = {
    "frame-count": fault("the request has another number of frames than delimiter and start", "KVW-REP-005"),
    "delimiter": fault("the delimiter is not empty", "KVW-REP-006"),
    "start-length": fault("the start has another length than 8 bytes", "KVW-REP-006"),
    "should": Note(
        kind="property",
        description="a SHOULD NOT: a publisher that answers with batches all the same earns a warning",
        requirements=("KVW-REP-006",),
        links=links("KVW-REP-006"),
    ),
    "big-integer": Note(kind="property", description="numbers beyond 2^53, which floating point cannot hold"),
    **{name: Note(kind="mistake", description=text) for name, text in MISTAKES.items()},
}


def _number(value: int) -> str:
    return f"{value:016x}"


def _request(
    slug: str, comment: str, start: int, *, flags: tuple[str, ...] = (), cites: Cite | None = None
) -> ReplayTest:
    return ReplayTest(
        id=f"replay-request-{slug}",
        comment=comment,
        flags=flags,
        requirements=("KVW-REP-002", "KVW-REP-021"),
        result="valid" if cites is None else "acceptable",
        cites=cites,
        input=ReplayInput(frames=("", _number(start))),
        expected=ReplayExpected(start=str(start)),
        mistakes=number_mistakes(start),
    )


def _malformed(slug: str, comment: str, name: str, *frames: str) -> ReplayTest:
    count = name == "frame-count"
    return ReplayTest(
        id=f"replay-request-{slug}",
        comment=comment,
        flags=() if count else ("should",),
        requirements=("KVW-REP-005" if count else "KVW-REP-006", "KVW-REP-007"),
        result="invalid",
        input=ReplayInput(frames=frames),
        expected=ReplayExpected(layer="frame", fault=name),
    )


def requests() -> tuple[ReplayTest, ...]:
    """Requests as a DEALER sends them."""
    big = ("big-integer",)
    formed = quote(
        "replay.md",
        "A request is well-formed if it has exactly two frames: an empty delimiter, and the *start*, a "
        "sequence number as 8 bytes in big-endian order.",
    )
    return (
        _request("0", "everything that is retained", 0),
        _request("1", "from number 1 on", 1),
        _request("258", "0102: not a palindrome", 258),
        _request("2e32", "2^32", 2**32),
        _request("2e53-plus-1", "2^53+1", 2**53 + 1, flags=big),
        _request("2e63", "2^63, negative when signed", 2**63, flags=big),
        _request("largest", "2^64−2, the largest number of a batch", 2**64 - 2, flags=big),
        _request("reserved", "2^64−1, which no batch has", 2**64 - 1, flags=big, cites=formed),
        _malformed("one-frame", "the delimiter is forgotten", "frame-count", _number(0)),
        _malformed("delimiter-only", "the start is forgotten", "frame-count", ""),
        _malformed("three-frames", "two starts", "frame-count", "", _number(0), _number(1)),
        _malformed("three-frames-empty", "two delimiters", "frame-count", "", "", _number(0)),
        _malformed("four-frames", "the shape of an answer", "frame-count", "", KV, _number(0), EMPTY),
        _malformed("delimiter", "a delimiter of one byte", "delimiter", "00", _number(0)),
        _malformed("delimiter-topic", "a topic in place of the delimiter", "delimiter", KV, _number(0)),
        _malformed("start-empty", "a start of no bytes", "start-length", "", ""),
        _malformed("start-1", "a start of one byte", "start-length", "", "00"),
        _malformed("start-4", "a start of four bytes", "start-length", "", "00000000"),
        _malformed("start-7", "a start of seven bytes", "start-length", "", "00" * 7),
        _malformed("start-9", "a start of nine bytes", "start-length", "", "00" * 9),
        _malformed("start-16", "a start of sixteen bytes", "start-length", "", "00" * 16),
        _malformed("start-text", "the start as text", "start-length", "", b"0".hex()),
    )
