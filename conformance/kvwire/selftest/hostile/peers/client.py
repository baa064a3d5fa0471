"""Clients that mean harm: ``client KIND ENDPOINT REPLAY``, until killed; says ``ready`` once it is under way."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator

import zmq

from kvwire.selftest.hostile.peers.zmtp import GREETING, command, frame, shake

Socket = zmq.Socket[bytes]
FROM_0 = (b"", bytes(8))
MALFORMED = (
    (b"",),
    (b"", b"x"),
    (b"", bytes(7)),
    (b"", bytes(9)),
    (b"x", bytes(8)),
    (b"",) * 10,
    (b"", bytes(8), b""),
    (b"", bytes(60_000)),
    (b"",) * 1000,
)
JUNK = (b"GET / HTTP/1.1\r\n\r\n", b"\xff" + bytes(8) + b"\x7f", b"\x16\x03\x01\x02\x00", bytes(4096))

_context: zmq.Context[Socket] = zmq.Context()
_context.set(zmq.MAX_SOCKETS, 16_000)


def connected(kind: int, endpoint: str, mark: int = 1000, buffer: int = -1) -> Socket:
    """A socket of libzmq."""
    made = _context.socket(kind)
    made.set(zmq.LINGER, 0)
    made.set(zmq.RCVHWM, mark)
    made.set(zmq.RCVBUF, buffer)
    if kind == zmq.SUB:
        made.subscribe(b"")
    made.connect(endpoint)
    return made


def dial(endpoint: str) -> socket.socket:
    """A connection of the system."""
    if endpoint.startswith("ipc://"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(endpoint[6:])
        return made
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)))


def pour(endpoint: str, role: str, chunks: Iterator[bytes]) -> None:
    """Send without end, over one connection after the other."""
    for chunk in chunks:
        with contextlib.suppress(OSError), dial(endpoint) as peer:
            shake(peer, role)
            peer.sendall(chunk)
            for more in chunks:
                peer.sendall(more)


def malformed(_: str, replay: str) -> None:
    """Requests that are none, as fast as they are taken."""
    dealers = [connected(zmq.DEALER, replay) for _ in range(4)]
    while True:
        for dealer in dealers:
            try:
                dealer.send_multipart(random.choice(MALFORMED), zmq.DONTWAIT)
            except zmq.Again:
                time.sleep(0.001)


def requests(_: str, replay: str) -> None:
    """Requests as fast as they are taken, and answers read."""
    dealers = [connected(zmq.DEALER, replay) for _ in range(8)]
    while True:
        for dealer in dealers:
            with contextlib.suppress(zmq.Again):
                dealer.send_multipart(FROM_0, zmq.DONTWAIT)
            with contextlib.suppress(zmq.Again):
                while True:
                    dealer.recv_multipart(zmq.DONTWAIT)


def vanishing(_: str, replay: str) -> None:
    """Clients that ask and vanish, by the thousand."""
    while True:
        dealers = [connected(zmq.DEALER, replay) for _ in range(30)]
        for dealer in dealers:
            dealer.send_multipart(FROM_0)
        time.sleep(0.03)
        for dealer in dealers:
            dealer.close()


def unread_answers(_: str, replay: str) -> None:
    """A hundred clients that ask ten times each and read nothing."""
    dealers = [connected(zmq.DEALER, replay, mark=1, buffer=4096) for _ in range(100)]
    while True:
        for dealer in dealers:
            with contextlib.suppress(zmq.Again):
                dealer.send_multipart(FROM_0, zmq.DONTWAIT)
        time.sleep(1)


def unread_stream(endpoint: str, _: str) -> None:
    """200 subscribers that read nothing."""
    held = [connected(zmq.SUB, endpoint, mark=1, buffer=2048) for _ in range(200)]
    while held:
        time.sleep(1)


def endless_request(_: str, replay: str) -> None:
    """A request without a last frame, in frames of 60 kB."""
    pour(replay, "DEALER", itertools.repeat(frame(bytes(60_000), more=True) * 4))


def endless_empty(_: str, replay: str) -> None:
    """A request without a last frame, in empty frames: 2 bytes on the wire, 64 in libzmq."""
    pour(replay, "DEALER", itertools.repeat(frame(b"", more=True) * 10_000))


def endless_upstream(endpoint: str, _: str) -> None:
    """The same to the live socket."""
    pour(endpoint, "SUB", itertools.repeat(frame(bytes(60_000), more=True) * 4))


def garbage_upstream(endpoint: str, _: str) -> None:
    """Whole messages to a socket that reads none."""
    pour(endpoint, "XSUB", (frame(os.urandom(n % 60_000)) for n in itertools.count(1, 997)))


def subscriptions(endpoint: str, _: str) -> None:
    """Subscriptions by the hundred thousand, of the shape that costs the most."""

    def prefixes() -> Iterator[bytes]:
        for first in itertools.count(0, 1000):
            yield b"".join(
                frame(b"\x01" + struct.pack(">I", (number >> 1 << 8 | 255 * (number & 1)) % 2**32))
                for number in range(first, first + 1000)
            )

    pour(endpoint, "SUB", prefixes())


def large_subscriptions(endpoint: str, _: str) -> None:
    """Subscriptions of topics of 1 MB, none like another."""
    pour(endpoint, "SUB", (frame(b"\x01" + os.urandom(1_000_000)) for _ in itertools.count()))


def strange(endpoint: str, replay: str) -> None:
    """Requests of 1 to 20 frames, names of clients of every length, and mechanisms that are not spoken."""
    names = (b"PLAIN", b"CURVE", b"\xff" * 20)
    greetings = [GREETING.replace(b"NULL" + bytes(16), name.ljust(20, b"\0")) for name in names]
    while True:
        for greeting in greetings:
            for place in (endpoint, replay):
                with contextlib.suppress(OSError), dial(place) as peer:
                    peer.sendall(greeting + command(b"\x05HELLO" + bytes(200)))
        for size in (0, 1, 20, 255, 256, 60_000):
            with contextlib.suppress(OSError), dial(replay) as peer:
                name = b"\x08Identity" + struct.pack(">I", size) + os.urandom(size)
                peer.sendall(GREETING + command(b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER" + name))
                for count in range(1, 21):
                    for at in range(count):
                        peer.sendall(frame(bytes(8 * (at == 1)), more=at < count - 1))
        time.sleep(0.001)


def giants(endpoint: str, replay: str) -> None:
    """Frames that are announced with 2^62 bytes."""
    while True:
        for place, role in ((endpoint, "SUB"), (replay, "DEALER")):
            with contextlib.suppress(OSError), dial(place) as peer:
                shake(peer, role)
                peer.sendall(b"\x03" + struct.pack(">Q", 2**62) + bytes(1000))
                peer.recv(1)


def silent(endpoint: str, replay: str) -> None:
    """Connections without a word, by the thousand, and new ones for those that end."""
    _crowd((endpoint, replay), b"")


def half_greetings(endpoint: str, replay: str) -> None:
    """The same with half a greeting."""
    _crowd((endpoint, replay), GREETING[:30])


def _crowd(places: tuple[str, ...], first: bytes) -> None:
    held: list[socket.socket] = []
    while True:
        for place in places:
            with contextlib.suppress(OSError):
                made = dial(place)
                held.append(made)
                made.sendall(first)
        if len(held) > 6000:
            for one in held[:1000]:
                one.close()
            del held[:1000]
        time.sleep(0.0005)


def junk(endpoint: str, replay: str) -> None:
    """What is no ZMTP."""
    while True:
        for place in (endpoint, replay):
            with contextlib.suppress(OSError), dial(place) as peer:
                peer.sendall(random.choice((*JUNK, os.urandom(300))))
        time.sleep(0.002)


def crowd(endpoint: str, replay: str) -> None:
    """Whole handshakes by the thousand, all kept."""
    held: list[socket.socket] = []
    while True:
        for place, role in ((endpoint, "SUB"), (replay, "DEALER")):
            with contextlib.suppress(OSError):
                made = dial(place)
                made.settimeout(0.2)
                held.append(made)
                shake(made, role)


KINDS: dict[str, Callable[[str, str], None]] = {
    kind.__name__.replace("_", "-"): kind
    for kind in (
        malformed,
        requests,
        vanishing,
        unread_answers,
        unread_stream,
        endless_request,
        endless_empty,
        endless_upstream,
        garbage_upstream,
        subscriptions,
        large_subscriptions,
        strange,
        giants,
        silent,
        half_greetings,
        junk,
        crowd,
    )
}


def main() -> None:
    """Attack."""
    kind, endpoint, replay = sys.argv[1:]
    threading.Timer(0.2, lambda: print("ready", flush=True)).start()
    KINDS[kind](endpoint, replay)


if __name__ == "__main__":
    main()
