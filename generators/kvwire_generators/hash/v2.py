"""The cases of chained SHA-256: ``v2_sha256``, ``v2_sha256_64`` and ``v2_sha256_low64``."""

from __future__ import annotations

from typing import Literal

from kvwire.vectors.model import Run
from kvwire_generators.hash.cases import SCOPE, Case, Where, case, digest, ids
from kvwire_generators.hash.digests import digest_cases, seam_cases
from kvwire_generators.hash.shared import U32, chain_cases, scope_cases, size_cases, token_cases, wide_token_cases
from kvwire_generators.making import quote

Cut = Literal["first", "last"]

SHAPES: dict[tuple[int, Cut], dict[str, int]] = {
    (4, "first"): {"positive": 0, "negative": 1, "leading-zero": 161, "two-leading-zeros": 413818, "leading-ff": 70},
    (8, "first"): {"positive": 2, "negative": 0, "leading-zero": 166, "two-leading-zeros": 41012, "leading-ff": 88},
    (4, "last"): {"positive": 0, "negative": 5, "leading-zero": 776, "two-leading-zeros": 50574, "leading-ff": 53},
    (8, "last"): {"positive": 0, "negative": 1, "leading-zero": 58, "two-leading-zeros": 5063, "leading-ff": 190},
}
"""First tokens of blocks (n, 2, 3, 4) whose hashes have a shape, by token width and truncation; found by trying."""

KEYS = (
    ("zeros", "00" * 32),
    ("ones", "ff" * 32),
    ("high", "80" + digest("high")[2:]),
    ("low", "7f" + digest("low")[2:]),
)


def known_cases(width: int) -> list[Case]:
    """The known answers, and the chain of the standard's worked example."""
    flags = "known-answer worked-example" if width == 4 else "known-answer"
    both = [
        case("known-1", "first block, no scope", flags, (1, 2, 3, 4), 4),
        case("known-2", "its child", f"{flags} chain-2", (1, 2, 3, 4, 5, 6, 7, 8), 4),
    ]
    scoped = [
        case("known-lora", "first block with LoRA", "known-answer", (1, 2, 3, 4), 4, lora_id="7"),
        case("known-salt", "first block with salt", "known-answer", (1, 2, 3, 4), 4, salt_id="123"),
        case("known-both", "first block with both", "known-answer", (1, 2, 3, 4), 4, **SCOPE),
    ]
    return both + scoped * (width == 4)


def range_cases(width: int) -> list[Case]:
    """Ids at and beyond the range, and digests that are none."""
    wide = wide_token_cases()
    if width == 4:
        open_ = quote("hashing.md", "An id of 2^31 or more hashes without complaint, and is a range error.")
        wide = [
            case(
                c.slug,
                c.comment,
                " ".join(c.flags),
                c.given.tokens,
                c.given.block_size or 1,
                cites=open_,
                requirements=("KVW-EVT-010",),
            )
            for c in wide
        ]
        wide.append(
            case(
                "token-over",
                "an id of 2^32 does not fit four bytes",
                "token-over",
                (1, 2, 3, 2**32),
                4,
                fault="token-range",
                requirements=("KVW-EVT-010",),
            )
        )
    else:
        wide.append(
            case("token-i31-seam", "600 ids from 2^31 on", "token-2e31", (Run(start=2**31, count=600, step=7),), 600)
        )
        wide.append(case("token-u32-down", "ids just below 2^32", "token-u32-max", (U32, U32 - 1, U32 - 2, U32 - 3), 4))
    return [
        *wide,
        case(
            "token-negative",
            "an id of −1",
            "token-negative",
            (1, -1, 3, 4),
            4,
            fault="token-range",
            requirements=("KVW-EVT-010",),
        ),
        case(
            "digest-short",
            "a digest of 31 bytes",
            "",
            (1, digest("short")[:62], 3, 4),
            4,
            fault="digest-length",
            requirements=("KVW-EVT-011",),
        ),
        case(
            "digest-long",
            "a digest of 33 bytes",
            "",
            (1, digest("long") + "00", 3, 4),
            4,
            fault="digest-length",
            requirements=("KVW-EVT-011",),
        ),
    ]


def key_cases() -> list[Case]:
    """Chains that are joined at a parent's key."""
    cases = []
    for name, key in KEYS:
        slug = f"parent-key-{name}"
        cases.append(case(slug, f"behind a key {key[:4]}…", slug, ids(slug, 4), 4, parent_key=key))
    cases.append(
        case(
            "parent-key-chain",
            "two blocks behind a key",
            "parent-key-high chain-2",
            ids("pkc", 8),
            4,
            parent_key=KEYS[2][1],
        )
    )
    return cases


def shape_cases(width: int, cut: Cut) -> list[Case]:
    """Hashes of every shape."""
    return [
        case(f"hash-{name}", f"hash of shape {name}", f"hash-{name}", (at, 2, 3, 4), 4)
        for name, at in SHAPES[width, cut].items()
    ]


def framing_cases(width: int) -> list[Case]:
    """Different tokens with equal bytes: why width and block size are constant."""
    plain = bytes(range(32))
    words = tuple(int.from_bytes(plain[at : at + 4], "little") for at in range(0, 32, 4))
    tokens = (7, 0, 9, 0) if width == 4 else (7, 9)
    cases = [
        case(
            "framing-width", "equals the hash of the same name at the other width", "framing-width", tokens, len(tokens)
        ),
        case("framing-digest", "a digest of 00 01 … 1f", "framing-digest digest-only", (plain.hex(),), 1),
    ]
    if width == 4:
        cases.append(
            case(
                "framing-words",
                "the eight ids that look like the digest of `framing-digest`",
                "framing-digest size-8",
                words,
                8,
            )
        )
    return cases


def full_cases(width: int) -> list[Case]:
    """Everything: for ``v2_sha256_64``."""
    return [
        *known_cases(width),
        *token_cases(),
        *range_cases(width),
        *size_cases(),
        *chain_cases(),
        *scope_cases(),
        *digest_cases(),
        *seam_cases(width),
        *key_cases(),
        *shape_cases(width, "first"),
        *framing_cases(width),
    ]


KEY_SLUGS = frozenset(
    {
        "salt-max-child",
        "both-chain-3",
        "token-2e31-last",
        "token-u32-max-one",
        "token-mixed-u32",
        "known-1",
        "known-2",
        "known-lora",
        "known-salt",
        "known-both",
        "token-0",
        "token-i31-max",
        "token-u32-max",
        "size-1",
        "size-16",
        "size-512",
        "size-513",
        "size-1024",
        "size-1025",
        "size-2048",
        "chain-3",
        "chain-8",
        "partial-first",
        "partial-later",
        "partial-one",
        "lora-0",
        "lora-max",
        "lora-small-child",
        "salt-0",
        "salt-max",
        "salt-small-child",
        "salt-text-0",
        "both-0",
        "both-small",
        "both-exchanged",
        "both-max",
        "both-chain-2",
        "digest-start",
        "digest-middle",
        "digest-end",
        "digest-all",
        "digest-item",
        "digest-child",
        "digest-grandchild",
        "digest-both",
        "digest-at-seam",
        "digest-behind-seam",
        "digest-before-seam",
        "parent-key-zeros",
        "parent-key-ones",
        "parent-key-high",
        "parent-key-low",
        "parent-key-chain",
        "framing-width",
        "framing-digest",
        "token-2e31",
        "token-negative",
        "token-over",
        "digest-short",
    }
)
"""The cases that are asked for as full keys, too."""

LOW_SLUGS = frozenset(
    {
        "size-2047",
        "size-2048",
        "digest-behind-seam",
        "salt-small-child",
        "both-chain-3",
        "known-1",
        "known-2",
        "known-lora",
        "known-salt",
        "known-both",
        "size-16",
        "size-1025",
        "chain-3",
        "chain-8",
        "partial-later",
        "lora-0",
        "lora-max",
        "salt-0",
        "salt-max",
        "both-small",
        "both-max",
        "both-chain-2",
        "digest-start",
        "digest-end",
        "digest-child",
        "digest-at-seam",
        "parent-key-high",
    }
)
"""The cases that are asked for with the other truncation."""


def key_only_cases(width: int) -> list[Case]:
    """For ``v2_sha256``."""
    return [c for c in full_cases(width) if c.slug in KEY_SLUGS]


def low_cases(width: int) -> list[Case]:
    """For ``v2_sha256_low64``."""
    return [c for c in full_cases(width) if c.slug in LOW_SLUGS] + shape_cases(width, "last")


def root_cases() -> list[Case]:
    """Keys of reuse scopes."""
    scopes = [
        c
        for c in scope_cases()
        if "chain-2" not in c.flags and not c.slug.startswith("both-c") and c.slug != "both-partial"
    ]
    known = [
        case("root-known-bare", "no LoRA, no salt", "known-answer worked-example", (), 1),
        case("root-known-lora", "LoRA id 7", "known-answer lora-small", (), 1, lora_id="7"),
        case("root-known-salt", "salt id 123", "known-answer salt-small", (), 1, salt_id="123"),
        case("root-known-both", "both", "known-answer both-small", (), 1, **SCOPE),
    ]
    rest = []
    for c in scopes:
        given: Where = {}
        if c.given.lora_id is not None:
            given["lora_id"] = c.given.lora_id
        if c.given.salt_id is not None:
            given["salt_id"] = c.given.salt_id
        if c.given.salt is not None:
            given["salt"] = c.given.salt
        if given not in ({"lora_id": "7"}, SCOPE):
            rest.append(
                case(f"root-{c.slug}", c.comment, " ".join(c.flags), (), 1, requirements=c.requirements, **given)
            )
    return known + rest
