"""Payloads that a reader takes, by the values in them: hashes, tokens, media and so on (spec/event.md)."""

from __future__ import annotations

from kvwire_generators.wire.events import (
    CHILD,
    CLEARED,
    DIGEST,
    MM_HASH,
    ROOT,
    Payload,
    batch,
    batch_payloads,
    one,
    p,
    picture,
    removed,
    removed_payloads,
    stored,
    stored_payloads,
)
from kvwire_generators.wire.msgpack_forms import pack


def hash_payloads() -> list[Payload]:
    """Hashes."""
    r = ("KVW-EVT-007",)
    values = (
        ("min", -(2**63)),
        ("min-plus-1", -(2**63) + 1),
        ("2e32", 2**32),
        ("2e53-plus-1", 2**53 + 1),
        ("i63-max", 2**63 - 1),
        ("minus-2e32", -(2**32)),
        ("minus-2e53-minus-1", -(2**53) - 1),
    )
    small = (
        ("1", 1),
        ("127", 127),
        ("128", 128),
        ("65535", 65535),
        ("2e31", 2**31),
        ("2e32-1", 2**32 - 1),
        ("minus-1", -1),
        ("minus-33", -33),
        ("minus-2e31", -(2**31)),
    )
    return [
        *(
            p(f"hash-{name}", f"a hash of {value}", batch(one(block_hashes=[value])), *r, flags="big-integer")
            for name, value in values
        ),
        *(
            p(f"hash-{name}", f"a hash of {value}: fewer than nine bytes", batch(one(block_hashes=[value])), *r)
            for name, value in small
        ),
        p("hash-parent-negative", "a negative parent", batch(one(block_hashes=[CHILD], parent_block_hash=-1)), *r),
        p(
            "hash-2e63",
            "unsigned, 2^63",
            batch(one(block_hashes=[2**63])),
            *r,
            "KVW-EVT-008",
            flags="should big-integer",
        ),
        p(
            "hash-max",
            "unsigned, 2^64−1, the same hash as −1",
            batch(one(block_hashes=[2**64 - 1])),
            *r,
            "KVW-EVT-008",
            "KVW-HSH-010",
            flags="should big-integer",
        ),
        p(
            "hash-parent-unsigned",
            "an unsigned parent",
            batch(one(block_hashes=[CHILD], parent_block_hash=ROOT + 2**64)),
            *r,
            "KVW-EVT-008",
            flags="should big-integer",
        ),
        p("hash-0", "a hash of 0", batch(one(block_hashes=[0])), *r, "KVW-EVT-009", flags="should"),
        p(
            "hash-parent-0",
            "a parent of 0, which is a hash and not the absence of one",
            batch(one(block_hashes=[CHILD], parent_block_hash=0)),
            "KVW-CHN-005",
            "KVW-EVT-009",
            flags="should",
        ),
    ]


def token_payloads() -> list[Payload]:
    """Token ids, digest tokens and multimodal keys."""
    r = ("KVW-EVT-010",)
    mm = ("KVW-EVT-011", "KVW-EVT-012")
    key = {"type": "mm_key", "hash": DIGEST, "start_offset": 0}
    return [
        p("tokens-extremes", "0, 2^31−1, 2^31 and 2^32−1", batch(one(token_ids=[0, 2**31 - 1, 2**31, 2**32 - 1])), *r),
        p(
            "tokens-widths",
            "ids where msgpack changes its width",
            batch(one(token_ids=[127, 128, 255, 256, 65535, 65536, 2**24, 2**31], block_size=8)),
            *r,
        ),
        p("mm-digest", "a digest token, the standard's example", batch(picture()), *mm),
        p("mm-capitals", "a digest in capitals", batch(picture(token_ids=[1, "AB" * 32, 32001, 32002])), *mm),
        p("mm-digest-only", "a block of one digest token", batch(picture(token_ids=[DIGEST], block_size=1)), *mm),
        p(
            "mm-digits",
            "a digest of decimal digits only: a string still",
            batch(picture(token_ids=[1, "12" * 32, 3, 4], mm_keys=[[{**key, "hash": "12" * 32}]])),
            *mm,
        ),
        p(
            "mm-second-block",
            "an item that goes on in the second block",
            batch(
                stored(
                    block_hashes=[MM_HASH, CHILD],
                    token_ids=[1, DIGEST, 32001, 32002, 32003, 6, 7, 8],
                    mm_keys=[[key], [{**key, "start_offset": 3}]],
                )
            ),
            *mm,
        ),
        p(
            "mm-text-block",
            "a text block beside a multimodal one",
            batch(
                stored(
                    block_hashes=[MM_HASH, CHILD], token_ids=[1, DIGEST, 32001, 32002, 5, 6, 7, 8], mm_keys=[[key], []]
                )
            ),
            *mm,
        ),
        p(
            "mm-two-items",
            "two items in one block",
            batch(picture(token_ids=[1, DIGEST, "cd" * 32, 4], mm_keys=[[key, {**key, "hash": "cd" * 32}]])),
            *mm,
        ),
        p("mm-uuid", "an item with a name", batch(picture(mm_keys=[[{**key, "uuid": "holiday.png"}]])), *mm),
        p("mm-keys-without-digest", "the digest token is not sent in clear", batch(one(mm_keys=[[key]]))),
        p("mm-keys-empty", "text only, with keys all the same", batch(stored(mm_keys=[[], []]))),
        p("mm-offset-large", "an offset of 2^32", batch(one(mm_keys=[[{**key, "start_offset": 2**32}]]))),
        p(
            "mm-stretches",
            "an item in two stretches of one block",
            batch(picture(token_ids=[DIGEST, 7, 32001, 8], mm_keys=[[key, {**key, "start_offset": 1}]])),
            *mm,
            "KVW-EVT-031",
        ),
    ]


def medium_payloads() -> list[Payload]:
    """Media."""
    r = ("KVW-EVT-015",)
    unknown = ("cpu", "CPU_PINNED", "FS", "SHARED_STORAGE", "gpu", "Gpu", "x", "X-mine")
    return [
        *(
            p(f"medium-{name.lower()}", f"the medium {name}", batch(one(medium=name)), *r, "KVW-EVT-016")
            for name in ("GPU", "CPU", "DISK", "STORAGE", "EXTERNAL", "REMOTE")
        ),
        p("medium-x", "a name of one's own", batch(one(medium="x-tape")), *r, "KVW-EVT-016"),
        p("medium-nil", "the unspecified medium", batch(one(medium=None)), *r),
        *(
            p(
                f"medium-unknown-{n}",
                f"the unknown medium {name!r}: not GPU",
                batch(one(medium=name)),
                "KVW-EVT-016",
                "KVW-EVT-027",
                flags="should",
            )
            for n, name in enumerate(unknown)
        ),
    ]


def addition_payloads() -> list[Payload]:
    """Announcements, unknown keys and unknown types."""
    algo, version = ("KVW-HSH-009",), ("KVW-EVT-018",)
    labels = (
        "v2_sha256_64/u32",
        "v2_sha256_64/u64",
        "v2_sha256_64",
        "v1_block_key",
        "v2_sha256_low64/u32",
        "v2_sha256_low64/u64",
        "opaque",
        "x-vllm-sha256-cbor",
        "x-vllm-sha256",
        "x-sglang-sha256",
        "x-dynamo-xxh3",
    )
    hashes = (ROOT, -3008348362083223407, ROOT, 924206229973855, 7268031767258001523, -4334532364010307023, 2**40)
    true = dict(zip(labels, hashes, strict=False))
    return [
        *(
            p(f"algo-{n}", f"announces {label}", batch(one(block_hashes=[true[label]], hash_algo=label)), *algo)
            for n, label in enumerate(labels[:7])
        ),
        p(
            "algo-foreign",
            "announces a function of another project",
            batch(one(block_hashes=[-4977211910723114241], token_ids=[0, 1, 2, 3], hash_algo="x-sglang-sha256")),
            *algo,
        ),
        p("v-1", "says that it follows edition 1", batch(one(v=1)), *version),
        p("v-2", "says that it follows another edition, which a reader may not know", batch(one(v=2)), *version),
        p("key-unknown", "an unknown key", batch(one(zzz="s1")), "KVW-EVT-023", flags="unknown-key"),
        p(
            "key-unknown-nested",
            "an unknown key with a value of every kind",
            batch(one(zzz={"a": [1, None, True, 2.5, b"\x00", "t", -(2**60)], "b": {}})),
            "KVW-EVT-023",
            flags="unknown-key big-integer",
        ),
        p(
            "key-unknown-hex",
            "an unknown map that looks like bytes of the projection",
            batch(one(zzz={"hex": "00"})),
            "KVW-EVT-023",
            flags="unknown-key",
        ),
        p(
            "key-unknown-int",
            "an unknown map that looks like an integer of the projection",
            batch(one(zzz={"int": "5"})),
            "KVW-EVT-023",
            flags="unknown-key",
        ),
        p(
            "key-unknown-removed",
            "an unknown key in a removal",
            batch(removed(zzz="x")),
            "KVW-EVT-023",
            flags="unknown-key",
        ),
        p(
            "key-unknown-cleared",
            "an unknown key in a clear, which clears everything",
            batch({**CLEARED, "tier": "CPU"}),
            "KVW-EVT-023",
            flags="unknown-key",
        ),
        p(
            "key-unknown-sorted",
            "unknown keys follow the known ones, by code point",
            batch(one(é=1, Z=2, a=3, **{"": 4})),
            "KVW-EVT-023",
            flags="unknown-key",
        ),
        p(
            "type-unknown",
            "an unknown event alone",
            batch({"type": "BlockMigrated", "x": 1}),
            "KVW-EVT-024",
            flags="unknown-type",
        ),
        p(
            "type-unknown-between",
            "an unknown event between two known ones",
            batch(one(), {"type": "BlockMigrated", "block_hashes": [ROOT]}, removed(block_hashes=[ROOT])),
            "KVW-EVT-024",
            "KVW-EVT-034",
            flags="should unknown-type",
        ),
        p(
            "type-case",
            "types are told apart by case",
            batch({"type": "blockstored"}),
            "KVW-EVT-024",
            flags="unknown-type",
        ),
        p("type-empty", "an empty type", batch({"type": ""}), "KVW-EVT-024", flags="unknown-type"),
    ]


SECTIONS: tuple[tuple[str, str, list[Payload]], ...] = (
    ("batches", "Time, rank and order.", batch_payloads()),
    ("BlockStored", "Full blocks became resident.", stored_payloads()),
    ("BlockRemoved and AllBlocksCleared", "Blocks are gone.", removed_payloads()),
    ("hashes", "64 bits, signed where possible.", hash_payloads()),
    ("tokens and multimodal content", "Ids, digest tokens, keys of items.", token_payloads()),
    ("media", "Where blocks are resident.", medium_payloads()),
    ("announcements, unknown keys and types", "What a reader has to put up with.", addition_payloads()),
)


def payloads() -> list[tuple[str, str, list[tuple[Payload, bytes]]]]:
    """Each section with its payloads and their bytes in shortest form."""
    return [(name, comment, [(item, pack(item.value)) for item in items]) for name, comment, items in SECTIONS]
