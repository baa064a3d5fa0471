"""CURVE: an allow-list on both sockets, and nobody else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from kvwire_reference.curve import CurveServer, KeyPair, use_curve
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, parse_live, parse_replay_answer, replay_request_frames

pytestmark = pytest.mark.network

Socket = zmq.Socket[bytes]
Peer = Callable[[int], Socket]
BOUND_MS = 5000
HANDSHAKE = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)

SERVER, FRIEND, STRANGER = KeyPair.generate(), KeyPair.generate(), KeyPair.generate()


@pytest.fixture
def publisher(room: Path) -> Iterator[ZmqPublisher]:
    config = PublisherConfig(
        endpoint=f"ipc://{room}/live",
        replay_endpoint=f"ipc://{room}/replay",
        curve=CurveServer(SERVER, frozenset({FRIEND.public})),
    )
    with ZmqPublisher(config) as started:
        yield started


def outcome(client: Socket, endpoint: str) -> int:
    """Connect, and return the event in which the handshake ends."""
    with client.get_monitor_socket(HANDSHAKE) as monitor:
        client.connect(endpoint)
        assert monitor.poll(BOUND_MS), "no handshake"
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        client.disable_monitor()
    return event


def test_a_listed_key_hears_the_stream_and_replays_it(peer: Peer, publisher: ZmqPublisher) -> None:
    subscriber, dealer = peer(zmq.SUB), peer(zmq.DEALER)
    for client in (subscriber, dealer):
        use_curve(client, SERVER.public, FRIEND)
    subscriber.subscribe(b"")
    assert publisher.replay_endpoint is not None
    assert outcome(subscriber, publisher.endpoint) == zmq.EVENT_HANDSHAKE_SUCCEEDED
    assert outcome(dealer, publisher.replay_endpoint) == zmq.EVENT_HANDSHAKE_SUCCEEDED
    while not subscriber.poll(5):
        publisher.publish(Batch(1.0, (), 0))
    assert parse_live(subscriber.recv_multipart()).sequence > 0
    dealer.send_multipart(replay_request_frames(0))
    first = parse_replay_answer(dealer.recv_multipart())
    assert first is not None
    assert first.sequence == 0


@pytest.mark.parametrize("kind", [zmq.SUB, zmq.DEALER])
def test_an_unlisted_key_is_refused(peer: Peer, publisher: ZmqPublisher, kind: int) -> None:
    client = peer(kind)
    use_curve(client, SERVER.public, STRANGER)
    endpoint = publisher.endpoint if kind == zmq.SUB else publisher.replay_endpoint
    assert endpoint is not None
    assert outcome(client, endpoint) == zmq.EVENT_HANDSHAKE_FAILED_AUTH


def test_a_client_without_curve_is_refused(peer: Peer, publisher: ZmqPublisher) -> None:
    assert outcome(peer(zmq.SUB), publisher.endpoint) != zmq.EVENT_HANDSHAKE_SUCCEEDED


def test_a_client_who_expects_another_server_is_not_served(peer: Peer, publisher: ZmqPublisher) -> None:
    client = peer(zmq.SUB)
    use_curve(client, STRANGER.public, FRIEND)
    assert outcome(client, publisher.endpoint) != zmq.EVENT_HANDSHAKE_SUCCEEDED
