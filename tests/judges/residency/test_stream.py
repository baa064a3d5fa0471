"""RES: what is stored, removed and cleared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.stories import Event, Story, block, cleared, removed, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Group, Medium, Statement
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.calls import CacheCall, Place, ResetCall, ResidentCall, StatsCall
from kvwire.trace.detail import Stimulus
from kvwire.trace.marks import ResetDone, Settled

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
COUNTED = Statement(residency="counted")


def sent(*events: Event, statement: Statement | None = None, begun: bool = True) -> Story:
    """One batch an event, after a clear that begins the life; joined late if not ``begun``."""
    story = Story(statement=statement)
    if begun:
        story.begin()
    else:
        story.next = 143
    for event in events:
        story.send(event)
    return story


def speaks(story: Story) -> set[str]:
    """What is broken of residency."""
    return {name for name in story.spoken() if name.startswith("RES")}


def counts(story: Story) -> dict[str, int]:
    """The witnesses of each such sentence that has any."""
    return {
        name: outcome.witnesses
        for name, outcome in story.outcomes().items()
        if name.startswith("RES") and outcome.witnesses
    }


# --- stores and removals ------------------------------------------------------------------------------------------


def test_an_honest_stream() -> None:
    story = sent(stored("ab"), stored("c", "b"), removed("cb"), stored("b", "a"), cleared(), stored("a"))
    assert counts(story) == {"RES-001": 5, "RES-002": 2, "RES-005": 1}
    assert speaks(story) == set()
    assert story.verdict("RES-005") == (PASS, 1)


def test_a_block_stored_twice() -> None:
    story = sent(stored("ab"), stored("b", "a"))
    assert speaks(story) == {"RES-001"}
    assert story.verdict("RES-001") == (FAIL, 3)
    assert story.place("RES-001")[:3] == ("2", "payload", 11)
    assert story.outcome("RES-001").findings[0].seen == f"hash {block('b') % 2**64} stored a second time"


def test_the_same_block_in_another_medium_or_group_is_another_one() -> None:
    story = sent(stored("a"), stored("a", medium="CPU"), stored("a", medium=None), stored("a", group_idx=1))
    assert counts(story) == {"RES-001": 4}


def test_a_removal_of_what_is_not_resident() -> None:
    story = sent(stored("a"), removed("a"), removed("a"), removed("q"))
    assert speaks(story) == {"RES-002"}
    assert story.outcome("RES-002").violations == 2
    assert story.place("RES-002")[:2] == ("3", "payload")


def test_a_removal_from_another_medium() -> None:
    assert speaks(sent(stored("a"), removed("a", medium="CPU"))) == {"RES-002"}
    assert speaks(sent(stored("a", medium=None), removed("a"))) == {"RES-002"}


def test_a_removal_that_names_the_wrong_group_is_no_second_fault() -> None:
    for statement, judged in ((None, "RES-002"), (COUNTED, "RES-004")):
        story = sent(stored("a", group_idx=1), removed("a"), statement=statement)
        assert "EVT-017" in story.spoken()
        assert story.outcome(judged).witnesses == 0


def test_order_within_a_batch_counts() -> None:
    story = Story().begin()
    story.send(removed("a"), stored("a"), removed("a"), stored("a"), stored("a"))
    assert (story.outcome("RES-001").violations, story.outcome("RES-002").violations) == (1, 1)


def test_what_is_unknown_is_no_witness() -> None:
    story = sent(removed("x"), stored("a"), begun=False)
    assert counts(story) == {}
    story.send(removed("x"))
    assert speaks(story) == {"RES-002"}


def test_a_hole_makes_everything_unknown_and_a_clear_everything_known() -> None:
    story = sent(stored("ab"))
    story.drop()
    story.send(stored("a"), removed("b"), removed("c"))
    assert speaks(story) == set()
    assert counts(story) == {"RES-001": 2}
    story.send(cleared())
    story.send(removed("a"))
    assert speaks(story) == {"RES-002"}


def test_a_clear_ends_what_is_in_every_medium_and_group() -> None:
    story = sent(stored("a"), stored("b", medium="CPU", group_idx=1), cleared(), removed("b", "CPU", group_idx=1))
    assert speaks(story) == {"RES-002"}


def test_a_batch_that_a_replay_recovers_is_no_hole() -> None:
    story = sent(stored("a"))
    story.send(removed("a"), by="")
    story.send(stored("a"))
    assert counts(story) == {"RES-001": 1}
    story.replay()
    assert counts(story) == {"RES-001": 2, "RES-002": 1}


# --- counted residency --------------------------------------------------------------------------------------------


def test_counted_stores_and_removals_balance() -> None:
    story = sent(stored("a"), stored("a"), removed("a"), removed("a"), statement=COUNTED)
    assert counts(story) == {"RES-004": 2}
    assert {story.outcome(name).reason for name in ("RES-001", "RES-002")} == {Reason.NOT_CLAIMED}
    story.send(removed("a"))
    assert speaks(story) == {"RES-004"}
    seen = f"one more removal of {block('a') % 2**64} than stores; it was removed in number 4"
    assert story.outcome("RES-004").findings[0].seen == seen


def test_a_finding_names_what_may_have_caused_it() -> None:
    """A removal of a whole chain lost its tail: what comes next stores the tail a second time."""
    story = sent(stored("abc"), removed("a"), stored("abc"))
    findings = story.outcome("RES-001").findings
    assert findings[0].seen.endswith(f"; its parent {block('a') % 2**64} was removed in number 2")
    assert findings[1].seen.endswith("stored a second time")
    story = sent(stored("a"), removed("a"), removed("a"))
    assert story.outcome("RES-002").findings[0].seen.endswith("which is not; it was removed in number 2")
    story = sent(stored("a", medium="CPU"), removed("a"))
    assert story.outcome("RES-002").findings[0].seen.endswith("which is not; it is in medium CPU, group 0")
    story = sent(stored("a"), cleared(), removed("a"))
    assert story.outcome("RES-002").findings[0].seen.endswith("which is not; the last clear was in number 2")


def test_a_finding_names_nothing_of_the_life_before() -> None:
    story = sent(stored("b"), stored("c"), removed("c"), stored("d"), stored("e"), removed("b"))
    story.send(cleared())
    story.restart()
    for event in (stored("a"), removed("a"), removed("a"), stored("b"), cleared(), removed("b")):
        story.send(event)
    first, second = (finding.seen for finding in story.outcome("RES-002").findings)
    assert first.endswith("which is not; it was removed in number 1")
    assert second.endswith("which is not; the last clear was in number 4")


def test_behind_a_hole_nobody_knows_what_a_clear_had_ended() -> None:
    story = sent(stored("ab"), cleared(), stored("a"))
    assert story.verdict("RES-005") == (PASS, 1)
    story.drop()
    story.send(removed("b"), stored("b"))
    assert story.verdict("RES-005") == (PASS, 1)


def test_what_an_array_clear_of_a_medium_ends_is_not_known() -> None:
    clear: Any = ["AllBlocksCleared", "GPU"]
    assert sent(stored("a"), clear, removed("a")).verdict("RES-002") == (OPEN, 0)


def test_an_event_of_an_unknown_type_is_no_clear() -> None:
    story = sent(stored("a"), removed("a"))
    story.send({"type": "BlockMoved"}, removed("a"))
    assert story.outcome("RES-002").findings[0].seen.endswith("which is not; it was removed in number 2")


def test_counted_after_a_late_join() -> None:
    story = sent(stored("a"), removed("a"), removed("a"), begun=False, statement=COUNTED)
    assert counts(story) == {"RES-004": 1}
    assert speaks(story) == set()


def test_under_set_residency_the_balance_is_not_claimed() -> None:
    assert sent(stored("a")).outcome("RES-004").reason == Reason.NOT_CLAIMED


# --- policies, owners and clears of some locations --------------------------------------------------------------------


def test_under_refresh_a_store_of_what_is_resident_changes_nothing() -> None:
    refresh = Statement(residency="refresh", ring=1000)
    story = sent(stored("a"), stored("a"), removed("a"), statement=refresh)
    assert counts(story) == {"RES-002": 1}
    assert {story.outcome(name).reason for name in ("RES-001", "RES-004")} == {Reason.NOT_CLAIMED}
    story.send(removed("a"))
    assert speaks(story) == {"RES-002"}


def test_the_most_particular_policy_holds() -> None:
    statement = Statement(
        ring=1000,
        groups=(Group(idx=1, residency="refresh"),),
        media=(Medium(medium="CPU", residency="counted"),),
    )
    cpu = [stored("a", medium="CPU"), stored("a", medium="CPU"), removed("a", "CPU"), removed("a", "CPU")]
    story = sent(*cpu, stored("a", group_idx=1), stored("a", group_idx=1), statement=statement)
    assert counts(story) == {"RES-004": 2}
    for event, sentence in (
        (removed("a", "CPU"), "RES-004"),
        (stored("a"), ""),
        (stored("a"), "RES-001"),
        (removed("q", group_idx=1), "RES-002"),
    ):
        before = speaks(story)
        story.send(event)
        assert speaks(story) - before == ({sentence} if sentence else set())


@pytest.mark.parametrize("key", ["locality", "ownership"])
def test_a_copy_of_another_is_another_place(key: str) -> None:
    other: Event = {key: "w"}
    story = sent(stored("a"), stored("a", **other), removed("a", **other), removed("a"))
    assert counts(story) == {"RES-001": 2, "RES-002": 2}
    assert speaks(story) == set()
    other = {key: "v"}
    story.send(removed("a", **other))
    assert speaks(story) == {"RES-002"}
    assert f"{key} v" in story.outcome("RES-002").findings[0].expected


def test_a_clear_that_names_a_medium_or_an_owner_ends_what_is_there() -> None:
    base = [stored("a"), stored("a", medium="CPU"), stored("a", medium="CPU", ownership="w")]
    for named, again in (
        ({"medium": "CPU"}, [base[1], base[2]]),
        ({"ownership": "w"}, [base[2]]),
        ({"ownership": None}, [base[0], base[1]]),
        ({"medium": "CPU", "ownership": None}, [base[1]]),
        ({}, base),
    ):
        story = sent(*base, {**cleared(), **named}, *again)
        assert speaks(story) == set()
        assert story.verdict("RES-005") == (PASS, len(again))
        for event in base:
            if event not in again:
                story.send(event)
        assert speaks(story) == ({"RES-001"} if len(again) < 3 else set())


def test_a_removal_after_a_clear_of_what_it_ended_leaves_the_clear_open() -> None:
    story = sent(stored("a"), stored("a", medium="CPU"), cleared(), stored("a"), removed("a", "CPU"))
    assert speaks(story) == {"RES-002"}
    assert story.outcome("RES-005").reason == "a block that a clear had ended is removed after it"


def test_the_leading_clear_of_an_engine_that_kept_its_blocks_is_right() -> None:
    story = sent(stored("ab"))
    story.restart(ours=True)
    story.send(cleared())
    held(story, "ab")
    story.send(stored("ab"))
    assert "RES-005" not in speaks(story)


def test_a_clear_behind_a_store_is_not_the_leading_one() -> None:
    story = Story()
    story.send(stored("a"), cleared())
    story.send(stored("a"))
    assert story.verdict("RES-005") == (PASS, 1)


@pytest.mark.parametrize("end", ["restart", "drop"])
def test_what_a_clear_ended_is_not_followed_beyond_what_is_known(end: str) -> None:
    story = sent(stored("a"), cleared())
    getattr(story, end)()
    story.told(2)
    story.send(stored("a"))
    assert story.verdict("RES-005") == (OPEN, 0)


def test_a_store_under_refresh_residency_shows_nothing_of_the_clear_before() -> None:
    """It may be one of a block that is there."""
    story = sent(stored("a"), cleared(), stored("a"), statement=Statement(residency="refresh", ring=1000))
    assert story.verdict("RES-005") == (OPEN, 0)
    held(story, "a")
    assert story.verdict("RES-005") == (OPEN, 0)


# --- what the engine says that it holds ---------------------------------------------------------------------------


def held(story: Story, names: str, idle: bool = True) -> None:
    if idle:
        story.note(Settled(drained=True, idle=True))
    story.note(ResidentCall(hashes=tuple(str(block(name)) for name in names)))


def test_the_engine_holds_what_the_stream_says() -> None:
    story = sent(stored("ab"), removed("b"))
    held(story, "ax")  # a block that was never announced may be there
    assert story.verdict("RES-003") == (PASS, 1)


def test_a_block_that_is_gone_unannounced() -> None:
    story = sent(stored("ab"))
    held(story, "a")
    assert speaks(story) == {"RES-003"}
    assert story.verdict("RES-003") == (FAIL, 2)
    assert story.outcome("RES-003").findings[0].where.record == len(story.records) - 1


def test_an_engine_asked_before_the_stream_was_drained_is_compared_with_nothing() -> None:
    """A removal may be under way; the publisher's own count of offers says so."""
    story = sent(stored("ab"))
    story.note(StatsCall(offered=story.next + 1))
    held(story, "a")
    assert story.outcome("RES-003").verdict is Verdict.INCONCLUSIVE
    story.send(removed("b"))
    assert story.verdict("RES-003") == (PASS, 1)
    story = sent(stored("a"))
    story.send(cleared())
    story.note(StatsCall(offered=story.next + 1))
    held(story, "a")
    story.send(stored("a"))
    assert "RES-005" not in speaks(story)


@pytest.mark.parametrize(
    ("batches", "broken"),
    [
        ([[stored("ab")]], set()),  # c came and went
        ([[stored("abc")], [stored("d", "b")]], {"RES-003"}),  # c was announced before it went
        ([[stored("ab")], [removed("c")]], {"RES-002"}),  # the removal of c is still there
        ([[stored("ab")], [stored("d", "c"), removed("d")]], {"CHN-003"}),  # a child of c is
    ],
)
def test_a_pair_that_is_left_out_does_not_show_and_what_is_none_does(
    batches: list[list[Event]], broken: set[str]
) -> None:
    story = Story().begin()
    for events in batches:
        story.send(*events)
    held(story, "abd")
    assert story.spoken().keys() == broken


@pytest.mark.parametrize(
    "since", [(), (CacheCall(tokens=(1,)),), (ResetCall(),), (StatsCall(offered=9),), (Settled(drained=True),)]
)
def test_only_an_idle_engine_is_taken_at_its_word(since: tuple[Stimulus, ...]) -> None:
    """What was asked of it since, or waits to be heard, can be under way."""
    story = sent(stored("a"))
    if since:
        story.note(Settled(drained=True, idle=True))
    for stimulus in since:
        story.note(stimulus)
    held(story, "", idle=False)
    outcome = story.outcome("RES-003")
    assert (outcome.verdict, outcome.reason) == (
        OPEN,
        "what is missing was not asked for again when the engine was idle",
    )


def test_hashes_are_compared_mod_2_to_the_64() -> None:
    story = sent(stored("ab"))
    story.note(ResidentCall(hashes=tuple(str(block(name) % 2**64) for name in "ab")))
    assert story.verdict("RES-003") == (PASS, 2)


def test_the_engine_is_compared_with_the_stream_as_it_stood_then() -> None:
    story = sent(stored("ab"))
    held(story, "ab")
    story.send(removed("b"))
    held(story, "a")
    story.replay()
    assert story.verdict("RES-003") == (PASS, 3)


def test_a_removal_that_only_replay_tells_of_later_came_before() -> None:
    story = sent(stored("ab"))
    story.send(removed("b"), by="")
    story.send()
    held(story, "a")
    story.replay()
    assert story.verdict("RES-003") == (PASS, 1)


def test_a_batch_that_a_witness_delivers_late_stands_where_its_number_is() -> None:
    """Live-a lost it; live-b, which lags, delivers it after the engine was asked."""
    story = sent(stored("ab"))
    number, content = story.make(removed("b"))
    story.send(stored("c", "a"), by="a")
    held(story, "ac")
    story.live(number, content, by="b")
    story.again(3, by="b")
    assert story.verdict("RES-003") == (PASS, 2)


def test_nothing_is_compared_across_a_hole_or_a_restart() -> None:
    story = sent(stored("ab"))
    story.drop()
    story.send()
    held(story, "")
    assert story.verdict("RES-003") == (OPEN, 0)
    story = sent(stored("ab"))
    story.restart(ours=True)
    held(story, "")  # the new life has said nothing yet
    assert story.verdict("RES-003") == (OPEN, 0)


def test_a_clear_while_the_engine_still_holds_the_blocks() -> None:
    story = sent(stored("ab"), cleared())
    held(story, "b")
    assert speaks(story) == {"RES-005"}
    assert story.verdict("RES-005") == (FAIL, 2)
    assert story.outcome("RES-005").findings[0].expected == (
        f"that {block('b') % 2**64} is gone from medium GPU, group 0 after `AllBlocksCleared`"
    )


def test_what_was_stored_again_after_a_clear_had_gone() -> None:
    story = sent(stored("ab"), cleared(), stored("b"))
    held(story, "b")
    assert story.verdict("RES-005") == (PASS, 2)


def test_what_a_clear_ended_where_the_answer_does_not_speak_is_not_judged() -> None:
    story = sent(stored("a"), stored("a", medium="CPU"), cleared())
    story.note(Settled(drained=True, idle=True))
    story.note(places(GPU=""))
    assert story.verdict("RES-005") == (PASS, 1)
    assert story.outcome("RES-003").verdict is OPEN


def places(**held_by: str) -> ResidentCall:
    """An answer by medium, of group 0."""
    given = tuple(
        Place(medium=medium, hashes=tuple(str(block(name)) for name in names)) for medium, names in held_by.items()
    )
    return ResidentCall(hashes=(), places=given)


def test_the_engine_is_asked_medium_by_medium() -> None:
    both = stored("ab"), stored("ab", medium="CPU")
    for answer, verdict in (
        (places(GPU="ab", CPU="ab"), PASS),
        (places(GPU="ab", CPU="a"), FAIL),
        (places(GPU="", CPU="ab"), FAIL),
    ):
        story = sent(*both)
        story.note(Settled(drained=True, idle=True))
        story.note(answer)
        assert story.outcome("RES-003").verdict is verdict
    story = sent(*both)
    story.note(Settled(drained=True, idle=True))
    story.note(places(GPU="", CPU="ab"))
    assert "in medium GPU, group 0" in story.outcome("RES-003").findings[0].expected


@pytest.mark.parametrize("answer", [ResidentCall(hashes=()), places(GPU="ab")])
def test_of_what_the_answer_does_not_speak_nothing_is_said(answer: ResidentCall) -> None:
    story = sent(stored("ab"), stored("ab", medium="CPU"))
    story.note(Settled(drained=True, idle=True))
    story.note(answer)
    outcome = story.outcome("RES-003")
    assert outcome.verdict is OPEN
    assert outcome.reason == "blocks are announced in places of which the answer does not speak"


def test_copies_of_others_need_not_be_known_to_the_engine() -> None:
    story = sent(stored("a"), stored("b", medium="CPU", ownership="w"))
    story.note(Settled(drained=True, idle=True))
    story.note(places(GPU="a", CPU=""))
    assert story.verdict("RES-003") == (PASS, 1)


# --- resets -------------------------------------------------------------------------------------------------------


def after_reset(
    *events: Event, before: tuple[Event, ...] = (stored("ab"),), begun: bool = True, attempts: int = 1
) -> Story:
    """Stores, a reset of the idle cache, and what comes until the wait for its sight ends; in so many attempts."""
    story = sent(begun=begun)
    for _ in range(attempts):
        for event in before:
            story.send(event)
        story.note(ResetCall())
        for event in events:
            story.send(event)
        story.note(ResetDone(outcome="seen" if attempts == 1 else "bound", bound_s=5.0))
        story.send(cleared(), stored("z"), cleared())
    return story


@pytest.mark.parametrize(
    "events", [(cleared(),), (removed("ba"),), (removed("b"), removed("a")), (cleared(), stored("a"))]
)
def test_a_reset_shows_by_a_clear_or_by_the_removal_of_everything(events: tuple[Event, ...]) -> None:
    assert after_reset(*events).verdict("RES-006") == (PASS, 1)


@pytest.mark.parametrize(("events", "left"), [((), 2), ((removed("b"),), 1)])
def test_a_reset_that_does_not_show_within_the_bound(events: tuple[Event, ...], left: int) -> None:
    assert after_reset(*events, attempts=2).outcome("RES-006").verdict is OPEN
    story = after_reset(*events, attempts=3)
    assert speaks(story) == {"RES-006"}
    finding = story.outcome("RES-006").findings[0]
    assert finding.seen == f"{left} blocks are still announced"
    assert finding.expected.endswith("within 5.0 s of the reset")
    assert finding.where.record is not None
    assert story.records[finding.where.record].event == "reset"


def test_a_clear_of_one_medium_shows_the_reset_of_that_medium() -> None:
    both = (stored("ab"), stored("a", medium="CPU"))
    gpu, cpu = ({**cleared(), "medium": medium} for medium in ("GPU", "CPU"))
    assert after_reset(gpu).verdict("RES-006") == (PASS, 1)
    assert after_reset(gpu, cpu, before=both).verdict("RES-006") == (PASS, 1)
    assert after_reset(removed("ab"), cpu, before=both).verdict("RES-006") == (PASS, 1)
    story = after_reset(removed("a"), cpu, before=both, attempts=ATTEMPTS)
    assert speaks(story) == {"RES-006"}
    assert story.outcome("RES-006").findings[0].seen == "1 blocks are still announced"


@pytest.mark.parametrize("shown", [{**cleared(), "medium": "GPU"}, removed("ab")])
def test_a_tier_may_survive_a_reset_that_another_one_shows(shown: Event) -> None:
    both = (stored("ab"), stored("a", medium="CPU"))
    story = after_reset(shown, before=both, attempts=ATTEMPTS)
    assert story.verdict("RES-006") == (OPEN, 0)
    story = idle_reset(*both)
    story.send(shown)
    story.send(stored("x"))
    assert awaited(story).verdict("RES-006") == (OPEN, 0)
    story = idle_reset(*both)
    story.send(removed("a"))
    story.send(stored("x"))
    assert speaks(awaited(story)) == {"RES-006"}


def test_a_store_before_the_reset_shows() -> None:
    story = sent(stored("ab"))
    story.note(Settled(drained=True, idle=True))
    story.note(ResetCall())
    story.send(stored("c"))
    story.send(cleared())
    story.note(ResetDone(outcome="seen", bound_s=5.0))
    assert speaks(story) == {"RES-006"}
    assert story.place("RES-006")[:2] == ("2", "payload")
    story = sent(stored("ab"))
    story.note(Settled(drained=True, idle=True))
    story.note(ResetCall())
    story.send(stored("c"), cleared())  # in one batch, and in this order
    story.note(ResetDone(outcome="seen", bound_s=5.0))
    assert speaks(story) == {"RES-006"}


def test_of_several_stores_before_the_reset_shows_the_first_is_named() -> None:
    story = sent(stored("ab"))
    story.note(Settled(drained=True, idle=True))
    story.note(ResetCall())
    for name in "cde":
        story.send(stored(name))
    story.note(ResetDone(outcome="bound", bound_s=5.0))
    assert story.place("RES-006")[0] == "2"


@pytest.mark.parametrize("shown", [cleared(), removed("ba")])
def test_a_store_after_the_reset_of_an_idle_engine_showed_is_right(shown: Event) -> None:
    story = sent(stored("ab"))
    story.note(Settled(drained=True, idle=True))
    story.note(ResetCall())
    story.send(shown)
    story.send(stored("ab"))
    story.note(ResetDone(outcome="seen", bound_s=5.0))
    assert story.verdict("RES-006") == (PASS, 1)


def test_what_was_under_way_when_a_busy_engine_was_reset_is_no_later_store() -> None:
    assert after_reset(stored("c"), cleared()).verdict("RES-006") == (PASS, 1)
    assert after_reset(stored("c"), removed("cba")).verdict("RES-006") == (PASS, 1)
    assert speaks(after_reset(stored("c"), removed("ba"), attempts=3)) == {"RES-006"}
    assert after_reset(stored("c"), removed("c"), before=()).verdict("RES-006") == (PASS, 1)


def test_of_copies_that_are_counted_the_last_one_has_to_go() -> None:
    twice = (stored("a"), stored("a"))
    for removals, verdict in ((1, FAIL), (2, PASS)):
        story = sent(statement=COUNTED)
        for _ in range(ATTEMPTS):
            for event in twice:
                story.send(event)
            story.note(ResetCall())
            for _ in range(removals):
                story.send(removed("a"))
            story.note(ResetDone(outcome="bound", bound_s=5.0))
            story.send(cleared())
        assert story.outcome("RES-006").verdict is verdict


def test_a_reset_that_nobody_saw_counts_once_the_next_number_shows_that_nothing_was_lost() -> None:
    def unseen() -> Story:
        story = sent(stored("a"))
        story.note(ResetCall())
        return story

    def bound(story: Story) -> Story:
        story.note(ResetDone(outcome="bound", bound_s=5.0))
        return story

    assert bound(unseen()).verdict("RES-006")[0] is OPEN  # what comes last can be lost without a sign
    heard = bound(unseen())
    for _ in range(ATTEMPTS - 1):
        heard.send()
        heard.note(ResetCall())
        bound(heard)
    assert heard.verdict("RES-006")[0] is OPEN
    heard.send()
    assert speaks(heard) == {"RES-006"}
    lost = unseen()
    lost.send(cleared(), by="")
    bound(lost).send()
    assert lost.verdict("RES-006")[0] is OPEN
    lost.replay()  # it was sent; when, nobody knows
    assert lost.verdict("RES-006")[0] is not FAIL
    again = bound(unseen())
    for _ in range(ATTEMPTS):
        again.note(ResetCall())  # of the one before nobody knows
        bound(again)
        again.send()
    assert again.outcome("RES-006").violations == 1


def after_silence(*events: Event, prompts: Sequence[Event], between: bool = True) -> Story:
    """A reset that is not heard of within its bound, prompts before it and after, and what comes next."""

    def run(prompt: Event) -> None:
        story.note(CacheCall(tokens=tuple(prompt["token_ids"]), cached_tokens=0))

    story = sent(stored("ab"))
    run(prompts[0])
    story.note(ResetCall())
    story.note(ResetDone(outcome="bound", bound_s=5.0))
    run(prompts[-1])
    story.send(*events) if between else story.drop()
    story.send(cleared())
    return story


def test_a_reset_has_to_show_before_what_a_later_prompt_stores() -> None:
    old, new = stored("d"), stored("c")
    broken = after_silence(new, prompts=(old, new))
    assert speaks(broken) == {"RES-006"}
    assert broken.outcome("RES-006").findings[0].expected == "the reset before any later store"
    for story in (
        after_silence(old, prompts=(old, new)),  # it was under way when the reset was asked for
        after_silence(new, prompts=(new, new)),
        after_silence(stored("c", "x"), prompts=(old, new)),
        after_silence(cleared(), new, prompts=(old, new)),
        after_silence(new, prompts=(old, new), between=False),
    ):
        assert "RES-006" not in story.spoken()


UNSOUND = {"type": "AllBlocksCleared", "medium": 7}, {**stored("c"), "block_hashes": "c"}


def idle_reset(*before: Event) -> Story:
    story = sent(*before)
    story.note(Settled(drained=True, idle=True))
    story.note(ResetCall())
    return story


def awaited(story: Story) -> Story:
    story.note(ResetDone(outcome="bound", bound_s=5.0))
    return story


@pytest.mark.parametrize("event", [*UNSOUND, {"type": "SomethingElse"}])
def test_what_cannot_be_read_is_neither_a_later_store_nor_a_sight_of_the_reset(event: Event) -> None:
    story = idle_reset(stored("ab"))
    story.send(event)
    assert awaited(story).verdict("RES-006") == (OPEN, 0)
    story = idle_reset(stored("ab"))
    story.send(event, cleared())
    assert awaited(story).verdict("RES-006") == (PASS, 1)


def test_the_reset_may_have_shown_in_a_hole_before_a_store() -> None:
    story = idle_reset(stored("ab"))
    story.drop()
    story.send(stored("c"))
    outcome = awaited(story).outcome("RES-006")
    assert (outcome.verdict, outcome.reason) == (OPEN, "batches are missing since the reset")


@pytest.mark.parametrize("first", [cleared(), stored("c")])
@pytest.mark.parametrize("ours", [True, False])
def test_another_life_shows_nothing_of_a_reset_before_it(first: Event, ours: bool) -> None:
    story = idle_reset(stored("ab"))
    story.restart(ours=ours)
    story.send(first)
    outcome = awaited(story).outcome("RES-006")
    assert (outcome.verdict, outcome.witnesses) == (OPEN, 0)
    assert outcome.reason == "another life began since the reset"


@pytest.mark.parametrize("later", [stored("c"), cleared()])
def test_of_a_reset_during_which_every_witness_was_cut_off_nothing_later_tells(later: Event) -> None:
    story = idle_reset(stored("ab"))
    story.disconnect()
    story.connect()
    awaited(story).send(later)
    story.note(ResetCall(error="refused"))
    assert awaited(story).verdict("RES-006") == (OPEN, 0)


def test_what_was_lost_before_the_wait_ended_counts_though_the_next_batch_is_the_next_one() -> None:
    story = sent()
    for _ in range(ATTEMPTS):
        story.send(cleared(), stored("a"))
        story.note(ResetCall())
        story.drop()
        story.send()
        awaited(story).send()
    assert story.outcome("RES-006").reason == "batches are missing since the reset"


def test_a_reset_that_shows_in_a_later_attempt_was_late() -> None:
    story = after_reset(attempts=2)
    story.send(stored("a"))
    story.note(ResetCall())
    story.send(cleared())
    outcome = awaited(story).outcome("RES-006")
    assert (outcome.verdict, outcome.witnesses) == (PASS, 1)
    assert outcome.notes[0].startswith("late on a busy machine: ")


def test_of_a_reset_after_which_nothing_was_heard_nobody_knows() -> None:
    story = awaited(idle_reset(stored("a")))
    story.note(ResetCall())
    story.send(cleared())
    outcome = awaited(story).outcome("RES-006")
    assert outcome.reason == "batches are missing since the reset"


def test_what_had_nothing_to_show_is_decided_though_nothing_follows() -> None:
    assert awaited(idle_reset()).outcome("RES-006").reason == "nothing was seen that could have broken it"
    story = sent(begun=False)
    story.send()
    story.note(ResetCall())
    assert awaited(story).outcome("RES-006").reason == "what was resident before the reset is not known"


def test_a_store_into_a_cache_that_was_empty_when_it_was_reset_owes_no_clear() -> None:
    story = sent()
    for _ in range(ATTEMPTS):
        story.note(Settled(drained=True, idle=True))
        story.note(ResetCall())
        story.send(stored("c"))
        awaited(story).send(cleared())
    assert story.verdict("RES-006") == (OPEN, 0)


def test_an_empty_cache_has_nothing_to_show() -> None:
    assert after_reset(before=()).verdict("RES-006") == (OPEN, 0)
    assert after_reset(before=(stored("a"), removed("a"))).verdict("RES-006") == (OPEN, 0)
    assert after_reset(cleared(), before=()).verdict("RES-006") == (PASS, 1)


def test_of_an_unknown_cache_only_a_clear_is_proof() -> None:
    assert after_reset(cleared(), begun=False).verdict("RES-006") == (PASS, 1)
    story = after_reset(removed("ba"), begun=False)
    assert story.outcome("RES-006").reason == "what was resident before the reset is not known"
    assert speaks(after_reset(removed("b"), begun=False, attempts=3)) == {"RES-006"}  # a is still announced


def test_a_batch_that_is_missing_since_leaves_it_open() -> None:
    story = sent(stored("ab"))
    story.note(ResetCall())
    story.drop()
    story.send()
    story.note(ResetDone(outcome="bound", bound_s=5.0))
    assert (story.outcome("RES-006").verdict, story.outcome("RES-006").reason) == (
        OPEN,
        "batches are missing since the reset",
    )


def test_a_reset_that_nobody_waited_for_shows_nothing() -> None:
    story = sent(stored("ab"))
    story.note(ResetCall())
    story.send(stored("c"))
    assert story.verdict("RES-006") == (OPEN, 0)


# --- levels and choices -------------------------------------------------------------------------------------------


def test_what_needs_the_cache_is_beyond_those_who_cannot_reach_it() -> None:
    outcomes = Story(can=()).told(3).outcomes()
    assert {outcomes[name].reason for name in ("RES-003", "RES-006")} == {Reason.BEYOND}
    assert outcomes["RES-001"].verdict is PASS


def test_what_the_harness_offered_is_its_own_business() -> None:
    story = Story(sets=("engine", "ts")).begin()
    story.publish(stored("a"))
    story.publish(stored("a"))
    assert story.outcome("RES-001").reason == Reason.OURS
    story.send(stored("a"))  # sent once more than it was offered
    assert speaks(story) == {"RES-001"}
