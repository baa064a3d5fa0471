"""Probes act, wait within bounds and write; here against the reference, against broken ones, and against nobody."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.kit.probing import QUICK, is_whole, marks, session

from kvwire.attack.probes import live, replay, reset, restart, stop, workload
from kvwire.attack.probes.catalog import PROBES, plan
from kvwire.attack.probes.kit import readiness
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Limits, Session
from kvwire.attack.targets.process import AdapterProcess
from kvwire.attack.witness import Recorder
from kvwire.history.timeline import build
from kvwire.standard.protocol import AdapterError
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.marks import (
    Primed,
    ProcessExit,
    ReplayBehind,
    ReplayDone,
    ReplayRequest,
    ResetDone,
    Trouble,
    Unreachable,
)
from kvwire.trace.records import LIVE

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("room_of_the_killed")]

Socket = zmq.Socket[bytes]
OpenSocket = Callable[[int], Socket]


def script(body: str, **peer: str) -> str:
    """A target: the reference with something else in it."""
    fields = ", ".join(f"{key}={value}" for key, value in peer.items())
    lines = [
        "from kvwire.peers.adapter import Peer, serve",
        "from kvwire_reference.cache import CacheEngine",
        "from kvwire_reference.publisher import ZmqPublisher",
        body,
        f"serve(Peer({fields}))",
    ]
    return f"exec:{sys.executable} -c {_quoted(chr(10).join(lines))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def adapter(session: Session) -> AdapterProcess:
    assert isinstance(session.driver, AdapterProcess)
    return session.driver


# the reference


def test_a_whole_run_against_the_reference(recorder: Recorder) -> None:
    began = time.monotonic()
    with session(recorder, "reference:") as run:
        names = [probe.name for probe in plan(run)]
        for probe in plan(run):
            probe(run)
    undeclared = ("heartbeat",)
    assert names == [p.name for p in PROBES if p.mode != "thorough" and not p.needs & set(undeclared)]
    assert time.monotonic() - began < 30
    assert all(m.seen for m in marks(recorder, Primed))
    assert marks(recorder, ResetDone)[0].outcome == "seen"
    assert not marks(recorder, Unreachable)
    assert not marks(recorder, Trouble)
    own = [record for record in recorder.records if record.stream in ("", "rank-0")]
    assert len(build(enumerate(own)).incarnations) == 2
    assert is_whole(own)
    pressed = {m.client for m in marks(recorder, ReplayRequest) if m.situation}
    outcomes = [m.outcome for m in marks(recorder, ReplayDone) if m.client not in pressed]
    assert set(outcomes) == {"marker"}
    assert len(marks(recorder, ReplayBehind)) == len(replay.MALFORMED)
    assert [recorder.disconnects("rank-0", source) for source in LIVE] == [2, 2]


def test_listening_hears_what_another_drives(recorder: Recorder) -> None:
    other = Recorder()
    try:
        with session(other, "reference:") as driven:
            live.PROBE(driven)
            (stream,) = driven.streams
            with session(recorder, f"zmq:{stream.endpoint}?replay={stream.replay}&topic=kv-events") as run:
                assert {probe.name for probe in plan(run)} >= {"live", "replay"}
                assert readiness.handshakes(run)
                while not recorder.live_count("stream-0", "live-a"):  # a subscription takes effect some time after
                    workload.few_prompts(driven)
                    run.settle()
                for probe in plan(run):
                    probe(run)
    finally:
        other.close()
    assert recorder.live_count("stream-0", "live-a") > 0
    assert is_whole(recorder.records)


# replay


def requests(recorder: Recorder) -> list[tuple[str | None, str | None, str]]:
    done = {m.client: m.outcome for m in marks(recorder, ReplayDone)}
    return [(m.kind, m.start, done[m.client]) for m in marks(recorder, ReplayRequest)]


def test_every_malformed_request_is_followed_by_a_good_one(recorder: Recorder) -> None:
    with session(recorder, "reference:") as run:
        live.PROBE(run)
        run.settle()
        replay.PROBE(run)
    asked = requests(recorder)
    newest = str(recorder.newest("rank-0"))
    assert asked[0] == ("well-formed", "0", "marker")
    assert asked[2:4] == [("well-formed", newest, "marker"), ("well-formed", str(int(newest) + 2**32), "marker")]
    assert asked[4] == ("well-formed", str(2**64 - 1), "marker")
    assert asked[5:] == [
        pair for kind, _ in replay.MALFORMED for pair in ((kind, None, "marker"), ("well-formed", newest, "marker"))
    ]
    assert all(m.must_survive == ("KVW-REP-007",) for m in marks(recorder, ReplayRequest))
    frames = [m.frames for m in marks(recorder, ReplayRequest)]
    assert frames[0] == ("", "00" * 8)
    assert ("", "00" * 9) in frames


class Router(threading.Thread):
    """A replay server that answers each well-formed request with the next of its scripted answers, then the last."""

    def __init__(self, socket: Socket, answers: list[list[list[bytes]]]) -> None:
        super().__init__(daemon=True)
        self.socket = socket
        self.answers = answers
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            if not self.socket.poll(20):
                continue
            identity, *request = self.socket.recv_multipart()
            if len(request) == 2 and request[0] == b"" and len(request[1]) == 8:
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                for frames in answer:
                    self.socket.send_multipart([identity, b"", *frames])
        self.socket.close(0)


END = [b"", b"\xff" * 8, b""]


def item(number: int) -> list[bytes]:
    return [b"t", number.to_bytes(8, "big"), b"\x93"]


@pytest.fixture
def scripted(
    recorder: Recorder, open_socket: OpenSocket, room: Path
) -> Iterator[Callable[[list[list[list[bytes]]]], Session]]:
    routers: list[Router] = []

    def make(answers: list[list[list[bytes]]]) -> Session:
        stream = Stream(name="s", endpoint=f"ipc://{room}/live", replay=f"ipc://{room}/replay")
        open_socket(zmq.PUB).bind(stream.endpoint)
        router = open_socket(zmq.ROUTER)
        assert stream.replay is not None
        router.bind(stream.replay)
        routers.append(Router(router, answers))
        routers[-1].start()
        recorder.watch([stream])
        return Session(recorder=recorder, streams=[stream], statement=Statement(), limits=QUICK)

    yield make
    for router in routers:
        router.over.set()
        router.join(5)


Scripted = Callable[[list[list[list[bytes]]]], Session]


def test_an_answer_with_a_hole_is_asked_for_again_at_once(recorder: Recorder, scripted: Scripted) -> None:
    run = scripted([[item(0), item(2), END], [item(0), item(1), item(2), END]])
    with ReplayClients(run) as replays:
        replays.ask(run.streams[0], 0)
    assert [(m.again, m.start) for m in marks(recorder, ReplayRequest)] == [(False, "0"), (True, "1")]


def test_a_second_end_marker_is_heard_too(recorder: Recorder, scripted: Scripted) -> None:
    run = scripted([[item(0), END, END]])
    with ReplayClients(run) as replays:
        replays.ask(run.streams[0], 0)
        replays.linger()
    assert [r.frames[2] for r in recorder.records if r.is_replay and r.frames].count(b"\xff" * 8) == 2


def test_no_end_marker_ends_at_the_bound(recorder: Recorder, scripted: Scripted) -> None:
    run = scripted([[item(0)]])
    began = time.monotonic()
    with ReplayClients(run) as replays:
        client = replays.ask(run.streams[0], 0)
    assert client.outcome == "timeout"
    assert time.monotonic() - began < 5
    assert marks(recorder, ReplayDone)[0] == ReplayDone(client="replay-1", outcome="timeout", after_s=0.5, messages=1)


def test_nobody_at_the_replay_endpoint(recorder: Recorder, open_socket: OpenSocket, room: Path) -> None:
    stream = Stream(name="s", endpoint=f"ipc://{room}/live", replay=f"ipc://{room}/replay")
    open_socket(zmq.PUB).bind(stream.endpoint)
    recorder.watch([stream])
    limits = Limits(handshake_s=0.3)
    replay.PROBE(Session(recorder=recorder, streams=[stream], statement=Statement(), limits=limits))
    mark = marks(recorder, Unreachable)[0]
    assert (mark.endpoint, mark.of) == (stream.replay, ("replay-1",))
    assert not marks(recorder, ReplayRequest)


# nobody, silence and death


def test_nobody_at_the_endpoint(recorder: Recorder, room: Path) -> None:
    with session(recorder, f"zmq:ipc://{room}/live", Limits(handshake_s=0.2, listen_s=60)) as run:
        live.PROBE(run)
    (mark,) = marks(recorder, Unreachable)
    assert mark == Unreachable(endpoint=f"ipc://{room}/live", of=("live-a", "live-b"), bound_s=0.2)


def test_a_silent_publisher_is_healthy_and_primes_nobody(recorder: Recorder) -> None:
    silent = f"exec:{sys.executable} -m kvwire.peers.near_null silent"
    with session(recorder, silent, Limits(prime_s=0.3, settle_s=0.3)) as run:
        for probe in plan(run):
            if probe is not reset.PROBE:
                probe(run)
    assert not any(m.seen for m in marks(recorder, Primed))
    assert not marks(recorder, Unreachable)
    assert not [r for r in recorder.records if r.is_live]


def test_who_has_sent_nothing_is_waited_for_once_and_whoever_has_each_time(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[float] = []

    def never(_: Callable[[], bool], bound_s: float) -> bool:
        bounds.append(bound_s)
        return False

    with session(recorder, f"exec:{sys.executable} -m kvwire.peers.near_null silent") as run:
        monkeypatch.setattr(run, "wait", never)
        run.settle()
        run.settle()
        monkeypatch.setattr(run, "counts", lambda stream: {"live-a": 1})
        run.settle()
    assert bounds == [QUICK.settle_s, QUICK.quiet_s, QUICK.settle_s]


def test_a_reset_that_does_not_show_is_awaited_for_the_declared_bound(recorder: Recorder) -> None:
    body = "class Quiet(CacheEngine):\n    def reset(self): pass"
    with session(recorder, script(body, make_engine="Quiet", statement="{'bounds': {'reset_visible_s': 0.4}}")) as run:
        live.PROBE(run)
        reset.PROBE(run)
    awaited = marks(recorder, ResetDone)
    assert {(mark.outcome, mark.bound_s) for mark in awaited} == {("bound", 0.4)}
    assert len(awaited) >= ATTEMPTS
    assert all(mark.after_s is not None and 0.4 <= mark.after_s < 2 for mark in awaited)


def test_a_reset_that_shows_as_removals_is_seen(recorder: Recorder) -> None:
    body = "class Thorough(CacheEngine):\n    def reset(self): self.evict(10**6)"
    with session(recorder, script(body, make_engine="Thorough")) as run:
        live.PROBE(run)
        reset.PROBE(run)
    assert marks(recorder, ResetDone)[0].outcome == "seen"


def test_a_restart_elsewhere_is_not_found(recorder: Recorder) -> None:
    body = (
        "import os\n"
        "class Lost(ZmqPublisher):\n"
        "    lives = 0\n"
        "    def _bind(self, s, e):\n"
        "        Lost.lives += 1\n"
        "        return super()._bind(s, e if Lost.lives < 3 else e + 'x')\n"
    )
    with session(recorder, script(body, make_publisher="Lost"), Limits(handshake_s=0.4)) as run:
        live.PROBE(run)
        restart.PROBE(run)
    (mark,) = marks(recorder, Unreachable)
    assert mark.of == ("live-a", "live-b")
    assert mark.must_survive == ("KVW-SEQ-007",)


@pytest.mark.parametrize("probe", [workload.PROMPTS, reset.PROBE, restart.PROBE, stop.STOP], ids=lambda p: p.name)
def test_a_target_that_dies_ends_the_probe_at_once(recorder: Recorder, probe: Any) -> None:
    with session(recorder, "reference:") as run:
        live.PROBE(run)
        os.kill(adapter(run)._process.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(AdapterError, match="signal SIGKILL"):
            probe(run)
        assert time.monotonic() - began < 5
        assert run.left() == 0
    (end,) = marks(recorder, ProcessExit)
    assert (end.how, end.expected) == ("signal SIGKILL", False)


def test_what_is_asked_of_a_target_that_has_gone_is_left_open(recorder: Recorder) -> None:
    """Without an adapter, too, which would tell of its end: the connections do."""
    with session(recorder, "reference:") as run:
        live.PROBE(run)
        with ReplayClients(run) as replays:
            client = replays.connect(run.driven)
            replays.send(client, "start-0-bytes", (b"", b""))
            adapter(run).stop()
            replays.await_read([client], 2**40)
    assert [mark.outcome for mark in marks(recorder, ReplayDone)] == ["disconnected"]


def test_a_target_that_dies_of_a_request_is_not_waited_for(recorder: Recorder) -> None:
    body = (
        "import os\n"
        "from kvwire_reference.replay import ReplayServer\n"
        "ReplayServer._handle = lambda self, request: os._exit(9)\n"
    )
    with session(recorder, script(body), Limits(replay_s=60, handshake_s=60)) as run:
        live.PROBE(run)
        began = time.monotonic()
        replay.PROBE(run)
        assert time.monotonic() - began < 10
    assert marks(recorder, ReplayDone)[0].outcome in ("disconnected", "over")
    (end,) = marks(recorder, ProcessExit)
    assert (end.how, end.expected) == ("exit code 9", False)


def test_the_deadline_ends_everything(recorder: Recorder) -> None:
    with session(recorder, "reference:") as run:
        run.deadline = time.monotonic() + 0.2
        began = time.monotonic()
        assert not run.wait(lambda: False, 60)
        for probe in plan(run):
            probe(run)
        assert time.monotonic() - began < 10
