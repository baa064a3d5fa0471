"""A publisher that means harm: ``publisher KIND PUB [REPLAY [STREAM]]``; kinds of replay sockets are in ``replay``."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

import msgspec
import zmq

from kvwire.selftest.hostile.peers import replay
from kvwire.selftest.hostile.peers.zmtp import command, frame, message, rest, serve, shake

TOPIC = b"kv-events"
encode = msgspec.msgpack.encode
Sent = tuple[bytes, bytes, bytes, float]
"""Topic, sequence and payload of a message, and how long to wait after it."""
EVIL = "\x1b[2J\x1b[31mOWNED\x1b]0;title\x07[bold red]markup[/]\x1b]52;c;ZXZpbA==\x07\u202eRTL\r\n| FAIL |\x9b31m"


def stored(number: int, blocks: int = 1, **changed: object) -> dict[str, object]:
    """An event."""
    return {
        "type": "BlockStored",
        "block_hashes": [number * blocks + at + 1 for at in range(blocks)],
        "parent_block_hash": None,
        "token_ids": list(range(16 * blocks)),
        "block_size": 16,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **changed,
    }


def batch(*events: object, rank: object = 0) -> bytes:
    """A payload."""
    return encode([time.time(), events, rank])


def raw(events: bytes) -> bytes:
    """A payload whose events are these bytes."""
    return b"\x93\xcb" + struct.pack(">d", time.time()) + events + b"\x00"


def _array(count: int, item: bytes) -> bytes:
    return b"\xdd" + struct.pack(">I", count) + item * count


# --- payloads ----------------------------------------------------------------------------------------------------


def _twice() -> bytes:
    pairs = b"\xa4type\xabBlockStored" + b"\xa1a\x01" * 1_000_000
    return raw(b"\x91\xdf" + struct.pack(">I", 1_000_001) + pairs)


PAYLOADS: dict[str, Callable[[], bytes]] = {
    "empty-maps": lambda: raw(_array(3_900_000, b"\x80")),
    "one-key-maps": lambda: raw(_array(1_300_000, b"\x81\xa0\x01")),
    "integers": lambda: raw(b"\x91" + _array(3_900_000, b"\x01")),
    "key-twice": _twice,
    "nils": lambda: raw(_array(15_000_000, b"\xc0")),
    "bytes": lambda: raw(b"\x91\xc6" + struct.pack(">I", 15_000_000) + bytes(15_000_000)),
    "tokens": lambda: batch(stored(1, token_ids=[2**31 - 1] * 3_000_000)),
    "removed": lambda: batch({"type": "BlockRemoved", "block_hashes": list(range(1, 3_000_000)), "medium": "GPU"}),
    "many-events": lambda: batch(*(stored(at) for at in range(50_000))),
    "deep": lambda: raw(b"\x91" * 100_000 + b"\xc0"),
    "deep-maps": lambda: raw(b"\x91" + b"\x81\xa1a" * 100_000 + b"\xc0"),
    "announced": lambda: raw(b"\xdd\xff\xff\xff\xff"),
}
"""Single messages that take long to read, or much memory."""


def _same(payload: bytes) -> Iterator[Sent]:
    for number in itertools.count():
        yield TOPIC, struct.pack(">Q", number), payload, 0.5


def _flood() -> Iterator[Sent]:
    payload = batch(stored(1))
    for number in itertools.count():
        yield TOPIC, struct.pack(">Q", number), payload, 0


def _large() -> Iterator[Sent]:
    payload = batch(stored(1, lora_name="x" * 1_000_000))
    for number in itertools.count():
        yield TOPIC, struct.pack(">Q", number), payload, 0


def _topics() -> Iterator[Sent]:
    for number in itertools.count():
        yield os.urandom(16).hex().encode(), struct.pack(">Q", number), batch(stored(number)), 0.0005


def _evil() -> Iterator[Sent]:
    for number in itertools.count():
        events = stored(number, lora_name=EVIL, medium=EVIL, hash_algo=EVIL), {"type": EVIL, EVIL: EVIL}
        yield EVIL.encode(), struct.pack(">Q", number), batch(*events), 0.02


def _types() -> Iterator[Sent]:
    for number in itertools.count():
        events = [{"type": "T" + os.urandom(8).hex(), os.urandom(8).hex(): os.urandom(100)} for _ in range(50)]
        yield TOPIC, struct.pack(">Q", number), batch(*events), 0.005


def _numbers() -> Iterator[Sent]:
    while True:
        yield TOPIC, os.urandom(8), batch(stored(1)), 0.001


def _ranks() -> Iterator[Sent]:
    for number in itertools.count():
        yield TOPIC, struct.pack(">Q", number), batch(stored(number), rank=number % 2**31), 0.001


def _hashes() -> Iterator[Sent]:
    for number in itertools.count():
        yield TOPIC, struct.pack(">Q", number), batch(stored(number, blocks=500)), 0.001


def _wild() -> Iterator[Sent]:
    values: list[object] = [None, -1, 2**64 - 1, "x", b"x", [], {}, [[[]]], {"a": 1}, float("nan"), float("inf"), True]
    names = list(stored(0))
    for number in itertools.count():
        name, value = names[number % len(names)], values[number // len(names) % len(values)]
        yield TOPIC, struct.pack(">Q", number), batch({**stored(number), name: value}, value), 0.002


STREAMS: dict[str, Callable[[], Iterator[Sent]]] = {
    "flood": _flood,
    "large": _large,
    "topics": _topics,
    "evil": _evil,
    "types": _types,
    "numbers": _numbers,
    "ranks": _ranks,
    "hashes": _hashes,
    "wild": _wild,
    "honest": lambda: ((TOPIC, struct.pack(">Q", n), batch(stored(n)), 0.02) for n in itertools.count()),
    "gaps": lambda: ((TOPIC, struct.pack(">Q", n), batch(stored(n)), 0.02) for n in itertools.count() if n % 10 < 7),
}
"""Streams of messages, by a PUB of libzmq."""


def publish(place: str, sent: Iterator[Sent]) -> None:
    """Bind a PUB and send."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    out = context.socket(zmq.PUB)
    out.set(zmq.LINGER, 0)
    out.set(zmq.SNDHWM, 100)
    out.bind(place)
    _ready(place)
    time.sleep(0.5)
    for topic, sequence, payload, pause in sent:
        out.send_multipart((topic, sequence, payload))
        if pause:
            time.sleep(pause)


def frames(place: str, count: int) -> None:
    """Messages of so many frames."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    out = context.socket(zmq.PUB)
    out.set(zmq.LINGER, 0)
    out.set(zmq.SNDHWM, 20)
    out.bind(place)
    _ready(place)
    while True:
        out.send_multipart([b"a"] * count)
        time.sleep(0.2)


# --- raw bytes ---------------------------------------------------------------------------------------------------


def _endless(size: int) -> Callable[[socket.socket], None]:
    def speak(peer: socket.socket) -> None:
        shake(peer, "PUB")
        chunk = frame(b"x" * size, more=True) * max(1, 100_000 // (size + 2))
        while True:
            peer.sendall(chunk)

    return speak


def _claim(size: int, *, sends: bool) -> Callable[[socket.socket], None]:
    def speak(peer: socket.socket) -> None:
        shake(peer, "PUB")
        peer.sendall(b"\x02" + struct.pack(">Q", size))
        while sends:
            peer.sendall(bytes(100_000))
        rest()

    return speak


def _drip(peer: socket.socket) -> None:
    shake(peer, "PUB")
    for number in itertools.count():
        for byte in message(TOPIC, struct.pack(">Q", number), batch(stored(number))):
            peer.sendall(bytes([byte]))
            time.sleep(0.5)


def _commands(peer: socket.socket) -> None:
    shake(peer, "PUB")
    while True:
        peer.sendall(b"\x06" + struct.pack(">Q", 100_000) + b"\x04JOIN" + bytes(99_995))


def _pings(peer: socket.socket) -> None:
    shake(peer, "PUB")
    while True:
        peer.sendall(command(b"\x04PING\x00\x01" + b"x" * 16) * 1000)


def _vanish(peer: socket.socket) -> None:
    shake(peer, "PUB")


def _http(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad")
    peer.recv(4096)


def _accept(_: socket.socket) -> None:
    rest()


def _echo(peer: socket.socket) -> None:
    while got := peer.recv(4096):
        peer.sendall(got)


RAW: dict[str, Callable[[socket.socket], None]] = {
    "endless": _endless(60_000),
    "endless-large": _endless(1_000_000),
    "endless-empty": _endless(0),
    "claim-255": _claim(255 * 2**20, sends=False),
    "claim-exa": _claim(2**62, sends=True),
    "one-gigabyte": _claim(2**30, sends=True),
    "largest": _claim(30 * 2**20, sends=True),
    "drip": _drip,
    "commands": _commands,
    "pings": _pings,
    "vanish": _vanish,
    "http": _http,
    "accept": _accept,
    "echo": _echo,
}
"""Who speaks ZMTP by hand, or none at all."""


def _ready(*places: str) -> None:
    print("ready", *places, flush=True)


def main() -> None:
    """Attack."""
    kind, place, *others = sys.argv[1:]
    if others:
        replay.serve_in_background(others[0], kind if kind in replay.KINDS else "end")
    if kind in replay.KINDS:
        publish(place, STREAMS[others[1] if others[1:] else "honest"]())
    elif kind in RAW:
        serve(place, RAW[kind])
        _ready(place)
        rest()
    elif kind in PAYLOADS:
        publish(place, _same(PAYLOADS[kind]()))
    elif kind.startswith("frames-"):
        frames(place, int(kind.removeprefix("frames-")))
    elif kind == "mute":
        publish(place, iter(()))
        rest()
    else:
        publish(place, STREAMS[kind]())


if __name__ == "__main__":
    main()
