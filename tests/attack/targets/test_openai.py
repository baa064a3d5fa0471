"""An engine driven by its own API: the whole story, what an API cannot do, and errors that name the URL."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.kit.probing import marks

from kvwire.attack.probes.kit import readiness
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TargetError, block_sizes, drive, openai, parse
from kvwire.attack.targets.openai import VOCABULARY, ApiDriver, DrivenTarget, Server
from kvwire.attack.witness import Recorder
from kvwire.cli.root import main
from kvwire.judges.verdict import Exit
from kvwire.standard.protocol import AdapterError, Refused, Unsupported
from kvwire.standard.statement import Stream
from kvwire.trace import files
from kvwire.trace.calls import CacheCall, ResetCall
from kvwire.trace.records import told

pytestmark = pytest.mark.network

Serve = Callable[..., list[str]]
Api = Callable[[dict[str, tuple[int, str]]], Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve the reference behind an API, in a child; returns the arguments of ``kvwire`` that it prints."""
    with ExitStack() as stack:

        def start(*arguments: str) -> list[str]:
            command = (sys.executable, "-m", "kvwire.peers.openai", *arguments)
            child = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert child.stdin is not None
            assert child.stdout is not None
            stack.callback(child.wait, 20)
            stack.callback(child.stdin.close)
            return shlex.split(child.stdout.readline())[1:]

        yield start


@pytest.fixture
def api() -> Iterator[Api]:
    """A server that answers each ``METHOD path`` with a status and a body, and everything else with 404."""
    with ExitStack() as stack:

        def start(answers: dict[str, tuple[int, str]]) -> Server:
            class Handler(BaseHTTPRequestHandler):
                def answer(self) -> None:
                    self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    status, text = answers.get(f"{self.command} {self.path}", (404, "nothing here"))
                    self.send_response(status)
                    if status == 302:
                        self.send_header("Location", text)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text.encode())

                do_GET = do_POST = do_OPTIONS = answer  # noqa: N815

                def log_message(self, *_: object) -> None:
                    pass

            server = stack.enter_context(HTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(server.shutdown)
            return Server(f"http://127.0.0.1:{server.server_address[1]}/v1")

        yield start


def of(arguments: list[str]) -> Server:
    return Server(arguments[-1].removeprefix("openai:"))


MODELS = json.dumps({"data": [{"id": "adapter", "parent": "base"}, {"id": "base"}]})


@pytest.mark.slow
def test_an_engine_driven_by_its_api_is_conformant_at_the_driven_level(serve: Serve, tmp_path: Path) -> None:
    arguments = serve()
    recording, results = tmp_path / "run.kvtrace", tmp_path / "run.json"
    done = CliRunner().invoke(
        main, [*arguments, "--record", str(recording), "--json", str(results)], standalone_mode=False
    )
    assert done.return_value == Exit.CONFORMANT, done.output
    recorded = files.read(recording)
    assert (recorded.header.level, recorded.header.can) == ("driven", ("cache", "reset"))
    prompts = [prompt for _, prompt in told(enumerate(recorded.records), CacheCall)]
    assert any(prompt.salt for prompt in prompts)
    assert any(prompt.lora for prompt in prompts)
    assert any(prompt.cached_tokens for prompt in prompts)
    tokens = {token for prompt in prompts if prompt.succeeded for token in prompt.tokens}
    assert all(isinstance(token, int) and token <= VOCABULARY.stop for token in tokens)
    assert [prompt.refused for prompt in prompts if not prompt.succeeded] == [
        "prompts of this API are text tokens; it takes no multimodal items"
    ]
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    again = shlex.join(["kvwire", "check", *arguments[1:], "--profile", "replay"])
    assert [line["reproduce"] for line in lines if "reproduce" in line] == [again]
    verdicts = {line["requirement"]: line["verdict"] for line in lines if "verdict" in line and "requirement" in line}
    for requirement in ("KVW-HSH-001", "KVW-HSH-005", "KVW-RES-006"):
        assert verdicts[requirement] == "PASS", requirement
    for requirement in ("KVW-RES-003", "KVW-RES-013"):  # no API says what its engine holds
        assert verdicts[requirement] == "NOT-APPLICABLE", requirement


def driven(arguments: list[str]) -> DrivenTarget:
    return drive(parse(arguments[1]), arguments[-1])


def test_no_two_runs_ask_an_engine_the_same(serve: Serve) -> None:
    """It goes on after a run, and announces nothing of what it still has."""
    target = driven(serve())
    once, again = (
        {prompt.tokens for _, prompt in told(enumerate(run(target, Settings(probes=("live",))).records), CacheCall)}
        for _ in range(2)
    )
    assert once
    assert again
    assert not once & again


@pytest.mark.parametrize("size", [1, 16, 64])
def test_the_size_of_a_block_is_what_the_stream_says(serve: Serve, recorder: Recorder, size: int) -> None:
    opened = driven(serve("--block-size", str(size))).open(recorder)
    assert opened.session(recorder).block_size == size
    assert readiness.prime(opened.session(recorder))


def test_what_is_declared_is_not_asked_for(serve: Serve, recorder: Recorder) -> None:
    target = driven(serve())
    declared = msgspec.structs.replace(target.target.statement, block_size=48)
    listening = dataclasses.replace(target.target, statement=declared)
    opened = dataclasses.replace(target, target=listening).open(recorder)
    assert opened.session(recorder).block_size == 48
    assert not marks(recorder, CacheCall)


def test_a_stream_that_says_nothing_leaves_the_size_open(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer prompts than an engine takes are no reason to give up, and nobody is asked before there is a handshake."""
    monkeypatch.setattr(block_sizes, "BOUND_S", 0.5)
    asked: list[int] = []

    def short(tokens: Sequence[int]) -> None:
        asked.append(len(tokens))
        if len(tokens) > 32:
            raise Refused("at most 32 tokens")

    recorder.watch((Stream(name="nobody", endpoint="ipc://nowhere"),))
    assert block_sizes.block_size(recorder, "nobody", VOCABULARY, short) is None
    assert not asked
    monkeypatch.setattr(block_sizes, "AGAIN_S", 0.01)
    with pytest.MonkeyPatch.context() as handshake:
        handshake.setattr(recorder, "handshakes", lambda *_: 1)
        assert block_sizes.block_size(recorder, "nobody", VOCABULARY, short) is None
    assert asked[:9] == [*block_sizes.LENGTHS, 16, 32]


def test_what_a_server_knows_is_seen_and_not_assumed(serve: Serve, recorder: Recorder) -> None:
    with_all = ApiDriver(of(serve("--reset", "sglang")), recorder, "s")
    assert with_all.can == {"cache", "reset"}
    with_all.reset()
    assert with_all.cache(list(range(32))).cached_tokens == 0
    assert with_all.cache(list(range(32))).cached_tokens == 32
    assert with_all.cache(list(range(32)), salt="a").cached_tokens == 0
    assert with_all.cache(list(range(32)), lora="7").cached_tokens == 0
    with pytest.raises(Refused, match=r"/v1/models lists no model 'lora-8'"):
        with_all.cache([1], lora="8")
    with_little = ApiDriver(of(serve("--reset", "none", "--no-salts")), recorder, "s")
    assert with_little.can == {"cache"}
    with pytest.raises(Unsupported):
        with_little.reset()
    with pytest.raises(Refused, match=r"/openapi\.json knows no cache_salt"):
        with_little.cache([1], salt="a")
    with pytest.raises(Unsupported):
        with_little.restart()
    reset, first, *_, last = [record.detail for record in recorder.records]
    assert (reset, first) == (ResetCall(), CacheCall(tokens=tuple(range(32)), cached_tokens=0))
    assert isinstance(last, CacheCall)
    assert (last.succeeded, last.salt, last.tokens) == (False, "a", (1,))


def test_a_server_that_says_little_is_driven_all_the_same(api: Api, recorder: Recorder) -> None:
    server = api({"GET /v1/models": (200, MODELS), "POST /v1/completions": (200, "{}")})
    driver = ApiDriver(server, recorder, "s")
    assert driver.model == "base"
    assert driver.can == {"cache"}
    assert driver.cache([1, 2]).cached_tokens is None


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((400, "token 7 is out of range"), Refused, r"/v1/completions answered with HTTP status 400: token 7 is out"),
        ((500, "no memory"), AdapterError, r"/v1/completions answered with HTTP status 500: no memory"),
        ((401, ""), AdapterError, r"HTTP status 401$"),
        ((302, "http://192.0.2.1/elsewhere"), AdapterError, r"/v1/completions answered with HTTP status 302"),
        ((200, "<html>"), AdapterError, r"/v1/completions: not the answer of a completion"),
    ],
)
def test_an_error_says_status_and_url(
    api: Api, recorder: Recorder, answer: tuple[int, str], error: type[Exception], says: str
) -> None:
    driver = ApiDriver(api({"GET /v1/models": (200, MODELS), "POST /v1/completions": answer}), recorder, "s")
    with pytest.raises(error, match=says):
        driver.cache([1, 2])
    (call,) = marks(recorder, CacheCall)
    assert (call.tokens, call.cached_tokens) == ((1, 2), None)
    assert ((call.refused is None), (call.error is None)) == (error is not Refused, error is Refused)


class Turns(dict[str, Any]):
    """Answers of which a list gives one after the other, and the last one from then on."""

    def get(self, key: str, default: Any = None) -> Any:
        value = super().get(key, default)
        if not isinstance(value, list):
            return value
        return value.pop(0) if len(value) > 1 else value[0]


MADE, BUSY = (200, '{"success": true}'), (200, '{"success": false}')
FLUSHED, WAITING = (200, "Cache flushed."), (400, "Flush cache failed: requests are running.")


@pytest.mark.parametrize(
    ("route", "answers", "says"),
    [
        ("/reset_prefix_cache", [MADE], ""),
        ("/reset_prefix_cache", [BUSY, BUSY, MADE], ""),
        ("/reset_prefix_cache", [BUSY], r'/reset_prefix_cache answered \{"success": false\}'),
        ("/flush_cache", [WAITING, FLUSHED], ""),
        ("/flush_cache", [WAITING], r"/flush_cache answered with HTTP status 400: Flush cache failed"),
    ],
)
def test_a_reset_that_was_not_made_is_asked_for_again(
    api: Api,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    route: str,
    answers: list[tuple[int, str]],
    says: str,
) -> None:
    """An engine answers so while it runs somebody's request; a reset that is none must not be waited for to show."""
    monkeypatch.setattr(openai, "RESET_S", 0.5)
    monkeypatch.setattr(openai, "RESET_AGAIN_S", 0.01)
    known = {"GET /v1/models": (200, MODELS), f"OPTIONS {route}": (405, ""), f"POST {route}": answers}
    driver = ApiDriver(api(Turns(known)), recorder, "s")
    with pytest.raises(Refused, match=says) if says else nullcontext():
        driver.reset()
    assert [call.succeeded for call in marks(recorder, ResetCall)] == [not says]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((404, ""), r"/v1/models answered with HTTP status 404; is it the base of an OpenAI-compatible API"),
        ((200, "[]"), r"/v1/models: not a list of models"),
        ((200, '{"data": []}'), r"/v1/models: it lists no model"),
    ],
)
def test_a_url_that_is_no_api_is_said_at_once(api: Api, recorder: Recorder, answer: tuple[int, str], says: str) -> None:
    with pytest.raises(AdapterError, match=says):
        ApiDriver(api({"GET /v1/models": answer}), recorder, "s")


def _one_byte_at_a_time(peer: socket.socket) -> None:
    while True:
        peer.sendall(b" ")
        time.sleep(0.05)


def _leave(_: socket.socket) -> None:
    pass


def _reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("begin", "then", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", _one_byte_at_a_time, "no answer: none within 1 s"),
        (b"HTTP/1.1 200 OK\r\nX: ", _one_byte_at_a_time, "no answer: none within 1 s"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 9999\r\n\r\n", _one_byte_at_a_time, "no answer: none within 1 s"),
        (b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", _reset, "no answer: "),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(5_000_000), _leave, "more than 4194304 bytes"),
    ],
)
def test_an_answer_that_never_ends_or_breaks_off_is_an_error_in_time(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, then: Callable[[socket.socket], None], says: str
) -> None:
    monkeypatch.setattr(openai, "ANSWER_S", 1.0)

    def answer() -> None:
        peer, _ = listening.accept()
        with contextlib.suppress(OSError), peer:
            peer.recv(4096)
            peer.sendall(begin)
            then(peer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(AdapterError, match=says):
            Server(f"http://127.0.0.1:{listening.getsockname()[1]}/v1").models()


def test_nobody_there_is_an_error_that_names_the_url(room: Path) -> None:
    arguments = ["check", f"zmq:ipc://{room}/live", "--drive", "openai:http://127.0.0.1:1/v1"]
    done = CliRunner().invoke(main, arguments, standalone_mode=False)
    assert done.return_value == Exit.ERROR
    assert "GET http://127.0.0.1:1/v1/models: no answer" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("target", "text", "says"),
    [
        ("reference:", "openai:http://127.0.0.1:1/v1", "'reference:' is not driven by an API"),
        ("zmq:ipc:///x", "http://127.0.0.1:1/v1", "write openai:http://HOST:PORT/v1"),
        ("zmq:ipc:///x", "openai:file:///etc/hosts", "write openai:http://HOST:PORT/v1"),
        ("zmq:ipc:///x", "openai:http:///v1", "write openai:http://HOST:PORT/v1"),
        ("zmq:ipc:///x", "openai:http://127.0.0.1:1/v1?a=1", "without"),
        ("zmq:ipc:///x", "openai:http://127.0.0.1:99999/v1", "write openai:http://HOST:PORT/v1"),
        ("zmq:ipc:///x", "openai:http://127.0.0.1:abc/v1", "write openai:http://HOST:PORT/v1"),
        ("zmq:ipc:///x", "openai:http://[::1/v1", "write openai:http://HOST:PORT/v1"),
        ("zmq:ipc:///x", "openai:http://127.0.0.1:1/\xe9\udcff", "write openai:http://HOST:PORT/v1"),
    ],
)
def test_what_cannot_be_driven_so_is_refused(target: str, text: str, says: str) -> None:
    with pytest.raises(TargetError, match=says):
        drive(parse(target), text)
