"""An encoder that can write a value in every legal msgpack form, and some things that are not legal."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

Path = tuple[str | int, ...]
"""Where a value stands: indices of arrays, keys of maps, and ``key:name`` for a key itself."""
Choose = Callable[[Path, list[bytes]], bytes]


class Raw(msgspec.Struct, frozen=True):
    """Bytes that go out as they are."""

    data: bytes


class Pairs(msgspec.Struct, frozen=True):
    """A map by its entries, which can have any keys, also twice."""

    items: tuple[tuple[Any, Any], ...]


class Float32(msgspec.Struct, frozen=True):
    """A float of four bytes."""

    value: float


_INTS = (
    (0xCC, ">B", 0, 2**8 - 1),
    (0xD0, ">b", -(2**7), 2**7 - 1),
    (0xCD, ">H", 0, 2**16 - 1),
    (0xD1, ">h", -(2**15), 2**15 - 1),
    (0xCE, ">I", 0, 2**32 - 1),
    (0xD2, ">i", -(2**31), 2**31 - 1),
    (0xCF, ">Q", 0, 2**64 - 1),
    (0xD3, ">q", -(2**63), 2**63 - 1),
)


def int_forms(value: int) -> list[bytes]:
    """Every way to write an integer, the shortest first."""
    fixed = [bytes([value & 0xFF])] if -32 <= value <= 127 else []
    return fixed + [bytes([head]) + struct.pack(code, value) for head, code, low, high in _INTS if low <= value <= high]


def _heads(size: int, fixed: int | None, limit: int, heads: tuple[tuple[int, str, int], ...]) -> list[bytes]:
    short = [bytes([fixed | size])] if fixed is not None and size <= limit else []
    return short + [bytes([head]) + struct.pack(code, size) for head, code, most in heads if size <= most]


def str_heads(size: int) -> list[bytes]:
    """Every head of a string of this many bytes."""
    return _heads(size, 0xA0, 31, ((0xD9, ">B", 255), (0xDA, ">H", 65535), (0xDB, ">I", 2**32 - 1)))


def bin_heads(size: int) -> list[bytes]:
    """Every head of this many bytes."""
    return _heads(size, None, 0, ((0xC4, ">B", 255), (0xC5, ">H", 65535), (0xC6, ">I", 2**32 - 1)))


def array_heads(size: int) -> list[bytes]:
    """Every head of an array of this many elements."""
    return _heads(size, 0x90, 15, ((0xDC, ">H", 65535), (0xDD, ">I", 2**32 - 1)))


def map_heads(size: int) -> list[bytes]:
    """Every head of a map of this many entries."""
    return _heads(size, 0x80, 15, ((0xDE, ">H", 65535), (0xDF, ">I", 2**32 - 1)))


def _scalar(value: Any) -> bytes | None:
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, Float32):
        return b"\xca" + struct.pack(">f", value.value)
    return value.data if isinstance(value, Raw) else None


def encode(value: Any, choose: Choose, path: Path = ()) -> bytes:
    """A value in the forms that ``choose`` picks at each place."""
    if (scalar := _scalar(value)) is not None:
        return scalar
    if isinstance(value, int):
        return choose(path, int_forms(value))
    if isinstance(value, str):
        text = value.encode()
        return choose(path, str_heads(len(text))) + text
    if isinstance(value, bytes):
        return choose(path, bin_heads(len(value))) + value
    if isinstance(value, list | tuple):
        head = choose(path, array_heads(len(value)))
        return head + b"".join(encode(item, choose, (*path, index)) for index, item in enumerate(value))
    items = value.items if isinstance(value, Pairs) else tuple(value.items())
    parts = [choose(path, map_heads(len(items)))]
    for key, item in items:
        parts += (encode(key, choose, (*path, f"key:{key}")), encode(item, choose, (*path, str(key))))
    return b"".join(parts)


def shortest(_: Path, forms: list[bytes]) -> bytes:
    """The shortest form."""
    return min(forms, key=len)


def longest(_: Path, forms: list[bytes]) -> bytes:
    """The longest form; of two, the unsigned one."""
    return max(forms, key=len)


def pack(value: Any) -> bytes:
    """A value in its shortest form."""
    return encode(value, shortest)


def variants(value: Any, *places: Path) -> Iterator[bytes]:
    """The encodings of a value that differ from the shortest at one of these places, all forms; then all longest."""
    for place in places:
        found: list[list[bytes]] = []

        def note(path: Path, forms: list[bytes], place: Path = place, found: list[list[bytes]] = found) -> bytes:
            if path == place:
                found.append(forms)
            return shortest(path, forms)

        encode(value, note)
        if not found:
            raise LookupError(f"nothing stands at {place}")
        for form in found[0]:
            if form == shortest(place, found[0]):
                continue

            def pick(path: Path, forms: list[bytes], place: Path = place, form: bytes = form) -> bytes:
                return form if path == place else shortest(path, forms)

            yield encode(value, pick)
    yield encode(value, longest)
