"""Replay sockets that mean harm."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import zmq

from kvwire.selftest.hostile.peers import zmtp

END = (b"", b"", b"\xff" * 8, b"")
TOPIC = b"kv-events"
Answer = Callable[[], Iterator[tuple[bytes, ...]]]


def batch(number: int, name: str | None = None) -> tuple[bytes, ...]:
    """A message of an answer."""
    event = {
        "type": "BlockStored",
        "block_hashes": [number + 1],
        "parent_block_hash": None,
        "token_ids": list(range(16)),
        "block_size": 16,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": name,
    }
    payload = msgspec.msgpack.encode([time.time(), [event], 0])
    return b"", TOPIC, struct.pack(">Q", number), payload


def _endless() -> Iterator[tuple[bytes, ...]]:
    yield from map(batch, itertools.count())


def _large() -> Iterator[tuple[bytes, ...]]:
    same = batch(0, "x" * 1_000_000)
    for number in itertools.count():
        yield (*same[:2], struct.pack(">Q", number), same[3])


def _repeated() -> Iterator[tuple[bytes, ...]]:
    yield from itertools.repeat(batch(0))


def _markers() -> Iterator[tuple[bytes, ...]]:
    yield from itertools.repeat(END)


def _mixed() -> Iterator[tuple[bytes, ...]]:
    for number in itertools.count():
        yield batch(number)
        yield END


def _drip() -> Iterator[tuple[bytes, ...]]:
    for number in itertools.count():
        yield batch(number)
        time.sleep(1)


def _garbage() -> Iterator[tuple[bytes, ...]]:
    yield from ((b"",), (b"x" * 100,), (b"", b""), (b"", b"", b"\xff" * 8), (b"", TOPIC, b"12", b"x"), (b"",) * 2000)
    yield (b"", TOPIC, os.urandom(8), os.urandom(1000))
    yield END


def _parts() -> Iterator[tuple[bytes, ...]]:
    yield (b"a",) * 500_000
    yield END


KINDS: dict[str, Answer | None] = {
    "replay-endless": _endless,
    "replay-large": _large,
    "replay-repeated": _repeated,
    "replay-markers": _markers,
    "replay-mixed": _mixed,
    "replay-drip": _drip,
    "replay-garbage": _garbage,
    "replay-parts": _parts,
    "replay-silent": lambda: iter(()),
    "replay-multipart": None,
    "replay-claim": None,
}
"""What answers a request; None: bytes by hand."""


def serve_in_background(place: str, kind: str) -> None:
    """Bind and answer."""
    if kind == "replay-multipart":
        zmtp.serve(place, _multipart)
    elif kind == "replay-claim":
        zmtp.serve(place, _claim)
    else:
        answer = KINDS.get(kind) or (lambda: iter((END,)))
        threading.Thread(target=_serve, args=(place, answer), daemon=True).start()


def _multipart(peer: socket.socket) -> None:
    zmtp.shake(peer, "ROUTER")
    peer.recv(1)
    chunk = zmtp.frame(b"x" * 60_000, more=True)
    while True:
        peer.sendall(chunk)


def _claim(peer: socket.socket) -> None:
    zmtp.shake(peer, "ROUTER")
    peer.recv(1)
    peer.sendall(b"\x02" + struct.pack(">Q", 2**30))
    while True:
        peer.sendall(bytes(100_000))


def _serve(place: str, answer: Answer) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.set(zmq.LINGER, 0)
    router.set(zmq.SNDHWM, 1000)
    router.set(zmq.ROUTER_MANDATORY, 1)
    router.bind(place)
    while True:
        client, *_ = router.recv_multipart()
        try:
            for parts in answer():
                router.send_multipart((client, *parts))
        except zmq.ZMQError:
            continue  # it has gone
