"""Numbers that are missing, and from which one on they are asked for."""

from __future__ import annotations

import pytest

from kvwire.trace.records import Record
from kvwire.watch.holes import GRACE_NS, Holes

LATER = 10**12


def took(holes: Holes, *messages: str) -> Holes:
    """Take messages such as ``a5``: number 5 from the first witness; ``a!`` is the loss of its connection."""
    for message in messages:
        source, rest = f"live-{message[0]}", message[1:]
        if rest == "!":
            holes.lost(source)
        else:
            frames = (b"kv", int(rest).to_bytes(8, "big"), b"payload")
            holes.take(Record(t_ns=0, source=source, stream="s", frames=frames))
    return holes


@pytest.mark.parametrize(
    ("messages", "start"),
    [
        ("a5 b5 a6 b6", None),
        ("a5 a8", 6),
        ("a5 a8 b5 b6 b7 b8", None),
        ("a5 a8 b5 b6 b8", 7),
        ("a5 a7 a9", 6),
        ("a5 a! a8", 6),
        ("a500 a! a0 a1", None),
        ("a500 b500 a! b! a3 b3 a4 b4", 0),
        ("a500 b500 a! b! a0 b0 a1 b1", None),
        ("a500 b500 a! b! a0 a1 b0 b1 a2", None),
        ("a500 b500 a! a0 b501 a1", None),
        ("a5 a4 a6", None),
        (f"a5 a{2**64 - 1}", None),
    ],
    ids=[
        "nothing missing",
        "a hole",
        "one that the other witness fills",
        "one that it fills in part",
        "two: an answer from the first on holds both",
        "a hole over a lost connection",
        "a new life that was heard from its beginning",
        "a new life whose beginning was missed",
        "a new life by both",
        "a new life, one witness ahead",
        "what the other witness still has of the old life",
        "a number that falls without a lost connection",
        "an end marker",
    ],
)
def test_is_asked_from_the_lowest_missing_number(messages: str, start: int | None) -> None:
    assert took(Holes(), *messages.split()).due(LATER) == start


def test_a_hole_is_asked_for_once_and_not_before_another_witness_had_time() -> None:
    holes = took(Holes(), "a5", "a8")
    assert holes.due(GRACE_NS - 1) is None
    assert holes.due(GRACE_NS) == 6
    assert holes.due(LATER) is None
    assert took(holes, "a10").due(LATER) == 9
