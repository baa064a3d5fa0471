"""SEQ: numbers, restarts, and what was lost."""

from __future__ import annotations

import pytest
from tests.kit.stories import T0, Story, cleared, foreign, payload, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.calls import RestartCall, StatsCall
from kvwire.wire.framing import END_SEQUENCE

PASS, WARN, OPEN = Verdict.PASS, Verdict.WARN, Verdict.INCONCLUSIVE


def speaks(story: Story) -> set[str]:
    """What of SEQ is broken."""
    return {name for name in story.spoken() if name.startswith("SEQ")}


def test_an_honest_stream() -> None:
    story = Story().told(4)
    story.replay()
    story.restart(ours=True)
    story.told(3)
    story.replay()
    outcomes = story.outcomes()
    assert {n: o.witnesses for n, o in outcomes.items() if n.startswith("SEQ") and o.verdict is PASS} == {
        "SEQ-001": 1,
        "SEQ-003": 5,
        "SEQ-004": 5,
        "SEQ-007": 1,
        "SEQ-008": 2,
    }
    assert outcomes["SEQ-002"].verdict is outcomes["SEQ-009"].verdict is OPEN  # nothing was offered


def test_silence_shows_nothing() -> None:
    outcomes = Story().outcomes()
    assert not any(outcome.witnesses for name, outcome in outcomes.items() if name.startswith("SEQ"))
    assert outcomes["SEQ-003"].verdict is outcomes["SEQ-004"].verdict is OPEN


# --- SEQ-003 and SEQ-004 ------------------------------------------------------------------------------------------


def test_a_filled_hole() -> None:
    story = Story().told(3)
    late, newer = story.make(), story.make()
    story.live(*newer, by="a")
    story.live(*late, by="a")
    assert speaks(story) == {"SEQ-003"}
    assert story.place("SEQ-003") == ("3", "sequence", 0, "0000000000000003")
    assert story.outcome("SEQ-003").findings[0].seen == ("number 3, which was missing until then, after 4 (live-a)")


def test_a_reused_number() -> None:
    story = Story().told(3)
    story.live(1, foreign(1), by="a")
    assert speaks(story) == {"SEQ-004"}
    assert story.place("SEQ-004") == ("1", "payload", 0, foreign(1).hex())


def test_a_reused_number_that_one_witness_hears_only_once() -> None:
    story = Story().told(3)
    story.send(by="a")
    story.live(3, foreign(3), by="ab")
    assert speaks(story) == {"SEQ-004"}


def test_a_hole_a_duplicate_and_what_one_witness_loses_are_no_fault() -> None:
    story = Story().told(3)
    story.drop(3)
    story.send(by="a")
    story.send(by="b")
    story.again(2)
    assert speaks(story) == set()
    assert story.verdict("SEQ-003") == (PASS, 4)


def test_the_first_message_and_what_may_be_a_new_life_show_nothing() -> None:
    story = Story()
    story.send(by="a")
    story.disconnect("a")
    story.send(by="a")
    assert story.verdict("SEQ-003") == (OPEN, 0)
    assert story.verdict("SEQ-004") == (OPEN, 0)


# --- SEQ-001 and SEQ-007 ------------------------------------------------------------------------------------------


def late_story(ring: int = 1000, statement: Statement | None = None) -> Story:
    """A stream that was joined after its first five batches."""
    story = Story(ring=ring, statement=statement)
    for _ in range(5):
        story.make()
    story.send()
    return story


def test_a_first_number_that_is_1() -> None:
    story = Story()
    story.next = 1
    story.told(3)
    story.replay()
    story.note(StatsCall(offered=4, sent=3, dropped=0))
    assert speaks(story) == {"SEQ-001"}
    assert story.place("SEQ-001")[0] == "1"
    assert story.outcome("SEQ-001").findings[0].seen == (
        "replay from 0 begins at 1 with 3 batches, though the ring holds 1000 and nothing was dropped"
    )


@pytest.mark.parametrize("dropped", [None, 1])
def test_a_hole_at_the_start_is_a_hole(dropped: int | None) -> None:
    """The first batch can have been dropped, or not be encodable, whatever the ring holds."""
    story = Story()
    story.next = 1
    story.told(3)
    story.replay()
    if dropped is not None:
        story.note(StatsCall(offered=4, sent=3, dropped=dropped))
    assert speaks(story) == set()
    assert story.outcome("SEQ-001").reason == "replay from 0 begins at 1, and what came before may have been dropped"


def test_a_late_join_leaves_the_first_number_open_until_a_replay_tells() -> None:
    story = late_story()
    assert story.verdict("SEQ-001") == (OPEN, 0)
    story.replay(3)
    assert story.verdict("SEQ-001") == (OPEN, 0)
    story.replay(0, marker=False)
    assert story.verdict("SEQ-001") == (PASS, 1)  # number 0 itself was seen


def test_a_ring_that_may_have_evicted_leaves_it_open() -> None:
    story = late_story(ring=4)
    story.replay()
    assert story.verdict("SEQ-001") == (OPEN, 0)
    assert story.outcome("SEQ-001").reason == "replay from 0 begins at 2, and the ring is full"
    story = late_story(ring=4, statement=Statement())
    story.replay()
    assert "the size of the ring is not declared" in story.outcome("SEQ-001").reason


def test_a_ring_smaller_than_declared_is_no_wrong_first_number() -> None:
    story = Story(ring=3, statement=Statement(ring=1000)).told(6, by="")
    story.told(6)
    story.replay()
    story.note(StatsCall(offered=12, sent=12, dropped=0))
    assert speaks(story) == set()
    assert story.outcome("SEQ-001").reason.endswith("lower numbers were heard, and are not retained")
    assert "REP-013" in story.spoken()
    story.restart(ours=True)
    story.told(9)
    story.replay()
    story.note(StatsCall(offered=9, sent=9, dropped=0))
    assert speaks(story) == set()


def test_a_passive_listener_is_not_asked() -> None:
    outcome = Story(replay=False, can=()).told(2).outcome("SEQ-001")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.BEYOND)


def test_a_number_that_is_carried_over_a_restart() -> None:
    story = Story().told(9)
    story.restart(ours=True)
    story.next = 9
    story.told(3)
    assert story.verdict("SEQ-007") == (OPEN, 0)
    story.replay()
    assert speaks(story) == {"SEQ-007"}
    assert story.outcome("SEQ-007").findings[0].seen == (
        "replay from 0 begins at 9 with 3 batches, though the ring holds 1000; the life before had reached 8"
    )


@pytest.mark.parametrize(("before", "lost"), [(6, 0), (9, 4)])
def test_a_hole_at_the_start_of_a_life_may_end_where_the_life_before_did(before: int, lost: int) -> None:
    story = Story().told(before)
    story.restart(ours=True)
    story.drop(before + lost)
    story.told(3)
    story.replay()
    assert story.verdict("SEQ-007") == (OPEN, 0)


@pytest.mark.parametrize(("counted", "verdict"), [(3, Verdict.FAIL), (9, OPEN), (None, OPEN)])
def test_what_a_publisher_counts_tells_where_a_ring_does_not(counted: int | None, verdict: Verdict) -> None:
    story = Story(statement=Statement()).told(20)
    story.restart(ours=True)
    story.next = 20
    story.told(3)
    story.note(StatsCall(offered=counted))
    story.replay()
    assert story.outcome("SEQ-007").verdict is verdict
    if verdict is Verdict.FAIL:
        seen = story.outcome("SEQ-007").findings[0].seen
        assert seen.startswith("replay from 0 begins at 20, and the publisher counts 3 batches in this life; ")


def restarted(*, clock: float) -> Story:
    """A restart after which counter and ring go on; the clock goes on by so much a batch."""
    story = Story()
    for name in range(4):
        story.send(stored([name]) if name else cleared())
        story.clock += clock - 1.0
    retained = dict(story.retained)
    story.restart(ours=True)
    story.next = 4
    story.retained = retained
    story.send(cleared())
    story.send(stored([9]))
    story.replay()
    return story


def test_a_restart_that_keeps_counter_and_ring() -> None:
    story = restarted(clock=1.0)
    assert speaks(story) == {"SEQ-007"}
    assert story.outcome("SEQ-007").findings[0].seen == (
        "replay after the restart holds number 0 of before it: 6 batches from 0 to 5"
    )


def test_equal_bytes_of_two_lives_prove_no_life_that_goes_on() -> None:
    """A clock that stands still lets two lives send the same: only an older stamp than the newest tells."""
    assert speaks(restarted(clock=0.0)) == set()


def test_the_number_of_the_end_marker() -> None:
    story = Story().told(3)
    assert story.verdict("SEQ-006") == (Verdict.NOT_APPLICABLE, 0)
    story.live(2**64 - 2, payload())
    assert story.verdict("SEQ-006") == (Verdict.PASS, 1)
    story.live(2**64 - 1, payload())
    assert "SEQ-006" in speaks(story)
    assert story.outcome("SEQ-006").findings[0].seen == "18446744073709551615, the end marker's, live"
    assert speaks(story) == {"SEQ-006"}


def test_the_end_marker_of_a_replay_without_topics_is_no_live_number() -> None:
    story = Story().told(1)
    story.answer(story.ask(), b"", END_SEQUENCE, b"")
    assert speaks(story) == set()


def test_two_senders_on_one_endpoint() -> None:
    """A relay passes two publishers on: each number comes twice."""
    story = Story()
    for number in range(5):
        story.send(stored([number]))
        story.live(number, payload(stored([100 + number]), ts=story.clock, rank=3))
    seen = story.outcome("SEQ-004")
    assert seen.violations == 5
    assert seen.findings[0].seen.endswith(
        "; two senders: a second counter goes from 0 to 4 beside the first, of rank 3"
    )


def named(*epochs: str | None) -> Story:
    """A life of its own for each epoch."""
    story = Story()
    for at, epoch in enumerate(epochs):
        if at:
            story.restart()
        story.send({**cleared(), "epoch": epoch} if epoch else cleared())
        story.send(stored("a"))
        story.send({**cleared(), "epoch": epoch} if epoch else cleared())
    return story


def test_an_epoch_for_each_incarnation() -> None:
    assert named(None, None).verdict("SEQ-019")[0] == named(None, None).verdict("SEQ-020")[0]
    assert named(None, None).verdict("SEQ-020")[0] == Verdict.NOT_APPLICABLE
    assert named("a").verdict("SEQ-020") == (Verdict.NOT_APPLICABLE, 0)
    story = named("a", "b", "c")
    assert (story.verdict("SEQ-019")[0], story.verdict("SEQ-020")) == (Verdict.PASS, (Verdict.PASS, 2))
    assert speaks(story) == set()
    story = named("a", "b", "a")
    assert speaks(story) == {"SEQ-020"}
    assert story.outcome("SEQ-020").findings[0].seen == "epoch 'a' in incarnation 2, which incarnation 0 had"


def test_a_disconnect_may_hide_that_another_incarnation_names_itself() -> None:
    """Where nothing but numbers is missing, the first epoch is that of the incarnation."""
    for between, epoch, seen in (("disconnect", "b", 1), ("disconnect", "a", 0), ("drop", "b", 0)):
        story = Story()
        story.send({**cleared(), "epoch": "a"})
        getattr(story, between)()
        story.send({**cleared(), "epoch": epoch})
        assert story.outcome("SEQ-020").witnesses == seen
        assert speaks(story) == set()


def test_one_batch_that_two_incarnations_begin_with_is_no_second_naming() -> None:
    """By a clock that stands still two lives can be told apart wrongly, or be sent the same bytes."""
    story = Story()
    first = payload({**cleared(), "epoch": "a"}, ts=T0)
    for name in ("x", "y"):
        if story.next:
            story.restart()
        story.send(content=first)
        story.send(content=payload(stored(name), ts=T0))
        story.replay()
    assert story.lives() == [[0, 1], [0, 1]]
    assert story.verdict("SEQ-020")[0] == Verdict.INCONCLUSIVE


def test_a_restart_first_seen_above_the_last_number_is_no_number_carried_over() -> None:
    story = Story().told(4)
    story.restart(ours=True)
    story.told(9, by="")
    story.send()
    assert story.verdict("SEQ-007") == (OPEN, 0)
    story.replay()
    assert speaks(story) == set()
    assert story.verdict("SEQ-007") == (PASS, 1)


def test_old_messages_that_come_after_the_restart_are_not_the_new_life() -> None:
    story = Story().told(4)
    late = story.make()
    story.live(*late, by="a")
    story.die()
    story.note(RestartCall())
    story.live(*late, by="b")
    story.disconnect()
    story.connect()
    story.told(3, by="")
    story.send()
    story.replay()
    assert speaks(story) == set()
    assert story.verdict("SEQ-007") == (PASS, 1)


def test_each_restart_is_an_occasion_and_one_without_a_sight_of_the_new_life_is_open() -> None:
    story = Story().told(4)
    for _ in range(2):
        story.restart(ours=True)
        story.told(3)
        story.replay()
    assert story.verdict("SEQ-007") == (PASS, 2)
    story.restart(ours=True)
    assert story.outcome("SEQ-007").verdict is OPEN


def test_a_restart_seen_from_0_needs_no_replay() -> None:
    story = Story(replay=False).told(4)
    story.restart(ours=True)
    story.told(2)
    assert story.verdict("SEQ-007") == (PASS, 1)
    story.restart()  # by itself
    story.told(2)
    assert story.verdict("SEQ-007") == (PASS, 1)


# --- SEQ-008 ------------------------------------------------------------------------------------------------------


def test_a_life_that_does_not_begin_with_a_clear_is_a_warning() -> None:
    story = Story()
    story.send()
    story.send(stored("a"))
    assert (story.outcome("SEQ-008").verdict, story.outcome("SEQ-008").witnesses) == (WARN, 1)
    content = story.retained[1]
    assert story.place("SEQ-008") == ("1", "payload", 11, content[11:35].hex())


@pytest.mark.parametrize("first", [3, 1])
def test_a_beginning_that_was_not_seen_shows_nothing(first: int) -> None:
    story = Story()
    story.next = first
    story.send(stored("a"))
    assert story.verdict("SEQ-008") == (OPEN, 0)


def test_a_hole_or_an_unreadable_batch_before_the_first_event_shows_nothing() -> None:
    story = Story()
    story.send()
    story.drop()
    story.send(stored("a"))
    assert story.verdict("SEQ-008") == (OPEN, 0)
    story = Story()
    story.send(content=b"\xc1")
    story.send(stored("a"))
    assert story.verdict("SEQ-008") == (OPEN, 0)


def test_the_harnesss_own_first_event_is_not_the_publishers() -> None:
    story = Story(sets=("engine", "ts"))
    story.publish(stored("a"))
    assert story.outcome("SEQ-008").reason == Reason.OURS
    story = Story(sets=("engine", "ts")).begin()  # the publisher clears by itself
    story.publish(stored("a"))
    assert story.verdict("SEQ-008") == (PASS, 1)
