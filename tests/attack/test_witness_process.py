"""What a witness holds while nobody takes it, and what it says of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import zmq

from kvwire.attack.witness import Recorder
from kvwire.attack.witness_process import Item, Patience, _Outbox, prepare
from kvwire.standard.statement import Stream
from kvwire.trace.marks import Trouble, Witnesses

ITEM = Item(0, 1, 1, (b"topic", b"number", b"x" * 1000))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that nobody reads by itself."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def is_full(outbox: _Outbox) -> bool:
    return outbox.full


def test_what_waits_has_a_bound_and_goes_on_at_half_of_it(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    outbox = _Outbox(writing, 1_000_000)
    put = 0
    while not is_full(outbox):
        outbox.put([ITEM])
        outbox.push()
        put += 1
    assert 1_000 <= put <= 1_200
    taken = 0
    while is_full(outbox):
        taken += len(os.read(reading, 65_536))
        outbox.push()
    assert taken >= 450_000
    assert outbox


def test_a_socket_notices_a_network_that_is_gone() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.SUB)
    try:
        prepare(socket, "tcp://127.0.0.1:1")
        assert socket.get(zmq.TCP_KEEPALIVE) == 1
        options = (zmq.TCP_KEEPALIVE_IDLE, zmq.TCP_KEEPALIVE_INTVL, zmq.TCP_KEEPALIVE_CNT)
        assert [socket.get(option) for option in options] == [15, 5, 3]
        assert socket.get(zmq.CONNECT_TIMEOUT) == 5000
    finally:
        socket.close(0)
        context.term()


@pytest.mark.network
def test_one_that_is_read_too_slowly_says_so(open_socket: object, room: object) -> None:
    assert callable(open_socket)
    endpoint = f"ipc://{room}/live"
    publisher = open_socket(zmq.PUB)
    publisher.set(zmq.SNDHWM, 0)
    publisher.bind(endpoint)
    recorder = Recorder(patience=Patience(rcvhwm=1234, waiting_bytes=200_000))
    try:
        recorder.watch([Stream(name="s", endpoint=endpoint)])
        options = next(record.detail for record in recorder.records if isinstance(record.detail, Witnesses))
        assert options.rcvhwm == 1234

        def told() -> bool:
            return {r.detail.of for r in recorder.records if isinstance(r.detail, Trouble)} == {"live-a", "live-b"}

        number = 0
        for _ in range(50):
            for _ in range(5000):
                publisher.send_multipart((b"topic", number.to_bytes(8, "big"), b"x" * 1000))
                number += 1
            if recorder.wait(told, 0.2):
                break
        assert told()
    finally:
        recorder.close()
