"""Publishers that bind in the wrong place or refuse too little: one small change each of what the endpoints become.

What the reference would refuse is bent into something that it takes, so that the fault is the acceptance.
"""

from __future__ import annotations

from typing import ClassVar

import zmq
from msgspec.structs import replace

from kvwire.peers.mutant import Session, mutant
from kvwire_reference.binding import check_free
from kvwire_reference.endpoints import IPC_PATH_MAX, Cause, EndpointError, check_endpoints, parse
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import ReplayServer

Socket = zmq.Socket[bytes]
ANY_PORT = "tcp://127.0.0.1:0"
PORTS = 65536
ENDPOINTS = Session(probes=("live", "endpoints"))
"""What other instances bind, and what they refuse."""
RANKS_ENDPOINTS = replace(ENDPOINTS, profile="ranks")


# --- where it binds ----------------------------------------------------------------------------------------------


@mutant(
    "dials",
    breaks="END-001",
    change="the publisher connects to a tcp endpoint instead of binding it",
    levels=("driven",),
    reports="sglang#25844",
    session=ENDPOINTS,
)
class Dials(ZmqPublisher):
    """As vLLM does with a host that is no wildcard."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        if unbound.type == zmq.PUB and endpoint.startswith("tcp://") and not endpoint.endswith(":0"):
            unbound.connect(endpoint)
            return endpoint
        return super()._bind(unbound, endpoint)


@mutant(
    "ignores-rank-in-port",
    breaks="END-002",
    change="every rank binds the configured port",
    levels=("driven",),
    reports="sglang#29211",
    session=RANKS_ENDPOINTS,
)
class IgnoresRankInPort(ZmqPublisher):
    scheme: ClassVar[str] = "tcp://"
    """Of which endpoints the rank is ignored."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config)
        if config.endpoint.startswith(self.scheme):
            self.endpoint, self.replay_endpoint = config.endpoint, config.replay_endpoint


@mutant(
    "ignores-rank-in-path",
    breaks="END-003",
    change="every rank binds the configured path",
    levels=("driven",),
    driven="RNK-003 RNK-004",
    reason="whoever binds the path last is heard in the place of the others",
    session=RANKS_ENDPOINTS,
)
class IgnoresRankInPath(IgnoresRankInPort):
    scheme = "ipc://"

    def _check_free(self) -> None:
        """Take over the path of another rank."""
        if not self.config.rank:
            super()._check_free()


@mutant(
    "finds-tcp-in-paths",
    breaks="END-003",
    change="an ipc path that contains `tcp` gets no suffix",
    levels=("driven",),
    session=RANKS_ENDPOINTS,
)
class FindsTcpInPaths(ZmqPublisher):
    """Looks for the name of the scheme anywhere, as vLLM does, and finds no port to add a rank to."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config)
        if config.endpoint.startswith("ipc://") and "tcp" in config.endpoint:
            self.endpoint = config.endpoint


@mutant(
    "reports-what-was-asked",
    breaks="END-014",
    change="an ephemeral port is not reported",
    levels=("driven",),
    reports="vllm#55679",
    session=ENDPOINTS,
)
class ReportsWhatWasAsked(ZmqPublisher):
    def _bind(self, unbound: Socket, endpoint: str) -> str:
        bound = super()._bind(unbound, endpoint)
        return endpoint if endpoint.endswith(":0") else bound


@mutant(
    "no-ipv6",
    breaks="END-015",
    change="IPv6 is never switched on",
    levels=("driven",),
    reports="sglang#25844",
    session=ENDPOINTS,
)
class NoIPv6(ZmqPublisher):
    """As the model publisher."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        if parse(endpoint).ipv6:
            raise zmq.ZMQError(zmq.EPROTONOSUPPORT)
        return super()._bind(unbound, endpoint)


@mutant(
    "clear-salts-everywhere",
    breaks="EXP-003",
    change="clear salts are declared, and every interface is bound",
    also="EXP-002",
    levels=("driven",),
    reason="nobody is authenticated",
    statement={"salt": "clear"},
    session=ENDPOINTS,
)
@mutant(
    "binds-everywhere",
    breaks="EXP-002",
    change="every interface is bound, whatever host is configured",
    levels=("driven",),
    reports="TensorRT-LLM#17631",
    session=ENDPOINTS,
)
class BindsEverywhere(ZmqPublisher):
    """As Dynamo's mocker does."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        super()._bind(unbound, endpoint.replace("tcp://127.0.0.1:", "tcp://0.0.0.0:"))
        return endpoint if not endpoint.endswith(":0") else unbound.get_string(zmq.LAST_ENDPOINT)


@mutant(
    "wide-by-default",
    breaks="EXP-001",
    change="the default endpoint is every interface",
    levels=("driven",),
    reports="TensorRT-LLM#17631",
    statement={"default_endpoint": "tcp://*:5557"},
    session=Session(probes=("live", "places")),
)
class WideByDefault(ZmqPublisher):
    """Declares it; bound is what the harness chooses."""


# --- what it refuses ---------------------------------------------------------------------------------------------


@mutant(
    "guesses-port",
    breaks="END-004",
    change="a port that is missing or no number is chosen by the system",
    levels=("driven",),
    reports="TensorRT-LLM#17023",
    session=ENDPOINTS,
)
class GuessesPort(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, endpoint=_guessed(config.endpoint), ephemeral=True))


def _guessed(endpoint: str) -> str:
    try:
        parse(endpoint)
    except EndpointError as error:
        return ANY_PORT if error.cause in (Cause.PORT_MISSING, Cause.PORT_TEXT) else endpoint
    if endpoint.endswith(":0"):
        raise EndpointError(Cause.PORT_ZERO, f"{endpoint!r} has port 0")
    return endpoint


@mutant(
    "wraps-ports",
    breaks="END-005",
    change="a port is taken modulo 65536, and 0 is accepted",
    levels=("driven",),
    reports="vllm#55679",
    session=ENDPOINTS,
)
class WrapsPorts(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        endpoint = config.endpoint
        host, _, port = endpoint.rpartition(":")
        if endpoint.startswith("tcp://") and port.isdecimal() and int(port) >= PORTS:
            endpoint = f"{host}:{int(port) % PORTS}"
        super().__init__(replace(config, endpoint=endpoint, ephemeral=True))


@mutant(
    "looks-at-its-own-rank",
    breaks="END-006",
    change="a port that overflows at a higher rank is accepted",
    levels=("driven",),
    session=RANKS_ENDPOINTS,
)
class LooksAtItsOwnRank(ZmqPublisher):
    """Knows nothing of the ports of the ranks above its own."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(_alone(config) if config.endpoint.startswith("tcp://") else config)


def _alone(config: PublisherConfig) -> PublisherConfig:
    """Without the ranks above its own; one that is out of range stays so."""
    return replace(config, world_size=config.rank + 1) if 0 <= config.rank < config.world_size else config


@mutant(
    "any-scheme",
    breaks="END-007",
    change="an unknown scheme is taken for tcp",
    levels=("driven",),
    reports="TensorRT-LLM#17023",
    session=ENDPOINTS,
)
class AnyScheme(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        scheme, _, rest = config.endpoint.rpartition("://")
        endpoint = config.endpoint if not rest or scheme in ("tcp", "ipc", "inproc") else f"tcp://{rest}"
        super().__init__(replace(config, endpoint=endpoint))


@mutant(
    "empty-is-any", breaks="END-008", change="an empty endpoint is taken for any", levels=("driven",), session=ENDPOINTS
)
class EmptyIsAny(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        empty = not config.endpoint
        super().__init__(replace(config, endpoint=ANY_PORT, ephemeral=True) if empty else config)


@mutant(
    "scheme-without-a-place",
    breaks="END-008",
    change="nothing after the scheme is taken for any port",
    levels=("driven",),
    session=ENDPOINTS,
)
class SchemeWithoutAPlace(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        bare = config.endpoint.endswith("://")
        super().__init__(replace(config, endpoint=ANY_PORT, ephemeral=True) if bare else config)


@mutant(
    "counts-the-ranks-of-other-hosts",
    breaks="END-002",
    change="port ranges are refused that would overlap if all ranks were on one host",
    levels=("driven",),
    session=RANKS_ENDPOINTS,
)
class CountsTheRanksOfOtherHosts(ZmqPublisher):
    """Refuses too much: two hosts of two ranks each have room for ports that lie two apart."""

    def __init__(self, config: PublisherConfig) -> None:
        tcp = config.endpoint.startswith("tcp://") and config.replay_endpoint is not None
        super().__init__(replace(config, ranks_per_host=max(1, config.world_size)) if tcp else config)


@mutant(
    "alone-on-its-host",
    breaks="END-009",
    change="port ranges that overlap are accepted",
    levels=("driven",),
    session=ENDPOINTS,
)
class AloneOnItsHost(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, ranks_per_host=1) if config.endpoint.startswith("tcp://") else config)


@mutant(
    "shares-its-path",
    breaks="END-010",
    change="one ipc endpoint is accepted for both sockets",
    levels=("driven",),
    session=ENDPOINTS,
)
class SharesItsPath(ZmqPublisher):
    """As the model publisher and vLLM do; the second gets the file."""

    def __init__(self, config: PublisherConfig) -> None:
        same = config.endpoint.startswith("ipc://") and config.endpoint == config.replay_endpoint
        super().__init__(replace(config, replay_endpoint=None) if same else config)
        if same:
            self.replay_endpoint = self.endpoint


@mutant(
    "knows-its-own-path",
    breaks="END-010",
    change="a replay path is accepted on which another rank publishes",
    levels=("driven",),
    session=Session(probes=("live", "endpoints"), profile="ranks-replay"),
)
class KnowsItsOwnPath(ZmqPublisher):
    """Compares what is configured, and forgets what the suffix of a rank makes of it."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config if config.endpoint.startswith("tcp://") else replace(config, ranks_per_host=1))


@mutant(
    "measures-its-own-path",
    breaks="END-011",
    change="a path is accepted that is too long for a higher rank",
    levels=("driven",),
    session=ENDPOINTS,
)
class MeasuresItsOwnPath(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        one = config.endpoint.startswith("ipc://") and config.replay_endpoint is None
        super().__init__(_alone(config) if one else config)


@mutant(
    "cuts-paths", breaks="END-011", change="a path that is too long is cut off", levels=("driven",), session=ENDPOINTS
)
class CutsPaths(ZmqPublisher):
    """Where the address of the system ends."""

    def __init__(self, config: PublisherConfig) -> None:
        endpoint = config.endpoint
        cut = ""
        if endpoint.startswith("ipc://"):
            path = endpoint.removeprefix("ipc://")
            whole = path + (f"_dp{config.rank}" if config.rank else "")
            cut = whole[:IPC_PATH_MAX] if len(whole) > IPC_PATH_MAX else ""
        super().__init__(replace(config, endpoint=f"ipc://{cut}", rank=0, world_size=1) if cut else config)


@mutant(
    "names-nothing",
    breaks="END-012",
    change="a refusal does not say what it refuses",
    levels=("driven",),
    session=ENDPOINTS,
)
class NamesNothing(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        try:
            super().__init__(config)
        except EndpointError as error:
            raise EndpointError(error.cause, "this configuration cannot be used") from error


@mutant(
    "checks-late",
    breaks="END-013",
    change="the replay endpoint is checked after the live socket is bound",
    levels=("driven",),
    session=ENDPOINTS,
)
class ChecksLate(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, replay_endpoint=None))
        self._unchecked = config
        self.replay_endpoint = config.replay_endpoint

    def _check_free(self) -> None:
        """Look at the live endpoint only."""
        check_free(self.endpoint)

    def _open_replay(self) -> ReplayServer:
        config = self._unchecked
        _, self.replay_endpoint = check_endpoints(
            config.endpoint,
            config.replay_endpoint,
            world_size=config.world_size,
            ranks_per_host=config.ranks_per_host,
            rank=config.rank,
            ephemeral=config.ephemeral,
        )
        if self.replay_endpoint is not None:
            check_free(self.replay_endpoint)
        return super()._open_replay()


@mutant(
    "no-host-is-loopback",
    breaks="END-016",
    change="a host that is missing or not closed is taken for loopback",
    levels=("driven",),
    session=ENDPOINTS,
)
class NoHostIsLoopback(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        try:
            parse(config.endpoint)
        except EndpointError as error:
            port = config.endpoint.rpartition(":")[2]
            if error.cause is not Cause.HOST or not port.isdecimal():
                raise
            config = replace(config, endpoint=f"tcp://127.0.0.1:{port}")
        super().__init__(config)


@mutant(
    "any-rank",
    breaks="END-017",
    change="a rank that is none of the world's is accepted",
    levels=("driven",),
    session=ENDPOINTS,
)
class AnyRank(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        rank = max(0, config.rank)
        super().__init__(replace(config, rank=rank, world_size=max(config.world_size, rank + 1)))


@mutant(
    "takes-paths-over",
    breaks="END-018",
    change="an ipc endpoint is bound that another process serves",
    levels=("driven",),
    session=Session(probes=("live", "endpoint-in-use")),
)
class TakesPathsOver(ZmqPublisher):
    """As every publisher that leaves it to libzmq."""

    def _check_free(self) -> None:
        """Look at nothing; over tcp the system refuses."""
