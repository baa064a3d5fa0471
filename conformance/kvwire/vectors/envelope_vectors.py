"""Frames of live messages: what is one, and what is not (spec/envelope.md)."""

from __future__ import annotations

from kvwire.vectors.making import fault, make
from kvwire.vectors.model import EnvelopeExpected, EnvelopeFile, EnvelopeInput, Group, Note, Result, Test

EMPTY = "93cb41d9dd21606000009000"
"""An empty batch."""

NOTES = {
    "frame-count": fault("the message has another number of frames than three", "KVW-ENV-001"),
}


def _test(
    slug: str, comment: str, frames: tuple[str, ...], expected: EnvelopeExpected, result: Result, *requirements: str
) -> Test[EnvelopeInput, EnvelopeExpected]:
    return Test(
        id=f"envelope-{slug}",
        comment=comment,
        flags=(),
        requirements=requirements,
        result=result,
        input=EnvelopeInput(frames=frames),
        expected=expected,
    )


def files() -> dict[str, EnvelopeFile]:
    """The files of ``envelope/``."""
    tests = (
        _test(
            "plain",
            "topic, number, payload",
            ("6b76", "0000000000000001", EMPTY),
            EnvelopeExpected(topic="6b76", sequence="1", payload=EMPTY),
            "valid",
            "KVW-ENV-001",
            "KVW-ENV-005",
        ),
        _test(
            "two-frames",
            "no topic frame",
            ("0000000000000001", EMPTY),
            EnvelopeExpected(layer="frame", fault="frame-count"),
            "invalid",
            "KVW-ENV-001",
        ),
    )
    group = Group(name="live messages", comment="Frames as a SUB socket reads them.", tests=tests)
    return {"envelope/live.json": make("kvwire/vectors/envelope/1", __name__, [group], dict[str, Note](NOTES))}
