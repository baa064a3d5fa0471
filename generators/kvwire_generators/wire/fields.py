"""Payloads with one fault in the values of a map, or between them (spec/event.md)."""

from __future__ import annotations

from typing import Any

from kvwire_generators.wire.events import CHILD, CLEARED, DIGEST, MM_HASH, ROOT, batch, one, picture, removed, stored
from kvwire_generators.wire.invalid import Bad, bad, batch_payloads, event_payloads, msgpack_payloads


def _fields() -> list[Bad]:
    hash_values: tuple[tuple[str, str, Any], ...] = (
        ("bin-32", "a key of 32 bytes", bytes(range(32))),
        ("bin-8", "eight bytes", bytes(8)),
        ("string", "decimal text", str(CHILD)),
        ("hex", "hexadecimal text", "756b1d258c63ccc0"),
        ("float", "a float", float(2**40)),
        ("nil", "nil", None),
        ("array", "an array", [CHILD]),
        ("true", "true", True),
    )
    return [
        bad("schema", "hashes-type", "hashes-nil", "`block_hashes` is nil", batch(removed(block_hashes=None))),
        bad(
            "schema", "hashes-type", "hashes-integer", "one hash without its array", batch(removed(block_hashes=CHILD))
        ),
        bad("schema", "hashes-type", "hashes-bin", "hashes as one byte string", batch(removed(block_hashes=bytes(16)))),
        *(
            bad("schema", "hash-type", f"hash-{slug}", f"a hash as {words}", batch(removed(block_hashes=[value])))
            for slug, words, value in hash_values
        ),
        *(
            bad(
                "schema",
                "hash-type",
                f"parent-{slug}",
                f"a parent as {words}",
                batch(one(block_hashes=[CHILD], parent_block_hash=value)),
            )
            for slug, words, value in hash_values
            if value is not None
        ),
        bad("schema", "tokens-type", "tokens-nil", "`token_ids` is nil", batch(one(token_ids=None))),
        bad("schema", "tokens-type", "tokens-bin", "`token_ids` as bytes", batch(one(token_ids=bytes(4)))),
        bad("schema", "token-type", "token-float", "a float among token ids", batch(one(token_ids=[1, 2.0, 3, 4]))),
        bad("schema", "token-type", "token-nil", "nil among token ids", batch(one(token_ids=[1, None, 3, 4]))),
        bad(
            "schema",
            "token-type",
            "token-bin",
            "a digest as 32 bytes",
            batch(picture(token_ids=[1, bytes.fromhex(DIGEST), 32001, 32002])),
        ),
        bad("schema", "token-range", "token-minus-1", "a token id of −1", batch(one(token_ids=[1, -1, 3, 4]))),
        bad("schema", "token-range", "token-2e32", "a token id of 2^32", batch(one(token_ids=[1, 2**32, 3, 4]))),
        bad("schema", "token-range", "token-2e60", "a token id of 2^60", batch(one(token_ids=[1, 2**60, 3, 4]))),
        bad(
            "schema",
            "digest-string",
            "digest-63",
            "63 digits",
            batch(picture(token_ids=[1, DIGEST[:63], 32001, 32002])),
        ),
        bad(
            "schema",
            "digest-string",
            "digest-65",
            "65 digits",
            batch(picture(token_ids=[1, DIGEST + "a", 32001, 32002])),
        ),
        bad(
            "schema",
            "digest-string",
            "digest-g",
            "a letter that is no digit",
            batch(picture(token_ids=[1, "g" + DIGEST[1:], 32001, 32002])),
        ),
        bad(
            "schema",
            "digest-string",
            "digest-line-end",
            "64 digits and a line end",
            batch(picture(token_ids=[1, DIGEST + "\n", 32001, 32002])),
        ),
        bad(
            "schema",
            "digest-string",
            "digest-decimal",
            "a token id as text",
            batch(picture(token_ids=[1, "32000", 32001, 32002])),
        ),
        bad(
            "schema",
            "mm-keys-missing",
            "mm-keys-missing",
            "a digest token without `mm_keys`",
            batch(picture(mm_keys=...)),
        ),
        bad(
            "schema",
            "mm-keys-missing",
            "mm-keys-nil",
            "a digest token with `mm_keys` nil",
            batch(picture(mm_keys=None)),
        ),
        bad(
            "schema",
            "mm-key-type",
            "mm-key-no-hash",
            "an `mm_key` without `hash`",
            batch(picture(mm_keys=[[{"type": "mm_key", "start_offset": 0}]])),
        ),
        bad(
            "schema",
            "mm-key-type",
            "mm-key-no-offset",
            "an `mm_key` without `start_offset`",
            batch(picture(mm_keys=[[{"type": "mm_key", "hash": DIGEST}]])),
        ),
        bad(
            "schema",
            "mm-key-type",
            "mm-key-hash-63",
            "a hash of 63 digits",
            batch(picture(mm_keys=[[{"type": "mm_key", "hash": DIGEST[:63], "start_offset": 0}]])),
        ),
        bad(
            "schema",
            "mm-key-type",
            "mm-key-offset-negative",
            "an offset of −1",
            batch(picture(mm_keys=[[{"type": "mm_key", "hash": DIGEST, "start_offset": -1}]])),
        ),
        bad(
            "schema",
            "mm-keys-type",
            "mm-keys-flat",
            "keys without a list per block",
            batch(picture(mm_keys=[{"type": "mm_key", "hash": DIGEST, "start_offset": 0}])),
        ),
        *(
            bad(
                "schema",
                "mm-key-type",
                f"mm-key-{slug}",
                words,
                batch(picture(mm_keys=[[{"type": "mm_key", "hash": DIGEST, "start_offset": 0, **more}]])),
            )
            for slug, words, more in (
                ("other-type", "an `mm_key` of another `type`", {"type": "image"}),
                ("uuid-integer", "a `uuid` that is an integer", {"uuid": 7}),
                ("uuid-nil", "a `uuid` that is nil", {"uuid": None}),
                ("other-key", "an `mm_key` with a key that it does not have", {"length": 3}),
                ("offset-string", "an offset as text", {"start_offset": "0"}),
            )
        ),
        bad("schema", "mm-key-type", "mm-key-nil", "nil in a list of keys", batch(picture(mm_keys=[[None]]))),
        *(
            bad("schema", "extra-keys-type", f"extra-keys-{slug}", words, batch(stored(extra_keys=value)))
            for slug, words, value in (
                ("flat", "the extra keys of all blocks in a row", ["adapter-7", "adapter-7"]),
                ("string", "extra keys as text", "adapter-7"),
                ("map", "extra keys as a map", {"0": []}),
                ("integer", "an integer among the elements", [[], 7]),
                ("maps", "maps as elements", [{"type": "lora"}, None]),
            )
        ),
        *(
            bad("schema", "scope-form", f"scope-{slug}", words, batch(one(scope=value)))
            for slug, words, value in (
                ("clear", "the text of the salt where its tag belongs", "tenant-a"),
                ("capitals", "a tag in capitals", "5E40B1FECA4586CB"),
                ("15", "15 digits", "5e40b1feca4586c"),
                ("17", "17 digits", "5e40b1feca4586cb0"),
                ("digest", "the whole digest", DIGEST),
                ("line-end", "16 digits and a line end", "5e40b1feca4586cb\n"),
                ("empty", "no digits", ""),
            )
        ),
        bad("schema", "block-size-type", "block-size-nil", "`block_size` is nil", batch(one(block_size=None))),
        bad("schema", "block-size-type", "block-size-float", "`block_size` as a float", batch(one(block_size=4.0))),
        bad("schema", "block-size-type", "block-size-string", "`block_size` as text", batch(one(block_size="4"))),
        *(
            bad("schema", "no-tokens", f"location-{slug}", words, batch(one(token_ids=[], block_size=0, **more)))
            for slug, words, more in (
                ("gpu", "a location update for the device", {}),
                ("nil", "a location update without a medium", {"medium": None}),
                ("parent", "a location update with a parent", {"medium": "CPU", "parent_block_hash": CHILD}),
            )
        ),
        bad("schema", "block-size-range", "block-size-minus-4", "`block_size` −4", batch(one(block_size=-4))),
        bad("schema", "medium-type", "medium-integer", "`medium` as an integer", batch(removed(medium=1))),
        bad("schema", "medium-type", "medium-bin", "`medium` as bytes", batch(removed(medium=b"GPU"))),
        bad("schema", "medium-empty", "medium-empty", "`medium` is empty", batch(removed(medium=""))),
        bad("schema", "field-type", "lora-id-string", "`lora_id` as text", batch(one(lora_id="7"))),
        bad("schema", "field-type", "lora-id-float", "`lora_id` as a float", batch(one(lora_id=7.0))),
        bad("schema", "field-type", "lora-name-integer", "`lora_name` as an integer", batch(one(lora_name=7))),
        bad("schema", "field-type", "group-string", "`group_idx` as text", batch(removed(group_idx="0"))),
        bad(
            "schema",
            "field-type",
            "window-float",
            "the window as a float",
            batch(one(kv_cache_spec_sliding_window=128.0)),
        ),
        bad("schema", "field-type", "kind-integer", "the kind as an integer", batch(one(kv_cache_spec_kind=1))),
        bad("schema", "field-type", "algo-integer", "`hash_algo` as an integer", batch(one(hash_algo=2))),
        *(
            bad(
                "schema",
                "field-type",
                f"{key.replace('_', '-')}-integer",
                f"`{key}` as an integer",
                batch(one(**{key: 7})),
            )
            for key in ("locality", "ownership", "scope", "session_id")
        ),
        bad("schema", "field-type", "ownership-bin", "an owner as bytes", batch(removed(ownership=b"x"))),
        bad("schema", "field-type", "epoch-integer", "an epoch as an integer", batch({**CLEARED, "epoch": 7})),
        bad(
            "schema",
            "field-type",
            "cleared-ownership",
            "the owner of a clear as a map",
            batch({**CLEARED, "ownership": {}}),
        ),
        bad(
            "schema",
            "medium-type",
            "cleared-medium-integer",
            "the medium of a clear as an integer",
            batch({**CLEARED, "medium": 1}),
        ),
        bad(
            "schema",
            "medium-empty",
            "cleared-medium-empty",
            "a clear of the empty medium",
            batch({**CLEARED, "medium": ""}),
        ),
        bad("schema", "field-range", "lora-id-minus-1", "a LoRA id of −1", batch(one(lora_id=-1))),
        bad("schema", "field-range", "lora-id-min", "a LoRA id of −2^63", batch(one(lora_id=-(2**63)))),
        bad("schema", "field-range", "group-minus-1", "group −1", batch(removed(group_idx=-1))),
        bad("schema", "field-range", "window-minus-1", "a window of −1", batch(one(kv_cache_spec_sliding_window=-1))),
        bad("schema", "v-type", "v-string", "`v` as text", batch({**CLEARED, "v": "1"})),
    ]


def _semantics() -> list[Bad]:
    key = {"type": "mm_key", "hash": DIGEST, "start_offset": 0}
    return [
        bad(
            "semantics",
            "token-count",
            "tokens-too-few",
            "three tokens for a block of four",
            batch(one(token_ids=[1, 2, 3])),
        ),
        bad(
            "semantics",
            "token-count",
            "tokens-too-many",
            "five tokens for a block of four",
            batch(one(token_ids=[1, 2, 3, 4, 5])),
        ),
        bad(
            "semantics",
            "token-count",
            "tokens-of-two-blocks",
            "a hash too few",
            batch(one(token_ids=[1, 2, 3, 4, 5, 6, 7, 8])),
        ),
        bad(
            "semantics", "token-count", "tokens-of-one-block", "a hash too many", batch(stored(token_ids=[1, 2, 3, 4]))
        ),
        bad("semantics", "token-count", "tokens-none", "no tokens", batch(one(token_ids=[]))),
        bad(
            "semantics", "no-hashes", "no-hashes", "no hashes and no tokens", batch(one(block_hashes=[], token_ids=[]))
        ),
        bad(
            "semantics",
            "mm-keys-count",
            "mm-keys-too-few",
            "one list of keys for two blocks",
            batch(
                stored(block_hashes=[MM_HASH, CHILD], token_ids=[1, DIGEST, 32001, 32002, 5, 6, 7, 8], mm_keys=[[key]])
            ),
        ),
        *(
            bad("semantics", "extra-keys-count", f"extra-keys-{slug}", words, batch(stored(extra_keys=value)))
            for slug, words, value in (
                ("short", "extra keys of one block of two", [["adapter-7"]]),
                ("long", "extra keys of three blocks of two", [[], [], []]),
                ("empty", "no element of two", []),
            )
        ),
        bad("semantics", "mm-keys-count", "mm-keys-none", "no list of keys for one block", batch(picture(mm_keys=[]))),
        bad(
            "semantics",
            "mm-key-content",
            "mm-key-missing",
            "a digest token without its key",
            batch(picture(mm_keys=[[]])),
        ),
        bad(
            "semantics",
            "mm-key-content",
            "mm-key-other-digest",
            "a key with another digest than the token's",
            batch(picture(mm_keys=[[{**key, "hash": "cd" * 32}]])),
        ),
        bad(
            "semantics",
            "mm-key-content",
            "mm-key-offset-1",
            "the key of a digest token with an offset of 1",
            batch(picture(mm_keys=[[{**key, "start_offset": 1}]])),
        ),
        bad(
            "semantics",
            "mm-key-content",
            "mm-key-0-again",
            "an offset of 0 in the block in which an item goes on",
            batch(
                stored(
                    block_hashes=[MM_HASH, CHILD],
                    token_ids=[1, DIGEST, 32001, 32002, 32003, 6, 7, 8],
                    mm_keys=[[key], [key]],
                )
            ),
        ),
        bad(
            "semantics",
            "own-parent",
            "own-parent",
            "a block that is its own parent",
            batch(one(parent_block_hash=ROOT)),
        ),
        bad(
            "semantics",
            "own-parent",
            "own-parent-unsigned",
            "its own parent, once signed and once not",
            batch(one(parent_block_hash=ROOT + 2**64)),
        ),
        bad(
            "semantics",
            "hash-twice",
            "hash-twice",
            "one hash for two blocks of a chain",
            batch(stored(block_hashes=[CHILD, CHILD])),
        ),
        bad(
            "semantics",
            "hash-twice",
            "hash-twice-signs",
            "one hash for two blocks, once signed and once not",
            batch(stored(block_hashes=[ROOT, ROOT + 2**64])),
        ),
        bad(
            "semantics",
            "hash-twice",
            "hash-twice-parent",
            "the parent of the first block is the second",
            batch(stored(parent_block_hash=CHILD)),
        ),
        bad("semantics", "salt-in-clear", "salt-in-clear", "a key `cache_salt`", batch(one(cache_salt="tenant-a"))),
        bad(
            "semantics",
            "token-range",
            "token-2e31-u32",
            "an id of 2^31 under four-byte hashing",
            batch(one(token_ids=[1, 2, 3, 2**31], hash_algo="v2_sha256_64/u32")),
        ),
        bad(
            "semantics",
            "announced-twice",
            "algo-two",
            "two functions in one batch",
            batch(one(hash_algo="v2_sha256_64/u32"), removed(block_hashes=[ROOT], hash_algo="v1_block_key")),
        ),
    ]


def payloads() -> list[tuple[str, str, list[Bad]]]:
    """Each section with its payloads."""
    return [
        ("msgpack", "The bytes are not one well-formed value.", msgpack_payloads()),
        ("batches", "The array of three.", batch_payloads()),
        ("events", "Form, types, keys.", event_payloads()),
        ("fields", "Values of keys.", _fields()),
        ("semantics", "What relates values to each other.", _semantics()),
    ]
