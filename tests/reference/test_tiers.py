"""Host memory behind the device: what goes there, what comes back, and what is said of it."""

import msgspec
import pytest
from tests.reference.engines import Ledger, engine, events, work

from kvwire_reference.cache import HostConfig, LifeCycle
from kvwire_reference.hashing import hash_chain, signed, unsigned
from kvwire_reference.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event

PROMPT = list(range(1, 13))
A, B, C = (signed(state.hash or 0) for state in hash_chain(engine().algorithm, [PROMPT[:4], PROMPT[4:8], PROMPT[8:]]))

SAID = HostConfig(capacity=100)
COPIED = HostConfig(capacity=100, keeps_copy=True)
SILENT = HostConfig(capacity=100, announced=False)


def said(found: tuple[Event, ...]) -> list[str]:
    """Each event as a word: +GPU or -CPU, and the names of its blocks."""
    names = {A: "A", B: "B", C: "C"}
    words = []
    for event in found:
        assert not isinstance(event, AllBlocksCleared)
        sign = "+" if isinstance(event, BlockStored) else "-"
        words.append(f"{sign}{event.medium} {''.join(names.get(each, '?') for each in event.block_hashes)}")
    return words


def test_an_evicted_block_is_announced_in_host_memory_before_it_leaves_the_device() -> None:
    cache = engine(host=SAID)
    cache.insert(PROMPT)
    cache.flush()
    assert cache.evict(2) == 2
    found = events(cache)
    assert said(found) == ["+CPU C", "-GPU C", "+CPU B", "-GPU B"]
    store = found[0]
    assert isinstance(store, BlockStored)
    assert (store.parent_block_hash, store.token_ids) == (B, tuple(PROMPT[8:]))
    assert cache.resident() == [unsigned(A)]
    assert cache.residents() == {("GPU", 0): [unsigned(A)], ("CPU", 0): [unsigned(C), unsigned(B)]}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (SAID, ["+GPU ABC", "-CPU CBA"]),
        (COPIED, ["+GPU ABC"]),
        (SILENT, ["+GPU ABC"]),
    ],
)
def test_a_later_hit_brings_blocks_back_and_counts_as_cached(host: HostConfig, expected: list[str]) -> None:
    cache = engine(host=host)
    cache.insert(PROMPT)
    cache.evict(3)
    cache.flush()
    assert cache.resident() == []
    assert cache.insert(PROMPT) == 12
    assert said(events(cache)) == expected
    assert len(cache.resident()) == 3
    assert len(cache.residents().get(("CPU", 0), [])) == (3 if host is COPIED else 0)


def test_of_a_silent_host_nothing_is_said_and_nothing_is_held_where_blocks_are_announced() -> None:
    cache = engine(host=SILENT)
    cache.insert(PROMPT)
    cache.flush()
    cache.evict(3)
    assert said(events(cache)) == ["-GPU CBA"]
    assert cache.residents() == {("GPU", 0): []}
    assert cache.evict_host(1) == 1
    assert cache.flush() is None


def test_a_copy_that_stays_is_not_announced_again_when_its_block_is_evicted_again() -> None:
    cache = engine(host=COPIED)
    cache.insert(PROMPT)
    cache.evict(3)
    cache.insert(PROMPT)
    cache.flush()
    cache.evict(3)
    assert said(events(cache)) == ["-GPU CBA"]


def test_host_memory_is_bounded_and_the_longest_unused_leaves_first() -> None:
    cache = engine(host=HostConfig(capacity=2))
    cache.insert(PROMPT)
    cache.flush()
    cache.evict(3)
    assert said(events(cache)) == ["+CPU C", "-GPU C", "+CPU B", "-GPU B", "-CPU C", "+CPU A", "-GPU A"]
    assert cache.insert(PROMPT) == 8
    cache.flush()
    assert cache.evict_host(5) == 0


@pytest.mark.parametrize("host", [SAID, COPIED, SILENT])
def test_what_is_brought_back_is_not_pushed_out_by_what_makes_room_for_it(host: HostConfig) -> None:
    cache, ledger = engine(capacity=3, host=msgspec.structs.replace(host, capacity=3)), Ledger()
    cached = []
    for prompt in (PROMPT, [0] * 12, PROMPT):
        cached.append(cache.insert(prompt))
        batch = cache.flush()
        assert batch is not None
        ledger.apply(batch)
    assert cached == [0, 0, 12]


def test_partial_blocks_are_not_kept() -> None:
    cache = engine(host=SAID)
    cache.insert([*PROMPT, 13], computed=11)
    cache.evict(4)
    assert cache._host is not None
    assert len(cache.residents()["CPU", 0]) == len(cache._host) == 2
    assert cache.insert([*PROMPT, 13]) == 8


def test_a_block_whose_parent_was_lost_is_found_once_the_parent_is_computed_again() -> None:
    cache = engine(host=SAID)
    cache.insert(PROMPT)
    cache.evict(3)
    cache.insert(PROMPT[:8])
    cache.evict(2)
    cache.flush()
    assert cache._host is not None
    (key,) = (block.state.key for block in cache._host if block.hash == unsigned(A))
    cache._host._by_use.move_to_end(key, last=False)
    cache.evict_host(1)
    assert said(events(cache)) == ["-CPU A"]
    assert cache.insert(PROMPT) == 0
    assert said(events(cache)) == ["+GPU ABC"]
    assert {place: len(held) for place, held in cache.residents().items()} == {("GPU", 0): 3, ("CPU", 0): 2}
    cache.evict(3)
    assert said(events(cache)) == ["-GPU CB", "+CPU A", "-GPU A"]


def test_a_partial_block_gives_way_to_the_full_one_that_comes_back() -> None:
    cache = engine(host=SAID)
    cache.insert(PROMPT[:8])
    cache.evict(1)
    cache.insert(PROMPT[:6])
    cache.flush()
    assert cache.insert(PROMPT[:8]) == 8
    assert said(events(cache)) == ["+GPU B", "-CPU B"]
    assert len(cache) == 2


def test_what_the_device_has_no_room_for_stays_in_host_memory() -> None:
    cache = engine(capacity=1, host=SAID)
    cache.insert(PROMPT[:4])
    cache.insert([0] * 4)
    cache.flush()
    assert cache.insert(PROMPT[:8]) == 4
    cache = engine(capacity=2, host=SAID)
    cache.insert(PROMPT[:8])
    cache.evict(2)
    cache.flush()
    cache._tree.capacity = 1
    assert cache.insert(PROMPT[:8]) == 4
    assert said(events(cache)) == ["+GPU A", "-CPU A"]
    assert cache.residents()["CPU", 0] == [unsigned(B)]


def test_a_copy_whose_block_leaves_the_device_was_used_last() -> None:
    cache = engine(host=COPIED)
    for prompt in (PROMPT[:4], [0] * 4):
        cache.insert(prompt)
    cache.evict(2)
    for prompt in (PROMPT[:4], [0] * 4):
        cache.insert(prompt)
    cache.evict(1)
    cache.flush()
    cache.evict_host(1)
    assert said(events(cache)) == ["-CPU ?"]


def test_a_reset_empties_host_memory_too() -> None:
    cache = engine(host=SAID)
    cache.insert(PROMPT)
    cache.evict(3)
    cache.reset()
    assert events(cache)[-1] == AllBlocksCleared()
    assert cache.residents() == {("GPU", 0): [], ("CPU", 0): []}
    assert cache.insert(PROMPT) == 0


def test_a_removal_in_one_medium_names_that_medium() -> None:
    cache = engine(host=HostConfig(capacity=9, medium="x-ssd"))
    cache.insert(PROMPT)
    cache.evict(3)
    cache.flush()
    cache.evict_host(9)
    assert events(cache) == (BlockRemoved(block_hashes=(C, B, A), medium="x-ssd"),)


def test_groups_go_to_host_memory_with_the_pages_that_they_have() -> None:
    cache = engine(life_cycles=(LifeCycle(0), LifeCycle(1, 4)), groups=(0, 1), host=SAID)
    cache.insert(PROMPT)
    cache.evict(3)
    cache.flush()
    assert {place: len(held) for place, held in cache.residents().items() if held} == {("CPU", 0): 3, ("CPU", 1): 1}
    assert cache.insert(PROMPT) == 12
    assert {place: len(held) for place, held in cache.residents().items() if held} == {("GPU", 0): 3, ("GPU", 1): 1}


def test_host_memory_holds_at_least_one_block() -> None:
    with pytest.raises(ValueError, match="at least one block, not 0"):
        engine(host=HostConfig(capacity=0))


HYBRID = {"life_cycles": (LifeCycle(0), LifeCycle(1, 8), LifeCycle(2, kind="mamba", block_size=8)), "groups": (0, 1, 2)}


@pytest.mark.parametrize("host", [HostConfig(capacity=n, keeps_copy=copy) for n in (3, 30) for copy in (False, True)])
@pytest.mark.parametrize("config", [{}, HYBRID, {"algorithm": "v1_block_key"}])
def test_a_consumer_of_tiers_believes_exactly_what_is_held(host: HostConfig, config: dict[str, object]) -> None:
    work(engine(capacity=9, multimodal=True, host=host, **config), Ledger())


@pytest.mark.parametrize("host", [HostConfig(capacity=20), HostConfig(capacity=20, announced=False)])
@pytest.mark.parametrize("more", [{"max_entries": 2}, {"multimodal": False}, {**HYBRID, "max_entries": 3}])
def test_a_consumer_of_tiers_never_believes_more(host: HostConfig, more: dict[str, object]) -> None:
    work(engine(**{"capacity": 9, "multimodal": True, "host": host, **more}), Ledger(), whole=False)
