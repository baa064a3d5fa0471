"""Ranks that are idle, stopped and killed, endpoints in use, prompts that an engine dies of: what probes do there."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kvwire.attack.probes.kit.deployment import begin
from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.sandbox import Sandbox
from kvwire.attack.probes.kit.session import Controlled, Instance, Limits, Session
from kvwire.attack.probes.kit.subscribers import ClientEndpoint, Subscriber, Subscribers
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import AdapterError, Bound, Start
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.calls import CacheCall, StartCall
from kvwire.trace.marks import Freed, ProcessExit, RankWait, Reach, Trouble
from kvwire.trace.records import Trace

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("room_of_the_killed")]


def recorded(target: str, *probes: str) -> Trace:
    """What a run with these probes records."""
    found = parse(target)
    assert not isinstance(found, TraceTarget)
    return run(found, Settings(probes=("live", *probes), limits=Limits(prompts=3, batches=12)))


def details(recording: Trace, *kinds: type) -> list[object]:
    return [record.detail for record in recording.records if isinstance(record.detail, kinds)]


@pytest.mark.parametrize("role", ["cache", "publish"])
def test_a_rank_works_while_the_others_are_idle_stopped_and_killed(role: str) -> None:
    recording = recorded(f"reference:?block_size=2&role={role}", "rank-outages")
    waits = cast("list[RankWait]", details(recording, RankWait))
    situations = [(wait.peers, wait.rank) for wait in waits if wait.outcome == "heard"]
    assert situations == [(peers, rank) for peers in ("none", "idle", "stopped", "killed") for rank in (0, 2)]
    ends = cast("list[ProcessExit]", details(recording, ProcessExit))
    assert sorted(end.code or 0 for end in ends) == [-signal.SIGKILL, -signal.SIGKILL, 0, 0]
    assert all(end.expected for end in ends)
    assert details(recording, Trouble) == []


def test_the_run_goes_on_without_what_the_engine_dies_of() -> None:
    recording = recorded("mutant:dies-of-lora?block_size=2", "requests", "prompts")
    asked = [(r.stream, r.detail) for r in recording.records if isinstance(r.detail, CacheCall)]
    driven = [call for stream, call in asked if stream == "rank-0"]
    assert {call.salt is not None for call in driven} == {True, False}
    assert all(call.lora is None and call.succeeded for call in driven)
    assert [call.lora for stream, call in asked if stream != "rank-0" and not call.succeeded] == ["7", str(2**63 + 7)]


def test_an_endpoint_is_asked_for_that_somebody_serves() -> None:
    recording = recorded("reference:?block_size=2", "endpoint-in-use")
    starts = [r.detail for r in recording.records if isinstance(r.detail, StartCall) and r.stream != "rank-0"]
    refused = [start for start in starts if start.refused is not None]
    assert len(starts) == 6
    assert len(refused) == 4
    assert all("served by another process" in str(start.refused) for start in refused)


def own_session(recorder: Recorder) -> Session:
    stream = Stream(name="s", endpoint="ipc://s")
    return Session(recorder=recorder, streams=[stream], statement=Statement(), limits=Limits(handshake_s=0.3))


class _StopFails:
    def stop(self) -> None:
        raise AdapterError("`stop` failed in the adapter: RuntimeError")


def test_a_port_is_looked_at_after_a_stop_that_failed(recorder: Recorder) -> None:
    asked = own_session(recorder)
    with Sandbox() as sandbox, Subscribers(asked) as subscribers, socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        instance = Instance("instance-1", cast("Controlled", _StopFails()))
        with pytest.raises(AdapterError):
            Lifecycle(asked, sandbox, subscribers).end(instance, Bound(endpoint=endpoint))
    freed = [r.detail.outcome for r in recorder.records if isinstance(r.detail, Freed)]
    assert freed == ["held"] * ATTEMPTS


class _Dials:
    """A lifecycle of publishers that dial one and the same place, whatever they are told."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def begin(self, _: Instance, __: Start) -> Bound:
        return Bound(endpoint="ipc:///run/kv/events", mode="bind")


class _Stops:
    def stop(self) -> None:
        pass


def test_ranks_that_dial_one_place_cannot_be_told_apart(recorder: Recorder) -> None:
    instances = [Instance(f"instance-{rank}", cast("Controlled", _Stops())) for rank in range(3)]
    with Sandbox() as sandbox:
        assert begin(own_session(recorder), cast("Lifecycle", _Dials(sandbox)), instances) is None


def test_a_handshake_that_does_not_come_about_is_told_of_each_attempt(recorder: Recorder, tmp_path: Path) -> None:
    asked = own_session(recorder)
    with Subscribers(asked) as subscribers:
        assert not subscribers.reach("instance-1", [ClientEndpoint(f"ipc://{tmp_path}/nobody", "SUB")])
    reached = [r.detail for r in recorder.records if isinstance(r.detail, Reach)]
    assert len(reached) >= ATTEMPTS
    assert not any(reach.done for reach in reached)
    assert reached[0].bound_s == 0.3


@pytest.mark.parametrize(
    ("since", "arrives", "quiet_at"),
    [
        (None, (), 100.25),
        (99.9, (), 100.15),
        (99.0, (), 100.0),
        (99.0, (100.0,), 100.25),
        (99.0, (100.0, 100.1), 100.35),
    ],
    ids=["from now on", "for the rest of it", "for long", "something is there", "something comes"],
)
def test_a_stream_is_quiet_when_nothing_came_since_something_could_be_expected(
    since: float | None, arrives: tuple[float, ...], quiet_at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)

    class Heard(Subscriber):
        def __init__(self) -> None:
            self.taken = 0

        @property
        def seen(self) -> int:
            return self.taken

        def take(self) -> None:
            self.taken = sum(at <= clock.now for at in arrives)

    def wait(condition: Callable[[], bool], _: float) -> bool:
        while not condition():
            clock.now = round(clock.now + 0.01, 2)
        return True

    monkeypatch.setattr("kvwire.attack.probes.kit.subscribers.time", SimpleNamespace(monotonic=lambda: clock.now))
    Heard().quiet(cast("Session", SimpleNamespace(wait=wait, limits=Limits())), 0.25, since)
    assert clock.now == pytest.approx(quiet_at, abs=0.011)
