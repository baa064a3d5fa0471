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
    HOST = "the host is missing, or its bracket is not closed"
    RANK = "the rank is not one of the world's"
    IN_USE = "somebody serves it"


TOGETHER = frozenset({Rule.TOO_CLOSE, Rule.SAME})
"""Faults of two endpoints that are sound by themselves."""


class Fault(NamedTuple):
    """Why a ``start`` has to be refused: the rule, the endpoints that offend (none: a rank), and what is wrong."""

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
    is_port = _is_number(port) and 1 <= int(port) <= PORT_MAX
    return f"tcp://{WILDCARDS.get(place, place)}:{port}" if is_port else None


def faults(wish: Asked) -> tuple[Fault, ...]:
    """Every reason to refuse what was asked; a pair is looked at when each of the two is sound."""
    if not 0 <= wish.rank < wish.world:
        return (Fault(Rule.RANK, (), f"rank {wish.rank} is none of {wish.world}"),)
    found = [fault for endpoint in wish.endpoints for fault in _alone(endpoint, wish)]
    if not found and len(wish.endpoints) == 2:
        found += _together(*wish.endpoints, wish)
    return tuple(found)


def _alone(endpoint: str, wish: Asked) -> Iterator[Fault]:
    def fault(rule: Rule, why: str) -> Fault:
        return Fault(rule, (endpoint,), why)

    scheme, place, port = split(endpoint)
    if not endpoint:
        yield fault(Rule.EMPTY, "it is empty")
    elif scheme not in SCHEMES:
        yield fault(Rule.SCHEME, "its scheme is not tcp, ipc or inproc")
    elif endpoint == f"{scheme}://":
        yield fault(Rule.EMPTY, "nothing stands after its scheme")
    elif scheme == "ipc":
        last = wish.world - 1
        length = len(os.fsencode(split(of_rank(endpoint, last))[1]))
        if length > IPC_BYTES:
            yield fault(Rule.LONG_PATH, f"its path has {length} bytes with the suffix of the highest rank, {last}")
    elif scheme == "tcp" and (not place or (place.startswith("[") and not place.endswith("]"))):
        yield fault(Rule.HOST, "its bracket is not closed" if place else "it has no host")
    elif scheme == "tcp" and not port:
        yield fault(Rule.NO_PORT, "it has no port")
    elif scheme == "tcp" and port != ANY_PORT:
        yield from (fault(*reason) for reason in _port(port, wish))


def _port(port: str, wish: Asked) -> Iterator[tuple[Rule, str]]:
    if not _is_number(port):
        yield Rule.NO_PORT, f"its port {port!r} is not a decimal number"
    elif not 1 <= int(port) <= PORT_MAX:
        if int(port) or not wish.ephemeral:
            yield Rule.PORT_RANGE, f"its port is not in 1…{PORT_MAX}"
    elif int(port) + wish.world - 1 > PORT_MAX:
        yield Rule.RANK_RANGE, f"its port plus the highest rank, {wish.world - 1}, is above {PORT_MAX}"


def _is_number(port: str) -> bool:
    return port.isascii() and port.isdecimal()


def _together(publish: str, replay: str, wish: Asked) -> Iterator[Fault]:
    ranks = wish.ranks_per_host
    (scheme, host, port), (other_scheme, other_host, other_port) = split(publish), split(replay)
    if scheme == "tcp":
        if ANY_PORT in (port, other_port) or "0" in (port, other_port):
            return  # ephemeral ports are not known yet
        if publish == replay:
            yield Fault(Rule.SAME, (publish, replay), "publish and replay are the same")
        elif other_scheme == "tcp" and (host == other_host or not WILDCARDS.keys().isdisjoint({host, other_host})):
            apart = abs(int(port) - int(other_port))
            if apart < ranks:
                why = f"their ports are {apart} apart, and the host has {ranks} ranks"
                yield Fault(Rule.TOO_CLOSE, (publish, replay), why)
        return
    for rank in range(min(ranks, wish.world)):
        if of_rank(publish, rank) == replay or of_rank(replay, rank) == publish:
            of = f", that of rank {rank}" if rank else ""
            yield Fault(Rule.SAME, (publish, replay), f"publish and replay are the same{of}")
            return


def names(text: str, fault: Fault, wish: Asked) -> bool:
    """Whether an error names an endpoint at fault: as configured, or as derived for a rank [KVW-END-012].

    That of the rank itself, of the highest one, and of those of the host are such.
    """
    ranks = {wish.rank, wish.world - 1, *range(min(wish.ranks_per_host, wish.world))}
    for endpoint in fault.endpoints:
        if not endpoint:
            if any(sign in text for sign in ("''", '""', "``")) or "empty" in text.lower():
                return True
        elif endpoint in text or any(derived in text for derived in _derived(endpoint, ranks)):
            return True
    return False


def _derived(endpoint: str, ranks: set[int]) -> list[str]:
    """What ranks make of an endpoint, where they can make anything of it."""
    scheme, _, port = split(endpoint)
    if scheme not in SCHEMES or (scheme == "tcp" and port != ANY_PORT and not _is_number(port)):
        return []
    return [of_rank(endpoint, rank) for rank in ranks if rank > 0]


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
