"""Replay: all of it, in order, to the slow as to the quick, and never at the expense of the live stream."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Entry, ReplayCounters, ReplayLimits, ReplayServer, Ring
from kvwire_reference.wire import (
    END_SEQUENCE,
    Batch,
    BlockRemoved,
    live_frames,
    parse_live,
    parse_replay_answer,
    replay_request_frames,
)

pytestmark = pytest.mark.network

Socket = zmq.Socket[bytes]
Peer = Callable[[int], Socket]
BOUND_MS = 5000
SILENCE_MS = 100

LARGE = (BlockRemoved(block_hashes=(2**40,) * 600, medium="GPU"),)
"""Events of 5 KiB: a few dozen of these batches fill every buffer between publisher and client."""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_MS / 1000
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def retain(publisher: ZmqPublisher, count: int) -> None:
    """Publish `count` large batches and wait until they are in the ring."""
    for _ in range(count):
        assert publisher.publish(Batch(time.time(), LARGE, 0))
    until(lambda: publisher.counters.sent == publisher.counters.offered)


def replaying(room: Path, **config: object) -> ZmqPublisher:
    return ZmqPublisher(
        PublisherConfig(endpoint=f"ipc://{room}/live", replay_endpoint=f"ipc://{room}/replay", **config)  # type: ignore[arg-type]
    )


def client(peer: Peer, publisher: ZmqPublisher, mark: int = 0) -> Socket:
    dealer = peer(zmq.DEALER)
    dealer.set(zmq.RCVHWM, mark)
    assert publisher.replay_endpoint is not None
    dealer.connect(publisher.replay_endpoint)
    return dealer


def answer(dealer: Socket) -> tuple[list[int], bool]:
    """Read one answer: its numbers, and whether the end marker came before silence."""
    numbers: list[int] = []
    while dealer.poll(BOUND_MS if not numbers else 10 * SILENCE_MS):
        message = parse_replay_answer(dealer.recv_multipart())
        if message is None:
            return numbers, True
        numbers.append(message.sequence)
    return numbers, False


def stalled(publisher: ZmqPublisher) -> bool:
    """Whether a client is being served and has taken nothing for a while: every buffer is full."""
    server = publisher._replay
    assert server is not None
    clients = list(server._clients.values())
    return bool(clients) and all(time.monotonic() - one.moved_at > 0.05 for one in clients)


# What is answered


def test_an_answer_is_the_live_stream_frame_for_frame_and_an_end_marker(peer: Peer, room: Path) -> None:
    with replaying(room, topic="kv") as publisher:
        subscriber = peer(zmq.SUB)
        subscriber.subscribe(b"")
        subscriber.connect(publisher.endpoint)
        while not subscriber.poll(5):
            publisher.publish(Batch(time.time(), (), 0))
        retain(publisher, 10)
        live = [subscriber.recv_multipart()]
        while parse_live(live[-1]).sequence != publisher.counters.offered - 1:
            live.append(subscriber.recv_multipart())
        dealer = client(peer, publisher)
        dealer.send_multipart(replay_request_frames(parse_live(live[0]).sequence))
        for frames in live:
            assert dealer.recv_multipart() == [b"", *frames]
        assert dealer.recv_multipart() == [b"", b"", END_SEQUENCE, b""]
        assert not dealer.poll(SILENCE_MS)


def test_an_answer_begins_where_it_was_asked_to(peer: Peer, room: Path) -> None:
    with replaying(room) as publisher:
        retain(publisher, 9)
        dealer = client(peer, publisher)
        for start in (0, 4, 9, 10, 2**63):
            dealer.send_multipart(replay_request_frames(start))
            assert answer(dealer) == (list(range(start, 10)), True)
        dealer.send_multipart([b"", END_SEQUENCE])
        assert answer(dealer) == ([], True)


def test_nothing_retained_is_an_end_marker_alone(peer: Peer, room: Path) -> None:
    with replaying(room, clear_first=False) as publisher:
        dealer = client(peer, publisher)
        dealer.send_multipart(replay_request_frames(0))
        assert answer(dealer) == ([], True)


def test_a_lost_number_is_a_hole_in_the_answer_and_an_evicted_one_too(peer: Peer, room: Path) -> None:
    with replaying(room, ring=4) as publisher:
        retain(publisher, 3)
        publisher.publish(Batch(float("nan"), (), 0))
        publisher.publish(Batch(1.0, (), 0))
        until(lambda: publisher.counters.sent == 5)
        dealer = client(peer, publisher)
        dealer.send_multipart(replay_request_frames(0))
        assert answer(dealer) == ([1, 2, 3, 5], True)


def test_requests_of_one_client_are_answered_one_after_the_other(peer: Peer, room: Path) -> None:
    with replaying(room) as publisher:
        retain(publisher, 50)
        dealer = client(peer, publisher)
        for start in (0, 40, 20):
            dealer.send_multipart(replay_request_frames(start))
        assert [answer(dealer) for _ in range(3)] == [(list(range(start, 51)), True) for start in (0, 40, 20)]


MALFORMED = {
    "no frame but the delimiter": [b""],
    "no delimiter": [bytes(8)],
    "three frames": [b"", bytes(8), b""],
    "a delimiter that is not empty": [b"x", bytes(8)],
    "an empty start": [b"", b""],
    "a start of seven bytes": [b"", bytes(7)],
    "a start of nine bytes": [b"", bytes(9)],
    "thousands of frames": [b""] * 5000,
}


@pytest.mark.parametrize("frames", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_meets_silence_and_the_next_one_is_served(
    peer: Peer, room: Path, frames: list[bytes]
) -> None:
    with replaying(room) as publisher:
        dealer = client(peer, publisher)
        dealer.send_multipart(frames)
        until(lambda: publisher.replay_counters.malformed == 1)
        assert not dealer.poll(20)
        dealer.send_multipart(replay_request_frames(0))
        assert answer(dealer) == ([0], True)
        until(lambda: publisher.replay_counters == ReplayCounters(answered=1, malformed=1))


def test_an_oversized_request_ends_its_connection_and_harms_no_other(peer: Peer, room: Path) -> None:
    with replaying(room) as publisher:
        huge, fair = client(peer, publisher), client(peer, publisher)
        with huge.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
            huge.send_multipart([b"", bytes(100_000)])
            assert monitor.poll(BOUND_MS)
            huge.disable_monitor()
        fair.send_multipart(replay_request_frames(0))
        assert answer(fair) == ([0], True)


# Under pressure


def test_a_reader_who_pauses_gets_everything_and_delays_nobody(peer: Peer, room: Path) -> None:
    with replaying(room) as publisher:
        retain(publisher, 1000)
        dealer = client(peer, publisher, mark=1)
        dealer.send_multipart(replay_request_frames(0))
        until(lambda: stalled(publisher))
        subscriber = peer(zmq.SUB)
        subscriber.subscribe(b"")
        subscriber.connect(publisher.endpoint)
        while not subscriber.poll(5):
            publisher.publish(Batch(time.time(), (), 0))
        begin = time.monotonic()
        for _ in range(50):
            publisher.publish(Batch(time.time(), (), 0))
            assert subscriber.poll(BOUND_MS)
            subscriber.recv_multipart()
        assert time.monotonic() - begin < 1.0
        assert publisher.replay_counters.answered == 0
        assert answer(dealer) == (list(range(1001)), True)


def test_eight_clients_at_once_get_everything(peer: Peer, room: Path) -> None:
    with replaying(room) as publisher:
        retain(publisher, 500)
        dealers = [client(peer, publisher, mark=1) for _ in range(8)]
        for dealer in dealers:
            dealer.send_multipart(replay_request_frames(0))
        until(lambda: stalled(publisher))
        assert publisher._replay is not None
        assert len(publisher._replay._clients) == 8
        answers: list[tuple[list[int], bool]] = []
        readers = [
            threading.Thread(target=lambda dealer: answers.append(answer(dealer)), args=[one]) for one in dealers
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(BOUND_MS / 1000)
        assert answers == [(list(range(501)), True)] * 8


def test_a_client_that_vanishes_is_forgotten_and_harms_nobody(peer: Peer, room: Path) -> None:
    with replaying(room) as publisher:
        retain(publisher, 500)
        gone, stays = client(peer, publisher, mark=1), client(peer, publisher)
        gone.send_multipart(replay_request_frames(0))
        until(lambda: stalled(publisher))
        gone.close()
        until(lambda: publisher.replay_counters.abandoned == 1)
        stays.send_multipart(replay_request_frames(0))
        assert answer(stays) == (list(range(501)), True)
        assert publisher._replay is not None
        assert not publisher._replay.busy


def test_what_is_evicted_while_it_waits_is_skipped(peer: Peer, room: Path) -> None:
    with replaying(room, ring=500) as publisher:
        retain(publisher, 499)
        dealer = client(peer, publisher, mark=1)
        dealer.send_multipart(replay_request_frames(0))
        until(lambda: stalled(publisher))
        retain(publisher, 400)
        numbers, ended = answer(dealer)
        assert ended
        assert numbers[0] == 0
        seam = numbers.index(400)
        assert 0 < seam < 400
        assert numbers == [*range(seam), *range(400, 500)]


def test_a_client_given_up_gets_no_end_marker_and_may_ask_again(peer: Peer, room: Path) -> None:
    with replaying(room, replay_limits=ReplayLimits(patience=0.1)) as publisher:
        retain(publisher, 500)
        dealer = client(peer, publisher, mark=1)
        dealer.send_multipart(replay_request_frames(0))
        until(lambda: publisher.replay_counters.abandoned == 1)
        numbers, ended = answer(dealer)
        assert numbers == list(range(len(numbers)))
        assert not ended
        dealer.send_multipart(replay_request_frames(450))
        assert answer(dealer) == (list(range(450, 501)), True)


def test_who_exceeds_the_clients_waits_for_a_turn_and_waiting_requests_are_bounded(peer: Peer, room: Path) -> None:
    with replaying(room, replay_limits=ReplayLimits(clients=1, waiting_per_client=2)) as publisher:
        retain(publisher, 500)
        first, second = client(peer, publisher, mark=1), client(peer, publisher)
        for _ in range(5):
            first.send_multipart(replay_request_frames(0))
        until(lambda: publisher.replay_counters.refused == 2)
        second.send_multipart(replay_request_frames(0))
        assert answer(second) == (list(range(501)), True)
        assert [answer(first) for _ in range(3)] == [(list(range(501)), True)] * 3
        assert not first.poll(SILENCE_MS)
        assert not second.poll(0)


def test_where_too_many_wait_a_request_is_dropped(peer: Peer, room: Path) -> None:
    with replaying(room, replay_limits=ReplayLimits(clients=1, line=1)) as publisher:
        retain(publisher, 500)
        slow = [client(peer, publisher, mark=1) for _ in range(3)]
        for dealer in slow:
            dealer.send_multipart(replay_request_frames(0))
        until(lambda: publisher.replay_counters.refused == 1)


# The parts


def test_a_ring_finds_the_oldest_at_or_after_a_number_across_holes() -> None:
    ring = Ring(3)
    assert (ring.newest, ring.at_or_after(0)) == (-1, None)
    entries = [Entry(number, live_frames(b"", number, b"")) for number in (0, 1, 4, 7)]
    for entry in entries:
        ring.append(entry)
    assert (len(ring), ring.newest) == (3, 7)
    assert [ring.at_or_after(number) for number in (0, 1, 2, 4, 5, 7, 8)] == [
        entries[1],
        entries[1],
        entries[2],
        entries[2],
        entries[3],
        entries[3],
        None,
    ]


def test_a_ring_holds_at_least_the_newest() -> None:
    with pytest.raises(ValueError, match="not 0"):
        Ring(0)


def test_a_turn_is_bounded_however_much_is_asked(peer: Peer, room: Path) -> None:
    router, dealer = peer(zmq.ROUTER), peer(zmq.DEALER)
    limits = ReplayLimits()
    ReplayServer.prepare(router, limits)
    router.bind(f"ipc://{room}/replay")
    dealer.connect(f"ipc://{room}/replay")
    ring = Ring(100)
    for number in range(100):
        ring.append(Entry(number, live_frames(b"", number, b"")))
    server = ReplayServer(router, ring, limits)
    assert not server.turn()
    dealer.send_multipart(replay_request_frames(0))
    assert router.poll(BOUND_MS)
    assert server.turn()
    assert server._clients.popitem()[1].cursors[0].position == 32
