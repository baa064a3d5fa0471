"""One pass: however it is cut, and whichever way its batches go, a stream gets the verdicts of the whole trace."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.judges.test_honest_but_ugly import ROWS, Tell
from tests.kit.honest_world import lived
from tests.kit.stories import Story, everything, payload, stored
from tests.kit.whole import passing, told, whole

from kvwire.conclusion.conclude import Listening, conclude
from kvwire.conclusion.judging import records_of
from kvwire.conclusion.passing import Passing
from kvwire.conclusion.watching import Watcher
from kvwire.history.follower import Follower, Horizon
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry, resources
from kvwire.standard.registry import ControlLevel
from kvwire.trace import files, levels
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.records import StreamInfo, Trace

UNDRIVEN: tuple[ControlLevel, ...] = ("passive", "replayable")


def judged(one: Passing, trace: Trace, *, reads: random.Random | None = None) -> Passing:
    for index, record in records_of(trace, one.stream.name):
        one.take(index, record)
        if reads is not None and reads.random() < 0.1:
            one.outcomes()  # whoever reads the tallies changes none
    one.judged()
    return one


def same(trace: Trace, stream: StreamInfo, seed: int = 0) -> None:
    """Assert that every way to go through a trace comes to the same."""
    expected = whole(trace, stream)
    for quick, reads in ((True, None), (False, None), (True, random.Random(seed))):
        one = judged(passing(trace, stream, everything(), quick=quick), trace, reads=reads)
        shown = {requirement for requirement in one.showing.tallies if _shows(requirement)}
        assert {k: v for k, v in told(one.showing.tallies).items() if k in shown} == {
            k: v for k, v in told(expected.tallies).items() if k in shown
        }
        assert one.showing.appearance.events == expected.appearance.events
        assert one.showing.appearance.form == expected.appearance.form
        assert one.showing.appearance.ranks == expected.appearance.ranks


def _shows(requirement: str) -> bool:
    """Whether a run without drive can show it; of the others nothing is said there."""
    return set(registry.load()[requirement].needs) <= {*UNDRIVEN}


def lines(trace: Trace) -> list[bytes]:
    result = conclude(trace, registry.load(), registry.profile(trace.header.profile))
    return [msgspec.json.encode(line) for line in result.lines()]


@pytest.mark.parametrize("tell", [tell for tell, _ in ROWS], ids=lambda tell: tell.__name__)
def test_an_ugly_story_is_judged_alike_in_one_pass(tell: Tell) -> None:
    story = tell()
    for level in UNDRIVEN:
        low = levels.lowered(story.trace(), level)
        same(low, low.header.streams[0])


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_a_world_at_random_is_judged_alike_in_one_pass(seed: int) -> None:
    trace = levels.lowered(lived(seed, 200, loss=0.1 * (seed % 2)).story.trace(), "replayable")
    same(trace, trace.header.streams[0], seed)


@pytest.mark.parametrize("seed", range(2000, 2008))
@pytest.mark.parametrize(
    "horizon", [Horizon(batches=8), Horizon(batches=40), Horizon(bytes=2000)], ids=["8", "40", "2 kB"]
)
def test_no_judge_speaks_of_what_is_beyond_the_horizon(seed: int, horizon: Horizon) -> None:
    trace = levels.lowered(lived(seed, 200, loss=0.1 * (seed % 2)).story.trace(), "replayable")
    one = passing(trace, trace.header.streams[0], everything(), horizon=horizon)
    for index, record in records_of(trace, one.stream.name):
        one.take(index, record)
    outcomes = one.judged().outcomes
    assert [outcome for outcome in outcomes if outcome.verdict in (Verdict.FAIL, Verdict.WARN)] == []


@pytest.mark.parametrize("lag", [4, 30, 100, 400])
def test_a_witness_far_behind_costs_no_more_and_is_waited_for_no_longer(
    lag: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[str] = []
    lay_out = Follower._lay_out

    def counted(self: Follower, *, force: bool, end: bool = False) -> bool:
        laid_out.append("at the end" if end else "meanwhile")
        return lay_out(self, force=force, end=end)

    monkeypatch.setattr(Follower, "_lay_out", counted)
    story = Story(replay=False, can=()).begin()
    sent = dict(story.make() for _ in range(1, 1000))
    for place in range(1, 1000 + lag):
        for number, by in ((place, "a"), (place - lag, "b")):
            if number in sent:
                story.live(number, sent[number], by=by)
    trace = story.trace()
    one = passing(trace, story.info, everything(), horizon=Horizon(batches=32))
    for index, record in records_of(trace, story.info.name):
        one.take(index, record)
    found = one.judged()
    assert "meanwhile" not in laid_out
    assert one.follower.lived[0].batches == 1 + len(sent)
    assert not found.losses
    assert not found.gaps
    assert not [outcome for outcome in found.outcomes if outcome.violations]
    assert any("far behind" in note for note in found.notes) == (lag > 64)


def test_what_is_beyond_the_horizon_is_a_note() -> None:
    story = Story(replay=False, can=()).begin()
    for _ in range(60):
        story.send()
    story.live(3, story.retained[3], by="a")
    trace = story.trace()
    one = passing(trace, story.info, everything(), horizon=Horizon(batches=8))
    for index, record in records_of(trace, story.info.name):
        one.take(index, record)
    found = one.judged()
    assert any("beyond what is kept" in note for note in found.notes)
    assert "KVW-SEQ-003" not in {o.requirement for o in found.outcomes if o.violations}


def test_two_senders_are_told_apart_in_one_pass() -> None:
    story = Story(can=())
    for number in range(5):
        story.send(stored([number]))
        story.live(number, payload(stored([100 + number]), ts=story.clock, rank=3))
    trace = levels.lowered(story.trace(), "passive")
    same(trace, trace.header.streams[0])


def test_an_answer_that_did_not_come_while_the_machine_stood_still_shows_nothing_in_one_pass() -> None:
    story = Story(can=()).told(4)
    story.replay()
    for _ in range(ATTEMPTS):
        story.done(story.ask(1), "timeout", 2.0)
        story.stands_still()
    trace = levels.lowered(story.trace(), "replayable")
    one = judged(passing(trace, story.info, everything()), trace)
    assert one.showing.tallies["KVW-REP-003"].violations == 0
    same(trace, trace.header.streams[0])


def test_a_finding_of_a_stream_that_passed_says_what_stands_there() -> None:
    story = Story(replay=False, can=()).begin()
    for _ in range(2):
        story.send(stored("a"))
    result = conclude(story.trace(), registry.load(), everything())
    (finding,) = next(outcome.findings for outcome in result.outcomes if outcome.requirement == "KVW-RES-001")
    assert (finding.where.event or "").startswith("BlockStored")


def _undriven_sessions() -> dict[str, Trace]:
    folder = resources.folder("vectors") / "session"
    traces = {path.name: files.read(path) for path in sorted(folder.glob("*.kvtrace*"))}
    return {name: trace for name, trace in traces.items() if not trace.header.can}


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_recording_that_is_watched_in_chunks_has_the_result_of_its_trace(chunk: int) -> None:
    for name, trace in list(_undriven_sessions().items())[::6]:
        watcher, known = Watcher(trace.header, digests=True), 0
        for index, record in enumerate(trace.records):
            watcher.take(record)
            if index % chunk == 0:
                known += len(watcher.findings_since(known))
                watcher.tallies()
                assert watcher.facts.keys() == {stream.name for stream in trace.header.streams}
        result = watcher.result(interrupted=trace.interrupted)
        assert [msgspec.json.encode(line) for line in result.lines()] == lines(trace), name
        shown = sum(len(outcome.findings) for outcome in result.outcomes)
        assert known <= shown + len(watcher.findings_since(known)) + known


def test_judges_keep_no_record_of_a_stream() -> None:
    """What is kept of a long stream is bounded by the horizon."""
    story = Story(replay=False, can=()).begin(by="ab")
    for _ in range(400):
        story.send()
    trace = story.trace()
    run = Listening(trace.header, registry.load(), registry.profile("core"), horizon=Horizon(batches=32))
    for record in trace.records:
        run.take(record)
    (one,) = run.streams.values()
    assert len(one.facts.recent) <= 64
    assert one.follower.kept <= 64
    assert one.showing.appearance.batches + one.quick.step.batches >= 400 - 2
    assert not run.hearing.details
