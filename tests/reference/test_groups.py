"""Several life cycles announced as groups: their keys, their parents, and what reuse asks of each."""

from typing import Any

import pytest
from tests.reference.engines import Ledger, engine, events, work

from kvwire_reference.cache import LifeCycle, MmItem, target_of
from kvwire_reference.hashing import hash_chain, signed
from kvwire_reference.residents import Residents
from kvwire_reference.wire import Batch, BlockRemoved, BlockStored, MmKey

FULL = LifeCycle(0)
WINDOW = LifeCycle(1, 8)
MAMBA = LifeCycle(2, kind="mamba")
COARSE = LifeCycle(3, kind="mla_attention", block_size=8)
COARSE_WINDOW = LifeCycle(4, 12, block_size=12)
COARSE_MAMBA = LifeCycle(5, kind="mamba", block_size=8)

PROMPT = list(range(1, 21))


def hashes(tokens: list[int], size: int = 4) -> tuple[int, ...]:
    """Hashes of the chain in blocks of `size`, each that of its last four tokens."""
    cache = engine()
    blocks = [tokens[start : start + 4] for start in range(0, len(tokens), 4)]
    states = list(hash_chain(cache.algorithm, blocks))
    return tuple(signed(state.hash or 0) for state in states[size // 4 - 1 :: size // 4])


def said(*found: Any) -> list[tuple[Any, ...]]:
    """Type, group and hashes of each event."""
    return [(type(event).__name__, event.group_idx, event.block_hashes) for event in found]


def test_the_keys_of_a_group_are_sent_only_when_groups_are_announced() -> None:
    alone, grouped = engine(life_cycles=(FULL, WINDOW)), engine(life_cycles=(FULL, WINDOW), groups=(0, 1))
    for cache in (alone, grouped):
        cache.insert(PROMPT[:8])
    (plain,) = events(alone)
    full, window = events(grouped)
    keys = [(e.group_idx, e.kv_cache_spec_kind, e.kv_cache_spec_sliding_window) for e in (plain, full, window)]  # type: ignore[union-attr]
    assert keys == [(None, None, None), (0, "full_attention", None), (1, "sliding_window", 8)]
    assert alone.residents().keys() == {("GPU", 0)}
    assert grouped.residents() == {("GPU", 0): grouped.resident(), ("GPU", 1): grouped.resident()}


def test_chosen_groups_are_announced_and_the_others_ignored() -> None:
    cache = engine(life_cycles=(FULL, WINDOW, COARSE), groups=(0, 3))
    cache.insert(PROMPT)
    assert {event[1] for event in said(*events(cache))} == {0, 3}
    assert cache.residents().keys() == {("GPU", 0), ("GPU", 3)}


def test_a_window_group_announces_what_was_computed_and_removes_what_the_window_left() -> None:
    cache = engine(life_cycles=(FULL, WINDOW), groups=(0, 1))
    cache.insert(PROMPT)
    chain = hashes(PROMPT)
    assert said(*events(cache)) == [
        ("BlockStored", 0, chain),
        ("BlockStored", 1, chain),
        ("BlockRemoved", 1, chain[:3]),
    ]
    assert cache.insert([*PROMPT, 21, 22, 23, 24]) == 20
    *_, store, removal = events(cache)
    assert isinstance(store, BlockStored)
    assert store.parent_block_hash == chain[4]
    assert said(removal) == [("BlockRemoved", 1, chain[3:4])]


def test_a_prefix_whose_window_is_gone_is_computed_and_announced_again_in_its_group_only() -> None:
    cache = engine(life_cycles=(FULL, WINDOW), groups=(0, 1))
    cache.insert(PROMPT)
    cache.flush()
    assert cache.insert(PROMPT[:12]) == 0
    assert said(*events(cache)) == [("BlockStored", 1, hashes(PROMPT)[:3]), ("BlockRemoved", 1, hashes(PROMPT)[:1])]


def test_a_recurrent_group_keeps_one_state_and_is_reused_where_it_ends() -> None:
    cache = engine(life_cycles=(FULL, MAMBA), groups=(0, 2))
    cache.insert(PROMPT)
    chain = hashes(PROMPT)
    full, store, removal = events(cache)
    assert isinstance(store, BlockStored)
    assert (store.kv_cache_spec_kind, store.kv_cache_spec_sliding_window) == ("mamba", None)
    assert said(full, removal) == [("BlockStored", 0, chain), ("BlockRemoved", 2, chain[:4])]
    assert cache.insert(PROMPT) == 20
    assert cache.flush() is None
    assert cache.insert([*PROMPT[:12], 0]) == 0
    assert target_of([MAMBA, WINDOW]) is WINDOW


def test_a_larger_block_has_the_hash_of_its_last_part_and_the_parent_of_its_group() -> None:
    cache = engine(life_cycles=(FULL, COARSE), groups=(0, 3))
    cache.insert(PROMPT)
    _, coarse = events(cache)
    assert coarse == BlockStored(
        block_hashes=hashes(PROMPT, 8),
        parent_block_hash=None,
        token_ids=tuple(PROMPT[:16]),
        block_size=8,
        lora_id=None,
        medium="GPU",
        lora_name=None,
        group_idx=3,
        kv_cache_spec_kind="mla_attention",
    )
    assert cache.insert([*PROMPT, 21, 22, 23, 24]) == 16, "reuse ends where a block of each group does"
    _, grown = events(cache)
    assert isinstance(grown, BlockStored)
    assert (grown.parent_block_hash, grown.token_ids) == (hashes(PROMPT, 8)[1], tuple(range(17, 25)))
    assert cache.insert([*PROMPT, 21, 22, 23, 24]) == 24
    cache.evict(1)
    *removed, last = said(*events(cache))
    assert {group for _, group, _ in [*removed, last]} == {0, 3}
    assert last[2] == grown.block_hashes


def test_a_larger_block_covered_in_part_is_not_announced() -> None:
    cache = engine(life_cycles=(FULL, COARSE), groups=(0, 3))
    cache.insert(PROMPT[:8], computed=7)
    assert said(*events(cache)) == [("BlockStored", 0, hashes(PROMPT)[:1])]
    cache.insert(PROMPT[:8])
    assert said(*events(cache)) == [("BlockStored", 0, hashes(PROMPT)[1:2]), ("BlockStored", 3, hashes(PROMPT, 8)[:1])]


def test_an_item_that_goes_through_a_larger_block_stands_once_in_its_keys() -> None:
    cache = engine(life_cycles=(FULL, COARSE), groups=(0, 3), multimodal=True, id_offset=1000)
    cache.insert([1] * 16, mm=[MmItem(bytes(32), ((2, 9),))])
    fine, coarse = events(cache)
    assert isinstance(fine, BlockStored)
    assert isinstance(coarse, BlockStored)
    keys = [[(MmKey(bytes(32).hex(), offset),) for offset in offsets] for offsets in ((0, 2, 6), (0, 6))]
    assert (fine.mm_keys, coarse.mm_keys) == ((*keys[0], ()), tuple(keys[1]))


GROUPED: list[dict[str, object]] = [
    {"life_cycles": (FULL, WINDOW), "groups": (0, 1)},
    {"life_cycles": (LifeCycle(0, 16), LifeCycle(1, 4)), "groups": (0, 1)},
    {"life_cycles": (FULL, COARSE, MAMBA), "groups": (0, 2, 3)},
    {"life_cycles": (FULL, COARSE_WINDOW, COARSE_MAMBA), "groups": (0, 4, 5)},
    {"life_cycles": (COARSE, COARSE_MAMBA, LifeCycle(6, 4, block_size=16)), "groups": (3, 5, 6)},
    {"life_cycles": (FULL, WINDOW, MAMBA), "groups": (0, 2)},
]


@pytest.mark.parametrize("capacity", [9, 40])
@pytest.mark.parametrize("config", GROUPED)
def test_a_consumer_of_groups_believes_exactly_what_is_held(config: dict[str, object], capacity: int) -> None:
    work(engine(capacity=capacity, multimodal=True, **config), Ledger())


@pytest.mark.parametrize("more", [{"max_entries": 3}, {"multimodal": False}])
@pytest.mark.parametrize("config", GROUPED)
def test_a_consumer_of_groups_never_believes_more(config: dict[str, object], more: dict[str, object]) -> None:
    work(engine(**{"capacity": 12, "multimodal": True, **config, **more}), Ledger(), whole=False)


def test_a_consumer_finds_prefixes_in_every_group_by_the_hash_of_the_smallest() -> None:
    cache = engine(life_cycles=(FULL, COARSE), groups=(0, 3), announce_algorithm=True)
    cache.insert(PROMPT)
    residents = Residents()
    full, coarse = events(cache)
    residents.apply(Batch(0.0, (coarse, full, coarse), 0))
    assert [residents.prefix(PROMPT, "GPU", group=group) for group in (0, 3)] == [5, 2]
    assert residents.mismatched == 0
    assert residents.reproduced == 2
    gone = BlockRemoved(block_hashes=hashes(PROMPT, 8)[1:], medium="GPU", group_idx=3, hash_algo=cache.config.algorithm)
    residents.apply(Batch(0.0, (gone,), 0))
    assert [residents.prefix(PROMPT, "GPU", group=group) for group in (0, 3)] == [5, 1]


def test_a_consumer_finds_prefixes_where_no_group_has_the_smallest_blocks() -> None:
    cache = engine(life_cycles=(COARSE, LifeCycle(4, block_size=12)), groups=(3, 4), announce_algorithm=True)
    cache.insert(PROMPT)
    residents = Residents()
    residents.apply(Batch(0.0, events(cache), 0))
    assert [residents.prefix(PROMPT, "GPU", group=group) for group in (3, 4)] == [2, 1]


def test_the_entry_limit_is_one_for_all_groups() -> None:
    cache = engine(life_cycles=(FULL, WINDOW), groups=(0, 1), max_entries=6)
    cache.insert(PROMPT)
    assert sum(len(event.block_hashes) for event in events(cache) if isinstance(event, BlockStored)) == 6


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"life_cycles": (FULL, LifeCycle(0, 8))}, "each needs one of its own"),
        ({"life_cycles": (LifeCycle(-1),)}, "0 or more"),
        ({"life_cycles": (FULL, WINDOW), "groups": (1,)}, "leave out the target life cycle, 0"),
        ({"groups": (0, 7)}, "are not all life cycles"),
        ({"life_cycles": (LifeCycle(0, block_size=6),)}, "blocks of 6 tokens are no multiple of the engine's 4"),
        ({"life_cycles": (LifeCycle(0, block_size=-4),)}, "no multiple"),
        ({"life_cycles": (LifeCycle(0, 8, "full_attention"),)}, "keeps whole prefixes and has a window"),
    ],
)
def test_groups_that_cannot_be_are_refused(config: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        engine(**config)
