"""The cases of ``v1_block_key``."""

from __future__ import annotations

from kvwire_generators.hash.cases import MAX, ROUNDING, SCOPE, Case, case, digest, ids, keys
from kvwire_generators.hash.digests import digest_cases, seam_cases
from kvwire_generators.hash.shared import chain_cases, scope_cases, size_cases, token_cases, wide_token_cases

ONE_TO_FOUR = (1, 2, 3, 4)
LORA_TO_0 = "3473130474460807146"
"""The LoRA id under which the block 1 2 3 4 has the hash 0: the last step of the function run backwards."""
LORA_TO_0_SALTED = "4631753194683609966"
"""The same with the salt id 123."""

_PARENTS = (
    ("small", "1"),
    ("2e32", str(2**32)),
    ("rounding", ROUNDING),
    ("i63-max", str(2**63 - 1)),
    ("2e63", str(2**63)),
    ("max", MAX),
)


def known_cases() -> list[Case]:
    """The known answers, and the inputs of those that a port without the 32-bit wrap asserts."""
    k, u = "known-answer", "known-answer upstream"
    return [
        case("known-root", "first block of a chain", f"{u} worked-example", ONE_TO_FOUR, 4),
        case("known-child-partial", "its child, partial", u, (5, 6), 4, parent="924206229973855"),
        case("known-child", "its child", f"{k} worked-example", (5, 6, 7, 8), 4, parent="924206229973855"),
        case("known-salt-root", "with a salt id", u, ONE_TO_FOUR, 4, salt_id="123"),
        case(
            "known-salt-child-partial",
            "its child, partial: the salt does not enter again",
            u,
            (5, 6),
            4,
            parent="6280297290684427985",
            salt_id="123",
        ),
        case("known-lora-root", "with a LoRA id", k, ONE_TO_FOUR, 4, lora_id="123"),
        case(
            "known-no-wrap-child-partial",
            "behind a parent that was hashed without the wrap",
            k,
            (5, 6),
            4,
            parent="944812140882783",
        ),
        case(
            "known-no-wrap-child",
            "behind a parent that was hashed without the wrap",
            k,
            (5, 6, 7, 8),
            4,
            parent="944812140882783",
        ),
        case(
            "known-no-wrap-salt-child-partial",
            "behind a salted parent that was hashed without the wrap",
            k,
            (5, 6),
            4,
            parent="6269282712567672529",
            salt_id="123",
        ),
        case("known-chain", "the first two blocks in one chain", k, (*ONE_TO_FOUR, 5, 6, 7, 8), 4),
    ]


def parent_cases() -> list[Case]:
    """Parents at their extremes, without and with a salt, which does not enter behind a parent; and parents of 0."""
    cases = []
    for name, value in _PARENTS:
        slug = f"parent-{name}"
        cases.append(case(slug, f"parent {value}", slug, ids(slug, 4), 4, parent=value))
        words = f"parent {value}; the salt id does not enter"
        cases.append(case(f"{slug}-salted", words, f"{slug} salt-child", ids(slug, 4), 4, parent=value, salt_id="123"))
    cases += [
        case(
            "parent-max-both",
            "parent 2^64−1 with LoRA and salt",
            "parent-max both-child",
            ids("pmb", 4),
            4,
            parent=MAX,
            lora_id="7",
            salt_id="123",
        ),
        case(
            "parent-2e63-chain",
            "two blocks behind parent 2^63, salted",
            "parent-2e63 salt-child",
            ids("pc", 8),
            4,
            parent=str(2**63),
            salt_id="123",
        ),
        case("parent-0-given", "a parent of 0 is no parent", "parent-0 corner", ONE_TO_FOUR, 4, parent="0"),
        case(
            "parent-0-given-salted",
            "a parent of 0 is no parent: the salt enters",
            "parent-0 corner",
            ONE_TO_FOUR,
            4,
            parent="0",
            salt_id="123",
        ),
        case(
            "parent-0-hash",
            "a LoRA id under which the hash is 0",
            "hash-zero corner",
            ONE_TO_FOUR,
            4,
            lora_id=LORA_TO_0,
        ),
        case(
            "parent-0-computed",
            "behind a block whose hash is 0",
            "parent-0 chain-2 corner",
            (*ONE_TO_FOUR, 5, 6, 7, 8),
            4,
            lora_id=LORA_TO_0,
        ),
        case(
            "parent-0-computed-salted",
            "behind a block whose hash is 0: the salt enters again",
            "parent-0 chain-2 corner",
            (*ONE_TO_FOUR, 5, 6, 7, 8),
            4,
            lora_id=LORA_TO_0_SALTED,
            salt_id="123",
        ),
    ]
    return cases


def sum_cases() -> list[Case]:
    """Where the sum of the 32-bit step wraps, and where not."""
    return [
        case("sum-no-wrap", "no sum wraps: the port without the wrap is right here", "sum-no-wrap", (0, 1, 5, 7), 4),
        case("sum-first-wraps", "the first sum wraps", "sum-first-wraps", (2, 0, 1, 5), 4),
        case("sum-all-wrap", "every sum wraps", "sum-all-wrap", (2, 3, 4, 6), 4),
        case("sum-last-wraps", "the last sum wraps", "sum-first-wraps", (0, 1, 5, 2), 4),
        case("sum-below-edge", "a sum of 2^32−1", "sum-edge", (1315767624,), 1),
        case("sum-at-edge", "a sum of 2^32", "sum-edge", (2058130446,), 1),
        case(
            "sum-edges", "sums of 2^32−1 and of 2^32", "sum-edge", (1315767624, 2058130446, 1315767624, 2058130446), 4
        ),
    ]


def shape_cases() -> list[Case]:
    """Hashes of every shape."""
    shapes = (("positive", 0), ("negative", 2), ("leading-zero", 523), ("two-leading-zeros", 6375), ("leading-ff", 228))
    return [
        case(
            f"hash-{name}",
            f"hash of shape {name}",
            f"hash-{name} size-16",
            (*range(at, at + 8), *range(at, at + 8)),
            16,
        )
        for name, at in shapes
    ]


def extra_cases() -> list[Case]:
    """Extra ids, one for each token."""
    wide = (2**32, 2**32 + 1, 0, 1)
    return [
        case("extra-0", "four extra ids of 0", "extra-0", ids("extra", 4), 4, extra=(0, 0, 0, 0)),
        case("extra-0-known", "tokens 1 2 3 4, extra ids of 0", "extra-0", ONE_TO_FOUR, 4, extra=(0, 0, 0, 0)),
        case("extra-small", "small extra ids, some 0", "extra-small", ids("extra", 4), 4, extra=(1, 0, 2, 0)),
        case("extra-2e32", "extra ids of 33 bits", "extra-2e32", ids("extra", 4), 4, extra=wide),
        case("extra-rounding", "extra ids of 2^53+1", "extra-rounding", ids("extra", 4), 4, extra=(2**53 + 1,) * 4),
        case("extra-max", "extra ids of 2^64−1", "extra-max", ids("extra", 4), 4, extra=(2**64 - 1,) * 4),
        case(
            "extra-child",
            "extra ids in two blocks",
            "extra-child chain-2",
            ids("extra child", 8),
            4,
            extra=(*wide, *wide),
        ),
        case(
            "extra-partial",
            "extra ids in a partial block",
            "extra-partial partial-first",
            ids("ep", 3),
            8,
            extra=(3, 2**40, 0),
        ),
        case("extra-lora", "with a LoRA id", "extra-scope lora-small", ids("el", 4), 4, extra=wide, lora_id="7"),
        case("extra-salt", "with a salt id", "extra-scope salt-small", ids("es", 4), 4, extra=wide, salt_id="123"),
        case(
            "extra-both",
            "with LoRA and salt, two blocks",
            "extra-scope both-child",
            ids("eb", 8),
            4,
            extra=(*wide, *wide),
            **SCOPE,
        ),
        case(
            "extra-too-few",
            "three extra ids for four tokens",
            "",
            ids("few", 4),
            4,
            extra=(1, 2, 3),
            fault="extra-ids-count",
        ),
        case(
            "extra-too-many",
            "five extra ids for four tokens",
            "",
            ids("few", 4),
            4,
            extra=(1, 2, 3, 4, 5),
            fault="extra-ids-count",
        ),
    ]


def mm_cases() -> list[Case]:
    """Multimodal keys of text blocks, whose items can begin in earlier blocks."""
    a, b = digest("a"), digest("b")
    plain = bytes(range(32)).hex()
    t = ids("mm", 4)
    return [
        case("mm-offset-0", "an item that begins here", "mm-offset-0", t, 4, mm=keys([(a, 0)])),
        case("mm-known-0", "digest 00 01 … 1f, offset 0", "mm-offset-0", ONE_TO_FOUR, 4, mm=keys([(plain, 0)])),
        case("mm-known-7", "digest 00 01 … 1f, offset 7", "mm-offset-small", ONE_TO_FOUR, 4, mm=keys([(plain, 7)])),
        case("mm-offset-small", "an item that began five tokens earlier", "mm-offset-small", t, 4, mm=keys([(a, 5)])),
        case("mm-offset-2e32", "offset 2^32", "mm-offset-2e32", t, 4, mm=keys([(a, 2**32)])),
        case("mm-offset-large", "offset 2^53−1", "mm-offset-large", t, 4, mm=keys([(a, 2**53 - 1)])),
        case("mm-two", "two items", "mm-two", t, 4, mm=keys([(a, 3), (b, 0)])),
        case("mm-order", "two items the other way round", "mm-order", t, 4, mm=keys([(b, 0), (a, 3)])),
        case(
            "mm-three-blocks",
            "an item of ten tokens from the third on",
            "mm-three-blocks chain-3",
            ids("three", 12),
            4,
            mm=keys([(a, 0)], [(a, 2)], [(a, 6)]),
        ),
        case(
            "mm-end-and-start",
            "one item ends, another begins",
            "mm-end-and-start chain-2",
            ids("end", 8),
            4,
            mm=keys([(a, 0)], [(a, 3), (b, 0)]),
        ),
        case("mm-zeros", "digest of zero bytes", "mm-zeros", t, 4, mm=keys([("00" * 32, 0)])),
        case("mm-ones", "digest of bytes ff", "mm-ones", t, 4, mm=keys([("ff" * 32, 1)])),
        case("mm-child", "text behind an item", "mm-child chain-2", ids("mm child", 8), 4, mm=keys([(a, 0)], [])),
        case(
            "mm-partial",
            "an item in a partial block",
            "mm-partial partial-later",
            ids("mmp", 6),
            4,
            mm=keys([(a, 0)], [(a, 4)]),
        ),
        case("mm-lora", "with a LoRA id", "mm-scope lora-small", t, 4, mm=keys([(a, 1)]), lora_id="7"),
        case("mm-salt", "with a salt id", "mm-scope salt-small", t, 4, mm=keys([(a, 1)]), salt_id="123"),
        case(
            "mm-both",
            "with LoRA and salt, second block",
            "mm-scope both-child",
            ids("mmb", 8),
            4,
            mm=keys([], [(a, 2)]),
            **SCOPE,
        ),
        case("mm-extra", "beside extra ids", "mm-extra", t, 4, mm=keys([(a, 1)]), extra=(0, 5, 0, 2**40)),
        case("mm-parent", "behind a given parent", "mm-offset-small parent-max", t, 4, mm=keys([(b, 9)]), parent=MAX),
    ]


def text_cases() -> list[Case]:
    """Blocks of text."""
    return [
        *known_cases(),
        *token_cases(),
        *wide_token_cases(),
        *sum_cases(),
        *size_cases(),
        *chain_cases(),
        *scope_cases(),
        *parent_cases(),
        *shape_cases(),
        *extra_cases(),
        *mm_cases(),
    ]


def fallback_cases(width: int) -> list[Case]:
    """Chains with digest tokens."""
    a = digest("picture")
    return [
        *digest_cases(),
        *seam_cases(width),
        case(
            "digest-with-key",
            "a digest block with its multimodal key, which does not enter",
            "digest-start mm-offset-0",
            (a, 32001, 32002, 4),
            4,
            mm=keys([(a, 0)]),
        ),
        case(
            "digest-with-keys-child",
            "text behind it, with a key of its own, which does not enter either",
            "digest-child mm-offset-small",
            (a, 32001, 32002, 32003, 32004, 5, 6, 7),
            4,
            mm=keys([(a, 0)], [(a, 4)]),
        ),
        case(
            "digest-extra",
            "extra ids do not enter behind a digest",
            "digest-child extra-small",
            (a, 2, 3, 4, 5, 6, 7, 8),
            4,
            extra=(1, 0, 2, 0, 3, 0, 4, 0),
        ),
    ]
