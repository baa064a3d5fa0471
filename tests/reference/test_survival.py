"""Nothing that is offered ends the stream, and what could not be sent was never retained."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from tests.reference.listening import Peer, hear, note, subscribe, until

from kvwire_reference.outlet import Counters
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames
from kvwire_reference.wire import Batch, BlockStored

pytestmark = pytest.mark.network


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


class Unwritable(Exception):
    """An error that has no text either."""

    def __str__(self) -> str:
        raise RecursionError


class Hostile:
    """Raises at whatever is asked of it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self) -> object:
        raise self.error

    def __bool__(self) -> bool:
        raise self.error


def store(**fields: Any) -> BlockStored:
    return BlockStored(
        **{
            "block_hashes": (1,),
            "parent_block_hash": None,
            "token_ids": (1,),
            "block_size": 1,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            **fields,
        }
    )


@pytest.mark.parametrize(
    "offered",
    [
        pytest.param(lambda: Batch(1.0, (store(extra_keys=(nested(100_000),)),), 0), id="nested"),
        pytest.param(lambda: Batch(1.0, Hostile(MemoryError("2^40 tokens")), 0), id="memory"),  # type: ignore[arg-type]
        pytest.param(lambda: Batch(1.0, Hostile(SystemExit(1)), 0), id="exit"),  # type: ignore[arg-type]
        pytest.param(lambda: Batch(1.0, Hostile(Unwritable()), 0), id="no text"),  # type: ignore[arg-type]
        pytest.param(lambda: Batch(1.0, (store(token_ids=Hostile(KeyError())),), 0), id="tokens"),
        pytest.param(lambda: Batch(1.0, (store(block_size=10**5000),), 0), id="huge number"),
        pytest.param(lambda: Batch(1.0, (Batch(1.0, (), 0),), 0), id="a batch as event"),  # type: ignore[arg-type]
        pytest.param(lambda: None, id="none"),
        pytest.param(lambda: "a text", id="text"),
        pytest.param(lambda: SimpleNamespace(ts=1.0, events=(), data_parallel_rank=0), id="alike"),
        pytest.param(PublisherConfig, id="another struct"),
    ],
)
def test_nothing_that_is_offered_ends_the_stream(peer: Peer, room: Path, offered: Callable[[], Any]) -> None:
    with ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room}/live")) as publisher:
        subscriber = subscribe(peer, publisher)
        number = publisher.counters.offered
        assert publisher.publish(offered())
        publisher.publish(note(number + 1))
        assert hear(subscriber).sequence == number + 1
        until(lambda: publisher.counters == Counters(number + 2, number + 1, 1, 1))


def test_a_batch_is_retained_before_it_is_sent_and_forgotten_if_that_fails(room: Path) -> None:
    seen: list[tuple[int, list[int]]] = []

    class Watched(ZmqPublisher):
        def _send_live(self, frames: Frames) -> None:
            number = int.from_bytes(frames[1], "big")
            seen.append((number, retained(self)))
            if number in (1, 3):
                raise zmq.ZMQError(zmq.ENOBUFS)
            super()._send_live(frames)

    with Watched(PublisherConfig(endpoint=f"ipc://{room}/live", ring=2)) as publisher:
        for number in range(1, 5):
            publisher.publish(note(number))
        until(lambda: publisher.counters.sent + publisher.counters.dropped == 5)
        assert seen == [(0, [0]), (1, [0, 1]), (2, [0, 2]), (3, [2, 3]), (4, [2, 4])]
        assert retained(publisher) == [2, 4]


def retained(publisher: ZmqPublisher) -> list[int]:
    return [entry.number for entry in publisher._ring._entries]


def test_a_batch_for_which_the_socket_has_no_memory_is_dropped_whole(peer: Peer, room: Path) -> None:
    class Exhausted(ZmqPublisher):
        doomed = -1

        def _send_live(self, frames: Frames) -> None:
            if frames[1] == self.doomed.to_bytes(8, "big", signed=True):
                raise MemoryError
            super()._send_live(frames)

    publisher = Exhausted(PublisherConfig(endpoint=f"ipc://{room}/live"))
    with publisher:
        subscriber = subscribe(peer, publisher)
        publisher.doomed = publisher.counters.offered
        publisher.publish(note(1))
        publisher.publish(note(2))
        assert hear(subscriber).sequence == publisher.doomed + 1
        until(lambda: publisher.counters.dropped == 1)
        assert publisher.counters.unencodable == 0
