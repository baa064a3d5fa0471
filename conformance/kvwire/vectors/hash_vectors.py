"""Block hashes of the standard's functions, with what known mistakes give (spec/hashing.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from kvwire.vectors.hash_mistakes import ROUNDED_HASH, V1, V2, Answer, rounded, v1_variants, v2_variants, wrong
from kvwire.vectors.inputs import Chain, read
from kvwire.vectors.making import make
from kvwire.vectors.model import Group, HashExpected, HashFile, HashInput, Note, Test
from kvwire_reference.hashing import signed

Kind = Literal["hash", "key"]


def _say(answer: Answer, kind: Kind) -> str:
    return str(answer[0]) if kind == "hash" or answer[1] is None else answer[1].hex()


def mistakes(chain: Chain, truth: list[Answer], variants: Mapping[str, V1 | V2], kind: Kind) -> dict[str, str]:
    """What each mistake gives for the last block, where that is not the truth."""
    right = _say(truth[-1], kind)
    found = {slug: _say(list(variant.chain(chain))[-1], kind) for slug, variant in variants.items()}
    if kind == "hash" and rounded(truth[-1][0]) < 2**64:
        found[ROUNDED_HASH] = str(rounded(truth[-1][0]))
    return {slug: value for slug, value in sorted(found.items()) if value != right}


def valid(
    slug: str,
    comment: str,
    flags: Iterable[str],
    given: HashInput,
    right: V1 | V2,
    variants: Mapping[str, V1 | V2],
    kind: Kind = "hash",
) -> Test[HashInput, HashExpected]:
    """A valid test."""
    chain = read(given)
    truth = list(right.chain(chain))
    value, key = truth[-1]
    several = tuple(_say(answer, kind) for answer in truth) if len(truth) > 1 else None
    expected = HashExpected(
        unsigned=str(value) if kind == "hash" else None,
        signed=str(signed(value)) if kind == "hash" else None,
        key=key.hex() if key is not None and isinstance(right, V2) else None,
        chain=several,
    )
    return Test(
        id=slug,
        comment=comment,
        flags=tuple(flags),
        requirements=("KVW-HSH-001",),
        result="valid",
        input=given,
        expected=expected,
        mistakes=mistakes(chain, truth, variants, kind),
    )


def files() -> dict[str, HashFile]:
    """The files of ``hash/``."""
    given = HashInput(tokens=(1, 2, 3, 4, 5, 6, 7, 8), block_size=4)
    v1 = Group(
        name="v1_block_key",
        comment="Text.",
        algorithm="v1_block_key",
        tests=(valid("v1-chain-of-two", "two blocks", (), given, V1(), v1_variants(4)),),
    )
    v2 = Group(
        name="v2_sha256_64/u32",
        comment="Four-byte tokens.",
        algorithm="v2_sha256_64/u32",
        width=4,
        tests=(valid("v2-u32-chain-of-two", "two blocks", (), given, V2(width=4), v2_variants(4)),),
    )
    schema = "kvwire/vectors/hash/1"

    def notes(algorithm: str, group: Group[HashInput, HashExpected]) -> dict[str, Note]:
        return {
            slug: Note(kind="mistake", description=wrong(algorithm, slug)) for t in group.tests for slug in t.mistakes
        }

    return {
        "hash/v1_block_key.json": make(schema, __name__, [v1], notes("v1_block_key", v1)),
        "hash/v2_sha256_64.json": make(schema, __name__, [v2], notes("v2_sha256_64/u32", v2)),
    }
