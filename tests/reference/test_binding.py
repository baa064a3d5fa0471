"""An endpoint in use is refused before any socket is open, and whoever serves it hears nothing of it."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from kvwire_reference.binding import check_free
from kvwire_reference.endpoints import Cause, EndpointError
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, parse_live

pytestmark = pytest.mark.network

Peer = Callable[[int], "zmq.Socket[bytes]"]
BOUND_MS = 5000


@pytest.fixture(params=["tcp", "ipc", "abstract"])
def pair(request: pytest.FixtureRequest, room: Path) -> Iterator[tuple[str, str]]:
    """A publish and a replay endpoint that nobody else uses."""
    if request.param == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            ports = [server.getsockname()[1] for server in (one, two)]
        yield f"tcp://127.0.0.1:{ports[0]}", f"tcp://127.0.0.1:{ports[1]}"
    else:
        at = "@" if request.param == "abstract" else ""
        yield f"ipc://{at}{room}/live", f"ipc://{at}{room}/replay"


def start(endpoint: str, replay: str | None = None) -> ZmqPublisher:
    publisher = ZmqPublisher(PublisherConfig(endpoint=endpoint, replay_endpoint=replay))
    publisher.start()
    return publisher


def refused(endpoint: str, replay: str | None, names: str) -> None:
    """A second publisher is refused, says where, and has opened nothing."""
    second = ZmqPublisher(PublisherConfig(endpoint=endpoint, replay_endpoint=replay))
    with pytest.raises(EndpointError, match=f"{names}' is served by another process; stop that one") as refusal:
        second.start()
    assert refusal.value.cause is Cause.IN_USE
    assert not hasattr(second, "context")
    second.shutdown()


def test_the_endpoint_of_another_publisher_is_refused_and_the_first_goes_on(pair: tuple[str, str], peer: Peer) -> None:
    live, replay = pair
    with start(live, replay) as first:
        refused(live, None, live)
        refused(replay, None, replay)
        refused(f"inproc://{live[-5:]}", replay, replay)
        subscriber = peer(zmq.SUB)
        subscriber.subscribe(b"")
        subscriber.connect(live)
        deadline = time.monotonic() + BOUND_MS / 1000
        while not subscriber.poll(5):
            assert time.monotonic() < deadline, "the first publisher is deaf"
            first.publish(Batch(time.time(), (), 0))
        assert parse_live(subscriber.recv_multipart()).topic == b""
    start(live, replay).shutdown()


def test_a_socket_file_that_nobody_listens_on_is_taken_over(room: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{room}/live")
        dead.listen()
    assert (room / "live").is_socket()
    start(f"ipc://{room}/live").shutdown()


def test_a_listener_that_takes_no_more_connections_is_there_all_the_same(room: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(f"{room}/live")
        busy.listen(0)
        waiting.connect(f"{room}/live")
        refused(f"ipc://{room}/live", None, "live")


def test_a_file_that_is_no_socket_is_neither_used_nor_removed(room: Path) -> None:
    (room / "live").write_text("kept")
    with pytest.raises(EndpointError, match="would be lost; use another path") as refusal:
        start(f"ipc://{room}/live")
    assert refusal.value.cause is Cause.PATH
    assert (room / "live").read_text() == "kept"


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "127.0.0.1"])
def test_a_port_is_in_use_whatever_the_host_is_called(host: str) -> None:
    with socket.create_server(("0.0.0.0", 0)) as squatter:
        endpoint = f"tcp://{host}:{squatter.getsockname()[1]}"
        with pytest.raises(EndpointError, match="served by another"):
            check_free("inproc://free", endpoint)
    check_free(endpoint)


def test_a_port_that_is_taken_after_it_was_asked_for_is_refused_by_the_bind() -> None:
    class Late(ZmqPublisher):
        def _check_free(self) -> None:
            pass

    with socket.create_server(("127.0.0.1", 0)) as squatter:
        publisher = Late(PublisherConfig(endpoint=f"tcp://127.0.0.1:{squatter.getsockname()[1]}"))
        with pytest.raises(EndpointError, match="served by another"):
            publisher.start()
        assert publisher.context.closed
    publisher.shutdown()


def test_what_cannot_be_asked_is_left_to_the_bind(room: Path) -> None:
    check_free("tcp://eth99:5557", f"ipc://{room}/missing/live")
