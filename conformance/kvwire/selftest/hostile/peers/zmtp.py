"""ZMTP 3.1 by hand, as far as an attacker needs it: what libzmq would never send."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

GREETING = b"\xff" + bytes(7) + b"\x01\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
READY = b"\x05READY\x0bSocket-Type"
Speaker = Callable[[socket.socket], None]


def command(body: bytes) -> bytes:
    """A command frame."""
    return (b"\x04" + bytes([len(body)]) if len(body) < 256 else b"\x06" + struct.pack(">Q", len(body))) + body


def frame(body: bytes, *, more: bool = False) -> bytes:
    """A frame of a message."""
    if len(body) < 256:
        return bytes([more, len(body)]) + body
    return bytes([2 + more]) + struct.pack(">Q", len(body)) + body


def message(*parts: bytes) -> bytes:
    """A whole message."""
    return b"".join(frame(part, more=at < len(parts)) for at, part in enumerate(parts, 1))


def exactly(peer: socket.socket, count: int) -> bytes:
    """So many bytes.

    Raises:
        ConnectionError: when the peer has gone.
    """
    got = b""
    while len(got) < count:
        chunk = peer.recv(count - len(got))
        if not chunk:
            raise ConnectionError
        got += chunk
    return got


def shake(peer: socket.socket, role: str) -> None:
    """The handshake of a socket of this type, without security."""
    peer.sendall(GREETING)
    exactly(peer, 64)
    peer.sendall(command(READY + struct.pack(">I", len(role)) + role.encode()))
    _, size = exactly(peer, 2)
    exactly(peer, size)


def serve(place: str, speak: Speaker) -> None:
    """Listen at an endpoint and let ``speak`` loose on whoever comes, each in a thread of its own."""
    if place.startswith("ipc://"):
        Path(place[6:]).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(place[6:])
    else:
        host, _, port = place.removeprefix("tcp://").rpartition(":")
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
    listening.listen(64)
    threading.Thread(target=_accept, args=(listening, speak), daemon=True).start()


def _accept(listening: socket.socket, speak: Speaker) -> None:
    while True:
        peer, _ = listening.accept()
        threading.Thread(target=_spoken, args=(peer, speak), daemon=True).start()


def _spoken(peer: socket.socket, speak: Speaker) -> None:
    with contextlib.suppress(OSError), peer:
        speak(peer)


def rest() -> None:
    """Do nothing more until killed."""
    while True:
        time.sleep(60)
