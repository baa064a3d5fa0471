"""Shapes: which payloads are read by type, and that nothing passes which the walker would flag."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.kit.stories import Event, pack, payload, removed, stored

from kvwire.wire.dialect import read_slowly
from kvwire.wire.msgpack import walk
from kvwire.wire.plain import LEARNED, Read, Reader

COUNTED = {"not-a-map", "hash-unsigned"}
"""Faults that a shape tells of, so that they are counted."""
LEFT = {"medium", "medium-name", "length", "hash-zero"}
"""Faults that whoever takes an event looks for."""
ARRAY = ["BlockStored", [5, -6], None, [1, 2, 3, 4], 2, None, "GPU", None]


def read(content: bytes, *before: bytes) -> Read | None:
    reader = Reader()
    for one in before:
        reader.read(one)
    return reader.read(content)


def flaws(content: bytes) -> set[str]:
    reading = read_slowly(content)
    return {flaw.code for flaw in (*reading.flaws, *(flaw for event in reading.events for flaw in event.flaws))}


@pytest.mark.parametrize(
    ("event", "form", "signed"),
    [
        (stored("ab"), "map", True),
        (removed("a"), "map", True),
        ({**stored("a"), "block_hashes": [2**63]}, "map", False),
        ({**stored("a"), "x-engine": "a", "x-load": 0.5}, "map", True),
        (ARRAY, "array-v", True),
        ([*ARRAY, None], "array-v", True),
        (["BlockRemoved", [5], "GPU"], "array", True),
        (["BlockRemoved", [2**64 - 1], "GPU", 1], "array-v", False),
    ],
)
def test_a_shape_is_learned_from_the_first_event_of_it(event: Any, form: str, signed: bool) -> None:
    content = payload(event)
    found = read(content)
    assert found is not None
    ((shape, typed),) = found[2]
    assert (shape.form, shape.signed) == (form, signed)
    (slow,) = read_slowly(content).events
    assert shape.keys == slow.keys
    assert tuple(value % 2**64 for value in typed.block_hashes) == slow.hashes
    assert read(content, content) == found or read(content, content) is not None


def test_signed_hashes_are_read_by_the_shape_of_unsigned_ones() -> None:
    unsigned = payload({**stored("a"), "block_hashes": [2**63]})
    found = read(payload(stored("b")), unsigned)
    assert found is not None
    assert not found[2][0][0].signed


def test_a_stream_that_never_repeats_itself_is_the_walkers() -> None:
    reader = Reader()
    told = [reader.read(payload({**removed("a"), f"x-{number}": 1})) is not None for number in range(LEARNED + 40)]
    assert all(told[:LEARNED])
    assert not any(told[LEARNED:])


def test_a_key_twice_is_never_read_by_type() -> None:
    for header, keys in ((b"\x84", 4), (b"\xde\x00\x04", 4)):
        event = b"".join(map(pack, ("type", "BlockRemoved", "block_hashes", [5], "medium", "CPU", "medium", "GPU")))
        assert len(event) > keys
        content = b"\x93" + pack(1.5) + b"\x91" + header + event + b"\x00"
        assert flaws(content) == {"key-twice"}
        assert read(content, payload(removed("a", v=1)), payload({**removed("a"), "x": 1})) is None


def bent(rng: random.Random) -> bytes:
    """A payload of one of many forms, and perhaps something done to it."""
    more: dict[str, Any] = rng.choice(
        [{}, {"x-a": rng.choice([1, "s", None, 1.5, True])}, {"group_idx": 1, "v": 1}, {"hash_algo": "v1_block_key"}]
    )
    event: Any = {**stored(range(rng.randint(1, 3))), **more}
    if rng.random() < 0.2:
        event["block_hashes"] = [value % 2**64 for value in event["block_hashes"]]
    if rng.random() < 0.15:
        event = ARRAY[: rng.randint(6, 8)]
    events: list[Event] = [event, removed("a")] if rng.random() < 0.3 else [event]
    content = bytearray(payload(*events, ts=rng.choice([1.5, 1.75e9])))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(len(content))
        if rng.random() < 0.7:
            content[at] = rng.randrange(256)
        else:
            content[at:at] = rng.choice([bytes([rng.randrange(256)]), b"\xa6medium\xa3CPU", b"\xa1x\x01"])
    return bytes(content)


def test_nothing_passes_that_the_walker_flags() -> None:
    rng, reader, passed = random.Random(5), Reader(), 0
    for _ in range(6000):
        content = bent(rng)
        found = reader.read(content)
        if found is None:
            continue
        passed += 1
        slow = read_slowly(content)
        assert flaws(content) <= COUNTED | LEFT, content.hex()
        assert (slow.ts, slow.rank) == found[:2]
        assert walk(content).first_bad_text() is None
        for event, (shape, typed) in zip(slow.events, found[2], strict=True):
            assert (event.kind, event.form, event.keys) == (shape.kind, shape.form, shape.keys)
            assert event.hashes == tuple(value % 2**64 for value in typed.block_hashes)
            assert event.medium == (typed.medium or None)
            if event.kind == "stored":
                assert list(event.tokens) == typed.token_ids
                parent = typed.parent_block_hash
                assert event.parent == (None if parent is None else parent % 2**64)
        with pytest.raises(msgspec.DecodeError):
            msgspec.msgpack.decode(content + b"\x00")
    assert passed > 1000
