"""What happens in the cache, and what of it is said."""

import random

import msgspec
import pytest
from tests.reference.engines import Ledger, engine, events

from kvwire_reference.announcer import Fate
from kvwire_reference.cache import HostConfig, LifeCycle, MmItem, target_of
from kvwire_reference.hashing import (
    ALGORITHMS,
    RangeError,
    digest_tokens,
    hash_chain,
    salt_id,
    scope_tag,
    signed,
    unsigned,
)
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, encode

BLOCK_1, BLOCK_2 = -2003500929019345749, 8460888372051954880
"""Known answers of `v2_sha256_64/u32` for 1 2 3 4 and then 5 6 7 8."""


def stored(event: Event) -> BlockStored:
    assert isinstance(event, BlockStored)
    return event


def removed(event: Event) -> BlockRemoved:
    assert isinstance(event, BlockRemoved)
    return event


# Announcing


def test_a_prompt_is_announced_in_full_blocks_and_its_tail_is_not() -> None:
    cache = engine()
    assert cache.insert([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) == 0
    assert events(cache) == (
        BlockStored(
            block_hashes=(BLOCK_1, BLOCK_2),
            parent_block_hash=None,
            token_ids=(1, 2, 3, 4, 5, 6, 7, 8),
            block_size=4,
            lora_id=None,
            medium="GPU",
            lora_name=None,
        ),
    )
    assert cache.resident() == cache.announced() == [BLOCK_2, unsigned(BLOCK_1)]
    assert len(cache) == 3
    assert cache.announcer.fates[Fate.PARTIAL] == 1


def test_what_is_known_is_not_said_again() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8])
    cache.flush()
    assert cache.insert([1, 2, 3, 4, 5, 6, 7, 8]) == 8
    assert cache.flush() is None


def test_a_partial_block_is_announced_once_it_is_full() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4, 5, 6])
    cache.flush()
    assert cache.insert([1, 2, 3, 4, 5, 6, 7, 8]) == 4
    (event,) = events(cache)
    assert stored(event).block_hashes == (BLOCK_2,)
    assert stored(event).parent_block_hash == BLOCK_1
    assert stored(event).token_ids == (5, 6, 7, 8)
    assert len(cache) == 2


def test_a_block_covered_in_part_is_announced_once_it_is_covered() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8], computed=7)
    assert stored(*events(cache)).block_hashes == (BLOCK_1,)
    assert cache.announcer.fates[Fate.PARTLY_COVERED] == 1
    assert cache.resident() == [unsigned(BLOCK_1)]
    assert cache.insert([1, 2, 3, 4, 5, 6, 7, 8]) == 4
    assert stored(*events(cache)).block_hashes == (BLOCK_2,)


def test_one_iteration_makes_one_batch_and_an_idle_one_none() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4])
    cache.insert([5, 6, 7, 8])
    first = cache.flush()
    assert first is not None
    assert len(first.events) == 2
    assert cache.flush() is None
    cache.insert([9, 9, 9, 9])
    second = cache.flush()
    assert second is not None
    assert second.ts >= first.ts


def test_stores_coalesce_along_a_chain_and_branches_do_not() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4])
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8])
    cache.insert([1, 2, 3, 4, 0, 0, 0, 0])
    trunk, branch = map(stored, events(cache))
    assert trunk.block_hashes == (BLOCK_1, BLOCK_2)
    assert branch.parent_block_hash == BLOCK_1
    assert branch.token_ids == (0, 0, 0, 0)


def test_keys_that_break_a_strict_consumer_are_sent_only_when_asked_for() -> None:
    plain, labelled = engine(), engine(announce_algorithm=True, announce_edition=True)
    for cache in (plain, labelled):
        cache.insert([1, 2, 3, 4])
        cache.evict(1)
    required = {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size"}
    required |= {"lora_id", "medium", "lora_name"}
    store, removal = (set(msgspec.to_builtins(event)) for event in events(plain))
    assert store == required
    assert removal == {"type", "block_hashes", "medium"}
    for event in events(labelled):
        assert msgspec.to_builtins(event)["hash_algo"] == "v2_sha256_64/u32"
        assert msgspec.to_builtins(event)["v"] == 1


# Leaving


def test_the_longest_unused_leaf_leaves_first_and_children_before_parents() -> None:
    cache = engine(capacity=4)
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8])
    cache.insert([0, 0, 0, 0])
    cache.flush()
    cache.insert([1, 2, 3, 4])
    cache.insert([9, 9, 9, 9, 8, 8, 8, 8])
    assert cache.insert([1, 2, 3, 4, 5, 6, 7, 8]) == 4
    first, second, third, fourth = events(cache)
    assert removed(first).block_hashes == (BLOCK_2,)
    assert stored(second).token_ids == (9, 9, 9, 9, 8, 8, 8, 8)
    assert removed(third).block_hashes == (signed(next(hash_chain(cache.algorithm, [(0, 0, 0, 0)])).hash or 0),)
    assert stored(fourth).block_hashes == (BLOCK_2,)


def test_consecutive_removals_are_one_event_leaves_before_parents() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8, 9])
    cache.flush()
    assert cache.evict(10) == 3
    assert removed(*events(cache)).block_hashes == (BLOCK_2, BLOCK_1)
    assert cache.announcer.fates[Fate.UNANNOUNCED] == 1
    assert len(cache) == 0


@pytest.mark.parametrize("capacity", [1, 2])
def test_a_prompt_longer_than_the_cache_is_kept_as_far_as_it_fits(capacity: int) -> None:
    cache = engine(capacity=capacity)
    cache.insert([0, 0, 0, 0])
    cache.flush()
    for _ in range(2):
        cache.insert([1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9])
    assert len(cache) == capacity
    removal, store = events(cache)
    assert len(removed(removal).block_hashes) == 1
    assert stored(store).block_hashes == (BLOCK_1, BLOCK_2)[:capacity]


def test_a_scope_without_blocks_is_forgotten() -> None:
    cache = engine(capacity=2)
    for tenant in range(20):
        cache.insert([1, 2, 3, 4], salt=str(tenant))
    assert len(cache._scopes) == 2
    assert cache.insert([1, 2, 3, 4], salt="19") == 4


def test_a_reset_is_said_at_once_and_forgets_everything() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4], salt="tenant-a")
    cache.flush()
    cache.reset()
    assert events(cache) == (AllBlocksCleared(),)
    assert cache.resident() == []
    assert cache.insert([1, 2, 3, 4], salt="tenant-a") == 0
    assert len(events(cache)) == 1


# Holding back


def test_a_block_shed_by_the_limit_holds_its_descendants_back_until_it_is_touched() -> None:
    cache = engine(max_entries=1)
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9]
    cache.insert(prompt)
    assert stored(*events(cache)).block_hashes == (BLOCK_1,)
    assert (cache.announcer.fates[Fate.CAPPED], cache.announcer.fates[Fate.BEHIND]) == (1, 1)
    assert cache.insert(prompt) == 12
    assert stored(*events(cache)).block_hashes == (BLOCK_2,)
    cache.insert(prompt)
    last = stored(*events(cache))
    assert last.parent_block_hash == BLOCK_2
    assert cache.resident() == cache.announced()


def test_a_shed_block_is_never_removed_and_removals_are_never_shed() -> None:
    cache = engine(max_entries=2)
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9])
    cache.flush()
    cache.evict(3)
    cache.insert([0, 0, 0, 0])
    removal, store = events(cache)
    assert removed(removal).block_hashes == (BLOCK_2, BLOCK_1)
    assert stored(store).token_ids == (0, 0, 0, 0)


IMAGE = MmItem(bytes(range(32)), ((2, 5),), uuid="cat.png")


def test_multimodal_blocks_are_held_back_with_all_that_follows_them() -> None:
    cache = engine()
    cache.insert([1] * 20, mm=[MmItem(IMAGE.digest, ((6, 3),))])
    assert stored(*events(cache)).token_ids == (1, 1, 1, 1)
    assert (cache.announcer.fates[Fate.MULTIMODAL], cache.announcer.fates[Fate.BEHIND]) == (2, 2)
    assert len(cache.resident()) == 5
    cache.evict(5)
    assert len(removed(*events(cache)).block_hashes) == 1


def test_multimodal_blocks_are_announced_to_those_who_decode_them() -> None:
    cache = engine(multimodal=True, id_offset=1000)
    cache.insert([1] * 12, mm=[IMAGE])
    event = stored(*events(cache))
    digest = IMAGE.digest.hex()
    assert event.token_ids == (1, 1, digest, 1001, 1002, 1003, 1004, 1, 1, 1, 1, 1)
    assert event.mm_keys is not None
    assert [[(key.hash, key.start_offset, key.uuid) for key in keys] for keys in event.mm_keys] == [
        [(digest, 0, "cat.png")],
        [(digest, 2, "cat.png")],
        [],
    ]
    assert encode(Batch(1.0, (event,), 0))


def test_an_item_in_several_runs_counts_its_tokens_through_all_of_them() -> None:
    cache = engine(multimodal=True, id_offset=1000)
    video = MmItem(bytes(32), ((1, 2), (4, 6)))
    cache.insert([7] * 12, mm=[video])
    event = stored(*events(cache))
    assert event.token_ids == (7, "00" * 32, 1001, 7, 1002, 1003, 1004, 1005, 1006, 1007, 7, 7)
    assert event.mm_keys is not None
    assert [[key.start_offset for key in keys] for keys in event.mm_keys] == [[0], [2], [6]]


def test_an_item_outside_the_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="5 tokens at 2 of a prompt of 6"):
        engine().insert([1] * 6, mm=[IMAGE])


# Life cycles


def test_the_widest_life_cycle_is_announced_the_smallest_id_on_a_tie() -> None:
    assert target_of([LifeCycle(3, 64), LifeCycle(2), LifeCycle(1)]) == LifeCycle(1)
    assert target_of([LifeCycle(3, 64), LifeCycle(2, 128)]) == LifeCycle(2, 128)


def test_narrow_life_cycles_are_ignored_and_counted() -> None:
    cache = engine(life_cycles=(LifeCycle(0, 4), LifeCycle(1)))
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8])
    assert stored(*events(cache)).block_hashes == (BLOCK_1, BLOCK_2)
    assert cache.announcer.fates[Fate.OTHER_LIFE_CYCLE] == 1
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9])
    assert len(stored(*events(cache)).block_hashes) == 1
    assert cache.announcer.fates[Fate.OTHER_LIFE_CYCLE] == 3


def test_a_prefix_whose_window_is_gone_cannot_be_reused_and_is_not_announced_again() -> None:
    cache = engine(life_cycles=(LifeCycle(0, 4), LifeCycle(1)))
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8])
    cache.flush()
    assert cache.insert([1, 2, 3, 4, 5, 6, 7, 8]) == 8
    assert cache.insert([1, 2, 3, 4]) == 0
    assert cache.flush() is None


# Hashes and scopes


def test_scopes_never_share_a_block_and_a_salt_stays_out_of_events() -> None:
    cache = engine()
    scopes = [(None, None), (7, None), (None, "tenant-a"), (7, "tenant-a")]
    for lora_id, salt in scopes:
        assert cache.insert([1, 2, 3, 4], lora_id=lora_id, salt=salt) == 0
    batch = cache.flush()
    assert batch is not None
    assert [stored(event).lora_id for event in batch.events] == [None, 7, None, 7]
    assert len({stored(event).block_hashes for event in batch.events}) == 4
    assert b"tenant-a" not in encode(batch)
    assert cache.insert([1, 2, 3, 4], salt="tenant-a") == 4
    expected = next(hash_chain(cache.algorithm, [[1, 2, 3, 4]], lora_id=7, salt_id=salt_id("tenant-a")))
    assert cache.resident()[-2] == expected.hash


@pytest.mark.parametrize("key", [None, b"deployment"])
def test_every_store_of_a_salted_chain_has_its_scope_tag_and_no_other_has_one(key: bytes | None) -> None:
    cache = engine(salt="tag", scope_key=key)
    scopes = []
    for salt in (None, "tenant-a"):
        for length in (8, 12):
            cache.insert(list(range(1, length + 1)), salt=salt)
            scopes += [stored(event).scope for event in events(cache)]
    tag = scope_tag("tenant-a", key)
    assert scopes == [None, None, tag, tag]


def test_a_tag_stays_with_blocks_that_were_in_host_memory() -> None:
    cache = engine(salt="tag", capacity=2, host=HostConfig(capacity=8, announced=True))
    for first in (1, 101):
        cache.insert(list(range(first, first + 8)), salt="tenant-a")
    cache.insert(list(range(1, 9)), salt="tenant-a")
    found = [event for event in events(cache) if isinstance(event, BlockStored)]
    assert {event.medium for event in found} == {"GPU", "CPU"}
    assert {event.scope for event in found} == {scope_tag("tenant-a")}


@pytest.mark.parametrize("label", ALGORITHMS)
def test_every_hash_is_what_a_consumer_computes(label: str) -> None:
    cache = engine(algorithm=label, multimodal=True, id_offset=1000)
    cache.insert(range(16), lora_id=3)
    cache.insert([1] * 12, mm=[IMAGE])
    text, image = map(stored, events(cache))
    blocks = [range(start, start + 4) for start in range(0, 16, 4)]
    assert text.block_hashes == tuple(
        signed(state.hash or 0) for state in hash_chain(cache.algorithm, blocks, lora_id=3)
    )
    tokens = [1, 1, *digest_tokens(IMAGE.digest, 5, 1000), *[1] * 5]
    chain = hash_chain(cache.algorithm, [tokens[start : start + 4] for start in range(0, 12, 4)])
    assert image.block_hashes == tuple(signed(state.hash or 0) for state in chain)


def test_a_token_out_of_range_changes_nothing() -> None:
    cache = engine()
    cache.insert([1, 2, 3, 4])
    cache.flush()
    with pytest.raises(RangeError, match="2147483648"):
        cache.insert([1, 2, 3, 4, 5, 6, 7, 8, 2**31])
    assert cache.flush() is None
    assert len(cache) == 1


# Whatever happens


WORKLOADS: list[dict[str, object]] = [
    {},
    {"max_entries": 2},
    {"algorithm": "v1_block_key", "capacity": 7},
    {"multimodal": True, "max_entries": 3},
    {"life_cycles": (LifeCycle(0, 8), LifeCycle(1, 16), LifeCycle(2))},
]


@pytest.mark.parametrize("config", WORKLOADS)
def test_a_consumer_always_believes_exactly_what_stands_announced(config: dict[str, object]) -> None:
    chance = random.Random(17)
    cache, ledger = engine(**{"capacity": 12, **config}), Ledger()
    for _ in range(600):
        for _ in range(chance.randrange(3)):
            tokens = [chance.choice((1, 1, 1, 2)) for _ in range(chance.randrange(1, 24))]
            item = [MmItem(bytes(32), ((0, min(6, len(tokens))),))] if chance.random() < 0.2 else []
            cache.insert(
                tokens,
                lora_id=chance.choice((None, None, 0)),
                salt=chance.choice((None, "s")),
                mm=item,
                computed=chance.choice((None, len(tokens) - 1)),
            )
        if chance.random() < 0.2:
            cache.evict(chance.randrange(4))
        if chance.random() < 0.02:
            cache.reset()
        batch = cache.flush()
        if batch is not None:
            ledger.apply(batch)
        assert ledger.believed().get(("GPU", 0), set()) == set(cache.announced()) <= set(cache.resident())
        assert cache.residents() == {("GPU", 0): cache.resident()}
        assert len(cache) <= 12
    assert min(cache.announcer.fates[fate] for fate in (Fate.STORED, Fate.REMOVED, Fate.PARTIAL)) > 100
