"""Damage: what becomes of lines of JSON, of bytes, and of TOML."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Mutate = Callable[[bytes, random.Random], bytes]

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 255, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**64), 10**30,
    0.0, -0.0, 1.5, 1e308, -1e308, float("nan"), float("inf"), "", " ", "0", "x", "\x00", "\x1b[31m", "\u202e",
    "é" * 3, "\ud800", "١٢", "1_0", "9" * 40, "18013317135)90605405", "DISCONNECTED", "live-a", "replay-1",
    "a" * 10_000, [], {}, [[]], [None], {"": None}, {"type": "BlockStored"},
)  # fmt: skip
DEEP = (60, 400, 980, 5_000)
"""How deep a nested value is: below every limit, about that of Python, and far above."""
_PLACE = "\x01deep\x01"


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a value, at most the first 50 members of each list."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while waiting:
        at, here = waiting.pop()
        yield at
        if isinstance(here, dict):
            waiting += [((*at, key), item) for key, item in here.items()]
        elif isinstance(here, list):
            waiting += [((*at, index), item) for index, item in enumerate(here[:50])]


def json_lines(raw: bytes, chance: random.Random) -> bytes:
    """One value of one line replaced, dropped or repeated; now and then the lines are, or the bytes are."""
    lines = raw.splitlines()
    kind = chance.randrange(10)
    if not lines or kind == 0:
        return any_bytes(raw, chance)
    at = chance.randrange(len(lines))
    if kind == 1:
        del lines[at]
    elif kind == 2:
        lines.insert(chance.randrange(len(lines)), lines[at])
    elif kind == 3:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        for _ in range(chance.randrange(1, 4)):
            try:
                lines[at] = _value_replaced(json.loads(lines[at]), chance)
            except (ValueError, RecursionError):
                break
    return b"\n".join(lines) + b"\n"


def _value_replaced(value: Any, chance: random.Random) -> bytes:
    place = chance.choice(list(_places(value)))
    depth = chance.choice(DEEP) if chance.randrange(40) == 0 else 0
    new: Any = _PLACE if depth else chance.choice(ODD)
    if not place:
        value = new
    else:
        holder = value
        for part in place[:-1]:
            holder = holder[part]
        old, last = holder[place[-1]], place[-1]
        if not depth and isinstance(old, str) and chance.randrange(2) and _is_hex(old):
            new = any_bytes(bytes.fromhex(old), chance).hex()  # a frame: what it holds is damaged, not that it is one
        elif not depth and isinstance(old, int) and chance.randrange(3) == 0:
            new = old + chance.choice((-1, 1))
        if chance.randrange(6) == 0:
            del holder[last]
        elif isinstance(holder, dict) and chance.randrange(8) == 0:
            holder[str(new)[:50]] = holder.pop(last)
        else:
            holder[last] = new
    text = json.dumps(value).encode()
    return text.replace(json.dumps(_PLACE).encode(), b"[" * depth + b"]" * depth) if depth else text


def _is_hex(text: str) -> bool:
    return bool(text) and len(text) % 2 == 0 and all(c in "0123456789abcdef" for c in text)


HEADS = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc1", b"\xd9\xff", b"\xcf")
"""Heads of msgpack values that promise what does not follow."""


def any_bytes(raw: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, dropped, repeated, inserted or cut."""
    data = bytearray(raw)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if data:
                data[at % len(data)] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                data[at:at] = data[max(0, at - 8) : at]
            case 4:
                data[at:at] = chance.choice(HEADS)
            case _:
                del data[at:]
    return bytes(data)


_TOML_ODD = (
    "nan", "inf", "-inf", "1e999", "0", "-1", "9" * 30, "9" * 5000, "true", '""', '"x"', '"\\u0000"', '"\\u001b[2J"',
    "[]", "{}", "[[]]", "{a.b.c=1}", "1979-05-27", "07:32:00", "0x10", "1_000", "'''\n'''", "[" * 3000 + "]" * 3000,
)  # fmt: skip


def toml(raw: bytes, chance: random.Random) -> bytes:
    """A value replaced, a line dropped, repeated or moved; now and then the bytes are damaged."""
    lines = raw.splitlines()
    if chance.randrange(5) == 0:
        return any_bytes(raw, chance)
    for _ in range(chance.randrange(1, 4)):
        if not lines:
            break
        at = chance.randrange(len(lines))
        key, equals, _old = lines[at].partition(b"=")
        match chance.randrange(6):
            case 0:
                del lines[at]
            case 1:
                lines.insert(chance.randrange(len(lines) + 1), lines[at])
            case 2:
                lines.insert(at, b"x%d = 1" % chance.randrange(9))
            case _ if equals:
                lines[at] = key + b"= " + chance.choice(_TOML_ODD).encode()
            case _:
                lines[at] = lines[at].strip(b"[]") + b" = 1"
    return b"\n".join(lines) + b"\n"
