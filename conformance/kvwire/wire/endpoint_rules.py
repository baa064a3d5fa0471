"""What a publisher has to refuse, and what it binds otherwise: the rules of spec/endpoint.md, by the texts alone.

Nothing is opened. The rules are ours and not the reference's: they judge it.
"""

from __future__ import annotations

import enum
import ipaddress
import os
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

SCHEMES = ("tcp", "ipc", "inproc")
PORT_MAX = 65535
IPC_BYTES = 107
"""Bytes of the path of a Unix socket on Linux."""
NO_REPLAY = "none"
"""The replay endpoint that asks for no replay socket."""
WILDCARDS = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what a publisher may report
"""Hosts that a publisher binds and nobody can connect to, and the loopback that reaches them."""
ANY_PORT = "*"
"""A port that some publishers take for the wish for an ephemeral one; the standard does not say that they must."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a ``start`` asked for, as far as it says where to bind. An endpoint of None left the choice to the adapter.

    ``world`` counts the ranks of the deployment, ``ranks_per_host`` those that share a host with this one.
    """

    endpoint: str | None = None
    replay: str | None = None
    rank: int = 0
    world: int = 1
    ranks_per_host: int = 1
    ephemeral: bool = False

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that it names, the publish endpoint first."""
        named = (self.endpoint, None if self.replay == NO_REPLAY else self.replay)
        return tuple(endpoint for endpoint in named if endpoint is not None)

    @property
    def undecided(self) -> bool:
        """Whether the standard leaves open if it is to be refused."""
        return any(split(endpoint)[2] == ANY_PORT for endpoint in self.endpoints)


class Rule(enum.Enum):
    """What an endpoint can have wrong with it; each is one sentence of spec/endpoint.md."""

    NO_PORT = "the port is missing or no decimal number"
    PORT_RANGE = "the port is outside 1…65535"
    RANK_RANGE = "the port plus the highest rank is above 65535"
    SCHEME = "the scheme is unknown"
    EMPTY = "it is empty"
    TOO_CLOSE = "publish and replay ports are closer together than the ranks of the host"
    SAME = "publish and replay are the same"
    LONG_PATH = "the path is longer than a socket's can be"


TOGETHER = frozenset({Rule.TOO_CLOSE, Rule.SAME})
"""Faults of two endpoints that are sound by themselves."""
SOUND = TOGETHER | {Rule.LONG_PATH}
"""Faults of endpoints from which a rank derives its own."""


class Fault(NamedTuple):
    """Why a ``start`` has to be refused: the rule, the endpoints that offend, and what is wrong with them."""

    rule: Rule
    endpoints: tuple[str, ...]
    why: str


def split(endpoint: str) -> tuple[str, str, str]:
    """Scheme, host or path, and port of an endpoint; what is missing is empty."""
    scheme, separator, rest = endpoint.partition("://")
    if not separator:
        return "", endpoint, ""
    if scheme != "tcp":
        return scheme, rest, ""
    if rest.startswith("["):
        host, bracket, tail = rest.partition("]")
        return scheme, host + bracket, tail.removeprefix(":")
    host, colon, port = rest.rpartition(":")
    return (scheme, host, port) if colon else (scheme, port, "")


def of_rank(endpoint: str, rank: int) -> str:
    """Where a global rank binds a sound endpoint [KVW-END-002] [KVW-END-003]; an ephemeral port stays as it is."""
    scheme, place, port = split(endpoint)
    if scheme == "tcp":
        return endpoint if port in ("0", ANY_PORT) else f"tcp://{place}:{int(port) + rank}"
    return f"{endpoint}_dp{rank}" if rank else endpoint


def connectable(endpoint: str) -> str | None:
    """A bound endpoint as a client on this host connects to it: a wildcard becomes loopback; None without a port."""
    scheme, place, port = split(endpoint)
    if scheme != "tcp":
        return endpoint
    is_port = port.isascii() and port.isdecimal() and 1 <= int(port) <= PORT_MAX
    return f"tcp://{WILDCARDS.get(place, place)}:{port}" if is_port else None


def faults(wish: Asked) -> tuple[Fault, ...]:
    """Every reason to refuse what was asked; a pair is looked at when each of the two is sound."""
    found = [fault for endpoint in wish.endpoints for fault in _alone(endpoint, wish)]
    if not found and len(wish.endpoints) == 2:
        found += _together(*wish.endpoints, wish.ranks_per_host)
    return tuple(found)


def _alone(endpoint: str, wish: Asked) -> Iterator[Fault]:
    def fault(rule: Rule, why: str) -> Fault:
        return Fault(rule, (endpoint,), why)

    scheme, _, port = split(endpoint)
    if not endpoint:
        yield fault(Rule.EMPTY, "it is empty")
    elif scheme not in SCHEMES:
        yield fault(Rule.SCHEME, "its scheme is not tcp, ipc or inproc")
    elif scheme == "ipc":
        length = len(os.fsencode(split(of_rank(endpoint, wish.rank))[1]))
        if length > IPC_BYTES:
            yield fault(Rule.LONG_PATH, f"its path has {length} bytes with the suffix of rank {wish.rank}")
    elif scheme == "tcp" and not port:
        yield fault(Rule.NO_PORT, "it has no port")
    elif scheme == "tcp" and port != ANY_PORT:
        yield from (fault(*reason) for reason in _port(port, wish))


def _port(port: str, wish: Asked) -> Iterator[tuple[Rule, str]]:
    if not (port.isascii() and port.isdecimal()):
        yield Rule.NO_PORT, f"its port {port!r} is not a decimal number"
    elif not 1 <= int(port) <= PORT_MAX:
        if int(port) or not wish.ephemeral:
            yield Rule.PORT_RANGE, f"its port is not in 1…{PORT_MAX}"
    elif int(port) + wish.world - 1 > PORT_MAX:
        yield Rule.RANK_RANGE, f"its port plus the highest rank, {wish.world - 1}, is above {PORT_MAX}"


def _together(publish: str, replay: str, ranks_per_host: int) -> Iterator[Fault]:
    if publish == replay:
        yield Fault(Rule.SAME, (publish, replay), "publish and replay are the same")
        return
    first, second = split(publish), split(replay)
    if first[0] == second[0] == "tcp" and first[2] not in ("0", ANY_PORT) and second[2] not in ("0", ANY_PORT):
        apart = abs(int(first[2]) - int(second[2]))
        if apart < ranks_per_host:
            why = f"their ports are {apart} apart, and the host has {ranks_per_host} ranks"
            yield Fault(Rule.TOO_CLOSE, (publish, replay), why)


def names(text: str, fault: Fault, rank: int) -> bool:
    """Whether an error names an endpoint at fault: as configured, or as the rank would bind it [KVW-END-012]."""
    for endpoint in fault.endpoints:
        if not endpoint:
            if any(sign in text for sign in ("''", '""', "``")) or "empty" in text.lower():
                return True
        elif endpoint in text or (fault.rule in SOUND and of_rank(endpoint, rank) in text):
            return True
    return False


def is_loopback(host: str) -> bool | None:
    """Whether a host of an endpoint is reached from this machine only; None for a name that says nothing."""
    if host == "localhost":
        return True
    if host == ANY_PORT:
        return False
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
