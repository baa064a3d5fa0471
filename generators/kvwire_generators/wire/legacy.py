"""Payloads in the legacy forms that the standard freezes (spec/legacy.md): invalid in edition 1."""

from __future__ import annotations

from typing import Any

from kvwire.vectors.model import Note
from kvwire_generators.wire.events import CHILD, CLEARED, MM_HASH, ROOT, TS, one, removed, stored
from kvwire_generators.wire.invalid import Bad
from kvwire_generators.wire.msgpack_forms import pack

_LINK = ("legacy.md",)


def _note(text: str) -> Note:
    return Note(kind="legacy", description=text, links=_LINK)


NOTES = {
    "array-v": _note("array events as vLLM wrote them until June 2026"),
    "array-s": _note("array events as SGLang wrote them until about September 2026"),
    "array": _note("array events that both forms have in common, or neither"),
    "hash-bytes": _note("hashes as bytes"),
    "bigrams": _note("pairs of tokens"),
    "not-full": _note("blocks that are not full, masked or without tokens"),
    "batch-form": _note("another batch than an array of three with a float64 in front"),
    "wrapped": _note("each event encoded once more"),
    "map-salt": _note("a salt in clear under a key of its own"),
}


def _legacy(slug: str, comment: str, form: str, fault: str, value: Any, *also: str) -> Bad:
    return Bad(
        slug=f"legacy-{slug}", comment=comment, payload=pack(value), fault=fault, layer="schema", form=form, also=also
    )


def _semantic(slug: str, comment: str, form: str, fault: str, value: Any, *also: str) -> Bad:
    return Bad(
        slug=f"legacy-{slug}",
        comment=comment,
        payload=pack(value),
        fault=fault,
        layer="semantics",
        form=form,
        also=also,
    )


def _array(*slots: Any) -> list[Any]:
    return [TS, [["BlockStored", [ROOT], None, [1, 2, 3, 4], 4, *slots]], 0]


def payloads() -> list[tuple[str, str, list[Bad]]]:
    """Each section with its payloads."""
    tag = "event-type"
    arrays = [
        _legacy("array-6", "six slots, to `lora_id`: common to both forms", "array", tag, _array(None)),
        _legacy("array-7", "seven slots, to `medium`: common to both forms", "array", tag, _array(None, "GPU")),
        _legacy("array-5", "five slots, without `lora_id`: neither form", "array", tag, _array()),
        _legacy("array-v-8", "eight slots, to `lora_name`", "array-v", tag, _array(7, "GPU", "adapter")),
        _legacy("array-v-8-nil", "eight slots, `lora_name` nil", "array-v", tag, _array(None, "GPU", None)),
        _legacy("array-v-9", "nine slots, to `extra_keys`", "array-v", tag, _array(None, "GPU", None, [["s1"]])),
        _legacy("array-v-10", "ten slots, to `group_idx`", "array-v", tag, _array(None, "GPU", None, [None], 0)),
        _legacy(
            "array-v-12", "twelve slots", "array-v", tag, _array(None, "GPU", None, None, 0, "full_attention", None)
        ),
        _legacy(
            "array-v-12-nil", "twelve slots, all nil", "array-v", tag, _array(None, "GPU", None, None, None, None, None)
        ),
        _legacy(
            "array-s-8",
            "eight slots: the map with the salt in clear",
            "array-s",
            tag,
            _array(None, "GPU", {"cache_salt": "t"}),
            "salt-in-clear",
        ),
        _legacy("array-removed-2", "a removal of two slots", "array", tag, [TS, [["BlockRemoved", [CHILD]]], 0]),
        _legacy(
            "array-removed-3", "a removal of three slots", "array", tag, [TS, [["BlockRemoved", [CHILD], "GPU"]], 0]
        ),
        _legacy(
            "array-v-removed-4",
            "a removal of four slots",
            "array-v",
            tag,
            [TS, [["BlockRemoved", [CHILD], "GPU", 0]], 0],
        ),
        _legacy("array-cleared", "a clear of one slot", "array", tag, [TS, [["AllBlocksCleared"]], 0]),
        _legacy(
            "array-cleared-medium",
            "a clear with a medium: neither form",
            "array",
            tag,
            [TS, [["AllBlocksCleared", "CPU"]], 0],
        ),
        _legacy(
            "array-transferred",
            "a fourth event: neither form",
            "array",
            tag,
            [TS, [["BlockTransferred", [CHILD], "GPU", "CPU"]], 0],
        ),
        _legacy(
            "array-and-map",
            "an array and a map in one batch",
            "mixed",
            tag,
            [TS, [["BlockStored", [ROOT], None, [1, 2, 3, 4], 4, None, "GPU"], removed()], 0],
        ),
        _legacy("array-empty", "an array without a tag", "array", tag, [TS, [[]], 0]),
    ]
    key = bytes.fromhex("e432228522a304ab556d66e6e40979ad05575f28b19b554264dd3c6277aaf073")
    hashes = [
        _legacy(
            "hash-bytes-32",
            "the key of 32 bytes in place of the hash",
            "hash-bytes",
            "hash-type",
            [TS, [one(block_hashes=[key])], 0],
        ),
        _legacy("hash-bytes-8", "eight bytes", "hash-bytes", "hash-type", [TS, [removed(block_hashes=[key[:8]])], 0]),
        _legacy(
            "hash-bytes-parent",
            "hash and parent as bytes",
            "hash-bytes",
            "hash-type",
            [TS, [one(block_hashes=[key], parent_block_hash=key[::-1])], 0],
        ),
        _legacy(
            "bigrams",
            "pairs of tokens",
            "bigrams",
            "token-type",
            [TS, [one(token_ids=[[1, 2], [2, 3], [3, 4], [4, 5]])], 0],
        ),
        _legacy(
            "map-salt",
            "a salt in clear, no `lora_name`",
            "map-salt",
            "key-missing",
            [TS, [one(lora_name=..., cache_salt="t")], 0],
            "salt-in-clear",
        ),
    ]
    blocks = [
        _semantic(
            "masked",
            "one hash for two blocks of tokens: the first is masked",
            "not-full",
            "token-count",
            [TS, [stored(block_hashes=[CHILD])], 0],
        ),
        _semantic(
            "masked-all",
            "tokens without a hash: all blocks are masked",
            "not-full",
            "no-hashes",
            [TS, [one(block_hashes=[])], 0],
        ),
        _legacy(
            "placeholder",
            "no tokens, block size 0, on the device, where nothing is a location update",
            "not-full",
            "block-size-range",
            [TS, [one(token_ids=[], block_size=0)], 0],
            "token-count",
        ),
        _legacy(
            "tokenless",
            "`token_ids` and `block_size` are nil",
            "not-full",
            "tokens-type",
            [TS, [one(token_ids=None, block_size=None)], 0],
            "block-size-type",
        ),
    ]
    batches = [
        _legacy("batch-2", "two elements, array events", "batch-form", "batch-length", _array(None)[:2], "event-type"),
        _legacy("batch-rank-nil", "rank nil", "batch-form", "rank-type", [TS, [one()], None]),
        _legacy(
            "batch-milliseconds", "`ts` as integer milliseconds", "batch-form", "ts-type", [1735689600250, [one()], 0]
        ),
        _legacy(
            "batch-map",
            "the batch as a map",
            "batch-form",
            "not-an-array",
            {"ts": TS, "events": [CLEARED], "data_parallel_rank": 0},
        ),
        _legacy(
            "wrapped",
            "an event encoded once more, as bytes",
            "wrapped",
            "event-type",
            [TS, [pack(["BlockStored", [MM_HASH], 0, [], 0, None, "SHARED_STORAGE"])], 0],
        ),
    ]
    return [
        ("array events", "The tag in front, then slots.", arrays),
        ("hashes, tokens and keys", "Maps with values of another kind.", hashes),
        ("blocks that are not full", "Partial, masked and empty.", blocks),
        ("batches", "Two elements, nil, milliseconds, maps.", batches),
    ]
