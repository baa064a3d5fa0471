"""Canonical events: what a payload says, whatever its form."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Form = Literal["map", "array-v", "array-s", "array", "mixed", "none"]
EventKind = Literal["stored", "removed", "cleared", "unknown"]

KINDS: dict[str, EventKind] = {"BlockStored": "stored", "BlockRemoved": "removed", "AllBlocksCleared": "cleared"}
MEDIA = frozenset({"GPU", "CPU", "DISK", "STORAGE", "EXTERNAL", "REMOTE"})
"""The registry of media of edition 1; others are ``x-`` names."""
DEVICE = "GPU"
"""The memory in which the engine computes."""
DENSE_KINDS = frozenset({"full", "full_attention", "mla_attention", "sink_full_attention"})
"""The values of `kv_cache_spec_kind` of groups that keep whole prefixes."""
WINDOW_KINDS = frozenset({"sliding_window", "sliding_window_mla", "chunked_local_attention"})
"""Those of groups that free blocks which their window has left."""
GroupKind = Literal["dense", "window", "unknown"]
REQUIRED: dict[EventKind, tuple[str, ...]] = {
    "stored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
    ),
    "removed": ("block_hashes", "medium"),
    "cleared": (),
    "unknown": (),
}
GROUPS = 2**16
"""How many groups of an engine are told apart; an event of another one is not followed."""
ARRAY_SLOTS: dict[EventKind, tuple[str, ...]] = {
    "stored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
        "group_idx",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
    ),
    "removed": ("block_hashes", "medium", "group_idx"),
    "cleared": ("medium",),
    "unknown": (),
}
"""The slots after the tag of vLLM's array events; SGLang's are the same up to ``medium``, then a map."""
TWO_63 = 2**63
TWO_64 = 2**64
DIGEST = re.compile(r"[0-9a-fA-F]{64}\Z")


def group_kind(idx: int, kind: str | None, window: int | None) -> GroupKind:
    """What a group is, by its index and the kind and window of its stores (spec/groups.md)."""
    if window is not None or kind in WINDOW_KINDS:
        return "window"
    return "dense" if kind in DENSE_KINDS or (kind is None and idx == 0) else "unknown"


class Flaw(msgspec.Struct, frozen=True, gc=False):
    """One fault of encoding or form: a code, what was expected, what was seen, and the bytes ``start`` to ``end``."""

    code: str
    expected: str
    seen: str
    start: int
    end: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event in canonical form.

    Hashes are unsigned (mod 2^64); ``tokens`` holds ints, and 32 bytes for a digest token. ``keys`` are the map keys
    (or filled array slots). ``sound`` means that kind, hashes and location could be read, so that ledgers may
    use it; ``whole`` that tokens and block size fit the hashes too. ``tokenless``: a store in the form of a location
    update, declared or not. ``start`` and ``end`` are byte offsets.
    """

    kind: EventKind
    tag: str
    index: int
    start: int = 0
    end: int = 0
    form: Form = "map"
    keys: frozenset[str] = frozenset()
    hashes: tuple[int, ...] = ()
    parent: int | None = None
    tokens: tuple[int | bytes, ...] = ()
    block_size: int | None = None
    lora_id: int | None = None
    lora_name: str | None = None
    medium: str | None = None
    group: int = 0
    locality: str | None = None
    ownership: str | None = None
    scope: str | None = None
    spec_kind: str | None = None
    window: int | None = None
    hash_algo: str | None = None
    session_id: str | None = None
    epoch: str | None = None
    cache_salt: str | None = None
    mm_keys: tuple[tuple[tuple[bytes, int], ...], ...] | None = None
    v: int | None = None
    unsigned_hashes: int = 0
    sound: bool = False
    whole: bool = False
    tokenless: bool = False
    flaws: tuple[Flaw, ...] = ()

    @property
    def opaque(self) -> bool:
        """Whether it may change residency in a way that could not be read; an event of an unknown type does not."""
        return not self.sound and (self.kind != "unknown" or not self.tag)

    def block(self, index: int) -> tuple[int | bytes, ...]:
        """The tokens of block ``index``; only for a ``whole`` event."""
        size = self.block_size or 0
        return self.tokens[index * size : (index + 1) * size]


UNREADABLE = frozenset({"msgpack", "limit", "hidden", "events"})
"""Flaws of a batch that hide its events."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A payload, read: its form, ``ts``, events, rank, and the flaws of the batch itself."""

    form: Form
    ts: float | None = None
    events: tuple[Event, ...] = ()
    rank: int | None = None
    flaws: tuple[Flaw, ...] = ()
    fast: bool = False

    @property
    def opaque(self) -> bool:
        """Whether its events could not be read at all: then nothing after it is certain."""
        return bool({flaw.code for flaw in self.flaws} & UNREADABLE)
