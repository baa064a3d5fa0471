"""RES-003, RES-007 to RES-009, RES-012 and RES-013: what an engine holds and hits, against what the stream says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.stories import Event, Story, block, cleared, removed

from kvwire.judges.verdict import Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.calls import BoundAt, CacheCall, ResidentCall, StartCall
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

    def holds(self, *prefixes: str) -> None:
        """What the engine answers when it is asked."""
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
    story.run("abx", 2, store("x", "ab"))
    story.run("abc", 3)
    story.run("zz", 0, remove("abc", "abx", "ab", "a"), store("zz"))
    story.holds("z", "zz")
    story.run("abc", 0, store("abc"))
    story.run("abc", 3)
    assert reused(story) == {"RES-003": (PASS, 5), "RES-012": (PASS, 1), "RES-013": (PASS, 11)}
    assert not {name for name in story.spoken() if name.startswith("RES")}


# RES-003


def test_less_is_reused_though_nothing_was_removed() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("abc", 3)
    story.run("yyyy", 0, store("yyyy"))
    story.run("abc", 1)
    outcome = story.outcome("RES-003")
    assert (outcome.verdict, outcome.violations) == (FAIL, 1)
    assert outcome.findings[0].seen == "no such event, and the engine reuses 1 of them"


def test_an_engine_that_never_reuses_the_last_block_is_taken_at_its_own_word() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    for _ in range(3):
        story.run("abc", 2)
    assert reused(story)["RES-003"] == (PASS, 4)


@pytest.mark.parametrize("between", [(remove("abc"),), (cleared(), store("abc")), ()])
def test_what_was_removed_or_cleared_or_missed_in_between_may_be_reused_less(between: Sequence[Event]) -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("abc", 3)
    if between:
        story.run("y", 0, *between, store("y"))
    else:
        story.drop()
        story.run("y", 0, store("y"))
    story.run("abc", 1)
    assert "RES-003" not in story.spoken()


def test_a_block_that_the_engine_does_not_hold_any_more() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"))
    story.holds("a")
    assert story.outcome("RES-003").violations == 1


# RES-012 and RES-013


def test_a_removal_of_what_is_still_there() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("abx", 2, store("x", "ab"), remove("abc", "ab", "a"))
    story.run("abc", 3)
    outcome = story.outcome("RES-012")
    assert (outcome.verdict, outcome.violations) == (FAIL, 1)
    assert "RES-013" not in story.spoken()


def test_a_block_that_came_back_without_a_word() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("zz", 0, remove("abc", "ab", "a"), store("zz"))
    story.run("abc", 0)
    story.run("abc", 3)
    assert story.verdict("RES-012") == (PASS, 1)
    assert story.outcome("RES-013").violations == 1


def test_a_block_that_was_never_announced() -> None:
    story = Engine()
    story.run("abc", 0, store("a"))
    story.run("abc", 3)
    outcome = story.outcome("RES-013")
    assert (outcome.verdict, outcome.violations) == (WARN, 1)
    assert outcome.findings[0].expected.startswith("a `BlockStored` for block 1 ")


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
    kept = Engine()
    kept.run("ab", 0, store("ab"))
    kept.run("z", 0, cleared(), store("z"))
    kept.run("ab", 2)
    for story in (late, hole, foreign, unreadable, scopes, kept):
        assert not {"RES-003", "RES-012", "RES-013"} & set(story.spoken())


def test_an_engine_that_goes_on_by_itself_is_followed() -> None:
    story = Engine()
    story.run("ab", 0, store("ab"), store("mn", "ab"))
    story.run("cd", 0)
    story.run("cd", 2)
    assert story.outcome("RES-013").violations == 1


def test_prompts_that_nobody_waited_for_may_have_stored_their_blocks() -> None:
    story = Engine()
    story.run("abc", 0, store("abc"))
    story.run("zz", 0, remove("abc", "ab", "a"), store("zz"), settled=False)
    story.run("abc", 3, settled=False)
    story.run("abc", 3)
    assert not {"RES-012", "RES-013"} & set(story.spoken())


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
    outcome = story.outcome("RES-008")
    assert (outcome.verdict, outcome.violations) == (WARN, 1)


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


def test_removals_that_are_lost_without_the_limit_too() -> None:
    story = emptied(remove(*"xy"), before=[store("m")])
    outcome = story.outcome("RES-007")
    assert outcome.verdict is OPEN
    assert "where the limit is not reached" in outcome.reason
