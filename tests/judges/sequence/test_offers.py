"""SEQ: numbers against what was offered, and what was lost."""

from __future__ import annotations

import pytest
from tests.kit.stories import T0, Story, cleared, payload, removed, stored, thrice

from kvwire.judges.verdict import Verdict
from kvwire.standard.statement import Bounds, Statement
from kvwire.trace.calls import CacheCall, Call, ResetCall, RestartCall, StartCall, StatsCall, StopCall
from kvwire.trace.marks import TailDone

PASS, OPEN = Verdict.PASS, Verdict.INCONCLUSIVE


def speaks(story: Story) -> set[str]:
    """What of SEQ is broken."""
    return {name for name in story.spoken() if name.startswith("SEQ")}


# --- SEQ-002 ------------------------------------------------------------------------------------------------------


def publishing(statement: Statement | None = None) -> Story:
    """A publisher without an engine, after its leading clear."""
    return Story(sets=("engine", "ts"), statement=statement or Statement(queue=8, ring=1000)).begin()


def test_numbers_count_what_was_offered() -> None:
    story = publishing()
    for name in "abcd":
        story.publish(stored(name))
    assert story.verdict("SEQ-002") == (PASS, 3)
    assert story.verdict("SEQ-009") == (PASS, 4)


def test_a_dropped_batch_uses_its_number_up() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.offer(stored("b"), accepted=False)
    story.drop()
    story.publish(stored("c"))
    assert story.verdict("SEQ-002") == (PASS, 1)


def test_a_dropped_batch_that_leaves_no_hole() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.offer(stored("b"), accepted=False)
    story.publish(stored("c"))
    assert speaks(story) == {"SEQ-002"}
    assert story.place("SEQ-002")[:2] == ("2", "payload")
    finding = story.outcome("SEQ-002").findings[0]
    assert (finding.expected, finding.seen) == ("number 3: 2 batches were offered since number 1", "number 2")


def test_a_number_that_is_used_up_for_nothing() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.drop()
    story.publish(stored("b"))
    assert speaks(story) == {"SEQ-002"}


def test_heartbeats_have_numbers_of_their_own() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.send()
    story.send()
    story.publish(stored("b"))
    assert story.verdict("SEQ-002") == (PASS, 1)


def test_a_heartbeat_that_was_lost_is_no_number_used_up_for_nothing() -> None:
    story = publishing(Statement(bounds=Bounds(heartbeat_s=1.0)))
    story.publish(stored("a"))
    story.drop()
    story.publish(stored("b"))
    assert story.verdict("SEQ-002") == (PASS, 1)


def test_a_dropped_offer_beside_a_heartbeat() -> None:
    story = publishing()
    story.publish()
    story.offer(accepted=False)
    story.drop()
    story.send()  # a heartbeat, as empty as what was offered
    story.publish()
    assert speaks(story) == set()


@pytest.mark.parametrize("between", [CacheCall(tokens=(1, 2, 3, 4)), ResetCall(), RestartCall()])
def test_nothing_is_concluded_across_what_may_cause_other_batches(between: Call) -> None:
    story = publishing()
    story.publish(stored("a"))
    story.note(between)
    story.next += 3
    story.publish(stored("b"))
    assert story.verdict("SEQ-002") == (OPEN, 0)


def test_nothing_is_concluded_across_what_may_be_a_new_life() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.disconnect()
    story.next = 7
    story.publish(stored("b"))
    assert story.verdict("SEQ-002") == (OPEN, 0)
    story.restart()
    story.told(2)
    story.publish(stored("c"))
    assert story.verdict("SEQ-002") == (OPEN, 0)


def test_an_offer_that_is_sent_as_several_batches_leaves_it_open() -> None:
    story = publishing()
    for first, second in ("ab", "cd"):
        story.offer(stored(first), stored(second))
        story.send(stored(first))
        story.send(stored(second))
    assert story.outcome("SEQ-002").reason == "the publisher sends one offered batch as several"
    assert story.verdict("SEQ-009") == (PASS, 2)


# --- SEQ-009 ------------------------------------------------------------------------------------------------------


def losing(*, replayed: bool = True, later: bool = True, queue: int | None = 100, sent: int | None = None) -> Story:
    """One of three accepted batches is lost, its number used up; ``sent``: then the publisher's counters are asked."""
    story = publishing(Statement(queue=queue, ring=1000))
    story.publish(stored("a"))
    story.offer(stored("b"))
    story.drop()
    if sent is not None:
        story.note(StatsCall(offered=3, sent=sent, dropped=0))
    if later:
        story.publish(stored("c"))
    if replayed:
        story.replay()
    return story


def test_a_loss_that_a_replay_proves() -> None:
    story = losing()
    assert speaks(story) == {"SEQ-009"}
    outcome = story.outcome("SEQ-009")
    assert (outcome.witnesses, outcome.violations) == (3, 1)
    record = outcome.findings[0].where.record
    assert record is not None
    assert story.records[record].event == "publish"
    assert outcome.findings[0].seen.endswith("a complete replay answer of 3 batches lack it")


def test_a_loss_that_leaves_no_room_needs_no_replay() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.offer(stored("b"))
    story.publish(stored("c"))
    assert speaks(story) == {"SEQ-002", "SEQ-009"}
    assert "leave no room for it" in story.spoken()["SEQ-009"]


def test_a_batch_that_was_not_seen_is_not_lost_yet() -> None:
    story = losing(replayed=False)
    assert "no complete replay answer tells why" in story.outcome("SEQ-009").reason
    story = losing(later=False)  # it may still be on its way
    assert story.verdict("SEQ-009") == (OPEN, 1)


def test_the_first_offer_is_lost_where_a_replay_from_0_lacks_it() -> None:
    story = publishing()
    story.offer(stored("a"))
    story.drop()
    story.publish(stored("b"))
    story.replay(2)
    assert "no complete replay answer tells why" in story.outcome("SEQ-009").reason
    story.replay()
    assert story.spoken()["SEQ-009"].endswith("a complete replay answer of 2 batches lack it")


def test_an_answer_that_begins_behind_a_batch_tells_nothing_of_it() -> None:
    story = losing(replayed=False)
    story.replay(3)
    assert "no complete replay answer tells why" in story.outcome("SEQ-009").reason


def test_an_answer_of_another_life_tells_nothing_of_a_batch() -> None:
    story = losing(replayed=False)
    story.restart()
    story.told(5)
    story.replay()
    assert "no complete replay answer tells why" in story.outcome("SEQ-009").reason


@pytest.mark.parametrize("queue", [1, None])
def test_a_queue_of_one_has_room_when_all_before_was_seen_and_nothing_came_before_it_was_empty(
    queue: int | None,
) -> None:
    assert losing(queue=queue, sent=3).outcome("SEQ-009").violations == 1
    assert losing(queue=2).outcome("SEQ-009").violations == 1


@pytest.mark.parametrize("queue", [1, None])
def test_a_queue_of_one_may_drop_what_waits_in_it_for_what_comes(queue: int | None) -> None:
    assert losing(queue=queue).outcome("SEQ-009").violations == 0
    assert losing(queue=queue, sent=2).outcome("SEQ-009").violations == 0


def test_a_full_queue_that_drops_its_oldest_keeps_the_sentence() -> None:
    """Six come at once, three find room, and each of the next three takes the place of the oldest."""
    story = publishing(Statement(queue=3, ring=1000))
    stamps = [(story.offer(stored(name)), stored(name)) for name in "abcdef"]
    story.drop(3)
    for ts, event in stamps[3:]:
        story.send(content=payload(event, ts=ts))
    story.replay()
    assert speaks(story) == set()
    assert story.outcome("SEQ-009").reason == "an accepted batch was not seen; 5 others may have filled the queue"


def test_a_publisher_that_accepts_and_sends_nothing() -> None:
    story = Story(sets=("engine", "ts"), statement=Statement(queue=2, ring=1000))
    for name in "abc":
        story.offer(stored(name))
    thrice(lambda: story.note(TailDone(outcome="bound", after_s=5.0, bound_s=5.0)))
    assert speaks(story) == set()  # nobody was connected, as far as it is known
    story = Story(sets=("engine", "ts"), statement=Statement(queue=2, ring=1000))
    story.connect()
    for name in "abc":
        story.offer(stored(name))
    story.replay()
    assert speaks(story) == set()
    thrice(lambda: story.note(TailDone(outcome="bound", after_s=5.0, bound_s=5.0)))
    assert speaks(story) == {"SEQ-009"}
    outcome = story.outcome("SEQ-009")
    assert (outcome.violations, outcome.findings[0].expected) == (2, "3 batches, which were accepted")


@pytest.mark.parametrize("queue", [2, None])
def test_a_full_queue_may_lose(queue: int | None) -> None:
    """Offers that nobody has seen yet may all be waiting; without a declaration one is room enough for one."""
    story = publishing(Statement(queue=queue, ring=1000))
    stamps = [(story.offer(stored(name)), stored(name)) for name in "abcd"]
    for at, (ts, event) in enumerate(stamps):
        if at == 2:
            story.drop()
        else:
            story.send(content=payload(event, ts=ts))
    story.replay()
    outcome = story.outcome("SEQ-009")
    assert (outcome.verdict, outcome.reason) == (
        OPEN,
        "an accepted batch was not seen; 2 others may have filled the queue",
    )


@pytest.mark.parametrize(
    ("call", "earlier"), [(RestartCall(), ""), (RestartCall(), "x"), (StartCall(), ""), (StartCall(), "x"), (None, "x")]
)
def test_what_waited_when_a_life_ended_is_not_owed_by_the_next(call: Call | None, earlier: str) -> None:
    """Whether an offer before it was seen or none was."""
    story = publishing(Statement(queue=100, ring=1000))
    for name in earlier:
        story.publish(stored(name))
    story.offer(stored("a"))
    if call is not None:
        story.note(call)
    story.restart()
    story.begin()
    story.publish(stored("b"))
    story.replay()
    assert story.verdict("SEQ-009") == (OPEN, 1 + len(earlier))
    assert story.outcome("SEQ-009").reason == "an accepted batch was not seen, and no later one of its life"
    story.offer(stored("c"))
    story.drop()
    story.publish(stored("d"))
    story.replay()
    assert story.outcome("SEQ-009").violations == 1


def test_what_waited_when_a_life_ended_takes_no_room_in_the_next() -> None:
    story = publishing(Statement(queue=10, ring=1000))
    for name in "abc":
        story.offer(stored(name))
    story.restart(ours=True)
    story.begin()
    story.offer(stored("x"), accepted=False)
    story.drop()
    story.publish(stored("y"))
    assert story.outcome("SEQ-009").findings[0].expected.startswith("a batch accepted while 0 others wait")


def test_numbers_whose_bytes_stand_in_another_order_tell_nothing_of_losses() -> None:
    story = publishing()
    story.next = 2**56
    story.publish(stored("a"))
    story.offer(stored("b"))
    story.publish(stored("c"))
    assert story.outcome("SEQ-009").reason == "the numbers count nothing"


def test_a_batch_that_was_not_accepted_is_not_lost() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.offer(stored("b"), accepted=False)
    story.drop()
    story.publish(stored("c"))
    story.replay()
    assert story.verdict("SEQ-009") == (PASS, 2)


def dropped(*calls: Call, queue: int = 100) -> Story:
    """A batch that is dropped at once, after such calls, though nothing waits."""
    story = publishing(Statement(queue=queue, ring=1000))
    story.publish(stored("a"))
    for call in calls:
        story.note(call)
    story.offer(stored("b"), accepted=False)
    story.drop()
    story.publish(stored("c"))
    story.replay()
    return story


def test_a_batch_that_is_dropped_while_the_queue_has_room() -> None:
    outcome = dropped().outcome("SEQ-009")
    assert (outcome.violations, outcome.witnesses) == (1, 3)
    assert outcome.findings[0].expected.endswith("0 others wait at most, as the declared queue holds 100")
    assert "SEQ-009" in dropped(CacheCall(tokens=(1,), cached_tokens=0), RestartCall()).spoken()


PROMPT = CacheCall(tokens=(1,), cached_tokens=0)


def test_a_batch_that_is_dropped_where_others_may_wait_or_nothing_runs() -> None:
    assert speaks(dropped(StopCall())) == set()
    assert speaks(dropped(queue=8)) == set()
    assert speaks(dropped(PROMPT, queue=10)) == set()  # two numbers, and some of its own


def test_however_many_batches_a_prompt_causes_no_more_can_wait_than_have_numbers() -> None:
    found = dropped(PROMPT).outcome("SEQ-009").findings[0]
    assert found.expected.startswith("a batch accepted while 2 others wait at most")


def test_what_only_replay_has_was_not_lost() -> None:
    story = publishing()
    story.publish(stored("a"))
    story.publish(stored("b"), by="")
    story.publish(stored("c"))
    story.replay()
    assert story.verdict("SEQ-009") == (PASS, 3)
    assert story.verdict("SEQ-002") == (PASS, 2)


def test_offers_of_two_lives_are_told_apart() -> None:
    story = publishing()
    for _ in range(2):
        story.publish(stored("a"))
        story.publish(removed("a"), cleared())
        story.restart(ours=True)
    story.told(2)
    story.replay()
    assert speaks(story) == set()
    assert story.verdict("SEQ-002") == (PASS, 2)


def test_a_publisher_that_stamps_anew_is_recognised_by_events() -> None:
    story = publishing()
    for name in "abc":
        story.offer(stored(name))
        story.send(content=payload(stored(name), ts=T0 + 1000 + ord(name)))
    assert story.verdict("SEQ-002") == (PASS, 2)
    assert story.verdict("SEQ-009") == (PASS, 3)
