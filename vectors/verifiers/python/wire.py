"""Payloads: msgpack, and its JSON projection (projection.md)."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

# --- msgpack ---------------------------------------------------------------------------------------------------------


class Pairs(list[tuple[Any, Any]]):
    """A map, in the order on the wire."""


class Raw(str):
    """A string that is not UTF-8, and its bytes."""

    def __new__(cls, data: bytes) -> Raw:
        text = super().__new__(cls, data.decode(errors="replace"))
        text.data = data
        return text

    data: bytes


class Odd(dict[str, Any]):
    """What JSON has no form for, projected: a float, bytes, an ext value; and its msgpack kind."""

    def __init__(self, kind: str, **members: Any) -> None:
        super().__init__(members)
        self.kind = kind


KINDS = "bin ext float uint int fixext str array map".split()  # noqa: SIM905
FAMILIES = dict(zip(b"\xc4\xc7\xca\xcc\xd0\xd4\xd9\xdc\xde", KINDS, strict=True))
WIDTHS = {"float": 4, "array": 2, "map": 2}
"""Formats by the first code of their family. The first has the width, or 1; each further code doubles it."""


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise EOFError
        return self.data[self.at - count : self.at]

    def value(self) -> Any:
        code = self.take(1)[0]
        if code < 0x80 or code > 0xDF:
            return code if code < 0x80 else code - 0x100
        if code < 0xC0:
            kind = "map" if code < 0x90 else "array" if code < 0xA0 else "str"
            return self.sized(kind, code & (31 if kind == "str" else 15))
        if code < 0xC4:
            if code == 0xC1:
                raise EOFError
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        first, kind = max(family for family in FAMILIES.items() if family[0] <= code)
        width = WIDTHS.get(kind, 1) << (code - first)
        if kind == "fixext":
            return self.sized("ext", width)
        number = int.from_bytes(field := self.take(width), "big", signed=kind == "int")
        if kind in ("int", "uint"):
            return number
        if kind != "float":
            return self.sized(kind, number)
        bits = struct.pack(">d", *struct.unpack(">f", field)) if width == 4 else field
        return Odd(f"float{width * 8}", float="", bits=bits.hex())

    def sized(self, kind: str, size: int) -> Any:
        if kind == "array":
            return [self.value() for _ in range(size)]
        if kind == "map":
            return Pairs((self.value(), self.value()) for _ in range(size))
        if kind == "ext":
            return Odd("ext", ext=struct.unpack("b", self.take(1))[0], hex=self.take(size).hex())
        data = self.take(size)
        if kind == "bin":
            return Odd("bin", hex=data.hex())
        try:
            return data.decode()
        except UnicodeDecodeError:
            return Raw(data)


# --- projection.md ---------------------------------------------------------------------------------------------------

ORDER = """type block_hashes parent_block_hash token_ids block_size lora_id medium lora_name extra_keys group_idx
kv_cache_spec_kind kv_cache_spec_sliding_window locality ownership scope session_id mm_keys hash_algo epoch
v""".split()  # noqa: SIM905
FIELDS = {"block_hashes", "parent_block_hash", "lora_id"}
TAKEN = [{"hex"}, {"hex", "str"}, {"int"}, {"float", "bits"}, {"ext", "hex"}, {"map"}]


def project(value: Any, field: bool = False) -> Any:
    """``field``: the value of a 64-bit field, or inside of one. Keys of objects name fields, wherever they stand."""
    if isinstance(value, Raw):
        return {"hex": value.data.hex(), "str": "not UTF-8"}
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        if not all(type(key) is str for key in keys) or len(set(keys)) < len(keys) or set(keys) in TAKEN:
            return {"map": [[project(key), project(inner)] for key, inner in value]}
        pairs = sorted(value, key=lambda pair: (ORDER.index(pair[0]) if pair[0] in ORDER else 99, pair[0]))
        return {key: project(inner, key in FIELDS) for key, inner in pairs}
    if isinstance(value, list):
        return [project(element, field) for element in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if field else value if abs(value) < 2**53 else {"int": str(value)}
    return value


def project_payload(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 3 or type(value[1]) is not list:
        return project(value)
    return dict(zip(("ts", "events", "data_parallel_rank"), project(value), strict=True))


def canonical(value: Any) -> str:
    """Compact, members in order. Of a float its bits, which its text has to give when it is read."""
    if isinstance(value, dict) and set(value) == {"float", "bits"}:
        text, (number,) = value["float"], struct.unpack(">d", bytes.fromhex(value["bits"]))
        same = not text or (
            text == "nan" if math.isnan(number) else struct.pack(">d", float(text)).hex() == value["bits"]
        )
        return f"float {value['bits']}" + ("" if same else f" and not {text}")
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{canonical(inner)}" for key, inner in value.items()) + "}"
    return "[" + ",".join(map(canonical, value)) + "]" if isinstance(value, list) else json.dumps(value)
