"""The child of a live witness: it subscribes, and hands on what it receives.

Two subscribers in one process lose the same messages, so each witness is a process of its own. It polls always, an
outage included, because a subscriber that is not polled never sends its subscription again. Monitor and data are two
sockets: after each receive the monitor is drained, and its events go before the data, so that a disconnect always
precedes what a new life sent.

``python -m kvwire.attack.witness_process`` starts it. The first line of its standard input is its ``Config``, which is
longer at times than an argument may be; it ends when its standard input does. On its standard output it writes chunks:
four bytes of length, big-endian, then a msgpack list of ``Item``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import zmq

from kvwire.attack.curve import Curve
from kvwire.attack.holding import HERE
from kvwire.attack.stalls import StallWatch
from kvwire.trace.records import weight

RCVHWM = 100_000
"""Messages that may wait in a subscriber: raised, so that a pause of this process loses nothing."""
MAXMSGSIZE = 16 * 1024 * 1024
"""The longest frame taken from a stranger, in bytes; a longer one ends its connection."""
RECONNECT_MS = 20
"""How soon a lost connection is tried again."""
KEEPALIVE_S, KEEPALIVE_EVERY_S, KEEPALIVE_TRIES = 15, 5, 3
"""A network or host that is gone without a word is noticed after 30 s: the system asks after so long a silence."""
CONNECT_MS = 5000
"""How long one attempt to connect may take; a network that swallows everything is tried again that soon."""
WAITING_BYTES = 24 * 1024 * 1024
"""How much may wait for the parent; beyond it messages are thrown away, and counted, until half of it is gone."""
HELD_BYTES = 112 * 1024 * 1024
"""By how much a witness may grow: what waits, what is being handed on, and what libzmq holds."""
CUTS = 3
"""How often a connection is ended that held too much; then it is not tried again."""
BURST = 256
"""Messages taken from one socket before the others get their turn."""
PAUSE_S = 0.005
"""How long nothing is taken, between two bursts, while what was taken is not taken off this process."""
BURST_BYTES = 1024 * 1024
"""And bytes."""
POLL_MS = 200
DRAIN_S = 2.0
"""How long it goes on handing over after it was told to end."""
LENGTH_BYTES = 4

READY = "READY"
"""The first event of every witness: its sockets are open."""
STALLED = "STALLED"
"""This process was held up, for as many milliseconds as ``text`` says."""
TROUBLE = "TROUBLE"
"""A socket could not be opened; ``text`` says why."""

HANDSHAKE_SUCCEEDED = "HANDSHAKE_SUCCEEDED"
DISCONNECTED = "DISCONNECTED"
MONITOR_EVENTS = {
    int(zmq.EVENT_HANDSHAKE_SUCCEEDED): HANDSHAKE_SUCCEEDED,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): "HANDSHAKE_FAILED_NO_DETAIL",
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): "HANDSHAKE_FAILED_PROTOCOL",
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): "HANDSHAKE_FAILED_AUTH",
    int(zmq.EVENT_DISCONNECTED): DISCONNECTED,
}
"""The events of libzmq's monitor that are recorded, under its own names."""
BEGINS = {int(zmq.EVENT_CONNECTED), int(zmq.EVENT_ACCEPTED)}
"""Those that tell the descriptor of a connection that begins."""

Socket = zmq.Socket[bytes]


class Place(msgspec.Struct, frozen=True):
    """A stream of the run: where it is, and who binds."""

    stream: str
    endpoint: str
    mode: Literal["connect", "bind"] = "connect"


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """What may wait, messages in a socket and bytes on their way to the parent, and for how long in a long outage
    between two attempts to connect (0: never longer than at first).
    """

    rcvhwm: int = RCVHWM
    waiting_bytes: int = WAITING_BYTES
    reconnect_max_ms: int = 0


PATIENCE = Patience()


class Config(msgspec.Struct, frozen=True):
    """What the child is told: the streams to subscribe to. An item names its stream by the index in ``places``."""

    places: tuple[Place, ...]
    patience: Patience = PATIENCE
    curve: Curve | None = None


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message (``frames``) or one event of a stream; ``connection`` counts the handshakes of its socket so far."""

    stream: int
    t_ns: int
    connection: int
    frames: tuple[bytes, ...] | None = None
    event: str = ""
    text: str = ""


class Monitor:
    """The monitor of a socket, as the events that matter here.

    A connection that never completed its handshake delivered nothing, so its end is no ``DISCONNECTED``.
    """

    def __init__(self, watched: Socket) -> None:
        self._watched = watched
        self.socket: Socket = watched.get_monitor_socket(sum(MONITOR_EVENTS) + sum(BEGINS))
        self.held = HERE.watch()
        self.handshakes = 0
        self.disconnects = 0
        self.cuts = 0
        """Connections that were ended for what libzmq held of them, as far as it was said."""

    def drain(self) -> list[str]:
        """The names of the events since the last call, in order."""
        names: list[str] = []
        while int(self.socket.get(zmq.EVENTS)) & zmq.POLLIN:
            frame = self.socket.recv_multipart(zmq.DONTWAIT)[0]
            event, value = (int.from_bytes(part, sys.byteorder) for part in (frame[:2], frame[2:]))
            if event in BEGINS:
                self.held.connected(value)
                continue
            name = MONITOR_EVENTS[event]
            if name == HANDSHAKE_SUCCEEDED:
                self.handshakes += 1
            elif name == DISCONNECTED:
                self.held.disconnected(value)
                if self.disconnects == self.handshakes:
                    continue
                self.disconnects += 1
            names.append(name)
        return names

    def took(self, frames: Sequence[bytes]) -> int:
        """Count a message that was taken from the socket, and return what it costs."""
        self.held.taken += 1
        self.held.taken_bytes += sum(map(len, frames)) + 2 * len(frames)
        return weight(frames)

    def said_cut(self) -> str:
        """What is to be said, once, of a connection that was ended for what libzmq held of it; empty where none was."""
        cut = self.held.cut
        if len(cut) == self.cuts:
            return ""
        self.cuts = len(cut)
        said = "the connection was ended: a message has no end, or more comes than can be read"
        return f"{said} ({cut[-1] / 1e6:.0f} MB were held)"

    def close(self) -> None:
        """Stop monitoring and close."""
        HERE.leave(self.held)
        self._watched.disable_monitor()
        self.socket.close(0)


def prepare(opened: Socket, endpoint: str, curve: Curve | None = None) -> None:
    """The options of every socket of the harness that hears strangers."""
    if curve is not None:
        curve.use(opened)
    opened.set(zmq.LINGER, 0)
    opened.set(zmq.RCVHWM, RCVHWM)
    opened.set(zmq.MAXMSGSIZE, MAXMSGSIZE)
    opened.set(zmq.RECONNECT_IVL, RECONNECT_MS)
    opened.set(zmq.CONNECT_TIMEOUT, CONNECT_MS)
    opened.set(zmq.TCP_KEEPALIVE, 1)
    opened.set(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_S)
    opened.set(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_EVERY_S)
    opened.set(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_TRIES)
    opened.set(zmq.IPV6, int("[" in endpoint))


class _Subscriber:
    def __init__(self, context: zmq.Context[Socket], index: int, place: Place, config: Config) -> None:
        patience = config.patience
        self.index = index
        self.place = place
        self.dropped = 0
        """Messages that were thrown away since it was said."""
        self.socket = context.socket(zmq.SUB)
        prepare(self.socket, place.endpoint, config.curve)
        self.socket.set(zmq.RCVHWM, patience.rcvhwm)
        self.socket.set(zmq.RECONNECT_IVL_MAX, patience.reconnect_max_ms)
        self.socket.subscribe(b"")
        self.monitor = Monitor(self.socket)
        if place.mode == "bind":
            self.socket.bind(place.endpoint)
        else:
            self.socket.connect(place.endpoint)

    def events(self, out: list[Item]) -> None:
        if names := self.monitor.drain():
            now = time.monotonic_ns()
            out.extend(Item(self.index, now, self.monitor.handshakes, event=name) for name in names)
        if said := self.monitor.said_cut():
            self._cut(said, out)

    def take(self, out: list[Item], *, keep: bool) -> tuple[int, bool]:
        """Take up to a burst of messages, thrown away unless to ``keep``: what they cost, and whether there is more."""
        cost = 0
        for _ in range(BURST):
            try:
                frames = tuple(self.socket.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return cost, False
            self.events(out)
            cost += self.monitor.took(frames)
            # Stamped after the events that stand before it, so that the times of a source never fall.
            if keep:
                out.append(Item(self.index, time.monotonic_ns(), self.monitor.handshakes, frames))
            else:
                self.dropped += 1
            if cost > BURST_BYTES:
                break
        return cost, True

    def _cut(self, said: str, out: list[Item]) -> None:
        said = f"{self.place.endpoint}: {said}"
        if self.monitor.cuts >= CUTS:
            leave = self.socket.unbind if self.place.mode == "bind" else self.socket.disconnect
            with contextlib.suppress(zmq.ZMQError):
                leave(self.place.endpoint)
            said += f", {self.monitor.cuts} times: from here on it is left alone"
        out.append(Item(self.index, time.monotonic_ns(), self.monitor.handshakes, event=TROUBLE, text=said))

    def say_dropped(self, out: list[Item]) -> None:
        if self.dropped:
            said = f"what was received was not taken fast enough here: {self.dropped} messages were thrown away"
            out.append(Item(self.index, time.monotonic_ns(), self.monitor.handshakes, event=TROUBLE, text=said))
            self.dropped = 0


class _Outbox:
    """Chunks on their way to the parent. Nothing here waits, so that a busy parent never stops the polling.

    ``full`` once more than ``most`` bytes wait, until half of them are gone.
    """

    def __init__(self, fd: int, most: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.full = False
        self._most = most
        self._bytes = 0
        self._chunks: deque[memoryview] = deque()
        self._encode = msgspec.msgpack.Encoder().encode

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def put(self, items: list[Item]) -> None:
        body = self._encode(items)
        self._chunks += (memoryview(len(body).to_bytes(LENGTH_BYTES, "big")), memoryview(body))
        self._bytes += LENGTH_BYTES + len(body)
        self.full = self._bytes > self._most

    def push(self) -> None:
        while self._chunks:
            chunk = self._chunks[0]
            try:
                written = os.write(self.fd, chunk)
            except BlockingIOError:
                return
            self._bytes -= written
            self.full = self.full and self._bytes > self._most // 2
            if written == len(chunk):
                self._chunks.popleft()
            else:
                self._chunks[0] = chunk[written:]


def _open(context: zmq.Context[Socket], config: Config, out: list[Item]) -> list[_Subscriber]:
    opened: list[_Subscriber] = []
    for index, place in enumerate(config.places):
        try:
            opened.append(_Subscriber(context, index, place, config))
        except zmq.ZMQError as error:
            out.append(Item(index, time.monotonic_ns(), 0, event=TROUBLE, text=f"{place.endpoint}: {error}"))
    out.append(Item(0, time.monotonic_ns(), 0, event=READY))
    return opened


def _turn(subscribers: Iterable[_Subscriber], outbox: _Outbox, items: list[Item]) -> set[_Subscriber]:
    """Give each its turn, and hand on what it has; return those that have more."""
    more = set()
    cost = 0
    for subscriber in subscribers:
        if not outbox.full:
            subscriber.say_dropped(items)
        taken, has_more = subscriber.take(items, keep=not outbox.full)
        if has_more:
            more.add(subscriber)
        subscriber.events(items)
        cost += taken
        if cost > BURST_BYTES:
            outbox.put(items)
            items.clear()
            cost = 0
    if items:
        outbox.put(items)
        items.clear()
    return more


def _hand_over(subscribers: list[_Subscriber], outbox: _Outbox) -> None:
    """What is there at the end, for a bounded time."""
    deadline = time.monotonic() + DRAIN_S
    items: list[Item] = []
    for subscriber in subscribers:
        subscriber.say_dropped(items)
    more = True
    while (more or outbox) and time.monotonic() < deadline:
        more = bool(_turn(subscribers, outbox, items))
        outbox.push()
        if outbox:
            time.sleep(0.001)


def run(config: Config, stdin: int, stdout: int) -> None:
    """Subscribe and hand on until ``stdin`` ends or the parent is gone."""
    context: zmq.Context[Socket] = zmq.Context()
    outbox = _Outbox(stdout, config.patience.waiting_bytes)
    items: list[Item] = []
    watch = StallWatch()
    watch.start()
    subscribers = _open(context, config, items)
    poller = zmq.Poller()
    poller.register(stdin, zmq.POLLIN)
    by_socket: dict[Socket | int, _Subscriber] = {}
    for subscriber in subscribers:
        for heard in (subscriber.socket, subscriber.monitor.socket):
            poller.register(heard, zmq.POLLIN)
            by_socket[heard] = subscriber
    more: set[_Subscriber] = set()
    try:
        while True:
            if items:
                outbox.put(items)
                items = []
            outbox.push()
            if outbox.full and select.select([stdin], [stdout], [], PAUSE_S)[0]:  # who sends too much may wait
                break
            poller.register(stdout, zmq.POLLOUT if outbox else 0)
            ready = dict(poller.poll(0 if more else POLL_MS))
            if stdin in ready:
                break
            # Of many streams few have something at a time, and to ask the others takes longer than to hear those.
            due = more | {by_socket[socket] for socket in ready.keys() & by_socket.keys()}
            more = _turn((subscriber for subscriber in subscribers if subscriber in due), outbox, items)
            while not watch.found.empty():
                stall = watch.found.get()
                items.append(Item(0, stall.ended_ns, 0, event=STALLED, text=f"{stall.ms:.1f}"))
        _hand_over(subscribers, outbox)
    except BrokenPipeError:
        return  # the parent is gone
    finally:
        watch.end()
        for subscriber in subscribers:
            subscriber.monitor.close()
        context.destroy(linger=0)


def main() -> None:
    """Run as the child of a witness."""
    # The terminal's interrupt is for the parent, which wants to hear the rest first.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    HERE.most = HELD_BYTES
    config = msgspec.json.decode(sys.stdin.buffer.readline(), type=Config)
    run(config, sys.stdin.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
