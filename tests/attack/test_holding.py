"""Messages that never end: libzmq keeps their frames, and the connection is ended for it."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
import zmq

from kvwire.attack.holding import MIB, Guard, resident
from kvwire.attack.witness import Recorder
from kvwire.attack.witness_process import CUTS, HELD_BYTES
from kvwire.selftest.hostile.peers import zmtp
from kvwire.standard.statement import Stream
from kvwire.trace.marks import Trouble

BOUND_S = 60.0

pytestmark = pytest.mark.skipif(resident() is None, reason="the system does not tell how large a process is")


def endless(peer: socket.socket) -> None:
    """One message of frames of 60 kB."""
    zmtp.shake(peer, "PUB")
    chunk = zmtp.frame(bytes(60_000), more=True)
    while True:
        peer.sendall(chunk)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.network
@pytest.mark.parametrize("scheme", ["tcp", "ipc"])
def test_a_witness_ends_a_message_without_end_and_then_leaves_the_peer_alone(
    recorder: Recorder, room: Path, scheme: str
) -> None:
    place = f"ipc://{room}/p" if scheme == "ipc" else f"tcp://127.0.0.1:{free_port()}"
    zmtp.serve(place, endless)
    recorder.watch([Stream(name="s", endpoint=place)])
    pids = [witness.process.pid for witness in recorder.processes]
    most = [0]

    def told() -> list[str]:
        for pid in pids:
            pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
            most[0] = max(most[0], pages * os.sysconf("SC_PAGE_SIZE"))
        return [record.detail.text for record in recorder.records if isinstance(record.detail, Trouble)]

    assert recorder.wait(lambda: sum("left alone" in text for text in told()) == 2, BOUND_S)
    assert len(told()) == 2 * CUTS
    assert all("a message has no end" in text and place in text for text in told())
    assert most[0] < 3 * HELD_BYTES


@pytest.mark.network
def test_of_two_connections_the_one_that_holds_nothing_is_left(room: Path) -> None:
    guard = Guard(32 * MIB)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    places = {"endless": f"ipc://{room}/e", "mute": f"ipc://{room}/m"}
    zmtp.serve(places["endless"], endless)
    quiet = threading.Event()

    def mute(peer: socket.socket) -> None:
        zmtp.shake(peer, "PUB")
        quiet.wait(BOUND_S)

    zmtp.serve(places["mute"], mute)
    helds = {}
    sockets = []
    try:
        for name, place in places.items():
            subscriber = context.socket(zmq.SUB)
            sockets.append(subscriber)
            subscriber.set(zmq.LINGER, 0)
            subscriber.set(zmq.RECONNECT_IVL, -1)
            subscriber.subscribe(b"")
            monitor = subscriber.get_monitor_socket(int(zmq.EVENT_CONNECTED))
            sockets.append(monitor)
            helds[name] = guard.watch()
            subscriber.connect(place)
            assert monitor.poll(int(1000 * BOUND_S))
            helds[name].connected(int.from_bytes(monitor.recv_multipart()[0][2:], "little"))
        over = threading.Event()
        for _ in range(600):
            if helds["endless"].cut or over.wait(0.05):
                break
        assert helds["endless"].cut
        assert not helds["mute"].cut
    finally:
        quiet.set()
        for held in helds.values():
            guard.leave(held)
        for opened in sockets:
            opened.close(0)
        context.term()
