"""One value, every legal msgpack form of it (KVW-EVT-025)."""

from __future__ import annotations

from typing import Any

from kvwire_generators.wire.events import CLEARED, Payload, batch, one, p, picture, removed, stored
from kvwire_generators.wire.msgpack_forms import Path, pack, variants

_EVENT: Path = (1, 0)
_INTEGERS = (
    0,
    1,
    31,
    32,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -1,
    -32,
    -33,
    -128,
    -129,
    -32768,
    -32769,
    -(2**31),
    -(2**31) - 1,
    -(2**63),
)
_FIELDS: tuple[tuple[str, str, Any, Path], ...] = (
    ("parent", "a parent of 5", one(parent_block_hash=5), (*_EVENT, "parent_block_hash")),
    ("token", "a token id of 7", one(token_ids=[7, 2, 3, 4]), (*_EVENT, "token_ids", 0)),
    ("token-i31", "a token id of 2^31−1", one(token_ids=[2**31 - 1, 2, 3, 4]), (*_EVENT, "token_ids", 0)),
    ("block-size", "a block size of 4", one(), (*_EVENT, "block_size")),
    ("lora-id", "a LoRA id of 7", one(lora_id=7), (*_EVENT, "lora_id")),
    ("group", "group 1", one(group_idx=1), (*_EVENT, "group_idx")),
    ("window", "a window of 4096", one(kv_cache_spec_sliding_window=4096), (*_EVENT, "kv_cache_spec_sliding_window")),
    ("v", "edition 1", one(v=1), (*_EVENT, "v")),
    ("offset", "a start offset of 0", picture(), (*_EVENT, "mm_keys", 0, 0, "start_offset")),
)
_HEADS: tuple[tuple[str, str, Any, Path], ...] = (
    ("batch", "the head of the batch", batch(one()), ()),
    ("events", "the head of `events`", batch(one()), (1,)),
    ("events-empty", "the head of no events", batch(), (1,)),
    ("stored", "the head of a stored event", batch(one()), _EVENT),
    ("removed", "the head of a removed event", batch(removed()), _EVENT),
    ("cleared", "the head of a clear", batch(CLEARED), _EVENT),
    ("block-hashes", "the head of `block_hashes`", batch(stored()), (*_EVENT, "block_hashes")),
    ("token-ids", "the head of `token_ids`", batch(stored()), (*_EVENT, "token_ids")),
    (
        "token-ids-16",
        "the head of 16 token ids",
        batch(one(token_ids=list(range(16)), block_size=16)),
        (*_EVENT, "token_ids"),
    ),
    ("mm-keys", "the head of `mm_keys`", batch(picture()), (*_EVENT, "mm_keys")),
    ("mm-key", "the head of an `mm_key`", batch(picture()), (*_EVENT, "mm_keys", 0, 0)),
    ("extra-keys", "the head of `extra_keys`", batch(one(extra_keys=[["a"]])), (*_EVENT, "extra_keys")),
)
_TEXTS: tuple[tuple[str, str, Any, Path], ...] = (
    ("key-type", "the key `type`", batch(CLEARED), (*_EVENT, "key:type")),
    ("type", "the value of `type`", batch(CLEARED), (*_EVENT, "type")),
    ("key-hashes", "the key `block_hashes`", batch(removed()), (*_EVENT, "key:block_hashes")),
    (
        "key-long",
        "the longest key",
        batch(one(kv_cache_spec_sliding_window=1)),
        (*_EVENT, "key:kv_cache_spec_sliding_window"),
    ),
    ("medium", "a medium", batch(removed()), (*_EVENT, "medium")),
    ("lora-name", "a LoRA name of 40 bytes", batch(one(lora_name="n" * 40)), (*_EVENT, "lora_name")),
    ("digest", "a digest token", batch(picture()), (*_EVENT, "token_ids", 1)),
)


def payloads() -> list[tuple[str, str, list[tuple[Payload, bytes, tuple[bytes, ...]]]]]:
    """Each section with its values, their shortest bytes, and all others."""
    hashes = [
        (
            p(f"encodings-hash-{'minus-' * (n < 0)}{abs(n)}", f"a hash of {n}", batch(removed(block_hashes=[n]))),
            (*_EVENT, "block_hashes", 0),
        )
        for n in _INTEGERS
    ]
    ranks = [(p(f"encodings-rank-{n}", f"rank {n}", batch(rank=n)), (2,)) for n in (0, 127, 128, 2**31 - 1)]
    fields = [(p(f"encodings-{slug}", comment, batch(event)), path) for slug, comment, event, path in _FIELDS]
    heads = [(p(f"encodings-head-{slug}", comment, value), path) for slug, comment, value, path in _HEADS]
    texts = [(p(f"encodings-text-{slug}", comment, value), path) for slug, comment, value, path in _TEXTS]
    whole = [
        (p("encodings-reversed", "every key in reverse order", batch(dict(reversed(stored().items())))), _EVENT),
        (
            p(
                "encodings-map-16",
                "16 keys: a map head of three bytes",
                batch(
                    picture(
                        extra_keys=None,
                        group_idx=0,
                        kv_cache_spec_kind=None,
                        kv_cache_spec_sliding_window=None,
                        locality=None,
                        hash_algo=None,
                        v=1,
                    )
                ),
            ),
            _EVENT,
        ),
    ]
    sections = (
        ("hashes", "An integer where msgpack changes its width.", hashes),
        ("ranks and fields", "Integers elsewhere.", [*ranks, *fields]),
        ("heads", "Arrays and maps.", heads),
        ("strings", "Keys and values.", texts),
        ("whole events", "Order of keys, long maps.", whole),
    )
    return [
        (name, comment, [(item, pack(item.value), _others(item.value, path)) for item, path in items])
        for name, comment, items in sections
    ]


def _others(value: Any, path: Path) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(variants(value, path)))
