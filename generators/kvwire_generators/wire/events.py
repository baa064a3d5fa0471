"""Payloads that a reader of edition 1 takes (spec/batch.md, spec/event.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kvwire.vectors.model import Group, Note, Test, WireExpected, WireInput
from kvwire_generators.making import links

TS = 1735689600.25
ROOT = -2003500929019345749
CHILD = 8460888372051954880
"""Hashes of 1 2 3 4 and 5 6 7 8 under ``v2_sha256_64/u32``, without LoRA and salt."""
DIGEST = "ab" * 32
MM_HASH = 7590771324437793502
"""Hash of 1, that digest, 32001, 32002."""

WireTest = Test[WireInput, WireExpected]
WireGroup = Group[WireInput, WireExpected]


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A payload to be: its slug, words, value, requirements and flags."""

    slug: str
    comment: str
    value: Any
    requirements: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def stored(**changes: Any) -> dict[str, Any]:
    """A ``BlockStored`` of two blocks; ``...`` as a value leaves a key out."""
    event = {
        "type": "BlockStored",
        "block_hashes": [ROOT, CHILD],
        "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4, 5, 6, 7, 8],
        "block_size": 4,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    return _without({**event, **changes})


def one(**changes: Any) -> dict[str, Any]:
    """A ``BlockStored`` of one block."""
    return stored(**{"block_hashes": [ROOT], "token_ids": [1, 2, 3, 4], **changes})


def removed(**changes: Any) -> dict[str, Any]:
    """A ``BlockRemoved`` of one block."""
    return _without({"type": "BlockRemoved", "block_hashes": [CHILD], "medium": "GPU", **changes})


def picture(**changes: Any) -> dict[str, Any]:
    """A ``BlockStored`` of a block with a digest token."""
    key = {"type": "mm_key", "hash": DIGEST, "start_offset": 0}
    tokens = [1, DIGEST, 32001, 32002]
    return one(**{"block_hashes": [MM_HASH], "token_ids": tokens, "mm_keys": [[key]], **changes})


def _without(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if value is not ...}


CLEARED = {"type": "AllBlocksCleared"}


def batch(*events: Any, ts: Any = TS, rank: Any = 0) -> list[Any]:
    """A batch of these events."""
    return [ts, list(events), rank]


NOTES = {
    "should": Note(kind="property", description="a SHOULD of the standard is not followed: a warning, never a refusal"),
    "unknown-key": Note(
        kind="property",
        description="a key that edition 1 does not know, which a reader ignores",
        requirements=("KVW-EVT-023",),
        links=links("KVW-EVT-023"),
    ),
    "unknown-type": Note(
        kind="property",
        description="an event of a type that edition 1 does not know, which a reader skips without losing the others",
        requirements=("KVW-EVT-024",),
        links=links("KVW-EVT-024"),
    ),
    "declared": Note(
        kind="property",
        description="allowed of a publisher that declares the extension `location_updates`; one that does not breaks "
        "KVW-EVT-013 and KVW-EVT-014",
        requirements=("KVW-EVT-013", "KVW-EVT-014"),
        links=links("KVW-EVT-032"),
    ),
    "big-integer": Note(kind="property", description="integers beyond 2^53, which floating point cannot hold"),
    "captured": Note(
        kind="origin",
        description="bytes that TensorRT-LLM's streaming publisher wrote (msgspec 0.23.0)",
        links=("https://github.com/NVIDIA/TensorRT-LLM/pull/17023",),
    ),
    "msgspec": Note(
        kind="origin", description="bytes that msgspec 0.23.0 writes for the event structs of that project"
    ),
}

_STORED = ("KVW-EVT-005", "KVW-EVT-007", "KVW-EVT-013")


def p(slug: str, comment: str, value: Any, *requirements: str, flags: str = "") -> Payload:
    """A payload."""
    return Payload(slug=slug, comment=comment, value=value, requirements=requirements, flags=tuple(flags.split()))


def batch_payloads() -> list[Payload]:
    """Time, rank and order."""
    ts, rank = ("KVW-BAT-002", "KVW-BAT-003"), ("KVW-RNK-001",)
    return [
        p("batch-empty", "no events", batch(), "KVW-BAT-001", "KVW-BAT-005"),
        p("batch-ts-0", "the epoch itself", batch(ts=0.0), *ts),
        p("batch-ts-negative-zero", "−0.0 is at least 0", batch(ts=-0.0), *ts),
        p("batch-ts-smallest", "the smallest double above 0", batch(ts=5e-324), *ts),
        p("batch-ts-tenth", "a time that decimal fractions do not hit", batch(ts=0.1), *ts),
        p("batch-ts-micro", "a time with microseconds", batch(ts=1735689601.123456), *ts),
        p("batch-ts-largest", "the last double below 10^11", batch(ts=99999999999.99998), *ts),
        p("batch-rank-1", "rank 1", batch(rank=1), *rank),
        p("batch-rank-128", "a rank of two bytes", batch(rank=128), *rank),
        p("batch-rank-max", "rank 2^31−1", batch(rank=2**31 - 1), *rank),
        p(
            "batch-three-events",
            "remove, store, clear: the order in which they happened",
            batch(removed(), stored(), CLEARED),
            "KVW-EVT-020",
            "KVW-EVT-026",
        ),
        p(
            "batch-store-and-remove",
            "a block stored and removed in one batch",
            batch(one(), removed(block_hashes=[ROOT])),
            "KVW-EVT-020",
        ),
        p(
            "batch-sixteen-events",
            "16 events: an array head of three bytes",
            batch(*[removed(block_hashes=[CHILD - n]) for n in range(16)]),
            "KVW-BAT-005",
        ),
    ]


def stored_payloads() -> list[Payload]:
    """``BlockStored`` in every shape."""
    return [
        p("stored-two", "two blocks, the standard's example", batch(stored()), *_STORED),
        p("stored-one", "one block", batch(one()), *_STORED),
        p(
            "stored-child",
            "a child of a block announced before",
            batch(one(block_hashes=[CHILD], parent_block_hash=ROOT, token_ids=[5, 6, 7, 8])),
            *_STORED,
            "KVW-CHN-001",
        ),
        p("stored-size-1", "blocks of one token", batch(stored(token_ids=[1, 2], block_size=1)), *_STORED),
        p(
            "stored-sixteen",
            "16 hashes: an array head of three bytes",
            batch(stored(block_hashes=[ROOT + n for n in range(16)], token_ids=list(range(16)), block_size=1)),
            *_STORED,
        ),
        p("stored-size-2048", "a block of 2048 tokens", batch(one(token_ids=[7] * 2048, block_size=2048)), *_STORED),
        p(
            "stored-type-last",
            "the order of keys means nothing",
            batch(dict(reversed(stored().items()))),
            "KVW-EVT-001",
        ),
        p(
            "stored-all-keys",
            "every key of edition 1",
            batch(
                picture(
                    extra_keys=[[DIGEST, 0]],
                    group_idx=1,
                    kv_cache_spec_kind="sliding_window",
                    kv_cache_spec_sliding_window=4096,
                    locality="LOCAL",
                    ownership="pool-1",
                    scope="5e40b1feca4586cb",
                    session_id="s-1",
                    hash_algo="v2_sha256_64/u32",
                    v=1,
                )
            ),
            "KVW-EVT-021",
            "KVW-EVT-018",
            "KVW-EVT-028",
            "KVW-EVT-029",
        ),
        p(
            "stored-all-nil",
            "every key that can be nil is nil",
            batch(
                one(
                    medium=None,
                    extra_keys=None,
                    group_idx=None,
                    kv_cache_spec_kind=None,
                    kv_cache_spec_sliding_window=None,
                    locality=None,
                    ownership=None,
                    scope=None,
                    session_id=None,
                    hash_algo=None,
                )
            ),
            "KVW-EVT-021",
        ),
        p("stored-lora", "a LoRA id and name", batch(one(lora_id=7, lora_name="adapter")), "KVW-EVT-021"),
        p("stored-lora-0", "LoRA id 0 is an id", batch(one(lora_id=0)), "KVW-EVT-021"),
        p("stored-lora-max", "a LoRA id of 2^64−1", batch(one(lora_id=2**64 - 1)), "KVW-EVT-021", flags="big-integer"),
        p("stored-lora-name-unicode", "a LoRA name beyond ASCII", batch(one(lora_name="Zürich–東京🗝")), "KVW-EVT-021"),
        p("stored-group-0", "group 0, said", batch(one(group_idx=0)), "KVW-EVT-021", "KVW-EVT-017"),
        p(
            "stored-group-3",
            "a window group",
            batch(one(group_idx=3, kv_cache_spec_kind="sliding_window", kv_cache_spec_sliding_window=128)),
            "KVW-EVT-021",
        ),
        p("stored-locality-remote", "a block that lies elsewhere", batch(one(locality="REMOTE"))),
        p("stored-extra-nil", "no extra keys for either block", batch(stored(extra_keys=[None, None])), "KVW-EVT-029"),
        p("stored-extra-empty", "empty extra keys", batch(stored(extra_keys=[[], []])), "KVW-EVT-029"),
        p("stored-scope", "the tag of the salt `tenant-a`", batch(one(scope="5e40b1feca4586cb")), "KVW-EVT-028"),
        p("stored-scope-digits", "a tag of decimal digits: a string still", batch(one(scope="0" * 16)), "KVW-EVT-028"),
        p("stored-owner", "another owner than the engine", batch(one(medium="CPU", ownership="pool-1")), "KVW-EVT-021"),
        p("stored-session", "a session", batch(one(session_id="")), "KVW-EVT-021"),
        p(
            "location-update",
            "two keys that are in a shared store too",
            batch(stored(token_ids=[], block_size=0, medium="STORAGE")),
            "KVW-EVT-032",
            flags="declared",
        ),
        p(
            "location-update-own-medium",
            "a key in a medium of one's own; a hash twice is no chain",
            batch(stored(block_hashes=[ROOT, ROOT], token_ids=[], block_size=0, medium="x-pool", group_idx=1)),
            "KVW-EVT-032",
            flags="declared",
        ),
        p(
            "stored-extra-mixed",
            "extra keys of every kind",
            batch(stored(extra_keys=[["adapter", [DIGEST, 0], b"\x01" * 32, 2**60, 1.5, True], None])),
            flags="big-integer",
        ),
    ]


def removed_payloads() -> list[Payload]:
    """``BlockRemoved`` and ``AllBlocksCleared``."""
    keys = ("KVW-EVT-006", "KVW-EVT-007")
    return [
        p("removed-one", "one block, the standard's example", batch(removed()), *keys),
        p("removed-two", "leaf first", batch(removed(block_hashes=[CHILD, ROOT])), *keys),
        p("removed-medium-nil", "the unspecified medium", batch(removed(medium=None)), *keys),
        p("removed-group", "the group of its store", batch(removed(group_idx=3)), *keys, "KVW-EVT-017"),
        p(
            "removed-all-keys",
            "every key of edition 1",
            batch(removed(group_idx=0, locality="LOCAL", ownership="pool-1", hash_algo="v2_sha256_64/u32", v=1)),
            *keys,
        ),
        p("cleared", "the standard's example", batch(CLEARED), "KVW-EVT-001"),
        p("cleared-v", "with the edition", batch({**CLEARED, "v": 1}), "KVW-EVT-018"),
        p("cleared-twice", "two clears", batch(CLEARED, CLEARED), "KVW-EVT-020"),
        p("cleared-medium", "a clear of one medium", batch({**CLEARED, "medium": "CPU"}), "KVW-RES-011", "KVW-EVT-015"),
        p("cleared-medium-nil", "a clear of the unspecified medium", batch({**CLEARED, "medium": None}), "KVW-RES-011"),
        p("cleared-owner", "a clear of one owner", batch({**CLEARED, "ownership": "pool-1"}), "KVW-RES-011"),
        p("cleared-epoch", "a clear that names an epoch", batch({**CLEARED, "epoch": "7f3a"}), "KVW-EVT-021"),
        p(
            "cleared-all-keys",
            "every key of edition 1",
            batch({**CLEARED, "medium": "GPU", "ownership": None, "epoch": "7f3a", "v": 1}),
            "KVW-RES-011",
            "KVW-EVT-018",
        ),
    ]
