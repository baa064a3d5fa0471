"""REP under pressure: clients that are many, that pause or vanish, and what they cost the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pytest
from tests.kit.stories import END_MARKER, Story, thrice

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Bounds, Statement
from kvwire.trace.marks import During, LiveAwaited, ReplayLoad, ReplayResumed

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE
MIB = 2**20


def speaks(story: Story) -> set[str]:
    """What of REP is broken."""
    return {name for name in story.spoken() if name.startswith("REP")}


def opened(story: Story) -> set[str]:
    """What of REP is left open although something was seen."""
    outcomes = story.outcomes().items()
    unseen = "nothing was seen that could have broken it"
    return {n for n, o in outcomes if n.startswith("REP") and o.verdict is OPEN and o.reason != unseen}


def live(story: Story, during: During, outcome: Literal["seen", "bound"] = "seen") -> None:
    """A live batch was awaited."""
    story.send()
    after_s = 0.1 if outcome == "seen" else 1.5
    story.note(LiveAwaited(during=during, outcome=outcome, after_s=after_s, bound_s=1.0, offered=1))


class Paused:
    """A connection that does not read: requests from 0, 1 …, then what came for each."""

    def __init__(self, story: Story, requests: int = 1, *, situation: str = "paused") -> None:
        self.story = story
        self.clients: list[str] = []
        for start in range(requests):
            connection = self.clients[0] if self.clients else ""
            self.clients.append(story.ask(start, situation=situation, rcvhwm=1, connection=connection))

    def resume(self, *, retained: int = 2000, paused_s: float = 1.5) -> Paused:
        """It reads again; ``retained`` is how many batches each answer had when it was asked for."""
        first, requests = self.clients[0], len(self.clients)
        resumed = ReplayResumed(connection=first, rcvhwm=1, paused_s=paused_s, requests=requests, retained=retained)
        self.story.note(resumed)
        return self

    def gets(self, at: int, numbers: Iterable[int], *, outcome: str = "marker") -> None:
        """These batches came for one of its requests, whether still retained or not, and the end marker or none."""
        sent = {number: self.story.sent[number] for number in numbers}  # type: ignore[attr-defined]
        self.story.answer_batches(self.clients[at], sent)
        if outcome == "marker":
            self.story.answer(self.clients[at], *END_MARKER)
        self.story.done(self.clients[at], outcome)


class Sent(Story):
    """A story that remembers everything that it sent."""

    sent: dict[int, bytes]

    def live(self, number: int, content: bytes, by: str = "ab") -> None:
        """Remember it too."""
        self.__dict__.setdefault("sent", {})[number] = content
        super().live(number, content, by)


# --- clients that pause -------------------------------------------------------------------------------------------


def test_an_answer_that_is_complete_after_a_pause() -> None:
    story = Sent()
    story.told(10)
    paused = Paused(story).resume()
    paused.gets(0, range(10))
    story.replay()
    assert story.verdict("REP-010") == (PASS, 1)
    assert story.verdict("REP-009") == (PASS, 1)
    assert story.verdict("REP-008")[0] is PASS
    assert speaks(story) == opened(story) == set()


def test_an_answer_that_breaks_off_after_a_pause_is_a_warning() -> None:
    story = Sent()
    story.told(10)
    thrice(lambda: Paused(story).resume().gets(0, range(4), outcome="timeout"))
    story.replay()
    assert story.verdict("REP-010") == (WARN, 3)
    finding = story.outcome("REP-010").findings[0]
    assert finding.expected == "10 batches and the end marker after a pause within 10 s"
    assert finding.seen == "4 batches and no end marker (receive high-water mark 1)"
    assert speaks(story) == {"REP-010"}
    assert story.verdict("REP-009") == (OPEN, 0)  # neither given up nor ended: nothing tells


def test_an_answer_that_never_came_after_a_pause_is_a_warning_too() -> None:
    story = Sent()
    story.told(10)
    paused = Paused(story, 2).resume()
    paused.gets(0, range(10))
    paused.gets(1, [], outcome="overtaken")
    story.replay()
    assert speaks(story) == {"REP-010"}
    assert story.verdict("REP-009") == (PASS, 2)  # given up, and no end marker


def test_what_fits_into_pipes_shows_nothing() -> None:
    story = Sent()
    story.told(10)
    paused = Paused(story).resume(retained=10)
    paused.gets(0, range(10))
    story.replay()
    assert story.outcome("REP-010").verdict is OPEN
    assert opened(story) == {"REP-008"}
    assert story.outcome("REP-008").reason.startswith("10 batches at once are fewer than the pipes")


def test_a_longer_pause_than_declared_is_left_open() -> None:
    story = Sent(statement=Statement(ring=1000, bounds=Bounds(replay_resume_s=1.0)))
    story.told(10)
    thrice(lambda: Paused(story).resume().gets(0, range(4), outcome="timeout"))
    story.replay()
    assert speaks(story) == set()
    assert opened(story) == {"REP-010"}
    assert story.outcome("REP-010").reason.endswith("longer than the declared 1 s")


@pytest.mark.parametrize("outcome", ["count", "over"])
def test_an_answer_that_the_harness_did_not_hear_to_its_end_is_left_open(outcome: str) -> None:
    story = Sent()
    story.told(10)
    Paused(story).resume().gets(0, range(4), outcome=outcome)
    story.replay()
    assert speaks(story) == set()
    assert opened(story) == {"REP-010"}


@pytest.mark.parametrize("situation", ["paused", "beyond"])
@pytest.mark.parametrize("outcome", ["timeout", "marker"])
def test_without_a_later_answer_nobody_knows_what_was_retained(situation: str, outcome: str) -> None:
    story = Sent()
    story.told(10)
    Paused(story, situation=situation).resume().gets(0, range(4), outcome=outcome)
    assert speaks(story) == set()
    assert (story.outcome("REP-010").reason.startswith("no later answer tells")) == (situation == "paused")


def test_an_end_marker_in_place_of_the_rest() -> None:
    story = Sent()
    story.told(10)
    Paused(story).resume().gets(0, range(4))
    story.replay()
    assert speaks(story) == {"REP-009"}
    finding = story.outcome("REP-009").findings[0]
    assert finding.expected == "no end marker without the 6 batches from 4 on, which were retained"
    assert finding.seen == "the end marker after 4 batches"


def test_a_batch_that_was_not_retained_yet_is_no_false_end() -> None:
    """The newest alone is missing, and no earlier answer held it."""
    story = Sent()
    story.told(10)
    Paused(story).resume().gets(0, range(9))
    story.replay()
    assert speaks(story) == {"REP-013"}
    assert story.outcome("REP-013").findings[0].expected.startswith("number 9 in the ring")


def test_a_hole_in_the_middle_before_an_end_marker() -> None:
    story = Sent()
    story.told(10)
    Paused(story).resume().gets(0, [0, 1, 2, 6, 7, 8, 9])
    story.replay()
    assert speaks(story) == {"REP-008"}


def test_a_hole_without_an_end_marker_is_an_incomplete_answer() -> None:
    story = Sent()
    story.told(10)
    thrice(lambda: Paused(story).resume().gets(0, [0, 1, 2, 6], outcome="timeout"))
    story.replay()
    assert speaks(story) == {"REP-010"}


# --- eviction -----------------------------------------------------------------------------------------------------


def evicting() -> tuple[Sent, Paused]:
    """A ring of ten; a client pauses at 0 … 9, of which 0 … 5 are evicted meanwhile."""
    story = Sent(ring=10)
    story.told(10)
    paused = Paused(story)
    for _ in range(6):
        story.send()
    return story, paused.resume()


def test_going_on_from_the_oldest_retained() -> None:
    story, paused = evicting()
    paused.gets(0, [0, 1, 6, 7, 8, 9])
    story.replay()
    assert story.verdict("REP-020") == (PASS, 1)
    assert story.verdict("REP-010") == (PASS, 1)
    assert speaks(story) == opened(story) == set()


def test_an_answer_of_which_everything_was_evicted_shows_nothing_of_going_on() -> None:
    story, paused = evicting()
    for _ in range(4):
        story.send()
    paused.gets(0, [0, 1])
    story.replay()
    assert story.outcome("REP-020").verdict is OPEN
    assert speaks(story) == opened(story) == set()


@pytest.mark.parametrize(
    ("numbers", "seen"), [([0, 1, 8, 9], "number 8 next"), ([0, 1], "the end marker next"), ([], "the end marker next")]
)
def test_going_on_from_elsewhere(numbers: list[int], seen: str) -> None:
    story, paused = evicting()
    paused.gets(0, numbers)
    story.replay()
    assert speaks(story) == {"REP-020"}
    finding = story.outcome("REP-020").findings[0]
    assert finding.expected.startswith("number 6, the oldest retained after ")
    assert finding.seen == seen


def test_only_who_paused_is_owed_the_oldest_retained() -> None:
    story = Sent(ring=10)
    story.told(10)
    beyond = Paused(story, situation="beyond")
    for _ in range(6):
        story.send()
    beyond.gets(0, [0, 1, 8, 9])
    story.replay()
    assert speaks(story) == set()
    assert "REP-020" not in story.witnessed()


def test_breaking_off_at_an_eviction() -> None:
    """Only where the publisher otherwise goes on after a pause; else it gave the client up for the pause."""
    story, paused = evicting()
    paused.gets(0, [0, 1], outcome="timeout")
    story.replay()
    assert speaks(story) == set()
    assert opened(story) == {"REP-010"}
    story = Sent(ring=10)
    story.told(8)
    Paused(story).resume().gets(0, range(8))
    story.replay()

    def breaks_off() -> None:
        first = min(story.retained)
        client = story.ask(first, situation="paused", rcvhwm=1)
        for _ in range(6):
            story.send()
        resumed = ReplayResumed(connection=client, rcvhwm=1, paused_s=1.5, requests=1, retained=2000)
        story.note(resumed)
        story.answer_batches(client, {number: story.sent[number] for number in (first, first + 1)})
        story.done(client, "timeout")
        story.replay()

    breaks_off()
    assert speaks(story) == set()
    assert opened(story) == {"REP-020"}
    breaks_off()
    breaks_off()
    assert speaks(story) == {"REP-020"}
    assert story.outcome("REP-020").findings[0].seen == "nothing next"


# --- requests beyond those that may wait --------------------------------------------------------------------------


def test_requests_that_are_dropped_are_dropped_without_an_end_marker() -> None:
    story = Sent()
    story.told(10)
    beyond = Paused(story, 3, situation="beyond")
    beyond.gets(0, range(10))
    beyond.gets(1, [], outcome="overtaken")
    beyond.gets(2, [], outcome="overtaken")
    story.replay()
    assert story.verdict("REP-017") == (PASS, 2)
    assert story.verdict("REP-009") == (PASS, 3)
    assert speaks(story) == opened(story) == set()


@pytest.mark.parametrize("outcome", ["over", None])
def test_a_request_beyond_whose_end_nobody_heard_was_not_dropped_for_sure(outcome: str | None) -> None:
    story = Sent()
    story.told(10)
    beyond = Paused(story, situation="beyond")
    if outcome is not None:
        story.done(beyond.clients[0], outcome)
    story.replay()
    assert story.outcome("REP-017").reason == Reason.NOT_USED
    assert "REP-009" not in story.witnessed()


def test_an_end_marker_for_a_request_that_was_dropped() -> None:
    story = Sent()
    story.told(10)
    beyond = Paused(story, 2, situation="beyond")
    beyond.gets(0, range(10))
    beyond.gets(1, [])
    story.replay()
    assert speaks(story) == {"REP-009"}
    assert story.outcome("REP-017").reason == Reason.NOT_USED


# --- many, and vanished -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("situation", "requirement"), [("together", "REP-012"), ("beside", "REP-012"), ("after", "REP-018")]
)
def test_a_client_that_is_not_served(situation: str, requirement: str) -> None:
    story = Story().told(4)
    story.replay(situation=situation)
    assert story.verdict(requirement) == (PASS, 1)
    story.replay(situation=situation, marker=False)
    assert speaks(story) == {requirement}
    assert story.verdict(requirement) == (FAIL, 2)


@pytest.mark.parametrize(("situation", "requirement"), [("beside", "REP-012"), ("after", "REP-018")])
def test_how_else_an_answer_can_end(situation: str, requirement: str) -> None:
    for outcome, verdict in (("over", OPEN), ("count", OPEN), ("disconnected", FAIL), (None, OPEN)):
        story = Story().told(4)
        client = story.ask(situation=situation)
        if outcome is not None:
            story.done(client, outcome)
        assert story.outcome(requirement).verdict is verdict
        assert (requirement in opened(story)) is (outcome in ("over", "count"))


def test_an_answer_that_came_in_a_later_attempt_was_late() -> None:
    story = Story().told(4)
    for situation in ("together", "after"):
        story.replay(situation=situation, marker=False, attempts=1)
        story.replay(situation=situation)
    live(story, "vanished", "bound")
    live(story, "vanished")
    assert speaks(story) == opened(story) == set()
    assert (len(story.outcome("REP-012").notes), len(story.outcome("REP-018").notes)) == (1, 2)


def test_an_end_that_came_after_the_bound_is_no_end_in_time() -> None:
    story = Story().told(4)

    def late() -> None:
        client = story.ask(situation="beside")
        story.done(client, "timeout")
        story.answer_batches(client, story.retained)
        story.answer(client, *END_MARKER)

    thrice(late)
    assert speaks(story) == {"REP-012"}


def test_nothing_is_asked_of_answers_to_those_who_vanish_or_read_one_message() -> None:
    story = Story().told(4)
    for situation, outcome in (("vanishing", "vanished"), ("req", "first")):
        client = story.ask(situation=situation)
        story.answer_batches(client, {0: story.retained[0]})
        story.done(client, outcome)
    assert speaks(story) == set()


def test_live_batches_after_clients_vanished() -> None:
    story = Story().told(4)
    live(story, "vanished")
    assert story.verdict("REP-018") == (PASS, 1)
    live(story, "vanished", "bound")
    live(story, "vanished", "bound")
    assert opened(story) == {"REP-018"}
    live(story, "vanished", "bound")
    assert speaks(story) == {"REP-018"}


# --- live batches -------------------------------------------------------------------------------------------------


def test_live_batches_while_replay_is_busy() -> None:
    story = Story().told(4)
    live(story, "nothing")
    live(story, "replay")
    assert story.verdict("REP-011") == (PASS, 1)
    live(story, "replay", "bound")
    live(story, "replay", "bound")
    assert opened(story) == {"REP-011"}
    live(story, "replay", "bound")
    assert speaks(story) == {"REP-011"}
    finding = story.outcome("REP-011").findings[0]
    assert finding.expected == "live batches within 1 s while replay clients wait for their answers"
    assert finding.seen == "0 of 1 that were offered"


def test_live_batches_that_are_late_without_replay_too() -> None:
    story = Story().told(4)
    live(story, "nothing", "bound")
    thrice(lambda: live(story, "replay", "bound"))
    assert speaks(story) == set()
    assert story.outcome("REP-011").reason == "live batches were not seen in time without replay either"


def test_live_batches_that_are_late_under_replay_and_come() -> None:
    story = Story().told(4)
    live(story, "replay", "bound")
    live(story, "replay")
    assert story.verdict("REP-011") == (PASS, 1)
    assert len(story.outcome("REP-011").notes) == 1


@pytest.mark.parametrize("between", ["nothing", "replay", "vanished"])
def test_what_is_late_before_and_after_something_came_is_late_twice(between: During) -> None:
    story = Story().told(4)
    thrice(lambda: live(story, "replay", "bound"))
    live(story, between)
    assert story.outcome("REP-011").violations == 1
    thrice(lambda: live(story, "replay", "bound"))
    assert story.outcome("REP-011").violations == 2


# --- memory -------------------------------------------------------------------------------------------------------


def loaded(grown: int, requests: int = 200, ring: int | None = 100, answer: int = MIB) -> Story:
    """So many requests that nobody reads, for whole answers of 100 batches; memory grows by so many bytes."""
    story = Story(statement=Statement(ring=ring)).told(4)
    story.note(ReplayLoad(phase="before", rss=50 * MIB, answer_bytes=answer, batches=100))
    first = story.ask(0, situation="vanishing")
    others = [story.ask(0, situation="vanishing", connection=first) for _ in range(requests - 1)]
    story.note(ReplayLoad(phase="under", rss=50 * MIB + grown, answer_bytes=answer, batches=100))
    for client in (first, *others):
        story.done(client, "vanished")
    return story


def test_memory_that_is_bounded_by_what_may_wait() -> None:
    assert loaded(0).verdict("REP-019") == (PASS, 1)
    assert loaded(27 * MIB).verdict("REP-019") == (PASS, 1)


def test_memory_that_grows_with_the_requests() -> None:
    story = loaded(150 * MIB)
    assert story.verdict("REP-019") == (FAIL, 1)
    finding = story.outcome("REP-019").findings[0]
    assert finding.expected == "at most 43 MiB more for 9 answers of 100 batches each"
    assert finding.seen == "150 MiB more after 200 requests from clients that do not read"


@pytest.mark.parametrize(("requests", "ring"), [(20, 100), (200, 10_000)])
def test_too_little_asked_to_tell(requests: int, ring: int) -> None:
    story = loaded(10 * MIB, requests, ring)
    assert opened(story) == {"REP-019"}


def test_each_load_is_compared_with_what_was_before_it() -> None:
    """What grew under the first load is there before the second, and what is freed between them is no growth."""
    story = loaded(20 * MIB)
    story.note(ReplayLoad(phase="before", rss=300 * MIB, answer_bytes=MIB, batches=100))
    story.note(ReplayLoad(phase="under", rss=300 * MIB, answer_bytes=MIB, batches=100))
    assert story.verdict("REP-019") == (PASS, 1)


def test_an_undeclared_ring_is_taken_as_it_was_found() -> None:
    assert loaded(0, ring=None).verdict("REP-019") == (PASS, 1)
    assert loaded(150 * MIB, ring=None).verdict("REP-019") == (FAIL, 1)
