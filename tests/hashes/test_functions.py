"""Every known function and mistake: known answers, and that each mistake is one."""

from __future__ import annotations

import ast
import inspect
import itertools
import random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.kit.hashed import Blocks, chain, states, text

from kvwire.cache import parity
from kvwire.cache.parity import LONG
from kvwire.hashes import functions, mistakes, v1_variants
from kvwire.hashes.functions import LABELS, NO_SCOPE, TRUE, Block, Function, Scope, chain_key, first, last, named
from kvwire.hashes.mistakes import BY_NAME, MISTAKES, difference
from kvwire.hashes.v1_variants import V1_MISTAKES, Mixer
from kvwire.standard import resources
from kvwire_reference import hashing

ANSWERS: list[dict[str, Any]] = [
    answer
    for answer in msgspec.json.decode((resources.vectors() / "hash" / "known-answers.json").read_bytes())["answers"]
    if answer["algorithm"] in BY_NAME
]
DIGEST = bytes(range(32))
SCOPES = (NO_SCOPE, Scope(lora=7), Scope(salt="tenant-a"), Scope(lora=0, salt="tenant-b"))


def scope_of(answer: dict[str, Any]) -> Scope:
    """The scope of an answer; salt ids that no text is known for are put in directly."""
    lora = answer.get("lora_id")
    lora = None if lora is None else int(lora)
    if "salt_id" in answer:
        values = {"lora": lora, "lora_name": None, "salt": "?", "salt_id": int(answer["salt_id"]), "bare": False}
        return cast("Scope", SimpleNamespace(**values))
    return Scope(lora=lora, salt=answer.get("salt"))


@pytest.mark.parametrize("answer", ANSWERS, ids=[answer["id"] for answer in ANSWERS])
def test_known_answer(answer: dict[str, Any]) -> None:
    function = BY_NAME[answer["algorithm"]]
    if answer["id"].startswith("dynamo-local"):
        function = BY_NAME["x-dynamo-xxh3/local"]
    size, scope = answer["block_size"], scope_of(answer)
    parent = None if "parent" not in answer else int(answer["parent"])
    state = function.start(scope) if parent is None else function.join(scope)
    assert state is not None
    tokens = tuple(bytes.fromhex(t) if isinstance(t, str) else t for t in answer["tokens"])
    for start in range(0, len(tokens), size):
        # the local hash of a first block is right; it is asked for as that of a child
        above = parent if function.name != "x-dynamo-xxh3/local" else 1
        extra = None if answer.get("salt") is None or start else (answer["salt"],)
        state = function.step(state, Block(tokens[start : start + size], above, extra=extra))
        parent = state.hash
    assert state.hash == int(answer["expected"]["unsigned"])
    if "key" in answer["expected"]:
        assert state.key is not None
        assert state.key.hex() == answer["expected"]["key"]


def test_every_function_has_a_known_answer_or_is_its_variant() -> None:
    answered = {answer["algorithm"] for answer in ANSWERS}
    assert {function.name for function in TRUE if "(" not in function.name} <= answered
    assert "v1_block_key/no-wrap" in answered


def test_dynamo_chain() -> None:
    blocks: Blocks = [tuple(range(at, at + 4)) for at in (0, 4, 8)]
    assert chain("x-dynamo-xxh3", blocks) == [9143094415614847814, 9510318385840434533, 16998148715716822651]


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.text)
def test_registry_equals_the_reference(width: hashing.Width, scope: Scope) -> None:
    blocks: Blocks = [*text(6, 5), (1, DIGEST, 3, 4, 5), *text(3, 5, seed=2)]
    for label in ("v1_block_key", f"v2_sha256_64/u{width * 8}", f"v2_sha256_low64/u{width * 8}"):
        (algorithm,) = (a for a in hashing.candidates(label) if a.width == width)
        (function,) = (f for f in named(label) if label != "v1_block_key" or f.name.endswith(")") == (width == 8))
        wanted = [
            state.hash for state in hashing.hash_chain(algorithm, blocks, lora_id=scope.lora, salt_id=scope.salt_id)
        ]
        assert [state.hash for state in states(function, blocks, scope)] == wanted


def test_chain_key_equals_the_reference() -> None:
    source = random.Random(3)
    widths: tuple[hashing.Width, ...] = (4, 8)
    for count, width in itertools.product((1, 511, 512, 513, 1023, 1024, 1025), widths):
        tokens: list[hashing.Token] = [source.randrange(2**31) for _ in range(count)]
        if count > 1:
            tokens[count // 2] = source.randbytes(32)
        key = source.randbytes(32)
        assert chain_key(key, tuple(tokens), width) == hashing.block_key(key, tokens, width)
        assert (first(key), last(key)) == (hashing.truncate_first(key), hashing.truncate_last(key))


def test_a_v1_variants_without_a_mistake_is_the_function() -> None:
    source = random.Random(4)
    for _ in range(200):
        tokens = tuple(source.randrange(2**32) for _ in range(source.randrange(1, 20)))
        parent = source.choice((None, source.randrange(2**64)))
        scope = source.choice(SCOPES)
        mm = tuple((source.randbytes(32), source.randrange(2**20)) for _ in range(source.randrange(3)))
        assert Mixer().hash(Block(tokens, parent, mm), scope) == hashing.v1_block_hash(
            tokens, parent=parent or 0, lora_id=scope.lora, salt_id=scope.salt_id, mm_keys=mm
        )


def test_the_wide_constant_wraps_nowhere_else() -> None:
    """The products and shifts of a mistake stay those of the function: only its own place differs."""
    assert Mixer(wrap=False).hash(Block((1,)), NO_SCOPE) == hashing.v1_block_hash([1])
    assert Mixer(logical=False).hash(Block((1, 2)), NO_SCOPE) == hashing.v1_block_hash([1, 2])


ALL: Blocks = [*text(3, 20, seed=5), (*range(18), DIGEST, 5), *text(2, 20, seed=6)]
MM = [((DIGEST, 3),) for _ in ALL]
FULL = Scope(lora=7, lora_name="adapter", salt="tenant-a")


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_differs_from_its_truth(mistake: Function) -> None:
    """It shows on some block, and is named so that an implementer knows what to do."""
    assert mistake.truth in BY_NAME
    assert mistake.name.startswith(f"{mistake.truth}/".replace("/bare/", "/"))
    assert 20 < len(mistake.wrong) < 120
    truth = BY_NAME[mistake.truth]
    foreign = mistake.truth.startswith("x-")
    blocks = text(6, 20, seed=5) if foreign else ALL
    scope = NO_SCOPE if truth.name == "x-dynamo-xxh3" else FULL
    wrong = [state.hash for state in states(mistake, blocks, scope, None if foreign else MM)]
    right = [state.hash for state in states(truth, blocks, scope, None if foreign else MM)]
    assert None not in wrong
    assert wrong != right


TWINS = ("v1_block_key", "x-vllm-sha256", "x-vllm-sha256-cbor")


def test_no_two_functions_give_one_hash_of_a_long_block() -> None:
    """Where a mistake gives what the truth gives by construction it says nothing, so that hits are not ambiguous.

    Some pairs are one by definition: behind a digest token ``v1_block_key`` takes its hash from the v2 key, and without
    extra keys nothing of vLLM's depends on how they are written.
    """
    for scope, mm in itertools.product((NO_SCOPE, FULL), (None, MM)):
        found: list[dict[int, list[str]]] = [{} for _ in ALL]
        for function in (*TRUE, *MISTAKES):
            state, parent = function.start(scope), None
            for at, tokens in enumerate(ALL):
                if state is None:
                    break
                state = function.step(state, Block(tokens, parent, MM[at] if mm else ()))
                parent = 12345 + at
                if state.hash is not None and (at < 3 or function.label != "v1_block_key"):
                    found[at].setdefault(state.hash, []).append(function.name)
        names = [group for hashes in found for group in hashes.values() if len(group) > 1]
        twins = [
            *([function.name for function in named(label)] for label in TWINS),
            ["v1_block_key/no-lora", "v1_block_key/lora-first-block"],  # on children
        ]
        assert all(group in twins for group in names), names


def coincidences(mistake: Function, size: int, count: int) -> int:
    """On how many first blocks a mistake gives the true hash."""
    truth = BY_NAME[str(mistake.truth)]
    start, begin = mistake.start(NO_SCOPE), truth.start(NO_SCOPE)
    assert start is not None
    assert begin is not None
    blocks = [Block(tokens) for tokens in text(count, size, seed=7)]
    return sum(mistake.step(start, block).hash == truth.step(begin, block).hash for block in blocks)


def test_no_wrap_coincides_with_the_truth_on_short_blocks_only() -> None:
    (mistake,) = (m for m in V1_MISTAKES if m.name.endswith("/no-wrap"))
    shares = {size: coincidences(mistake, size, 1000) / 1000 for size in (1, 2, 4, 16)}
    assert 0.3 < shares[1] < 0.45
    assert 0.1 < shares[2] < 0.2
    assert 0 < shares[4] < 0.05
    assert shares[16] == 0


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_no_mistake_gives_the_true_hash_of_a_long_block(mistake: Function) -> None:
    if mistake.start(NO_SCOPE) is not None:
        assert coincidences(mistake, LONG, 200) == 0


def test_labels() -> None:
    assert [f.name for f in named("v2_sha256_64")] == ["v2_sha256_64/u32", "v2_sha256_64/u64"]
    assert len(named("v1_block_key")) == 2
    assert [f.name for f in named("x-dynamo-xxh3")] == ["x-dynamo-xxh3"]
    assert named("opaque") == named("v2_sha256") == named(None) == ()
    assert set(hashing.ALGORITHMS) < LABELS
    assert all(named(label) for label in LABELS - {"opaque"})


@pytest.mark.parametrize(
    ("wanted", "found", "text"),
    [
        ("v1_block_key", "v1_block_key/no-wrap", "32-bit wrap missing"),
        ("v2_sha256_64/u32", "v2_sha256_low64/u32", "last eight bytes"),
        ("v2_sha256_64/u32", "v2_sha256_64/u64", "eight bytes each"),
        ("v2_sha256_64/u64", "v2_sha256_low64/u32", "last eight bytes of the key are sent, not the first; tokens"),
        ("v2_sha256_64/u32", "x-sglang-sha256", "root key is missing"),
        ("v1_block_key", "x-dynamo-xxh3", "that of x-dynamo-xxh3"),
    ],
)
def test_difference(wanted: str, found: str, text: str) -> None:
    assert text in difference(wanted, found)


def test_out_of_range_is_no_hash() -> None:
    """Token ids of 2^31 and more have no hash under /u32, and one under v1 and /u64."""
    block = Block((2**31, 1))
    hashes = {}
    for function in TRUE:
        state = function.start(NO_SCOPE)
        assert state is not None
        hashes[function.name] = function.step(state, block).hash
    assert hashes["v2_sha256_64/u32"] is None
    assert hashes["v2_sha256_64/u64"] is not None
    assert hashes["v1_block_key"] is not None


@pytest.mark.parametrize("module", [functions, mistakes, v1_variants, parity])
def test_nothing_is_ever_unpickled(module: Any) -> None:
    names = {
        node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        for node in ast.walk(ast.parse(inspect.getsource(module)))
    }
    assert not names & {"load", "loads", "Unpickler", "eval", "exec"}
