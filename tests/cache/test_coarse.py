"""Groups with larger blocks, which name a block by the hash of its last part, or hash it whole (spec/groups.md)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.stories import Event, Story

from kvwire.judges.verdict import Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.calls import CacheCall
from kvwire_reference import hashing

U32 = "v2_sha256_64/u32"
TOKENS = tuple(range(1000, 1032))
WINDOW: dict[str, Any] = {
    "group_idx": 1,
    "kv_cache_spec_kind": "sliding_window",
    "kv_cache_spec_sliding_window": 16,
}


def hashes(salt: str | None = None, size: int = 4) -> list[int]:
    blocks, _ = hashing.split_blocks(TOKENS, size)
    salted = None if salt is None else hashing.salt_id(salt)
    states = hashing.hash_chain(hashing.ALGORITHMS[U32], blocks, salt_id=salted)
    return [hashing.signed(state.hash or 0) for state in states]


def store(size: int, first: int = 0, last: int = 32, salt: str | None = None, **more: Any) -> Event:
    """The blocks of these tokens: of 4 in group 0, of 8 in the window group, named by their last 4."""
    every = hashes(salt)
    return {
        "type": "BlockStored",
        "block_hashes": [every[end // 4 - 1] for end in range(first + size, last + 1, size)],
        "parent_block_hash": every[first // 4 - 1] if first else None,
        "token_ids": list(TOKENS[first:last]),
        "block_size": size,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **(WINDOW if size > 4 else {}),
        **more,
    }


def told(*events: Event) -> Story:
    story = Story(statement=Statement(ring=1000, algorithm=U32)).begin()
    story.send(*events)
    return story


@pytest.mark.parametrize(
    "events",
    [
        [store(4), store(8)],
        [store(8), store(4)],
        [store(8)],
        [store(4, 0, 16), store(8, 0, 16), store(4, 16), store(8, 16)],
    ],
    ids=["fine first", "coarse first", "coarse alone", "bit by bit"],
)
def test_nobody_speaks_of_coarse_blocks(events: list[Event]) -> None:
    assert told(*events).spoken() == {}


def test_coarse_blocks_are_recomputed_by_their_parts() -> None:
    assert told(store(4), store(8)).verdict("HSH-002") == (Verdict.PASS, 12)


@pytest.mark.parametrize("fine_first", [True, False])
def test_coarse_blocks_are_recomputed_as_a_whole(fine_first: bool) -> None:
    fine, coarse = store(4), {**store(8), "block_hashes": hashes(size=8)}
    story = told(fine, coarse) if fine_first else told(coarse, fine)
    assert story.spoken() == {}
    assert story.verdict("HSH-002") == (Verdict.PASS, 12)


def test_a_coarse_block_of_other_tokens_is_noticed() -> None:
    wrong = {**store(8), "token_ids": [*TOKENS[:31], 7]}
    assert "HSH-008" in told(store(4), wrong).spoken()


def test_coarse_chains_of_two_salts_are_two_chains() -> None:
    story = Story(statement=Statement(ring=1000, algorithm=U32)).begin()
    for salt in (None, "tenant-a", "tenant-b"):
        story.note(CacheCall(tokens=TOKENS, salt=salt, cached_tokens=0))
        story.send(store(4, salt=salt), store(8, salt=salt))
    assert story.spoken() == {}
    assert story.verdict("HSH-002") == (Verdict.PASS, 36)
