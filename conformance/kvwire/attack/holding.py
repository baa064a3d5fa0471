"""How much libzmq holds for a stranger, and the end of a connection that makes it hold too much.

A message of several frames is handed on once its last one is there. Until then libzmq keeps them, and its high-water
marks count whole messages: of one that never ends it keeps everything. So a thread looks at the memory of the process.
Where that has grown by more than may be held, a connection is ended by shutdown(2) on its descriptor, which the monitor
of its socket tells: libzmq then lets go of what it kept, and says ``DISCONNECTED``. It is the one of which the system
counts many more bytes than messages were taken (tcp), else one that has bytes to read and brings no message.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import termios
import threading
from collections.abc import Callable
from pathlib import Path

TICK_S = 0.005
MIB = 2**20
_STATM = Path("/proc/self/statm")
_RECEIVED = struct.Struct("@Q")
_RECEIVED_AT = 128
"""Where ``tcpi_bytes_received`` stands in the ``tcp_info`` of Linux."""


def resident() -> int | None:
    """The bytes of this process in memory; None where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _trimmer() -> Callable[[int], int]:
    """What gives memory that was freed back to the system, where the C library can."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return lambda _: 0
    return trim


_trim = _trimmer()


class Held:
    """The connections of one socket: ``taken`` counts the messages that were taken from it, ``taken_bytes`` theirs.

    ``cut`` are the bytes that were held each time when one was ended.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.taken_bytes = 0
        self.cut: list[int] = []
        self._fds: dict[int, int] = {}
        """Descriptor → inode: a number that was given again is another inode."""
        self.unread = 0
        """How often bytes waited to be read, while the process grew and no message was taken."""
        self._before = 0

    def connected(self, fd: int) -> None:
        """A connection has begun."""
        with contextlib.suppress(OSError):
            self._fds[fd] = os.fstat(fd).st_ino
            self.taken_bytes = 0

    def disconnected(self, fd: int) -> None:
        """A connection has ended."""
        self._fds.pop(fd, None)

    def open(self) -> list[int]:
        """The descriptors of connections that still are."""
        return [fd for fd, inode in list(self._fds.items()) if _inode(fd) == inode]

    def idle(self) -> bool:
        """Whether no message was taken since this was asked last."""
        before, self._before = self._before, self.taken
        return before == self.taken

    def look(self) -> None:
        """Note whether bytes wait and no message comes."""
        self.unread = self.unread + any(map(_unread, self.open())) if self.idle() else 0


class Guard:
    """The thread, and the sockets that it watches while there are any.

    ``most`` is by how much the process may grow meanwhile, in bytes.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._watched: list[Held] = []
        self._base = 0

    def watch(self) -> Held:
        """One more socket."""
        held = Held()
        with self._lock:
            self._watched.append(held)
            if len(self._watched) == 1 and (now := resident()) is not None:
                self._base = now
                threading.Thread(target=self._look, name="kvwire-holding", daemon=True).start()
        return held

    def leave(self, held: Held) -> None:
        """One less."""
        with self._lock:
            if held in self._watched:
                self._watched.remove(held)

    def _look(self) -> None:
        wait = threading.Event().wait
        while True:
            wait(TICK_S)
            with self._lock:
                if not self._watched:
                    return
                if self._grown() <= self.most // 4:
                    continue
                for held in self._watched:
                    held.look()
                if self._grown() > self.most:
                    _trim(0)
                    if (grown := self._grown()) > self.most:
                        self._cut(grown)

    def _grown(self) -> int:
        return (resident() or 0) - self._base

    def _cut(self, grown: int) -> None:
        every = [(held, fd) for held in self._watched for fd in held.open()]
        counted = [(held, fd) for held, fd in every if _received(fd) - held.taken_bytes > self.most // 4]
        most = max((held.unread for held in self._watched), default=0)
        waiting = [(held, fd) for held, fd in every if held.unread and held.unread > most // 2]
        for held, fd in counted or waiting or every:
            held.unread = 0
            held.cut.append(grown)
            held.disconnected(fd)
            _shutdown(fd)


def _inode(fd: int) -> int | None:
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return None


def _received(fd: int) -> int:
    """The bytes that came over a tcp connection; 0 where the system does not count them."""
    try:
        opened = socket.socket(fileno=fd)
    except OSError:
        return 0
    try:
        info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + _RECEIVED.size)
        (count,) = _RECEIVED.unpack_from(info, _RECEIVED_AT)
        return int(count)
    except (OSError, AttributeError, struct.error):
        return 0
    finally:
        opened.detach()


def _unread(fd: int) -> bool:
    """Whether bytes wait to be read."""
    try:
        return any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    except OSError:
        return False


def _shutdown(fd: int) -> None:
    try:
        opened = socket.socket(fileno=fd)
    except OSError:
        return
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.detach()


HERE = Guard(192 * MIB)
"""That of this process."""
