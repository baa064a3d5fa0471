"""LIV-001 and LIV-002: how long the caller waits, and whether an idle stream beats."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.kit.instances import Instance
from tests.kit.stories import Story, stored, thrice

from kvwire.judges.verdict import Verdict
from kvwire.standard.statement import Bounds, Statement
from kvwire.trace.attempts import NS
from kvwire.trace.calls import BurstCall, CacheCall, StartCall
from kvwire.trace.marks import FaultDone, IdleDone, StrainBegins, StrainDone
from kvwire.wire.projection import batch_projection

PASS, WARN, FAIL, OPEN = Verdict.PASS, Verdict.WARN, Verdict.FAIL, Verdict.INCONCLUSIVE


def attempt(story: Story, *took_ms: float, situation: str = "full queue", held_up_s: float = 0.0) -> None:
    """One attempt: a burst of calls that took so long."""
    story.note(StrainBegins(situation=situation))
    batches = tuple(batch_projection(story.tick(), [stored("a")], 0) for _ in took_ms)
    taken = tuple(round(1000 * ms) for ms in took_ms)
    story.note(BurstCall(batches=batches, accepted=(True,) * len(taken), blocked_us=taken))
    if held_up_s:
        story.now_ns += round(NS * held_up_s)
        story.stands_still(seconds=held_up_s)
    story.note(StrainDone(situation=situation))


def test_calls_that_return() -> None:
    story = Story().begin()
    attempt(story, 0.01, 99.0)
    attempt(story, 0.2, situation="a replay client that does not read")
    assert story.verdict("LIV-001") == (PASS, 3)


def test_a_caller_that_waits_whenever_it_is_tried() -> None:
    story = Story().begin()
    for longest in (101, 250, 130):
        attempt(story, 0.1, longest)
    outcome = story.outcome("LIV-001")
    assert (outcome.verdict, outcome.violations) == (FAIL, 1)
    assert outcome.findings[0].seen == "full queue: in 3 attempts of 3 a call that took 101, 250, 130 ms"


def test_the_declared_bound_counts() -> None:
    story = Story(statement=Statement(bounds=Bounds(publish_ms=500.0))).begin()
    for _ in range(3):
        attempt(story, 300)
    assert story.verdict("LIV-001") == (PASS, 3)


def test_one_long_call_on_a_busy_machine_is_a_remark() -> None:
    story = Story().begin()
    attempt(story, 400)
    attempt(story, 0.1)
    outcome = story.outcome("LIV-001")
    assert (outcome.verdict, outcome.witnesses) == (PASS, 1)
    assert outcome.notes == ["full queue: a call took 400 ms, and the next ones did not"]


@pytest.mark.parametrize("attempts", [1, 2])
def test_too_few_attempts_leave_it_open(attempts: int) -> None:
    story = Story().begin()
    for _ in range(attempts):
        attempt(story, 400)
    assert story.outcome("LIV-001").verdict is OPEN
    assert "too few attempts" in story.outcome("LIV-001").reason


def test_calls_that_return_although_the_machine_stood_still_return() -> None:
    story = Story().begin()
    attempt(story, 0.1, held_up_s=0.39)
    assert story.verdict("LIV-001") == (PASS, 1)


def test_one_that_returned_in_no_attempt_is_open_where_the_machine_stood_still_in_some() -> None:
    story = Story().begin()
    attempt(story, 400)
    attempt(story, 400, held_up_s=0.39)
    outcome = story.outcome("LIV-001")
    assert (outcome.verdict, outcome.notes) == (OPEN, [])
    assert "too few attempts" in outcome.reason


def test_a_machine_that_stood_still_proves_nothing() -> None:
    story = Story().begin()
    for _ in range(6):
        attempt(story, 400, held_up_s=0.39)
    assert story.outcome("LIV-001").verdict is OPEN
    for _ in range(3):
        attempt(story, 400)
    assert story.outcome("LIV-001").verdict is FAIL


def test_situations_do_not_add_up() -> None:
    story = Story().begin()
    for situation in ("one", "two", "three"):
        attempt(story, 400, situation=situation)
        attempt(story, 0.1, situation=situation)
    assert story.outcome("LIV-001").verdict is PASS


def test_an_attempt_that_was_cut_short_is_none() -> None:
    story = Story().begin()
    story.note(StrainBegins(situation="full queue"))
    story.offer(stored("a"), blocked_us=400_000)
    assert story.verdict("LIV-001") == (OPEN, 0)


# a batch that comes to grief


Outcome = Literal["seen", "bound"]


def grief(*attempts: Outcome, kind: str = "encode", held_up_s: float = 0.0) -> Story:
    """A batch came to grief, and others were offered after it, with such outcomes."""
    story = Story().begin()
    for outcome in attempts:
        story.note(FaultDone(kind=kind, outcome=outcome, after_s=5.0, bound_s=5.0))
        if held_up_s:
            story.stands_still(seconds=held_up_s)
    return story


def test_a_publisher_goes_on_after_a_batch_that_came_to_grief() -> None:
    assert grief("seen").verdict("LIV-006") == (PASS, 1)
    assert grief("bound", "seen").verdict("LIV-006") == (PASS, 1)


def test_one_that_does_not_is_silent_in_each_of_several_attempts() -> None:
    silent = grief("bound", "bound", "bound")
    outcome = silent.outcome("LIV-006")
    assert (outcome.verdict, outcome.violations) == (FAIL, 1)
    assert outcome.findings[0].expected.startswith("a batch that is offered after one that cannot be encoded")
    assert grief("bound", "bound").outcome("LIV-006").verdict is OPEN
    silent = grief("bound", "bound", "bound", "bound", "bound", "bound", held_up_s=4.0)
    assert silent.outcome("LIV-006").verdict is OPEN


# requests


def asked(*calls: CacheCall) -> Story:
    """Prompts that an instance was given."""
    story = Story(sets=())
    one = Instance(story).accepts()
    for call in calls:
        one.note(call)
    return story


PLAIN = CacheCall(tokens=(1, 2), cached_tokens=0)
SMALL = CacheCall(tokens=(1, 2), lora="7", cached_tokens=0)
WIDE = CacheCall(tokens=(1, 2), lora=str(2**63 + 7))
SALTED = CacheCall(tokens=(1, 2), salt="s")
DIED = {"error": "it ended (exit code 1) before it answered `cache`"}


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ([PLAIN, SMALL, WIDE.answered({"cached_tokens": 0})], PASS),
        ([PLAIN, SMALL, WIDE.answered({"refused": "no int64"})], FAIL),
        ([PLAIN, SMALL, WIDE.answered({"error": "OverflowError: int too big"})], FAIL),
        ([PLAIN, SMALL, WIDE.answered({"refused": "adapter: ids are 32 bits here"})], PASS),
        ([PLAIN, WIDE.answered({"refused": "no LoRA here"})], OPEN),
        ([PLAIN, WIDE.answered({"refused": "adapter: no LoRA here"})], OPEN),
        ([PLAIN, *[WIDE.answered({"refused": "no LoRA here"})] * 2], OPEN),
        ([PLAIN.answered(DIED), SALTED.answered(DIED)], OPEN),
        ([PLAIN, SMALL, SALTED.answered({"refused": "no salts here"})], OPEN),
        ([PLAIN, SALTED.answered(DIED)], FAIL),
        ([SALTED.answered(DIED)], OPEN),
        ([PLAIN, SALTED.answered({"error": "no answer to `cache` within 30 s"})], OPEN),
        ([PLAIN, SALTED.answered({"error": "interrupted"})], OPEN),
        ([PLAIN, SALTED.answered({"unsupported": "cache"})], OPEN),
        ([PLAIN, CacheCall(tokens=(3,)).answered(DIED)], OPEN),
        ([PLAIN, SMALL, StartCall(), WIDE.answered({"refused": "no int64"})], OPEN),
    ],
)
def test_what_a_prompt_has_besides_tokens_breaks_no_request(calls: list[CacheCall], verdict: Verdict) -> None:
    assert asked(*calls).outcome("LIV-007").verdict is verdict


def test_what_is_not_served_is_said() -> None:
    story = asked(PLAIN, SMALL.answered({"refused": "adapter: no LoRA"}))
    assert story.outcome("LIV-007").notes == ["refused: prompts with LoRA (adapter: no LoRA)"]


# heartbeats


def idle(outcome: Literal["seen", "bound", "busy"], heartbeat: float | None = 0.5) -> Story:
    story = Story(statement=Statement(bounds=Bounds(heartbeat_s=heartbeat)), can=()).begin()
    thrice(lambda: story.note(IdleDone(outcome=outcome, after_s=2.0, bound_s=2.0)))
    return story


@pytest.mark.parametrize(("outcome", "verdict"), [("seen", PASS), ("bound", WARN), ("busy", OPEN)])
def test_an_idle_stream(outcome: Literal["seen", "bound", "busy"], verdict: Verdict) -> None:
    assert idle(outcome).outcome("LIV-002").verdict is verdict


def test_a_stream_that_others_disturb_was_not_idle() -> None:
    assert idle("busy").outcome("LIV-002").reason == "the stream was not idle for the declared interval"


def test_a_beat_that_comes_in_a_later_attempt_was_late() -> None:
    story = Story(statement=Statement(bounds=Bounds(heartbeat_s=0.5)), can=()).begin()
    story.note(IdleDone(outcome="bound", after_s=2.0, bound_s=2.0))
    story.note(IdleDone(outcome="seen", after_s=0.5, bound_s=2.0))
    outcome = story.outcome("LIV-002")
    assert (outcome.verdict, outcome.witnesses) == (PASS, 1)
    assert outcome.notes[0].startswith("late on a busy machine: an empty batch after 0.5 s without one")


@pytest.mark.parametrize("outcome", ["seen", "bound"])
def test_a_wait_without_a_declared_interval_decides_nothing(outcome: Literal["seen", "bound"]) -> None:
    judged = idle(outcome, None).outcome("LIV-002")
    assert (judged.verdict, judged.reason) == (OPEN, "no interval is declared")


def test_no_interval_is_no_claim() -> None:
    assert Story().begin().outcome("LIV-002").reason == "not claimed"
