"""What can stand behind `kvwire check`, what cannot and why, and what opening gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from kvwire.attack.targets import LiveTarget, TargetError, TraceTarget, parse
from kvwire.attack.targets.adapted import AdapterTarget
from kvwire.attack.targets.endpoints import reachable
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import AdapterError, Start
from kvwire.standard.statement import Stream

OpenSocket = Callable[[int], "zmq.Socket[bytes]"]


def streams(text: str) -> tuple[Stream, ...]:
    target = parse(text)
    assert isinstance(target, ListenTarget)
    return target.statement.streams


def adapted(text: str) -> AdapterTarget:
    target = parse(text)
    assert isinstance(target, AdapterTarget)
    return target


REFUSED = {
    "": "is no target; a target is one of reference:",
    "nonsense": "is no target",
    "http://x": "is no target",
    "tcp://127.0.0.1:5557": "an endpoint is written zmq:tcp://127.0.0.1:5557",
    "missing.toml": "there is no file 'missing.toml'",
    "trace:missing": "there is no file 'missing'",
    "missing.kvtrace": "there is no file 'missing.kvtrace'",
    "missing.mcap.0001": "there is no file 'missing.mcap.0001'",
    "zmq:": "is neither tcp://HOST:PORT nor ipc://PATH",
    "zmq:tcp://host": "has no port; write tcp://host:PORT",
    "zmq:tcp://host:": "has no port",
    "zmq:tcp://:5557": "has no host; write tcp://127.0.0.1:5557",
    "zmq:tcp://host:http": "has port 'http'; a port is 1…65535",
    "zmq:tcp://host:0": "has port '0'",
    "zmq:tcp://host:65536": "has port '65536'",
    "zmq:tcp://[::1]": "has no port; write tcp://[::1]:PORT",
    "zmq:tcp://*:5557": "to reach it, write the host: tcp://127.0.0.1:5557",
    "zmq:inproc://x": "inproc reaches no other process",
    "zmq:ipc://": "has no path",
    f"zmq:ipc:///{'x' * 107}": "more than 107 bytes",
    "zmq:tcp://h:1?replay=tcp://h": "endpoint 'tcp://h' has no port",
    "zmq:tcp://h:1?replay=tcp://h:1": "is a publish endpoint too",
    "zmq:tcp://h:1?colour=red": "unknown option 'colour'; there are replay, topic, ranks, mode",
    "zmq:tcp://h:1?topic": "option 'topic' has no value",
    "zmq:tcp://h:1?topic=a&topic=b": "option 'topic' is given twice",
    "zmq:tcp://h:1?ranks=0": "an integer from 1 to 2147483647, not '0'",
    "zmq:tcp://h:1?ranks=two": "an integer from 1 to 2147483647, not 'two'",
    "zmq:tcp://h:1?mode=dial": "one of connect, bind, not 'dial'",
    "zmq:tcp://h:65535?ranks=2": "port 65535 + rank 1 is above 65535",
    "zmq:tcp://h:5557?replay=tcp://h:5558&ranks=2": "replay endpoint 'tcp://h:5558' is a publish endpoint too",
    "exec:": "names no command",
    "exec:'open": "cannot be split",
    "exec:there-is-no-such-program --now": "there is no program 'there-is-no-such-program'",
    "reference:quick": "options follow a question mark",
    "reference:?algorithm=md5": "is one of v1_block_key, ",
    "reference:?ring=0": "an integer from 1 to",
    "reference:?role=both": "one of cache, publish",
    "mutant:": "there is no mutant ''; there are ",
    "mutant:unheard-of": "there is no mutant 'unheard-of'; there are ",
}


def test_a_recording_that_is_named_as_a_target_is_sent_to_where_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    path.touch()
    with pytest.raises(TargetError, match=f"which `kvwire judge` takes; as a target it is written trace:{path}"):
        parse(str(path))


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=REFUSED)
def test_a_text_that_names_no_target_is_told_why(text: str, said: str) -> None:
    with pytest.raises(TargetError) as refusal:
        parse(text)
    assert said in str(refusal.value)


def test_one_endpoint() -> None:
    assert streams("zmq:tcp://h:5557") == (Stream(name="stream-0", endpoint="tcp://h:5557"),)
    assert streams("zmq:tcp://[::1]:5557?replay=ipc:///r&topic=kv%40pod%26x&mode=connect") == (
        Stream(name="stream-0", endpoint="tcp://[::1]:5557", replay="ipc:///r", topic="kv@pod&x"),
    )
    assert streams("zmq:tcp://*:5557?mode=bind")[0].mode == "bind"
    assert streams("zmq:tcp://h:5557?topic=")[0].topic == ""


def test_ranks_have_ports_and_suffixes_of_their_own() -> None:
    assert [(s.name, s.endpoint, s.replay, s.rank) for s in streams("zmq:tcp://h:5557?ranks=2&replay=ipc:///r")] == [
        ("rank-0", "tcp://h:5557", "ipc:///r", 0),
        ("rank-1", "tcp://h:5558", "ipc:///r_dp1", 1),
    ]


def test_a_statement_lists_its_streams(tmp_path: Path) -> None:
    path = tmp_path / "kvwire.toml"
    path.write_text(
        'algorithm = "v1_block_key"\n'
        '[[streams]]\nendpoint = "tcp://h:1"\nrank = 3\n'
        '[[streams]]\nendpoint = "ipc:///x"\nname = "mine"\n'
    )
    target = parse(str(path))
    assert isinstance(target, ListenTarget)
    assert [stream.name for stream in target.statement.streams] == ["rank-3", "mine"]
    assert target.statement.algorithm == "v1_block_key"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("edition = '1'", "it lists no stream; add [[streams]]"),
        ("colour = 'red'", "colour"),
        ("streams = 'x", "not TOML"),
        ("[[streams]]\nendpoint = 'tcp://h'", "has no port"),
        ("[[streams]]\nendpoint='tcp://h:1'\n[[streams]]\nendpoint='tcp://h:1'", "two streams have the endpoint"),
        ("".join(f"[[streams]]\nendpoint='tcp://h:{1 + at}'\n" for at in range(1025)), "1025 streams; at most 1024"),
        ("[[streams]]\nendpoint='tcp://h:1'\nrank=1\n[[streams]]\nendpoint='tcp://h:2'\nrank=1", "have the name"),
    ],
)
def test_a_statement_that_cannot_be_used_names_its_fault(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "kvwire.toml"
    path.write_text(text)
    with pytest.raises(TargetError) as refusal:
        parse(str(path))
    assert said in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_trace_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    path.touch()
    assert parse(f"trace:{path}") == TraceTarget(f"trace:{path}", path)


def test_a_command_is_split_as_a_shell_would() -> None:
    assert adapted(f"exec:{sys.executable} -c 'print(1)'").command == (sys.executable, "-c", "print(1)")


def test_options_of_the_reference_go_where_they_belong() -> None:
    target = adapted("reference:?algorithm=v2_sha256_64/u32&block_size=8&ring=100&topic=t&multimodal=true&role=publish")
    assert target.command[-5:] == ("--algorithm", "v2_sha256_64/u32", "--role", "publish", "--multimodal")
    assert target.start == Start(block_size=8, ring=100, topic="t", capacity=256)
    assert adapted("mutant:little-endian-number").command[-2:] == ("kvwire.peers.mutants", "little-endian-number")


def test_a_wildcard_that_a_publisher_reports_is_reached_on_loopback() -> None:
    assert reachable("tcp://*:5557") == reachable("tcp://0.0.0.0:5557") == "tcp://127.0.0.1:5557"
    assert reachable("tcp://[::]:5557") == "tcp://[::1]:5557"
    assert reachable("tcp://10.1.2.3:5557") == "tcp://10.1.2.3:5557"
    assert reachable("ipc:///x") == "ipc:///x"


def live(text: str) -> LiveTarget:
    target = parse(text)
    assert not isinstance(target, TraceTarget)
    return target


@pytest.mark.network
def test_the_reference_opens_driven(recorder: Recorder) -> None:
    opened = live("reference:?ring=500&block_size=4&rank=1&topic=t").open(recorder)
    try:
        (stream,) = opened.streams
        assert (stream.name, stream.topic, stream.rank) == ("rank-1", "t", 1)
        assert stream.endpoint.endswith("live_dp1")
        assert (stream.replay or "").endswith("replay_dp1")
        assert (opened.level, opened.life_from_start, opened.sets) == ("driven", True, ())
        assert {"cache", "reset", "resident", "restart"} <= set(opened.can)
        assert (opened.statement.ring, opened.statement.block_size) == (500, 4)
        assert opened.statement.streams == opened.streams
        assert [info.name for info in opened.infos] == ["rank-1"]
        assert opened.alive()
        assert "replayable" in opened.session(recorder).can
    finally:
        opened.close()
    assert not opened.alive()
    assert not Path(stream.endpoint.removeprefix("ipc://")).parent.exists()


@pytest.mark.network
def test_the_role_publish_says_what_the_harness_chooses(recorder: Recorder) -> None:
    opened = live("reference:?role=publish&replay=none").open(recorder)
    try:
        assert opened.sets == ("engine", "ts")
        assert "publish" in opened.can
        assert "cache" not in opened.can
        assert opened.streams[0].replay is None
        assert "replayable" not in opened.session(recorder).can
    finally:
        opened.close()


@pytest.mark.network
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reference:?endpoint=tcp://127.0.0.1:0", "it refused to start its publisher: endpoint 'tcp://127.0.0.1:0'"),
        ("reference:?endpoint=ipc:///nowhere/x&replay=none", "it refused to start its publisher: 'ipc:///nowhere/x'"),
        (f"exec:{sys.executable} -c pass", r"it ended (exit code 0)"),
    ],
)
def test_what_does_not_start_says_so_and_leaves_nothing(recorder: Recorder, text: str, said: str) -> None:
    with pytest.raises(AdapterError) as error:
        live(text).open(recorder)
    assert said in str(error.value)
    assert recorder.records[-1].event == "exit"


@pytest.mark.network
def test_an_endpoint_opens_passive_or_replayable(recorder: Recorder, open_socket: OpenSocket, room: Path) -> None:
    open_socket(zmq.PUB).bind(f"ipc://{room}/live")
    opened = live(f"zmq:ipc://{room}/live").open(recorder)
    assert (opened.level, opened.can, opened.sets, opened.life_from_start) == ("passive", (), (), False)
    assert opened.driver is None
    opened.close()
    assert recorder.wait(lambda: recorder.handshakes("stream-0", "live-b") == 1, 5)
    assert parse(f"zmq:ipc://{room}/live?replay=ipc://{room}/replay") is not None
