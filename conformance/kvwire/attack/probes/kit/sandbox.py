"""What the machine offers to endpoint probes and shows of them: a private directory, free ports, and who listens."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from kvwire.standard import machine
from kvwire.trace.marks import EndpointSeen
from kvwire.wire.endpoint_rules import IPC_BYTES, is_loopback, split

PORTS = range(20_000, 30_000)
"""Where ports are taken from: below those that systems hand out by themselves, so that no client is given one."""
TRIES = 200
LONGEST_NAME = 32
"""How long a name in the private directory may be."""
LOOPBACKS = {"tcp4": (socket.AF_INET, "127.0.0.1"), "tcp6": (socket.AF_INET6, "::1")}
LISTEN = "0A"
"""The state of a listening socket in Linux's /proc/net/tcp."""


class Sandbox:
    """A private directory that is removed at the end, and the ports of loopback."""

    def __init__(self) -> None:
        self.directory = machine.folder(IPC_BYTES - LONGEST_NAME)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    # ipc

    def ipc(self, name: str) -> str:
        """An ipc endpoint in the private directory."""
        return f"ipc://{self.directory / name}"

    def ipc_of_length(self, length: int) -> str:
        """An ipc endpoint in the private directory whose path has so many bytes."""
        path = str(self.directory / "x")
        return f"ipc://{path}{'x' * (length - len(os.fsencode(path)))}"

    def forget(self) -> None:
        """Set the directory's time of change back, so that the next file that appears or goes shows in it."""
        os.utime(self.directory, (0, 0))

    @property
    def changed(self) -> bool:
        """Whether a file appeared in the directory, or went, since ``forget``."""
        return self.directory.stat().st_mtime_ns != 0


def ports(*offsets: int, family: str = "tcp4") -> int | None:
    """A port of loopback that is free, as are those that lie ``offsets`` above it; None when none can be had."""
    for _ in range(TRIES):
        first = PORTS.start + secrets.randbelow(len(PORTS) - max(offsets, default=0))
        if all(can_bind(first + offset, family) for offset in (0, *offsets)):
            return first
    return None


def can_bind(port: int, family: str = "tcp4") -> bool:
    """Whether a port of loopback can be bound as a server would: what lingers of closed connections is no hindrance."""
    kind, host = LOOPBACKS[family]
    try:
        with socket.socket(kind, socket.SOCK_STREAM) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((host, port))
            attempt.listen(1)
    except OSError:
        return False
    return True


def family_of(endpoint: str) -> str:
    """``tcp6`` for a bracketed host, else ``tcp4``."""
    return "tcp6" if split(endpoint)[1].startswith("[") else "tcp4"


def is_free(endpoint: str) -> bool:
    """Whether an endpoint that was bound can be bound anew: a port by us, a path when nobody listens there any more."""
    scheme, _, port = split(endpoint)
    if scheme == "tcp":
        return can_bind(int(port), family_of(endpoint))
    return not is_answered(endpoint)


def is_answered(endpoint: str) -> bool:
    """Whether somebody listens at an endpoint of this machine."""
    scheme, place, port = split(endpoint)
    kind, loopback = LOOPBACKS[family_of(endpoint)] if scheme == "tcp" else (socket.AF_UNIX, "")
    with socket.socket(kind, socket.SOCK_STREAM) as attempt:
        attempt.settimeout(0.2)
        try:
            attempt.connect((loopback, int(port)) if scheme == "tcp" else place)
        except OSError:
            return False
    return True


# who can come


def who_can_come(endpoint: str) -> EndpointSeen:
    """What the machine shows of who can reach an endpoint."""
    scheme, place, port = split(endpoint)
    if scheme == "ipc":
        return EndpointSeen(endpoint=endpoint, private=is_private(Path(place)))
    if scheme != "tcp" or not port.isdecimal():
        return EndpointSeen(endpoint=endpoint)
    near = is_loopback(place)
    return EndpointSeen(
        endpoint=endpoint,
        listening=None if near is False else listening(int(port)),
        addresses=None if near is not None else _resolved(place),
    )


def _resolved(host: str) -> tuple[str, ...]:
    try:
        return tuple(sorted({str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}))
    except OSError:
        return ()


def is_private(path: Path) -> bool | None:
    """Whether a directory on the way to a path lets nobody in but its user; None when there is none to be looked at.

    A name in the abstract namespace has no directory, and anybody comes to it.
    """
    if str(path).startswith("@"):
        return False
    try:
        modes = [folder.stat().st_mode for folder in path.absolute().parents]
    except OSError:
        return None
    return any(not mode & (stat.S_IXGRP | stat.S_IXOTH) for mode in modes)


def listening(port: int) -> tuple[str, ...] | None:
    """The local addresses of TCP sockets that listen on a port, from Linux's /proc; None where there is none."""
    found: set[str] = set()
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    if not tables[0].exists():
        return None
    for table in tables:
        if table.exists():
            found |= {host for host, number in _listeners(table.read_text(encoding="ascii")) if number == port}
    return tuple(sorted(found))


def _listeners(table: str) -> Iterator[tuple[str, int]]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        host, _, port = fields[1].partition(":")
        if fields[3] == LISTEN:
            yield _address(host), int(port, 16)


def _address(digits: str) -> str:
    """An address from the kernel's digits: 32-bit words in the order of this machine."""
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
