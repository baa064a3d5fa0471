"""Publishers that bind in the wrong place or refuse too little: one small change each of what the endpoints become.

What the reference would refuse is bent into something that it takes, so that the fault is the acceptance.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec
import zmq

from kvwire_reference.endpoints import IPC_PATH_MAX, Cause, EndpointError, check_endpoints, parse
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames, ReplayServer
from kvwire_reference.wire import Batch

Socket = zmq.Socket[bytes]
ANY = "tcp://127.0.0.1:0"
PORTS = 65536


def _bent(config: PublisherConfig, **changed: Any) -> PublisherConfig:
    return msgspec.structs.replace(config, **changed)


# --- where it binds ----------------------------------------------------------------------------------------------


class Dials(ZmqPublisher):
    """Connects its live socket to a tcp endpoint, as vLLM does with a host that is no wildcard."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        if unbound.type == zmq.PUB and endpoint.startswith("tcp://") and not endpoint.endswith(":0"):
            unbound.connect(endpoint)
            return endpoint
        return super()._bind(unbound, endpoint)


class IgnoresRankInPort(ZmqPublisher):
    """Binds the configured port at every rank."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config)
        if config.endpoint.startswith("tcp://"):
            self.endpoint, self.replay_endpoint = config.endpoint, config.replay_endpoint


class IgnoresRankInPath(ZmqPublisher):
    """Binds the configured path at every rank."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config)
        if config.endpoint.startswith("ipc://"):
            self.endpoint, self.replay_endpoint = config.endpoint, config.replay_endpoint

    def _check_free(self) -> None:
        """Take over the path of another rank."""


class ReportsWhatWasAsked(ZmqPublisher):
    """Reports port 0 where the system gave another."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        bound = super()._bind(unbound, endpoint)
        return endpoint if endpoint.endswith(":0") else bound


class NoIPv6(ZmqPublisher):
    """Never switches IPv6 on, as the model publisher."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        if parse(endpoint).ipv6:
            raise zmq.ZMQError(zmq.EPROTONOSUPPORT)
        return super()._bind(unbound, endpoint)


class BindsEverywhere(ZmqPublisher):
    """Binds tcp ports on every interface, whatever host it was told, as Dynamo's mocker does."""

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        super()._bind(unbound, endpoint.replace("tcp://127.0.0.1:", "tcp://0.0.0.0:"))
        return endpoint if not endpoint.endswith(":0") else unbound.get_string(zmq.LAST_ENDPOINT)


# --- what it refuses ---------------------------------------------------------------------------------------------


class GuessesPort(ZmqPublisher):
    """Lets the system choose a port where none is given, or none that is a number."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(_bent(config, endpoint=_guessed(config.endpoint), ephemeral=True))


def _guessed(endpoint: str) -> str:
    try:
        parse(endpoint)
    except EndpointError as error:
        return ANY if error.cause in (Cause.PORT_MISSING, Cause.PORT_TEXT) else endpoint
    if endpoint.endswith(":0"):
        raise EndpointError(Cause.PORT_ZERO, f"{endpoint!r} has port 0")
    return endpoint


class WrapsPorts(ZmqPublisher):
    """Takes ports modulo 2^16, so that one too large is another, and 0 the system's choice."""

    def __init__(self, config: PublisherConfig) -> None:
        endpoint = config.endpoint
        host, _, port = endpoint.rpartition(":")
        if endpoint.startswith("tcp://") and port.isdecimal() and int(port) >= PORTS:
            endpoint = f"{host}:{int(port) % PORTS}"
        super().__init__(_bent(config, endpoint=endpoint, ephemeral=True))


class LooksAtItsOwnRank(ZmqPublisher):
    """Knows nothing of the ranks above its own."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(_bent(config, world_size=config.rank + 1))


class AnyScheme(ZmqPublisher):
    """Takes whatever stands before the host for tcp."""

    def __init__(self, config: PublisherConfig) -> None:
        scheme, _, rest = config.endpoint.rpartition("://")
        bent = config.endpoint if not rest or scheme in ("tcp", "ipc", "inproc") else f"tcp://{rest}"
        super().__init__(_bent(config, endpoint=bent))


class EmptyIsAny(ZmqPublisher):
    """Takes an empty endpoint for any."""

    def __init__(self, config: PublisherConfig) -> None:
        empty = not config.endpoint
        super().__init__(_bent(config, endpoint=ANY, ephemeral=True) if empty else config)


class AloneOnItsHost(ZmqPublisher):
    """Does not ask how many ranks share its host."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(_bent(config, ranks_per_host=1))


class SharesItsPath(ZmqPublisher):
    """Takes one ipc endpoint for both sockets, as the model publisher and vLLM do; the second gets the file."""

    def __init__(self, config: PublisherConfig) -> None:
        same = config.endpoint.startswith("ipc://") and config.endpoint == config.replay_endpoint
        super().__init__(_bent(config, replay_endpoint=None) if same else config)
        if same:
            self.replay_endpoint = self.endpoint


class CutsPaths(ZmqPublisher):
    """Cuts a path off where the system's address ends."""

    def __init__(self, config: PublisherConfig) -> None:
        endpoint = config.endpoint
        cut = ""
        if endpoint.startswith("ipc://"):
            path = endpoint.removeprefix("ipc://")
            whole = path + (f"_dp{config.rank}" if config.rank else "")
            cut = whole[:IPC_PATH_MAX] if len(whole) > IPC_PATH_MAX else ""
        super().__init__(_bent(config, endpoint=f"ipc://{cut}", rank=0, world_size=1) if cut else config)


class NamesNothing(ZmqPublisher):
    """Refuses without saying what."""

    def __init__(self, config: PublisherConfig) -> None:
        try:
            super().__init__(config)
        except EndpointError as error:
            raise EndpointError(error.cause, "this configuration cannot be used") from error


class ChecksLate(ZmqPublisher):
    """Looks at its replay endpoint when its live socket is bound already."""

    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(_bent(config, replay_endpoint=None))
        self._late = config
        self.replay_endpoint = config.replay_endpoint

    def _check_free(self) -> None:
        """Look at nothing yet."""

    def _open_replay(self) -> ReplayServer:
        config = self._late
        _, self.replay_endpoint = check_endpoints(
            config.endpoint,
            config.replay_endpoint,
            world_size=config.world_size,
            ranks_per_host=config.ranks_per_host,
            rank=config.rank,
            ephemeral=config.ephemeral,
        )
        return super()._open_replay()


# --- ranks -------------------------------------------------------------------------------------------------------


class OnlyRankZero(ZmqPublisher):
    """Publishes on rank 0 only, as SGLang did: the other ranks bind, and stay silent."""

    def _send_live(self, frames: Frames) -> None:
        if self.config.rank == 0:
            super()._send_live(frames)


class AlwaysRankZero(ZmqPublisher):
    """Says rank 0 at every rank."""

    def _encode(self, batch: Batch) -> bytes:
        return super()._encode(msgspec.structs.replace(batch, data_parallel_rank=0))


class SharesCounter(ZmqPublisher):
    """Numbers the batches of all ranks of a host by one counter, which lies in a file beside their ipc endpoints."""

    def _reserve(self) -> int:
        if self.config.world_size == 1 or not self.config.endpoint.startswith("ipc://"):
            return super()._reserve()
        path = Path(self.config.endpoint.removeprefix("ipc://") + ".counter")
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            number = int(file.read() or 0)
            file.seek(0)
            file.write(str(number + 1))
        self._next_number = number + 1
        return number
