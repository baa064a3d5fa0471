"""Endpoints as a client sees them: what can be reached, and where the other ranks are (spec/endpoints.md)."""

from __future__ import annotations

import os

from kvwire.attack.targets.target import TargetError
from kvwire.wire.endpoint_rules import IPC_BYTES, PORT_MAX, WILDCARDS, connectable


def check(endpoint: str, where: str, *, binds: bool = False) -> None:
    """Refuse an endpoint that a client cannot use; ``binds``: the harness binds it.

    Raises:
        TargetError: the message names the endpoint and begins with ``where``.
    """
    if odd := next((character for character in endpoint if not character.isprintable()), None):
        raise TargetError(f"{where}: endpoint {endpoint!r} holds {odd!r}, which no endpoint has")
    scheme, separator, rest = endpoint.partition("://")
    if not separator or scheme not in ("tcp", "ipc"):
        raise TargetError(
            f"{where}: endpoint {endpoint!r} is neither tcp://HOST:PORT nor ipc://PATH"
            + ("; inproc reaches no other process" if scheme == "inproc" else "")
        )
    if scheme == "ipc":
        if not rest:
            raise TargetError(f"{where}: endpoint {endpoint!r} has no path; write ipc:///path/of/the/socket")
        if len(os.fsencode(rest)) > IPC_BYTES:
            raise TargetError(f"{where}: endpoint {endpoint!r}: the path has more than {IPC_BYTES} bytes")
        return
    host, port = _split(rest)
    if port is None:
        raise TargetError(f"{where}: endpoint {endpoint!r} has no port; write tcp://{host or 'HOST'}:PORT")
    if not port.isascii() or not port.isdecimal() or not 1 <= int(port) <= PORT_MAX:
        raise TargetError(f"{where}: endpoint {endpoint!r} has port {port!r}; a port is 1…{PORT_MAX}")
    if not host:
        raise TargetError(f"{where}: endpoint {endpoint!r} has no host; write tcp://127.0.0.1:{port}")
    if host in WILDCARDS and not binds:
        raise TargetError(
            f"{where}: endpoint {endpoint!r} is what a publisher binds; to reach it, write the host: "
            f"tcp://{WILDCARDS[host]}:{port}"
        )


def _split(rest: str) -> tuple[str, str | None]:
    """Host and port; the colons in the brackets of an IPv6 address separate nothing."""
    if rest.startswith("["):
        host, _, tail = rest.partition("]")
        return host + "]", tail[1:] or None if tail.startswith(":") else None
    host, colon, port = rest.rpartition(":")
    return (host, port or None) if colon else (rest, None)


def of_rank(endpoint: str, rank: int, where: str) -> str:
    """The endpoint of a global rank: port plus rank, or the suffix ``_dp<rank>`` [KVW-END-002] [KVW-END-003].

    Raises:
        TargetError: when port plus rank is beyond the ports.
    """
    if rank == 0:
        return endpoint
    if endpoint.startswith("ipc://"):
        return f"{endpoint}_dp{rank}"
    head, _, port = endpoint.rpartition(":")
    if int(port) + rank > PORT_MAX:
        raise TargetError(f"{where}: endpoint {endpoint!r}: port {port} + rank {rank} is above {PORT_MAX}")
    return f"{head}:{int(port) + rank}"


def reachable(endpoint: str) -> str:
    """A bound endpoint as a client on this host connects to it: a wildcard becomes loopback."""
    return connectable(endpoint) or endpoint
