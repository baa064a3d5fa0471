"""The endpoint: what Prometheus scrapes, and whether all is well."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvwire.conclusion.watching import StreamFacts
from kvwire.watch import metrics
from kvwire.watch.beside import StreamState, Violations
from kvwire.watch.metrics import CLIENTS, STALE_S, Serving, View, _Quiet

pytestmark = pytest.mark.network

FACTS = StreamFacts(
    batches=7,
    events={"BlockStored": 5, 'odd"\n': 2},
    waiting=0,
    incarnations=1,
    gaps=0,
    missing=0,
    resident=3,
    form="map",
    function=None,
    last_number=None,
    last_t_ns=None,
)


def state(unwell: str = "") -> StreamState:
    return StreamState(target="t", stream="s", facts=FACTS, connected=True, lag_s=0.0, asked=0, unwell=unwell)


@pytest.fixture
def serving() -> Iterator[Serving]:
    serving = Serving("127.0.0.1", 0)
    yield serving
    serving.close()


def fetched(serving: Serving, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_scrape_is_read_back_whatever_a_stranger_named_his_events(serving: Serving) -> None:
    broken = Violations(target="t", stream="s", requirement="KVW-SEQ-009", level="MUST", count=4)
    serving.view = View(at=time.monotonic(), streams=[state()], violations=[broken])
    status, text = fetched(serving, "/metrics")
    samples = {
        (one.name, tuple(sorted(one.labels.values()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert status == 200
    assert samples["kvwire_violations_total", ("KVW-SEQ-009", "MUST", "s", "t")] == 4
    assert samples["kvwire_events_total", ('odd"\n', "s", "t")] == 2
    assert samples["kvwire_batches_total", ("s", "t")] == 7
    assert samples["process_resident_memory_bytes", ()] > 0
    assert not [name for name, _ in samples if name == "kvwire_last_message_age_seconds"]


def test_all_is_well_when_every_stream_is(serving: Serving) -> None:
    assert fetched(serving, "/healthz") == (503, "the watch has not begun\n")
    serving.view = View(at=time.monotonic(), streams=[state()])
    assert fetched(serving, "/healthz") == (200, "all is well\n")
    serving.view = View(at=time.monotonic(), streams=[state(), state("no connection")])
    assert fetched(serving, "/healthz") == (503, "t s: no connection\n")


def test_a_watch_that_stands_still_is_not_well(serving: Serving) -> None:
    serving.view = View(at=time.monotonic() - STALE_S - 1, streams=[state()])
    assert fetched(serving, "/healthz") == (503, "the watch itself has not looked for 31 s\n")


def test_there_is_nothing_else(serving: Serving) -> None:
    assert fetched(serving, "/")[0] == 404


def test_one_that_says_nothing_keeps_nobody_waiting(serving: Serving) -> None:
    serving.view = View(at=time.monotonic(), streams=[state()])
    with socket.create_connection(("127.0.0.1", serving.port)):
        assert fetched(serving, "/healthz")[0] == 200


def test_who_says_a_byte_now_and_then_is_let_go(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CLIENT_S", 0.5)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", serving.port), timeout=0.05) as dripping:
        dripping.sendall(b"GET /metrics HTTP/1.0\r\nX: ")
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < began + 8:
                dripping.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    assert dripping.recv(1) == b""
                    break
    assert time.monotonic() - began < 5
    assert fetched(serving, "/healthz")[0] == 503


def test_a_client_that_no_thread_was_there_for_takes_no_room(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as starved:
        starved.setattr(threading.Thread, "start", none)
        for _ in range(CLIENTS + 1):
            with socket.create_connection(("127.0.0.1", serving.port), timeout=5) as left, contextlib.suppress(OSError):
                left.recv(1)
    assert fetched(serving, "/healthz")[0] == 503


def _said(serving: Serving, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as client:
        client.sendall(request)
        return client.makefile("rb").read()


def test_who_says_nothing_leaves_or_asks_oddly_is_no_news(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Quiet, "timeout", 0.2)
    assert _said(serving, b"") == b""
    for begun in (b"GET /met", b"GET /metrics HTTP/1.0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", serving.port)) as client:
            client.sendall(begun)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    odd = b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text; version=abc\x1b[31m\r\n\r\n"
    answer = _said(serving, odd)
    assert b"500 Internal Server Error" in answer
    assert b"\x1b" not in answer
    assert fetched(serving, "/healthz")[0] == 503
    assert capfd.readouterr() == ("", "")


def test_a_crowd_takes_neither_threads_nor_files_without_end(serving: Serving) -> None:
    crowd = [socket.create_connection(("127.0.0.1", serving.port), timeout=10) for _ in range(CLIENTS + 1)]
    assert crowd[-1].recv(1) == b""
    for client in crowd:
        client.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            assert fetched(serving, "/healthz")[0] == 503
            return
    raise AssertionError("nobody is answered any more")
