"""What a watch shows to Prometheus, and whether all is well, over HTTP."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from kvwire.report.visible import visible
from kvwire.watch.beside import StreamState, Violations

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

CLIENTS = 64
"""How many are answered at once."""
CLIENT_S = 20.0
"""How long one client may take, from its connection to the end of its answer."""
STALE_S = 30.0
"""When the watch itself has not looked for so long, something is wrong with it."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """How everything stood ``at`` a second of the monotonic clock."""

    at: float
    streams: Sequence[StreamState] = ()
    violations: Sequence[Violations] = ()

    def unwell(self, now: float) -> list[str]:
        """Why not all is well; empty when it is."""
        found = [f"{one.target} {one.stream}: {one.unwell}" for one in self.streams if one.unwell]
        if now - self.at > STALE_S:
            found.append(f"the watch itself has not looked for {now - self.at:.0f} s")
        return found or ([] if self.streams else ["the watch has not begun"])


class WatchCollector(Collector):
    """The newest view as metrics. What a publisher wrote stands in no label: only names of ours, and of the targets."""

    def __init__(self, view: Callable[[], View]) -> None:
        self._view = view

    def collect(self) -> Iterable[Metric]:
        """Every metric, with a sample for each stream."""
        view = self._view()
        yield from self._gauges(view)
        yield from self._counters(view)
        broken = CounterMetricFamily(
            "kvwire_violations",
            "Occasions on which a sentence was broken.",
            labels=("target", "stream", "requirement", "level"),
        )
        for one in view.violations:
            broken.add_metric((one.target, one.stream, one.requirement, one.level), one.count)
        yield broken

    def _gauges(self, view: View) -> Iterator[Metric]:
        now = time.monotonic()
        gauges: Sequence[tuple[str, str, Callable[[StreamState], float | None]]] = (
            ("connection_up", "Whether a witness has a connection.", lambda s: s.connected),
            ("stream_well", "Whether it is heard within its own rhythm.", lambda s: not s.unwell),
            ("last_message_age_seconds", "Since the last live message.", lambda s: _age(s, now)),
            ("lag_seconds", "From the receipt of the last message until it was judged.", lambda s: s.lag_s),
            ("waiting_messages", "Messages that were received and are not settled.", lambda s: s.facts.waiting),
            ("resident_blocks", "Blocks that are known to be resident, everywhere.", lambda s: s.facts.resident),
        )
        for name, text, value in gauges:
            gauge = GaugeMetricFamily(f"kvwire_{name}", text, labels=("target", "stream"))
            for stream in view.streams:
                if (found := value(stream)) is not None:
                    gauge.add_metric((stream.target, stream.stream), float(found))
            yield gauge
        text = "The form of its events and its hash function, as far as shown."
        shown = InfoMetricFamily("kvwire_stream", text, labels=("target", "stream"))
        for stream in view.streams:
            facts = stream.facts
            shown.add_metric((stream.target, stream.stream), {"form": facts.form, "function": facts.function or ""})
        yield shown

    def _counters(self, view: View) -> Iterator[Metric]:
        counters: Sequence[tuple[str, str, Callable[[StreamState], int]]] = (
            ("batches", "Batches that were judged.", lambda s: s.facts.batches),
            ("gaps", "Ranges of numbers that nobody delivered.", lambda s: s.facts.gaps),
            ("missing_numbers", "Numbers that nobody delivered.", lambda s: s.facts.missing),
            ("incarnations", "Lives of the publisher that were heard.", lambda s: s.facts.incarnations),
            ("replay_requests", "Times the replay socket was asked.", lambda s: s.asked),
        )
        for name, text, value in counters:
            counter = CounterMetricFamily(f"kvwire_{name}", text, labels=("target", "stream"))
            for stream in view.streams:
                counter.add_metric((stream.target, stream.stream), value(stream))
            yield counter
        events = CounterMetricFamily(
            "kvwire_events", "Events that were judged, by type.", labels=("target", "stream", "type")
        )
        for stream in view.streams:
            for kind, count in stream.facts.events.items():
                events.add_metric((stream.target, stream.stream, kind), count)
        yield events


def _age(stream: StreamState, now: float) -> float | None:
    last = stream.facts.last_t_ns
    return None if last is None else now - last / 1e9


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._room = threading.BoundedSemaphore(CLIENTS)
        self._until: dict[socket.socket, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; of too many at once the last are let go, so that files stay for the watch itself."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._until[request] = time.monotonic() + CLIENT_S
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started: the next one may find one
            self._left(request)
            raise

    def _left(self, request: Any) -> None:
        del self._until[request]
        self._room.release()

    def service_actions(self) -> None:
        """Let those go that take too long, however often they say a byte."""
        now = time.monotonic()
        for request in [one for one, until in list(self._until.items()) if until < now]:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._left(request)

    def handle_error(self, *_: object) -> None:
        """A client that leaves, or says nothing, is no news."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = 10
    """A client that says nothing is let go."""

    def log_message(self, *_: object) -> None:
        """A scrape is no news."""

    def get_stderr(self) -> TextIO:
        """Nor is a client that asks and does not read."""
        return io.StringIO()


class Serving:
    """``/metrics`` and ``/healthz`` on an address, from a thread of its own.

    Raises:
        OSError: when the address cannot be bound.
    """

    def __init__(self, host: str, port: int) -> None:
        self.view = View(at=time.monotonic())
        registry = CollectorRegistry()
        registry.register(WatchCollector(lambda: self.view))
        ProcessCollector(registry=registry)
        metrics = make_wsgi_app(registry)

        def app(environ: WSGIEnvironment, answer: StartResponse) -> Iterable[bytes]:
            match environ.get("PATH_INFO"):
                case "/metrics":
                    try:
                        found: Iterable[bytes] = metrics(environ, answer)
                    except Exception as error:  # noqa: BLE001 - of the library, about headers that it cannot read
                        why = visible(f"{type(error).__name__}: {error}")
                        return _text(answer, "500 Internal Server Error", [why])
                    return found
                case "/healthz":
                    unwell = self.view.unwell(time.monotonic())
                    return _text(answer, "503 Service Unavailable" if unwell else "200 OK", unwell or ["all is well"])
                case _:
                    return _text(answer, "404 Not Found", ["/metrics and /healthz are here"])

        server = _Server6 if ":" in host else _Server
        self._server = make_server(host, port, app, server, _Quiet)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _text(answer: StartResponse, status: str, lines: Sequence[str]) -> list[bytes]:
    answer(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [("\n".join(lines) + "\n").encode()]
