"""The relay: the positive control for the attribution of loss. What it loses is nobody's fault but the way's."""

from __future__ import annotations

import gc
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
import zmq
from tests.kit.runs import LIMITS, judged, spoken

from kvwire.attack.probes import live
from kvwire.attack.probes.kit import readiness
from kvwire.attack.probes.kit.session import Session
from kvwire.attack.probes.kit.traffic import Traffic
from kvwire.attack.relay import Relay
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import LiveTarget, Opened, TraceTarget, parse
from kvwire.attack.witness import Recorder
from kvwire.conclusion.result import Result
from kvwire.trace.records import FORMAT, Header, Source, Trace

pytestmark = pytest.mark.network

Socket = zmq.Socket[bytes]
OpenSocket = Callable[[int], Socket]
A, B = Source.LIVE_A, Source.LIVE_B


def target(text: str) -> LiveTarget:
    place = parse(text)
    assert not isinstance(place, TraceTarget)
    return place


class Ways:
    """Relays for some of the witnesses, opened when the endpoint is known."""

    def __init__(self, *sources: Source) -> None:
        self.relays: dict[Source, Relay] = {}
        self.recorder = Recorder(ways={source: self._opening(source) for source in sources})

    def _opening(self, source: Source) -> Callable[[str], str]:
        def way(endpoint: str) -> str:
            relay = self.relays[source] = Relay(endpoint)
            return relay.endpoint

        return way

    def __enter__(self) -> Ways:
        return self

    def __exit__(self, *_: object) -> None:
        self.recorder.close()
        for relay in self.relays.values():
            relay.close()


class Scene:
    """A publisher that is driven by hand, heard through relays."""

    def __init__(self, opened: Opened, ways: Ways) -> None:
        self.opened = opened
        self.ways = ways
        self.session: Session = opened.session(ways.recorder, limits=LIMITS)
        self.stream = self.session.driven.name
        self.traffic = Traffic(self.session)

    def publish(self, count: int, *, heard_by: tuple[Source, ...] = (A, B)) -> None:
        """Cause so many batches, each when the witnesses have heard the one before."""
        recorder, stream = self.ways.recorder, self.session.driven
        for _ in range(count):
            before = self.session.counts(stream)
            self.traffic.one()
            assert self.session.wait(
                lambda: all(recorder.live_count(stream.name, s) > before[s] for s in heard_by),  # noqa: B023
                5.0,
            )

    def returned(self, handshakes: int) -> None:
        """Wait until the relayed witnesses have so many handshakes, and hear again."""
        recorder = self.ways.recorder
        sources = list(self.ways.relays)
        assert self.session.wait(
            lambda: all(recorder.handshakes(self.stream, source) >= handshakes for source in sources), 5.0
        )
        assert readiness.prime(self.session)

    def result(self) -> Result:
        """What is concluded from what was recorded so far."""
        header = Header(
            trace=FORMAT,
            edition="1",
            target="reference:",
            level=self.opened.level,
            can=self.opened.can,
            sets=self.opened.sets,
            profile="replay",
            statement=self.opened.statement,
            streams=self.opened.infos,
        )
        return judged(Trace(header=header, records=tuple(self.ways.recorder.records)))


@contextmanager
def scene(text: str, *sources: Source) -> Iterator[Scene]:
    with Ways(*sources) as ways:
        opened = target(text).open(ways.recorder)
        try:
            told = Scene(opened, ways)
            live.PROBE(told.session)
            yield told
        finally:
            opened.close()


def attributions(result: Result) -> set[str]:
    return {hole.attribution for hole in result.holes}


@pytest.mark.slow
def test_a_whole_run_through_a_relay_that_takes_its_time() -> None:
    with Ways(B) as ways:
        threading.Thread(target=_slow_down, args=(ways,), daemon=True).start()
        recording = run(target("reference:"), Settings(limits=LIMITS), recorder=ways.recorder)
    result = judged(recording)
    assert spoken(result) == frozenset()
    assert not result.troubles
    assert not result.holes


def _slow_down(ways: Ways) -> None:
    while B not in ways.relays:
        time.sleep(0.01)
    ways.relays[B].delay_s = 0.02


def test_what_one_witness_loses_when_it_is_cut_is_lost_on_the_way() -> None:
    with scene("reference:", B) as told:
        told.publish(5)
        told.ways.relays[B].cut()
        told.publish(5, heard_by=(A,))
        told.returned(handshakes=2)
        told.publish(2)
        result = told.result()
    assert attributions(result) == {"transport"}
    assert "live-b lacks" in result.holes[0].why
    assert result.holes[0].why.endswith("of them, which live-a delivered")
    assert spoken(result) == frozenset()


def test_what_every_witness_loses_when_it_is_cut_is_lost_on_the_way_unless_replay_holds_it() -> None:
    with scene("reference:?replay=none", A, B) as told:
        told.publish(5)
        for relay in told.ways.relays.values():
            relay.cut()
        for _ in range(5):
            told.traffic.one()
        told.returned(handshakes=2)
        told.publish(2)
        result = told.result()
    assert attributions(result) == {"transport"}
    assert result.holes[0].why == "every witness was disconnected when it came"
    assert spoken(result) == frozenset()


def test_a_witness_that_is_stopped_makes_the_publisher_shed_for_it_alone() -> None:
    with scene("reference:?hwm=50&role=publish", B) as told:
        told.publish(2)
        told.ways.relays[B].stop()
        stopped = 800
        told.publish(stopped, heard_by=(A,))
        told.ways.relays[B].go()
        assert told.session.wait(lambda: told.ways.recorder.live_count(told.stream, B) > 100, 5.0)
        told.session.settle()
        assert readiness.prime(told.session)
        told.publish(2)
        result = told.result()
        assert told.ways.recorder.live_count(told.stream, B) < stopped
    assert attributions(result) == {"transport"}
    assert spoken(result) == frozenset()


@pytest.mark.parametrize(
    ("text", "attribution"),
    [("mutant:loses-every-third", "publisher"), ("mutant:loses-every-third?replay=none", "unattributed")],
)
def test_what_the_publisher_loses_is_not_blamed_on_the_way(text: str, attribution: str) -> None:
    with Ways(B) as ways:
        # What is lost never comes: a short wait shows as much as a long one.
        limits = msgspec.structs.replace(LIMITS, settle_s=0.3, prompts=20)
        recording = run(target(text), Settings(limits=limits, mode="quick"), recorder=ways.recorder)
    result = judged(recording)
    assert attribution in attributions(result)
    assert "transport" not in attributions(result)


def test_a_relay_ends_with_its_connections_and_its_thread(open_socket: OpenSocket) -> None:
    publisher = open_socket(zmq.PUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    subscriber = open_socket(zmq.SUB)
    subscriber.subscribe(b"")
    with Relay(f"tcp://127.0.0.1:{port}") as relay:
        subscriber.connect(relay.endpoint)
        deadline = time.monotonic() + 5
        while not subscriber.poll(20):
            assert time.monotonic() < deadline
            publisher.send(b"heard")
        assert relay.joined == 1
    assert "kvwire-relay" not in {thread.name for thread in threading.enumerate()}


def test_a_connection_that_arrives_while_a_relay_ends_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio leaves one open that is accepted in the turn in which its server closes."""
    left_open: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda left: left_open.append(repr(left.exc_value)))
    for _ in range(20):
        relay = Relay("ipc:///nonexistent/socket")
        host, _, port = relay.endpoint.removeprefix("tcp://").rpartition(":")
        clients = [socket.create_connection((host, int(port)), timeout=5) for _ in range(3)]
        relay.close()
        for client in clients:
            client.close()
    gc.collect()
    assert left_open == []


def test_nobody_behind_a_relay_is_a_connection_that_ends(open_socket: OpenSocket) -> None:
    with Relay("ipc:///nonexistent/socket") as relay:
        subscriber = open_socket(zmq.SUB)
        subscriber.connect(relay.endpoint)
        assert not subscriber.poll(100)
        assert relay.joined == 0


def test_only_tcp_and_ipc_can_be_relayed() -> None:
    with pytest.raises(ValueError, match="inproc"):
        Relay("inproc://x")
