"""The live stream: numbered, never waiting, honest about what it lost, and gone when it is stopped."""

import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zmq
from tests.reference.listening import BOUND_MS, Peer, connects, hear, note, subscribe, until

from kvwire_reference.endpoints import EndpointError
from kvwire_reference.outlet import Counters
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, decode

pytestmark = pytest.mark.network


# What is sent


def test_a_batch_travels_in_three_frames_under_the_next_number(peer: Peer, room: Path) -> None:
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", topic="kv", rank=3, world_size=4)) as publisher:
        assert publisher.endpoint == f"ipc://{room}/live_dp3"
        subscriber = subscribe(peer, publisher)
        number = publisher.counters.offered
        batch = Batch(1.5, (), 3)
        assert publisher.publish(batch)
        message = hear(subscriber)
        assert (message.topic, message.sequence, decode(message.payload)) == (b"kv", number, batch)
        until(lambda: publisher.counters == Counters(number + 1, number + 1, 0, 0))


def test_the_stream_begins_with_a_clear(peer: Peer, room: Path) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live"))
    number, batch = publisher._queue.take()
    assert (number, batch.events, len(publisher._queue)) == (0, (AllBlocksCleared(),), 0)
    publisher.shutdown()


def test_an_idle_stream_beats_when_asked_to(peer: Peer, room: Path) -> None:
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", heartbeat=0.02)) as publisher:
        subscriber = subscribe(peer, publisher)
        beats = [hear(subscriber) for _ in range(3)]
        assert [beat.sequence for beat in beats] == list(range(beats[0].sequence, beats[0].sequence + 3))
        stamps = [decode(beat.payload).ts for beat in beats]
        assert stamps == sorted(stamps)
        assert all(decode(beat.payload).events == () for beat in beats)


# What is lost


def test_a_batch_dropped_for_a_full_queue_leaves_a_hole(
    peer: Peer, room: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", max_queue=3))
    with caplog.at_level(logging.WARNING):
        accepted = [publisher.publish(note(number)) for number in range(1, 8)]
    assert accepted == [True, True, False, False, False, False, False]
    assert publisher.counters == Counters(8, 0, 5, 0)
    assert [record.args and record.args[1] for record in caplog.records] == [1, 2, 4]  # type: ignore[index]
    publisher.start()
    until(lambda: publisher.counters.sent == 3)
    subscriber = subscribe(peer, publisher)
    number = publisher.counters.offered
    publisher.publish(note(number))
    assert hear(subscriber).sequence == number > 8
    publisher.shutdown()


def test_a_batch_that_cannot_be_encoded_leaves_a_hole_and_holds_nobody_up(peer: Peer, room: Path) -> None:
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live")) as publisher:
        subscriber = subscribe(peer, publisher)
        number = publisher.counters.offered
        unencodable = [
            Batch(float("nan"), (), 0),
            Batch(1.0, (BlockRemoved(block_hashes=(2**64,), medium="GPU"),), 0),
            Batch(1.0, ("no event",), 0),  # type: ignore[arg-type]
        ]
        assert all(publisher.publish(batch) for batch in unencodable)
        publisher.publish(note(number + 3))
        assert hear(subscriber).sequence == number + 3
        until(lambda: publisher.counters == Counters(number + 4, number + 1, 3, 3))


def test_a_batch_of_another_rank_is_refused_and_takes_no_number(room: Path) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live"))
    with pytest.raises(ValueError, match="rank 1 on the stream of rank 0"):
        publisher.publish(Batch(1.0, (), 1))
    assert publisher.counters.offered == 1
    publisher.shutdown()


def test_a_subscriber_that_does_not_read_delays_nobody(peer: Peer, room: Path) -> None:
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", send_mark=10)) as publisher:
        subscribe(peer, publisher, mark=1)
        awake = subscribe(peer, publisher)
        longest = 0.0
        for number in range(2000):
            begin = time.monotonic()
            publisher.publish(note(number))
            longest = max(longest, time.monotonic() - begin)
        assert longest < 0.1
        until(lambda: publisher.counters.sent == publisher.counters.offered)
        assert awake.poll(BOUND_MS)


# Starting and stopping


def test_construction_binds_nothing_and_a_second_start_is_harmless(peer: Peer, room: Path) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", replay_endpoint=f"ipc://{room}/replay"))
    assert list(room.iterdir()) == []
    publisher.start()
    publisher.start()
    assert {path.name for path in room.iterdir()} == {"live", "replay"}
    publisher.shutdown()
    assert list(room.iterdir()) == []


def test_what_was_accepted_before_a_stop_arrives(peer: Peer) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint="tcp://127.0.0.1:0", ephemeral=True))
    publisher.start()
    subscriber = subscribe(peer, publisher)
    first = publisher.counters.offered
    assert all(publisher.publish(note(number)) for number in range(2000))
    publisher.shutdown()
    assert publisher.counters == Counters(first + 2000, first + 2000, 0, 0)
    assert [hear(subscriber).sequence for _ in range(2000)] == list(range(first, first + 2000))


def test_a_stop_is_bounded_and_counts_what_it_did_not_send(peer: Peer, room: Path) -> None:
    class Slow(ZmqPublisher):
        def _encode(self, batch: Batch) -> bytes:
            time.sleep(0.02)
            return super()._encode(batch)

    publisher = Slow(PublisherConfig(endpoint=f"ipc://{room}/live"))
    publisher.start()
    for number in range(100):
        publisher.publish(note(number))
    begin = time.monotonic()
    publisher.shutdown(timeout=0.2)
    assert time.monotonic() - begin < 0.5
    counters = publisher.counters
    assert 0 < counters.sent < 101
    assert counters.sent + counters.dropped == counters.offered == 101


def test_a_stop_does_not_wait_for_ever_for_a_subscriber_that_does_not_read(peer: Peer) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint="tcp://127.0.0.1:0", ephemeral=True))
    publisher.start()
    subscribe(peer, publisher, mark=1)
    events = tuple(BlockRemoved(block_hashes=(2**40,) * 1000, medium="GPU") for _ in range(10))
    for _ in range(300):
        publisher.publish(Batch(time.time(), events, 0))
    begin = time.monotonic()
    publisher.shutdown()
    assert time.monotonic() - begin < 1.5
    peer(zmq.PUB).bind(publisher.endpoint)


def test_a_stop_frees_the_port_at_once(peer: Peer) -> None:
    config = PublisherConfig(endpoint="tcp://127.0.0.1:0", replay_endpoint="tcp://127.0.0.1:0", ephemeral=True)
    publisher = ZmqPublisher(config)
    publisher.start()
    subscribe(peer, publisher)
    publisher.shutdown()
    assert publisher.replay_endpoint is not None
    for endpoint in (publisher.endpoint, publisher.replay_endpoint):
        peer(zmq.PUB).bind(endpoint)


def test_a_stop_is_harmless_twice_and_without_a_start(room: Path) -> None:
    publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live"))
    publisher.shutdown()
    publisher.shutdown()
    assert not publisher.publish(note(1))
    assert publisher.counters == Counters(2, 0, 2, 0)
    with pytest.raises(RuntimeError, match="make a new one"):
        publisher.start()


def test_a_start_that_fails_half_way_leaves_nothing_open(room: Path) -> None:
    replay = f"ipc://{room}/missing/replay"
    publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live", replay_endpoint=replay))
    with pytest.raises(zmq.ZMQError, match="No such file"):
        publisher.start()
    assert publisher.context.closed
    assert list(room.iterdir()) == []
    (room / "missing").mkdir()
    publisher.start()
    assert publisher.replay_endpoint == replay
    publisher.shutdown()


def test_a_process_that_ends_without_a_stop_still_sends_what_it_accepted(peer: Peer, room: Path) -> None:
    script = f"""
import sys, time
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch
publisher = ZmqPublisher(PublisherConfig(endpoint="ipc://{room}/live", clear_first=False))
publisher.start()
print(flush=True)
sys.stdin.readline()
assert all(publisher.publish(Batch(time.time(), (), 0)) for _ in range(3000))
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        subscriber = peer(zmq.SUB)
        subscriber.set(zmq.RCVHWM, 0)
        subscriber.subscribe(b"")
        assert connects(subscriber, f"ipc://{room}/live")
        process.stdin.write(b"\n")
        process.stdin.close()
        heard = [hear(subscriber).sequence]
        while heard[-1] != 2999:
            heard.append(hear(subscriber).sequence)
        assert process.wait(BOUND_MS / 1000) == 0
    assert heard == list(range(heard[0], 3000))


# Where it is sent from


@pytest.mark.parametrize("endpoint", ["tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557", "tcp://127.0.0.1:0"])
def test_wide_and_unknown_endpoints_are_refused_unless_asked_for(endpoint: str) -> None:
    with pytest.raises(EndpointError, match="tcp://"):
        ZmqPublisher(PublisherConfig(endpoint=endpoint))
    ZmqPublisher(PublisherConfig(endpoint=endpoint, wildcard=True, ephemeral=True)).shutdown()


def test_the_default_is_for_this_machine_only() -> None:
    publisher = ZmqPublisher(PublisherConfig())
    assert (publisher.endpoint, publisher.replay_endpoint) == ("tcp://127.0.0.1:5557", None)
    publisher.shutdown()


def test_an_inproc_stream_is_heard_in_the_context_of_its_publisher() -> None:
    with ZmqPublisher(PublisherConfig(endpoint="inproc://live", rank=1, world_size=2)) as publisher:
        assert publisher.endpoint == "inproc://live_dp1"
        subscriber = subscribe(publisher.context.socket, publisher)
        number = publisher.counters.offered
        publisher.publish(Batch(1.0, (), 1))
        assert hear(subscriber).sequence == number
        subscriber.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_ephemeral_port_is_reported(peer: Peer, host: str) -> None:
    with ZmqPublisher(PublisherConfig(endpoint=f"tcp://{host}:0", ephemeral=True)) as publisher:
        assert publisher.endpoint.startswith(f"tcp://{host}:")
        assert not publisher.endpoint.endswith(":0")
        probe = peer(zmq.SUB)
        probe.set(zmq.IPV6, 1)
        assert connects(probe, publisher.endpoint)
