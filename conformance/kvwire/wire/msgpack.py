"""A msgpack walker that loses nothing: a tree with byte offsets, widths, duplicate keys, and limits.

It is the truth about a payload; typed decoders are only a fast path beside it (``dialect``). It is iterative,
so that a hostile nesting depth ends in an error and not in a crash.
"""

from __future__ import annotations

import enum
import functools
import struct
from typing import Any

import msgspec


class Kind(enum.Enum):
    """The msgpack families; float32 and float64 are told apart."""

    NIL = "nil"
    BOOL = "bool"
    INT = "integer"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STR = "string"
    BIN = "bytes"
    ARRAY = "array"
    MAP = "map"
    EXT = "ext"


class Limits(msgspec.Struct, frozen=True):
    """What the harness reads at most of one payload: its own bounds, stated in every result."""

    bytes: int = 16 * 1024 * 1024
    depth: int = 32
    values: int = 500_000

    def events(self, size: int) -> int:
        """How many events are read of a payload of so many bytes: one that says anything has sixteen."""
        return 64 + size // 16


LIMITS = Limits()


class WireError(ValueError):
    """The bytes are not one msgpack value within the limits; ``offset`` is where reading ended."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} at byte {offset}")
        self.message = message
        self.offset = offset


class LimitError(WireError):
    """The bytes exceed a bound of this harness, which says nothing about whoever sent them."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """One msgpack value: bytes ``start`` to ``end`` (exclusive) of the payload, ``head`` its first byte.

    ``value`` holds a scalar (``bytes`` for bin, ext and for a string that is not UTF-8); ``items`` an array's
    children; ``pairs`` a map's entries in order, duplicates kept.
    """

    kind: Kind
    start: int
    end: int
    head: int
    value: Any = None
    items: tuple[Node, ...] = ()
    pairs: tuple[tuple[Node, Node], ...] = ()
    ext_type: int | None = None
    text_ok: bool = True

    def get(self, key: str) -> Node | None:
        """The last value under a string key of a map, as every known decoder takes it; None when absent."""
        found = None
        for name, value in self.pairs:
            if name.kind is Kind.STR and name.value == key:
                found = value
        return found

    def first_bad_text(self) -> Node | None:
        """The first string that is not valid UTF-8, keys included; None when all are."""
        stack = [self]
        while stack:
            node = stack.pop()
            if not node.text_ok:
                return node
            stack.extend(reversed(node.items))
            for key, value in reversed(node.pairs):
                stack += (value, key)
        return None


class _Open:
    __slots__ = ("children", "head", "is_map", "start", "want")

    def __init__(self, start: int, head: int, want: int, *, is_map: bool) -> None:
        self.start = start
        self.head = head
        self.want = want
        self.is_map = is_map
        self.children: list[Node] = []

    def close(self, end: int) -> Node:
        if self.is_map:
            pairs = tuple(zip(self.children[::2], self.children[1::2], strict=True))
            return Node(Kind.MAP, self.start, end, self.head, pairs=pairs)
        return Node(Kind.ARRAY, self.start, end, self.head, items=tuple(self.children))


_NUMBERS: dict[int, tuple[Kind, struct.Struct]] = {
    0xCA: (Kind.FLOAT32, struct.Struct(">f")),
    0xCB: (Kind.FLOAT64, struct.Struct(">d")),
    0xCC: (Kind.INT, struct.Struct(">B")),
    0xCD: (Kind.INT, struct.Struct(">H")),
    0xCE: (Kind.INT, struct.Struct(">I")),
    0xCF: (Kind.INT, struct.Struct(">Q")),
    0xD0: (Kind.INT, struct.Struct(">b")),
    0xD1: (Kind.INT, struct.Struct(">h")),
    0xD2: (Kind.INT, struct.Struct(">i")),
    0xD3: (Kind.INT, struct.Struct(">q")),
}
_SIZED: dict[int, tuple[Kind, int]] = {
    0xC4: (Kind.BIN, 1),
    0xC5: (Kind.BIN, 2),
    0xC6: (Kind.BIN, 4),
    0xC7: (Kind.EXT, 1),
    0xC8: (Kind.EXT, 2),
    0xC9: (Kind.EXT, 4),
    0xD9: (Kind.STR, 1),
    0xDA: (Kind.STR, 2),
    0xDB: (Kind.STR, 4),
    0xDC: (Kind.ARRAY, 2),
    0xDD: (Kind.ARRAY, 4),
    0xDE: (Kind.MAP, 2),
    0xDF: (Kind.MAP, 4),
}
_FIXEXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_CONSTANTS: dict[int, tuple[Kind, bool | None]] = {
    0xC0: (Kind.NIL, None),
    0xC2: (Kind.BOOL, False),
    0xC3: (Kind.BOOL, True),
}


class _Reader:
    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.limits = limits
        self.pos = 0

    def _take(self, count: int) -> bytes:
        if self.pos + count > len(self.data):
            raise WireError(f"truncated: {count} bytes wanted, {len(self.data) - self.pos} left", self.pos)
        chunk = self.data[self.pos : self.pos + count]
        self.pos += count
        return chunk

    def _text(self, start: int, head: int, size: int) -> Node:
        raw = self._take(size)
        try:
            return Node(Kind.STR, start, self.pos, head, raw.decode())
        except UnicodeDecodeError:
            return Node(Kind.STR, start, self.pos, head, raw, text_ok=False)

    def _ext(self, start: int, head: int, size: int) -> Node:
        (ext_type,) = struct.unpack(">b", self._take(1))
        return Node(Kind.EXT, start, self._end(size), head, self.data[self.pos - size : self.pos], ext_type=ext_type)

    def _end(self, size: int) -> int:
        self._take(size)
        return self.pos

    def next(self) -> Node | _Open:
        """The next value, or an opened array or map whose children follow."""
        start = self.pos
        if start >= len(self.data):
            raise WireError("truncated: a value is missing", start)
        head = self.data[start]
        self.pos = start + 1
        if head < 0x80:
            return Node(Kind.INT, start, self.pos, head, head)
        if head >= 0xE0:
            return Node(Kind.INT, start, self.pos, head, head - 256)
        if head < 0x90:
            return _Open(start, head, 2 * (head & 0x0F), is_map=True)
        if head < 0xA0:
            return _Open(start, head, head & 0x0F, is_map=False)
        if head < 0xC0:
            return self._text(start, head, head & 0x1F)
        if number := _NUMBERS.get(head):
            kind, layout = number
            (value,) = layout.unpack(self._take(layout.size))
            return Node(kind, start, self.pos, head, value)
        if constant := _CONSTANTS.get(head):
            return Node(constant[0], start, self.pos, head, constant[1])
        if head in _FIXEXT:
            return self._ext(start, head, _FIXEXT[head])
        if sized := _SIZED.get(head):
            kind, width = sized
            size = int.from_bytes(self._take(width), "big")
            if kind is Kind.STR:
                return self._text(start, head, size)
            if kind is Kind.BIN:
                return Node(Kind.BIN, start, self._end(size), head, self.data[self.pos - size : self.pos])
            if kind is Kind.EXT:
                return self._ext(start, head, size)
            return _Open(start, head, size * (2 if kind is Kind.MAP else 1), is_map=kind is Kind.MAP)
        raise WireError("0xc1 is no msgpack value", start)


def walk(data: bytes, limits: Limits = LIMITS) -> Node:
    """Read the first msgpack value of ``data``; ``node.end < len(data)`` tells of trailing bytes.

    Raises:
        LimitError: when the bytes exceed a limit of the harness.
        WireError: when they end early or hold 0xc1.
    """
    if len(data) > limits.bytes:
        raise LimitError(f"payload of {len(data)} bytes exceeds this harness's limit of {limits.bytes}", 0)
    reader = _Reader(data, limits)
    stack: list[_Open] = []
    values = 0
    while True:
        step = reader.next()
        values += 1
        if values > limits.values:
            raise LimitError(f"more than {limits.values} values, this harness's limit", reader.pos)
        if isinstance(step, _Open):
            if step.want > len(data) - reader.pos:
                raise WireError(
                    f"truncated: {step.want} values announced, {len(data) - reader.pos} bytes left",
                    step.start,
                )
            if step.want:
                if len(stack) >= limits.depth:
                    raise LimitError(f"nested deeper than {limits.depth}, this harness's limit", step.start)
                stack.append(step)
                continue
            step = step.close(reader.pos)
        node = step
        while stack:
            top = stack[-1]
            top.children.append(node)
            if len(top.children) < top.want:
                break
            node = stack.pop().close(reader.pos)
        else:
            return node


walked = functools.lru_cache(maxsize=1)(walk)
"""The same; what was read last is kept, as one payload is often looked into again and again."""
