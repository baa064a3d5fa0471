"""Whether an endpoint is free, asked before any socket is bound.

The system refuses a tcp port that somebody listens on. A file of an ipc endpoint it does not protect: libzmq removes
what stands at the path and binds anew, so that whoever listened there before goes deaf without an error. Hence both
are asked first: of a port whether it can be bound, of a path whether anybody accepts a connection.

What remains: two publishers that start in the same instant may both find an ipc path free, and the second takes it
over; over tcp the system decides between them.
"""

import errno
import ipaddress
import socket
import stat
from pathlib import Path
from typing import NoReturn

import zmq

from kvwire_reference.endpoints import Cause, Endpoint, EndpointError, parse

CONNECT_S = 0.5


def check_free(*endpoints: str) -> None:
    """Raise `EndpointError` for the first endpoint that another process serves, or whose path is no socket.

    A socket file that nobody listens on any more is free. Nothing stays open.
    """
    for endpoint in endpoints:
        parsed = parse(endpoint)
        if parsed.scheme == "tcp":
            _check_port(endpoint, parsed)
        elif parsed.scheme == "ipc":
            _check_path(endpoint, parsed.path)


def bind(unbound: "zmq.Socket[bytes]", endpoint: str) -> None:
    """Bind; an address in use, which another process took since it was asked for, is an `EndpointError` too."""
    try:
        unbound.bind(endpoint)
    except zmq.ZMQError as error:
        if error.errno != zmq.EADDRINUSE:
            raise
        _in_use(endpoint)


def ipc_file(endpoint: str) -> Path | None:
    """Return the file that an ipc endpoint makes; None for another scheme and for an abstract name."""
    path = endpoint.removeprefix("ipc://")
    return None if path == endpoint or path.startswith("@") else Path(path)


def _check_port(endpoint: str, parsed: Endpoint) -> None:
    host = "0.0.0.0" if parsed.host == "*" else parsed.host.strip("[]")  # noqa: S104 - asked for, and never listened on
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return  # the name of an interface: the system answers when it is bound
    with socket.socket(socket.AF_INET6 if parsed.ipv6 else socket.AF_INET) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as libzmq: what lingers of old connections is free
        try:
            probe.bind((host, parsed.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                _in_use(endpoint)
            # Any other fault is told by the bind itself.


def _check_path(endpoint: str, path: str) -> None:
    file = ipc_file(endpoint)
    if file is not None:
        try:
            mode = file.stat().st_mode
        except OSError:
            return  # nothing is there, or the bind itself says what is wrong
        if not stat.S_ISSOCK(mode):
            raise EndpointError(
                Cause.PATH, f"endpoint {endpoint!r} names a file that is no socket and would be lost; use another path"
            )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect("\0" + path[1:] if file is None else path)
        except (FileNotFoundError, ConnectionRefusedError):
            return
        except OSError:
            pass  # somebody is there, who does not answer or may not be asked
    _in_use(endpoint)


def _in_use(endpoint: str) -> NoReturn:
    raise EndpointError(
        Cause.IN_USE, f"endpoint {endpoint!r} is served by another process; stop that one, or use another endpoint"
    )
