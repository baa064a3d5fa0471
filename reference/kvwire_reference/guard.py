"""What strangers can make a publisher hold, and what ends their connections.

libzmq bounds messages, and hands one on when its last frame is there. Until then it holds the frames, however many
come: no high-water mark counts them, and an empty one of 2 bytes takes 64. A subscription of 7 bytes can take 700 in a
PUB socket. And it accepts whoever connects, as long as there are descriptors. So a thread beside the sockets counts.

Of each socket, whatever its clients do:

* **Connections**: at most `connections`. When one more comes, the oldest that has not finished its handshake ends, or
  the new one where all have. A handshake takes `handshake` seconds at most. One that finishes it and stays is told from
  a consumer by CURVE only.
* **Bytes**: those that clients sent and the application did not get, beyond `FREE_BYTES` of each, are at most
  `unread_bytes`, of all together; then the connection with the most of them ends. They are looked at every `LOOK_S`;
  `prepare` keeps the system's buffers so small that 1 or 2 MB come in between. Of memory that is at worst 64 bytes for
  2, and 100 for 1 in subscriptions. A heartbeat of ZeroMQ counts (9 bytes): a subscriber that sends one a second loses
  its connection, and connects anew, every four hours.
* **What nobody takes**: a connection that has acknowledged nothing for `patience` seconds, while something waits for it
  in the system, ends. So what a pipe holds for one that stopped reading is not older.

The counters are those of Linux for tcp (`TCP_INFO`, since 4.1). Over ipc the system counts no bytes: there the number
of connections holds, and nobody may connect but processes of this user (and of `ipc_users`), who could end the
publisher anyway. On other systems the number of connections holds, and nothing else. Where no bytes are counted, a
connection that is older than a handshake may take has finished it.

A connection is ended by shutting down its descriptor, which stands in the events of libzmq's monitor. By then the
number may be that of another file of this very process: so a copy is taken, and looked at before it is shut down.
"""

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import zmq

log = logging.getLogger(__name__)

Socket = zmq.Socket[bytes]

LOOK_S: Final = 0.02
FREE_BYTES: Final = 1024
"""What each connection may send uncounted: a handshake and a few subscriptions."""
RECEIVE_BUFFER: Final = 4096
HANDSHAKE_BYTES: Final = 64 + 29
"""What a client sends at least until its handshake is over: the greeting, and READY with the shortest socket type."""
CURVE_HANDSHAKE_BYTES: Final = 64 + 202 + 259
"""The same of CURVE: the greeting, HELLO and INITIATE."""
TCP_INFO: Final = getattr(socket, "TCP_INFO", None)
COUNTERS: Final = struct.Struct("=120xQQ8xI")
"""Of Linux's `struct tcp_info`: bytes acknowledged by the peer, bytes received from it, bytes not sent yet."""
EVENT: Final = struct.Struct("=Hi")
"""An event of libzmq's monitor: which, and its value, a descriptor here."""
EVENTS: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED
EVENTS_AT_ONCE: Final = 256
END_S: Final = 1.0


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What all clients of one socket may cost together; `handshake` and `patience` in seconds.

    `ipc_users` are the ids of other users whose processes may connect to an ipc endpoint.
    """

    connections: int = 256
    unread_bytes: int = 128 * 1024
    handshake: float = 3.0
    patience: float = 30.0
    ipc_users: frozenset[int] = frozenset()


class GuardCounters(msgspec.Struct):
    """Connections that were ended: one too many (`crowded`), too many bytes (`flooding`), nothing taken (`stuck`)."""

    crowded: int = 0
    flooding: int = 0
    stuck: int = 0


@dataclass(slots=True)
class Connection:
    """Bytes that came from a client and what of that the application took; what it gave and the client acknowledged.

    `since`: when it last acknowledged something, or had nothing to acknowledge.
    """

    since: float
    received: int = 0
    taken: int = 0
    given: int = 0
    acknowledged: int = 0

    @property
    def unread(self) -> int:
        """Bytes that count."""
        return max(0, self.received - self.taken - FREE_BYTES)


def prepare(unbound: Socket, endpoint: str, limits: ClientLimits) -> None:
    """Set what libzmq itself can bound; call before binding."""
    unbound.set(zmq.HANDSHAKE_IVL, round(1000 * limits.handshake))
    if endpoint.startswith("tcp://"):
        unbound.set(zmq.RCVBUF, RECEIVE_BUFFER)
    elif endpoint.startswith("ipc://") and hasattr(os, "getuid"):
        for user in {os.getuid(), *limits.ipc_users}:
            unbound.set(zmq.IPC_FILTER_UID, user)


class Door:
    """The connections of one bound socket. The thread that owns the socket may call `took`, `gave` and `has_room`."""

    def __init__(self, watched: Socket, limits: ClientLimits, counters: GuardCounters, *, curve: bool = False) -> None:
        self.endpoint = ""
        """Where it is bound, once it is."""
        self.monitor: Socket = watched.get_monitor_socket(EVENTS)
        self.connections: dict[int, Connection] = {}
        """By descriptor, the oldest first."""
        self._watched = watched
        self._limits = limits
        self._counters = counters
        self._handshake_bytes = CURVE_HANDSHAKE_BYTES if curve else HANDSHAKE_BYTES

    def took(self, fd: int, size: int) -> None:
        """Note that the application took a frame of so many bytes."""
        connection = self.connections.get(fd)
        if connection is not None:
            connection.taken += size + (2 if size < 256 else 9)

    def gave(self, fd: int, size: int) -> None:
        """Note that the application gave so many bytes to be sent."""
        connection = self.connections.get(fd)
        if connection is not None:
            connection.given += size

    def has_room(self, fd: int, most: int) -> bool:
        """Whether fewer bytes than that were given and not acknowledged; true where that cannot be known."""
        connection = self.connections.get(fd)
        if connection is None or not self._counted or connection.given - connection.acknowledged < most:
            return True
        self._update(fd, connection, time.monotonic())
        return connection.given - connection.acknowledged < most

    def end(self, fd: int) -> None:
        """End the connection with this descriptor, if it is one of this socket."""
        self.connections.pop(fd, None)
        with suppress(OSError), _copy(fd) as connection:
            if self._is_ours(connection):
                connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Ask for the last event; in the thread that owns the socket."""
        self._watched.disable_monitor()

    def hear(self) -> bool:
        """Take in who came and who went; return whether there is more to come."""
        for _ in range(EVENTS_AT_ONCE):
            try:
                frames = self.monitor.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                break
            event, fd = EVENT.unpack(frames[0])
            if event == zmq.EVENT_ACCEPTED:
                self.connections.pop(fd, None)
                self.connections[fd] = Connection(time.monotonic())
                if len(self.connections) > self._limits.connections:
                    self._make_room(fd)
            elif event == zmq.EVENT_DISCONNECTED:
                self.connections.pop(fd, None)
            else:
                return False
        return True

    def look(self) -> None:
        """Count, and end what is over a bound."""
        if not self._counted:
            return
        now = time.monotonic()
        for fd, connection in list(self.connections.items()):
            if self._update(fd, connection, now) and now - connection.since > self._limits.patience:
                self._counters.stuck += 1
                self._turn_out(fd, "it took nothing for too long")
        by_size = sorted((connection.unread, fd) for fd, connection in list(self.connections.items()))
        over = sum(size for size, _ in by_size) - self._limits.unread_bytes
        while over > 0:
            most, fd = by_size.pop()
            over -= most
            self._counters.flooding += 1
            self._turn_out(fd, "what clients sent without end took too much")

    @property
    def _counted(self) -> bool:
        return TCP_INFO is not None and self.endpoint.startswith("tcp://")

    def _update(self, fd: int, connection: Connection, now: float) -> bool:
        """Read the counters of a connection; return whether something waits in the system to be sent."""
        acknowledged, connection.received, waiting = _counters(fd)
        # What an earlier connection with this descriptor sent may have been taken late: that is no credit.
        connection.taken = min(connection.taken, connection.received)
        if acknowledged != connection.acknowledged or not waiting:
            connection.acknowledged, connection.since = acknowledged, now
        return waiting > 0

    def _make_room(self, newest: int) -> None:
        """End the oldest connection without a handshake, or else the newest."""
        self._counters.crowded += 1
        now = time.monotonic()
        others = (fd for fd, one in list(self.connections.items()) if fd != newest and not self._shook(fd, one, now))
        self._turn_out(next(others, newest), "there are too many")

    def _shook(self, fd: int, connection: Connection, now: float) -> bool:
        """Whether its handshake is over; where no bytes are counted, whether libzmq would have ended it else."""
        if not self._counted:
            return now - connection.since > self._limits.handshake
        if connection.received < self._handshake_bytes:
            self._update(fd, connection, now)
        return connection.received >= self._handshake_bytes

    def _turn_out(self, fd: int, why: str) -> None:
        self.end(fd)
        ended = self._counters.crowded + self._counters.flooding + self._counters.stuck
        if ended & (ended - 1) == 0:
            log.warning("a connection to %s was ended, %d so far: %s", self.endpoint, ended, why)

    def _is_ours(self, connection: socket.socket) -> bool:
        name = connection.getsockname()
        if isinstance(name, tuple):
            return self.endpoint.startswith("tcp://") and self.endpoint.rpartition(":")[2] == str(name[1])
        return self.endpoint == "ipc://" + os.fsdecode(name).replace("\0", "@", 1)


class Guard:
    """Watches the doors of a publisher, in its own thread: the one that owns the sockets may be busy with a flood.

    `add` each socket before it is bound, set `Door.endpoint` when it is, then `start`. `stop` is for the thread that
    owns the sockets, before they are closed.
    """

    def __init__(self, limits: ClientLimits) -> None:
        self.counters = GuardCounters()
        self._limits = limits
        self._doors: list[Door] = []
        self._thread: threading.Thread | None = None

    def add(self, unbound: Socket, *, curve: bool = False) -> Door:
        """Watch a socket, once it is bound."""
        door = Door(unbound, self._limits, self.counters, curve=curve)
        self._doors.append(door)
        return door

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="kvwire-guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, without ending any connection."""
        for door in self._doors:
            door.stop()
        if self._thread is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        poller = zmq.Poller()
        for door in self._doors:
            poller.register(door.monitor, zmq.POLLIN)
        doors, looked = list(self._doors), 0.0
        while doors:
            anybody = any(door.connections for door in doors)
            poller.poll(round(1000 * LOOK_S) if anybody else None)
            for door in list(doors):
                if not door.hear():
                    poller.unregister(door.monitor)
                    door.monitor.close()
                    doors.remove(door)
            if time.monotonic() - looked >= LOOK_S:
                for door in doors:
                    door.look()
                looked = time.monotonic()


def _counters(fd: int) -> tuple[int, int, int]:
    """Bytes acknowledged, bytes received, bytes that wait to be sent; nothing where the descriptor is gone."""
    assert TCP_INFO is not None
    with suppress(OSError):
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fd)
        try:
            acknowledged, received, waiting = COUNTERS.unpack(
                borrowed.getsockopt(socket.IPPROTO_TCP, TCP_INFO, COUNTERS.size)
            )
        finally:
            borrowed.detach()
        return acknowledged, received, waiting
    return 0, 0, 0


@contextmanager
def _copy(fd: int) -> Iterator[socket.socket]:
    """Another descriptor of the same connection, for as long as this takes; `OSError` if there is none."""
    copy = os.dup(fd)
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with connection:
        yield connection
