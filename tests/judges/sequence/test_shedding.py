"""SEQ-002, SEQ-009 and SEQ-010 under load: bursts, batches that come to grief, and what is shed."""

from __future__ import annotations

import pytest
from tests.kit.stories import Event, Story, payload, stored, thrice

from kvwire.judges.verdict import Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.calls import BurstCall, FaultCall
from kvwire.trace.marks import TailDone
from kvwire.wire.projection import batch_projection

PASS, FAIL, OPEN, NOT_APPLICABLE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE


def told(queue: int = 2) -> Story:
    """A publisher without an engine, after its leading clear."""
    return Story(sets=("engine", "ts"), statement=Statement(queue=queue, ring=1000)).begin()


def pair(name: str) -> tuple[Event, Event]:
    """Two stores that no other batch holds."""
    return stored(f"{name}1"), stored(f"{name}2")


def burst(story: Story, fates: str) -> list[tuple[float, tuple[Event, ...]]]:
    """Offer batches at once; ``a`` is accepted, ``d`` is dropped. Nothing is sent yet."""
    made: list[tuple[float, tuple[Event, ...]]] = [
        (story.tick(), pair(f"{story.next}{at}")) for at in range(len(fates))
    ]
    story.note(
        BurstCall(
            batches=tuple(batch_projection(ts, events, story.rank) for ts, events in made),
            accepted=tuple(fate == "a" for fate in fates),
            blocked_us=(3,) * len(fates),
        )
    )
    return made


def send(story: Story, ts: float, events: tuple[Event, ...]) -> None:
    story.send(content=payload(*events, ts=ts, rank=story.rank))


def test_what_is_shed_in_a_burst_leaves_holes_and_nothing_else() -> None:
    story = told()
    story.publish(*pair("x"))
    for fate, (ts, events) in zip("aaddda", burst(story, "aaddda"), strict=True):
        if fate == "a":
            send(story, ts, events)
        else:
            story.drop()
    story.publish(*pair("y"))
    assert story.verdict("SEQ-002") == (PASS, 4)
    assert story.verdict("SEQ-009") == (PASS, 5)
    assert story.verdict("SEQ-010") == (PASS, 3)


def test_what_is_shed_without_a_number() -> None:
    story = told()
    story.publish(*pair("x"))
    first, *_ = burst(story, "addd")
    send(story, *first)
    story.publish(*pair("y"))
    assert "SEQ-002" in story.spoken()


def test_who_sheds_nothing_has_no_occasion_to_shed_in_part() -> None:
    story = told()
    for name in "xyz":
        story.publish(*pair(name))
    assert story.outcome("SEQ-010").verdict is NOT_APPLICABLE


def test_a_batch_that_lost_an_event() -> None:
    story = told()
    story.publish(*pair("x"))
    ts = story.offer(*pair("p"))
    send(story, ts, pair("p")[:1])
    story.publish(*pair("y"))
    outcome = story.outcome("SEQ-010")
    assert (outcome.verdict, outcome.violations) == (FAIL, 1)
    assert outcome.findings[0].seen == "1 of them, in number 2"


def test_an_event_of_a_dropped_batch_in_another_one() -> None:
    story = told()
    story.publish(*pair("x"))
    story.offer(*pair("p"), accepted=False)
    story.drop()
    ts = story.offer(*pair("q"))
    send(story, ts, (*pair("q"), pair("p")[1]))
    assert "SEQ-010" in story.spoken()


def test_a_publisher_of_single_events_sheds_none_in_part() -> None:
    story = told()
    story.publish(*pair("x"))
    story.offer(*pair("p"))
    for event in pair("p"):
        story.send(event)
    story.offer(*pair("q"))
    story.send(pair("q")[0])
    assert "SEQ-010" not in story.spoken()


def test_events_that_two_offers_hold_tell_nothing() -> None:
    story = told()
    story.publish(stored("a"), stored("b"))
    story.offer(stored("a"), stored("c"), accepted=False)
    story.drop()
    assert story.outcome("SEQ-010").verdict is NOT_APPLICABLE


def test_a_batch_that_was_lost_on_the_way_was_not_shed() -> None:
    story = told()
    story.publish(*pair("x"))
    ts = story.offer(*pair("p"))
    story.make(content=payload(*pair("p"), ts=ts, rank=story.rank))
    story.publish(*pair("y"))
    assert story.outcome("SEQ-010").verdict is NOT_APPLICABLE
    assert story.outcome("SEQ-009").verdict is OPEN


# batches that come to grief


@pytest.mark.parametrize(("burnt", "broken"), [(1, False), (0, True), (2, True)])
def test_a_batch_that_cannot_be_encoded_takes_one_number(burnt: int, broken: bool) -> None:
    story = told()
    story.publish(*pair("x"))
    story.note(FaultCall(kind="encode"))
    story.drop(burnt)
    story.publish(*pair("y"))
    assert ("SEQ-002" in story.spoken()) == broken
    assert story.verdict("SEQ-009") == (PASS, 2)


@pytest.mark.parametrize("error", [None, "it ended"])
def test_a_batch_that_came_to_grief_was_not_dropped_for_a_full_queue(error: str | None) -> None:
    story = told(queue=100)
    story.publish(*pair("x"))
    story.note(FaultCall(kind="encode", error=error))
    story.drop()
    story.publish(*pair("y"))
    assert story.verdict("SEQ-009") == (PASS, 2)


def test_a_fault_that_was_refused_is_no_offer() -> None:
    story = told()
    story.publish(*pair("x"))
    story.note(FaultCall(kind="send", refused="adapter: no"))
    story.publish(*pair("y"))
    assert story.verdict("SEQ-002") == (PASS, 1)


def test_nothing_is_concluded_across_a_fault_that_failed() -> None:
    story = told()
    story.publish(*pair("x"))
    story.note(FaultCall(kind="encode", error="it ended"))
    story.drop(3)
    story.publish(*pair("y"))
    assert story.outcome("SEQ-002").verdict is OPEN


# what nothing comes after


def stalled(*, asked: bool = True, waited: bool = True, **options: int) -> Story:
    """Nothing comes any more after a batch that cannot be encoded, though batches are accepted."""
    story = told(**options)
    story.publish(*pair("x"))
    story.note(FaultCall(kind="encode"))
    story.offer(*pair("y"))
    story.offer(*pair("z"))
    if waited:
        thrice(lambda: story.note(TailDone(outcome="bound", after_s=5.0, bound_s=5.0)))
    if asked:
        story.replay()
    return story


def test_a_tail_that_never_came() -> None:
    outcome = stalled(queue=100).outcome("SEQ-009")
    assert (outcome.verdict, outcome.violations) == (FAIL, 2)
    assert "nor by replay" in outcome.findings[0].seen


@pytest.mark.parametrize("missing", ["asked", "waited"])
def test_a_tail_that_nobody_waited_for_may_be_under_way(missing: str) -> None:
    assert stalled(queue=100, **{missing: False}).outcome("SEQ-009").verdict is OPEN


def test_a_tail_that_a_restart_ended_is_not_awaited_any_more() -> None:
    story = stalled(queue=100, asked=False, waited=False)
    story.restart(ours=True)
    thrice(lambda: story.note(TailDone(outcome="bound", after_s=5.0, bound_s=5.0)))
    story.told(2)
    story.replay()
    assert story.outcome("SEQ-009").verdict is OPEN


def test_where_nothing_can_be_asked_for_again_the_live_stream_tells() -> None:
    story = Story(sets=("engine", "ts"), statement=Statement(queue=100), replay=False).begin()
    story.publish(*pair("x"))
    story.offer(*pair("y"))
    thrice(lambda: story.note(TailDone(outcome="bound", after_s=5.0, bound_s=5.0)))
    (finding,) = story.outcome("SEQ-009").findings
    assert finding.seen.endswith("nothing came within the bound that it was waited for")


def test_a_tail_that_came_after_all_begins_the_attempts_anew() -> None:
    story = stalled(queue=100, waited=False)
    for outcome in ("bound", "bound", "seen", "bound"):
        story.note(TailDone(outcome=outcome, after_s=5.0, bound_s=5.0))
    story.replay()
    assert story.outcome("SEQ-009").verdict is OPEN


def test_a_tail_behind_a_queue_that_may_be_full() -> None:
    outcome = stalled(queue=1).outcome("SEQ-009")
    assert outcome.verdict is OPEN
    assert "filled the queue" in outcome.reason


def test_a_batch_leaves_the_queue_when_a_later_one_is_seen() -> None:
    """A batch that was lost does not fill the queue for ever."""
    story = told(queue=2)
    story.publish(*pair("x"))
    story.offer(*pair("lost"))
    story.drop()
    for name in "abc":
        story.publish(*pair(name))
    story.offer(*pair("lost too"))
    story.drop()
    story.publish(*pair("y"))
    story.replay()
    assert story.outcome("SEQ-009").violations == 2


def test_a_heartbeat_is_not_taken_for_an_empty_batch_that_was_lost_on_the_way() -> None:
    story = told(queue=100)
    story.publish(*pair("x"))
    for _ in range(2):
        story.make(content=payload(ts=story.offer(), rank=story.rank))
    story.send()  # a heartbeat
    story.publish(*pair("y"))
    assert story.outcome("SEQ-009").verdict is OPEN
    assert not story.spoken()
