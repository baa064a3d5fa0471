"""Which endpoint a rank binds, and which endpoints are refused before any socket is opened.

Every rank binds its own endpoints: `tcp://host:port` becomes port + global rank [KVW-END-002], `ipc://path` and
`inproc://name` get the suffix `_dp<rank>` for every rank above 0 [KVW-END-003]. Refusals [KVW-END-004…018] are
decided for the whole deployment, never for one rank alone: a launch in which only some ranks come up is worse than
none.
"""

import ipaddress
import os.path
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

PORT_MAX: Final = 65535
IPC_PATH_MAX: Final = 107
"""Bytes of a socket path: `sockaddr_un` holds 108, the last of which is a terminator."""

SCHEMES: Final = ("tcp", "ipc", "inproc")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Cause(StrEnum):
    """Why a configuration is refused, for programs."""

    EMPTY = "empty-endpoint"
    SCHEME = "unknown-scheme"
    HOST = "malformed-host"
    PATH = "malformed-path"
    PORT_MISSING = "missing-port"
    PORT_TEXT = "non-numeric-port"
    PORT_RANGE = "port-out-of-range"
    PORT_OVERFLOW = "port-plus-rank-overflow"
    PORT_ZERO = "ephemeral-not-asked"
    WILDCARD = "wildcard-not-asked"
    IPC_LENGTH = "ipc-path-too-long"
    IDENTICAL = "identical-endpoints"
    OVERLAP = "overlapping-ranges"
    IN_USE = "endpoint-in-use"
    RANK = "rank-out-of-range"
    TOPOLOGY = "unsupported-topology"


class EndpointError(ValueError):
    """A refusal. `cause` is stable; the message names the endpoint and the way out."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint in its parts: `host` and `port` for tcp, `path` for ipc and inproc."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def wildcard(self) -> bool:
        """Whether it would listen on every interface."""
        if self.host == "*":
            return True
        try:
            address = ipaddress.ip_address(self.host.strip("[]"))
        except ValueError:
            return False  # the name of an interface or a host
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return (mapped or address).is_unspecified

    @property
    def ipv6(self) -> bool:
        """Whether the socket needs IPv6 switched on to bind or connect to it."""
        return self.host.startswith("[")

    def at_rank(self, rank: int) -> "Endpoint":
        """Return the endpoint of a global rank. An ephemeral port (0) stays 0 at every rank."""
        if self.scheme == "tcp":
            return Endpoint(self.scheme, self.host, self.port + rank if self.port else 0)
        return Endpoint(self.scheme, path=f"{self.path}_dp{rank}" if rank else self.path)

    def __str__(self) -> str:
        rest = f"{self.host}:{self.port}" if self.scheme == "tcp" else self.path
        return f"{self.scheme}://{rest}"


class RankEndpoints(NamedTuple):
    """What one rank binds."""

    publish: str
    replay: str | None


def parse(endpoint: str) -> Endpoint:
    """Take an endpoint apart; raises `EndpointError` for anything that is not one of ours.

    Port 0 passes here: whether an ephemeral port is welcome is `check_endpoints`' question.
    """
    if not endpoint:
        raise EndpointError(Cause.EMPTY, "the endpoint '' is empty; give one such as tcp://127.0.0.1:5557")
    scheme, separator, rest = endpoint.partition("://")
    if not separator or scheme not in SCHEMES:
        raise EndpointError(Cause.SCHEME, f"endpoint {endpoint!r} has no known scheme; use tcp://, ipc:// or inproc://")
    if not rest:
        raise EndpointError(Cause.EMPTY, f"endpoint {endpoint!r} names nothing after its scheme; add the address")
    if scheme == "tcp":
        return _parse_tcp(endpoint, rest)
    if "\0" in rest or (scheme == "ipc" and rest == "*"):
        raise EndpointError(
            Cause.PATH, f"endpoint {endpoint!r} does not name a path; name a file in a private directory"
        )
    return Endpoint(scheme, path=rest)


def _parse_tcp(endpoint: str, rest: str) -> Endpoint:
    host, separator, port = rest.rpartition(":")
    if not separator or rest.endswith("]") or not port:
        if rest.startswith("[") and "]" not in rest:
            raise _host_error(endpoint, "its bracket is not closed")
        raise EndpointError(
            Cause.PORT_MISSING, f"endpoint {endpoint!r} has no port; write one after the host, as in :5557"
        )
    _check_host(endpoint, host)
    magnitude = port.removeprefix("-")
    if not (magnitude.isascii() and magnitude.isdigit()):
        raise EndpointError(
            Cause.PORT_TEXT, f"endpoint {endpoint!r} has the port {port!r}; write a number in 1…{PORT_MAX}"
        )
    digits = port.lstrip("0") or "0"
    if digits.startswith("-") or len(digits) > 5 or int(digits) > PORT_MAX:
        raise EndpointError(Cause.PORT_RANGE, f"endpoint {endpoint!r} has a port out of range; use one in 1…{PORT_MAX}")
    return Endpoint("tcp", host, int(digits))


def _check_host(endpoint: str, host: str) -> None:
    if not host:
        raise _host_error(endpoint, "it is empty")
    if host.startswith("["):
        if not host.endswith("]"):
            raise _host_error(endpoint, "its bracket is not closed")
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError as error:
            raise _host_error(endpoint, "it is no IPv6 address") from error
    elif ":" in host:
        raise _host_error(endpoint, "an IPv6 address needs brackets")
    elif re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError as error:
            raise _host_error(endpoint, "it is no IPv4 address") from error
    elif host != "*" and not _NAME.fullmatch(host):
        raise _host_error(endpoint, "it is neither a name nor an address")


def _host_error(endpoint: str, reason: str) -> EndpointError:
    return EndpointError(
        Cause.HOST,
        f"endpoint {endpoint!r} has a malformed host: {reason}; write tcp://127.0.0.1:PORT or tcp://[::1]:PORT",
    )


def rank_endpoint(endpoint: str, rank: int) -> str:
    """Return the endpoint that a global rank (0…) binds or is reached at; raises `EndpointError`."""
    parsed = parse(endpoint)
    if rank < 0:
        raise EndpointError(Cause.RANK, f"endpoint {endpoint!r}: rank {rank} is negative; ranks start at 0")
    _check_range(endpoint, parsed, rank)
    return str(parsed.at_rank(rank))


def check_endpoints(
    endpoint: str,
    replay: str | None,
    *,
    world_size: int,
    ranks_per_host: int,
    rank: int = 0,
    ephemeral: bool = False,
    wildcard: bool = False,
) -> RankEndpoints:
    """Refuse a configuration that cannot work on every rank; otherwise say what `rank` binds.

    `rank` counts over the whole deployment (0…world_size−1); `ranks_per_host` says how many ranks share a
    host, and with it its ports. Publish and replay ports closer than that are refused where the hosts are equal as
    text or one is a wildcard; two spellings of one address show when the second is bound. `ephemeral` permits port 0,
    `wildcard` every interface.
    Raises `EndpointError`; opens nothing.
    """
    if world_size < 1 or ranks_per_host < 1:
        raise EndpointError(
            Cause.RANK,
            f"endpoint {endpoint!r}: {world_size} ranks, {ranks_per_host} a host; both must be at least 1",
        )
    if not 0 <= rank < world_size:
        raise EndpointError(
            Cause.RANK,
            f"endpoint {endpoint!r}: rank {rank} is outside 0…{world_size - 1}; pass the global rank and size",
        )
    publish = _check_one(endpoint, world_size, ephemeral=ephemeral, wildcard=wildcard)
    if replay is None:
        return RankEndpoints(str(publish.at_rank(rank)), None)
    answer = _check_one(replay, world_size, ephemeral=ephemeral, wildcard=wildcard)
    _check_apart(endpoint, publish, replay, answer, world_size=world_size, ranks_per_host=ranks_per_host)
    return RankEndpoints(str(publish.at_rank(rank)), str(answer.at_rank(rank)))


def _check_one(text: str, world_size: int, *, ephemeral: bool, wildcard: bool) -> Endpoint:
    endpoint = parse(text)
    if endpoint.wildcard and not wildcard:
        raise EndpointError(
            Cause.WILDCARD,
            f"endpoint {text!r} listens on every interface and would show users' prompts to the network; "
            "bind 127.0.0.1 or one address, or allow the wildcard explicitly",
        )
    if endpoint.scheme == "tcp" and endpoint.port == 0 and not ephemeral:
        raise EndpointError(
            Cause.PORT_ZERO, f"endpoint {text!r} has port 0; use 1…{PORT_MAX}, or ask for an ephemeral port"
        )
    _check_range(text, endpoint, world_size - 1)
    return endpoint


def _check_range(text: str, endpoint: Endpoint, last_rank: int) -> None:
    last = endpoint.at_rank(last_rank)
    if last.port > PORT_MAX:
        raise EndpointError(
            Cause.PORT_OVERFLOW,
            f"endpoint {text!r}: port {endpoint.port} + rank {last_rank} is above {PORT_MAX}; "
            f"use a port of at most {PORT_MAX - last_rank}",
        )
    length = len(os.fsencode(last.path))
    if endpoint.scheme == "ipc" and length > IPC_PATH_MAX:
        raise EndpointError(
            Cause.IPC_LENGTH,
            f"endpoint {text!r}: the path of rank {last_rank} has {length} bytes, the system takes "
            f"{IPC_PATH_MAX}; use a shorter directory",
        )


def _check_apart(
    publish_text: str,
    publish: Endpoint,
    replay_text: str,
    replay: Endpoint,
    *,
    world_size: int,
    ranks_per_host: int,
) -> None:
    pair = f"publish endpoint {publish_text!r} and replay endpoint {replay_text!r}"
    if publish.scheme != replay.scheme:
        return
    if publish.scheme == "tcp":
        distance = abs(publish.port - replay.port)
        if publish.port == 0 or replay.port == 0:
            return  # the system gives each ephemeral port once
        if publish.host != replay.host and not (publish.wildcard or replay.wildcard):
            return
        if distance == 0 and publish.host == replay.host:
            raise EndpointError(Cause.IDENTICAL, f"{pair} are the same; move one by {ranks_per_host} or more")
        if distance < ranks_per_host:
            raise EndpointError(
                Cause.OVERLAP,
                f"{pair}: the ports of {ranks_per_host} ranks a host overlap; "
                f"move one so that they are at least {ranks_per_host} apart",
            )
        return
    ranks = min(ranks_per_host, world_size)
    publish_names, replay_names = _names(publish, ranks), _names(replay, ranks)
    if publish_names[0] == replay_names[0]:
        raise EndpointError(Cause.IDENTICAL, f"{pair} are the same; give replay a name of its own")
    if set(publish_names) & set(replay_names):
        raise EndpointError(
            Cause.IDENTICAL, f"{pair}: with the suffix of a rank one becomes the other; rename one of them"
        )


def _names(endpoint: Endpoint, ranks: int) -> list[str]:
    paths = [endpoint.at_rank(rank).path for rank in range(ranks)]
    return [os.path.normpath(path) for path in paths] if endpoint.scheme == "ipc" else paths
