"""Cases that every function of the registry shares: token ids, block sizes, partial blocks, chains and reuse scopes."""

from __future__ import annotations

from kvwire.vectors.model import TokenItem
from kvwire_generators.hash.cases import MAX, ROUNDING, SCOPE, Case, Where, case, ids
from kvwire_generators.hash.features import SIZES
from kvwire_reference.hashing import salt_id

NAMESPACE = ("KVW-HSH-005",)
"""The sentence that scopes are namespaces."""
CHAINED = ("KVW-HSH-008",)

I31 = 2**31 - 1
U32 = 2**32 - 1

TEXTS = ("tenant-a", "")
"""Salt texts of the tests; more of them stand in salt_id.json."""


def token_cases() -> list[Case]:
    """Ids that every function takes."""
    return [
        case("token-0", "four ids of 0", "token-0", (0, 0, 0, 0), 4),
        case("token-0-one", "one id of 0", "token-0", (0,), 1),
        case("token-255", "ids around 2^8", "token-255", (255, 256, 254, 257), 4),
        case("token-65535", "ids around 2^16", "token-65535", (65535, 65536, 65534, 65537), 4),
        case("token-2e24", "ids around 2^24", "token-2e24", (2**24 - 1, 2**24, 2**24 - 2, 2**24 + 1), 4),
        case("token-i31-max", "four ids of 2^31−1", "token-i31-max", (I31,) * 4, 4),
        case("token-i31-max-one", "one id of 2^31−1", "token-i31-max", (I31,), 1),
        case("token-mixed-i31", "the smallest and the largest ids by turns", "token-mixed", (0, I31, 1, I31 - 1), 4),
    ]


def wide_token_cases() -> list[Case]:
    """Ids of 2^31 and above, which four-byte hashing does not take."""
    return [
        case("token-2e31", "ids of 2^31 and 2^31+1", "token-2e31", (2**31, 2**31 + 1, 1, 2), 4),
        case("token-2e31-last", "an id of 2^31 at the end of the block", "token-2e31", (1, 2, 3, 2**31), 4),
        case("token-u32-max", "four ids of 2^32−1", "token-u32-max", (U32,) * 4, 4),
        case("token-u32-max-one", "one id of 2^32−1", "token-u32-max", (U32,), 1),
        case("token-mixed-u32", "the smallest and the largest ids by turns", "token-mixed", (0, U32, 1, U32 - 1), 4),
        case("token-u32-chain", "a child of a block with an id of 2^32−1", "token-u32-max", (U32, 0, 5, 6), 2),
    ]


def size_cases() -> list[Case]:
    """One full block of each size."""
    return [
        case(f"size-{size}", f"a block of {size}", f"size-{size}", ids(f"size-{size}", size), size) for size in SIZES
    ]


def chain_cases() -> list[Case]:
    """Chains and partial blocks."""
    same: tuple[TokenItem, ...] = (11, 22, 33, 44) * 3
    return [
        case("chain-2", "two blocks", "chain-2", ids("chain-2", 8), 4, requirements=CHAINED),
        case("chain-2-of-512", "two blocks of 512", "chain-2 size-512", ids("chain-2-of-512", 1024), 512),
        case("chain-2-of-1024", "two blocks of 1024", "chain-2 size-1024", ids("chain-2-of-1024", 2048), 1024),
        case("chain-3", "three blocks", "chain-3", ids("chain-3", 12), 4, requirements=CHAINED),
        case("chain-8", "eight blocks of 16", "chain-8", ids("chain-8", 128), 16, requirements=CHAINED),
        case("chain-64", "64 blocks of 32", "chain-64", ids("chain-64", 2048), 32, requirements=CHAINED),
        case("chain-256", "256 blocks of 4", "chain-256", ids("chain-256", 1024), 4, requirements=CHAINED),
        case("chain-of-ones", "five blocks of one token", "chain-of-ones", ids("chain-of-ones", 5), 1),
        case("chain-equal-blocks", "three blocks of equal tokens", "chain-3 chain-equal-blocks", same, 4),
        case("partial-first", "three tokens of a block of eight", "partial-first", ids("partial-first", 3), 8),
        case("partial-later", "a full block, then three of four", "partial-later", ids("partial-later", 7), 4),
        case("partial-one", "two full blocks, then one token", "partial-one", ids("partial-one", 9), 4),
        case("partial-one-first", "one token of a block of 16", "partial-first partial-one", (77,), 16),
        case("partial-but-one", "15 of 16 tokens", "partial-but-one partial-first", ids("partial-but-one", 15), 16),
        case(
            "partial-but-one-of-32", "a block of 32, then 31", "partial-but-one partial-later", ids("but-one", 63), 32
        ),
    ]


_BOUNDARIES = (
    ("0", "0"),
    ("small", "7"),
    ("2e32", str(2**32)),
    ("rounding", ROUNDING),
    ("i63-max", str(2**63 - 1)),
    ("2e63", str(2**63)),
    ("max", MAX),
)
_BOTH = (
    ("0", "0", "0"),
    ("small", "7", "123"),
    ("exchanged", "123", "7"),
    ("equal", "5", "5"),
    ("0-max", "0", MAX),
    ("max-0", MAX, "0"),
    ("max", MAX, MAX),
)


def scope_cases() -> list[Case]:
    """Every shape of a reuse scope, with ids at their extremes, in a first block and in a later one."""
    cases = []
    for kind in ("lora", "salt"):
        for name, value in _BOUNDARIES:
            given: Where = {"lora_id": value} if kind == "lora" else {"salt_id": value}
            slug = f"{kind}-{name}"
            words = f"{'LoRA' if kind == 'lora' else 'salt'} id {value}"
            cases.append(case(slug, words, slug, ids(slug, 4), 4, requirements=NAMESPACE, **given))
            child = f"{slug}-child"
            flags = f"{slug} {kind}-child chain-2"
            cases.append(
                case(child, f"{words}, second block", flags, ids(child, 8), 4, requirements=NAMESPACE, **given)
            )
    for name, lora, salt in _BOTH:
        slug = f"both-{name}"
        words = f"LoRA id {lora}, salt id {salt}"
        both: Where = {"lora_id": lora, "salt_id": salt}
        cases.append(case(slug, words, slug, ids("both", 4), 4, requirements=NAMESPACE, **both))
    for count in (2, 3):
        slug = f"both-chain-{count}"
        words = f"LoRA and salt, {count} blocks"
        cases.append(
            case(slug, words, f"both-child chain-{count}", ids(slug, 4 * count), 4, requirements=NAMESPACE, **SCOPE)
        )
    cases.append(
        case(
            "both-partial",
            "LoRA and salt, a partial block behind a full one",
            "both-child partial-later",
            ids("both-partial", 6),
            4,
            requirements=NAMESPACE,
            **SCOPE,
        )
    )
    for index, text in enumerate(TEXTS):
        slug = f"salt-text-{index}"
        salted: Where = {"salt": text, "salt_id": str(salt_id(text))}
        words = f"the salt text {text!r}"
        cases.append(case(slug, words, "salt-text", ids(slug, 4), 4, requirements=NAMESPACE, **salted))
        cases.append(
            case(
                f"{slug}-child",
                f"{words}, second block",
                "salt-text salt-child chain-2",
                ids(f"{slug}-child", 8),
                4,
                requirements=NAMESPACE,
                **salted,
            )
        )
    return cases
