"""RES-003, RES-007 to RES-009, RES-012 and RES-013: what an engine holds and hits, against what the stream says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.kit.stories import Event, Story, block, cleared, everything, removed

from kvwire.conclusion.judging import judge_stream
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.standard.statement import Statement
from kvwire.trace.calls import (
    BoundAt,
    BurstCall,
    CacheCall,
    Call,
    FaultCall,
    Place,
    PublishCall,
    ResetCall,
    ResidentCall,
    RestartCall,
    StartCall,
)
from kvwire.trace.marks import Settled
from kvwire.wire.events import TWO_64

PASS, WARN, FAIL, OPEN = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.INCONCLUSIVE
SIZE = 4


def tokens(names: str) -> list[int]:
    """Four tokens a letter."""
    return [ord(name) * 10 + at for name in names for at in range(SIZE)]


def store(names: str, under: str = "", size: int = SIZE) -> Event:
    """A store of blocks, a letter each; their hashes are of the whole prefix."""
    prefixes = [under + names[: at + 1] for at in range(len(names))]
    return {
        "type": "BlockStored",
        "block_hashes": [block(prefix) for prefix in prefixes],
        "parent_block_hash": block(under) if under else None,
        "token_ids": tokens(names),
        "block_size": size,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }


def remove(*prefixes: str) -> Event:
    return removed(prefixes)


class Engine(Story):
    """An engine whose stream is drained before and after each prompt, unless told otherwise."""

    def __init__(self, cap: int | None = None, **options: Any) -> None:
        super().__init__(statement=Statement(block_size=SIZE, ring=1000), **options)
        self.note(StartCall(bound=BoundAt(endpoint="ipc://x"), cap=cap))
        self.begin()
        self.settle()

    def settle(self, drained: bool = True) -> None:
        self.note(Settled(drained=drained))

    def run(self, names: str, cached: int | None, *events: Event, settled: bool = True, **detail: Any) -> None:
        """A prompt of these blocks, of which so many were cached, and the batch that it caused."""
        hit = None if cached is None else cached * SIZE
        self.note(CacheCall(tokens=tuple(tokens(names)), cached_tokens=hit, **detail))
        if events:
            self.send(*events)
        if settled:
            self.settle()

    def holds(self, *prefixes: str, idle: bool = True) -> None:
        """What the engine answers when it is asked."""
        if idle:
            self.note(Settled(drained=True, idle=True))
        self.note(ResidentCall(hashes=tuple(str(block(prefix) % TWO_64) for prefix in prefixes)))


def reused(story: Story) -> dict[str, tuple[Verdict, int]]:
    """The sentences of this area that have a witness, or are open."""
    found = story.outcomes()
    ids = ("RES-003", "RES-007", "RES-008", "RES-009", "RES-012", "RES-013")
    return {name: (found[name].verdict, found[name].witnesses) for name in ids if found[name].witnesses}


def test_an_honest_engine() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("abc", 3)
    story.holds("a", "ab", "abc")
    story.run("abx", 2, store("x", "ab"))
    story.run("zz", 0, remove("abc", "abx", "ab", "a"), store("zz"))
    story.holds("z", "zz")
    story.run("abc", 0, store("abc"))
    story.run("abc", 3)
    assert reused(story) == {"RES-003": (PASS, 5), "RES-012": (PASS, 4), "RES-013": (PASS, 5)}
    assert not {name for name in story.spoken() if name.startswith("RES")}


# what a prompt reuses proves nothing


def test_less_is_reused_though_nothing_was_removed() -> None:
    """A group of which no event speaks is in the way."""
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("abc", 3)
    story.run("yyyy", 0, store("yyyy"))
    story.run("abc", 1)
    story.holds("a", "ab", "abc", "y", "yy", "yyy", "yyyy")
    assert reused(story) == {"RES-003": (PASS, 7), "RES-013": (PASS, 7)}


def test_what_was_removed_is_reused_and_announced_anew() -> None:
    """It came from a tier of which no event speaks."""
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("yyyy", 0, remove("abc", "ab", "a"), store("yyyy"))
    story.run("abc", 3, remove("yyyy"), store("abc"))
    story.holds("a", "ab", "abc", "y", "yy", "yyy")
    assert "RES-012" not in story.spoken()
    assert "RES-013" not in story.spoken()


@pytest.mark.parametrize("answer", [True, False])
def test_what_is_reused_unannounced_and_not_held_in_an_announced_medium_is_not_owed(answer: bool) -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("yyyy", 0, remove("abc", "ab", "a"), store("yyyy"))
    story.run("abc", 3)
    if answer:
        story.holds("y", "yy", "yyy", "yyyy")
    assert not {"RES-003", "RES-012", "RES-013"} & set(story.spoken())


# RES-003


def test_a_block_that_the_engine_does_not_hold_any_more() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"))
    story.holds("a")
    assert story.outcome("RES-003").violations == 1


def test_events_under_way_accuse_nobody() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"))
    story.holds("a", "abc", idle=False)
    assert story.outcome("RES-003").verdict is OPEN
    story.send(remove("ab"))
    assert reused(story)["RES-003"] == (PASS, 1)


def test_what_was_missing_is_no_matter_once_it_is_asked_for_again_or_ended() -> None:
    for end in ("idle", "clear", "drop", "restart"):
        story = Engine()
        story.run("ab", 0, store("ab"))
        story.holds("a", idle=False)
        if end == "idle":
            story.holds("a", "ab")
        elif end == "clear":
            story.send(cleared())
        else:
            getattr(story, end)()
            story.send(cleared())
        assert story.outcome("RES-003").verdict is PASS


# RES-012 and RES-013


@pytest.mark.parametrize("since", ["stored", "clear", "drop", "restart"])
def test_of_what_was_removed_an_answer_tells_as_long_as_nothing_else_may_have_ended_it(since: str) -> None:
    story = Engine()
    story.run("ab", 0, store("ab"))
    story.run("zz", 0, remove("ab", "a"), store("zz"))
    if since == "stored":
        story.run("ab", 0, store("ab"))
    elif since == "clear":
        story.send(cleared())
    else:
        getattr(story, since)()
        story.send()
    story.holds(idle=False)
    assert "RES-012" not in story.witnessed()


@pytest.mark.parametrize("since", ["clear", "drop", "restart"])
def test_what_was_reused_before_a_clear_or_another_life_is_not_owed_after_it(since: str) -> None:
    story = Engine()
    story.run("abc", 0, store("a"))
    story.run("abc", 3)
    if since == "clear":
        story.send(cleared())
    else:
        getattr(story, since)()
        story.send()
    story.settle()
    story.holds("a", "ab", "abc")
    assert "RES-013" not in story.spoken()


def test_what_a_clear_ended_though_it_was_not_gone_is_one_fault_until_it_is_stored_again() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("zz", 0, cleared(), store("zz"))
    story.run("abc", 3)
    story.holds("a", "ab", "abc", "z", "zz")
    assert {name for name in story.spoken() if name.startswith("RES")} == {"RES-005"}
    story.run("abc", 0, store("abc"))
    story.run("zz", 0, remove("abc", "ab", "a"))
    story.holds("z", "zz")
    story.run("abc", 0)
    story.run("abc", 3)
    story.holds("a", "ab", "abc", "z", "zz")
    assert story.outcome("RES-013").violations == 1


def test_what_a_clear_ended_before_a_hole_excuses_nothing_after_the_next_clear() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.send(cleared())
    story.drop()
    story.run("zz", 0, cleared(), store("zz"))
    story.run("abc", 3)
    story.holds("a", "ab", "abc", "z", "zz")
    assert story.outcome("RES-013").violations == 1


def test_what_was_removed_and_is_gone_is_one_occasion() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"))
    story.run("zz", 0, remove("ab", "a"), store("zz"))
    story.holds("z", "zz")
    story.holds("z", "zz")
    assert story.verdict("RES-012") == (PASS, 2)


@pytest.mark.parametrize("since", ["a life", "a store that cannot be read"])
def test_what_strayed_leaves_nothing_open_once_all_is_known_again(since: str) -> None:
    for cap, sentence in ((None, "RES-013"), (2, "RES-008")):
        story = Engine(cap=cap)
        if since == "a life":
            story.run("abcd", 0, store("q"))
            story.restart(ours=True)
            story.begin()
        else:
            story.send({**store("q"), "block_hashes": "q"})
            story.send(cleared())
        story.settle()
        story.run("abcd", 0, store("ab"))
        story.run("abcd", 4)
        story.holds("a", "ab", "abc", "abcd")
        assert story.outcome(sentence).violations == 1


def test_a_removal_of_what_is_still_there() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("abx", 2, store("x", "ab"), remove("abc", "ab", "a"))
    story.holds("a", "ab", "abc", "abx")
    story.run("abc", 3)
    story.holds("a", "ab", "abc", "abx")
    outcome = story.outcome("RES-012")
    assert (outcome.verdict, outcome.violations) == (FAIL, 3)
    assert outcome.findings[0].expected.endswith("is gone from medium GPU, group 0, where it was removed")
    assert "RES-013" not in story.spoken()


def test_a_block_that_came_back_without_a_word() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("zz", 0, remove("abc", "ab", "a"), store("zz"))
    story.holds("z", "zz")
    story.run("abc", 0)
    story.run("abc", 3)
    story.holds("a", "ab", "abc", "z", "zz")
    assert story.verdict("RES-012") == (PASS, 3)
    assert story.outcome("RES-013").violations == 1


def test_a_block_that_was_never_announced() -> None:
    story = Engine()
    story.run("abc", 0, store("a"))
    story.run("abc", 3)
    story.holds("a", "ab", "abc")
    outcome = story.outcome("RES-013")
    assert (outcome.verdict, outcome.violations) == (WARN, 1)
    assert outcome.findings[0].expected.startswith("a `BlockStored` in medium GPU, group 0 for block 1 ")
    story.holds("a", "ab", "abc")
    assert story.outcome("RES-013").violations == 1  # once


def test_an_engine_that_outlived_its_publisher_owes_what_it_kept() -> None:
    for again in (True, False):
        story = Engine()
        story.run("abc", 0, store("abc"))
        story.restart(ours=True)
        story.begin()
        story.settle()
        story.run("abc", 3, *([store("abc")] if again else []))
        story.holds("a", "ab", "abc")
        assert ("RES-013" in story.spoken()) is not again
        assert not {"RES-003", "RES-005", "RES-012"} & set(story.spoken())


def test_content_of_another_sort_may_be_what_is_not_announced() -> None:
    """Of blocks that were never announced it is not known which they are."""
    for digest, says in ((None, True), ("ab" * 32, False)):
        story = Engine()
        if digest is not None:
            story.note(CacheCall(tokens=(digest, 1, 2, 3), cached_tokens=0))
        story.run("abc", 0, store("a"))
        story.run("abc", 3)
        story.holds("a", "ab", "abc")
        assert ("RES-013" in story.spoken()) is says


def test_what_cannot_be_told_from_the_stream_is_no_occasion() -> None:
    """Joined late, a hole, a chain that no prompt explains, tokens that cannot be read, several scopes, a clear."""
    late = Engine()
    late.records.clear()
    late.settle()
    late.run("y", 0, store("y"))
    late.run("abc", 3)
    hole = Engine()
    hole.drop()
    hole.run("y", 0, store("y"))
    hole.run("abc", 3)
    foreign = Engine()
    foreign.run("abc", 0, store("qrs"))
    foreign.run("abc", 3)
    unreadable = Engine()
    unreadable.run("abc", 0, store("abc", size=3))
    unreadable.run("abc", 3)
    scopes = Engine()
    scopes.run("ab", 0, store("ab"))
    scopes.run("ab", 0, {**store("ab"), "block_hashes": [block("A"), block("AB")]}, salt="other")
    scopes.run("zz", 0, remove("ab", "a"), store("zz"))
    scopes.run("ab", 2)
    for story in (late, hole, foreign, unreadable, scopes):
        held = ["A", "AB", "zz", "z"] if story is scopes else ["a", "ab", "abc", "y", "q", "qr", "qrs"]
        story.holds(*held)
        assert not {"RES-012", "RES-013"} & set(story.spoken())


def test_several_streams_behind_one_engine_are_not_compared_with_it() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"))
    story.holds("a")
    trace = story.trace()
    other = msgspec.structs.replace(story.info, name="other", rank=1)
    header = msgspec.structs.replace(trace.header, streams=(story.info, other))
    judged = judge_stream(msgspec.structs.replace(trace, header=header), story.info, registry.load(), everything())
    outcomes = {outcome.requirement: outcome for outcome in judged.outcomes}
    assert outcomes["KVW-RES-003"].verdict is OPEN


def test_an_engine_that_goes_on_by_itself_is_followed() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"), store("mn", "ab"))
    story.run("cd", 0)
    story.run("cd", 2)
    story.holds("a", "ab", "abm", "abmn", "c", "cd")
    assert story.outcome("RES-013").violations == 1


def test_prompts_that_nobody_waited_for_may_have_stored_their_blocks() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("zz", 0, remove("abc", "ab", "a"), store("zz"), settled=False)
    story.run("abc", 0, settled=False)
    story.holds("a", "ab", "abc", "z", "zz")
    assert "RES-012" not in story.spoken()


def test_a_coarse_block_is_the_chain_that_it_ends() -> None:
    """Groups of different block sizes, each with the blocks that it has."""
    story = Engine()
    coarse = {**store("ab"), "block_hashes": [block("ab")], "block_size": 2 * SIZE, "group_idx": 1}
    coarse |= {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 2 * SIZE}
    story.run("abc", 0, store("abc"), coarse)
    story.run("abc", 3)
    story.note(Settled(drained=True, idle=True))
    held = {0: ("a", "ab", "abc"), 1: ("ab",)}
    story.note(
        ResidentCall(
            places=tuple(
                Place(medium="GPU", group=group, hashes=tuple(str(block(name)) for name in names))
                for group, names in held.items()
            )
        )
    )
    assert reused(story) == {"RES-003": (PASS, 4), "RES-013": (PASS, 4)}


def test_an_engine_that_cannot_say_what_it_reused() -> None:
    story = Engine()
    story.run("abc", None, store("abc"))
    story.run("abc", None)
    assert reused(story) == {}


# the entry limit


def capped() -> Engine:
    """Four blocks with a limit of two: half of them are shed, and announced when they are touched."""
    story = Engine(cap=2)
    story.run("abcd", 0, store("ab"))
    return story


def test_a_limit_that_is_used_as_it_may_be() -> None:
    story = capped()
    story.run("abcd", 4, store("cd", "ab"))
    story.run("abcd", 4)
    assert reused(story) == {"RES-008": (PASS, 1), "RES-009": (PASS, 1)}


def test_a_shed_block_that_is_not_announced_when_it_is_touched() -> None:
    story = capped()
    story.run("abcd", 4)
    assert "RES-008" not in reused(story)  # it can be under way
    story.note(Settled(drained=True, idle=True))
    outcome = story.outcome("RES-008")
    assert (outcome.verdict, outcome.violations) == (WARN, 1)
    story.holds("a", "ab", "abc", "abcd")
    assert story.outcome("RES-008").violations == 1  # once
    assert "RES-013" not in story.witnessed()  # by that sentence alone


@pytest.mark.parametrize("since", ["clear", "drop", "restart"])
def test_what_was_touched_before_a_clear_or_another_life_is_not_owed_after_it(since: str) -> None:
    story = capped()
    story.run("abcd", 4)
    if since == "clear":
        story.send(cleared())
    else:
        getattr(story, since)()
        story.send()
    story.note(Settled(drained=True, idle=True))
    assert "RES-008" not in story.witnessed()


@pytest.mark.parametrize(
    "call",
    [ResetCall(), FaultCall(kind="encode"), PublishCall(), BurstCall(), CacheCall(tokens=(1,), cached_tokens=0)],
)
def test_a_prompt_behind_something_else_touches_nothing_for_sure(call: Call) -> None:
    story = capped()
    story.note(call)
    story.run("abcd", 4)
    story.note(Settled(drained=True, idle=True))
    assert "RES-008" not in story.witnessed()


RESTARTED = RestartCall(error="no answer")
"""It may have begun another life, or not."""


def test_what_is_touched_where_the_life_is_not_certain_is_not_owed() -> None:
    before, after = capped(), capped()
    before.note(RESTARTED)
    before.run("abcd", 4)
    before.send()
    before.note(Settled(drained=True, idle=True))
    after.run("abcd", 4)
    after.note(RESTARTED)
    after.note(Settled(drained=True, idle=True))
    for story in (before, after):
        assert "RES-008" not in story.witnessed()


def test_an_engine_at_rest_may_have_said_more_than_was_heard() -> None:
    story = Engine(cap=2)
    story.run("abcd", 0, store("ab"), settled=False)
    story.settle(drained=False)
    assert "RES-009" not in story.witnessed()
    story = capped()
    story.run("abcd", 4, settled=False)
    story.note(Settled(drained=False, idle=True))
    assert "RES-008" not in story.witnessed()


def test_stores_of_another_life_do_not_fill_the_limit() -> None:
    story = Engine(cap=2)
    story.run("w", 0, store("w"))
    story.restart(ours=True)
    story.run("abcd", 0, cleared(), store("a"))
    assert "RES-009" not in story.witnessed()


def test_a_chain_that_no_prompt_explains_may_be_the_block_that_is_owed() -> None:
    story = capped()
    story.run("abcd", 4, store("q"))
    story.note(Settled(drained=True, idle=True))
    assert "RES-008" not in story.witnessed()


def test_a_block_that_is_not_in_the_cache_is_not_owed() -> None:
    story = capped()
    story.run("abcd", 2)
    assert "RES-008" not in reused(story)


def test_a_limit_that_was_not_reached_is_not_used() -> None:
    story = Engine(cap=2)
    story.run("a", 0, store("a"))
    story.holds("a")
    outcomes = story.outcomes()
    assert {outcomes[name].reason for name in ("RES-007", "RES-008", "RES-009")} == {"not used"}


def test_a_removal_is_no_chain_that_no_prompt_explains() -> None:
    story = capped()
    story.run("w", 0, store("w"))
    story.run("x", 0, remove("w"), store("x"))
    story.run("abcd", 4)
    story.note(Settled(drained=True, idle=True))
    assert story.outcome("RES-008").violations == 1


def test_only_what_one_prompt_stored_alone_shows_that_the_limit_is_used() -> None:
    """Not the stores of two, a prompt begun before the one ahead was over, removals, or what may be announced."""
    two = Engine(cap=2)
    two.run("a", 0, store("a"))
    two.run("wx", 0, store("w"))
    ahead = Engine(cap=2)
    ahead.run("abcd", 0, settled=False)
    ahead.run("wxyz", 0, store("ab"))
    both = Engine(cap=2)
    both.run("a", 0, store("a"))
    both.run("wx", 0, remove("a"), store("w"))
    foreign = Engine(cap=2)
    foreign.run("abcd", 0, store("qr"))
    for story in (two, ahead, both, foreign):
        assert "RES-009" not in story.witnessed()
    scopes = capped()
    scopes.run("abcd", 0, {**store("ab"), "block_hashes": [block("A"), block("AB")]}, salt="other")
    assert scopes.verdict("RES-009") == (PASS, 1)


def emptied(*removals: Event, before: Sequence[Event] = ()) -> Engine:
    """An engine with a limit of two that held four blocks of one letter, and holds the next prompt only."""
    story = capped()
    for name in "wxyz":
        story.run(name, 0, store(name))
    story.holds("a", "ab", *"wxyz")
    for event in before:
        story.run("m", 0, event)
        story.holds("a", "ab", *"xyz")
    story.run("rs", 0, *removals, store("rs"))
    story.holds("a", "ab", "r", "rs")
    return story


def test_removals_beyond_the_limit() -> None:
    assert emptied(remove(*"wxyz")).verdict("RES-007") == (PASS, 1)


def test_removals_that_the_limit_shed() -> None:
    story = emptied(remove(*"wx"))
    assert story.outcome("RES-007").verdict is FAIL
    assert story.outcome("RES-003").verdict is FAIL


def test_removals_under_way_are_not_shed() -> None:
    story = capped()
    for name in "wxyz":
        story.run(name, 0, store(name))
    story.holds("a", "ab", *"wxyz")
    story.run("rs", 0, remove(*"wx"), store("rs"))
    story.holds("a", "ab", "r", "rs", idle=False)
    story.send(remove(*"yz"))
    assert "RES-007" not in story.witnessed()


def test_a_place_of_which_the_answer_does_not_speak_lost_nothing() -> None:
    story = capped()
    story.run("w", 0, store("w"))
    story.holds("a", "ab", "w")
    story.run("w", 1, {**store("w"), "medium": "CPU"}, remove("a"))
    story.holds("ab")
    assert "RES-007" not in story.witnessed()
    assert story.outcome("RES-003").reason == "blocks are announced in places of which the answer does not speak"


def test_what_another_life_held_is_not_gone_by_the_limit() -> None:
    story = capped()
    story.run("w", 0, store("w"))
    story.holds("a", "ab", "w")
    story.run("xy", 0, store("xy"))
    story.restart(ours=True)
    story.begin()
    story.run("w", 0, store("w"))
    story.holds()
    assert {name for name in story.spoken() if name.startswith("RES")} == {"RES-003"}


def test_what_was_held_before_a_hole_may_be_gone_by_it() -> None:
    story = capped()
    story.run("w", 0, store("w"))
    story.holds("a", "ab", "w")
    story.drop()
    story.run("wv", 0, store("wv"))
    story.holds("a", "ab")
    assert {name for name in story.spoken() if name.startswith("RES")} == {"RES-003"}


def test_removals_that_go_missing_though_batches_have_more_of_them() -> None:
    """Whatever lost them, it was not the limit."""
    story = emptied(remove(*"wx"))
    story.run("m", 0, remove("y", "z", "a"), store("m"))
    outcome = story.outcome("RES-007")
    assert outcome.verdict is OPEN
    assert "more than the limit" in outcome.reason


def test_full_blocks_that_come_and_go_within_the_limit() -> None:
    story = capped()
    for _ in range(3):
        story.run("w", 0, store("w"), remove("w"), store("w"))
        story.holds("a", "ab", "w", idle=False)
        story.run("x", 0, remove("w"), store("x"))
        story.holds("a", "ab", "x", idle=False)
        story.run("y", 0, remove("x"))
    assert not {"RES-003", "RES-007"} & set(story.spoken())


def test_removals_that_are_lost_without_the_limit_too() -> None:
    story = emptied(remove(*"xy"), before=[store("m")])
    outcome = story.outcome("RES-007")
    assert outcome.verdict is OPEN
    assert "where the limit is not reached" in outcome.reason


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, WARN),
        ({"held": ()}, OPEN),
        ({"cached": 0}, OPEN),
        ({"idle": False}, OPEN),
        ({"cap": 4}, OPEN),
        ({"stored": True}, PASS),
    ],
    ids=str,
)
def test_an_engine_that_tells_nothing_of_what_it_caches(how: dict[str, Any], said: Verdict) -> None:
    """Events are turned on, prompts hit, and not one block was ever stored on the stream."""
    story = Engine(cap=how.get("cap"))
    events = [store("abc")] if how.get("stored") else []
    story.run("abc", 0, *events)
    story.run("abc", how.get("cached", 3))
    story.note(Settled(drained=True, idle=how.get("idle", True)))
    story.note(ResidentCall(hashes=how.get("held", tuple(str(block("abc"[:end])) for end in (1, 2, 3)))))
    assert story.outcome("RES-013").verdict is said
