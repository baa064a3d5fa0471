"""Payloads and their projections (spec/batch.md, spec/event.md, spec/projection.md)."""

from __future__ import annotations

from kvwire.projection import project_batch
from kvwire.vectors.making import fault, make
from kvwire.vectors.model import Group, Test, WireExpected, WireFile, WireInput
from kvwire.wire import walk

NOTES = {"batch-length": fault("the batch is not an array of three", "KVW-BAT-001")}


def projected(payload: str) -> object:
    """The projection of a payload in hex."""
    return project_batch(walk(bytes.fromhex(payload)))


def files() -> dict[str, WireFile]:
    """The files of ``wire/``."""
    empty, two = "93cb41d9dd21606000009000", "92cb41d9dd216060000090"
    events = Group(
        name="batches",
        comment="Edition 1.",
        tests=(
            Test(
                id="wire-batch-empty",
                comment="a batch without events",
                flags=(),
                requirements=("KVW-BAT-001", "KVW-BAT-005"),
                result="valid",
                input=WireInput(payload=empty, encodings=("dc0003cb41d9dd21606000009000",)),
                expected=WireExpected(projection=projected(empty)),
            ),
        ),
    )
    invalid = Group(
        name="batches",
        comment="One fault each.",
        tests=(
            Test(
                id="wire-invalid-batch-of-two",
                comment="no rank",
                flags=(),
                requirements=("KVW-BAT-001",),
                result="invalid",
                input=WireInput(payload=two),
                expected=WireExpected(projection=projected(two), layer="schema", fault="batch-length"),
            ),
        ),
    )
    schema = "kvwire/vectors/wire/1"
    return {
        "wire/valid.json": make(schema, __name__, [events], NOTES),
        "wire/invalid.json": make(schema, __name__, [invalid], NOTES),
    }
