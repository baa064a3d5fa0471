"""Payloads and offered batches, rewritten value by value: what a key is for says what its values become.

The tree of the payload is kept, with every header, width and fault; only values change. What a key of nobody's
standard holds is rewritten blindly and named; what cannot be read is replaced and named.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from kvwire.recordings.scrub.secrets import Secrets, signed
from kvwire.wire.events import ARRAY_SLOTS, DIGEST, KINDS, MEDIA, TWO_64
from kvwire.wire.msgpack import Kind, LimitError, Node, WireError, walk

KEPT = frozenset(("type", "block_size", "lora_id", "group_idx", "hash_algo", "v")) | {
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
}
"""Keys of events whose values say nothing of a prompt or a user; others have rules of their own."""
WORDS = frozenset(("type", "hash_algo", "v", "kv_cache_spec_kind", "locality"))
"""Keys whose values are words that nobody chose for a user; a text under another kept key is of a wrong type."""
TEXTS = frozenset(("lora_name", "cache_salt", "session_id", "epoch", "ownership", "uuid"))
RULED = KEPT | TEXTS | {"block_hashes", "parent_block_hash", "token_ids", "medium", "locality", "scope", "mm_keys"}
RULED |= {"extra_keys", "hash", "start_offset"}
UNREADABLE = "payloads that are no msgpack, replaced by others that are none"
BLIND = "values of keys that edition 1 does not know, rewritten blindly"
MEMORY = 2048
"""How many payloads are remembered: two witnesses and replay bring the same."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,39}\Z")
_TOO_DEEP = b"\x91" * 64 + b"\xc0"
_SIZES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_LENGTHS = {"str": ((0xD9, 1), (0xDA, 2), (0xDB, 4)), "bin": ((0xC4, 1), (0xC5, 2), (0xC6, 4))}
Json = Any
Rule = Callable[[Node], bytes]


class Payloads:
    """Rewrites payloads; ``hashes`` gives the new hash of an old one, both unsigned."""

    def __init__(self, secrets: Secrets, hashes: Callable[[int], int], named: Counter[str]) -> None:
        self._secrets = secrets
        self._hashes = hashes
        self._named = named
        self.unsigned = False
        """Whether hashes that fit into 63 bits are of a stream that sends all of them unsigned."""
        self._memory: OrderedDict[bytes, bytes] = OrderedDict()

    def payload(self, raw: bytes) -> bytes:
        """A payload."""
        found = self._memory.get(raw)
        if found is None:
            found = self._memory[raw] = self._payload(raw)
            if len(self._memory) > MEMORY:
                self._memory.popitem(last=False)
        return found

    def _payload(self, raw: bytes) -> bytes:
        if not raw:
            return raw
        try:
            node = walk(raw)
        except LimitError:
            self._named[UNREADABLE] += 1
            return _TOO_DEEP
        except WireError:
            self._named[UNREADABLE] += 1
            return b"\xc1" + self._secrets.blob(raw)[:15]
        return _Rewriting(self, raw).batch(node) + self._secrets.blob(raw[node.end :])

    # values, whatever they are written in

    def hash(self, value: int) -> int:
        """A hash as it stands on the wire, of any sign."""
        return self._hashes(value % TWO_64)

    def text(self, key: str, text: str) -> str:
        """A string under a key."""
        if key == "scope":
            return self._secrets.tag(text)
        if key == "medium" and (text in MEDIA or _WORD.match(text)):
            return text
        if key in WORDS and _WORD.match(text.replace("/", "-")):
            return text
        if key in KEPT and text.isdecimal():
            return text
        return self._secrets.text(text)

    def blind(self, key: str) -> None:
        """Name a key that nobody's rule is for."""
        self._named[f"{BLIND}: {key if _WORD.match(key) else 'a key'}"] += 1

    # the projection in JSON

    def projected(self, batch: Mapping[str, Json]) -> dict[str, Json]:
        """An offered batch, as its projection."""
        return {**batch, "events": [self.event(event) for event in batch["events"]]}

    def event(self, event: Json) -> Json:
        """One offered event."""
        if not isinstance(event, Mapping):
            return self._json("", event)
        return {key: self._json(key, value) for key, value in event.items()}

    def _json(self, key: str, value: Json) -> Json:
        match value:
            case None | bool() | float():
                return value
            case int():
                return self._number(key, value)
            case str() if key in ("block_hashes", "parent_block_hash"):
                try:
                    number = int(value)
                except ValueError:
                    return self._secrets.text(value)
                return str(signed(self.hash(number), number))
            case str():
                return self.text(key, value)
            case Mapping():
                return self._mapping(key, value)
            case list() | tuple():
                return [self._json(key, item) for item in value]
        return None

    def _mapping(self, key: str, value: Mapping[str, Json]) -> Json:
        if set(value) == {"hex"}:
            return {"hex": self._secrets.blob(bytes.fromhex(value["hex"])).hex()}
        if set(value) == {"int"}:
            return {"int": str(self._number(key, int(value["int"])))}
        if set(value) == {"float", "bits"}:
            return value
        if set(value) == {"map"}:
            return {"map": [[self._json(key, name), self._json(key, item)] for name, item in value["map"]]}
        return {name: self._json(name if name in RULED else key, item) for name, item in value.items()}

    def _number(self, key: str, value: int) -> int:
        if key in ("block_hashes", "parent_block_hash"):
            return signed(self.hash(value), value)
        if key in KEPT or key in ("extra_keys", "start_offset"):
            return value
        return self._secrets.token(value)


class _Rewriting:
    """One payload."""

    def __init__(self, rules: Payloads, raw: bytes) -> None:
        self._rules = rules
        self._secrets = rules._secrets  # noqa: SLF001 - one class in two parts
        self._raw = raw
        self._unsigned = False

    def _own(self, node: Node) -> bytes:
        return self._raw[node.start : node.end]

    def _head(self, node: Node) -> bytes:
        """The header of an array or map."""
        first = node.pairs[0][0] if node.pairs else node.items[0] if node.items else None
        return self._raw[node.start : node.end if first is None else first.start]

    def _array(self, node: Node, rule: Rule) -> bytes:
        return self._head(node) + b"".join(map(rule, node.items))

    def batch(self, node: Node) -> bytes:
        """The whole: ts, events, rank."""
        if node.kind is not Kind.ARRAY:
            return self._map(node) if node.kind is Kind.MAP else self._blind(node)
        parts = [self._head(node)]
        for at, item in enumerate(node.items):
            if at == 1 and item.kind is Kind.ARRAY:
                parts.append(self._array(item, self._event))
            elif at in (0, 2) and item.kind in (Kind.FLOAT64, Kind.FLOAT32, Kind.INT, Kind.NIL, Kind.BOOL):
                parts.append(self._own(item))
            else:
                parts.append(self._blind(item))
        return b"".join(parts)

    def _event(self, node: Node) -> bytes:
        hashes = [child for name, child in node.pairs if name.value == "block_hashes"] or node.items[1:2]
        values = [item.value for child in hashes for item in child.items if item.kind is Kind.INT]
        above, below = any(value >= TWO_64 >> 1 for value in values), any(value < 0 for value in values)
        self._unsigned = above or (self._rules.unsigned and not below)
        if node.kind is Kind.MAP:
            return self._map(node)
        if node.kind is not Kind.ARRAY or not node.items or node.items[0].kind is not Kind.STR:
            return self._blind(node)
        tag = node.items[0]
        slots = ARRAY_SLOTS[KINDS.get(tag.value, "unknown")]
        parts = [self._head(node), self._of_key("type", tag)]
        for at, item in enumerate(node.items[1:]):
            name = slots[at] if at < len(slots) else ""
            parts.append(self._map(item) if name == "lora_name" and item.kind is Kind.MAP else self._of_key(name, item))
        return b"".join(parts)

    def _map(self, node: Node, *, inside: bool = False) -> bytes:
        """A map; ``inside`` of a value that nobody knows, its keys are part of it."""
        parts = [self._head(node)]
        for name, value in node.pairs:
            known = name.kind is Kind.STR and name.text_ok and _WORD.match(name.value)
            if inside and name.value not in RULED:
                known = None
            parts.append(self._own(name) if known else self._blind(name))
            parts.append(self._of_key(name.value if known else "", value))
        return b"".join(parts)

    def _of_key(self, key: str, node: Node) -> bytes:
        match key:
            case "block_hashes" if node.kind is Kind.ARRAY:
                return self._array(node, self._hash)
            case "parent_block_hash":
                return self._hash(node)
            case "token_ids" if node.kind is Kind.ARRAY:
                return self._array(node, self._token)
            case "extra_keys" | "mm_keys":
                return self._keys(key, node)
        if key in RULED and node.kind is Kind.STR and node.text_ok:
            text = self._rules.text(key, node.value)
            return self._own(node) if text == node.value else self._sized("str", text.encode(), node)
        if (key in KEPT or key == "start_offset") and node.kind in (Kind.INT, Kind.FLOAT32, Kind.FLOAT64):
            return self._own(node)
        if node.kind not in (Kind.NIL, Kind.BOOL) and key not in RULED:
            self._rules.blind(key)
        return self._blind(node)

    def _hash(self, node: Node) -> bytes:
        if node.kind is not Kind.INT:
            return self._blind(node)
        new = self._rules.hash(node.value)
        return self._int(new if self._unsigned else signed(new, node.value), node)

    def _token(self, node: Node) -> bytes:
        return self._int(self._secrets.token(node.value), node) if node.kind is Kind.INT else self._blind(node)

    def _keys(self, key: str, node: Node) -> bytes:
        """Extra and multimodal keys: texts and bytes are secret, numbers are places."""
        match node.kind:
            case Kind.ARRAY:
                return self._array(node, lambda item: self._keys(key, item))
            case Kind.MAP:
                return self._map(node, inside=True)
            case Kind.INT | Kind.FLOAT32 | Kind.FLOAT64:
                return self._own(node)
        return self._blind(node)

    def _blind(self, node: Node) -> bytes:
        """A value that nobody knows the meaning of, as another of its kind and size."""
        match node.kind:
            case Kind.INT:
                return self._int(self._secrets.token(node.value), node)
            case Kind.STR if node.text_ok:
                return self._sized("str", self._secrets.text(node.value).encode(), node)
            case Kind.STR:
                return self._sized("str", b"\xff" + self._secrets.blob(node.value)[1:], node)
            case Kind.BIN:
                return self._sized("bin", self._secrets.blob(node.value), node)
            case Kind.EXT:
                size = len(node.value)
                return self._raw[node.start : node.end - size] + self._secrets.blob(node.value)
            case Kind.ARRAY:
                return self._array(node, self._blind)
            case Kind.MAP:
                return self._map(node, inside=True)
            case Kind.FLOAT32 | Kind.FLOAT64:
                return self._float(node)
        return self._own(node)

    # bytes

    def _float(self, node: Node) -> bytes:
        """A float: one that is a token id by its value becomes that of another, any other one its own fraction."""
        own, form = self._own(node), ">f" if node.kind is Kind.FLOAT32 else ">d"
        if node.value.is_integer() and abs(node.value) < 1 << 31:
            return own[:1] + struct.pack(form, self._secrets.token(int(node.value)))
        if not math.isfinite(node.value):
            return own
        return own[:3] + self._secrets.blob(own[3:])

    @staticmethod
    def _sized(kind: str, value: bytes, node: Node) -> bytes:
        """A string or bytes, with a header as wide as before where it can be."""
        size = len(value)
        if kind == "str" and node.head < 0xC0 and size < 32:
            return bytes((0xA0 | size,)) + value
        widths = _LENGTHS[kind]
        least = next((at for at, (head, _) in enumerate(widths) if head == node.head), 0)
        head, width = next((head, width) for head, width in widths[least:] if size < 1 << 8 * width)
        return bytes((head,)) + size.to_bytes(width, "big") + value

    @staticmethod
    def _int(value: int, node: Node) -> bytes:
        """An integer: in the shortest form where the old one was, else as wide as before where it can be."""
        if node.head in _SIZES and len(_shortest(node.value)) - 1 != _SIZES[node.head]:
            size, is_signed = _SIZES[node.head], node.head >= 0xD0
            low, high = (-(1 << 8 * size - 1), 1 << 8 * size - 1) if is_signed else (0, 1 << 8 * size)
            if low <= value < high:
                return bytes((node.head,)) + value.to_bytes(size, "big", signed=is_signed)
        if node.head == 0xD3 and -(1 << 63) <= value < 1 << 63:
            return struct.pack(">Bq", 0xD3, value)
        return _shortest(value)


def _shortest(value: int) -> bytes:
    if 0 <= value < 0x80 or -32 <= value < 0:
        return bytes((value & 0xFF,))
    heads = ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)) if value >= 0 else ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8))
    for head, size in heads:
        low, high = (0, 1 << 8 * size) if value >= 0 else (-(1 << 8 * size - 1), 0)
        if low <= value < high:
            return bytes((head,)) + value.to_bytes(size, "big", signed=value < 0)
    raise AssertionError(value)


def token(secrets: Secrets, value: int | bytes) -> int | bytes:
    """A token of an event as the dialect reads it."""
    return secrets.digest(value) if isinstance(value, bytes) else secrets.token(value)


def hex_token(secrets: Secrets, value: int | str) -> int | str:
    """A token of a prompt as it stands in a trace."""
    if isinstance(value, int):
        return secrets.token(value)
    raw = bytes.fromhex(value)
    return (secrets.digest(raw) if DIGEST.match(value) else secrets.blob(raw)).hex()
