"""Payloads: msgpack, the JSON projection, and what a batch breaks (batch.md, event.md, projection.md)."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator
from typing import Any

# --- msgpack ---------------------------------------------------------------------------------------------------------


class Pairs(list[tuple[Any, Any]]):
    """A map, in the order on the wire."""


class Odd(dict[str, Any]):
    """What JSON has no form for, projected: floats, bytes, ext values, text that is not UTF-8; and its msgpack kind."""

    def __init__(self, kind: str, **members: Any) -> None:
        super().__init__(members)
        self.kind = kind


FORMATS = [
    (0xC4, "bin", 1),
    (0xC7, "ext", 1),
    (0xCA, "float", 4),
    (0xCC, "uint", 1),
    (0xD0, "int", 1),
    (0xD4, "fixext", 1),
    (0xD9, "str", 1),
    (0xDC, "array", 2),
    (0xDE, "map", 2),
]
"""First code of a family, and its width; each further code doubles the width."""


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
        first, kind, width = max(row for row in FORMATS if row[0] <= code)
        width <<= code - first
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
            return Odd("text", hex=data.hex(), str="not UTF-8")


# --- projection.md ---------------------------------------------------------------------------------------------------

ORDER = """type block_hashes parent_block_hash token_ids block_size lora_id medium lora_name extra_keys group_idx
kv_cache_spec_kind kv_cache_spec_sliding_window locality mm_keys hash_algo v""".split()
FIELDS = {"block_hashes", "parent_block_hash", "lora_id"}
TAKEN = [{"hex"}, {"hex", "str"}, {"int"}, {"float", "bits"}, {"ext", "hex"}, {"map"}]


def project(value: Any, event: bool = False, field: int = 0) -> Any:
    """``event``: inside of an event. ``field``: 2 for the value of a 64-bit field, 1 for an element of one."""
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        pairs = [(key, project(inner, event, 2 if event and key in FIELDS else 0)) for key, inner in value]
        if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys) and set(keys) not in TAKEN:
            return dict(sorted(pairs, key=lambda pair: (ORDER.index(pair[0]) if pair[0] in ORDER else 99, pair[0])))
        return {"map": [[project(key), inner] for key, inner in pairs]}
    if isinstance(value, list):
        return [project(element, event, field // 2) for element in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if field else value if abs(value) < 2**53 else {"int": str(value)}
    return value


def project_payload(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 3 or type(value[1]) is not list:
        return project(value)
    events = [project(event, isinstance(event, Pairs)) for event in value[1]]
    return {"ts": project(value[0]), "events": events, "data_parallel_rank": project(value[2])}


def canonical(value: Any) -> str:
    """Compact, members in order. Of a float its bits, which its text has to give when it is read."""
    if isinstance(value, dict) and set(value) == {"float", "bits"}:
        text, (number,) = value["float"], struct.unpack(">d", bytes.fromhex(value["bits"]))
        same = not text or (text == "nan" if math.isnan(number) else struct.pack(">d", float(text)).hex() == value["bits"])
        return f"float {value['bits']}" + ("" if same else f" and not {text}")
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{canonical(inner)}" for key, inner in value.items()) + "}"
    return "[" + ",".join(map(canonical, value)) + "]" if isinstance(value, list) else json.dumps(value)



# --- batch.md, event.md, chain.md ------------------------------------------------------------------------------------

STORED = {"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"}
TYPES = {"lora_id": int, "lora_name": str, "kv_cache_spec_kind": str, "hash_algo": str}
COUNTS = ("group_idx", "kv_cache_spec_sliding_window")


def integer(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{64}", value) is not None


def everywhere(value: Any) -> Iterator[str]:
    """What may stand nowhere in a payload."""
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        if not all(isinstance(key, str) for key in keys):
            yield "KVW-EVT-002" if not any("str" in key for key in keys if isinstance(key, Odd)) else "KVW-ENV-006"
        elif len(set(keys)) < len(keys):
            yield "KVW-EVT-003"
        value = [inner for _, inner in value]
    if isinstance(value, list):
        for inner in value:
            yield from everywhere(inner)
    elif isinstance(value, Odd) and value.kind in ("ext", "text"):
        yield "KVW-EVT-004" if value.kind == "ext" else "KVW-ENV-006"


def broken(payload: Any) -> Iterator[str]:
    """The sentences that a payload breaks."""
    yield from everywhere(payload)
    if type(payload) is not list or len(payload) != 3:
        yield "KVW-BAT-001"
        return
    ts, events, rank = payload
    if getattr(ts, "kind", "") != "float64":
        yield "KVW-BAT-002"
    elif not 0 <= struct.unpack(">d", bytes.fromhex(ts["bits"]))[0] < 1e11:
        yield "KVW-BAT-003"
    if not integer(rank, 0, 2**31):
        yield "KVW-RNK-001"
    if type(events) is not list:
        yield "KVW-BAT-005"
        return
    announced = set()
    for pairs in events:
        event = {key: inner for key, inner in pairs if isinstance(key, str)} if isinstance(pairs, Pairs) else {}
        if not isinstance(event.get("type"), str):
            yield "KVW-EVT-001"
        if event.get("type") in ("BlockStored", "BlockRemoved"):
            yield from broken_event(event)
            announced.add(event.get("hash_algo"))
        if "cache_salt" in event:
            yield "KVW-EVT-019"
    if len(announced) > 1:
        yield "KVW-HSH-003"


def broken_event(event: dict[str, Any]) -> Iterator[str]:
    stored = event["type"] == "BlockStored"
    if not (STORED if stored else {"block_hashes", "medium"}) <= set(event):
        yield "KVW-EVT-005" if stored else "KVW-EVT-006"
        return
    hashes, parent, medium = event["block_hashes"], event.get("parent_block_hash"), event["medium"]
    chain = [*hashes, *([] if parent is None else [parent])] if type(hashes) is list else [""]
    if not all(integer(value, -(2**63), 2**64) for value in chain):
        yield "KVW-EVT-007"
    elif stored and len({value % 2**64 for value in chain}) < len(chain):
        yield "KVW-CHN-004"
    if medium is not None and not (isinstance(medium, str) and medium):
        yield "KVW-EVT-015"
    fields = [type(event[name]) is kind for name, kind in TYPES.items() if event.get(name) is not None]
    fields += [integer(event[name], 0, 2**64) for name in COUNTS if event.get(name) is not None]
    if not all(fields):
        yield "KVW-EVT-021"
    if not integer(event.get("v", 1), 0, 2**64):
        yield "KVW-EVT-018"
    if stored:
        yield from broken_tokens(event, hashes if type(hashes) is list else None)


def broken_tokens(event: dict[str, Any], hashes: list[Any] | None) -> Iterator[str]:
    tokens, size, keys = event["token_ids"], event["block_size"], event.get("mm_keys")
    limit = 2**31 if str(event.get("hash_algo")).endswith("/u32") else 2**32
    if type(tokens) is not list or not all(isinstance(token, str) or integer(token, 0, limit) for token in tokens):
        yield "KVW-EVT-010"
    elif not all(digest(token) for token in tokens if isinstance(token, str)):
        yield "KVW-EVT-011"
    elif keys is None and any(isinstance(token, str) for token in tokens):
        yield "KVW-EVT-012"
    if not integer(size, 1, 2**64):
        yield "KVW-EVT-014"
    elif hashes is not None and type(tokens) is list and (not hashes or len(tokens) != size * len(hashes)):
        yield "KVW-EVT-013"
    if keys is not None:
        lists = type(keys) is list and all(type(block) is list for block in keys)
        items = [dict(key) if isinstance(key, Pairs) else {} for block in keys for key in block] if lists else [{}]
        right = [digest(item.get("hash")) and integer(item.get("start_offset"), 0, 2**64) for item in items]
        if not all(right) or hashes is not None and len(keys) != len(hashes):
            yield "KVW-EVT-012"


def answer(_: Any, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The projection of a payload, if it is one value, and the sentences that it breaks."""
    found, breaks = [], []
    for payload in [given["payload"], *given.get("encodings", [])]:
        reader = Reader(bytes.fromhex(payload))
        try:
            value = reader.value()
        except EOFError:
            return {}, ["KVW-ENV-006"]
        if reader.at < len(reader.data):
            return {}, ["KVW-ENV-006"]
        found.append(project_payload(value))
        breaks += list(broken(value))
    odd = [other for other in found if canonical(other) != canonical(found[0])]
    return {"projection": (odd or found)[0]}, breaks
