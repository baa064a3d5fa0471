"""Publishers that bind, queue and write otherwise than the reference."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import zmq

from kvwire.peers.honest.mark import PROBES, honest
from kvwire.standard.protocol import Refused, Start
from kvwire.wire.events import ARRAY_SLOTS
from kvwire_reference.backlog import Backlog
from kvwire_reference.binding import check_free
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.endpoints import Cause, EndpointError, parse
from kvwire_reference.outlet import Outlet
from kvwire_reference.publisher import PublisherConfig, Socket, ZmqPublisher
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event

ENDPOINTS = (*PROBES, "places", "endpoints")


def _only(scheme: str, config: PublisherConfig) -> None:
    for endpoint in (config.endpoint, config.replay_endpoint):
        if endpoint is not None and not endpoint.startswith(f"{scheme}://"):
            raise EndpointError(Cause.SCHEME, f"endpoint {endpoint!r}: this publisher speaks {scheme} only")


@honest(
    "tcp-only",
    unlike="it speaks tcp only, and refuses any other scheme by name",
    passes="END-001 END-012 RES-003",
    probes=ENDPOINTS,
    scheme="tcp",
    statement={"default_endpoint": "tcp://127.0.0.1:5557"},
)
class TcpOnly(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        _only("tcp", config)
        super().__init__(config)


@honest(
    "ipc-only",
    unlike="it speaks ipc only, and refuses any other scheme by name",
    passes="END-001 RES-003",
    probes=ENDPOINTS,
)
class IpcOnly(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        _only("ipc", config)
        super().__init__(config)


@honest(
    "dialling",
    unlike="it connects to its one subscriber, which binds",
    passes="RES-003 RES-013",
    breaks="END-001",
    reason="a publisher that dials breaks it by the text, and can be judged in all the rest",
    mode="bind",
)
class Dials(ZmqPublisher):
    def _check_free(self) -> None:
        """Where it sends to, somebody else binds."""
        check_free(*([] if self.replay_endpoint is None else [self.replay_endpoint]))

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        if unbound is not self._live:
            return super()._bind(unbound, endpoint)
        unbound.set(zmq.IPV6, int(parse(endpoint).ipv6))
        unbound.connect(endpoint)
        return endpoint


class _Shared(Backlog):
    """From which two threads take."""

    def __init__(self) -> None:
        super().__init__()
        self._taking = threading.Lock()

    def take(self) -> tuple[int, Batch]:
        with self._taking:
            return super().take()


@honest(
    "drop-oldest",
    unlike="a full queue, of three batches, drops what has waited longest",
    passes="SEQ-002 SEQ-010",
    open="SEQ-009",
    start=Start(queue=3),
    probes=("live", "batches", "pressure", "gaps"),
)
class DropOldest(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config)
        shared = _Shared()
        while self._queue:  # the leading clear waits there already
            shared.put(*self._queue.take())
        self._queue = shared

    def publish(self, batch: Batch) -> bool:
        if batch.data_parallel_rank == self.rank:
            with self._lock:
                full = not self._stopped and len(self._queue) >= self.config.max_queue
                oldest = self._queue.take()[0] if full else -1
            if full:
                self._count_drop(oldest, "the queue is full")
        return super().publish(batch)


honest(
    "drop-newest",
    unlike="a queue of three batches drops what comes when it is full",
    passes="SEQ-002 SEQ-009 SEQ-010",
    start=Start(queue=3),
    probes=("live", "batches", "pressure", "gaps"),
)(ZmqPublisher)


_encode = msgspec.msgpack.Encoder().encode


class OneGroup(CacheEngine):
    """Has no groups, for which its publisher has no words."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        if config.groups:
            raise Refused("groups have no slot in this form")
        super().__init__(outlet, config)


class ArrayEvents(ZmqPublisher):
    """Writes events as arrays, the tag first."""

    stored: tuple[str, ...]
    removed: tuple[str, ...]

    def _encode(self, batch: Batch) -> bytes:
        super()._encode(batch)  # refuses what no form may send
        return _encode([batch.ts, [self._array(event) for event in batch.events], batch.data_parallel_rank])

    def _array(self, event: Event) -> list[Any]:
        match event:
            case BlockStored():
                return ["BlockStored", *(getattr(event, slot) for slot in self.stored)]
            case BlockRemoved():
                return ["BlockRemoved", *(getattr(event, slot) for slot in self.removed)]
            case AllBlocksCleared():
                return ["AllBlocksCleared"]


@honest(
    "array-v",
    unlike="events are arrays in the slots that vLLM used",
    passes="EVT-037 RES-003 CHN-003",
    passive="EVT-037",
    profile="legacy-array-v",
    statement={"form": "array-v"},
)
class ArrayV(ArrayEvents):
    stored, removed = ARRAY_SLOTS["stored"], ARRAY_SLOTS["removed"]


@honest(
    "array-s",
    unlike="events are arrays in the slots that SGLang used",
    passes="EVT-037 RES-003 CHN-003",
    passive="EVT-037",
    profile="legacy-array-s",
    statement={"form": "array-s"},
    make_engine=OneGroup,
)
class ArrayS(ArrayEvents):
    stored = ARRAY_SLOTS["stored"][:6]
    removed = ("block_hashes", "medium")
