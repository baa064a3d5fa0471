"""Sockets that are closed, and rooms that are removed, whatever happens in a test."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

Peer = Callable[[int], "zmq.Socket[bytes]"]


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Open a socket of the given type, of a context of our own."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: list[zmq.Socket[bytes]] = []

    def open_one(kind: int) -> "zmq.Socket[bytes]":
        opened.append(context.socket(kind))
        opened[-1].set(zmq.LINGER, 0)
        return opened[-1]

    yield open_one
    for socket in opened:
        socket.close()
    context.term()


@pytest.fixture
def room() -> Iterator[Path]:
    """A private directory with a path short enough for ipc."""
    with tempfile.TemporaryDirectory(prefix="kvwire-") as path:
        yield Path(path)
