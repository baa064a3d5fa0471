"""What clients can make a publisher hold is bounded, and those who keep to it notice nothing."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq
from tests.reference.listening import Peer, hear, note, subscribe, until

from kvwire.selftest.hostile.peers import client
from kvwire.selftest.hostile.peers.zmtp import GREETING, frame, message, shake
from kvwire_reference.curve import CurveServer, KeyPair
from kvwire_reference.guard import ClientLimits, GuardCounters
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, BlockRemoved, parse_replay_answer, replay_request_frames

pytestmark = pytest.mark.network

BOUND_S = 10
MOST_BYTES = 50_000_000
"""What an attacker may get rid of before its connection ends; it would send this much in a fraction of a second."""


def publishing(**limits: object) -> ZmqPublisher:
    return ZmqPublisher(
        PublisherConfig(
            endpoint="tcp://127.0.0.1:0",
            replay_endpoint="tcp://127.0.0.1:0",
            ephemeral=True,
            client_limits=ClientLimits(**limits),  # type: ignore[arg-type]
        )
    )


@pytest.fixture
def dial() -> Iterator[Callable[[str | None], socket.socket]]:
    opened: list[socket.socket] = []

    def connect(endpoint: str | None) -> socket.socket:
        assert endpoint is not None
        opened.append(client.dial(endpoint))
        opened[-1].settimeout(BOUND_S)
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


Dial = Callable[[str | None], socket.socket]


def ended(connection: socket.socket) -> bool:
    """Whether the other side ends it in time."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def poured(connection: socket.socket, chunk: bytes) -> int:
    """How many bytes go before the other side ends the connection or takes no more, of `MOST_BYTES`."""
    connection.settimeout(1.0)
    sent = 0
    try:
        while sent < MOST_BYTES:
            sent += connection.send(chunk)
    except (ConnectionError, TimeoutError):
        pass
    return sent


def answered(peer: Peer, publisher: ZmqPublisher) -> bool:
    dealer = peer(zmq.DEALER)
    assert publisher.replay_endpoint is not None
    dealer.connect(publisher.replay_endpoint)
    dealer.send_multipart(replay_request_frames(0))
    while dealer.poll(1000 * BOUND_S):
        if parse_replay_answer(dealer.recv_multipart()) is None:
            return True
    return False


@pytest.mark.parametrize(
    ("role", "chunk"),
    [
        pytest.param("DEALER", frame(bytes(60_000), more=True), id="a request without end"),
        pytest.param("DEALER", frame(b"", more=True) * 10_000, id="a request of empty frames"),
        pytest.param("SUB", frame(bytes(60_000), more=True), id="a message without end to the live socket"),
    ],
)
def test_who_sends_without_end_is_ended_and_nobody_else(peer: Peer, dial: Dial, role: str, chunk: bytes) -> None:
    with publishing() as publisher:
        subscriber = subscribe(peer, publisher)
        number = publisher.counters.offered
        attacker = dial(publisher.replay_endpoint if role == "DEALER" else publisher.endpoint)
        shake(attacker, role)
        assert poured(attacker, chunk) < MOST_BYTES
        until(lambda: publisher.guard_counters == GuardCounters(flooding=1))
        publisher.publish(note(number))
        assert hear(subscriber).sequence == number
        assert answered(peer, publisher)


def test_subscriptions_without_end_are_taken_a_few_between_two_batches_and_then_end(peer: Peer, dial: Dial) -> None:
    chunk = b"".join(frame(b"\1" + number.to_bytes(4, "big")) for number in range(50_000))
    with publishing(unread_bytes=3_000) as publisher:
        subscriber = subscribe(peer, publisher)
        attacker = dial(publisher.endpoint)
        shake(attacker, "SUB")
        assert poured(attacker, chunk) < MOST_BYTES
        deadline = time.monotonic() + 60  # a window of TCP that was closed opens late
        number = publisher.counters.offered
        while not publisher.guard_counters.flooding and time.monotonic() < deadline:
            publisher.publish(note(number))
            assert hear(subscriber).sequence == number
            number += 1
            with suppress(OSError):
                attacker.send(chunk, socket.MSG_DONTWAIT)
        assert publisher.guard_counters == GuardCounters(flooding=1)


def test_what_the_application_took_does_not_count(dial: Dial) -> None:
    with publishing(unread_bytes=10_000) as publisher:
        client = dial(publisher.replay_endpoint)
        shake(client, "DEALER")
        for _ in range(100):
            client.sendall(message(bytes(1000), b"malformed"))
            time.sleep(0.001)
        until(lambda: publisher.replay_counters.malformed == 100)
        time.sleep(0.1)
        assert publisher.guard_counters == GuardCounters()


def test_of_connections_without_a_handshake_the_oldest_ends(peer: Peer, dial: Dial) -> None:
    with publishing(connections=8, handshake=60.0) as publisher:
        subscriber = subscribe(peer, publisher)
        silent = [dial(publisher.endpoint) for _ in range(20)]
        for connection in silent[:13]:
            assert ended(connection)
        until(lambda: publisher.guard_counters == GuardCounters(crowded=13))
        second = subscribe(peer, publisher)
        number = publisher.counters.offered
        publisher.publish(note(number))
        assert hear(second).sequence == number
        while hear(subscriber).sequence != number:
            pass


def test_over_ipc_who_is_there_for_longer_than_a_handshake_stays(peer: Peer, dial: Dial, room: Path) -> None:
    limits = ClientLimits(connections=4, handshake=0.5)
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", client_limits=limits)) as publisher:
        subscriber = subscribe(peer, publisher)
        time.sleep(2 * limits.handshake)
        silent = [dial(publisher.endpoint) for _ in range(10)]
        assert ended(silent[0])
        until(lambda: publisher.guard_counters.crowded == 7)
        number = publisher.counters.offered
        publisher.publish(note(number))
        assert hear(subscriber).sequence == number


def test_where_all_have_shaken_hands_the_newest_ends(peer: Peer, dial: Dial) -> None:
    with publishing(connections=3) as publisher:
        subscriber = subscribe(peer, publisher)
        kept = [dial(publisher.endpoint) for _ in range(2)]
        for connection in kept:
            shake(connection, "SUB")
        assert ended(dial(publisher.endpoint))
        number = publisher.counters.offered
        publisher.publish(note(number))
        assert hear(subscriber).sequence == number


def test_a_handshake_takes_its_time_at_most(dial: Dial) -> None:
    with publishing(handshake=0.2) as publisher:
        for endpoint in (publisher.endpoint, publisher.replay_endpoint):
            half = dial(endpoint)
            half.sendall(GREETING[:20])
            assert ended(half)


def test_a_subscriber_that_takes_nothing_is_ended_and_one_that_reads_is_not(peer: Peer, dial: Dial) -> None:
    with publishing(patience=0.3) as publisher:
        subscriber = subscribe(peer, publisher)
        stuck = dial(publisher.endpoint)
        shake(stuck, "SUB")
        stuck.sendall(frame(b"\1"))
        deadline = time.monotonic() + BOUND_S
        while not publisher.guard_counters.stuck and time.monotonic() < deadline:
            publisher.publish(Batch(1.0, note(0).events * 5000, 0))
            hear(subscriber)
        assert publisher.guard_counters == GuardCounters(stuck=1)


def test_a_client_that_reads_no_answer_is_not_given_more_than_its_share(peer: Peer) -> None:
    with publishing() as publisher:
        for _ in range(100):
            publisher.publish(Batch(1.0, (BlockRemoved(block_hashes=(2**40,) * 100_000, medium="GPU"),), 0))
        until(lambda: publisher.counters.sent == publisher.counters.offered)
        server = publisher._replay
        assert server is not None
        assert server.door is not None
        share, batch = server._share(), len(server._ring._entries[-1].frames[-1])
        slow = peer(zmq.DEALER)
        slow.set(zmq.RCVHWM, 1)
        slow.set(zmq.RCVBUF, 4096)
        slow.connect(str(publisher.replay_endpoint))
        slow.send_multipart(replay_request_frames(0))
        until(lambda: bool(server._clients))
        time.sleep(0.3)
        connection = next(iter(server.door.connections.values()))
        assert 0 < connection.given - connection.acknowledged < share + 2 * batch
        assert connection.given < 90 * batch
        assert answered(peer, publisher)


def test_a_peer_of_zmtp_1_is_no_trouble(peer: Peer, dial: Dial) -> None:
    with publishing() as publisher:
        old = dial(publisher.replay_endpoint)
        old.sendall(b"\x01\x00" + b"\x06\x00hello" * 3)
        until(lambda: publisher.replay_counters.malformed > 0)
        assert answered(peer, publisher)


def test_a_descriptor_that_is_not_the_sockets_is_left_alone(peer: Peer) -> None:
    with publishing() as publisher:
        subscribe(peer, publisher)
        door = publisher._guard._doors[0]
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
            door.end(ours.fileno())
            door.end(sys.stderr.fileno())
            accepted, _ = server.accept()
            with accepted:
                ours.sendall(b"still there")
                assert accepted.recv(100) == b"still there"


def test_credit_is_not_kept(dial: Dial) -> None:
    """A descriptor is used again: what was taken late of the connection before is not the next one's."""
    with publishing() as publisher:
        client = dial(publisher.replay_endpoint)
        shake(client, "DEALER")
        until(lambda: any(door.connections for door in publisher._guard._doors))
        door = next(door for door in publisher._guard._doors if door.connections)
        [fd] = door.connections
        door.took(fd, 1_000_000)
        until(lambda: door.connections[fd].taken == door.connections[fd].received)


def test_under_curve_a_handshake_is_longer(dial: Dial) -> None:
    keys = KeyPair.generate()
    config = PublisherConfig(
        endpoint="tcp://127.0.0.1:0",
        ephemeral=True,
        curve=CurveServer(keys, frozenset({keys.public})),
        client_limits=ClientLimits(connections=2, handshake=60.0),
    )
    with ZmqPublisher(config) as publisher:
        first, *_ = [dial(publisher.endpoint) for _ in range(2)]
        first.sendall(GREETING.replace(b"NULL\0", b"CURVE") + b"\4\xc8\5HELLO" + bytes(100))
        until(lambda: len(publisher._guard._doors[0].connections) == 2)
        time.sleep(0.1)
        dial(publisher.endpoint)
        assert ended(first)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("allowed", [False, True])
def test_over_ipc_nobody_of_another_user_connects_unless_allowed(room: Path, allowed: bool) -> None:
    room.chmod(0o755)
    limits = ClientLimits(ipc_users=frozenset({65534} if allowed else ()))
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", client_limits=limits)):
        (room / "live").chmod(0o777)
        script = f"import os, socket; os.setuid(65534); c = socket.socket(socket.AF_UNIX); c.settimeout({BOUND_S}); "
        script += f"c.connect({str(room / 'live')!r}); print(len(c.recv(10)))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=30)
        assert int(done.stdout) == 10 * allowed
