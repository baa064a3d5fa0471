"""One publisher beside which somebody watches: records in, lines and figures out."""

from __future__ import annotations

import time

import msgspec
import pytest
from prometheus_client.core import CollectorRegistry
from tests.kit.stories import Story, cleared, stored

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.summary import Wanted
from kvwire.standard import registry
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import Stalled, Trouble
from kvwire.trace.records import Trace
from kvwire.watch.beside import FAILED_HANDSHAKES, Beside, Violations
from kvwire.watch.lines import Line, Lines
from kvwire.watch.metrics import View, WatchCollector
from kvwire.watch.together import Together


class Watched:
    """A watch that is told a story, in parts."""

    def __init__(self, *, replays: bool = False, silent_s: float | None = None) -> None:
        self.said: list[Line] = []
        self.lines = Lines(self.said.append, time.monotonic())
        self.beside = Beside("t", self.lines, "core", Wanted(), replays=replays, silent_s=silent_s)
        self.together = Together(self.lines, [self.beside])
        self._story: Story | None = None
        self._took = 0

    def take(self, story: Story) -> Watched:
        if self._story is None:
            self._story = story
            self.beside.begin(story.trace().header)
        for record in story.records[self._took :]:
            self.beside.add(msgspec.structs.replace(record, t_ns=time.monotonic_ns()))
        self._took = len(story.records)
        return self

    def whats(self) -> list[str]:
        return self.look(time.monotonic())

    def look(self, now: float) -> list[str]:
        states, _ = self.beside.look(now)
        self.together.look(now, states)
        self.lines.push()
        return [line.what for line in self.said]


def passive() -> Story:
    story = Story(can=(), replay=False, declared_topic=None)
    story.connect()
    return story


def wrong(story: Story) -> Story:
    """A topic that is not that of the others."""
    number, content = story.make(stored([f"wrong-{story.next}"]))
    story.frames(b"other", number.to_bytes(8, "big"), content)
    return story


def test_a_finding_is_told_once() -> None:
    watched = Watched().take(wrong(passive().told(3)))
    first = watched.whats()
    assert first.count("finding") == 1
    line = next(line for line in watched.said if line.what == "finding")
    assert line.requirement.startswith("KVW-ENV")
    assert (line.target, line.stream, line.seen) == ("t", "s", "the topic b'other'")
    assert watched.whats() == first


def test_of_findings_of_one_sentence_three_are_told_however_many_there_are() -> None:
    story = passive().told(3)
    for _ in range(50):
        wrong(story)
    watched = Watched().take(story)
    assert watched.whats().count("finding") == 3
    _, broken = watched.beside.look(time.monotonic())
    assert [outcome.violations for outcome in broken.values()] == [50]


def test_a_stream_without_faults_says_only_that_it_is_connected() -> None:
    assert Watched().take(passive().told(50)).whats() == ["connected"]


def test_a_restart_is_told_and_no_fault() -> None:
    story = passive().told(80)
    watched = Watched().take(story)
    story.restart()
    story.told(80)
    assert watched.take(story).whats() == ["connected", "connection-lost", "connected", "new-life"]
    (state,), broken = watched.beside.look(time.monotonic())
    assert (state.facts.incarnations, state.connected, dict(broken)) == (2, True, {})


def test_a_witness_that_loses_its_connection_alone_is_no_news() -> None:
    story = passive().told(10)
    story.disconnect("a")
    assert Watched().take(story).whats() == ["connected"]


def test_a_gap_is_told_with_how_much_is_missing() -> None:
    story = passive().told(5)
    story.drop(3)
    for at in range(600):
        story.send(stored([f"after-{at}"]))
    watched = Watched().take(story)
    assert watched.whats() == ["connected", "gap"]
    assert watched.said[-1].text == "1 gaps so far, 3 numbers that nobody delivered"


def test_a_silent_stream_is_told_and_is_told_to_be_back() -> None:
    story = passive().told(5)
    watched = Watched(silent_s=0.05).take(story)
    (state,), _ = watched.beside.look(time.monotonic())
    assert not state.unwell
    later = time.monotonic() + 1.0
    (state,), _ = watched.beside.look(later)
    assert state.unwell.startswith("connected, and nothing came for 1 s")
    watched.look(later)
    story.send(cleared())
    assert watched.take(story).whats() == ["connected", "silent", "heard-again"]


def test_trouble_of_ours_is_told() -> None:
    story = passive().told(5)
    story.note(Trouble(text="too slow", of="live-a"))
    assert Watched().take(story).whats() == ["connected", "trouble"]


def test_failed_handshakes_without_end_are_not_kept() -> None:
    story = passive().told(5)
    for _ in range(1000):
        story.note(SocketEvent(event="HANDSHAKE_FAILED_NO_DETAIL", of="live-a"))
    watched = Watched().take(story)
    watcher = watched.beside._watcher
    assert watcher is not None
    told = [r for _, r in watcher._run.hearing.details if r.event == "HANDSHAKE_FAILED_NO_DETAIL"]
    assert len(told) == FAILED_HANDSHAKES


def test_a_publisher_that_begins_anew_again_and_again_leaves_little_behind() -> None:
    story = passive().told(80)
    for _ in range(20):
        story.restart()
        story.told(80)
    watched = Watched().take(story)
    watcher = watched.beside._watcher
    assert watcher is not None
    stream = watcher._run.streams["s"]
    assert len(stream.follower.lived) == 21
    assert len(stream.follower.copied) <= 160
    assert len(stream._records) == 2 + 20 * 4


def test_pauses_of_a_busy_machine_are_not_kept() -> None:
    story = passive().told(5)
    for _ in range(100):
        story.note(Stalled(of="live-a", ms=50.0))
    watched = Watched().take(story)
    watcher = watched.beside._watcher
    assert watcher is not None
    assert not [r for _, r in watcher._run.hearing.details if r.event == "stalled"]
    assert watched.whats() == ["connected"]


def test_the_result_of_a_watch_is_that_of_its_recording() -> None:
    story = wrong(passive().told(100))
    story.restart()
    wrong(story.told(100))
    watched = Watched()
    watched.beside.begin(story.trace().header)
    for record in story.records:
        watched.beside.add(record)
    result = watched.beside.result()
    trace = Trace(header=story.trace().header, records=tuple(story.records))
    wanted = conclude(trace, registry.load(), registry.profile("core"))
    assert result is not None
    assert result.run.recording_sha256 == ""
    run = msgspec.structs.replace(wanted.run, recording_sha256="")
    assert result == msgspec.structs.replace(wanted, run=run)


def test_a_hole_is_asked_for_only_where_that_is_wanted() -> None:
    story = passive().told(5)
    story.drop(1)
    story.told(5)
    for replays, due in ((False, []), (True, [("s", 5)])):
        watched = Watched(replays=replays).take(story)
        time.sleep(0.35)
        assert watched.beside.due() == due
        assert watched.beside.due() == []


@pytest.fixture
def scraped() -> CollectorRegistry:
    """A stream with a fault, a restart and blocks, as Prometheus sees it."""
    story = wrong(passive().told(80))
    story.restart()
    story.told(80)
    watched = Watched().take(story)
    states, broken = watched.beside.look(time.monotonic())
    violations = [
        Violations(target="t", stream=o.stream, requirement=o.requirement, level="MUST", count=o.violations)
        for o in broken.values()
    ]
    view = View(at=time.monotonic(), streams=states, violations=violations)
    registry_ = CollectorRegistry()
    registry_.register(WatchCollector(lambda: view))
    return registry_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kvwire_batches_total", 161),
        ("kvwire_incarnations_total", 2),
        ("kvwire_resident_blocks", 79),
        ("kvwire_gaps_total", 0),
        ("kvwire_missing_numbers_total", 0),
        ("kvwire_connection_up", 1),
        ("kvwire_stream_well", 1),
        ("kvwire_waiting_messages", 0),
        ("kvwire_replay_requests_total", 0),
    ],
)
def test_figures_are_as_the_stream_is(scraped: CollectorRegistry, name: str, value: float) -> None:
    assert scraped.get_sample_value(name, {"target": "t", "stream": "s"}) == value


def test_figures_by_sentence_type_and_form(scraped: CollectorRegistry) -> None:
    place = {"target": "t", "stream": "s"}
    assert scraped.get_sample_value("kvwire_events_total", {**place, "type": "BlockStored"}) == 159
    assert scraped.get_sample_value("kvwire_stream_info", {**place, "form": "map", "function": ""}) == 1
    broken = [sample for metric in scraped.collect() if metric.name == "kvwire_violations" for sample in metric.samples]
    assert [(sample.value, sample.labels["level"]) for sample in broken] == [(1, "MUST")]
    age = scraped.get_sample_value("kvwire_last_message_age_seconds", place)
    assert age is not None
    assert 0 <= age < 60
