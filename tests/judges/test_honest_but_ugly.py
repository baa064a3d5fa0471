"""Traces of honest publishers on which no judge may speak, however ugly they look: what keeps users from muting it.

Each row says which sentences have witnesses, so that silence here is not the silence of a judge that looks away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.stories import END_MARKER, Event, Story, block, cleared, payload, removed, stored

from kvwire.standard.statement import Group, Statement
from kvwire.trace.calls import CacheCall, Place, ResetCall, ResidentCall
from kvwire.trace.marks import ResetDone, Settled
from kvwire_reference.hashing import ALGORITHMS, hash_chain, scope_tag, signed, v1_block_hash

WINDOW: dict[str, Any] = {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 8}
FORM = "ENV-001 ENV-002 ENV-003 ENV-004 ENV-005 ENV-006 BAT-001 BAT-002 BAT-003 BAT-005 RNK-001 RNK-003"
RISES = "SEQ-003 SEQ-004 BAT-004 RNK-002"
MAPS = "EVT-001 EVT-002 EVT-003 EVT-004"
HASHES = "EVT-007 EVT-008 EVT-009 EVT-015 EVT-016 EVT-021"
STORES = f"{MAPS} EVT-005 EVT-010 EVT-013 EVT-014 {HASHES}"
REMOVALS = f"{MAPS} EVT-006 {HASHES}"
BEGINS = "SEQ-001 SEQ-008"
ANSWERS = "REP-001 REP-002 REP-003 REP-008 REP-013 REP-014"

Tell = Callable[[], Story]
ROWS: list[tuple[Tell, str]] = []


def shows(*witnesses: str) -> Callable[[Tell], Tell]:
    """Add a story, and the sentences that it shows."""

    def add(tell: Tell) -> Tell:
        ROWS.append((tell, " ".join(witnesses)))
        return tell

    return add


def late(number: int = 143) -> Story:
    """A story that is joined at a number."""
    story = Story()
    story.next = number
    return story


@shows(FORM, RISES, BEGINS, STORES, "CHN-003 CHN-004 RES-001 RES-002 EVT-006 EVT-017")
def hole() -> Story:
    """Batches are lost on the way, and what they said is never known: b is stored again, a is gone or not."""
    story = Story().begin()
    story.send(stored("ab"), stored("c", "b"))
    story.drop(3)
    story.send(stored("b", "a"), stored("d", "x"), removed("y"), removed("b"))
    return story


@shows(FORM, RISES, STORES, REMOVALS, "CHN-004 RES-001 RES-002 EVT-017")
def late_join() -> Story:
    """Joined at 143: parents, removals and stores of blocks that nobody here has heard of."""
    story = late()
    story.send(stored("b", "a"), removed("x"))
    story.send(removed("b"), stored("c", "b"), stored("b", "a"), stored("a"))
    return story


@shows(FORM, RISES, BEGINS, STORES, "CHN-003 CHN-004 RES-001")
def salted_chain() -> Story:
    """The salt is not on the wire: roots do not recompute; under a function of claimed parents their children do."""
    story = Story(statement=Statement(algorithm="v1_block_key", ring=1000)).begin()
    for salt in (0, 3):
        parent = 0x1234567890ABCDEF + salt
        event: Event = {**stored("r", size=4), "block_hashes": [parent], "token_ids": [1, 2, 3, 4]}
        story.send(event)
        for at in range(9):
            tokens = [at, at + 1, at + 2, at + 3]
            child = v1_block_hash(tokens, parent=parent)
            event = {**event, "block_hashes": [signed(child)], "parent_block_hash": signed(parent), "token_ids": tokens}
            story.send(event)
            parent = child
    return story


@shows(FORM, RISES, BEGINS, STORES, "CHN-002 CHN-003 CHN-004 RES-001 RES-002 EVT-006 EVT-017 EVT-036")
def window_group() -> Story:
    """Group 1 frees what its window has left, and goes on below it; group 0 keeps whole prefixes."""
    story = Story(statement=Statement(groups=(Group(idx=1, kind="sliding_window", window=8),), ring=1000)).begin()
    story.send(stored("ab"), stored("ab", group_idx=1, **WINDOW))
    story.send(removed("a", group_idx=1))
    story.send(stored("c", "b"), stored("c", "b", group_idx=1, **WINDOW))
    story.send(removed("b", group_idx=1), stored("d", "a", group_idx=1, **WINDOW))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-003 CHN-004 RES-001 RES-002 EVT-017")
def capped_iteration() -> Story:
    """An entry limit sheds c: the chain ends at b, goes on when c is touched again, and c is removed only then."""
    story = Story().begin()
    story.send(stored("ab"))
    story.send(stored("x"))
    story.send(stored("c", "b"), stored("d", "c"))
    story.send(removed("dc"))
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001 CHN-003 CHN-004")
def restart_first_seen_at_143() -> Story:
    """The first number of the new life that anybody hears is 143, below the last one of the old."""
    story = Story().begin()
    for name in range(200):
        story.send(stored([name]))
    story.restart()
    story.next = 143
    story.send(stored([7], 6), stored([6]))
    story.send(stored([8], 7))
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001 CHN-003 CHN-004")
def restart_first_seen_above_the_last_number() -> Story:
    """The new life is already further than the old one was: nothing falls."""
    story = Story().begin()
    for name in range(5):
        story.send(stored([name]))
    story.restart()
    story.next = 143
    for name in range(5):
        story.send(stored([name], name - 1 if name else None, size=2))
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001")
def restart_first_seen_at_the_very_next_number() -> Story:
    """As above, and by chance no number is missing: what was resident is stored again, in blocks of another size."""
    story = Story().begin()
    for name in range(5):
        story.send(stored([name]))
    story.restart()
    story.next = 6
    for name in range(5):
        story.send(stored([name], size=2))
    return story


@shows(FORM, RISES, BEGINS, STORES, ANSWERS, "RES-001 CHN-003 CHN-004")
def restart_that_only_replay_reveals() -> Story:
    """As above, and a replay then shows the whole of the new life."""
    story = Story().begin()
    for name in range(5):
        story.send(stored([name]))
    story.restart()
    story.send(cleared(), by="")
    for name in range(9):
        story.send(stored([name], name - 1 if name else None), by="ab" if name > 5 else "")
    story.replay()
    return story


@shows(FORM, RISES, STORES, ANSWERS, "RES-002 EVT-006 EVT-017 CHN-003 CHN-004")
def evicted_ring() -> Story:
    """Replay begins above 0, and the blocks of what was evicted are parents and removed all the same."""
    story = Story(ring=3, statement=Statement(ring=3)).begin(by="")
    story.send(stored("ab"), by="")
    for name, parent in ("cb", "dc", "ed"):
        story.send(stored(name, parent))
    story.replay()
    story.send(removed("e"), removed("ba"))
    story.replay()
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 EVT-017")
def duplicate_delivery() -> Story:
    """A message is delivered twice, to one witness late and to both: it happened once."""
    story = Story().begin()
    number = story.send(stored("a"))
    story.again(number, by="a")
    other = story.send(removed("a"))
    story.send(stored("a"))
    story.again(other)
    story.again(number, by="b")
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 EVT-017 CHN-003 CHN-004")
def one_witness_loses() -> Story:
    """Each witness loses what the other has; live-b lags behind as well."""
    story = Story().begin()
    story.send(stored("a"), by="a")
    story.send(stored("b", "a"), by="b")
    story.send(removed("b"), by="a")
    number, content = story.make(stored("b", "a"))
    story.live(number, content, by="a")
    story.send(stored("c", "b"), by="a")
    story.live(number, content, by="b")
    story.again(number + 1, by="b")
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, ANSWERS, "RES-001 RES-002 EVT-017 CHN-003 CHN-004")
def late_replay() -> Story:
    """A hole that both witnesses have is filled by a replay after everything else."""
    story = Story().begin()
    story.send(stored("a"))
    story.send(removed("a"), stored("b"), by="")
    story.send(stored("a"), stored("c", "b"))
    story.replay()
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 EVT-017 CHN-003 CHN-004")
def two_media() -> Story:
    """Copies on GPU and CPU come and go one by one; a parent may be in either, and nil is a third place."""
    story = Story().begin()
    story.send(stored("a"), stored("a", medium="CPU"), stored("a", medium=None))
    story.send(removed("a"))
    story.send(stored("b", "a"), removed("a", medium="CPU"), stored("c", "a", medium="CPU"))
    story.send(stored("a"), removed("a", medium=None), stored("d", "a"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-004 EVT-017 CHN-003 CHN-004")
def counted_residency() -> Story:
    """Copies are counted: the second store and the second removal of a block are both right."""
    story = Story(statement=Statement(residency="counted", ring=1000)).begin()
    story.send(stored("ab"), stored("ab"))
    story.send(removed("b"), stored("c", "b"), removed("cb"))
    story.drop()
    story.send(stored("a"), removed("a"), removed("a"), removed("a"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 RES-003 RES-005 RES-006 RES-013 EVT-017 CHN-003 CHN-004")
def clear_while_idle() -> Story:
    """The cache is reset while nothing runs; the clear comes by itself, and the blocks come back later."""
    story = Story().begin()
    story.send(stored("ab"), stored("c", "b"))
    story.note(ResidentCall(hashes=tuple(str(block(name)) for name in "abc")))
    story.note(ResetCall())
    story.send(cleared())
    story.note(ResetDone(outcome="seen", bound_s=5.0))
    story.note(ResidentCall(hashes=()))
    story.send(stored("ab"), removed("b"))
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001 CHN-003 CHN-004")
def reconnect_in_the_same_life() -> Story:
    """Both connections end and come back, and the publisher never noticed."""
    story = Story().begin()
    story.send(stored("ab"))
    story.disconnect()
    story.connect()
    story.send(removed("b"), by="")
    story.send(stored("b", "a"))
    story.send(stored("c", "b"))
    return story


@shows(FORM, RISES, BEGINS, STORES, ANSWERS, "RES-001 RES-002 EVT-006 EVT-017 CHN-003 CHN-004")
def reconnect_that_a_replay_explains() -> Story:
    """As above, and a replay shows what was missed."""
    story = reconnect_in_the_same_life()
    story.replay()
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001 CHN-003 CHN-004")
def two_lives_interleaved() -> Story:
    """Live-a is in the new life while live-b still delivers the old one; their numbers overlap."""
    story = Story().begin()
    for name in range(6):
        story.send(stored([name]))
    tail = [story.make(stored([10 + at])) for at in range(3)]
    story.live(*tail[0], by="a")
    story.die()
    story.disconnect("a")
    story.connect("a")
    story.send(cleared(), by="")
    for at, old in enumerate(tail):
        story.send(stored([at], at - 1 if at else None), by="a")
        story.live(*old, by="b")
    story.disconnect("b")
    story.connect("b")
    story.send(stored([3], 2))
    story.send(stored([4], 3))
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001 CHN-003 CHN-004 EVT-006")
def a_restart_within_one_tick_of_the_clock() -> Story:
    """The new life begins with the bytes that the old one began with, and goes on, unheard at first, above it."""
    story = Story().begin()
    first = story.retained[0]
    story.send(stored("a"))
    story.send(stored("b", "a"))
    story.restart()
    story.send(content=first)
    story.drop(2)
    story.send(stored("d", "c"), removed("c"), stored("a"))
    story.send(stored("e", "d"))
    return story


@shows(FORM, RISES, STORES, ANSWERS, "RES-001 RES-002 EVT-006 EVT-017 CHN-003 CHN-004")
def a_hole_at_the_start() -> Story:
    """The first batches were dropped, and the ring has room for more than were sent."""
    story = Story()
    story.drop(3)
    story.send(removed("b"), stored("a"))
    story.send(stored("b", "a"), removed("b"))
    story.replay()
    return story


@shows(FORM, RISES, BEGINS, STORES, ANSWERS, "SEQ-019 SEQ-020 RES-001 RES-005 CHN-004")
def epochs() -> Story:
    """Each life is named, and says its name at every clear."""
    story = Story()
    for epoch in ("1f6d2c1e", "7be0a9d4"):
        story.send({**cleared(), "epoch": epoch})
        story.send(stored("ab"))
        story.send({**cleared(), "epoch": epoch})
        story.send(stored("ab"))
        story.replay()
        if epoch == "1f6d2c1e":
            story.restart()
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001 CHN-004")
def two_block_sizes() -> Story:
    """A block of eight tokens in group 1 has the hash of the second block of four in group 0."""
    story = Story().begin()
    fine = stored("abcd")
    story.send(fine)
    for name, first in (("b", 0), ("d", 8)):
        tokens = fine["token_ids"][first : first + 8]
        parent = "b" if first else None
        story.send({**stored(name, parent, size=8, group_idx=1), "token_ids": tokens})
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-002 CHN-003 CHN-004 EVT-036 RES-001 RES-002 EVT-017")
def a_window_in_coarser_blocks() -> Story:
    """Group 1 names a block of 16 tokens by the hash of its last four, and goes on below it when that is freed."""
    window = Group(idx=1, kind="sliding_window", window=8, block_size=16)
    story = Story(statement=Statement(block_size=4, groups=(window,), ring=1000)).begin()
    tokens = [token for name in "abcdefgh" for token in stored(name)["token_ids"]]
    coarse: Event = {"group_idx": 1, **WINDOW, "block_size": 16}
    story.send(stored("abcd"), {**stored("d"), **coarse, "token_ids": tokens[:16]})
    story.send(removed("d", group_idx=1), stored("efgh", "d"))
    story.send({**stored("h", "d"), **coarse, "token_ids": tokens[16:]}, removed("hgfe"), removed("h", group_idx=1))
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001")
def a_function_that_changes_with_a_restart() -> Story:
    """An upgrade under the bare label: tokens of eight bytes in the first life, and of four in the second."""
    story = Story(statement=Statement(algorithm="v2_sha256_64", ring=1000))
    for name in ("v2_sha256_64/u64", "v2_sha256_64/u32"):
        story.begin()
        for at in range(9):
            tokens = list(range(20 * at + 1, 20 * at + 17))
            (state,) = hash_chain(ALGORITHMS[name], [tokens])
            assert state.hash is not None
            story.send({**stored("r", size=16), "block_hashes": [signed(state.hash)], "token_ids": tokens})
        if name.endswith("u64"):
            story.restart()
    return story


@shows(FORM, RISES, BEGINS, STORES, ANSWERS, "RES-001 CHN-003 CHN-004")
def a_new_life_answers_before_it_is_heard() -> Story:
    """The parent's own replay client is faster than the witnesses' words of the restart."""
    story = Story().begin()
    for name in range(6):
        story.send(stored([name]), by="ab" if name < 5 else "a")
    old = 6, story.retained[6]
    story.die()
    story.send(cleared(), by="")
    story.send(stored([0]), by="")
    story.replay()
    story.live(*old, by="b")
    story.disconnect()
    story.connect()
    story.send(stored([1], 0))
    story.send(stored([2], 1))
    story.replay()
    return story


@shows(FORM, RISES, BEGINS, STORES, "RES-001")
def equal_bytes_in_two_lives() -> Story:
    """A clock that does not move: the two lives begin with equal bytes."""
    story = Story().begin()
    for name in "ab":
        story.send(content=payload(stored(name), ts=story.clock))
    story.restart()
    story.clock -= 10.0
    for name in "ac":
        story.next = story.next or 1
        story.send(content=payload(stored(name), ts=story.clock))
    story.send(stored("b"))
    return story


@shows(FORM, RISES, "RES-001", BEGINS, STORES, ANSWERS)
def slow_client() -> Story:
    """Batches are evicted while an answer is under way: it goes on from the oldest retained."""
    story = Story(ring=4, statement=Statement(ring=4)).told(4)
    story.replay()
    client = story.ask()
    story.answer_batches(client, {0: story.retained[0]})
    for _ in range(6):
        story.send()
    story.answer_batches(client, story.retained)
    story.answer(client, *END_MARKER)
    story.done(client)
    return story


@shows(FORM, RISES, BEGINS, MAPS, "EVT-005 EVT-006 SEQ-002 SEQ-009")
def publish_only() -> Story:
    """The harness offers every event; the publisher drops a batch and adds a heartbeat."""
    story = Story(sets=("engine", "ts"), statement=Statement(queue=1, ring=1000)).begin()
    story.publish(stored("a"), stored("a"))
    story.publish(removed("q"))
    story.offer(stored("b"), accepted=False)
    story.drop()
    story.send()
    story.publish(stored("c", "z"))
    story.publish(cleared())
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-003 CHN-004 EVT-017 EVT-032 RES-001 RES-002")
def location_updates() -> Story:
    """A shared store tells of keys that it knows, without tokens; some of them were never announced elsewhere."""
    story = Story(statement=Statement(extensions=("location_updates",), block_size=4, ring=1000)).begin()
    update: Event = {**stored("acx", medium="STORAGE"), "token_ids": [], "block_size": 0}
    story.send(stored("abc"), update)
    story.send(removed("b"), {**update, "block_hashes": update["block_hashes"][:1], "medium": "x-pool"})
    story.send(removed("x", medium="STORAGE"), stored("d", "c"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-003 CHN-004 EVT-017 EVT-033 RES-001 RES-002")
def partial_entries() -> Story:
    """Further entries at finer boundaries, under parents that have no block of their own."""
    story = Story(statement=Statement(extensions=("partial_entries",), block_size=16, ring=1000)).begin()
    story.send(stored("ab", size=16), stored("x", "nobody", size=4), stored("y", size=4))
    story.send(removed("x"), stored("c", "b", size=16))
    return story


@shows(FORM, RISES, BEGINS, STORES, "EVT-019 EVT-028 EVT-038 CHN-001 CHN-003 CHN-004 CHN-006 LIV-007 RES-001")
def tagged_salts() -> Story:
    """Tags where chains are salted, none where they are not, and that of somebody whom the harness does not know."""
    story = Story(statement=Statement(salt="tag", algorithm="opaque", ring=1000)).begin()
    for name, salt in (("a", "tenant-7f3a"), ("b", None)):
        story.note(CacheCall(tokens=tuple(stored([name])["token_ids"]), salt=salt, cached_tokens=0))
        story.send({**stored([name]), **({} if salt is None else {"scope": scope_tag(salt)})})
    story.send(stored("d", "a", scope=scope_tag("tenant-7f3a")), stored("x", scope=scope_tag("tenant-unknown")))
    return story


@shows(FORM, RISES, BEGINS, STORES, "EVT-029 LIV-007 CHN-001 CHN-003 CHN-004 RES-001")
def clear_salts() -> Story:
    """The salt stands in the extra keys of the first block, and the statement says so."""
    story = Story(statement=Statement(salt="clear", algorithm="opaque", ring=1000)).begin()
    story.note(CacheCall(tokens=tuple(stored("a")["token_ids"]), salt="tenant-7f3a", cached_tokens=0))
    story.send(stored("a", extra_keys=[["tenant-7f3a"]]))
    story.send(stored("bc", "a", extra_keys=[None, [["image", 3]]]), stored("x", extra_keys=None))
    return story


@shows(FORM, RISES, BEGINS, STORES, "EVT-011 EVT-012 EVT-030 EVT-031 CHN-003 CHN-004 RES-001")
def items_in_stretches() -> Story:
    """An item of one token before text that counts up; one in two stretches; one that goes on in another event."""
    story = Story(statement=Statement(algorithm="opaque", ring=1000)).begin()
    one, two = "ab" * 32, "cd" * 32
    key = {"type": "mm_key", "start_offset": 0}
    story.send(
        {**stored("ab"), "token_ids": [1, one, 3, 4, 5, 6, 7, 8], "mm_keys": [[{**key, "hash": one}], []]},
        {
            **stored("cd", "b"),
            "token_ids": [9, two, 32001, 5, 5, 32002, 32003, 32004],
            "mm_keys": [[{**key, "hash": two}], [{**key, "hash": two, "start_offset": 2, "uuid": "holiday"}]],
        },
    )
    story.send({**stored("e", "d"), "mm_keys": [[{**key, "hash": two, "start_offset": 5}]]})
    return story


@shows(FORM, RISES, BEGINS, STORES, "EVT-030 CHN-004 RES-001")
def digests_not_in_clear() -> Story:
    """Placeholders stand where digests would; only the keys tell of the item."""
    story = Story(statement=Statement(algorithm="opaque", ring=1000)).begin()
    key = {"type": "mm_key", "hash": "ab" * 32, "start_offset": 0}
    tokens = [1, 32000, 32000, 32000, 32000, 32000, 7, 8]
    story.send({**stored("ab"), "token_ids": tokens, "mm_keys": [[key], [{**key, "start_offset": 3}]]})
    return story


@shows(FORM, RISES, BEGINS, STORES, "EVT-034 EVT-036 CHN-003 CHN-004 RES-001")
def declared_groups() -> Story:
    """Groups of other block sizes and kinds, as declared; types of a later edition in batches of their own."""
    groups = (Group(idx=0, kind="full_attention"), Group(idx=2, kind="mamba", block_size=64))
    story = Story(statement=Statement(algorithm="opaque", block_size=16, groups=groups, ring=1000)).begin()
    story.send(stored("ab", size=16, kv_cache_spec_kind="full_attention"), stored("c", "b", size=16))
    story.send(stored("m", size=64, group_idx=2, kv_cache_spec_kind="mamba", session_id="s-1", ownership="engine"))
    story.send({"type": "BlockUpdated", "block_hashes": [1]}, {"type": "BlockUpdated"})
    return story


HELD = Settled(drained=True, idle=True)


def holds(story: Story, **names: str) -> None:
    """An idle engine says what it holds, by medium."""
    places = tuple(Place(medium=m, hashes=tuple(str(block(n)) for n in held)) for m, held in names.items())
    story.note(HELD)
    story.note(ResidentCall(hashes=(), places=places))


def prompted(story: Story, names: str, cached: int) -> None:
    """A prompt of blocks, of which so many were reused."""
    tokens = tuple(token for name in names for token in stored(name)["token_ids"])
    story.note(CacheCall(tokens=tokens, cached_tokens=4 * cached))


@shows(FORM, RISES, BEGINS, STORES, "RES-001 RES-003 RES-013 CHN-001 CHN-003 CHN-004")
def a_group_that_nobody_hears_of() -> Story:
    """Its window has left what the announced group still holds: a prompt reuses less than is announced."""
    story = Story().begin()
    prompted(story, "abc", 0)
    story.send(stored("abc"))
    prompted(story, "abcd", 3)
    story.send(stored("d", "c"))
    prompted(story, "abc", 1)
    prompted(story, "abcd", 0)
    holds(story, GPU="abcd")
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 RES-003 RES-012 RES-013 EVT-017 CHN-001 CHN-004")
def a_tier_that_nobody_hears_of() -> Story:
    """What left the device is hit in host memory, and is announced anew once it is back."""
    story = Story().begin()
    prompted(story, "ab", 0)
    story.send(stored("ab"))
    prompted(story, "c", 0)
    story.send(removed("ba"), stored("c"))
    holds(story, GPU="c")
    prompted(story, "ab", 2)
    story.send(removed("c"), stored("ab"))
    holds(story, GPU="ab")
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 RES-003 RES-012 RES-013 EVT-017 CHN-003 CHN-004")
def a_tier_that_is_announced() -> Story:
    """Demoted, promoted, kept as a copy, and gone: each medium by itself, and a chain lies across both."""
    story = Story().begin()
    story.send(stored("ab"))
    story.send(stored("b", "a", medium="CPU"), removed("b"))
    holds(story, GPU="a", CPU="b")
    story.send(stored("c", "b"))
    story.send(stored("b", "a"))
    holds(story, GPU="abc", CPU="b")
    story.send(removed("b", "CPU"))
    holds(story, GPU="abc", CPU="")
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 RES-003 RES-006 RES-012 RES-013 EVT-017 CHN-001")
def events_that_leave_after_the_call() -> Story:
    """Prompts and a reset have returned, and what they caused is still under way when the engine is asked."""
    story = Story().begin()
    prompted(story, "a", 0)
    story.note(ResidentCall(hashes=(str(block("a")),)))
    story.send(stored("a"))
    prompted(story, "b", 0)
    story.note(Settled(drained=True))
    story.note(ResidentCall(hashes=(str(block("b")),)))
    story.send(removed("a"), stored("b"))
    holds(story, GPU="b")
    prompted(story, "c", 0)
    story.note(ResetCall())
    story.send(removed("b"), stored("c"))
    story.send(cleared())
    story.note(ResetDone(outcome="seen", after_s=0.5, bound_s=5.0))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 RES-005 CHN-003 CHN-004 EVT-017")
def a_clear_of_one_medium() -> Story:
    """The lower tier survives the reset, and keeps the parents."""
    story = Story().begin()
    story.send(stored("ab"), stored("ab", medium="CPU"))
    story.send({**cleared(), "medium": "GPU"})
    story.send(stored("c", "b"), stored("a"), removed("b", "CPU"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-002 CHN-003 CHN-004 EVT-017")
def announced_again_when_it_is_hit() -> Story:
    """Refresh: a store of a resident block changes nothing."""
    story = Story(statement=Statement(residency="refresh", ring=1000)).begin()
    story.send(stored("ab"), stored("ab"), stored("c", "b"))
    story.send(removed("cba"), stored("a"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 CHN-003 CHN-004 EVT-017")
def copies_of_others() -> Story:
    """A worker's copy in the same medium, and one on another host, come and go by themselves."""
    story = Story().begin()
    story.send(stored("a", medium="CPU"), stored("a", medium="CPU", ownership="w"))
    story.send(stored("a", medium="CPU", locality="remote"), removed("a", "CPU"))
    story.send(stored("b", "a"), {**cleared(), "ownership": "w"}, removed("a", "CPU", locality="remote"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 CHN-004 EVT-017 EVT-036")
def state_space_group() -> Story:
    """Group 1 keeps a state at some boundaries and none between; what it needs is its own matter."""
    story = Story().begin()
    mamba: dict[str, Any] = {"group_idx": 1, "kv_cache_spec_kind": "mamba"}
    story.send(stored("b", "a", **mamba))
    story.send(stored("d", "c", **mamba), removed("b", group_idx=1))
    story.send(stored("f", "b", **mamba))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "RES-001 RES-002 CHN-006 CHN-003 CHN-004 EVT-017")
def adapters_by_name() -> Story:
    """Ids change from start to start, names do not; what names nothing is compared with nothing."""
    story = Story().begin()
    story.send(stored("a", lora_name="x", lora_id=1), stored("b", "a", lora_name="x", lora_id=2))
    story.send(stored("c", "b"), stored("d", "c", lora_name="y"))
    story.send(removed("d"))
    return story


@shows(
    FORM, RISES, BEGINS, STORES, REMOVALS, ANSWERS, "SEQ-007 RES-001 RES-002 RES-003 RES-013 CHN-001 CHN-004 EVT-017"
)
def an_engine_that_outlives_its_publisher() -> Story:
    """After the leading clear it announces what it kept."""
    story = Story().begin()
    prompted(story, "ab", 0)
    story.send(stored("ab"))
    story.restart(ours=True)
    story.begin()
    story.send(stored("ab"))
    prompted(story, "ab", 2)
    holds(story, GPU="ab")
    story.send(removed("ba"), stored("a"))
    story.replay()
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-003 CHN-004 EVT-017 RES-001 RES-002 RES-006")
def a_reset_that_shows_medium_by_medium() -> Story:
    """Each medium is cleared by an event of its own, and one is emptied by removals."""
    story = Story().begin()
    story.send(stored("ab"), stored("ab", medium="CPU"), stored("a", medium="DISK"))
    story.note(ResetCall())
    story.send({**cleared(), "medium": "CPU"}, removed("ab"))
    story.send({**cleared(), "medium": "DISK"})
    story.note(ResetDone(outcome="seen", bound_s=5.0))
    story.send(stored("ab"), stored("c", "b"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-003 CHN-004 CHN-006 EVT-017 RES-001 RES-002")
def an_adapter_that_is_loaded_again() -> Story:
    """One name under two ids; an id without a name says nothing of a name."""
    story = Story(statement=Statement(algorithm="opaque", ring=1000)).begin()
    story.send(stored("a", lora_id=1, lora_name="poet"), stored("b", "a", lora_id=2, lora_name="poet"))
    story.send(stored("c", "b", lora_id=2), removed("c"), stored("c", "b", lora_name="poet"))
    return story


@shows(FORM, RISES, BEGINS, STORES, REMOVALS, "CHN-003 CHN-004 EVT-017 RES-001 RES-002")
def blocks_that_change_their_medium_in_one_batch() -> Story:
    """Stored there and removed here, and back again, children first or parents first."""
    story = Story().begin()
    story.send(stored("abc"))
    story.send(stored("abc", medium="CPU"), removed("cba"), stored("d", "c"))
    story.send(stored("ab"), removed("ab", medium="CPU"), stored("e", "c", medium="CPU"))
    story.send(removed("ec", medium="CPU"), removed("d"), removed("ab"))
    return story


@shows(FORM, RISES, BEGINS, STORES, ANSWERS, "RES-001 SEQ-007")
def an_answer_that_a_restart_cuts() -> Story:
    """A client reads two batches of the old life, and asks the new one anew; the clock was set back meanwhile."""
    story = Story().told(5)
    client = story.ask(0)
    story.answer_batches(client, {number: story.retained[number] for number in (0, 1)})
    story.restart(ours=True)
    story.clock -= 3600.0
    story.done(client, "disconnected")
    story.told(4)
    story.replay()
    return story


@shows(FORM, RISES, STORES, REMOVALS, ANSWERS, "CHN-003 CHN-004")
def two_lives_whose_first_batches_are_lost() -> Story:
    """Neither life is heard from its beginning, and the second is heard at the number where the first one stopped."""
    story = Story()
    story.drop(3)
    story.send(stored("b", "a"), removed("a"))
    story.send(stored("c", "b"))
    story.restart(ours=True)
    story.drop(5)
    story.send(stored("b", "q"), removed("c"))
    story.send(stored("y", "b"))
    story.replay()
    return story


NAMES = [tell.__name__ for tell, _ in ROWS]


@pytest.mark.parametrize(("tell", "witnesses"), ROWS, ids=NAMES)
def test_no_judge_speaks_of_an_honest_publisher(tell: Tell, witnesses: str) -> None:
    story = tell()
    assert story.spoken() == {}
    shown = {name for name in story.witnessed() if not name.startswith("HSH")}
    expected = set(witnesses.split())
    assert (sorted(shown - expected), sorted(expected - shown)) == ([], []), "unexpected witnesses, missing ones"


@pytest.mark.parametrize("tell", [tell for tell, _ in ROWS], ids=NAMES)
@pytest.mark.parametrize("keep", ["live-a", "live-b"])
def test_nor_with_one_witness(tell: Tell, keep: str) -> None:
    story = tell()
    other = "live-b" if keep == "live-a" else "live-a"
    story.records = [r for r in story.records if other not in (r.source, getattr(r.detail, "of", None))]
    assert story.spoken() == {}


def _unheard(story: Story) -> tuple[int, int]:
    """From the first answer to the first handshake after it."""
    events = [record.event for record in story.records]
    return events.index("replay-request"), events.index("HANDSHAKE_SUCCEEDED") + 2


@pytest.mark.parametrize("tell", [tell for tell, _ in ROWS], ids=NAMES)
def test_nor_while_it_is_being_told(tell: Tell) -> None:
    """A run can end anywhere: each beginning of an honest trace is honest too.

    Not between the answer of a new life and the first word of the witnesses about it: a recorder that ends takes what
    they have heard.
    """
    story = tell()
    whole = story.records
    held_back = range(*_unheard(story)) if tell is a_new_life_answers_before_it_is_heard else range(0)
    for end in set(range(0, len(whole), max(1, len(whole) // 25))) - set(held_back):
        story.records = whole[:end]
        assert story.spoken() == {}, f"after {end} records"
