"""Block hashes of the standard's functions and of those it names, with what known mistakes give (spec/hashing.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from kvwire.hashes.mistakes import BY_NAME
from kvwire.vectors.inputs import Chain, read, rounded
from kvwire.vectors.model import Group, HashExpected, HashFile, HashInput, Note, Test
from kvwire_generators.hash import foreign, v1, v2
from kvwire_generators.hash.cases import Case
from kvwire_generators.hash.features import BOUNDARIES, ORIGINS
from kvwire_generators.hash.mistakes import ROUNDED_HASH, V1, V2, WRONG, Answer, v1_variants, v2_variants, wrong
from kvwire_generators.making import VectorError, fault, make
from kvwire_reference import hashing
from kvwire_reference.hashing import Width, signed

Kind = Literal["hash", "key"]
HashTest = Test[HashInput, HashExpected]
HashGroup = Group[HashInput, HashExpected]
SCHEMA = "kvwire/vectors/hash/1"
BASE = ("KVW-HSH-001", "KVW-HSH-002")
WIDTHS: tuple[Width, ...] = (4, 8)

FAULTS = {
    "token-range": fault("a token id does not fit the bytes of a token", "KVW-EVT-010"),
    "digest-length": fault("a digest token has another length than 32 bytes", "KVW-EVT-011"),
    "extra-ids-count": Note(
        kind="fault", description="the extra ids are more or fewer than the tokens", links=("hashing.md",)
    ),
}


# --- the true values ----------------------------------------------------------------------------------------------


def v1_truth(chain: Chain, width: Width) -> Iterator[Answer]:
    """Hash and key of each block under ``v1_block_key``, by the reference."""
    key = None if chain.parent is not None else hashing.root_key(chain.lora, chain.salt)
    parent, behind = chain.parent or 0, False
    for block in chain.blocks:
        behind = behind or bytes in map(type, block.tokens)
        if behind:
            if key is None:
                raise VectorError("the key behind a given parent is not known")
            key = hashing.block_key(key, block.tokens, width)
            parent = hashing.truncate_first(key)
        else:
            key = None if key is None else V2(width=width).block_key(key, block.tokens)
            parent = hashing.v1_block_hash(
                block.tokens,
                parent=parent,
                lora_id=chain.lora,
                salt_id=chain.salt,
                extra_ids=block.extra,
                mm_keys=block.mm,
            )
        yield parent, key


def v2_truth(chain: Chain, width: Width, *, low: bool) -> Iterator[Answer]:
    """Hash and key of each block under chained SHA-256, by the reference."""
    key = hashing.root_key(chain.lora, chain.salt) if chain.parent_key is None else chain.parent_key
    for block in chain.blocks:
        key = hashing.block_key(key, block.tokens, width)
        yield (hashing.truncate_last if low else hashing.truncate_first)(key), key


# --- tests --------------------------------------------------------------------------------------------------------


def _say(answer: Answer, kind: Kind) -> str:
    return answer[1].hex() if kind == "key" and answer[1] is not None else str(answer[0])


def _mistakes(chain: Chain, truth: list[Answer], variants: Mapping[str, V1 | V2], kind: Kind) -> dict[str, str]:
    right = _say(truth[-1], kind)
    found = {slug: _say(list(variant.chain(chain))[-1], kind) for slug, variant in variants.items()}
    if kind == "hash" and rounded(truth[-1][0]) < 2**64:
        found[ROUNDED_HASH] = str(rounded(truth[-1][0]))
    return {slug: value for slug, value in sorted(found.items()) if value != right}


def signs(value: int) -> str:
    """The flag of a hash's sign."""
    return "hash-negative" if value >= 2**63 else "hash-positive"


def _expected(truth: list[Answer], kind: Kind, *, keyed: bool) -> HashExpected:
    value, key = truth[-1]
    return HashExpected(
        unsigned=str(value) if kind == "hash" else None,
        signed=str(signed(value)) if kind == "hash" else None,
        key=key.hex() if keyed and key is not None else None,
        chain=tuple(_say(answer, kind) for answer in truth) if len(truth) > 1 else None,
    )


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """One function: how its right answers come about, and its mistakes."""

    prefix: str
    right: V1 | V2
    variants: dict[str, V1 | V2]
    width: Width
    kind: Kind = "hash"

    def _truth(self, made: Case, chain: Chain) -> list[Answer]:
        again = list(self.right.chain(chain))
        if made.cites is not None:
            return again  # the reference refuses it, which is allowed, too
        if isinstance(self.right, V1):
            truth = list(v1_truth(chain, self.width))
        else:
            truth = list(v2_truth(chain, self.width, low=self.right.cut == "last"))
        if truth != again:
            raise VectorError(f"{self.prefix}-{made.slug}: two computations of the truth differ")
        return truth

    def test(self, made: Case) -> HashTest:
        """The test of a case."""
        name = f"{self.prefix}-{made.slug}"
        requirements = tuple(sorted({*BASE, *made.requirements}))
        if made.fault is not None:
            return Test(
                id=name,
                comment=made.comment,
                flags=made.flags,
                requirements=requirements,
                result="invalid",
                input=made.given,
                expected=HashExpected(fault=made.fault),
            )
        chain = read(made.given)
        truth = self._truth(made, chain)
        sign = [signs(truth[-1][0])] if self.kind == "hash" else []
        return Test(
            id=name,
            comment=made.comment,
            flags=tuple(dict.fromkeys([*made.flags, *sign])),
            requirements=requirements,
            result="valid" if made.cites is None else "acceptable",
            cites=made.cites,
            input=made.given,
            expected=_expected(truth, self.kind, keyed=isinstance(self.right, V2)),
            mistakes=_mistakes(chain, truth, self.variants, self.kind),
        )

    def tests(self, cases: Iterable[Case]) -> tuple[HashTest, ...]:
        """The tests of these cases."""
        return tuple(map(self.test, cases))


def _v1(prefix: str, width: Width) -> Maker:
    variants: dict[str, V1 | V2] = dict(v1_variants(width))
    return Maker(prefix=prefix, right=V1(keys=V2(width=width)), variants=variants, width=width)


def _v2(prefix: str, width: Width, cut: v2.Cut = "first", kind: Kind = "hash") -> Maker:
    right = V2(width=width, cut=cut)
    variants: dict[str, V1 | V2] = dict(v2_variants(width, cut))
    return Maker(prefix=prefix, right=right, variants=variants, width=width, kind=kind)


def _root_tests() -> tuple[HashTest, ...]:
    found = []
    variants = {**v2_variants(4)}
    for made in v2.root_cases():
        given = msgspec.structs.replace(made.given, block_size=None)
        chain = read(given)
        key = hashing.root_key(chain.lora, chain.salt).hex()
        wrongs = {slug: variant.root_key(chain).hex() for slug, variant in variants.items()}
        found.append(
            Test(
                id=f"v2-{made.slug}",
                comment=made.comment,
                flags=made.flags,
                requirements=tuple(sorted({*BASE, *made.requirements})),
                result="valid",
                input=given,
                expected=HashExpected(key=key),
                mistakes={slug: value for slug, value in sorted(wrongs.items()) if value not in ("", key)},
            )
        )
    return tuple(found)


def _foreign_group(name: str) -> HashGroup:
    function = BY_NAME[name]
    tests = []
    for made in foreign.CASES[name]():
        chain = [value for value in foreign.chain(function, made.given) if value is not None]
        right = chain[-1]
        wrongs = {slug: foreign.chain(other, made.given)[-1] for slug, (other, _) in foreign.mistakes(name).items()}
        wrongs[ROUNDED_HASH] = rounded(right) if rounded(right) < 2**64 else right
        several = tuple(map(str, chain)) if len(chain) > 1 else None
        tests.append(
            Test(
                id=f"{foreign.PREFIXES[name]}-{made.slug}",
                comment=made.comment,
                flags=(*made.flags, signs(right)),
                requirements=BASE,
                result="valid",
                input=made.given,
                expected=HashExpected(unsigned=str(right), signed=str(signed(right)), chain=several),
                mistakes={slug: str(value) for slug, value in sorted(wrongs.items()) if value not in (None, right)},
            )
        )
    comment = "A function of another project, named by the standard and not one of its own."
    return Group(name=name, comment=comment, algorithm=name, informative=True, tests=tuple(tests))


def _salt_tests() -> tuple[HashTest, ...]:
    found = []
    for slug, text, comment, flags in foreign.SALTS:
        value = hashing.salt_id(text)
        wrongs = {name: mistaken(text) for name, (mistaken, _) in foreign.SALT_MISTAKES.items()}
        wrongs[ROUNDED_HASH] = rounded(value) if rounded(value) < 2**64 else value
        found.append(
            Test(
                id=f"salt-id-{slug}",
                comment=comment,
                flags=tuple(flags.split()),
                requirements=("KVW-HSH-005",),
                result="valid",
                input=HashInput(salt=text),
                expected=HashExpected(unsigned=str(value), signed=str(signed(value))),
                mistakes={name: str(wrong) for name, wrong in sorted(wrongs.items()) if wrong != value},
            )
        )
    return tuple(found)


# --- files --------------------------------------------------------------------------------------------------------


def _notes(tests: Iterable[HashTest], algorithm: str) -> dict[str, Note]:
    slugs = {slug for test in tests for slug in test.mistakes}
    return {slug: Note(kind="mistake", description=wrong(algorithm, slug), links=("hashing.md",)) for slug in slugs}


def _file(groups: Iterable[HashGroup], algorithm: str) -> HashFile:
    found = tuple(groups)
    tests = [test for group in found for test in group.tests]
    return make(SCHEMA, __name__, found, {**BOUNDARIES, **ORIGINS, **FAULTS, **_notes(tests, algorithm)})


def _v1_file() -> HashFile:
    text = Group(
        name="v1_block_key, text",
        comment="The 64-bit mixing function over blocks of text, with its multimodal keys and extra ids.",
        algorithm="v1_block_key",
        tests=_v1("v1", 4).tests(v1.text_cases()),
    )
    behind = [
        Group(
            name=f"v1_block_key, digest tokens, {width}-byte keys",
            comment="A block with a digest token, and every block behind it, takes its hash from its v2 key.",
            algorithm="v1_block_key",
            width=width,
            tests=_v1(f"v1-u{width * 8}", width).tests(v1.fallback_cases(width)),
        )
        for width in WIDTHS
    ]
    return _file([text, *behind], "v1_block_key")


def _v2_file(label: str, prefix: str, cut: v2.Cut, kind: Kind, *, informative: bool = False) -> HashFile:
    cases = {"v2_sha256": v2.key_only_cases, "v2_sha256_64": v2.full_cases}.get(label, v2.low_cases)
    groups = [
        Group(
            name=f"{label}/u{width * 8}",
            comment=f"Chained SHA-256 over {'four' if width == 4 else 'eight'}-byte tokens.",
            algorithm=f"{label}/u{width * 8}",
            width=width,
            informative=informative,
            tests=_v2(f"{prefix}u{width * 8}", width, cut, kind).tests(cases(width)),
        )
        for width in WIDTHS
    ]
    if label == "v2_sha256":
        comment = "The key of a reuse scope, which stands before the first block of each of its chains."
        root = Group(name="v2_sha256/root", comment=comment, algorithm="v2_sha256/root", tests=_root_tests())
        groups.insert(0, root)
    return _file(groups, "v2_sha256_64/u32")


def _foreign_file() -> HashFile:
    groups = [_foreign_group(name) for name in foreign.NAMES]
    notes = {**ORIGINS, **foreign.boundary_notes(foreign.FEATURES)}
    notes[ROUNDED_HASH] = Note(kind="mistake", description=WRONG[ROUNDED_HASH])
    for name in foreign.NAMES:
        for slug, (_, text) in foreign.mistakes(name).items():
            notes[slug] = Note(kind="mistake", description=text, links=("hashing.md",))
    return make(SCHEMA, __name__, groups, notes)


def _salt_file() -> HashFile:
    group = Group(name="salt_id", comment="The id of a salt text.", algorithm="salt_id", tests=_salt_tests())
    notes = {**ORIGINS, **foreign.boundary_notes(foreign.SALT_FEATURES)}
    notes[ROUNDED_HASH] = Note(kind="mistake", description=WRONG[ROUNDED_HASH])
    for slug, (_, text) in foreign.SALT_MISTAKES.items():
        notes[slug] = Note(kind="mistake", description=text, links=("hashing.md",))
    return make(SCHEMA, __name__, [group], notes)


def _tag_tests() -> tuple[HashTest, ...]:
    found = []
    for slug, text, key, comment, flags in foreign.TAGS:
        tag = hashing.scope_tag(text, key)
        wrongs = {name: mistaken(text, key) for name, (mistaken, _) in foreign.TAG_MISTAKES.items()}
        found.append(
            Test(
                id=f"scope-tag-{slug}",
                comment=comment,
                flags=tuple(flags.split()),
                requirements=("KVW-EVT-028",),
                result="valid",
                input=HashInput(salt=text, scope_key=None if key is None else key.hex()),
                expected=HashExpected(tag=tag),
                mistakes={name: wrong for name, wrong in sorted(wrongs.items()) if wrong != tag},
            )
        )
    return tuple(found)


def _tag_file() -> HashFile:
    comment = "The scope tag of a salt text, with and without a deployment key."
    group = Group(name="scope_tag", comment=comment, algorithm="scope_tag", tests=_tag_tests())
    notes = {**ORIGINS, **foreign.boundary_notes(foreign.TAG_FEATURES)}
    for slug, (_, text) in foreign.TAG_MISTAKES.items():
        notes[slug] = Note(kind="mistake", description=text, links=("event.md",))
    return make(SCHEMA, __name__, [group], notes)


def files() -> dict[str, HashFile]:
    """The files of ``hash/``."""
    return {
        "hash/v1_block_key.json": _v1_file(),
        "hash/v2_sha256.json": _v2_file("v2_sha256", "v2-key-", "first", "key"),
        "hash/v2_sha256_64.json": _v2_file("v2_sha256_64", "v2-", "first", "hash"),
        "hash/v2_sha256_low64.json": _v2_file("v2_sha256_low64", "v2-low64-", "last", "hash", informative=True),
        "hash/salt_id.json": _salt_file(),
        "hash/scope_tag.json": _tag_file(),
        "hash/foreign.json": _foreign_file(),
    }
