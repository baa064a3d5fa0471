"""A gate between a publisher and one subscriber of ours: while it is shut, nothing of what the publisher sends passes.

A subscriber that does not read is no substitute: libzmq drops what the kernel still holds for it when its peer goes.
The gate reads until the very end, so that whatever the publisher handed to the kernel arrives.
"""

from __future__ import annotations

import math
import selectors
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from kvwire.probes.ground import LOOPBACKS, family_of
from kvwire.refusals import split

READ_BYTES = 1 << 16
TICK_S = 0.01
SMALL = 4096
"""Bytes of a TCP receive buffer here: little, so that little is under way while the gate is shut."""
SEND_S = 2.0
"""How long a side may take to accept what came from the other."""


def _socket(endpoint: str) -> tuple[socket.socket, tuple[str, int] | str]:
    """A socket for an endpoint of this machine, and the address."""
    scheme, place, port = split(endpoint)
    kind, host = LOOPBACKS[family_of(endpoint)] if scheme == "tcp" else (socket.AF_UNIX, "")
    made = socket.socket(kind, socket.SOCK_STREAM)
    if scheme == "tcp":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made, (host, int(port)) if scheme == "tcp" else place


class Gate:
    """Listens at one endpoint, connects to another for the first who comes, and passes bytes on.

    ``dials`` says that the publisher is the one who comes. What it sends waits while the gate is shut.
    """

    def __init__(self, listen: str, connect: str, *, dials: bool) -> None:
        self.listen = listen
        self.connect = connect
        self.dials = dials
        self.over = threading.Event()
        """One side has ended, and everything that the publisher had sent was passed on."""
        self._opens_at = 0.0
        self._leave = threading.Event()
        self._listener, address = _socket(listen)
        self._file = Path(address) if isinstance(address, str) else None
        self._listener.bind(address)
        self._listener.listen(1)
        self._listener.settimeout(TICK_S)
        self._thread = threading.Thread(target=self._run, name="kvwire-gate", daemon=True)
        self._thread.start()

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave.set()
        self._thread.join()

    def shut(self) -> None:
        """Let nothing of the publisher's pass from now on."""
        self._opens_at = math.inf

    def open(self, after_s: float) -> None:
        """Let everything pass, after a while."""
        self._opens_at = time.monotonic() + after_s

    @property
    def is_shut(self) -> bool:
        """Whether nothing of the publisher's passes."""
        return time.monotonic() < self._opens_at

    def _run(self) -> None:
        with self._listener:
            came = self._accept()
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        if came is None:
            return
        with came:
            called, address = _socket(self.connect)
            with called:
                try:
                    called.connect(address)
                except OSError:
                    return  # whom we were to reach is gone: the other sees its connection end
                publisher, subscriber = (came, called) if self.dials else (called, came)
                self._pass(publisher, subscriber)

    def _accept(self) -> socket.socket | None:
        while not self._leave.is_set():
            try:
                return self._listener.accept()[0]
            except TimeoutError:
                continue
        return None

    def _pass(self, publisher: socket.socket, subscriber: socket.socket) -> None:
        with selectors.DefaultSelector() as both:
            both.register(subscriber, selectors.EVENT_READ, publisher)
            while not self._leave.is_set():
                heard = len(both.get_map()) > 1
                if self.is_shut and heard:
                    both.unregister(publisher)
                elif not self.is_shut and not heard:
                    both.register(publisher, selectors.EVENT_READ, subscriber)
                for key, _ in both.select(TICK_S):
                    source = publisher if key.fileobj is publisher else subscriber
                    if not _forward(source, key.data):
                        self.over.set()
                        return


def _forward(source: socket.socket, target: socket.socket) -> bool:
    """Pass on what is there; False at the end of either side."""
    try:
        data = source.recv(READ_BYTES)
        target.settimeout(SEND_S)
        target.sendall(data)
    except OSError:
        return False
    return bool(data)
