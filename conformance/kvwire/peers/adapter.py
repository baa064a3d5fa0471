"""The adapter of the reference, and of everything made from it: one loop over standard input.

Engine and publisher come from factories, so that a mutant is a subclass. In the role ``cache`` the adapter
runs prompts through the engine, which decides all there is to decide; a batch that is offered beside it goes straight
to the publisher. In the role ``publish`` there is no engine: it
offers the batches of the harness as they are, so that events and ``ts`` are the harness's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import msgspec
import zmq

from kvwire.standard import machine
from kvwire.standard.protocol import MINOR, PROTOCOL, VERBS, Item, Refused, Start, Unsupported
from kvwire.wire.projection import plain_event, read_float
from kvwire_reference.cache import CacheConfig, CacheEngine, HostConfig, LifeCycle, MmItem, target_of
from kvwire_reference.endpoints import IPC_PATH_MAX, EndpointError
from kvwire_reference.groups import groups_of
from kvwire_reference.hashing import ALGORITHMS, Token
from kvwire_reference.outlet import Counters, Outlet
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames
from kvwire_reference.topology import Topology
from kvwire_reference.wire import Batch, Event

Role = Literal["cache", "publish"]


class Engine(Protocol):
    """What the adapter asks of an engine: that of the reference, or another of our own.

    ``insert`` runs a prompt and returns how many of its tokens were cached; it raises ``ValueError`` for one that it
    does not take. ``resident`` and ``residents`` say what is held, as `CacheEngine` does.
    """

    def insert(
        self, tokens: Sequence[Token], *, lora_id: int | None = None, salt: str | None = None, mm: Sequence[MmItem] = ()
    ) -> int:
        """Run a prompt."""

    def flush(self) -> Batch | None:
        """End an iteration."""

    def reset(self) -> None:
        """Forget everything."""

    def resident(self) -> list[int]:
        """Unsigned hashes of the full blocks on the device."""

    def residents(self) -> Mapping[tuple[str, int], list[int]]:
        """The same by medium and group, wherever blocks are announced at all."""


MakeEngine = Callable[[Outlet, CacheConfig], Engine]
MakePublisher = Callable[[PublisherConfig], ZmqPublisher]

COMMON = ("hello", "start", "fault", "stats", "restart", "stop")
CAN: Mapping[Role, tuple[str, ...]] = {
    "cache": (*COMMON, "publish", "burst", "cache", "resident", "reset"),
    "publish": (*COMMON, "publish", "burst"),
}
SETS: Mapping[Role, tuple[str, ...]] = {"cache": (), "publish": ("engine", "ts")}
PATH_ROOM = len("/replay_dp2147483647")
"""What a name in the private directory may add to its path."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """What is served: who it is, how it hashes, and where its parts come from.

    ``statement`` replaces fields of the reference's conformance statement. ``scheme`` is of the endpoints that it
    chooses itself, ``mode`` says who binds, as in ``Bound``.
    """

    name: str = "kvwire reference"
    version: str = "1"
    role: Role = "cache"
    algorithm: str = "v2_sha256_64/u32"
    multimodal: bool = False
    salt: Literal["none", "tag"] = "none"
    heartbeat: float | None = None
    make_engine: MakeEngine = CacheEngine
    make_publisher: MakePublisher = ZmqPublisher
    statement: Mapping[str, Any] = field(default_factory=dict)
    scheme: Literal["ipc", "tcp"] = "ipc"
    mode: Literal["connect", "bind"] = "connect"

    def declare(self) -> dict[str, Any]:
        """The conformance statement, with the defaults of a start that chooses nothing."""
        publisher = PublisherConfig()
        return {
            "edition": "1",
            "implementation": {"name": self.name, "version": self.version},
            "form": "map",
            "algorithm": self.algorithm,
            "residency": "set",
            "salt": self.salt,
            "replay_form": "replay-topic",
            "ring": publisher.ring,
            "queue": publisher.max_queue,
            "block_size": CacheConfig().block_size,
            "default_endpoint": publisher.endpoint,
            "bounds": {
                "replay_clients": publisher.replay_limits.clients,
                "replay_waiting": publisher.replay_limits.waiting_per_client,
                **({} if self.heartbeat is None else {"heartbeat_s": self.heartbeat}),
            },
            **self.statement,
        }


class Adapter:
    """Answers the verbs of the protocol for one publisher at a time."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._directory: Path | None = None
        self._config: PublisherConfig | None = None
        self._cache_config = CacheConfig()
        self._publisher: ZmqPublisher | None = None
        self._engine: Engine | None = None
        self._last = Counters()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request; raises Refused or Unsupported."""
        verb = request.get("verb")
        if verb not in VERBS or verb not in CAN[self.peer.role]:
            raise Unsupported(str(verb))
        handler: Callable[[Mapping[str, Any]], dict[str, Any]] = getattr(self, f"_{verb}")
        return handler(request)

    def close(self) -> None:
        """Stop the publisher and leave nothing behind."""
        self._shut_down()
        if self._directory is not None:
            shutil.rmtree(self._directory)

    # verbs

    def _hello(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "protocol": f"{PROTOCOL}.{MINOR}",
            "implementation": self.peer.name,
            "version": self.peer.version,
            "statement": self.peer.declare(),
            "can": list(CAN[self.peer.role]),
            "sets": list(SETS[self.peer.role]),
        }

    def _start(self, request: Mapping[str, Any]) -> dict[str, Any]:
        options = msgspec.convert({key: value for key, value in request.items() if key not in ("id", "verb")}, Start)
        if options.curve is not None:
            raise Refused("CURVE keys are not taken through this adapter")
        if options.ring == 0:
            raise Refused("a ring of no batches; `replay` of `none` asks for no replay")
        if self._publisher is not None:
            raise Refused("it runs already; stop it first")
        self._config = self._publisher_config(options)
        self._cache_config = self._engine_config(options)
        return self._run()

    def _publish(self, request: Mapping[str, Any]) -> dict[str, Any]:
        accepted, blocked = self._offer([_batch(request["batch"])])
        return {"accepted": accepted[0], "blocked_us": blocked[0]}

    def _burst(self, request: Mapping[str, Any]) -> dict[str, Any]:
        accepted, blocked = self._offer([_batch(projected) for projected in request["batches"]])
        return {"accepted": accepted, "blocked_us": blocked}

    def _offer(self, batches: Sequence[Batch]) -> tuple[list[bool], list[int]]:
        """Offer batches one right after the other; for each, whether it was accepted, and how long the call took."""
        publisher = self._running()
        accepted: list[bool] = []
        blocked: list[int] = []
        try:
            for batch in batches:
                began = time.monotonic_ns()
                accepted.append(publisher.publish(batch))
                blocked.append((time.monotonic_ns() - began) // 1000)
        except ValueError as error:
            raise Refused(f"this batch is not sent: {error}") from error
        return accepted, blocked

    def _cache(self, request: Mapping[str, Any]) -> dict[str, Any]:
        engine = self._running_engine()
        tokens: list[Token] = [bytes.fromhex(t) if isinstance(t, str) else t for t in request["tokens"]]
        lora = request.get("lora")
        try:
            cached = engine.insert(
                tokens,
                lora_id=None if lora is None else int(lora),
                salt=request.get("salt"),
                mm=[_mm_item(item) for item in msgspec.convert(request.get("mm") or (), tuple[Item, ...])],
            )
        except (ValueError, TypeError) as error:
            raise Refused(f"this prompt is not run: {error}") from error
        engine.flush()
        return {"cached_tokens": cached}

    def _resident(self, _: Mapping[str, Any]) -> dict[str, Any]:
        engine = self._running_engine()
        places = [
            {"medium": medium, "group": group, "hashes": [str(value) for value in hashes]}
            for (medium, group), hashes in engine.residents().items()
        ]
        return {"hashes": [str(value) for value in engine.resident()], "places": places}

    def _reset(self, _: Mapping[str, Any]) -> dict[str, Any]:
        engine = self._running_engine()
        engine.reset()
        engine.flush()
        return {}

    def _fault(self, request: Mapping[str, Any]) -> dict[str, Any]:
        publisher = self._running()
        match request.get("kind"):
            case "encode":
                publisher.publish(Batch(float("nan"), (), publisher.rank))
            case "send":
                doomed = Batch(time.time(), (), publisher.rank)
                _fail_to_send(publisher, doomed)
                publisher.publish(doomed)
            case kind:
                raise Refused(f"the fault {kind!r} cannot be caused; 'encode' and 'send' can")
        return {}

    def _stats(self, _: Mapping[str, Any]) -> dict[str, Any]:
        counters = self._last if self._publisher is None else self._publisher.counters
        return {"offered": counters.offered, "sent": counters.sent, "dropped": counters.dropped, "rss": _rss()}

    def _restart(self, _: Mapping[str, Any]) -> dict[str, Any]:
        self._running()
        self._shut_down()
        return self._run()

    def _stop(self, _: Mapping[str, Any]) -> dict[str, Any]:
        self._shut_down()
        return {}

    # the publisher

    def _publisher_config(self, options: Start) -> PublisherConfig:
        default = PublisherConfig()
        rank = options.rank or 0
        replay = options.replay
        return PublisherConfig(
            endpoint=self._chosen("live", rank) if options.endpoint is None else options.endpoint,
            replay_endpoint=self._chosen("replay", rank) if replay is None else None if replay == "none" else replay,
            topic=options.topic or "",
            rank=rank,
            world_size=rank + 1 if options.world is None else options.world,
            ranks_per_host=1 if options.ranks_per_host is None else options.ranks_per_host,
            topology=Topology(tensor=options.tp or 1, pipeline=options.pp or 1, context=options.cp or 1),
            ephemeral=bool(options.ephemeral),
            max_queue=options.queue or default.max_queue,
            send_mark=default.send_mark if options.hwm is None else options.hwm,
            ring=options.ring or default.ring,
            heartbeat=self.peer.heartbeat,
        )

    def _engine_config(self, options: Start) -> CacheConfig:
        default = CacheConfig()
        groups, tiers = options.groups or (), options.tiers or ()
        if len(tiers) > 1:
            raise Refused(f"one tier behind the device is served, not {len(tiers)}")
        life_cycles = tuple(LifeCycle(group.idx, group.window, group.kind, group.block_size) for group in groups)
        announced = tuple(group.idx for group in groups if group.announced)
        config = CacheConfig(
            block_size=options.block_size or default.block_size,
            capacity=options.capacity or default.capacity,
            algorithm=self.peer.algorithm,
            life_cycles=life_cycles or default.life_cycles,
            groups=announced if len(announced) > 1 else (),
            host=next((HostConfig(capacity=t.capacity, medium=t.medium, announced=t.announced) for t in tiers), None),
            multimodal=self.peer.multimodal,
            salt=self.peer.salt,
            max_entries=options.cap or default.max_entries,
            netting=bool(options.netting),
        )
        try:
            groups_of(config.life_cycles, config.groups, config.block_size)
        except ValueError as error:
            raise Refused(f"these groups are not served: {error}") from error
        if len(announced) == 1 and announced != (target_of(config.life_cycles).id,):
            raise Refused("of several groups the one with the largest window is announced")
        return config

    def _chosen(self, name: str, rank: int) -> str:
        """An endpoint of our choice: a port of loopback, or ipc in a directory that only this user can enter."""
        if self.peer.scheme == "tcp":
            return f"tcp://127.0.0.1:{_free_port() - rank}"
        if self._directory is None:
            self._directory = machine.folder(IPC_PATH_MAX - PATH_ROOM)
        return f"ipc://{self._directory / name}"

    def _run(self) -> dict[str, Any]:
        """Begin an incarnation: a publisher, and an engine with an empty cache."""
        assert self._config is not None
        try:
            publisher = self.peer.make_publisher(self._config)
            engine = self.peer.make_engine(publisher, self._cache_config) if self.peer.role == "cache" else None
            publisher.start()
        except EndpointError as error:
            raise Refused(str(error)) from error
        except zmq.ZMQError as error:
            endpoints = f"{self._config.endpoint!r} or {self._config.replay_endpoint!r}"
            raise Refused(f"{endpoints} cannot be bound: {error}") from error
        self._publisher, self._engine = publisher, engine
        return {
            "endpoint": publisher.endpoint,
            "replay": publisher.replay_endpoint,
            "topic": self._config.topic,
            "rank": self._config.rank,
            **({} if self.peer.mode == "connect" else {"mode": self.peer.mode}),
            "tp": self._config.topology.tensor,
            "pp": self._config.topology.pipeline,
            "cp": self._config.topology.context,
        }

    def _shut_down(self) -> None:
        if self._publisher is not None:
            self._publisher.shutdown()
            self._last = self._publisher.counters
        self._publisher = self._engine = None

    def _running(self) -> ZmqPublisher:
        if self._publisher is None:
            raise Refused("nothing runs; start it first")
        return self._publisher

    def _running_engine(self) -> Engine:
        if self._engine is None:
            raise Refused("nothing runs; start it first")
        return self._engine


def _free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as attempt:
        attempt.bind(("127.0.0.1", 0))
        return int(attempt.getsockname()[1])


def _batch(projected: Mapping[str, Any]) -> Batch:
    try:
        events = msgspec.convert([plain_event(event) for event in projected["events"]], tuple[Event, ...])
        return Batch(read_float(projected["ts"]), events, projected["data_parallel_rank"])
    except (msgspec.ValidationError, ValueError) as error:
        raise Refused(f"this batch is not sent: {error}") from error


def _mm_item(item: Item) -> MmItem:
    return MmItem(bytes.fromhex(item.digest), item.runs, item.uuid)


def _fail_to_send(publisher: ZmqPublisher, doomed: Batch) -> None:
    """Let the message of one batch fail at the socket, as it does where memory is exhausted, and the others pass."""
    send = publisher._send_live  # noqa: SLF001 - a fault is made here
    payload = publisher._encode(doomed)  # noqa: SLF001

    def send_unless_doomed(frames: Frames) -> None:
        if frames[-1] == payload:
            vars(publisher)["_send_live"] = send
            raise zmq.ZMQError(zmq.ENOBUFS)
        send(frames)

    vars(publisher)["_send_live"] = send_unless_doomed


def _rss() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def serve(peer: Peer, requests: IO[bytes] | None = None, answers: IO[bytes] | None = None) -> None:
    """Answer requests until they end; by default those of standard input, on standard output.

    What anything else writes to standard output goes to standard error from then on.
    """
    if answers is None:
        answers = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
    encode = msgspec.json.Encoder().encode
    adapter = Adapter(peer)
    try:
        for line in sys.stdin.buffer if requests is None else requests:
            request = msgspec.json.decode(line)
            answer: dict[str, Any]
            try:
                answer = {"ok": adapter.answer(request)}
            except Unsupported as verb:
                answer = {"unsupported": str(verb)}
            except Refused as reason:
                answer = {"refused": str(reason)}
            answers.write(encode({"id": request["id"], **answer}) + b"\n")
    finally:
        adapter.close()


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every peer of ours takes."""
    parser.add_argument("--role", choices=("cache", "publish"), default="cache")
    parser.add_argument("--algorithm", choices=tuple(ALGORITHMS), default=Peer.algorithm)
    parser.add_argument("--multimodal", action="store_true", help="announce blocks with digest tokens")
    parser.add_argument("--salt", choices=("none", "tag"), default=Peer.salt, help="what events tell of cache salts")
    parser.add_argument("--heartbeat", type=float, metavar="S", help="seconds of silence before an empty batch")


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of ``Peer`` that the options chose."""
    fields = ("role", "algorithm", "multimodal", "salt", "heartbeat")
    return {field: getattr(arguments, field) for field in fields}
