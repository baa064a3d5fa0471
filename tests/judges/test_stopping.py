"""LIV-003 to LIV-005: what becomes of accepted batches and of ports at an orderly stop."""

from __future__ import annotations

from typing import Any, Literal

from tests.kit.instances import Instance
from tests.kit.stories import Story, stored

from kvwire.conclusion.outcome import NOTHING
from kvwire.judges.verdict import Verdict
from kvwire.trace.attempts import NS
from kvwire.trace.calls import BoundAt, BurstCall, StartCall, StatsCall, StopCall
from kvwire.trace.marks import BurstBegins, Freed

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE
BATCHES = 5


def burst(
    *,
    heard: int,
    dropped: int | None = 0,
    offered: int | None = BATCHES + 1,
    sent: int | None = 3,
    instances: int = 3,
    held_up_s: float = 0.0,
    **stop: Any,
) -> Instance:
    """Number 0 is heard, five batches are accepted behind a way that is stopped, and so many of them come.

    Three of the six were handed to the socket, or so many as it says. The same of several ``instances``. The machine
    may have been held up before the stop.
    """
    several = [Instance(story, f"instance-{number}") for story in [Story(sets=())] for number in range(instances)]
    for one in several:
        _burst(one, heard, dropped, offered, sent, held_up_s, **stop)
    return several[-1]


def _burst(
    one: Instance,
    heard: int,
    dropped: int | None = 0,
    offered: int | None = BATCHES + 1,
    sent: int | None = 3,
    held_up_s: float = 0.0,
    **stop: Any,
) -> None:
    one.accepts()
    one.takes(stored("0")).sends(0, stored("0"))
    one.note(StatsCall(offered=None if offered is None else 1, sent=1, dropped=None if dropped is None else 0))
    one.note(BurstBegins())
    for name in "abcde":
        one.takes(stored(name))
    if held_up_s:
        one.story.now_ns += round(NS * held_up_s)
        one.story.stands_still(seconds=held_up_s)
    one.note(StopCall(**stop))
    for number, name in enumerate("abcde"[:heard], 1):
        one.sends(number, stored(name))
    one.note(StatsCall(offered=offered, sent=sent, dropped=dropped))


def verdicts(one: Instance) -> tuple[Verdict, Verdict]:
    outcomes = one.story.outcomes()
    return outcomes["LIV-003"].verdict, outcomes["LIV-004"].verdict


def test_everything_comes() -> None:
    one = burst(heard=5)
    assert verdicts(one) == (PASS, PASS)
    assert one.story.outcome("LIV-004").witnesses == 3 * BATCHES


def test_what_is_lost_is_lost_by_the_stop() -> None:
    one = burst(heard=2)
    assert verdicts(one) == (WARN, FAIL)
    outcomes = one.story.outcomes()
    assert outcomes["LIV-003"].findings[0].seen == "nothing after number 2: the last 3 never came"
    assert outcomes["LIV-004"].findings[0].seen == "3 that are neither"


def test_one_stop_that_loses_some_on_a_busy_machine_leaves_it_open() -> None:
    assert verdicts(burst(heard=2, instances=2))[0] is OPEN
    one = burst(heard=2, instances=2)
    _burst(Instance(one.story, "instance-9"), 5)
    assert verdicts(one)[0] is PASS


def test_a_machine_that_stood_still_before_the_stop_explains_nothing() -> None:
    assert verdicts(burst(heard=2, held_up_s=3.0)) == (WARN, FAIL)


def test_a_burst_that_was_never_stopped_shows_nothing() -> None:
    one = Instance(Story(sets=()))
    one.accepts().sends(0)
    one.note(BurstBegins())
    one.takes(stored("a"))
    one.sends(1)
    assert verdicts(one) == (OPEN, OPEN)
    assert one.story.outcome("LIV-003").reason == NOTHING


def test_what_passes_while_batches_are_accepted_is_heard_too() -> None:
    one = Instance(Story(sets=()))
    one.accepts().sends(0)
    one.note(BurstBegins())
    one.takes(stored("a")).sends(1).takes(stored("b"))
    one.note(StopCall())
    one.sends(2)
    assert one.story.verdict("LIV-003") == (PASS, 2)


def test_each_life_of_an_instance_has_a_stop_of_its_own() -> None:
    """The same one is started again: its numbers and its counters begin anew."""
    story = Story(sets=())
    one = Instance(story)
    for _ in range(3):
        _burst(one, 5)
    assert story.verdict("LIV-003") == (PASS, 3 * BATCHES)
    one.accepts()
    for number in range(9):
        one.sends(number)
    assert story.verdict("LIV-004") == (PASS, 3 * BATCHES)

    one = Instance(story := Story(sets=()))
    for _ in range(3):
        _burst(one, 2)
    one.accepts()
    for number in range(9):
        one.sends(number)
    assert verdicts(one) == (WARN, FAIL)
    assert story.outcome("LIV-003").findings[0].seen == "nothing after number 2: the last 3 never came"


def test_what_is_counted_is_not_vanished() -> None:
    assert verdicts(burst(heard=2, dropped=3)) == (WARN, PASS)
    assert verdicts(burst(heard=2, dropped=2)) == (WARN, FAIL)


def test_what_was_handed_to_a_socket_that_discards_it_is_not_owed() -> None:
    assert verdicts(burst(heard=2, sent=6)) == (WARN, PASS)
    one = burst(heard=2, sent=None)
    assert verdicts(one) == (WARN, OPEN)
    assert "the adapter does not count what was handed to its socket" in one.story.outcome("LIV-004").reason


def test_counters_of_more_than_was_offered_show_nothing() -> None:
    one = burst(heard=2, sent=5, dropped=2)
    assert verdicts(one) == (WARN, OPEN)
    assert "the adapter counts 1 more as sent or dropped than were offered" in one.story.outcome("LIV-004").reason
    assert verdicts(burst(heard=5, sent=5, dropped=2)) == (PASS, PASS)


def test_a_publisher_without_counters_leaves_the_count_open() -> None:
    assert verdicts(burst(heard=5, dropped=None, offered=None)) == (PASS, PASS)
    one = burst(heard=2, dropped=None, offered=None)
    assert verdicts(one) == (WARN, OPEN)
    assert "never came, and the adapter does not count drops" in one.story.outcome("LIV-004").reason


def test_counters_that_cannot_be_right_show_nothing() -> None:
    several = [Instance(story, f"instance-{number}") for story in [Story(sets=())] for number in range(3)]
    for one in several:
        one.accepts()
        one.takes(stored("0")).sends(0, stored("0"))
        one.note(StatsCall(offered=1, sent=1, dropped=0))
        one.note(BurstBegins())
        for name in "abcde":
            one.takes(stored(name))
        one.note(StopCall())
        one.sends(1, stored("a"))
        one.note(StatsCall(error="the adapter's counter `offered` fell from 1 to 0 without a new start"))
    assert verdicts(several[0]) == (WARN, OPEN)


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


def test_a_stop_that_fails_is_no_better_than_one_that_loses() -> None:
    assert verdicts(burst(heard=2, error="queue.Full")) == (WARN, FAIL)
    refused = burst(heard=2, refused="not now")
    assert verdicts(refused) == (OPEN, OPEN)
    assert "not now" in refused.story.outcome("LIV-003").reason
    assert refused.story.outcome("LIV-003").witnesses == 0


def test_counters_that_start_over_are_the_adapters_error() -> None:
    for counters in ({"offered": 0}, {"offered": 5}, {"sent": 0}):
        one = burst(heard=2, **counters)
        assert verdicts(one) == (OPEN, OPEN)
        assert "the adapter counts" in one.story.outcome("LIV-004").reason


def test_prompts_are_counted_by_the_publisher_or_not_at_all() -> None:
    def told(offered: int | None) -> Instance:
        several = [Instance(story, f"instance-{number}") for story in [Story(sets=())] for number in range(3)]
        for one in several:
            one.accepts()
            one.sends(0)
            one.note(BurstBegins())
            one.cache(1, 2, 3)
            one.note(StopCall())
            one.sends(1).sends(2)
            one.note(StatsCall(offered=offered, sent=3, dropped=0))
        return several[-1]

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
        after_s = 0.1 if outcome == "free" else 2.0
        story.note(Freed(endpoint="tcp://127.0.0.1:5557", outcome=outcome, after_s=after_s, bound_s=2.0))
    return story


def test_ports_come_free() -> None:
    assert freed("free", "free").verdict("LIV-005") == (PASS, 2)
    assert freed("free", "held").outcome("LIV-005").verdict is OPEN
    assert freed("free", "held", "held", "held").verdict("LIV-005") == (WARN, 2)
    assert freed("taken", "taken", "taken").verdict("LIV-005") == (OPEN, 0)
    story = Story()
    Instance(story).note(Freed(endpoint="ipc:///x", outcome="free", after_s=0.1, bound_s=2.0))
    assert story.verdict("LIV-005") == (PASS, 1)


def test_a_stop_that_raises_frees_no_port_in_good_order() -> None:
    story = Story()
    story.note(StartCall(bound=BoundAt(endpoint="tcp://127.0.0.1:5557")))
    story.note(StopCall(error="`stop` failed in the adapter: RuntimeError: no"))
    story.note(Freed(endpoint="tcp://127.0.0.1:5557", outcome="free", after_s=0.1, bound_s=2.0))
    assert story.verdict("LIV-005") == (WARN, 2)
    assert story.outcome("LIV-005").findings[0].seen.endswith("RuntimeError: no")
    story.note(StopCall(error="`stop` failed in the adapter: nothing runs"))  # it was asked twice
    assert story.outcome("LIV-005").violations == 1


def test_a_stop_of_what_does_not_run_frees_nothing() -> None:
    story = Story()
    story.note(StopCall(error="`stop` failed in the adapter: nothing runs"))
    assert story.verdict("LIV-005") == (OPEN, 0)


def test_a_refusal_in_a_burst_has_no_number_where_nothing_is_counted() -> None:
    one = Instance(Story(sets=()))
    one.accepts().sends(0)
    one.note(BurstBegins())
    one.note(BurstCall(accepted=(False, True), blocked_us=(1, 1)))
    one.note(StopCall())
    one.sends(1)
    assert one.story.verdict("LIV-003") == (PASS, 1)


def test_a_refusal_in_a_burst_has_a_number_where_it_is_counted() -> None:
    """Five batches for a queue that takes four: what is refused is not owed, and what comes behind it is."""
    one = Instance(Story(sets=()))
    one.accepts()
    one.sends(0)
    one.note(StatsCall(offered=1, sent=1, dropped=0))
    one.note(BurstBegins())
    one.note(BurstCall(accepted=(True, True, False, True, False), blocked_us=(1,) * 5))
    one.note(StopCall())
    one.sends(1).sends(2).sends(4)
    one.note(StatsCall(offered=6, sent=4, dropped=2))
    assert verdicts(one) == (PASS, PASS)
    assert one.story.outcome("LIV-003").witnesses == 3

    story = Story(sets=())
    for number in range(3):
        one = Instance(story, f"instance-{number}")
        one.accepts().sends(0)
        one.note(StatsCall(offered=1, sent=1, dropped=0))
        one.note(BurstBegins())
        one.note(BurstCall(accepted=(True, False, True, True), blocked_us=(1,) * 4))
        one.note(StopCall())
        one.sends(1).sends(3)
        one.note(StatsCall(offered=5, sent=3, dropped=1))
    assert verdicts(one)[0] is WARN
    assert "the last 1 never came" in story.outcome("LIV-003").findings[0].seen
