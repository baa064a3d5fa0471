"""Clients of ours at other instances of a publisher, in this process: some subscribe, some only connect.

Two subscribers in one process lose the same messages, so one is enough here; what needs a second witness is not asked
of other instances.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Literal, NamedTuple

import zmq

from kvwire.attack.curve import Curve
from kvwire.attack.probes.kit.session import Session
from kvwire.attack.witness_process import HANDSHAKE_SUCCEEDED, Monitor, Socket, prepare
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import Reach, Trouble
from kvwire.trace.records import Source

BURST = 256
IMPATIENT_S = 1.0
"""How long a handshake may take once one took longer than ``handshake_s``."""
KINDS = {"SUB": zmq.SUB, "DEALER": zmq.DEALER}


class ClientEndpoint(NamedTuple):
    """An endpoint to connect to, and with which socket."""

    endpoint: str
    socket: Literal["SUB", "DEALER"]


class Subscribers:
    """The context of such clients, closed at the end with all of them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.context: zmq.Context[Socket] = zmq.Context()
        self.bound_s = session.limits.handshake_s
        self._open: list[Subscriber] = []

    def __enter__(self) -> Subscribers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for subscriber in self._open:
            subscriber.close()
        self.context.destroy(linger=0)

    def listen(self, instance: str, endpoint: str, mode: str = "connect") -> Subscriber:
        """Subscribe to an instance, or bind where it dials."""
        subscriber = Subscriber(self, instance, endpoint, mode)
        self._open.append(subscriber)
        return subscriber

    def reach(self, instance: str, endpoints: Iterable[ClientEndpoint]) -> bool:
        """Connect to every endpoint, wait for the handshakes and record them; whether all came about.

        Those that did not come about are tried again, until it is certain; the bound is short once one did not.
        """
        waiting = list(endpoints)
        for _ in self.session.attempts(instance):
            bound = self.bound_s
            missing = self._reach(waiting, bound)
            self.bound_s = IMPATIENT_S if missing else bound
            for endpoint in waiting:
                outcome: Literal["handshake", "none"] = "none" if endpoint in missing else "handshake"
                self.session.mark(Reach(**endpoint._asdict(), outcome=outcome, bound_s=bound), instance)
            waiting = [endpoint for endpoint in waiting if endpoint in missing]
            if not waiting:
                return True
        return False

    def _reach(self, endpoints: Iterable[ClientEndpoint], bound: float) -> set[ClientEndpoint]:
        """Those to which no handshake came about."""
        handshakes = {
            endpoint: _Handshake(self.context, endpoint, self.session.recorder.curve) for endpoint in endpoints
        }
        try:
            end = time.monotonic() + bound
            waiting = set(handshakes)
            poller = zmq.Poller()
            for handshake in handshakes.values():
                poller.register(handshake.monitor.socket, zmq.POLLIN)
            while waiting and (left := end - time.monotonic()) > 0 and self.session.left() > 0:
                poller.poll(max(1, int(left * 1000)))
                waiting -= {
                    endpoint for endpoint in waiting if HANDSHAKE_SUCCEEDED in handshakes[endpoint].monitor.drain()
                }
        finally:
            for handshake in handshakes.values():
                handshake.close()
        return waiting


class _Handshake:
    """A socket that connects and says nothing."""

    def __init__(self, context: zmq.Context[Socket], endpoint: ClientEndpoint, curve: Curve | None) -> None:
        self.socket: Socket = context.socket(KINDS[endpoint.socket])
        prepare(self.socket, endpoint.endpoint, curve)
        self.monitor = Monitor(self.socket)
        self.socket.connect(endpoint.endpoint)

    def close(self) -> None:
        self.monitor.close()
        self.socket.close(0)


class Subscriber:
    """A subscriber at one instance; what it takes is recorded as what a live witness saw."""

    def __init__(self, subscribers: Subscribers, instance: str, endpoint: str, mode: str) -> None:
        self.instance = instance
        self.recorder = subscribers.session.recorder
        self.socket: Socket = subscribers.context.socket(zmq.SUB)
        prepare(self.socket, endpoint, self.recorder.curve)
        self.socket.subscribe(b"")
        self.monitor = Monitor(self.socket)
        self._open = True
        if mode == "bind":
            self.socket.bind(endpoint)
        else:
            self.socket.connect(endpoint)

    @property
    def seen(self) -> int:
        """Messages so far."""
        return self.recorder.live_count(self.instance, Source.LIVE_A)

    @property
    def gone(self) -> bool:
        """Whether every connection has ended, as far as it was taken."""
        return self.monitor.disconnects >= self.monitor.handshakes

    def take(self) -> None:
        """Record what is there, events of the connection first."""
        self._events()
        for _ in range(BURST):
            try:
                frames = tuple(self.socket.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return
            self._events()
            self.monitor.took(frames)
            self.recorder.add(
                source=Source.LIVE_A,
                stream=self.instance,
                frames=frames,
                connection=self.monitor.handshakes,
            )

    def quiet(self, session: Session, quiet_s: float, since: float | None = None) -> None:
        """Take until nothing came for a while: from now on, or from when something could last be expected."""
        before, silent = self.seen, time.monotonic() if since is None else since

        def over() -> bool:
            nonlocal before, silent
            self.take()
            if self.seen != before:
                before, silent = self.seen, time.monotonic()
            return time.monotonic() - silent >= quiet_s

        session.wait(over, session.limits.settle_s)

    def _events(self) -> None:
        for event in self.monitor.drain():
            said = SocketEvent(event=event, of=Source.LIVE_A)
            self.recorder.note(said, self.instance, connection=self.monitor.handshakes)
        if cut := self.monitor.said_cut():
            self.recorder.note(Trouble(text=cut, of=Source.LIVE_A), self.instance)

    def close(self) -> None:
        """Leave."""
        if self._open:
            self._open = False
            self.monitor.close()
            self.socket.close(0)
