"""The consumer on real sockets, against a plain PUB and ROUTER that this test holds in its hand."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from kvwire_reference import wire
from kvwire_reference.consumer import Consumer, Socket
from kvwire_reference.endpoints import EndpointError

pytestmark = pytest.mark.network

Peer = Callable[[int], Socket]
BOUND_S = 10.0


class Plain:
    """One life of a publisher: it publishes when told to, and answers replay when `serve` is called."""

    def __init__(self, peer: Peer, room: Path, first_block: int, topic: bytes = b"kv") -> None:
        self.publish_at, self.replay_at = f"ipc://{room}/live", f"ipc://{room}/replay"
        self.first_block = first_block
        self.topic = topic
        self.number = 0
        self.ring: list[tuple[bytes, int, bytes]] = []
        self.end_markers = True
        self.asked: list[int] = []
        self.subscriptions = 0
        self.pub, self.router = peer(zmq.XPUB), peer(zmq.ROUTER)  # an XPUB says when a subscription has come
        self.pub.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.pub.bind(self.publish_at)
        self.router.bind(self.replay_at)

    def event(self) -> wire.BlockStored:
        return wire.BlockStored(
            block_hashes=(self.first_block + self.number,),
            parent_block_hash=None,
            token_ids=(1,),
            block_size=1,
            lora_id=None,
            medium="GPU",
            lora_name=None,
        )

    def publish(self, *, lose: bool = False, burn: bool = False) -> None:
        """Send one block. `lose` keeps it off the wire only, `burn` drops it for good: its number is a hole."""
        message = (self.topic, self.number, wire.encode(wire.Batch(0.0, (self.event(),), 0)))
        self.number += 1
        if burn:
            return
        self.ring.append(message)
        if not lose:
            self.pub.send_multipart(wire.live_frames(*message))

    def serve(self) -> None:
        while self.pub.poll(0):
            self.subscriptions += self.pub.recv().startswith(b"\x01")
        while self.router.poll(0):
            identity, *request = self.router.recv_multipart()
            self.asked.append(wire.parse_replay_request(request))
            for message in self.ring:
                if message[1] >= self.asked[-1]:
                    self.router.send_multipart([identity, *wire.replay_batch_frames(*message)])
            if self.end_markers:
                self.router.send_multipart([identity, *wire.replay_end_frames()])

    def die(self) -> None:
        self.pub.close()
        self.router.close()


def held(consumer: Consumer) -> set[int]:
    return {value for table in consumer.residents.tables().values() for value in table}


def complete(consumer: Consumer) -> bool:
    return consumer.residents.complete


def until(condition: Callable[[], bool], consumer: Consumer, publisher: Plain) -> None:
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, "the condition did not come true within its bound"
        publisher.serve()
        consumer.poll(0.02)


def caught_up(consumer: Consumer, publisher: Plain, subscriptions: int = 1) -> Callable[[], bool]:
    """Nothing is under way any more, and what is published next will arrive."""
    return lambda: (
        consumer.settled and consumer.stream.last == publisher.number - 1 and publisher.subscriptions == subscriptions
    )


def test_joins_reads_on_and_fills_a_hole(peer: Peer, room: Path) -> None:
    publisher = Plain(peer, room, 100)
    for _ in range(5):
        publisher.publish()
    with Consumer(publisher.publish_at, publisher.replay_at, topic=b"kv") as consumer:
        until(caught_up(consumer, publisher), consumer, publisher)
        assert held(consumer) == set(range(100, 105))
        publisher.publish()
        publisher.publish(lose=True)
        publisher.publish()
        until(caught_up(consumer, publisher), consumer, publisher)
        assert held(consumer) == set(range(100, 108))
        assert complete(consumer)
        assert publisher.asked == [0, 5]
        publisher.publish(burn=True)
        publisher.publish()
        until(caught_up(consumer, publisher), consumer, publisher)
        assert held(consumer) == {109}
        assert not complete(consumer)
        assert consumer.counters.missing == 1


def test_sees_a_restart_and_a_mere_disconnect(peer: Peer, room: Path) -> None:
    first = Plain(peer, room, 100)
    with Consumer(first.publish_at, first.replay_at, topic=b"kv") as consumer:
        for _ in range(5):
            first.publish()
        until(caught_up(consumer, first), consumer, first)
        first.die()
        second = Plain(peer, room, 200)
        for _ in range(9):
            second.publish()
        until(caught_up(consumer, second), consumer, second)
        assert held(consumer) == set(range(200, 209))
        assert consumer.counters.restarts == 1
        assert second.asked[0] in (0, 4)

        second.die()
        third = Plain(peer, room, 200)  # the same batches again: nothing was lost but the connection
        third.ring, third.number = second.ring, second.number
        third.publish()
        until(caught_up(consumer, third), consumer, third)
        assert held(consumer) == set(range(200, 210))
        assert consumer.counters.restarts == 1
        assert third.asked == [8]


def test_an_answer_without_end_is_asked_for_again(peer: Peer, room: Path) -> None:
    publisher = Plain(peer, room, 100)
    publisher.publish()
    publisher.end_markers = False
    with Consumer(publisher.publish_at, publisher.replay_at, topic=b"kv", reply_bound_s=0.1) as consumer:
        until(lambda: consumer.counters.incomplete == 1, consumer, publisher)
        assert not consumer.settled
        publisher.end_markers = True
        until(lambda: consumer.settled, consumer, publisher)
        assert held(consumer) == {100}
        assert consumer.counters.given_up == 0


def test_without_replay(peer: Peer, room: Path) -> None:
    publisher = Plain(peer, room, 100)
    publisher.publish()
    with Consumer(publisher.publish_at, topic=b"kv") as consumer:
        until(lambda: consumer.settled, consumer, publisher)

        def heard() -> bool:
            publisher.publish()
            return consumer.stream.last > 1

        until(heard, consumer, publisher)
        assert not complete(consumer)
        assert 100 not in held(consumer)
        assert held(consumer) != set()
        assert publisher.asked == []


def test_what_is_not_of_the_stream_is_counted_and_left(peer: Peer, room: Path) -> None:
    publisher = Plain(peer, room, 100)
    with Consumer(publisher.publish_at, publisher.replay_at, topic=b"kv") as consumer:
        until(caught_up(consumer, publisher), consumer, publisher)
        publisher.publish()
        until(caught_up(consumer, publisher), consumer, publisher)
        _, sequence, payload = wire.live_frames(*publisher.ring[0])
        for frames in ([b"kv2", sequence, payload], [b"kv", sequence], [b"kv", b"\0" * 7, payload]):
            publisher.pub.send_multipart(frames)
        publisher.publish()
        until(caught_up(consumer, publisher), consumer, publisher)
        assert consumer.foreign == 3
        assert held(consumer) == {100, 101}


@pytest.mark.parametrize(
    "answer",
    [
        [b"", b"", bytes(8)],
        [b"", b"other", bytes(8), b"\x93\xcb" + bytes(8) + b"\x90\x00"],
    ],
    ids=["bare form", "other topic"],
)
def test_an_answer_of_another_form_says_nothing(peer: Peer, room: Path, answer: list[bytes]) -> None:
    publisher = Plain(peer, room, 100)
    publisher.publish()
    with Consumer(publisher.publish_at, publisher.replay_at, topic=b"kv") as consumer:
        end = time.monotonic() + BOUND_S
        while not publisher.router.poll(0):
            assert time.monotonic() < end
            consumer.poll(0.02)
        publisher.router.send_multipart([publisher.router.recv_multipart()[0], *answer])
        until(lambda: consumer.settled, consumer, publisher)
        assert consumer.foreign == consumer.counters.incomplete == 1
        assert held(consumer) == {100}


def test_a_message_beyond_the_bound_ends_connections_not_the_consumer(peer: Peer, room: Path) -> None:
    publisher = Plain(peer, room, 100)
    with Consumer(
        publisher.publish_at, publisher.replay_at, topic=b"kv", max_message=4096, reply_bound_s=0.1
    ) as consumer:
        publisher.publish()
        until(caught_up(consumer, publisher), consumer, publisher)
        publisher.ring.append((b"kv", 1, bytes(5000)))  # too large live, and too large again in every answer
        publisher.pub.send_multipart(wire.live_frames(*publisher.ring[-1]))
        publisher.number += 1
        until(
            lambda: consumer.counters.given_up == 1 and consumer.settled and publisher.subscriptions == 2,
            consumer,
            publisher,
        )
        publisher.publish()
        until(caught_up(consumer, publisher, subscriptions=2), consumer, publisher)
        assert held(consumer) == {102}
        assert not complete(consumer)
        assert consumer.counters.missing == 1


def test_sockets_and_contexts_are_left_as_found(peer: Peer, room: Path) -> None:
    publisher = Plain(peer, room, 100)
    seen: list[object] = []
    context: zmq.Context[Socket] = zmq.Context()
    consumer = Consumer(
        publisher.publish_at,
        publisher.replay_at,
        topic=b"kv",
        context=context,
        prepare=lambda socket: seen.append(socket.type),
    )
    until(lambda: consumer.settled, consumer, publisher)
    assert seen == [zmq.SUB, zmq.DEALER]
    consumer.close()
    consumer.close()
    assert not context.closed
    context.term()


def test_several_consumers_in_one_thread_over_inproc(peer: Peer) -> None:
    context: zmq.Context[Socket] = zmq.Context()
    pub = context.socket(zmq.PUB)
    pub.linger = 0
    pub.bind("inproc://kv")
    consumers = [Consumer("inproc://kv", context=context) for _ in range(2)]
    end = time.monotonic() + BOUND_S
    number = 0
    while any(consumer.counters.applied < 2 for consumer in consumers):
        assert time.monotonic() < end
        pub.send_multipart(wire.live_frames(b"", number, wire.encode(wire.Batch(0.0, (), 0))))
        number += 1
        for consumer in consumers:
            consumer.poll(0.02)
    for consumer in consumers:
        consumer.close()
    pub.close()
    context.term()


@pytest.mark.parametrize("endpoint", ["tcp://[::1", "udp://127.0.0.1:1", ""])
def test_a_bad_endpoint_is_named_before_any_socket_is_opened(endpoint: str) -> None:
    for pair in ((endpoint, None), ("tcp://127.0.0.1:5557", endpoint)):
        with pytest.raises(EndpointError, match="endpoint"):
            Consumer(*pair)


def test_ipv6(peer: Peer) -> None:
    pub = peer(zmq.PUB)
    pub.ipv6 = True
    try:
        port = pub.bind_to_random_port("tcp://[::1]")
    except zmq.ZMQError:
        pytest.skip("no IPv6 loopback here")
    with Consumer(f"tcp://[::1]:{port}") as consumer:
        end = time.monotonic() + BOUND_S
        while not consumer.settled:
            assert time.monotonic() < end
            consumer.poll(0.02)
