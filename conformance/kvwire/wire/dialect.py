"""Which form a payload has, and what its events say, whatever the form.

``read`` turns a payload into canonical events and a list of flaws with byte offsets. The walker decides;
``kvwire.wire.plain`` is trusted only where it proves that the payload is canonical and without flaws.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from kvwire.wire.events import (
    ARRAY_SLOTS,
    DEVICE,
    DIGEST,
    GROUPS,
    KINDS,
    MEDIA,
    REQUIRED,
    TWO_63,
    TWO_64,
    Event,
    Flaw,
    Form,
    Reading,
)
from kvwire.wire.msgpack import LIMITS, Kind, LimitError, Limits, Node, WireError, walked
from kvwire.wire.plain import read_quickly

TYPED: dict[str, Kind] = {
    "lora_id": Kind.INT,
    "lora_name": Kind.STR,
    "group_idx": Kind.INT,
    "kv_cache_spec_sliding_window": Kind.INT,
    "kv_cache_spec_kind": Kind.STR,
    "hash_algo": Kind.STR,
    "locality": Kind.STR,
    "ownership": Kind.STR,
    "scope": Kind.STR,
    "session_id": Kind.STR,
    "epoch": Kind.STR,
}
"""The keys of events whose values have one type, or are nil."""
_WORDS = {Kind.INT: "a non-negative integer", Kind.STR: "a string"}
MM_KEY = '`type` "mm_key", `hash` of 64 hex digits, `start_offset` from 0 and perhaps a string `uuid`'


def describe(node: Node) -> str:
    """A value in a few words, for findings."""
    match node.kind:
        case Kind.ARRAY:
            return f"an array of {len(node.items)}"
        case Kind.MAP:
            return f"a map of {len(node.pairs)}"
        case Kind.BIN:
            return f"{len(node.value)} bytes"
        case Kind.EXT:
            return f"ext type {node.ext_type} of {len(node.value)} bytes"
        case Kind.NIL:
            return "nil"
        case Kind.STR:
            text = repr(node.value)
            return f"string {text if len(text) <= 40 else text[:37] + '…'}"
        case _:
            return f"{node.kind.value} {node.value}"


class _Builder:
    """Collects the fields of one event, and the first flaw of each sort."""

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self.flaws: dict[str, Flaw] = {}
        self.fields: dict[str, Node] = {}
        self.form: Form = "map"
        self.tag = ""
        self.unsigned = 0

    def flaw(self, code: str, expected: str, node: Node, seen: str | None = None) -> None:
        if code not in self.flaws:
            seen = describe(node) if seen is None else seen
            self.flaws[code] = Flaw(code, expected, seen, node.start, node.end)

    # form

    def read_map(self) -> None:
        self.fields = {key.value: value for key, value in self.node.pairs if key.kind is Kind.STR and key.text_ok}
        tag = self.fields.pop("type", None)
        if tag is None or tag.kind is not Kind.STR:
            self.flaw(
                "untagged", "a `type` key that is a string", self.node, "no `type`" if tag is None else describe(tag)
            )
        elif tag.text_ok:
            self.tag = tag.value

    def read_array(self) -> None:
        self.flaw("not-a-map", "an event that is a map tagged `type`", self.node)
        self.form = "array"
        items = self.node.items
        if not items or items[0].kind is not Kind.STR or not items[0].text_ok:
            return
        self.tag = items[0].value
        slots = ARRAY_SLOTS[KINDS.get(self.tag, "unknown")]
        for name, value in zip(slots, items[1:], strict=False):
            if name == "lora_name" and value.kind is Kind.MAP:
                self.form = "array-s"
                if salt := value.get("cache_salt"):
                    self.fields["cache_salt"] = salt
                continue
            if self.tag == "AllBlocksCleared" and value.kind is Kind.NIL:
                continue  # the slot is always written, and nil is no medium there
            self.fields[name] = value
        longest = {"BlockStored": 7, "BlockRemoved": 3}.get(self.tag, len(items))
        if len(items) > longest and self.form == "array":
            self.form = "array-v"

    # fields

    def _scan(self) -> None:
        """Look at every value inside the event, for what may stand nowhere."""
        stack = [self.node]
        while stack:
            node = stack.pop()
            if node.kind is Kind.EXT:
                self.flaw("ext", "no ext type anywhere in a payload", node)
            seen: set[str | bytes] = set()
            for key, value in node.pairs:
                stack += (value, key)
                if key.kind is not Kind.STR:
                    self.flaw("key-not-string", "map keys that are strings", key)
                elif key.value in seen:
                    self.flaw("key-twice", f"each key once, {key.value!r} too", key, f"{key.value!r} a second time")
                else:
                    seen.add(key.value)
            stack.extend(reversed(node.items))

    def _hash(self, node: Node, what: str) -> int | None:
        if node.kind is not Kind.INT:
            self.flaw("hash-type", f"{what} that is an integer", node)
            return None
        if node.value == 0:
            self.flaw("hash-zero", f"{what} other than 0", node)
        if node.value >= TWO_63:
            self.unsigned += 1
            self.flaw("hash-unsigned", f"{what} in signed form, {int(node.value) - TWO_64}", node, str(node.value))
        return int(node.value) % TWO_64

    def _hashes(self) -> tuple[tuple[int, ...], bool]:
        node = self.fields.get("block_hashes")
        if node is None:
            return (), False
        if node.kind is not Kind.ARRAY:
            self.flaw("hash-type", "`block_hashes` that is an array of integers", node)
            return (), False
        read = [self._hash(item, "a block hash") for item in node.items]
        return tuple(value for value in read if value is not None), None not in read

    def _parent(self) -> tuple[int | None, bool]:
        node = self.fields.get("parent_block_hash")
        if node is None or node.kind is Kind.NIL:
            return None, True
        value = self._hash(node, "a parent hash")
        return value, value is not None

    def _tokens(self) -> tuple[tuple[int | bytes, ...], bool]:
        node = self.fields.get("token_ids")
        if node is None:
            return (), False
        if node.kind is not Kind.ARRAY:
            self.flaw("token", "`token_ids` that is an array", node)
            return (), False
        tokens: list[int | bytes] = []
        digests = 0
        bad = 0
        for item in node.items:
            if item.kind is Kind.INT and 0 <= item.value < 2**32:
                tokens.append(item.value)
            elif item.kind is Kind.STR and item.text_ok and DIGEST.match(item.value):
                tokens.append(bytes.fromhex(item.value))
                digests += 1
            else:
                bad += 1
                if bad == 1:
                    self.flaw("token", "token ids that are integers 0…4294967295 or 64-hex-digit strings", item)
        if digests:
            self._mm_lists(node, digests)
        return tuple(tokens), bad == 0

    def _mm_lists(self, tokens: Node, digests: int) -> None:
        """Whether `mm_keys` holds a list for each block of an event with digest tokens."""
        node, hashes = self.fields.get("mm_keys"), self.fields.get("block_hashes")
        blocks = len(hashes.items) if hashes is not None else 0
        if node is None or node.kind is not Kind.ARRAY:
            self.flaw("mm-missing", "`mm_keys` beside digest tokens", tokens, f"{digests} digest tokens, no `mm_keys`")
        elif len(node.items) != blocks:
            self.flaw("mm-missing", f"one list per block hash, {blocks}", node, f"{len(node.items)} lists")
        else:
            for item in node.items:
                if item.kind is not Kind.ARRAY:
                    self.flaw("mm-missing", "`mm_keys` with one list of `mm_key` maps per block hash", item)

    def _extra_keys(self) -> None:
        node, hashes = self.fields.get("extra_keys"), self.fields.get("block_hashes")
        if node is None or node.kind is Kind.NIL:
            return
        blocks = len(hashes.items) if hashes is not None else 0
        if node.kind is not Kind.ARRAY or len(node.items) != blocks:
            self.flaw("extra-keys", f"`extra_keys` that is nil or an array with one element per block, {blocks}", node)
            return
        for item in node.items:
            if item.kind not in (Kind.NIL, Kind.ARRAY):
                self.flaw("extra-keys", "elements of `extra_keys` that are nil or arrays", item)

    def _block_size(self) -> int | None:
        node = self.fields.get("block_size")
        if node is None:
            return None
        if node.kind is not Kind.INT or node.value <= 0:
            self.flaw("block-size", "`block_size` that is a positive integer", node)
            return None
        return int(node.value)

    def _medium(self) -> tuple[str | None, bool]:
        node = self.fields.get("medium")
        if node is None or node.kind is Kind.NIL:
            return None, True
        if node.kind is not Kind.STR or not node.value:
            self.flaw("medium", "`medium` that is a non-empty string or nil", node)
            return None, False
        if not node.text_ok:
            return None, False
        if node.value not in MEDIA and not node.value.startswith("x-"):
            self.flaw("medium-name", f"a medium of the registry ({', '.join(sorted(MEDIA))}) or an x- name", node)
        return str(node.value), True

    def _group(self) -> tuple[int, bool]:
        node = self.fields.get("group_idx")
        if node is None or node.kind is Kind.NIL:
            return 0, True
        if node.kind is not Kind.INT or node.value >= GROUPS:
            return 0, False
        return int(node.value), True

    def _named(self, key: str) -> tuple[str | None, bool]:
        """A part of the location that is a string or nil, and whether it could be read."""
        node = self.fields.get(key)
        if node is None or node.kind is Kind.NIL:
            return None, True
        return self._scalar(key, Kind.STR), node.kind is Kind.STR and node.text_ok

    def _scalar(self, key: str, kind: Kind) -> Any:
        node = self.fields.get(key)
        return node.value if node is not None and node.kind is kind and node.text_ok else None

    def _types(self) -> None:
        for key, kind in TYPED.items():
            node = self.fields.get(key)
            if node is None or node.kind is Kind.NIL:
                continue
            if node.kind is not kind or (kind is Kind.INT and node.value < 0):
                self.flaw("type", f"`{key}` that is {_WORDS[kind]} or nil", node)

    def _mm_keys(self) -> tuple[tuple[tuple[bytes, int], ...], ...] | None:
        node = self.fields.get("mm_keys")
        if node is None or node.kind is not Kind.ARRAY:
            return None
        blocks: list[tuple[tuple[bytes, int], ...]] = []
        readable = True
        for block in node.items:
            keys = [_mm_key(key) for key in block.items]
            readable = readable and block.kind is Kind.ARRAY and None not in keys
            blocks.append(tuple(key for key in keys if key is not None))
            for item in block.items:
                if why := _mm_fault(item):
                    self.flaw("mm-key", f"an `mm_key` map with {MM_KEY}", item, why)
        return tuple(blocks) if readable else None

    def _tokenless(self) -> bool:
        """Whether a store has the form of a location update: keys in a medium beside the device, and nothing else."""
        hashes, tokens, size, parent, medium = map(
            self.fields.get, ("block_hashes", "token_ids", "block_size", "parent_block_hash", "medium")
        )
        return (
            hashes is not None
            and bool(hashes.items)
            and tokens is not None
            and tokens.kind is Kind.ARRAY
            and not tokens.items
            and size is not None
            and size.kind is Kind.INT
            and size.value == 0
            and (parent is None or parent.kind is Kind.NIL)
            and medium is not None
            and medium.kind is Kind.STR
            and medium.value not in ("", DEVICE)
        )

    def build(self) -> Event:
        if self.node.kind is Kind.MAP:
            self.read_map()
        elif self.node.kind is Kind.ARRAY:
            self.read_array()
        else:
            self.flaw("not-a-map", "an event that is a map tagged `type`", self.node)
            self.form = "none"
        kind = KINDS.get(self.tag, "unknown")
        self._scan()
        if self.form == "map" and self.tag:
            for key in REQUIRED[kind]:
                if key not in self.fields:
                    self.flaw("missing-key", f"the key `{key}`", self.node, f"keys {', '.join(self.fields)}")
        self._types()
        hashes, hashes_ok = self._hashes() if kind in ("stored", "removed") else ((), True)
        parent, parent_ok = self._parent() if kind == "stored" else (None, True)
        tokens, tokens_ok = self._tokens() if kind == "stored" else ((), True)
        size = self._block_size() if kind == "stored" else None
        medium, medium_ok = self._medium()
        group, group_ok = self._group()
        if kind == "stored":
            self._extra_keys()
        locality, locality_ok = self._named("locality")
        ownership, ownership_ok = self._named("ownership")
        location_ok = medium_ok and group_ok and locality_ok and ownership_ok
        if kind == "stored" and "block_hashes" in self.fields and "token_ids" in self.fields:
            self._length(size)
        # What an array clear with a medium ends is not known.
        clear_ok = kind != "cleared" or self.form == "map" or medium is None
        sound = kind != "unknown" and hashes_ok and parent_ok and location_ok and clear_ok
        return Event(
            kind=kind,
            tag=self.tag,
            index=self.index,
            start=self.node.start,
            end=self.node.end,
            form=self.form,
            keys=frozenset(self.fields),
            hashes=hashes,
            parent=parent,
            tokens=tokens,
            block_size=size,
            lora_id=self._scalar("lora_id", Kind.INT),
            lora_name=self._scalar("lora_name", Kind.STR),
            medium=medium,
            group=group,
            locality=locality,
            ownership=ownership,
            scope=self._scalar("scope", Kind.STR),
            spec_kind=self._scalar("kv_cache_spec_kind", Kind.STR),
            window=self._scalar("kv_cache_spec_sliding_window", Kind.INT),
            hash_algo=self._scalar("hash_algo", Kind.STR),
            session_id=self._scalar("session_id", Kind.STR),
            epoch=self._scalar("epoch", Kind.STR),
            cache_salt=self._scalar("cache_salt", Kind.STR),
            mm_keys=self._mm_keys() if kind == "stored" else None,
            v=self._scalar("v", Kind.INT),
            unsigned_hashes=self.unsigned,
            sound=sound,
            whole=sound and tokens_ok and size is not None and len(tokens) == len(hashes) * size and bool(hashes),
            tokenless=kind == "stored" and sound and self._tokenless(),
            flaws=tuple(self.flaws.values()),
        )

    def _length(self, size: int | None) -> None:
        hashes, tokens = self.fields["block_hashes"], self.fields["token_ids"]
        if hashes.kind is not Kind.ARRAY or tokens.kind is not Kind.ARRAY:
            return
        n, m = len(hashes.items), len(tokens.items)
        if n == 0 or m == 0 or (size is not None and m != n * size):
            self.flaw(
                "length",
                "at least one block hash, and `block_size` tokens for each",
                self.node,
                f"{n} hashes, {m} tokens, block_size {size}",
            )


def _mm_fault(node: Node) -> str:
    """What is wrong with an element of a list in `mm_keys`; empty when nothing is."""
    if node.kind is not Kind.MAP:
        return describe(node)
    known = {"type", "hash", "start_offset", "uuid"}
    if others := [key for key, _ in node.pairs if key.kind is not Kind.STR or key.value not in known]:
        return f"the key {describe(others[0])}"
    uuid = node.get("uuid")
    if uuid is not None and uuid.kind is not Kind.STR:
        return f"`uuid` {describe(uuid)}"
    if _mm_key(node) is not None:
        return ""
    return ", ".join(f"`{key.value}` {describe(value)}" for key, value in node.pairs) or "no keys"


def _mm_key(node: Node) -> tuple[bytes, int] | None:
    """Digest and start offset of an `mm_key` map; None when it is none."""
    kind, digest, offset = node.get("type"), node.get("hash"), node.get("start_offset")
    if kind is None or digest is None or offset is None or kind.value != "mm_key":
        return None
    if digest.kind is not Kind.STR or not digest.text_ok or not DIGEST.match(digest.value):
        return None
    if offset.kind is not Kind.INT or offset.value < 0:
        return None
    return bytes.fromhex(digest.value), int(offset.value)


def _batch_flaws(node: Node, payload: bytes) -> list[Flaw]:
    flaws: list[Flaw] = []
    if node.end < len(payload):
        extra = len(payload) - node.end
        flaws.append(
            Flaw("trailing", "one msgpack value and no byte after it", f"{extra} more bytes", node.end, len(payload))
        )
    if node.kind is not Kind.ARRAY or len(node.items) != 3:
        flaws.append(Flaw("batch", "an array of exactly three", describe(node), node.start, node.end))
    flaws += [
        Flaw("ext", "no ext type anywhere in a payload", describe(item), item.start, item.end)
        for item in node.items
        if item.kind is Kind.EXT
    ]
    return flaws


def _form(events: tuple[Event, ...]) -> Form:
    forms = {event.form for event in events}
    if len(forms) == 1:
        return forms.pop()
    if forms and forms <= {"array", "array-v"}:
        return "array-v"
    if forms and forms <= {"array", "array-s"}:
        return "array-s"
    return "mixed" if forms else "none"


def read_slowly(payload: bytes, limits: Limits = LIMITS) -> Reading:
    """Read a payload with the walker: the truth."""
    try:
        node = walked(payload, limits)
    except WireError as error:
        end = len(payload)
        code = "limit" if isinstance(error, LimitError) else "msgpack"
        flaw = Flaw(code, "one msgpack value", error.message, min(error.offset, end), end)
        return Reading(form="none", flaws=(flaw,))
    flaws = _batch_flaws(node, payload)
    items = node.items if node.kind is Kind.ARRAY else ()
    if len(items) < 2:
        flaws.append(Flaw("hidden", "`events` as the second element", describe(node), node.start, node.end))
    ts: float | None = None
    if items:
        if items[0].kind is not Kind.FLOAT64:
            flaws.append(Flaw("ts-type", "`ts` as float64", describe(items[0]), items[0].start, items[0].end))
        else:
            ts = float(items[0].value)
            if not math.isfinite(ts):
                flaws.append(Flaw("ts-finite", "a finite `ts`", str(ts), items[0].start, items[0].end))
    events: tuple[Event, ...] = ()
    if len(items) > 1:
        most = limits.events(len(payload))
        if items[1].kind is Kind.ARRAY and len(items[1].items) > most:
            said = f"{len(items[1].items)} events, more than the {most} that this harness reads of so many bytes"
            flaws.append(Flaw("limit", "events", said, items[1].start, items[1].end))
        elif items[1].kind is Kind.ARRAY:
            events = tuple(_Builder(item, index).build() for index, item in enumerate(items[1].items))
        else:
            flaws.append(Flaw("events", "`events` as an array", describe(items[1]), items[1].start, items[1].end))
    rank: int | None = None
    if len(items) > 2:
        if items[2].kind is Kind.INT and 0 <= items[2].value < 2**31:
            rank = int(items[2].value)
        else:
            flaws.append(
                Flaw("rank", "a rank that is an integer 0…2147483647", describe(items[2]), items[2].start, items[2].end)
            )
    return Reading(form=_form(events), ts=ts, events=events, rank=rank, flaws=tuple(flaws))


def read(payload: bytes, limits: Limits = LIMITS) -> Reading:
    """Read a payload: the fast path where it may be trusted, else the walker."""
    within = len(payload) <= min(limits.bytes, limits.values)  # no value is shorter than a byte
    if within and (quick := read_quickly(payload)) is not None:
        return quick
    return read_slowly(payload, limits)


last_read = functools.lru_cache(maxsize=1)(read)
last_read_slowly = functools.lru_cache(maxsize=1)(read_slowly)
"""The same; what was read last is kept."""
