"""Instances that are attacked beside the one under test: how they are begun, and how what they show counts."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from tests.kit import probing
from tests.kit.probing import marks
from tests.kit.stories import Story, cleared, everything, payload, stored

from kvwire.attack.probes import live, stop
from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.publish_latency import strain
from kvwire.attack.probes.kit.session import Limits, Probe, Session
from kvwire.attack.probes.kit.tagged_batches import TaggedBatches, tail
from kvwire.attack.run import Course, Settings, _probe, default_profile, run
from kvwire.attack.targets import Opened, TraceTarget, parse
from kvwire.attack.targets.process import AdapterProcess
from kvwire.attack.witness import Recorder
from kvwire.conclusion import extra_instances
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.judging import judge_stream
from kvwire.judges.verdict import Finding, Tally, Verdict, Where
from kvwire.standard import registry
from kvwire.standard.protocol import Accepted, Burst, Refused, Start
from kvwire.standard.statement import Bounds, Statement, Stream
from kvwire.trace.calls import BoundAt, BurstCall, StartCall
from kvwire.trace.marks import AttackBegins, StrainDone, Trouble
from kvwire.trace.records import Record, Source, Trace

# how they count


def with_instance(*events: Any, mark: bool = True, **options: Any) -> tuple[Trace, Story]:
    """A story of one clear, and an instance that was started with options and sent these events."""
    story = Story().begin()
    records = list(story.records)

    def add(source: str, **fields: Any) -> None:
        records.append(Record(t_ns=len(records), source=source, stream="instance-1", **fields))

    add(Source.STIMULUS, detail=StartCall(bound=BoundAt(endpoint="ipc://i", topic="kv"), **options))
    if mark:
        add(Source.STIMULUS, detail=AttackBegins(attack="test"))
    for number, event in enumerate((cleared(), *events)):
        add(Source.LIVE_A, frames=(b"kv", number.to_bytes(8, "big"), payload(event, ts=1.7e9 + number)))
    return msgspec.structs.replace(story.trace(), records=tuple(records)), story


def outcome_of(requirement: str, trace: Trace, story: Story) -> Any:
    judged = judge_stream(trace, story.info, registry.load(), everything())
    return next(outcome for outcome in judged.outcomes if outcome.requirement == requirement)


def test_what_an_instance_breaks_is_broken_and_says_where() -> None:
    trace, story = with_instance(stored("a"), stored("a"), queue=4, cap=2)
    outcome = outcome_of("KVW-RES-001", trace, story)
    assert (outcome.verdict, outcome.witnesses, outcome.violations) == (Verdict.FAIL, 2, 1)
    assert outcome.findings[0].seen.endswith("(instance-1, started with queue 4, cap 2)")
    assert trace.records[outcome.findings[0].where.record].stream == "instance-1"


def test_what_an_instance_shows_is_shown() -> None:
    trace, story = with_instance(stored("a"))
    assert outcome_of("KVW-RES-001", trace, story).verdict is Verdict.PASS


def test_an_instance_that_was_not_attacked_is_not_heard() -> None:
    trace, story = with_instance(stored("a"), stored("a"), mark=False)
    assert outcome_of("KVW-RES-001", trace, story).witnesses == 0


def test_what_was_started_otherwise_is_declared_otherwise() -> None:
    trace, _ = with_instance(queue=4, ring=9)
    records = {"instance-1": [(i, r) for i, r in enumerate(trace.records) if r.stream == "instance-1"]}
    (other,) = extra_instances.attacked(trace.header, records)
    assert (other.header.statement.queue, other.header.statement.ring) == (4, 9)
    assert other.stream.name == "instance-1"


def test_what_an_instance_leaves_open_matters_only_where_nothing_was_shown() -> None:
    other = Tally()
    other.open("it is not known")
    shown, nothing = Tally(), Tally()
    shown.saw()
    for tally in (shown, nothing):
        extra_instances.count(tally, other, "instance-1")
    assert (shown.opened, nothing.opened) == (0, 1)
    assert nothing.open_reason == "it is not known (instance-1)"


def test_violations_beyond_the_examples_are_counted() -> None:
    other = Tally()
    for at in range(5):
        other.broke(Finding(expected="x", seen=str(at), where=Where(record=at)))
    other.saw(2)
    tally = Tally()
    extra_instances.count(tally, other, "there")
    assert (tally.witnesses, tally.violations, len(tally.findings)) == (7, 5, 3)


# how they are begun

QUICK = Limits(handshake_s=2.0, prime_s=2.0, settle_s=1.0, quiet_s=0.1, replay_s=0.5)


def session(recorder: Recorder, text: str) -> AbstractContextManager[Session]:
    return probing.session(recorder, text, QUICK)


@pytest.mark.network
def test_an_instance_has_a_stream_of_its_own(recorder: Recorder) -> None:
    with session(recorder, "reference:?topic=t") as run:
        with attacked(run, "test", Start(queue=1)) as own:
            assert own is not None
            name = own.driven.name
            assert (own.driven.topic, own.start.queue) == ("t", 1)
            assert (own.statement.queue, own.statement.ring) == (1, run.statement.ring)
            assert own.driven.endpoint != run.driven.endpoint
            tagged = TaggedBatches(own)
            tagged.burst([tagged.batch() for _ in range(50)])
            assert tail(own, tagged)
            assert recorder.witnesses(own.driven.name) == (Source.LIVE_A,)
        assert recorder.witnesses(name) == ()
    burst = marks(recorder, BurstCall)[0]
    assert not all(burst.accepted or ())
    assert len(burst.blocked_us or ()) == 50


@pytest.mark.network
def test_the_first_start_that_is_taken(recorder: Recorder) -> None:
    body = (
        "import kvwire.peers.adapter as a\n"
        "from kvwire.peers.adapter import Adapter, Peer, serve\n"
        "from kvwire.standard.protocol import Refused\n"
        "class Picky(Adapter):\n"
        "    def _start(self, request):\n"
        "        if request.get('queue'):\n"
        "            raise Refused('adapter: no queue')\n"
        "        return super()._start(request)\n"
        "a.Adapter = Picky; serve(Peer())"
    )
    with session(recorder, f'exec:{sys.executable} -c "{body}"') as run:
        with attacked(run, "test", Start(queue=1), Start(hwm=5)) as own:
            assert own is not None
            assert (own.start.queue, own.start.hwm) == (None, 5)
        with attacked(run, "test", Start(queue=1)) as own:
            assert own is None
    assert not marks(recorder, Trouble)


def dying(survive: str = "KVW-SEQ-009") -> Probe:
    """A probe that kills the instance which it attacks."""

    def run(session: Session) -> None:
        with attacked(session, "test", Start()) as own:
            assert own is not None
            assert isinstance(own.driver, AdapterProcess)
            os.kill(own.driver._process.pid, signal.SIGKILL)
            for _ in range(100):
                TaggedBatches(own).one()

    return Probe(name="dying", run=run, needs=frozenset({"fresh"}), must_survive=(survive,))


@pytest.mark.network
def test_an_instance_that_dies_fails_what_it_had_to_survive(monkeypatch: pytest.MonkeyPatch, room: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(room))
    monkeypatch.setattr(
        "kvwire.attack.run.plan", lambda session, mode="plain", only=None: (live.PROBE, dying(), stop.STOP)
    )
    target = parse("reference:")
    assert not isinstance(target, TraceTarget)
    trace = run(target, Settings(limits=QUICK))
    assert trace.header.probes == ("live", "dying", "stop")
    outcome = conclude(trace, registry.load(), registry.profile("replay"))
    assert not outcome.troubles
    failed = {line.requirement: line for line in outcome.outcomes if line.verdict is Verdict.FAIL}
    assert set(failed) == {"KVW-SEQ-009"}
    assert "SIGKILL" in failed["KVW-SEQ-009"].findings[-1].seen


# strain


class Waits:
    """A driver whose calls take what ``took`` says, one after the other, in ms."""

    can = frozenset({"publish", "burst"})
    alive = True

    def __init__(self, *took: float) -> None:
        self.took = list(took)
        self.calls = 0

    def publish(self, batch: Any) -> Accepted:
        self.calls += 1
        if len(batch["events"]) > 1:
            raise Refused("adapter: one event at a time")
        return Accepted(accepted=True, blocked_us=int(1000 * (self.took.pop(0) if self.took else 0)))

    def burst(self, batches: Any) -> Burst:
        return Burst(accepted=[True] * len(batches), blocked_us=[0] * len(batches))


def strained(recorder: Recorder, driver: Waits) -> tuple[list[StrainDone], TaggedBatches]:
    stream = Stream(name="s", endpoint="ipc://nowhere")
    run = Session(
        recorder=recorder,
        streams=[stream],
        statement=Statement(bounds=Bounds(publish_ms=100.0)),
        driver=driver,  # type: ignore[arg-type]
    )
    tagged = TaggedBatches(run)

    def act() -> bool:
        return tagged.one()

    assert strain(run, tagged, "a test", act)
    return marks(recorder, StrainDone), tagged


@pytest.mark.parametrize(("took", "attempts"), [((1.0,), 1), ((500.0, 1.0), 2), ((500.0,) * 9, 3)])
def test_what_makes_the_caller_wait_is_repeated(recorder: Recorder, took: tuple[float, ...], attempts: int) -> None:
    done, tagged = strained(recorder, Waits(*took))
    assert len(done) == attempts
    assert tagged.events == 1


RANK_0, RANK_1 = (Stream(endpoint=f"tcp://127.0.0.1:{port}", rank=port - 1) for port in (1, 2))


@pytest.mark.parametrize(
    ("statement", "streams", "profile"),
    [
        ({}, [{}], "core"),
        ({}, [{"replay": "tcp://127.0.0.1:2"}], "replay"),
        ({}, [{"rank": 0}, {"rank": 1}], "ranks"),
        ({}, [{"rank": 0, "replay": "tcp://127.0.0.1:2"}, {"rank": 1}], "ranks+replay"),
        ({}, [{}, {}], "core"),
        ({"streams": (RANK_0, RANK_1)}, [{}], "ranks"),
        ({"streams": (RANK_0,)}, [{"rank": 0}], "core"),
        ({"form": "array-v"}, [{"rank": 0}, {"rank": 1}], "legacy-array-v"),
        ({"profile": "core"}, [{"rank": 0}, {"rank": 1}], "core"),
    ],
)
def test_a_target_is_held_to_what_it_shows(
    statement: dict[str, Any], streams: list[dict[str, Any]], profile: str
) -> None:
    shown = [Stream(endpoint="tcp://127.0.0.1:1", **stream) for stream in streams]
    assert default_profile(Statement(**statement), shown) == profile


@pytest.mark.parametrize(("world", "profile"), [(None, "replay"), (1, "replay"), (2, "ranks+replay")])
def test_a_target_that_was_started_as_one_of_several_ranks_shows_them(world: int | None, profile: str) -> None:
    shown = [Stream(endpoint="tcp://127.0.0.1:1", replay="tcp://127.0.0.1:2", rank=0)]
    assert default_profile(Statement(), shown, Start(world=world)) == profile


def test_a_fault_of_the_harness_in_a_probe_ends_that_probe_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def divides(_: Session) -> None:
        raise ZeroDivisionError("by nothing")

    def connects(_: Session) -> None:
        raise zmq.ZMQError(zmq.ENOTSUP)

    def starves(_: Session) -> None:
        raise MemoryError

    carried_out: list[str] = []

    def works(_: Session) -> None:
        carried_out.append("works")

    probes = tuple(
        Probe(name=act.__name__, run=act, needs=frozenset({"passive"})) for act in (divides, connects, starves, works)
    )
    opened = Opened(streams=(Stream(endpoint="ipc:///x", name="s"),), statement=Statement())
    recorder, course = Recorder(), Course(probes)
    _probe(opened.session(recorder), opened, course, lambda _: None)
    assert carried_out == ["works"]
    assert course.probes == ["divides", "connects", "starves", "works"]
    told = [trouble.text for trouble in marks(recorder, Trouble)]
    assert told[0] == ("probe divides: a fault of the harness, please report it: ZeroDivisionError: by nothing")
    assert told[1].startswith("probe connects: ")
    assert told[2] == "probe starves: there is not enough memory"
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "MemoryError" not in said
