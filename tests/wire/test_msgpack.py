"""The walker: every byte that can begin a value, every way to end early, and nothing but its own errors."""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady

from kvwire.wire.msgpack import Kind, LimitError, Limits, Node, WireError, walk

KEYS = st.one_of(st.text(max_size=8), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=4))
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=40),
        st.binary(max_size=40),
        st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=20)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=17), st.dictionaries(KEYS, inner, max_size=17)),
    max_leaves=20,
)


def plain(node: Node) -> Any:
    """The Python value of a node, as msgspec reads it."""
    if node.kind is Kind.ARRAY:
        return [plain(item) for item in node.items]
    if node.kind is Kind.MAP:
        return {plain(key): plain(value) for key, value in node.pairs}
    if node.kind is Kind.EXT:
        assert node.ext_type is not None
        return msgspec.msgpack.Ext(node.ext_type, node.value)
    return node.value


@steady
@given(VALUES)
def test_what_msgspec_writes_is_read_as_msgspec_reads_it(value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    node = walk(data)
    assert (node.start, node.end) == (0, len(data))
    assert msgspec.msgpack.encode(plain(node)) == data


@steady
@given(VALUES)
def test_every_node_says_where_it_stands(value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    stack = [walk(data)]
    while stack:
        node = stack.pop()
        assert data[node.start] == node.head
        assert walk(data[node.start : node.end]).end == node.end - node.start
        inner = [*node.items, *(part for pair in node.pairs for part in pair)]
        for before, after in itertools.pairwise(inner):
            assert before.end == after.start
        stack += inner


HEADS: list[tuple[bytes, Kind, Any]] = [
    *((bytes([head]), Kind.INT, head) for head in range(0x80)),
    *((bytes([head]), Kind.INT, head - 256) for head in range(0xE0, 0x100)),
    *((bytes([0x80 + n]) + b"\x01\x02" * n, Kind.MAP, n) for n in range(16)),
    *((bytes([0x90 + n]) + b"\x01" * n, Kind.ARRAY, n) for n in range(16)),
    *((bytes([0xA0 + n]) + b"x" * n, Kind.STR, "x" * n) for n in range(32)),
    (b"\xc0", Kind.NIL, None),
    (b"\xc2", Kind.BOOL, False),
    (b"\xc3", Kind.BOOL, True),
    (b"\xc4\x02ab", Kind.BIN, b"ab"),
    (b"\xc5\x00\x02ab", Kind.BIN, b"ab"),
    (b"\xc6\x00\x00\x00\x02ab", Kind.BIN, b"ab"),
    (b"\xc7\x02\xffab", Kind.EXT, b"ab"),
    (b"\xc8\x00\x02\xffab", Kind.EXT, b"ab"),
    (b"\xc9\x00\x00\x00\x02\xffab", Kind.EXT, b"ab"),
    (b"\xca\x3f\xc0\x00\x00", Kind.FLOAT32, 1.5),
    (b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", Kind.FLOAT64, 1.5),
    (b"\xcc\xff", Kind.INT, 255),
    (b"\xcd\xff\xff", Kind.INT, 2**16 - 1),
    (b"\xce" + b"\xff" * 4, Kind.INT, 2**32 - 1),
    (b"\xcf" + b"\xff" * 8, Kind.INT, 2**64 - 1),
    (b"\xd0\x80", Kind.INT, -128),
    (b"\xd1\x80\x00", Kind.INT, -(2**15)),
    (b"\xd2\x80\x00\x00\x00", Kind.INT, -(2**31)),
    (b"\xd3\x80" + bytes(7), Kind.INT, -(2**63)),
    *((bytes([0xD4 + n, 0x05]) + b"z" * 2**n, Kind.EXT, b"z" * 2**n) for n in range(5)),
    (b"\xd9\x02ab", Kind.STR, "ab"),
    (b"\xda\x00\x02ab", Kind.STR, "ab"),
    (b"\xdb\x00\x00\x00\x02ab", Kind.STR, "ab"),
    (b"\xdc\x00\x02\x01\x02", Kind.ARRAY, 2),
    (b"\xdd\x00\x00\x00\x02\x01\x02", Kind.ARRAY, 2),
    (b"\xde\x00\x01\x01\x02", Kind.MAP, 1),
    (b"\xdf\x00\x00\x00\x01\x01\x02", Kind.MAP, 1),
]


def test_every_byte_that_can_begin_a_value_does() -> None:
    assert sorted(data[0] for data, _, _ in HEADS) == [head for head in range(256) if head != 0xC1]


@pytest.mark.parametrize(("data", "kind", "value"), HEADS, ids=[data[:6].hex() for data, _, _ in HEADS])
def test_a_value_and_every_way_to_cut_it_short(data: bytes, kind: Kind, value: Any) -> None:
    node = walk(data)
    assert (node.kind, node.start, node.end, node.head) == (kind, 0, len(data), data[0])
    seen = len(node.items) if kind is Kind.ARRAY else len(node.pairs) if kind is Kind.MAP else node.value
    assert seen == value
    for end in range(len(data)):
        with pytest.raises(WireError, match=r"truncated.* at byte \d+") as error:
            walk(data[:end])
        assert 0 <= error.value.offset <= end
        assert not isinstance(error.value, LimitError)


def test_the_ext_type_is_signed() -> None:
    assert [walk(bytes([0xD4, code, 0])).ext_type for code in (0, 127, 128, 255)] == [0, 127, -128, -1]


def test_the_unused_byte() -> None:
    with pytest.raises(WireError, match="0xc1 is no msgpack value at byte 1"):
        walk(b"\x91\xc1")


def test_bytes_behind_the_value_are_left_to_the_caller() -> None:
    node = walk(b"\x91\x01\xc0\xc0")
    assert node.end == 2


def test_floats_keep_their_bits() -> None:
    assert math.isnan(walk(b"\xcb\x7f\xf8" + bytes(6)).value)
    assert walk(b"\xcb\x80" + bytes(7)).value.hex() == "-0x0.0p+0"
    assert walk(b"\xca" + struct.pack(">f", 0.1)).value == struct.unpack(">f", struct.pack(">f", 0.1))[0]


def test_a_key_twice_keeps_both_and_get_takes_the_last() -> None:
    node = walk(b"\x84\xa1a\x01\xa1a\x02\xc4\x01a\x03\x05\x06")
    assert [(key.value, value.value) for key, value in node.pairs] == [("a", 1), ("a", 2), (b"a", 3), (5, 6)]
    found = node.get("a")
    assert found is not None
    assert found.value == 2
    assert node.get("b") is None


def test_a_string_that_is_not_utf8_is_its_bytes() -> None:
    node = walk(b"\x92\xa2ok\x81\xa1\xff\x00")
    assert not node.items[1].pairs[0][0].text_ok
    bad = node.first_bad_text()
    assert bad is not None
    assert (bad.value, bad.start) == (b"\xff", 5)
    assert walk(b"\x92\xa2ok\xc4\x01\xff").first_bad_text() is None


# --- limits -------------------------------------------------------------------------------------------------------


def nested(depth: int, head: bytes = b"\x91", inner: bytes = b"\xc0") -> bytes:
    return head * depth + inner


def test_a_depth_at_the_limit_and_above_it() -> None:
    limits = Limits(depth=5)
    walk(nested(5), limits)
    walk(nested(5, inner=b"\x90"), limits)  # an empty array opens nothing
    with pytest.raises(LimitError, match="nested deeper than 5, this harness's limit at byte 5"):
        walk(nested(6), limits)


@pytest.mark.parametrize(
    ("head", "inner"), [(b"\x91", b"\xc0"), (b"\x81\x01", b"\xc0"), (b"\xdd\x00\x00\x00\x01", b"")]
)
def test_a_depth_bomb_ends_in_an_error_and_not_in_a_crash(head: bytes, inner: bytes) -> None:
    with pytest.raises(WireError):
        walk(nested(200_000, head, inner))


@pytest.mark.parametrize("head", [b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"])
def test_a_size_that_is_only_announced_takes_no_memory(head: bytes) -> None:
    with pytest.raises(WireError, match="truncated"):
        walk(head + b"\xff\xff\xff\xff" + b"\x00" * 100)


def test_the_number_of_values_and_bytes() -> None:
    limits = Limits(values=10, bytes=64)
    walk(b"\x99" + b"\x00" * 9, limits)
    with pytest.raises(LimitError, match="more than 10 values"):
        walk(b"\x9a" + b"\x00" * 10, limits)
    with pytest.raises(LimitError, match="payload of 65 bytes exceeds this harness's limit of 64 at byte 0"):
        walk(b"\xc4\x3f" + bytes(63), limits)


# --- whatever comes -----------------------------------------------------------------------------------------------


def ended(data: bytes) -> int | None:
    """Where reading ended in an error; None when it did not."""
    try:
        walk(data)
    except WireError as error:
        return error.offset
    return None


@steady
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    offset = ended(data)
    if offset is not None:
        assert 0 <= offset <= len(data)
        with pytest.raises((msgspec.DecodeError, ValueError)):
            msgspec.msgpack.decode(data)


@steady
@given(VALUES, st.data())
def test_no_damage_to_real_bytes_raises_anything_else(value: Any, data: st.DataObject) -> None:
    content = bytearray(msgspec.msgpack.encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert (ended(bytes(content)) or 0) <= len(content)
