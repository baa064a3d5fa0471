"""Parity with every function, true and mistaken."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.hashed import Blocks, cached, chain, event, extra_of, kinds, recompute, story, text, wired
from tests.kit.stories import Story

from kvwire.cache.cases import Mismatch, Unknown
from kvwire.cache.parity import MULTIMODAL
from kvwire.hashes.functions import NO_SCOPE, TRUE, Function, Scope
from kvwire.hashes.mistakes import BY_NAME, MISTAKES

DIGEST = bytes(range(32))
V1 = ("v1_block_key", "v1_block_key (keys of eight-byte tokens behind a digest)")


# --- true functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 16, 100])
@pytest.mark.parametrize("function", TRUE, ids=[function.name for function in TRUE])
def test_every_function_matches(function: Function, size: int) -> None:
    parity, results = recompute(story(wired(function, text(20, size))))
    assert kinds(results) == "m" * 20
    assert parity.matched == parity.matches[function.name] == 20
    assert not parity.missed
    assert not parity.conflicts.count
    assert function in parity.candidates


@pytest.mark.parametrize("function", TRUE, ids=[function.name for function in TRUE])
def test_settled_functions_only_are_computed(function: Function) -> None:
    parity, _ = recompute(story(wired(function, text(40, 40)), *[wired(function, text(9, 40, seed=3))]))
    assert parity.settled
    assert {candidate.label for candidate in parity.candidates} == {function.label}


def test_a_digest_tells_the_revision_of_v1() -> None:
    """Behind a digest token v1 takes its hash from its v2 key, and so has a token width."""
    blocks: Blocks = [*text(2), (DIGEST, *range(15)), *text(2, seed=2)]
    for name in V1:
        parity, results = recompute(story([event(chain(name, blocks), blocks, mm_keys=[[] for _ in blocks])]))
        assert kinds(results) == "mmmmm"
        assert [function.name for function in parity.candidates] == [name]


def test_a_stream_of_digests_is_v1_or_v2_until_text_comes() -> None:
    digests: Blocks = [(DIGEST, *range(15)), *text(9, seed=2)]
    told = story([event(chain("v1_block_key", digests), digests, mm_keys=[[] for _ in digests])])
    parity, _ = recompute(told)
    assert [function.name for function in parity.candidates] == ["v1_block_key", "v2_sha256_64/u32"]
    blocks = text(2, seed=3)
    told.send(event(chain("v1_block_key", blocks), blocks))
    parity, results = recompute(told)
    assert kinds(results) == "m" * 12
    assert [function.name for function in parity.candidates] == ["v1_block_key"]
    assert not parity.conflicts.count


def test_multimodal_keys_enter_v1() -> None:
    blocks = text(3)
    mm = [(), ((DIGEST, 2), (bytes(32), 0)), ((DIGEST, 18),)]
    wire = [[{"type": "mm_key", "hash": d.hex(), "start_offset": o} for d, o in keys] for keys in mm]
    hashes = chain("v1_block_key", blocks, mm=mm)
    _, results = recompute(story([event(hashes, blocks, mm_keys=wire)]))
    assert kinds(results) == "mmm"
    negative = [[{"type": "mm_key", "hash": DIGEST.hex(), "start_offset": -1}]] * 3
    for unreadable in (wire[:2], [[{"hash": "?"}]] * 3, negative, None):
        _, results = recompute(story([event(hashes, blocks, mm_keys=unreadable)]), "v1_block_key")
        assert results == [Unknown(MULTIMODAL)] * 3


# --- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_every_mistake_is_named(mistake: Function) -> None:
    """In a run that knows the scope; a block on which the mistake does not show is right."""
    truth = BY_NAME[str(mistake.truth)]
    scope = NO_SCOPE if mistake.start(NO_SCOPE) is not None else Scope(lora=7, salt="tenant-a")
    blocks: Blocks = text(12)
    mm: list[tuple[tuple[bytes, int], ...]] = [() for _ in blocks]
    keys: dict[str, Any] = {}
    if "mm-" in mistake.name:
        mm = [((DIGEST, at),) for at in range(12)]
        keys["mm_keys"] = [[{"type": "mm_key", "hash": DIGEST.hex(), "start_offset": at}] for at in range(12)]
    elif "digest" in mistake.name or "fallback" in mistake.name:
        blocks[0] = (DIGEST, *range(15))
        keys["mm_keys"] = [[] for _ in blocks]
    elif truth.label.startswith("x-vllm"):
        keys["extra_keys"] = [extra_of(at, scope) for at in range(12)]
    wrong, right = chain(mistake.name, blocks, scope, mm), chain(truth.name, blocks, scope, mm)
    told = Story(can=("cache",))
    cached(told, blocks, scope)
    told.send(event(wrong, blocks, **keys))
    parity, results = recompute(told)
    assert "w" in kinds(results)
    assert "?" not in kinds(results)
    for result, value, other in zip(results, wrong, right, strict=True):
        if isinstance(result, Mismatch):
            assert result.nearest is not None
            assert BY_NAME[result.nearest].truth == truth.name
        else:
            assert value == other or truth.family == "claimed-parent"
    assert parity.mistaken[mistake.name].count == kinds(results).count("w") or mistake.name.endswith("lora")
    assert not parity.against[mistake.name]


def test_a_short_block_may_match_the_truth_and_its_mistake() -> None:
    """Such blocks match, and do not count towards settling the function."""
    told = story()
    for seed in range(60):
        blocks = text(1, 1, seed=seed)
        told.send(event(chain("v1_block_key/no-wrap", blocks), blocks))
    parity, results = recompute(told)
    matches = kinds(results).count("m")
    assert 10 < matches < 35
    assert parity.matches["v1_block_key"] == matches
    assert not parity.solid["v1_block_key"]
    assert not parity.settled
    assert parity.mistaken["v1_block_key/no-wrap"].count == 60 - matches
    assert not parity.against["v1_block_key/no-wrap"]


def test_what_was_wanted_is_told() -> None:
    blocks = text(9)
    right = chain("v2_sha256_64/u32", blocks)
    told = story([event(right, blocks)], [event([right[-1], 99], [blocks[-1], text(1, seed=9)[0]], first=1)])
    parity, results = recompute(told)
    assert results[-1] == Mismatch(None)
    (example,) = parity.missed["v2_sha256_64/u32"].first
    assert example.hash == 99
    assert example.wanted == chain("v2_sha256_64/u32", [*blocks, *text(1, seed=9)])[-1]
