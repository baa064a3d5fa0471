"""Verify a folder of vectors: ``python verify.py FOLDER``. Standard library only, from the text of the standard alone."""

from __future__ import annotations

import hashlib
import json
import math
import pickle  # noqa: S403 - written, never read
import re
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

M32, M64 = 2**32 - 1, 2**64 - 1


class Refused(Exception):
    """An input that must be refused: the layer that notices it, and what is wrong, by the sentence that it breaks."""


class Skipped(Exception):
    """A function that this program does not have."""


# --- hashing.md ------------------------------------------------------------------------------------------------------


def step32(x: int, s: int, wrap: int = M32) -> int:
    v = x & M32
    v = (v ^ (v >> 16)) * 0x045D9F3B & M32
    v = (v ^ (v >> 16)) * 0x045D9F3B & M32
    v = ((v ^ (v >> 16)) + 0x9E3779B9) & wrap
    return s ^ ((v + (s << 6) + (s >> 2)) & M64)


def step64(x: int, s: int) -> int:
    v = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & M64
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB & M64
    return s ^ (((v ^ (v >> 31)) + 0x9E3779B9 + (s << 6) + (s >> 2)) & M64)


def v1_block(
    tokens: list[int],
    parent: int = 0,
    lora: int | None = None,
    salt: int | None = None,
    extra: list[int] | None = None,
    mm: list[tuple[bytes, int]] | None = None,
    wrap: int = M32,
) -> int:
    s = len(tokens) ^ (parent * 0xBF58476D1CE4E5B9 & M64)
    if parent == 0 and salt is not None:
        s = step64(salt, s)
    for i, token in enumerate(tokens):
        s = step32(token, s, wrap)
        if extra is not None:
            s = step64(extra[i], s)
    if lora is not None:
        s = step64(lora, s)
    for digest, offset in mm or ():
        for word in struct.unpack("<8I", digest):
            s = step32(word, s, wrap)
        s = step64(offset, s)
    return s


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def salt_id(text: str) -> int:
    return int.from_bytes(sha256(text.encode())[:8], "little")


def root_key(lora: int | None, salt: int | None) -> bytes:
    mask = bytes([(lora is not None) + 2 * (salt is not None)])
    return sha256(mask, *(value.to_bytes(8, "little") for value in (lora, salt) if value is not None))


def block_key(parent: bytes, tokens: list[int | bytes], width: int) -> bytes:
    return sha256(parent, *(t if isinstance(t, bytes) else t.to_bytes(width, "little") for t in tokens))


def cbor(value: Any) -> bytes:
    """Canonical, for what extra keys are made of."""
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return cbor_head(0, value) if value >= 0 else cbor_head(1, -1 - value)
    if isinstance(value, (bytes, str)):
        data = value.encode() if isinstance(value, str) else value
        return cbor_head(3 if isinstance(value, str) else 2, len(data)) + data
    return cbor_head(4, len(value)) + b"".join(map(cbor, value))


def cbor_head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes([major << 5 | value])
    size = next(size for size in range(4) if value < 1 << (8 << size))
    return bytes([major << 5 | 24 + size]) + value.to_bytes(1 << size, "big")


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def vllm_key(label: str, parent: bytes | None, tokens: list[Any], extra: Any) -> bytes:
    def dump(value: Any) -> bytes:
        return cbor(value) if label.endswith("-cbor") else pickle.dumps(tuples(value), protocol=5)

    return sha256(dump([sha256(dump("vllm-none-hash")) if parent is None else parent, tokens, extra or None]))


Block = tuple[int, "bytes | None"]
"""Hash and key; a block of ``v1_block_key`` has a key only behind a digest token."""


def chain(label: str, blocks: list[list[Any]], width: int = 4, **given: Any) -> list[Block]:
    """Hash and key of each block: ids are integers, digests bytes, ``mm_keys`` lists of pairs."""
    lora, salt, key = given.get("lora_id"), given.get("salt_id"), given.get("parent_key")
    if salt is None and given.get("salt") is not None:
        salt = salt_id(given["salt"])
    if label.startswith("v1_block_key"):
        return v1_chain(blocks, width, lora, salt, M64 if label.endswith("/no-wrap") else M32, given)
    if label == "x-sglang-sha256" and key is None:
        key = b"" if given.get("salt") is None else sha256(b"sglang-cache-salt-v1\0", given["salt"].encode())
    elif label.startswith("v2_sha256") and key is None:
        key = root_key(lora, salt)
    found: list[Block] = []
    for index, tokens in enumerate(blocks):
        if label.startswith("x-vllm-sha256"):
            own = [given.get("lora_name"), given.get("salt") if key is None else None]
            listed = given.get("extra_keys") or [[part for part in own if part is not None]] * len(blocks)
            key = vllm_key(label, key, tokens, listed[index])
        elif label == "x-dynamo-xxh3" or key is None:
            raise Skipped(f"no {label} here")
        else:
            key = block_key(key, tokens, 4 if label == "x-sglang-sha256" else width)
        last = label.startswith(("x-vllm", "v2_sha256_low64"))
        found.append((int.from_bytes(key[-8:] if last else key[:8], "big"), key))
    return found


def v1_chain(
    blocks: list[list[Any]], width: int, lora: int | None, salt: int | None, wrap: int, given: dict[str, Any]
) -> list[Block]:
    found: list[Block] = []
    parent, key, at, mixed = given.get("parent") or 0, given.get("parent_key"), 0, False
    extra, mm = given.get("extra_ids"), given.get("mm_keys")
    if key is None and not parent:
        key = root_key(lora, salt)
    for index, tokens in enumerate(blocks):
        mixed = mixed or any(isinstance(token, bytes) for token in tokens)
        if mixed and key is None:
            raise Refused("semantics", "KVW-HSH-001")
        key = key and block_key(key, tokens, width)
        if mixed and key:
            parent = int.from_bytes(key[:8], "big")
        else:
            ids = None if extra is None else extra[at : at + len(tokens)]
            parent = v1_block(tokens, parent, lora, salt, ids, None if mm is None else mm[index], wrap)
        found.append((parent, key if mixed else None))
        at += len(tokens)
    return found


# --- projection.md ---------------------------------------------------------------------------------------------------

Float = NamedTuple("Float", [("bits", int), ("wide", bool)])
Binary = NamedTuple("Binary", [("data", bytes)])
BadText = NamedTuple("BadText", [("data", bytes)])
Ext = NamedTuple("Ext", [("code", int), ("data", bytes)])
Map = NamedTuple("Map", [("pairs", "list[tuple[Any, Any]]")])


class Reader:
    """Reads msgpack."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise Refused("msgpack", "KVW-ENV-006")
        return self.data[self.at - count : self.at]

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def text(self, size: int) -> str | BadText:
        data = self.take(size)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return BadText(data)

    def ext(self, size: int) -> Ext:
        return Ext(self.number(1, signed=True), self.take(size))

    def array(self, size: int) -> list[Any]:
        return [self.value() for _ in range(size)]

    def map(self, size: int) -> Map:
        return Map([(self.value(), self.value()) for _ in range(size)])

    def value(self) -> Any:
        code = self.number(1)
        if code < 0x80 or code > 0xDF:
            return code if code < 0x80 else code - 0x100
        if code < 0xC0:
            read, bits = (self.text, 31) if code > 0x9F else (self.array, 15) if code > 0x8F else (self.map, 15)
            return read(code & bits)
        if code == 0xC1:
            raise Refused("msgpack", "KVW-ENV-006")
        if code < 0xC4:
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        if code < 0xC7:
            return Binary(self.take(self.number(1 << (code - 0xC4))))
        if code < 0xCA:
            return self.ext(self.number(1 << (code - 0xC7)))
        if code == 0xCA:
            return Float(int.from_bytes(struct.pack(">d", *struct.unpack(">f", self.take(4))), "big"), wide=False)
        if code == 0xCB:
            return Float(self.number(8), wide=True)
        if code < 0xD4:
            return self.number(1 << (code & 3), signed=code > 0xCF)
        if code < 0xD9:
            return self.ext(1 << (code - 0xD4))
        if code < 0xDC:
            return self.text(self.number(1 << (code - 0xD9)))
        size = self.number(4 if code & 1 else 2)
        return self.array(size) if code < 0xDE else self.map(size)


ORDER = """type block_hashes parent_block_hash token_ids block_size lora_id medium lora_name extra_keys group_idx
kv_cache_spec_kind kv_cache_spec_sliding_window locality mm_keys hash_algo v""".split()
FIELDS = {"block_hashes", "parent_block_hash", "lora_id"}
TAKEN = [{"hex"}, {"hex", "str"}, {"int"}, {"float", "bits"}, {"ext", "hex"}, {"map"}]


def project(value: Any, event: bool = False, field: int = 0) -> Any:
    """``event``: inside an event that is a map. ``field``: 2 is the value of a 64-bit field, 1 an element of one."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value) if field else value if abs(value) < 2**53 else {"int": str(value)}
    if isinstance(value, Float):
        return {"float": "", "bits": f"{value.bits:016x}"}
    if isinstance(value, Binary):
        return {"hex": value.data.hex()}
    if isinstance(value, BadText):
        return {"hex": value.data.hex(), "str": "not UTF-8"}
    if isinstance(value, Ext):
        return {"ext": value.code, "hex": value.data.hex()}
    if isinstance(value, list):
        return [project(element, event, field // 2) for element in value]
    keys = [key for key, _ in value.pairs]
    pairs = [(key, project(inner, event, 2 if event and key in FIELDS else 0)) for key, inner in value.pairs]
    if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys) and set(keys) not in TAKEN:
        return dict(sorted(pairs, key=lambda pair: (ORDER.index(pair[0]) if pair[0] in ORDER else 99, pair[0])))
    return {"map": [[project(key), inner] for key, inner in pairs]}


def project_payload(value: Any) -> Any:
    if not (isinstance(value, list) and len(value) == 3 and isinstance(value[1], list)):
        return project(value)
    events = [project(event, isinstance(event, Map)) for event in value[1]]
    return {"ts": project(value[0]), "events": events, "data_parallel_rank": project(value[2])}


def canonical(value: Any) -> str:
    """Compact, in order, without the text of floats, which has to read back as their bits."""
    if isinstance(value, dict) and set(value) == {"float", "bits"}:
        bits = struct.pack(">d", float(value["float"])).hex() if value["float"] else value["bits"]
        nan = value["float"] == "nan" and math.isnan(struct.unpack(">d", bytes.fromhex(value["bits"]))[0])
        return f"float {value['bits']}" + ("" if nan or bits == value["bits"] else " or " + bits)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{canonical(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value)
