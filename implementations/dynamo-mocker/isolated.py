"""Run a command in a network namespace that holds nothing but its own loopback.

``python isolated.py kvwire check …``. The mocker binds its sockets to every interface; here the only one is ``lo``, and
the harness, which runs inside too, reaches it there. Where the kernel allows no new namespace, the command runs without
one and standard error says so.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def isolate() -> None:
    """Move this process into a new user and network namespace, as the user that it was, and bring ``lo`` up.

    Raises:
        OSError: when the kernel refuses a step.
    """
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def possible() -> bool:
    """Whether every step works, tried in a child: a namespace without ``lo`` could not be left again."""
    child = os.fork()
    if child == 0:
        try:
            isolate()
        except OSError as error:
            print(f"no network namespace ({error}): ports are open on every interface", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    if possible():
        isolate()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
