"""Payloads with exactly one fault each, named after it, and the layer at which it is noticed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from kvwire.vectors.model import Layer, Note
from kvwire_generators.making import fault
from kvwire_generators.wire.events import CLEARED, TS, batch, one, removed
from kvwire_generators.wire.msgpack_forms import Float32, Pairs, Raw, pack


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid payload: its slug, words, bytes, fault and layer. ``form`` names a legacy form."""

    slug: str
    comment: str
    payload: bytes
    fault: str
    layer: Layer
    form: str | None = None
    also: tuple[str, ...] = ()


NOTES: dict[str, Note] = {
    "truncated": fault("the bytes end before the value does", "KVW-ENV-006"),
    "reserved-byte": fault("the byte c1, which msgpack never uses", "KVW-ENV-006"),
    "trailing-bytes": fault("bytes follow the value", "KVW-ENV-006"),
    "not-utf-8": fault("a string is not valid UTF-8", "KVW-ENV-006"),
    "not-an-array": fault("the batch is no array", "KVW-BAT-001"),
    "batch-length": fault("the batch has another number of elements than three", "KVW-BAT-001"),
    "ts-type": fault("`ts` is no float64", "KVW-BAT-002"),
    "ts-range": fault("`ts` is not finite, below 0, or 10^11 or above", "KVW-BAT-003"),
    "events-type": fault("`events` is no array", "KVW-BAT-005"),
    "rank-type": fault("the rank is no integer", "KVW-RNK-001"),
    "rank-range": fault("the rank is outside 0…2^31−1", "KVW-RNK-001"),
    "event-type": fault("an event is no map", "KVW-EVT-001"),
    "no-type": fault("an event has no key `type`", "KVW-EVT-001"),
    "type-not-string": fault("the value of `type` is no string", "KVW-EVT-001"),
    "key-not-string": fault("a key of a map is no string", "KVW-EVT-002"),
    "key-twice": fault("a key stands twice in a map", "KVW-EVT-003"),
    "ext": fault("an ext value", "KVW-EVT-004"),
    "key-missing": fault("a key that is always sent is absent", "KVW-EVT-005", "KVW-EVT-006"),
    "hashes-type": fault("`block_hashes` is no array", "KVW-EVT-007"),
    "hash-type": fault("a hash is no integer", "KVW-EVT-007"),
    "tokens-type": fault("`token_ids` is no array", "KVW-EVT-010"),
    "token-type": fault("a token id is neither an integer nor a string", "KVW-EVT-010"),
    "token-range": fault("a token id is outside its range", "KVW-EVT-010"),
    "digest-string": fault("a string among the token ids is not 64 hexadecimal digits", "KVW-EVT-011"),
    "mm-keys-missing": fault("digest tokens without `mm_keys`", "KVW-EVT-012"),
    "mm-keys-count": fault("`mm_keys` has another length than `block_hashes`", "KVW-EVT-012"),
    "mm-keys-type": fault("`mm_keys` holds something beside lists", "KVW-EVT-012"),
    "mm-key-type": fault("an element of a list in `mm_keys` is no `mm_key` map", "KVW-EVT-030"),
    "mm-key-content": fault("the keys of a block are not those of its items", "KVW-EVT-031"),
    "extra-keys-type": fault("`extra_keys` is not nil or an array of nil and arrays", "KVW-EVT-029"),
    "extra-keys-count": fault("`extra_keys` has another length than `block_hashes`", "KVW-EVT-029"),
    "scope-form": fault("the scope tag is not 16 lower-case hexadecimal digits", "KVW-EVT-028"),
    "token-count": fault("`token_ids` has not `block_size` elements per hash", "KVW-EVT-013"),
    "no-tokens": fault("a store without tokens that is no location update", "KVW-EVT-013", "KVW-EVT-014"),
    "no-hashes": fault("`block_hashes` is empty", "KVW-EVT-013"),
    "block-size-type": fault("`block_size` is no integer", "KVW-EVT-014"),
    "block-size-range": fault("`block_size` is not positive", "KVW-EVT-014"),
    "medium-type": fault("`medium` is neither a string nor nil", "KVW-EVT-015"),
    "medium-empty": fault("`medium` is the empty string", "KVW-EVT-015"),
    "field-type": fault("a field has another type than the standard gives it", "KVW-EVT-021"),
    "field-range": fault("a field is negative", "KVW-EVT-021"),
    "v-type": fault("`v` is no integer", "KVW-EVT-018"),
    "salt-in-clear": fault("an event holds the clear text of a cache salt", "KVW-EVT-019"),
    "own-parent": fault("a block names itself as parent", "KVW-CHN-004"),
    "hash-twice": fault("a hash occurs twice in one chain", "KVW-CHN-004"),
    "announced-twice": fault("two hash functions are announced on one stream", "KVW-HSH-003"),
}


def bad(layer: Layer, name: str, slug: str, comment: str, value: Any) -> Bad:
    """An invalid payload from a value or from bytes."""
    payload = value if isinstance(value, bytes) else pack(value)
    return Bad(slug=slug, comment=comment, payload=payload, fault=name, layer=layer)


def msgpack_payloads() -> list[Bad]:
    """Bytes that are not one well-formed value."""
    good = pack(batch(one()))
    return [
        bad("msgpack", "truncated", "truncated-empty", "no bytes at all", b""),
        bad("msgpack", "truncated", "truncated-last", "the last byte is missing", good[:-1]),
        bad("msgpack", "truncated", "truncated-half", "the second half is missing", good[: len(good) // 2]),
        bad("msgpack", "truncated", "truncated-head", "a head without its array", b"\x93"),
        bad("msgpack", "truncated", "truncated-float", "half of `ts`", good[:6]),
        bad("msgpack", "truncated", "truncated-width", "a head without its length", b"\xdc"),
        bad(
            "msgpack",
            "truncated",
            "truncated-huge-array",
            "an array that announces 2^32−1 elements",
            good[:10] + b"\xdd\xff\xff\xff\xff",
        ),
        bad(
            "msgpack",
            "truncated",
            "truncated-huge-string",
            "a string that announces 2^32−1 bytes",
            good[:10] + b"\xdb\xff\xff\xff\xffx",
        ),
        bad("msgpack", "reserved-byte", "reserved-byte", "the rank is c1", good[:-1] + b"\xc1"),
        bad("msgpack", "trailing-bytes", "trailing-nil", "one byte too many", good + b"\xc0"),
        bad("msgpack", "trailing-bytes", "trailing-batch", "a second batch", good + good),
        bad(
            "msgpack",
            "not-utf-8",
            "not-utf-8-medium",
            "a medium with the byte ff",
            batch(removed(medium=Raw(b"\xa3G\xffU"))),
        ),
        bad(
            "msgpack",
            "not-utf-8",
            "not-utf-8-surrogate",
            "a LoRA name with an encoded surrogate",
            batch(one(lora_name=Raw(b"\xa3\xed\xa0\x80"))),
        ),
        bad(
            "msgpack",
            "not-utf-8",
            "not-utf-8-overlong",
            "a LoRA name with an overlong slash",
            batch(one(lora_name=Raw(b"\xa2\xc0\xaf"))),
        ),
        bad(
            "msgpack",
            "not-utf-8",
            "not-utf-8-key",
            "an unknown key with the byte 80",
            batch(Pairs((*removed().items(), (Raw(b"\xa1\x80"), 1)))),
        ),
    ]


def batch_payloads() -> list[Bad]:
    """Faults of the array of three."""
    body: list[Any] = [TS, [one()], 0]
    ts: tuple[tuple[str, str, Any], ...] = (
        ("integer", "seconds as an integer", 1735689600),
        ("float32", "a float of four bytes", Float32(1.5)),
        ("nil", "nil", None),
        ("string", "text", "2025-01-01T00:00:00Z"),
        ("true", "true", True),
    )
    ranges: tuple[tuple[str, str, float], ...] = (
        ("nan", "not a number", math.nan),
        ("inf", "infinity", math.inf),
        ("minus-inf", "minus infinity", -math.inf),
        ("negative", "before the epoch", -1.0),
        ("milliseconds", "milliseconds", 1735689600250.0),
        ("limit", "10^11", 1e11),
    )
    ranks: tuple[tuple[str, Any], ...] = (("nil", None), ("string", "0"), ("float", 0.0), ("false", False))
    return [
        bad("schema", "not-an-array", "batch-map", "a map of three", {"ts": TS, "events": [], "data_parallel_rank": 0}),
        bad("schema", "not-an-array", "batch-nil", "nil", None),
        bad("schema", "not-an-array", "batch-integer", "an integer", 147),
        bad("schema", "batch-length", "batch-of-0", "an empty array", []),
        bad("schema", "batch-length", "batch-of-1", "one element", body[:1]),
        bad("schema", "batch-length", "batch-of-2", "no rank", body[:2]),
        bad("schema", "batch-length", "batch-of-4", "a fourth element", [*body, 1]),
        *(
            bad("schema", "ts-type", f"ts-{slug}", f"`ts`: {words}", batch(one(), ts=value))
            for slug, words, value in ts
        ),
        *(
            bad("schema", "ts-range", f"ts-{slug}", f"`ts`: {words}", batch(one(), ts=value))
            for slug, words, value in ranges
        ),
        bad("schema", "events-type", "events-nil", "nil", [TS, None, 0]),
        bad("schema", "events-type", "events-map", "one event without its array", [TS, CLEARED, 0]),
        bad("schema", "events-type", "events-bin", "events encoded once more", [TS, pack([CLEARED]), 0]),
        *(
            bad("schema", "rank-type", f"rank-{slug}", f"rank {value!r}", batch(one(), rank=value))
            for slug, value in ranks
        ),
        *(
            bad("schema", "rank-range", f"rank-{slug}", f"rank {value}", batch(one(), rank=value))
            for slug, value in (("minus-1", -1), ("2e31", 2**31), ("max", 2**64 - 1))
        ),
    ]


def event_payloads() -> list[Bad]:
    """Faults of form, types and keys."""
    without = [
        (event, key)
        for event, keys in (
            (
                "BlockStored",
                ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
            ),
            ("BlockRemoved", ("block_hashes", "medium")),
        )
        for key in keys
    ]
    makers: dict[str, Callable[..., dict[str, Any]]] = {"BlockStored": one, "BlockRemoved": removed}
    return [
        bad("schema", "event-type", "event-array", "an array, tag first", batch(["AllBlocksCleared"])),
        bad("schema", "event-type", "event-bin", "an event encoded once more", batch(pack(CLEARED))),
        bad("schema", "event-type", "event-string", "the type alone", batch("AllBlocksCleared")),
        bad("schema", "event-type", "event-nil", "nil among events", batch(CLEARED, None)),
        bad("schema", "no-type", "type-missing", "an event without `type`", batch(removed(type=...))),
        bad("schema", "no-type", "type-empty-map", "an empty map", batch({})),
        bad("schema", "type-not-string", "type-bin", "`type` as bytes", batch({"type": b"AllBlocksCleared"})),
        bad("schema", "type-not-string", "type-integer", "`type` as an integer", batch({"type": 2})),
        bad("schema", "type-not-string", "type-nil", "`type` is nil", batch({"type": None})),
        bad(
            "schema",
            "key-not-string",
            "key-bin",
            "a key as bytes",
            batch(Pairs((*removed().items(), (b"group_idx", 0)))),
        ),
        bad("schema", "key-not-string", "key-integer", "an integer as key", batch(Pairs((*removed().items(), (7, 0))))),
        bad("schema", "key-not-string", "key-nil", "nil as key", batch(Pairs((*removed().items(), (None, 0))))),
        bad(
            "schema",
            "key-not-string",
            "key-nested",
            "an integer as key inside an unknown value",
            batch(one(zzz=Pairs(((1, 2),)))),
        ),
        bad(
            "schema",
            "key-twice",
            "key-twice-type",
            "`type` twice, equal",
            batch(Pairs((*CLEARED.items(), *CLEARED.items()))),
        ),
        bad(
            "schema",
            "key-twice",
            "key-twice-medium",
            "two media",
            batch(Pairs((*removed(medium="CPU").items(), ("medium", "GPU")))),
        ),
        bad(
            "schema",
            "key-twice",
            "key-twice-unknown",
            "an unknown key twice",
            batch(Pairs((*removed().items(), ("x", 1), ("x", 2)))),
        ),
        bad(
            "schema",
            "key-twice",
            "key-twice-nested",
            "a key twice inside an unknown value",
            batch(one(zzz=Pairs((("a", 1), ("a", 1))))),
        ),
        bad(
            "schema",
            "ext",
            "ext-unknown-key",
            "an ext value under an unknown key",
            batch(removed(zzz=Raw(b"\xd4\x05\xaa"))),
        ),
        bad(
            "schema",
            "ext",
            "ext-timestamp",
            "a msgpack timestamp under an unknown key",
            batch(removed(zzz=Raw(b"\xd6\xff\x67\x74\x85\x80"))),
        ),
        bad(
            "schema",
            "ext",
            "ext-extra-keys",
            "an ext value among extra keys",
            batch(one(extra_keys=[[Raw(b"\xc7\x00\x01")]])),
        ),
        *(
            bad(
                "schema",
                "key-missing",
                f"missing-{'stored' if event == 'BlockStored' else 'removed'}-{key.replace('_', '-')}",
                f"{event} without `{key}`",
                batch(makers[event](**{key: ...})),
            )
            for event, key in without
        ),
    ]
