"""Typed reading of payloads without faults: the fast way, beside the walker, which is the truth.

A typed decoder alone accepts much that the walker flags: a key twice, an integer or float32 as ``ts``. So events are
read by *shapes*: exactly these keys, or so many slots, every one of them required, every range in its type. A map
whose header counts as many keys as its shape has holds each of them once; where ``ts`` begins, its first byte is looked
at. A stream has few shapes. Whatever fits none is the walker's (``kvwire.wire.dialect``), and is looked at once, for
another shape to learn: keys of others (``x-``) with scalar values, arrays, hashes in unsigned form.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kvwire.wire.events import (
    ARRAY_SLOTS,
    GROUPS,
    KINDS,
    MEDIA,
    REQUIRED,
    TWO_63,
    TWO_64,
    Event,
    EventKind,
    Form,
    Reading,
)
from kvwire.wire.msgpack import LIMITS

Signed = Annotated[int, Meta(ge=-TWO_63, le=TWO_63 - 1)]
Natural = Annotated[int, Meta(ge=0)]
Scalar = bool | int | float | str | None

FIELDS: dict[str, Any] = {
    "token_ids": Annotated[list[Annotated[int, Meta(ge=0, lt=2**31)]], Meta(min_length=1)],
    "block_size": Annotated[int, Meta(ge=1)],
    "lora_id": None,
    "lora_name": None,
    "medium": str | None,
    "extra_keys": None,
    "group_idx": Annotated[int, Meta(ge=0, lt=GROUPS)] | None,
    "kv_cache_spec_kind": str | None,
    "kv_cache_spec_sliding_window": Natural | None,
    "locality": str | None,
    "ownership": str | None,
    "scope": None,
    "session_id": str | None,
    "hash_algo": str | None,
    "v": int,
}
"""The keys of a block that enter no hash beside its tokens; what has others is left to the walker."""
HASHES: dict[bool, dict[str, Any]] = {
    True: {"block_hashes": Annotated[list[Signed], Meta(min_length=1)], "parent_block_hash": Signed | None},
    False: {"block_hashes": Annotated[list[int], Meta(min_length=1)], "parent_block_hash": int | None},
}
"""Hashes in signed form, or in any."""
NEVER = frozenset({"type", "mm_keys", "cache_salt", "epoch"})
"""Keys that only the walker reads."""
READ: frozenset[EventKind] = frozenset({"stored", "removed"})
"""Events that have shapes."""
PLACES = ("group_idx", "locality", "ownership")
"""What says where a block is, beside its medium."""
LEARNED = 64
"""How many shapes are learned of a stream at all."""
SHAPES = 8
"""How many shapes of one size are learned of a stream."""
MOST = min(LIMITS.bytes, LIMITS.values)
"""A payload of so many bytes is within the limits of the harness: no value is shorter than a byte."""
KEYS = 32
"""How many keys an event of a shape has at most."""


class _Raw(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    ts: Annotated[float, Meta(ge=0, lt=1e11)]
    events: list[msgspec.Raw]
    rank: Annotated[int, Meta(ge=0, lt=2**31)]


_decode_raw = msgspec.msgpack.Decoder(_Raw).decode


class Shape(msgspec.Struct, frozen=True, eq=False):
    """One shape of events, and how it is read."""

    kind: EventKind
    form: Form
    keys: frozenset[str]
    signed: bool
    decode: Any
    """An event of it, from its bytes."""
    alone: Any
    """A batch of one such event, from the whole payload."""


Read = tuple[float, int, list[tuple[Shape, Any]]]
"""A payload without faults, save that hashes may be unsigned and events arrays: ``ts``, rank, and each event with its
shape.
"""


@functools.lru_cache(maxsize=256)
def _shape(kind: EventKind, form: Form, keys: tuple[str, ...], *, signed: bool) -> Shape:
    """The shape of these keys; in the order of an array's slots."""
    tag = next(tag for tag, own in KINDS.items() if own == kind)
    fields: list[tuple[str, Any]] = [("tag", Literal[tag])]
    names = {"tag": "type"}
    for at, key in enumerate(keys):
        name = key if key in FIELDS or key in HASHES[signed] else f"other_{at}"
        names[name] = key
        fields.append((name, {**FIELDS, **HASHES[signed]}.get(key, Scalar)))
    event = msgspec.defstruct(
        "Plain", fields, gc=False, forbid_unknown_fields=True, rename=names, array_like=form != "map"
    )
    batch = msgspec.defstruct(
        "PlainBatch",
        [("ts", _Raw.__annotations__["ts"]), ("events", list[event]), ("rank", _Raw.__annotations__["rank"])],  # type: ignore[valid-type]
        array_like=True,
        forbid_unknown_fields=True,
        gc=False,
        namespace={"__module__": __name__},
    )
    return Shape(
        kind=kind,
        form=form,
        keys=frozenset(keys),
        signed=signed,
        decode=msgspec.msgpack.Decoder(event).decode,
        alone=msgspec.msgpack.Decoder(batch).decode,
    )


def _learned(raw: bytes | msgspec.Raw) -> Shape | None:
    """The shape of an event; None when only the walker can read it."""
    try:
        value = msgspec.msgpack.decode(raw)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return None
    if isinstance(value, dict):
        keys, form = [key for key in value if key != "type"], "map"
        kind = KINDS.get(str(value.get("type")), "unknown")
        if kind not in READ or len(keys) > KEYS or not all(map(_nameable, keys)):
            return None
        if not set(REQUIRED[kind]) <= set(keys) or NEVER & set(keys):
            return None
        if any(not isinstance(value[key], Scalar) for key in keys if key not in FIELDS and key not in HASHES[True]):
            return None
        if kind == "removed" and {"token_ids", "parent_block_hash", "extra_keys", "block_size"} & set(keys):
            return None
        hashes, parent = value["block_hashes"], value.get("parent_block_hash")
        keys.sort()
    elif isinstance(value, list) and value and isinstance(value[0], str):
        kind = KINDS.get(value[0], "unknown")
        slots = ARRAY_SLOTS.get(kind, ())
        least = 3 if kind == "removed" else 7
        if kind not in READ or not least <= len(value) <= len(slots) + 1:
            return None
        form = "array-v" if len(value) > least else "array"
        keys = list(slots[: len(value) - 1])
        hashes, parent = value[1], value[2] if kind == "stored" else None
    else:
        return None
    if not isinstance(hashes, list):
        return None
    signed = not any(isinstance(one, int) and one >= TWO_63 for one in (*hashes, parent))
    return _shape(kind, form, tuple(keys), signed=signed)


def _nameable(key: object) -> bool:
    """Whether a field can be called so."""
    return isinstance(key, str) and key.isprintable() and not {'"', "\\"} & set(key)


class Reader:
    """Reads the payloads of one stream, and learns its shapes; O(shapes)."""

    def __init__(self) -> None:
        self._shapes: dict[int, list[Shape]] = {}
        """By the first byte of an event, which counts its keys or slots; those that were learned last first."""
        self._left = LEARNED

    def renew(self) -> None:
        """Begin anew once nothing more is learned: of several streams one would use up what the others may show."""
        if not self._left:
            self._shapes, self._left = {}, LEARNED

    def read(self, payload: bytes) -> Read | None:
        """Read a payload; None when the walker has to."""
        if len(payload) > MOST:
            return None
        try:
            if payload[:2] == b"\x93\xcb" and payload[10] == 0x91:
                head = payload[11]
                shapes = self._shapes.get(head if head != 0xDE else int.from_bytes(payload[11:14], "big"))
                if shapes is not None:
                    shape = shapes[0]
                    try:
                        batch = shape.alone(payload)
                    except (msgspec.MsgspecError, RecursionError):
                        pass
                    else:
                        return batch.ts, batch.rank, [(shape, batch.events[0])]
            return self._read(payload)
        except (msgspec.MsgspecError, RecursionError, IndexError):
            return None

    def _read(self, payload: bytes) -> Read | None:
        batch = _decode_raw(payload)
        at = 1 if payload[0] == 0x93 else 3 if payload[0] == 0xDC else 5
        if payload[at] != 0xCB:
            return None
        head = payload[at + 9]
        at += 10 if head < 0xA0 else 12 if head == 0xDC else 14
        events: list[tuple[Shape, Any]] = []
        for raw in batch.events:
            shapes = self._shapes.get(payload[at])
            try:
                found = None if shapes is None else (shapes[0], shapes[0].decode(raw))
            except (msgspec.MsgspecError, RecursionError):
                found = None
            if found is None and (found := self._event(raw, payload, at)) is None:
                return None
            events.append(found)
            at += len(raw)
        return batch.ts, batch.rank, events

    def _event(self, raw: msgspec.Raw, payload: bytes, at: int) -> tuple[Shape, Any] | None:
        head = payload[at]
        if head == 0xDE or head == 0xDC:
            head = int.from_bytes(payload[at : at + 3], "big")
        for shape in self._shapes.get(head, ()):
            try:
                return shape, shape.decode(raw)
            except (msgspec.MsgspecError, RecursionError):
                continue
        return self._learn(raw, head)

    def _learn(self, raw: msgspec.Raw, head: int) -> tuple[Shape, Any] | None:
        """Look at an event that fits no shape."""
        shape, known = _learned(raw) if self._left else None, self._shapes.get(head, [])
        if shape is None or shape in known or len(shape.keys) + 1 != _count(head):
            return None
        try:
            event = shape.decode(raw)
        except (msgspec.MsgspecError, RecursionError):
            return None
        self._left -= 1
        others = [one for one in known if (one.form, one.keys) != (shape.form, shape.keys)]  # unsigned ones read all
        self._shapes[head] = [shape, *others][:SHAPES]
        return shape, event


def _count(head: int) -> int:
    """How many keys or slots a header counts."""
    if head < 0x90:
        return head & 0x0F
    return head & 0x0F if head < 0xA0 else head & 0xFFFF


def good_medium(medium: str | None) -> bool:
    """Whether it is nil, of the registry, or a name of others."""
    return medium is None or medium in MEDIA or medium.startswith("x-")


_READER = Reader()
"""Of whoever reads payloads of no stream in particular."""


def read_quickly(payload: bytes) -> Reading | None:
    """Read a payload that has no fault at all; None when it has, or may have one, and the walker must look.

    Its events carry no byte offsets.
    """
    read = _READER.read(payload)
    _READER.renew()
    if read is None:
        return None
    events: list[Event] = []
    for index, (shape, typed) in enumerate(read[2]):
        event = _event(shape, typed, index)
        if event is None:
            return None
        events.append(event)
    form: Form = "map" if events else "none"
    return Reading(form=form, ts=read[0], events=tuple(events), rank=read[1], fast=True)


def _event(shape: Shape, typed: Any, index: int) -> Event | None:
    """The canonical event of a typed one; None when it holds anything that the walker would call a flaw."""
    hashes: list[int] = typed.block_hashes
    keys, stored = shape.keys, shape.kind == "stored"
    parent: int | None = typed.parent_block_hash if stored else None
    if shape.form != "map" or 0 in hashes or parent == 0 or max(*hashes, parent or 0) >= TWO_63:
        return None
    if not good_medium(typed.medium) or typed.medium == "":
        return None
    if stored and len(typed.token_ids) != len(hashes) * typed.block_size:
        return None

    def of(key: str) -> Any:
        return getattr(typed, key) if key in keys else None

    return Event(
        kind=shape.kind,
        tag="BlockStored" if stored else "BlockRemoved",
        index=index,
        keys=keys,
        hashes=tuple(value % TWO_64 for value in hashes),
        parent=None if parent is None else parent % TWO_64,
        tokens=tuple(typed.token_ids) if stored else (),
        block_size=typed.block_size if stored else None,
        medium=typed.medium,
        group=of("group_idx") or 0,
        spec_kind=of("kv_cache_spec_kind"),
        window=of("kv_cache_spec_sliding_window"),
        locality=of("locality"),
        ownership=of("ownership"),
        hash_algo=of("hash_algo"),
        session_id=of("session_id"),
        v=of("v"),
        sound=True,
        whole=stored,
    )
