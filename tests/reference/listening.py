"""Subscribers of a publisher, and the batches that they can tell apart."""

import time
from collections.abc import Callable

import zmq

from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.wire import Batch, BlockRemoved, Message, parse_live

Socket = zmq.Socket[bytes]
Peer = Callable[[int], Socket]
BOUND_MS = 5000


def note(number: int) -> Batch:
    """A batch that can be told from others by its hash."""
    return Batch(time.time(), (BlockRemoved(block_hashes=(2**40 + number,), medium="GPU"),), 0)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_MS / 1000
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def connects(client: Socket, endpoint: str) -> bool:
    with client.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED) as monitor:
        client.connect(endpoint)
        connected = bool(monitor.poll(BOUND_MS))
        client.disable_monitor()
    return connected


def subscribe(peer: Peer, publisher: ZmqPublisher, mark: int = 0) -> Socket:
    """A subscriber that is known to hear: it has heard an empty batch, and nothing more is on its way."""
    subscriber = peer(zmq.SUB)
    subscriber.set(zmq.RCVHWM, mark)
    subscriber.subscribe(b"")
    subscriber.connect(publisher.endpoint)
    deadline = time.monotonic() + BOUND_MS / 1000
    while not subscriber.poll(5):
        assert time.monotonic() < deadline
        publisher.publish(Batch(time.time(), (), publisher.rank))
    last = publisher.counters.offered - 1
    while hear(subscriber).sequence != last:
        pass
    return subscriber


def hear(subscriber: Socket) -> Message:
    assert subscriber.poll(BOUND_MS), "nothing heard"
    return parse_live(subscriber.recv_multipart())
