"""LIV-003 to LIV-005: what becomes of accepted batches and of ports at an orderly stop."""

from __future__ import annotations

from typing import Any, Literal

from tests.kit.instances import Instance
from tests.kit.stories import Story, stored

from kvwire.judges.verdict import Verdict
from kvwire.trace.calls import BurstCall, StatsCall, StopCall
from kvwire.trace.marks import BurstBegins, Freed

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE
BATCHES = 5


def burst(*, heard: int, dropped: int | None = 0, offered: int | None = BATCHES + 1, **stop: Any) -> Instance:
    """Number 0 is heard, five batches are accepted behind a way that is stopped, and so many of them come."""
    one = Instance(Story(sets=()))
    one.accepts()
    one.takes(stored("0")).sends(0, stored("0"))
    one.note(StatsCall(offered=None if offered is None else 1, sent=1, dropped=None if dropped is None else 0))
    one.note(BurstBegins())
    for name in "abcde":
        one.takes(stored(name))
    one.note(StopCall(**stop))
    for number, name in enumerate("abcde"[:heard], 1):
        one.sends(number, stored(name))
    one.note(StatsCall(offered=offered, sent=None, dropped=dropped))
    return one


def verdicts(one: Instance) -> tuple[Verdict, Verdict]:
    outcomes = one.story.outcomes()
    return outcomes["LIV-003"].verdict, outcomes["LIV-004"].verdict


def test_everything_comes() -> None:
    one = burst(heard=5)
    assert verdicts(one) == (PASS, PASS)
    assert one.story.outcome("LIV-004").witnesses == BATCHES


def test_what_is_lost_is_lost_by_the_stop() -> None:
    one = burst(heard=2)
    assert verdicts(one) == (WARN, FAIL)
    outcomes = one.story.outcomes()
    assert outcomes["LIV-003"].findings[0].seen == "nothing after number 2: the last 3 never came"
    assert outcomes["LIV-004"].findings[0].expected.startswith("3 more batches counted as dropped")


def test_what_is_counted_is_not_vanished() -> None:
    assert verdicts(burst(heard=2, dropped=3)) == (WARN, PASS)
    assert verdicts(burst(heard=2, dropped=2)) == (WARN, FAIL)


def test_a_publisher_without_counters_leaves_the_count_open() -> None:
    assert verdicts(burst(heard=5, dropped=None, offered=None)) == (PASS, PASS)
    assert verdicts(burst(heard=2, dropped=None, offered=None)) == (WARN, OPEN)


def test_counters_that_cannot_be_right_show_nothing() -> None:
    one = Instance(Story(sets=()))
    one.accepts()
    one.takes(stored("0")).sends(0, stored("0"))
    one.note(StatsCall(offered=1, sent=1, dropped=0))
    one.note(BurstBegins())
    for name in "abcde":
        one.takes(stored(name))
    one.note(StopCall())
    one.sends(1, stored("a"))
    one.note(StatsCall(error="the adapter's counter `offered` fell from 1 to 0 without a new start"))
    assert verdicts(one) == (WARN, OPEN)


def test_a_hole_before_the_end_is_not_the_stops() -> None:
    one = Instance(Story(sets=()))
    one.accepts()
    one.sends(0)
    one.note(BurstBegins())
    for name in "abc":
        one.takes(stored(name))
    one.note(StopCall())
    one.sends(1).sends(3)
    one.note(StatsCall(offered=4, dropped=0))
    assert verdicts(one) == (PASS, PASS)


def test_a_batch_that_was_not_accepted_is_not_owed() -> None:
    one = Instance(Story(sets=()))
    one.accepts()
    one.sends(0)
    one.note(BurstBegins())
    one.note(BurstCall(accepted=(True, False), blocked_us=(1, 1)))
    one.note(StopCall())
    one.sends(1)
    one.note(StatsCall(offered=None, dropped=None))
    assert verdicts(one) == (PASS, PASS)
    assert one.story.outcome("LIV-003").witnesses == 1


def test_a_stop_that_failed_is_no_orderly_one() -> None:
    one = burst(heard=2, error="queue.Full")
    assert verdicts(one) == (OPEN, OPEN)
    assert "queue.Full" in one.story.outcome("LIV-003").reason


def test_prompts_are_counted_by_the_publisher_or_not_at_all() -> None:
    def told(offered: int | None) -> Instance:
        one = Instance(Story(sets=()))
        one.accepts()
        one.sends(0)
        one.note(BurstBegins())
        one.cache(1, 2, 3)
        one.note(StopCall())
        one.sends(1).sends(2)
        one.note(StatsCall(offered=offered, dropped=0))
        return one

    assert verdicts(told(3)) == (PASS, PASS)
    assert verdicts(told(4)) == (WARN, FAIL)
    assert verdicts(told(None)) == (OPEN, OPEN)


def test_without_a_word_before_nothing_is_known() -> None:
    one = Instance(Story(sets=()))
    one.accepts()
    one.note(BurstBegins())
    one.takes(stored("a"))
    one.note(StopCall())
    assert verdicts(one) == (OPEN, OPEN)


def freed(*outcomes: Literal["free", "held", "taken"]) -> Story:
    story = Story()
    for outcome in outcomes:
        story.note(Freed(endpoint="tcp://127.0.0.1:5557", outcome=outcome, after_s=0.1, bound_s=2.0))
    return story


def test_ports_come_free() -> None:
    assert freed("free", "free").verdict("LIV-005") == (PASS, 2)
    assert freed("free", "held").verdict("LIV-005") == (WARN, 2)
    assert freed("taken").verdict("LIV-005") == (OPEN, 0)
    story = Story()
    Instance(story).note(Freed(endpoint="ipc:///x", outcome="free", after_s=0.1, bound_s=2.0))
    assert story.verdict("LIV-005") == (PASS, 1)
