"""Replay under pressure and late joiners: what the probes do, against the reference and against worse."""

from __future__ import annotations

import itertools
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from tests.kit import probing
from tests.kit.probing import marks
from tests.kit.runs import LIMITS, judged, spoken

from kvwire.attack.probes import late_join, live, replay_overflow, replay_pressure
from kvwire.attack.probes.kit import readiness, slow_reader
from kvwire.attack.probes.kit.replay_client import Client, Request
from kvwire.attack.probes.kit.session import Limits, Session
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.attack.targets.process import AdapterProcess
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import AdapterError
from kvwire.standard.statement import Stream
from kvwire.trace.detail import Detail
from kvwire.trace.marks import (
    Joined,
    LiveAwaited,
    ProcessExit,
    ReplayDone,
    ReplayLoad,
    ReplayRequest,
    ReplayResumed,
    Trouble,
    Unreachable,
)
from kvwire.trace.records import Record, Trace, told
from kvwire.wire.framing import SEND_MARK

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("room_of_the_killed")]

QUICK = msgspec.structs.replace(LIMITS, replay_s=1.0, pause_s=0.2)


@contextmanager
def session(recorder: Recorder, text: str, limits: Limits = QUICK) -> Iterator[Session]:
    with probing.session(recorder, text, limits) as run:
        live.PROBE(run)
        yield run


def outcomes(recorder: Recorder) -> Counter[tuple[str, str]]:
    """How often each situation had each outcome."""
    done = {m.client: m.outcome for m in marks(recorder, ReplayDone)}
    asked = marks(recorder, ReplayRequest)
    return Counter((m.situation, done.get(m.client, "open")) for m in asked)


def received(recorder: Recorder, client: str) -> list[int]:
    """The numbers that came in answer to one request, the end marker left out."""
    frames = [r.frames for r in recorder.records if r.source == client and r.frames]
    return [int.from_bytes(f[2], "big") for f in frames if f[2] != b"\xff" * 8]


def test_the_whole_attack_against_the_reference(recorder: Recorder) -> None:
    began = time.monotonic()
    with session(recorder, "reference:") as run:
        replay_pressure.PROBE(run)
    assert time.monotonic() - began < 15
    found = outcomes(recorder)
    assert found["together", "marker"] == replay_pressure.PLAIN.clients
    assert found["beside", "marker"] == 4
    assert found["after", "marker"] == 1
    assert found["req", "first"] == 1
    assert found["beyond", "overtaken"] > 0
    assert {outcome for situation, outcome in found if situation == "paused"} == {"marker"}
    assert {outcome for situation, outcome in found if situation == "vanishing"} == {"vanished"}
    assert [m.outcome for m in marks(recorder, LiveAwaited)] == ["seen"] * 5
    assert not marks(recorder, Unreachable)
    assert not marks(recorder, Trouble)


def test_pauses_are_felt_and_eviction_falls_into_one(recorder: Recorder) -> None:
    with session(recorder, "reference:") as run:
        replay_pressure.PROBE(run)
    resumed = marks(recorder, ReplayResumed)
    assert [m.rcvhwm for m in resumed] == [1, SEND_MARK, 1]
    for mark in resumed:
        assert mark.overflows
    assert min(m.paused_s for m in resumed[:2]) >= 0.2
    numbers = received(recorder, resumed[2].connection)
    jumps = [after - before for before, after in itertools.pairwise(numbers) if after > before + 1]
    assert len(jumps) == 1, "the ring evicted what a paused client was still owed"
    assert jumps[0] > 100


def test_each_answer_on_a_connection_is_told_from_the_next(recorder: Recorder) -> None:
    """Those that are dropped too: a connection keeps its order, and every request on it has another start."""
    with session(recorder, "reference:") as run:
        replay_pressure.PROBE(run)
    asked = {m.client: m for m in marks(recorder, ReplayRequest)}
    for client, mark in asked.items():
        if mark.situation in ("paused", "beyond") and (numbers := received(recorder, client)):
            assert numbers == sorted(set(numbers))
            assert numbers[0] >= (mark.number or 0)


END = None


@pytest.mark.parametrize(
    ("oldest", "came", "answers"),
    [
        (0, [0, 1, 2, END, 1, 2, END, 2, END], ["0", "1", "2"]),
        (0, [0, 1, 2, END, 2, END], ["0", "2"]),  # the second request was dropped
        (2, [2, END, 2, END, 2, END], ["0", "1", "2"]),  # the beginnings of two were evicted
        (0, [2, END, 2, END, 2, END], ["0", "1", "2"]),  # as the first answer showed
        (2, [0, 1, 2, END, 2, END, 2, END], ["0", "1", "2"]),  # the first answer was under way before that
        (0, [0, 1, 1, 2, END, 2, END], ["0", "1", "2"]),  # no end marker
    ],
)
def test_what_is_evicted_is_no_sign_of_another_answer(
    room: Path, oldest: int, came: list[int | None], answers: list[str]
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    client = Client(context, "r", Stream(name="s", endpoint="ipc://nowhere", replay=f"ipc://{room}/nobody"))
    client.requests += [Request(str(start), start) for start in (0, 1, 2)]
    told: list[str] = []
    for number in came:
        request = client.request_of(number, oldest)
        request.marked = number is END
        request.numbers += [] if number is END else [number]
        told += [request.name] if request.name not in told else []
    client.close()
    context.destroy(linger=0)
    assert told == answers


def test_replay_that_is_not_in_order_in_peace_is_not_attacked(recorder: Recorder) -> None:
    with session(recorder, "mutant:replay-two-ends") as run:
        replay_pressure.PROBE(run)
    assert {situation for situation, _ in outcomes(recorder)} == {""}


def test_a_small_ring_is_attacked_with_what_it_holds(recorder: Recorder) -> None:
    with session(recorder, "reference:?ring=20") as run:
        replay_pressure.PROBE(run)
    assert {outcome for situation, outcome in outcomes(recorder) if situation == "paused"} == {"marker"}
    assert all(m.retained <= 20 for m in marks(recorder, ReplayResumed))


def test_a_publisher_that_is_not_driven_is_asked_and_left_alone_otherwise(recorder: Recorder) -> None:
    other = Recorder()
    try:
        with session(other, "reference:") as driven:
            (stream,) = driven.streams
            limits = msgspec.structs.replace(QUICK, listen_s=0.1)
            with session(recorder, f"zmq:{stream.endpoint}?replay={stream.replay}", limits) as run:
                readiness.prime(driven)
                run.settle()
                replay_pressure.PROBE(run)
    finally:
        other.close()
    assert outcomes(recorder)["together", "marker"] == replay_pressure.PLAIN.clients
    assert not marks(recorder, LiveAwaited)
    assert not marks(recorder, ReplayLoad)


@pytest.mark.parametrize("during", [ReplayRequest, ReplayResumed, LiveAwaited])
def test_a_target_that_dies_ends_the_attack(recorder: Recorder, during: type[Detail]) -> None:
    with session(recorder, "reference:") as run:
        assert isinstance(run.driver, AdapterProcess)
        process = run.driver
        note = recorder.note

        def deadly(detail: Detail, *more: Any, **fields: Any) -> Record:
            if isinstance(detail, during):
                process._process.kill()
                process._process.wait(5)
            return note(detail, *more, **fields)

        recorder.note = deadly  # type: ignore[method-assign]
        began = time.monotonic()
        with suppress(AdapterError):
            replay_pressure.PROBE(run)
        assert time.monotonic() - began < 10
    assert marks(recorder, ProcessExit)


@pytest.mark.parametrize("during", [ReplayRequest, ReplayResumed])
def test_a_target_that_stands_still_ends_the_attack(recorder: Recorder, during: type[Detail]) -> None:
    """It is not driven here, so that no verb tells of it."""
    other = Recorder()
    try:
        with session(other, "reference:") as driven:
            assert isinstance(driven.driver, AdapterProcess)
            process = driven.driver._process
            (stream,) = driven.streams
            limits = msgspec.structs.replace(QUICK, listen_s=0.1, handshake_s=0.5, replay_s=0.5)
            with session(recorder, f"zmq:{stream.endpoint}?replay={stream.replay}", limits) as run:
                readiness.prime(driven)
                run.settle()
                note = recorder.note

                def paralysing(detail: Detail, *more: Any, **fields: Any) -> Record:
                    if isinstance(detail, during) and marks(recorder, during):
                        process.send_signal(signal.SIGSTOP)
                    return note(detail, *more, **fields)

                recorder.note = paralysing  # type: ignore[method-assign]
                began = time.monotonic()
                try:
                    replay_pressure.PROBE(run)
                    assert time.monotonic() - began < 20
                finally:
                    process.send_signal(signal.SIGCONT)
    finally:
        other.close()
    unserved = {outcome for _, outcome in outcomes(recorder)} & {"timeout", "unreachable"}
    assert unserved or marks(recorder, Unreachable)


# a torrent


CARELESS = Path(__file__).parents[2] / "kit" / "careless.py"


def traced(text: str, probe: str) -> Trace:
    """The trace of a run of one probe."""
    target = parse(text)
    assert not isinstance(target, TraceTarget)
    return run(target, Settings(limits=QUICK, probes=("live", probe)))


@pytest.mark.parametrize("ring", [455, 457, 459])
def test_nobody_speaks_of_a_ring_that_begins_to_evict_during_a_pause(ring: int) -> None:
    assert spoken(judged(traced(f"reference:?ring={ring}", "replay-pressure"))) == frozenset()


def test_a_replay_without_care_is_heard_of_in_a_torrent() -> None:
    """It goes on when there is room again, so that an answer lacks batches and ends with the marker nevertheless.

    And it gives whole answers, one after the other, which live batches have to wait for.
    """
    outcome = judged(traced(f"exec:{shlex.join([sys.executable, str(CARELESS)])}", "torrent"), "replay")
    findings = {line.requirement: line.findings[0].seen for line in outcome.outcomes if line.findings}
    assert "are missing" in findings["KVW-REP-008"]
    assert "that were offered" in findings["KVW-REP-011"]


def test_nobody_speaks_of_the_reference_in_a_torrent() -> None:
    trace = traced("reference:", "torrent")
    outcome = judged(trace)
    assert spoken(outcome) == frozenset()
    verdicts = {line.requirement: (line.verdict, line.witnesses) for line in outcome.outcomes}
    connections = 1 + slow_reader.WHOLE
    assert verdicts["KVW-REP-008"][0] == verdicts["KVW-REP-010"][0] == "PASS"
    assert verdicts["KVW-REP-010"][1] >= connections
    waits = [wait for _, wait in told(enumerate(trace.records), LiveAwaited)]
    assert [(wait.during, wait.outcome) for wait in waits] == [("nothing", "seen"), ("replay", "seen")]
    assert min(wait.heard or 0 for wait in waits) >= replay_overflow.BURST
    resumed = [mark for _, mark in told(enumerate(trace.records), ReplayResumed)]
    assert len(resumed) == connections
    assert all(mark.retained * mark.requests >= 2 * slow_reader.OVERFLOW for mark in resumed)


def test_late_joiners_rebuild_what_the_first_knows(recorder: Recorder) -> None:
    with session(recorder, "reference:") as run:
        late_join.PROBE(run)
    joined = marks(recorder, Joined)
    assert len(joined) == late_join.JOINS
    for mark in joined:
        assert mark.settled
        assert mark.complete
        assert mark.blocks > 0
        assert mark.missing == mark.extra == 0
    assert len({mark.at for mark in joined}) == late_join.JOINS


def test_late_joiners_do_not_rebuild_what_replay_lacks(recorder: Recorder) -> None:
    with session(recorder, "mutant:replay-forgets") as run:
        late_join.PROBE(run)
    assert not any(m.complete and not m.missing and not m.extra for m in marks(recorder, Joined))


def test_nobody_joins_where_nothing_can_be_caused(recorder: Recorder) -> None:
    with session(recorder, "reference:?replay=none") as run:
        late_join.PROBE(run)
    assert not marks(recorder, Joined)
