"""Whatever stands still for three seconds, no sentence that a time decides makes a FAIL of it; its mutant is heard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tests.judges.test_rank import announced, deployment, tokens, work
from tests.kit.instances import EVENTS, Instance
from tests.kit.stories import Story, cleared, stored

from kvwire.judges.verdict import Verdict
from kvwire.standard.statement import Bounds, Statement
from kvwire.trace.attempts import ATTEMPTS, NS, PAUSE_S, Stalls, Wait, sure
from kvwire.trace.calls import BurstCall, ResetCall, ResidentCall, StatsCall, StopCall
from kvwire.trace.marks import (
    BurstBegins,
    FaultDone,
    Freed,
    IdleDone,
    LiveAwaited,
    RankWait,
    ReplayBehind,
    ReplayResumed,
    ResetDone,
    Settled,
    Stalled,
    StrainBegins,
    StrainDone,
    TailDone,
)
from kvwire.trace.records import Record
from kvwire.wire.projection import batch_projection

BROKEN = (Verdict.FAIL, Verdict.WARN)
FUTURE = 2**32


class Told(NamedTuple):
    """How a story of one sentence begins, one attempt to see what does not come, and how it ends.

    ``instance``: whose stream the process that is stopped serves, where that is no stream of the run.
    """

    begins: Callable[[], Story]
    misses: Callable[[Story], object]
    ends: Callable[[Story], object] = lambda _: None
    instance: str = ""


def live(during: str) -> Callable[[Story], object]:
    def misses(story: Story) -> object:
        awaited = LiveAwaited(during=during, outcome="bound", after_s=1.5, bound_s=1.0, offered=6)  # type: ignore[arg-type]
        return story.note(awaited)

    return misses


def answered(story: Story | None = None) -> Story:
    """Replay is served."""
    story = (story or Story()).told(4)
    story.replay()
    story.replay(FUTURE)
    return story


def in_peace() -> Story:
    story = Story().told(4)
    story.note(LiveAwaited(during="nothing", outcome="seen", after_s=0.1, bound_s=1.0, offered=1))
    return story


def unanswered(start: int = 0, situation: str = "") -> Callable[[Story], object]:
    return lambda story: story.done(story.ask(start, situation=situation), "timeout", 2.0)


def cut(story: Story) -> None:
    """The answer to a client that pauses breaks off."""
    client = story.ask(0, situation="paused", rcvhwm=1)
    story.note(ReplayResumed(connection=client, rcvhwm=1, paused_s=1.5, requests=1, retained=2000))
    story.answer_batches(client, {0: story.retained[0]})
    story.done(client, "timeout", 2.0)


def behind(story: Story) -> None:
    client = story.ask(None, "frames-three")
    story.note(ReplayBehind(client=client, start=str(FUTURE)))
    story.done(client, "timeout", 2.0)


def strained(story: Story) -> None:
    story.note(StrainBegins(situation="full queue"))
    batches = (batch_projection(story.tick(), [stored("a")], 0),)
    story.note(BurstCall(batches=batches, accepted=(True,), blocked_us=(3_000_000,)))
    story.note(StrainDone(situation="full queue"))


def reset(story: Story) -> None:
    story.send(stored("ab"))
    story.note(ResetCall())
    story.note(ResetDone(outcome="bound", after_s=5.0, bound_s=5.0))
    story.send(cleared())


def stopped(story: Story) -> None:
    """A stop loses two batches of three."""
    one = Instance(story, f"instance-{len(story.records)}")
    one.accepts()
    one.sends(0)
    one.note(StatsCall(offered=1, sent=1, dropped=0))
    one.note(BurstBegins())
    for name in "abc":
        one.takes(stored(name))
    one.note(StopCall())
    one.sends(1, stored("a"))
    one.note(StatsCall(offered=4, sent=4, dropped=0))


def started() -> Story:
    return Instance(Story(sets=())).accepts(EVENTS, replay="none").story


def accepted_in_silence() -> Story:
    story = Story(sets=("engine", "ts"), statement=Statement(queue=9, ring=1000), replay=False)
    story.connect()
    story.offer(stored("a"))
    return story


def ranks() -> Story:
    story, members = deployment()
    work(members[:2])
    members[2].cache(*tokens(2, 0))
    assert announced(2, 0)
    return story


def rank_alone() -> Story:
    story = Story().begin()
    story.note(RankWait(instance="instance-1", rank=0, peers="none", outcome="heard", after_s=0.1, bound_s=2.0))
    return story


def one_rank(peers: str, outcome: str) -> Callable[[Story], object]:
    def misses(story: Story) -> object:
        wait = RankWait(
            instance="instance-1",
            rank=0,
            peers=peers,  # type: ignore[arg-type]
            outcome=outcome,  # type: ignore[arg-type]
            after_s=0.1 if outcome == "heard" else 2.0,
            bound_s=2.0,
        )
        return story.note(wait)

    return misses


def idle_but_wrong(story: Story) -> None:
    """The engine does not hold what stands announced, and is said to be idle."""
    story.note(StatsCall(offered=story.next, sent=story.next, dropped=0))
    story.note(Settled(drained=True, idle=True, idle_s=5.0))


def of_instance(endpoint: str = EVENTS) -> Callable[[Story], object]:
    return lambda story: Instance(story).reached(endpoint, outcome="none", attempts=1)


HEARTBEAT = Statement(bounds=Bounds(heartbeat_s=1.0))
TIMED: dict[str, Told] = {
    "LIV-001": Told(lambda: Story().begin(), strained),
    "LIV-002": Told(
        lambda: Story(statement=HEARTBEAT).begin(),
        lambda story: story.note(IdleDone(outcome="bound", after_s=3.0, bound_s=3.0)),
    ),
    "LIV-003": Told(lambda: Story(sets=()), stopped),
    "LIV-005": Told(Story, lambda story: story.note(Freed(endpoint=EVENTS, outcome="held", after_s=2.0, bound_s=2.0))),
    "LIV-006": Told(
        lambda: Story().begin(),
        lambda story: story.note(FaultDone(kind="encode", outcome="bound", after_s=5.0, bound_s=5.0)),
    ),
    "SEQ-009": Told(accepted_in_silence, lambda story: story.note(TailDone(outcome="bound", after_s=5.0, bound_s=5.0))),
    "END-001": Told(started, of_instance(), instance="instance-1"),
    "REP-003": Told(answered, unanswered(1)),
    "REP-004": Told(answered, unanswered(FUTURE)),
    "REP-007": Told(answered, behind),
    "REP-010": Told(lambda: answered(Story()), cut, lambda story: story.replay()),
    "REP-011": Told(in_peace, live("replay")),
    "REP-012": Told(answered, unanswered(0, "beside")),
    "REP-018": Told(answered, live("vanished")),
    "RES-006": Told(lambda: Story().begin(), reset),
    "RNK-004": Told(
        ranks,
        lambda story: Instance(story, "instance-2").note(TailDone(outcome="bound", after_s=1.0, bound_s=1.0)),
        instance="instance-2",
    ),
    "RNK-005": Told(rank_alone, one_rank("idle", "bound"), one_rank("busy", "heard"), instance="instance-1"),
}
"""Each sentence that a time decides, but for REP-020, which ``test_pressure`` tells, and for the idle engine below."""


@pytest.mark.parametrize("name", TIMED)
def test_a_mutant_is_heard_in_several_attempts_and_not_in_fewer(name: str) -> None:
    told = TIMED[name]
    story = told.begins()
    for attempt in range(ATTEMPTS):
        assert told_of(story, told, name) not in BROKEN, f"after {attempt} attempts"
        told.misses(story)
        if name == "RNK-004" and attempt == ATTEMPTS - 1:
            break
    assert told_of(story, told, name) in BROKEN


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("of", ["harness", "live-a", "publisher"])
def test_what_stood_still_for_three_seconds_makes_no_finding(name: str, of: str) -> None:
    """In each attempt, however many there are."""
    told = TIMED[name]
    story = told.begins()
    for _ in range(2 * ATTEMPTS):
        before = story.now_ns
        told.misses(story)
        with between(story, before):
            story.stands_still(of, PAUSE_S, (told.instance or story.info.name) if of == "publisher" else "")
    assert told_of(story, told, name) not in BROKEN


def told_of(story: Story, told: Told, name: str) -> Verdict:
    """The verdict as the story would end now."""
    records = list(story.records)
    told.ends(story)
    verdict = story.outcome(name).verdict
    story.records[:] = records
    return verdict


@contextmanager
def between(story: Story, since_ns: int) -> Iterator[None]:
    """What is written inside happened in the middle of what came since."""
    now = story.now_ns
    story.now_ns = (since_ns + now) // 2 + 1_000_000
    yield
    story.now_ns = now


@pytest.mark.parametrize(("stood_s", "verdict"), [(0.0, Verdict.FAIL), (PAUSE_S, Verdict.INCONCLUSIVE)])
def test_who_was_held_up_was_not_idle_for_long_enough(stood_s: float, verdict: Verdict) -> None:
    story = Story().begin()
    story.send(stored("ab"))
    idle_but_wrong(story)
    if stood_s:
        story.stands_still("publisher", stood_s, story.info.name)
    story.note(ResidentCall(hashes=()))
    story.send()
    assert story.outcome("RES-003").verdict is verdict


# --- what came late, and what stays open


def faults(*outcomes: str, kind: str = "encode", story: Story | None = None) -> Story:
    """Attempts to hear of a publisher after a batch that it could not take."""
    story = story or Story().begin()
    for outcome in outcomes:
        after_s = 5.0 if outcome == "bound" else 0.1
        story.note(FaultDone(kind=kind, outcome=outcome, after_s=after_s, bound_s=5.0))  # type: ignore[arg-type]
    return story


def test_what_came_in_a_later_attempt_was_late() -> None:
    late = faults("bound", "bound", "seen").outcome("LIV-006")
    assert (late.verdict, late.witnesses) == (Verdict.PASS, 1)
    (note,) = late.notes
    assert note.startswith("late on a busy machine: a batch that is offered after one")
    assert note.endswith("; seen nothing came")
    assert not faults("seen").outcome("LIV-006").notes


def test_what_failed_to_come_for_sure_is_not_late_any_more() -> None:
    outcome = faults(*["bound"] * ATTEMPTS, "seen").outcome("LIV-006")
    assert (outcome.verdict, outcome.violations, outcome.notes) == (Verdict.FAIL, 1, [])


def test_what_is_late_excuses_nothing_else() -> None:
    story = faults("bound", "seen", story=faults("bound", kind="send"))
    assert story.outcome("LIV-006").verdict is Verdict.INCONCLUSIVE
    other = faults(*["bound"] * ATTEMPTS, story=faults(*["bound"] * ATTEMPTS, kind="send"))
    assert other.outcome("LIV-006").violations == 2, "each is one occasion, however often it was tried"


@pytest.mark.parametrize(
    ("stood_s", "why"),
    [
        (0.0, "too few attempts could be made to be sure"),
        (PAUSE_S, "something that takes part in the run was held up meanwhile"),
    ],
)
def test_what_stays_open_says_why(stood_s: float, why: str) -> None:
    story = faults("bound")
    if stood_s:
        story.stands_still(seconds=stood_s)
    assert story.outcome("LIV-006").reason.endswith(f"within 5 s), and {why}")


def test_a_finding_is_of_an_attempt_in_which_nothing_stood_still() -> None:
    story = faults("bound")
    story.stands_still(seconds=PAUSE_S)
    (finding,) = faults(*["bound"] * ATTEMPTS, story=story).outcome("LIV-006").findings
    assert finding.where.record == len(story.records) - ATTEMPTS


# --- the guard itself


def wait(began_s: float, ended_s: float, held_s: float = 0.0) -> Wait:
    return Wait(round(began_s * NS), round(ended_s * NS), round(held_s * NS))


@pytest.mark.parametrize(
    ("waits", "certain"),
    [
        ([wait(0, 2), wait(2, 3), wait(3, 4)], True),
        ([wait(0, 2), wait(2, 4)], False),
        ([wait(0, 4), wait(1, 5), wait(2, 6)], False),  # at the same time: one
        ([wait(0, 0.9), wait(1, 1.9), wait(2, 2.9)], False),  # one pause explains them all
        ([wait(0, 2), wait(2, 4, 1.5), wait(4, 6)], False),
        ([wait(0, 2), wait(2, 4, 0.5), wait(4, 6)], True),
    ],
)
def test_what_is_certain(waits: list[Wait], certain: bool) -> None:
    assert sure(waits) is certain


def test_what_several_parts_were_held_up_for_at_once_counts_once() -> None:
    def stalled(ended_s: float, ms: float) -> tuple[int, Record]:
        detail = Stalled(of="harness", ms=ms)
        return 0, Record(t_ns=round(ended_s * NS), source=detail.SOURCE, detail=detail)

    stalls = Stalls([stalled(3.0, 1000), stalled(3.1, 1000), stalled(9.0, 500)])
    assert stalls.held_ns(2 * NS, 4 * NS) == 1_100_000_000
    assert stalls.held_ns(4 * NS, 5 * NS) == 0
    assert stalls.beside(Stalls([stalled(4.5, 100)])).held_ns(4 * NS, 5 * NS) == 100_000_000
