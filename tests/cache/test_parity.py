"""Parity, block by block: what is a match, a mismatch, or unknown, and what adds up."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.hashed import cached, chain, event, extra_of, judged, kinds, recompute, story, text, wired
from tests.kit.stories import Story

from kvwire.cache.cases import Match, Result, Unknown
from kvwire.cache.parity import FORGOTTEN, NOTHING, PARENT, SCOPE, SEARCHED
from kvwire.hashes.functions import NO_SCOPE, TRUE, Function, Scope, canonical, pickled
from kvwire.hashes.keys import extra_keys, plain_keys
from kvwire.hashes.mistakes import BY_NAME
from kvwire_reference import hashing

SALTED = Scope(salt="tenant-a")
ADAPTED = Scope(lora=7)


# --- inputs ------------------------------------------------------------------------------------------------------


def scoped(name: str, scope: Scope, *, driven: bool, wrong: bool = False, **keys: Any) -> list[Result]:
    """Ten blocks without scope, then a chain of four in a scope: what is said of those four."""
    plain, blocks = text(10), text(4, seed=2)
    told = Story(can=("cache",) if driven else ())
    told.begin()
    if driven:
        cached(told, plain)
    told.send(*wired(BY_NAME[name], plain))
    if driven:
        cached(told, blocks, scope)
    hashes = chain(name, blocks, scope)
    hashes = [value ^ wrong for value in hashes]
    told.send(event(hashes, blocks, **keys))
    _, results = recompute(told)
    assert kinds(results[:10]) == "m" * 10
    return results[10:]


@pytest.mark.parametrize(
    ("name", "scope", "passive", "why"),
    [
        ("v1_block_key", SALTED, "?mmm", SCOPE),
        ("v1_block_key", ADAPTED, "????", SCOPE),
        ("v2_sha256_64/u32", SALTED, "????", SCOPE),
        ("v2_sha256_64/u64", ADAPTED, "????", SCOPE),
        ("x-sglang-sha256", SALTED, "????", SCOPE),
    ],
)
def test_a_scope_that_is_not_on_the_wire(name: str, scope: Scope, passive: str, why: str) -> None:
    """The model publisher sends a nil `lora_id` with LoRA in use, so that nil tells nothing."""
    results = scoped(name, scope, driven=False)
    assert kinds(results) == passive
    assert {result.why for result in results if isinstance(result, Unknown)} == {why}
    assert kinds(scoped(name, scope, driven=True)) == "mmmm"
    assert kinds(scoped(name, scope, driven=False, wrong=True)) == "????"
    assert kinds(scoped(name, scope, driven=True, wrong=True)) == "wwww"


@pytest.mark.parametrize("name", ["v1_block_key", "v2_sha256_64/u32"])
def test_a_lora_id_on_the_wire(name: str) -> None:
    assert kinds(scoped(name, ADAPTED, driven=False, lora_id=7)) == "mmmm"
    wrong = scoped(name, ADAPTED, driven=False, wrong=True, lora_id=7)
    assert kinds(wrong) == "????"  # v1: extra token ids, which are on no wire, can have entered


def test_an_item_whose_digest_is_kept_back() -> None:
    """Placeholders stand in `token_ids`: whether they or the digest were hashed is not known, here and below."""
    name, kept = "v2_sha256_64/u32", bytes(range(32))
    plain = text(9)
    tokens = [*plain, (kept, *range(15)), *text(1, seed=9)]
    right = chain(name, tokens)
    for shown, offset, said in (((7, *range(15)), 0, "??"), ((kept, *range(15)), 0, "mm"), ((7, *range(15)), 1, "ww")):
        told = story([event(right[:9], plain)])
        mm = [[{"type": "mm_key", "hash": kept.hex(), "start_offset": offset}], []]
        parent = right[8]
        told.send(event(right[9:], [shown, tokens[10]], parent=parent, mm_keys=mm))
        _, results = recompute(told)
        assert kinds(results)[9:] == said, shown


def test_lora_0_may_be_none() -> None:
    assert kinds(scoped("v1_block_key", NO_SCOPE, driven=False, lora_id=0)) == "mmmm"
    assert kinds(scoped("v1_block_key", Scope(lora=0), driven=False, lora_id=0)) == "mmmm"


def test_a_lora_name_alone_is_not_enough() -> None:
    assert kinds(scoped("v2_sha256_64/u32", ADAPTED, driven=False, lora_name="adapter")) == "????"


def test_salt_on_the_wire() -> None:
    """SGLang's map form has a salt, which decides its hashes; its LoRA does not enter."""
    name = "x-sglang-sha256"
    assert kinds(scoped(name, SALTED, driven=False, cache_salt="tenant-a")) == "mmmm"
    assert kinds(scoped(name, SALTED, driven=False, wrong=True, cache_salt="tenant-a")) == "wwww"
    assert kinds(scoped(name, SALTED, driven=False, cache_salt="tenant-b")) == "wwww"


@pytest.mark.parametrize("name", ["x-vllm-sha256/bare", "x-vllm-sha256-cbor/bare"])
def test_extra_keys_on_the_wire(name: str) -> None:
    scope = Scope(lora=7, lora_name="adapter", salt="tenant-a")
    keys = [extra_of(at, scope) for at in range(4)]
    assert kinds(scoped(name, scope, driven=False, extra_keys=keys)) == "mmmm"
    assert kinds(scoped(name, scope, driven=False)) == "????"
    assert kinds(scoped(name, SALTED, driven=True)) == "mmmm"
    keys = [extra_of(at, SALTED) for at in range(4)]
    assert kinds(scoped(name, SALTED, driven=False, extra_keys=keys)) == "mmmm"
    assert kinds(scoped(name, SALTED, driven=False, wrong=True, extra_keys=keys)) == "wwww"


def kinded(encode: Callable[[Any], bytes], *keys: tuple[Any, ...] | None) -> list[int]:
    """The hashes of a chain of blocks with these extra keys, each with its kind, as vLLM 0.31 made them."""
    key, found = hashlib.sha256(encode("vllm-none-hash")).digest(), []
    for block, extra in zip(text(len(keys), seed=2), keys, strict=True):
        key = hashlib.sha256(encode((key, block, extra))).digest()
        found.append(int.from_bytes(key[-8:], "big"))
    return found


ENCODINGS = {"x-vllm-sha256/bare": pickled, "x-vllm-sha256-cbor/bare": canonical}


@pytest.mark.parametrize("name", ENCODINGS)
def test_extra_keys_enter_with_their_kinds(name: str) -> None:
    """What vLLM 0.32.0 sends of a prompt with a salt; its events have the bare keys."""
    own, blocks = wired(BY_NAME[name], text(10)), text(3, seed=2)
    salt, picture = ("cache_salt", "tenant-a"), ("mm", "a1", -3)
    hashes = kinded(ENCODINGS[name], (salt,), (picture, ("prompt_embeds", b"e")), None)
    wire = [["tenant-a"], [["a1", -3], b"e"], None]
    assert kinds(recompute(story(own, [event(hashes, blocks, extra_keys=wire)]))[1]) == "m" * 13
    parity, results = recompute(
        story(own, [event(hashes, blocks, extra_keys=wire)], [event([9], text(1, seed=3), extra_keys=[["tenant-b"]])])
    )
    assert kinds(results) == "m" * 13 + "w"
    assert parity.main is not None
    assert parity.main.name == name.replace("/bare", "/kinds")


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_path_of_an_adapter_is_on_no_wire(name: str) -> None:
    """It enters with the name, so that nothing can be said, unless the stream has shown that it does not."""
    own, blocks = wired(BY_NAME[name], text(10)), text(2, seed=2)
    adapter = ("lora", "adapter", "/where/it/lies")
    made = event(
        kinded(ENCODINGS[name], (adapter,), (adapter,)),
        blocks,
        extra_keys=[["adapter"], ["adapter"]],
        lora_id=1,
        lora_name="adapter",
    )
    assert kinds(recompute(story(own, [made]), name)[1]) == "m" * 10 + "??"
    driven = Story(can=("cache",))
    driven.begin()
    cached(driven, text(10))
    driven.send(*own)
    cached(driven, blocks, ADAPTED)
    driven.send(made)
    assert judged(driven)["001"] == "PASS"  # that no other function gives these blocks either is no doubt
    salted = [*wired(BY_NAME[name], text(2, seed=3), SALTED)]
    assert kinds(recompute(story(own, salted, [made]))[1]) == "m" * 12 + "ww"


def test_extra_keys_as_they_come() -> None:
    told = story([event([1], text(1), extra_keys=[["a", [1, "b"], b"c"]])])
    _, batch = told.timeline().incarnations[0].batches
    (seen,) = batch.reading.events
    assert extra_keys(batch.payload, seen) == (("a", (1, "b"), b"c"),)
    with pytest.raises(TypeError):
        plain_keys([{"a": 1}])


def test_a_foreign_mismatch_counts_where_it_has_matched_before() -> None:
    """A group of another block size may be hashed by a rule that is not described."""
    name, blocks = "x-vllm-sha256-cbor/bare", text(10)
    told = story(wired(BY_NAME[name], blocks))
    told.send(event([5], text(1, 32, seed=2), extra_keys=[None], group_idx=1))
    _, results = recompute(told)
    assert kinds(results) == "m" * 10 + "?"
    told.send(event([6], text(1, seed=3), extra_keys=[["a salt in clear"]]))
    assert kinds(recompute(told)[1]) == "m" * 10 + "?w"


def test_a_salt_can_be_hashed_and_left_out_of_extra_keys() -> None:
    """KVW-EVT-019 keeps it out; where salts stand in clear, a block without one has none."""
    name, blocks = "x-vllm-sha256-cbor/bare", text(10)
    salted = Scope(salt="tenant")
    told = story(wired(BY_NAME[name], blocks))
    hidden = chain(name, blocks[:2], salted)
    told.send(event(hidden, blocks[:2], extra_keys=[None, None]))
    assert kinds(recompute(told)[1]) == "m" * 10 + "??"
    cached(told, blocks[:2], salted)  # known from a prompt of ours
    assert kinds(recompute(told)[1]) == "m" * 12
    clear = story(wired(BY_NAME[name], blocks), [event([6], text(1, seed=3), extra_keys=[["tenant"]])])
    clear.send(event(hidden, blocks[:2], extra_keys=[None, None]))
    assert kinds(recompute(clear)[1])[:12] == "m" * 10 + "ww"


# --- joins, holes, restarts --------------------------------------------------------------------------------------


def joined(name: str, **options: Any) -> list[Result]:
    """The second half of a chain of 20, after other chains were seen whole."""
    blocks = text(20)
    parts = wired(BY_NAME[name], blocks)
    told = story(wired(BY_NAME[name], text(10, seed=2)), [parts[1]])
    return recompute(told, **options)[1][10:]


@pytest.mark.parametrize("function", TRUE, ids=[function.name for function in TRUE])
def test_mid_stream_join(function: Function) -> None:
    """A claimed parent is enough for some functions; the others need the chain from its root."""
    results = joined(function.name)
    if function.family == "claimed-parent":
        assert kinds(results) == "m" * 10
    else:
        assert set(results) == {Unknown(PARENT), Unknown(SCOPE)}


def test_keys_are_kept_across_a_hole_and_a_clear() -> None:
    blocks = text(12)
    first, second = wired(BY_NAME["v2_sha256_64/u32"], blocks)
    told = story([first])
    told.drop(3)
    told.send({"type": "AllBlocksCleared"})
    told.send(second)
    assert kinds(recompute(told)[1]) == "m" * 12


def test_a_hole_that_hides_the_root() -> None:
    first, second = wired(BY_NAME["v2_sha256_64/u32"], text(12))
    told = story(wired(BY_NAME["v2_sha256_64/u32"], text(10, seed=2)))
    told.send(first, by="")
    told.send(second)
    assert kinds(recompute(told)[1]) == "m" * 10 + "?" * 6


def test_a_restart_begins_anew_and_may_change_the_function() -> None:
    blocks = text(20)
    told = story(wired(BY_NAME["v2_sha256_64/u64"], blocks))
    told.restart()
    told.begin()
    told.send(wired(BY_NAME["v2_sha256_64/u64"], blocks)[1])
    told.send(*wired(BY_NAME["v2_sha256_64/u32"], text(20, seed=2)))
    parity, results = recompute(told)
    assert kinds(results) == "m" * 20 + "?" * 10 + "m" * 20
    assert not parity.conflicts.count
    assert [function.name for function in parity.candidates] == ["v2_sha256_64/u32"]


def test_two_functions() -> None:
    told = story(wired(BY_NAME["v2_sha256_64/u32"], text(10)), wired(BY_NAME["v2_sha256_64/u64"], text(10, seed=2)))
    parity, results = recompute(told)
    assert kinds(results) == "m" * 20
    assert parity.conflicts.count == 10
    assert parity.conflicts.first[0].names == ("v2_sha256_64/u64",)


def test_width_changed_in_mid_chain() -> None:
    """The parent's key is of one width, the block's tokens of the other: a hash of no function."""
    blocks = text(12)
    keys = chain("v2_sha256_64/u32", blocks[:11])
    key = hashing.v2_chain(blocks[:11], width=4)[-1]
    keys.append(hashing.truncate_first(hashing.block_key(key, list(blocks[11]), 8)))
    _, results = recompute(story([event(keys, blocks)]))
    assert kinds(results) == "m" * 11 + "w"


# --- bounds ------------------------------------------------------------------------------------------------------


def test_a_forgotten_chain_is_unknown_and_says_so() -> None:
    name = "v2_sha256_64/u32"
    first, second = wired(BY_NAME[name], text(12))
    told = story([first], *[wired(BY_NAME[name], text(10, seed=seed)) for seed in (2, 3, 4)], [second])
    _, results = recompute(told, window=16)
    assert kinds(results) == "m" * 36 + "?" * 6
    assert results[36] == Unknown(FORGOTTEN)


def random_story(blocks: int, size: int = 16) -> Story:
    source = random.Random(9)
    told = story()
    for seed in range(blocks // 10):
        told.send(event([source.randrange(2**63) for _ in range(10)], text(10, size, seed=seed)))
    return told


def test_hashes_of_no_function() -> None:
    parity, results = recompute(random_story(200))
    assert kinds(results) == "?" * 200
    assert not parity.matched
    assert not parity.mistaken
    assert NOTHING not in parity.unknown  # their scopes are not known


def test_nothing_known_reproduces_a_chain_whose_scope_is_known() -> None:
    blocks = text(1)
    told = Story(can=("cache",))
    cached(told, blocks)
    told.send(event([5], blocks))
    assert recompute(told)[1] == [Unknown(NOTHING)]


def test_the_search_is_bounded() -> None:
    """Beyond the bound only first blocks are searched, one of so many, and what is found there settles it."""
    told = random_story(3000)
    parity, results = recompute(told, search=20_000)
    assert results[-1] == Unknown(SEARCHED)
    assert parity.unknown[SEARCHED] > 2900
    for seed in range(1000, 1300):
        told.send(*wired(BY_NAME["v2_sha256_64/u32"], text(2, 32, seed=seed)))
    parity, results = recompute(told, search=20_000)
    assert parity.settled
    assert results[-1] == Match(("v2_sha256_64/u32",))


def test_a_named_function_is_always_computed() -> None:
    told = random_story(300)
    told.send(*wired(BY_NAME["v2_sha256_64/u32"], text(10, seed=1000)))
    parity, results = recompute(told, "v2_sha256_64", search=0)
    assert kinds(results) == "?" * 300 + "m" * 10
    assert parity.told == 10


# --- what the label says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "name", "told", "untrue"),
    [
        ("v1_block_key", "v1_block_key", 12, 0),
        ("v2_sha256_64", "v2_sha256_64/u32", 12, 0),
        ("v2_sha256_64", "v2_sha256_64/u64", 12, 0),
        ("v2_sha256_64/u32", "v2_sha256_64/u64", 0, 12),
        ("v2_sha256_64/u32", "v2_sha256_low64/u32", 0, 12),
        ("v2_sha256_64/u32", "x-sglang-sha256", 0, 12),
        ("v1_block_key", "x-dynamo-xxh3", 0, 12),
        ("v1_block_key", "v1_block_key/no-wrap", 0, 12),
        ("x-dynamo-xxh3", "x-dynamo-xxh3", 12, 0),
    ],
)
def test_labels(label: str, name: str, told: int, untrue: int) -> None:
    parity, _ = recompute(story(wired(BY_NAME[name], text(12))), label)
    assert (parity.told, parity.untrue.count) == (told, untrue)


def test_a_label_without_known_inputs_is_neither_true_nor_untrue() -> None:
    parity, _ = recompute(story(wired(BY_NAME["v2_sha256_64/u32"], text(12), SALTED)), "v2_sha256_64/u64")
    assert (parity.told, parity.untrue.count) == (0, 0)
