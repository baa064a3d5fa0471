"""Hash vectors: truths that two computations agree on, flags that hold, mistakes that tell apart."""

from __future__ import annotations

import itertools
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kvwire.hashes.functions import Block, Scope
from kvwire.hashes.mistakes import BY_NAME
from kvwire.standard import resources
from kvwire.vectors import access, inputs
from kvwire.vectors.model import HashExpected, HashFile, HashInput, Run, Test
from kvwire_generators import known, making
from kvwire_generators.hash import v1
from kvwire_generators.hash.features import SIZES
from kvwire_reference import hashing

NAMES = [name for name in access.names() if name.startswith("hash/")]
FILES: dict[str, HashFile] = {name: cast("HashFile", access.load(name)) for name in NAMES}
HashTest = Test[HashInput, HashExpected]
VALID: list[tuple[str, HashTest]] = [
    (group.algorithm or "", test)
    for file in FILES.values()
    for group in file.groups
    for test in group.tests
    if test.result != "invalid"
]
BY_ID = {test.id: test for _, test in VALID}
REGISTRY = {"v1_block_key", *hashing.ALGORITHMS}


def test_there_are_enough() -> None:
    assert sum(file.count for file in FILES.values()) >= 400
    assert {group.algorithm for file in FILES.values() for group in file.groups} >= {
        *hashing.ALGORITHMS,
        "v2_sha256/root",
        "v2_sha256/u32",
        "v2_sha256/u64",
        "salt_id",
        "scope_tag",
        "x-vllm-sha256-cbor/bare",
        "x-vllm-sha256-cbor/kinds",
        "x-vllm-sha256/bare",
        "x-vllm-sha256/kinds",
        "x-sglang-sha256",
        "x-dynamo-xxh3",
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_mistake_tells_itself_apart(name: str) -> None:
    """From the truth, and from every other mistake, on at least five tests."""
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for test in FILES[name].tests:
        for slug, value in test.mistakes.items():
            values[slug][test.id] = value
            assert value not in (test.expected.unsigned, test.expected.key if test.expected.unsigned is None else None)
    for slug, found in values.items():
        assert len(found) >= 5, f"{slug} differs from the truth on {len(found)} tests"
    for one, other in itertools.combinations(values, 2):
        apart = [t for t in values[one].keys() | values[other].keys() if values[one].get(t) != values[other].get(t)]
        assert len(apart) >= 5, f"{one} and {other} differ on {apart} only"


@pytest.mark.parametrize("answer", known.read((resources.vectors() / known.PATH).read_bytes()), ids=lambda a: a.id)
def test_upstream_answers_are_marked(answer: known.Answer) -> None:
    if "upstream" not in answer.flags or "mistake" in answer.flags:
        return
    marked = [t for _, t in VALID if "upstream" in t.flags and t.expected.unsigned == answer.expected.unsigned]
    assert marked


# --- mistakes, computed a second time -----------------------------------------------------------------------------


def scope_of(given: HashInput) -> Scope:
    """A scope whose salt id is given as a number."""
    lora = None if given.lora_id is None else int(given.lora_id)
    if given.salt_id is None:
        return Scope(lora=lora)
    values = {"lora": lora, "lora_name": None, "salt": given.salt or "?", "salt_id": int(given.salt_id), "bare": False}
    return cast("Scope", SimpleNamespace(**values))


def again(slug: str, algorithm: str, given: HashInput) -> int | None:
    """What the harness's own function of that mistake gives; None where it has or says none."""
    function = BY_NAME.get(f"{algorithm}/{slug}")
    if function is None or given.extra_ids is not None or given.parent_key is not None:
        return None
    if slug in ("no-lora", "no-salt") and (given.lora_id and given.salt_id):
        return None  # these build a scope anew, from a salt text
    chain = inputs.read(given)
    scope = scope_of(given)
    state = function.join(scope) if chain.parent else function.start(scope)
    if state is None:
        return None
    parent = chain.parent or None
    for block in chain.blocks:
        before = parent
        state = function.step(state, Block(block.tokens, before, block.mm))
        if state.hash is None:
            return None  # no difference shows in this block, which then is the true one
        parent = state.hash
    return state.hash


def test_mistakes_are_those_of_the_harness() -> None:
    compared: dict[str, int] = defaultdict(int)
    for algorithm, test in VALID:
        if algorithm not in ("v1_block_key", "v2_sha256_64/u32", "v2_sha256_64/u64"):
            continue
        for slug, value in test.mistakes.items():
            second = again(slug, algorithm, test.input)
            if second is not None:
                compared[f"{algorithm}/{slug}"] += 1
                assert str(second) == value, f"{test.id}: {slug}"
    assert len(compared) >= 25, compared
    assert compared["v1_block_key/no-wrap"] >= 60


def test_mistakes_are_told_in_the_words_of_the_harness() -> None:
    for name, algorithm in (("hash/v1_block_key", "v1_block_key"), ("hash/v2_sha256_64", "v2_sha256_64/u32")):
        for slug, note in FILES[name].notes.items():
            function = BY_NAME.get(f"{algorithm}/{slug}")
            if note.kind == "mistake" and function is not None:
                assert note.description == function.wrong
    assert FILES["hash/v1_block_key"].notes["no-wrap"].description.startswith("32-bit wrap missing")


def test_the_port_without_the_wrap() -> None:
    assert BY_ID["v1-known-root"].mistakes["no-wrap"] == "944812140882783"
    assert BY_ID["v1-known-no-wrap-child"].mistakes["no-wrap"] == "1938568495691091294"
    assert "no-wrap" not in BY_ID["v1-sum-no-wrap"].mistakes


# --- boundaries are what their flags say --------------------------------------------------------------------------


def last_block(given: HashInput) -> int:
    tokens, size = inputs.expand(given.tokens), given.block_size or 1
    return len(tokens) % size or size


@pytest.mark.parametrize(("algorithm", "test"), VALID, ids=[test.id for _, test in VALID])
def test_flags(algorithm: str, test: HashTest) -> None:
    given, flags = test.input, set(test.flags)
    tokens, size = inputs.expand(given.tokens), given.block_size or 1
    blocks = -(-len(tokens) // size)
    for count in SIZES:
        assert f"size-{count}" not in flags or (size == count and len(tokens) % size == 0)
    if flags & {"partial-first", "partial-later", "partial-one", "partial-but-one"}:
        assert len(tokens) % size
    assert "partial-one" not in flags or last_block(given) == 1
    assert "partial-but-one" not in flags or last_block(given) == size - 1
    for count in (2, 3, 8, 64, 256):
        assert f"chain-{count}" not in flags or blocks == count
    if test.expected.chain is not None:
        assert len(test.expected.chain) == blocks
        assert test.expected.chain[-1] in (test.expected.unsigned, test.expected.key)
    if any(flag.startswith("digest-") for flag in flags):
        assert bytes in map(type, tokens)
    elif algorithm in REGISTRY and not flags & {"framing-digest"}:
        assert bytes not in map(type, tokens)
    if test.expected.unsigned is not None and algorithm != "salt_id":
        value = int(test.expected.unsigned)
        assert ("hash-negative" in flags) == (value >= 2**63)
        assert ("hash-positive" in flags) == (value < 2**63)
        assert "hash-leading-zero" not in flags or 2**48 <= value < 2**56
        assert "hash-two-leading-zeros" not in flags or value < 2**48
        assert "hash-leading-ff" not in flags or value >> 56 == 0xFF
        assert ("hash-zero" in flags) == (value == 0)
        assert hashing.signed(value) == int(test.expected.signed or "")


def test_seams() -> None:
    for width in (4, 8):
        for name, place in (("before", -2), ("at", -1), ("behind", 0)):
            tokens = inputs.expand(BY_ID[f"v2-u{8 * width}-digest-{name}-seam"].input.tokens)
            assert tokens.index(next(t for t in tokens if isinstance(t, bytes))) == 4096 // width + place


def test_parents_of_0() -> None:
    for name in ("parent-0-computed", "parent-0-computed-salted"):
        assert BY_ID[f"v1-{name}"].expected.chain is not None
        assert (BY_ID[f"v1-{name}"].expected.chain or ("",))[0] == "0"
    assert BY_ID["v1-parent-0-given"].expected == BY_ID["v1-known-root"].expected
    assert BY_ID["v1-parent-0-given-salted"].expected == BY_ID["v1-known-salt-root"].expected
    assert BY_ID["v1-parent-0-hash"].input.lora_id == v1.LORA_TO_0


def test_framing_has_none() -> None:
    assert BY_ID["v2-u32-framing-width"].expected == BY_ID["v2-u64-framing-width"].expected
    assert BY_ID["v2-u32-framing-digest"].expected == BY_ID["v2-u32-framing-words"].expected
    assert BY_ID["v2-u32-framing-digest"].expected == BY_ID["v2-u64-framing-digest"].expected


def test_keys_and_hashes_belong_together() -> None:
    for algorithm, test in VALID:
        key = test.expected.key
        if key is None or test.expected.unsigned is None:
            continue
        cut = key[:16] if "low64" not in algorithm else key[-16:]
        assert int(cut, 16) == int(test.expected.unsigned)


def test_behind_a_digest_v1_is_v2() -> None:
    for width in (32, 64):
        for slug in ("digest-child", "digest-item", "digest-both-child", "digest-at-seam", "digest-grandchild-4"):
            assert BY_ID[f"v1-u{width}-{slug}"].expected.unsigned == BY_ID[f"v2-u{width}-{slug}"].expected.unsigned


def test_what_is_open_is_quoted() -> None:
    cited = [test for _, test in VALID if test.result == "acceptable"]
    assert cited
    for test in cited:
        assert test.cites is not None
        assert test.cites.sentence in making.normal((resources.spec() / test.cites.chapter).read_text(encoding="utf-8"))


def test_runs_are_short_for_what_they_stand_for() -> None:
    assert inputs.expand((Run(start=3, count=4, step=5), 1, "00" * 32)) == (3, 8, 13, 18, 1, bytes(32))
    for file in FILES.values():
        for test in file.tests:
            for item in test.input.tokens:
                assert not isinstance(item, Run) or item.start + (item.count - 1) * item.step < 2**32


def test_generators_refuse_to_contradict_themselves() -> None:
    with pytest.raises(making.VectorError, match=r"hashing.md does not say: Hashes are pretty\."):
        making.quote("hashing.md", "Hashes are pretty.")
    good = BY_ID["v1-known-root"]
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"flags": ("unheard-of",)}, "no note says what 'unheard-of' means"),
        ({"result": "acceptable"}, "acceptable cites a sentence"),
        ({"requirements": ("KVW-HSH-999",)}, "there is no KVW-HSH-999"),
        ({"result": "invalid"}, "invalid has a fault"),
    )
    for change, message in cases:
        bad = msgspec.structs.replace(good, mistakes={}, **{"flags": (), **change})
        group = msgspec.structs.replace(FILES["hash/v1_block_key"].groups[0], tests=(bad,))
        with pytest.raises(making.VectorError, match=f"v1-known-root: {message}"):
            making.make("kvwire/vectors/hash/1", "here", [group], {})
    group = msgspec.structs.replace(FILES["hash/salt_id"].groups[0], tests=(good, good))
    with pytest.raises(making.VectorError, match="v1-known-root: the id is used twice"):
        making.make("kvwire/vectors/hash/1", "here", [group], {})
