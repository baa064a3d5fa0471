"""What does not outlive an iteration is left out, and nobody believes otherwise for it."""

import pytest
from tests.reference.engines import Ledger, engine, events, work

from kvwire_reference.announcer import Fate
from kvwire_reference.cache import CacheEngine, HostConfig, LifeCycle
from kvwire_reference.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event

PROMPT = list(range(1, 13))


def counted(found: tuple[Event, ...]) -> tuple[int, int]:
    """Blocks stored and blocks removed."""
    kinds = {BlockStored: 0, BlockRemoved: 0}
    for event in found:
        assert not isinstance(event, AllBlocksCleared)
        kinds[type(event)] += len(event.block_hashes)
    return kinds[BlockStored], kinds[BlockRemoved]


def more_than_there_is_room_for(cache: CacheEngine) -> None:
    for start in range(20):
        cache.insert([10 * start + each for each in range(16)])


def test_only_what_outlives_the_iteration_is_said_and_the_rest_is_counted() -> None:
    plain, netting = engine(capacity=4), engine(capacity=4, netting=True)
    for cache in (plain, netting):
        more_than_there_is_room_for(cache)
    assert counted(events(plain)) == (80, 76)
    assert counted(events(netting)) == (4, 0)
    fates = netting.announcer.fates
    assert (fates[Fate.STORED], fates[Fate.REMOVED], fates[Fate.NETTED]) == (4, 0, 152)
    assert plain.announcer.fates[Fate.NETTED] == 0
    assert netting.announced() == netting.resident()


def test_nothing_is_left_of_an_iteration_that_leaves_nothing() -> None:
    cache = engine(netting=True)
    cache.insert(PROMPT)
    cache.evict(3)
    assert cache.flush() is None
    cache.insert(PROMPT)
    assert counted(events(cache)) == (3, 0)


def test_a_removal_of_what_was_announced_before_stays_and_so_does_a_store_after_it() -> None:
    cache = engine(netting=True)
    cache.insert(PROMPT)
    cache.flush()
    cache.evict(1)
    cache.insert(PROMPT)
    removal, store = events(cache)
    assert isinstance(removal, BlockRemoved)
    assert isinstance(store, BlockStored)
    assert removal.block_hashes == store.block_hashes
    cache.evict(1)
    cache.insert(PROMPT)
    cache.evict(1)
    assert counted(events(cache)) == (0, 1)


def test_what_is_left_out_between_two_stores_does_not_part_them() -> None:
    cache = engine(netting=True, capacity=3)
    cache.insert(PROMPT[:4])
    cache.insert([0, 0, 0, 0])
    cache.insert(PROMPT)
    (store,) = events(cache)
    assert isinstance(store, BlockStored)
    assert store.token_ids == tuple(PROMPT)


def test_what_came_before_a_clear_is_left_out_with_it() -> None:
    cache = engine(netting=True)
    cache.insert(PROMPT)
    cache.flush()
    cache.evict(1)
    cache.insert([0] * 8)
    cache.reset()
    cache.insert([7] * 4)
    clear, store = events(cache)
    assert clear == AllBlocksCleared()
    assert counted((store,)) == (1, 0)
    assert cache.announcer.fates[Fate.NETTED] == 3


def test_a_parent_that_an_event_still_names_is_not_left_out() -> None:
    cache = engine(netting=True, host=HostConfig(capacity=9))
    cache.insert(PROMPT)
    cache.evict(2)
    assert counted(events(cache)) == (4, 1), "B was on the device when C was announced in host memory"
    cache = engine(netting=True, life_cycles=(LifeCycle(0), LifeCycle(1, 4)), groups=(0, 1))
    cache.insert(PROMPT)
    full, window, left = events(cache)
    assert counted((full, window, left)) == (6, 2)


def test_a_block_that_was_left_out_was_never_announced() -> None:
    """Else a window group would take it for a parent that consumers know."""
    cache = engine(netting=True, life_cycles=(LifeCycle(0), LifeCycle(1, 4)), groups=(0, 1))
    cache.insert(PROMPT)
    (blocks,) = ([block for block in cache._tree if block.depth == depth] for depth in (3,))
    cache.evict(1)
    cache.flush()
    assert [block.standing for block in blocks] == [{}]


CONFIGS: list[dict[str, object]] = [
    {},
    {"life_cycles": (LifeCycle(0), LifeCycle(1, 8), LifeCycle(2, kind="mamba", block_size=8)), "groups": (0, 1, 2)},
    {"host": HostConfig(capacity=5)},
    {"host": HostConfig(capacity=5, keeps_copy=True)},
    {"host": HostConfig(capacity=5, announced=False)},
    {"life_cycles": (LifeCycle(0), LifeCycle(1, 4)), "groups": (0, 1), "host": HostConfig(capacity=7)},
]


@pytest.mark.parametrize("capacity", [4, 9])
@pytest.mark.parametrize("config", CONFIGS)
def test_a_consumer_of_netted_batches_believes_exactly_what_is_held(config: dict[str, object], capacity: int) -> None:
    cache = engine(capacity=capacity, multimodal=True, netting=True, **config)
    work(cache, Ledger())
    assert cache.announcer.fates[Fate.NETTED] > 50
