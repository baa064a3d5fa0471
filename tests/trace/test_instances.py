"""Other instances of a publisher: started, tried at endpoints, run as ranks, and stopped with much on its way."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.kit import probing
from tests.kit.probing import marks

from kvwire.attack.probes import catalog, endpoints, live, ranks, stop
from kvwire.attack.probes.kit import sandbox
from kvwire.attack.probes.kit.lifecycle import client_endpoints, served
from kvwire.attack.probes.kit.session import Limits, Session
from kvwire.attack.probes.kit.subscribers import ClientEndpoint
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.attack.witness import Recorder
from kvwire.conclusion.conclude import conclude
from kvwire.standard import registry
from kvwire.standard.protocol import Bound
from kvwire.trace.calls import BurstCall, StartCall, StatsCall
from kvwire.trace.instances import begun
from kvwire.trace.marks import BurstBegins, Freed, ProcessExit, Ranks, Trouble
from kvwire.trace.records import Record, told
from kvwire.wire.endpoint_rules import Asked, faults

QUICK = Limits(handshake_s=2.0, prime_s=2.0, settle_s=1.0, quiet_s=0.15)
network = pytest.mark.network
pytestmark = pytest.mark.usefixtures("room_of_the_killed")


def session(recorder: Recorder, text: str = "reference:") -> AbstractContextManager[Session]:
    return probing.session(recorder, text, QUICK)


def script(*lines: str) -> str:
    """A target: an adapter of the reference with something else in it, named ``Mine``."""
    code = "\n".join(
        [
            "import os, sys",
            "from kvwire.peers import adapter",
            "from kvwire.standard.protocol import Refused",
            "class Mine(adapter.Adapter):",
            *(f"    {line}" for line in lines),
            "adapter.Adapter = Mine",
            "adapter.serve(adapter.Peer())",
        ]
    )
    quoted = code.replace("'", "'\"'\"'")
    return f"exec:{sys.executable} -P -c '{quoted}'"


def of_instances(recorder: Recorder) -> dict[str, list[tuple[int, Record]]]:
    found: dict[str, list[tuple[int, Record]]] = {}
    for index, record in enumerate(recorder.records):
        if record.stream.startswith("instance-"):
            found.setdefault(record.stream, []).append((index, record))
    return found


# what a start asks for


def test_what_a_start_asks_for() -> None:
    assert StartCall(endpoint="x", rank=3).asked == Asked(endpoint="x", rank=3, world=4)
    assert StartCall().asked.endpoints == ()
    assert StartCall(replay="none").asked.endpoints == ()


# the sandbox


def test_ports_are_free_together() -> None:
    first = sandbox.ports(3, 7)
    assert first is not None
    with socket.create_server(("127.0.0.1", first + 3)):
        assert sandbox.can_bind(first)
        assert not sandbox.can_bind(first + 3)
        assert sandbox.is_answered(f"tcp://127.0.0.1:{first + 3}")
        assert not sandbox.is_free(f"tcp://127.0.0.1:{first + 3}")
    assert sandbox.is_free(f"tcp://127.0.0.1:{first + 3}")


def test_a_private_directory_shows_every_file_that_was_there_for_a_moment() -> None:
    with sandbox.Sandbox() as here:
        assert sandbox.is_private(here.directory / "x")
        here.forget()
        before = here.changed
        (here.directory / "x").touch()
        (here.directory / "x").unlink()
        assert (before, here.changed) == (False, True)
        assert len(os.fsencode(here.ipc_of_length(107).removeprefix("ipc://"))) == 107
    assert not here.directory.exists()


def test_who_can_enter(room: Path) -> None:
    (room / "open").mkdir()
    room.chmod(0o755)
    (room / "open").chmod(0o755)
    assert sandbox.is_private(room / "open" / "x") is False
    (room / "open").chmod(0o700)
    assert sandbox.is_private(room / "open" / "x")
    assert sandbox.is_private(room / "nothing" / "x") is None
    assert sandbox.is_private(Path("@abstract")) is False


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux tells who listens")
def test_who_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert sandbox.who_can_come(f"tcp://127.0.0.1:{port}").listening == ("127.0.0.1",)
    assert sandbox.who_can_come("tcp://localhost:1").listening == ()
    assert sandbox.who_can_come("tcp://10.0.0.1:1").listening is None


# where clients look


def test_where_clients_connect() -> None:
    wish = Asked(endpoint="tcp://127.0.0.1:5557", replay="tcp://127.0.0.1:5657", rank=2, world=3)
    said = Bound(endpoint="tcp://127.0.0.1:5557", replay="tcp://127.0.0.1:5659")
    assert client_endpoints(wish, said) == (
        ClientEndpoint("tcp://127.0.0.1:5559", "SUB"),
        ClientEndpoint("tcp://127.0.0.1:5557", "SUB"),
        ClientEndpoint("tcp://127.0.0.1:5659", "DEALER"),
    )
    dials = Bound(endpoint="tcp://127.0.0.1:5559", replay="tcp://127.0.0.1:5659", mode="bind")
    assert client_endpoints(wish, dials) == (ClientEndpoint("tcp://127.0.0.1:5659", "DEALER"),)
    assert served(dials) == ("tcp://127.0.0.1:5659",)
    assert served(Bound(endpoint="tcp://*:5557")) == ("tcp://127.0.0.1:5557",)
    assert served(Bound(endpoint="inproc://x")) == ()


# instances


@network
def test_instances_have_names_and_processes_of_their_own(recorder: Recorder) -> None:
    with session(recorder) as under_test:
        with under_test.fresh(2) as pair, under_test.fresh() as (third,):
            names = [instance.name for instance in (*pair, third)]
            assert pair[0].driver.start(endpoints.only(endpoints.tcp(0), ephemeral=True)).endpoint
            assert third.driver.can == under_test.driver.can if under_test.driver else False
        assert under_test.alive()
    assert names == ["instance-1", "instance-2", "instance-3"]
    ends = [r.detail for r in recorder.records if isinstance(r.detail, ProcessExit) and r.stream in names]
    assert [end.expected for end in ends] == [True] * 3


@network
def test_the_table_against_the_reference(recorder: Recorder) -> None:
    with session(recorder) as under_test:
        began = time.monotonic()
        endpoints.PROBE(under_test)
        assert time.monotonic() - began < 10
    ((name, records),) = of_instances(recorder).items()
    starts = begun(name, records)
    assert len(starts) > len(endpoints.TABLE) - 3  # a machine may lack IPv6
    pieces = {index for index, call in told(records, StartCall) if call.pieces}
    assert len(pieces) == 2
    for start in starts:
        if faults(start.asked) or start.asked.undecided or start.record in pieces:
            assert start.refused is not None, start.asked
            assert start.touched in (None, False)
        else:
            assert start.bound is not None, start.asked
            assert start.reached
            assert all(reach.done for reach, _ in start.reached)
    assert {mark.outcome for mark in marks(recorder, Freed)} == {"free"}
    assert not marks(recorder, Trouble)


@network
def test_an_adapter_that_dies_or_fails_is_not_the_end_of_the_table(recorder: Recorder) -> None:
    target = script(
        "def _start(self, request):",
        "    if request.get('endpoint') == '': os._exit(7)",
        "    if request.get('endpoint') == 'tcp://127.0.0.1': raise KeyError('no port')",
        "    return super()._start(request)",
        "def answer(self, request):",
        "    try: return super().answer(request)",
        "    except KeyError as error: raise Refused(f'adapter: {error}')",
    )
    with session(recorder, target) as under_test:
        endpoints.PROBE(under_test)
        assert under_test.alive()
    found = of_instances(recorder)
    assert len(found) == 2
    first, second = (begun(name, records) for name, records in found.items())
    assert first[-1].error is not None
    assert len(first) + len(second) > len(endpoints.TABLE) - 3
    assert any(start.by_adapter for start in first)


@network
def test_an_instance_that_died_does_not_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    if sandbox.ports(family="tcp6") is None:
        pytest.skip("this machine has no ::1, which the fourth entry of the table needs")
    monkeypatch.setattr(catalog, "PROBES", (live.PROBE, endpoints.PROBE))
    target = parse(
        script(
            "def _start(self, request):",
            "    if request.get('replay') == 'none': os._exit(7)",
            "    return super()._start(request)",
        )
    )
    assert not isinstance(target, TraceTarget)
    trace = run(target, Settings(limits=QUICK, mode="plain"))
    result = conclude(trace, registry.load(), registry.profile("ranks"))
    assert not result.troubles
    (ipv6,) = [line for line in result.outcomes if line.requirement == "KVW-END-015"]
    assert ipv6.verdict == "INCONCLUSIVE"
    assert "exit code 7" in ipv6.reason


@network
def test_ranks_are_heard_each_on_its_own(recorder: Recorder) -> None:
    with session(recorder, "reference:?role=publish") as under_test:
        ranks.PROBE(under_test)
    (mark,) = marks(recorder, Ranks)
    assert mark.members == {"instance-1": 0, "instance-2": 1, "instance-3": 2}
    heard = {name: sum(r.is_live for _, r in records) for name, records in of_instances(recorder).items()}
    assert all(count >= ranks.ROUNDS for count in heard.values())
    assert heard["instance-2"] < heard["instance-1"]
    assert [name for name, records in of_instances(recorder).items() if records] == list(mark.members)


@network
def test_who_knows_no_ranks_is_left_alone(recorder: Recorder) -> None:
    target = script(
        "def _start(self, request):",
        "    if request.get('rank'): raise Refused('adapter: rank 0 only')",
        "    return super()._start(request)",
    )
    with session(recorder, target) as under_test:
        ranks.PROBE(under_test)
    assert marks(recorder, Ranks) == [Ranks(members={})]
    starts = [start for name, records in of_instances(recorder).items() for start in begun(name, records)]
    assert {start.refused for start in starts if start.asked.rank} == {"adapter: rank 0 only"}


@network
@pytest.mark.parametrize("role", ["publish", "cache"])
def test_a_stop_with_much_on_its_way(recorder: Recorder, role: str) -> None:
    with session(recorder, f"reference:?role={role}") as under_test:
        stop.SATURATED(under_test)
    ((_, records),) = of_instances(recorder).items()
    (begins,) = [at for at, (_, record) in enumerate(records) if isinstance(record.detail, BurstBegins)]
    heard = sum(record.is_live for _, record in records[begins:])
    assert heard == stop.BATCHES
    counted = [call.offered or 0 for _, call in told(records, StatsCall)]
    assert counted[-1] - counted[0] == stop.BATCHES
    assert marks(recorder, Freed)[0].outcome == "free"


@network
def test_a_small_queue_is_filled_past_its_end(recorder: Recorder) -> None:
    with session(recorder, "reference:?role=publish&queue=20") as under_test:
        stop.SATURATED(under_test)
    calls = marks(recorder, BurstCall)
    assert calls
    assert all(len(call.batches) > 20 and any(call.accepted or ()) for call in calls)
