"""The publisher of one rank: batches in, numbered messages out, and never a wait for whoever calls.

`publish` numbers a batch and puts it into a bounded queue. Everything else happens in one thread, which owns
all sockets: it encodes, sends, retains, answers replay requests and CURVE handshakes. A batch that cannot be
queued, encoded or sent is lost whole, and its number with it: the hole is how consumers learn of the loss. What clients
can make it hold is bounded in `guard` and, for replay, in `replay`.
"""

import atexit
import logging
import math
import socket
import threading
import time
from pathlib import Path
from typing import Final

import msgspec
import zmq

from kvwire_reference.backlog import Backlog
from kvwire_reference.binding import bind, check_free, ipc_file
from kvwire_reference.curve import CurveServer, Gatekeeper, serve_curve
from kvwire_reference.endpoints import Cause, EndpointError, check_endpoints, parse
from kvwire_reference.guard import ClientLimits, Guard, GuardCounters, prepare
from kvwire_reference.outlet import Counters, NullPublisher
from kvwire_reference.replay import Entry, Frames, ReplayCounters, ReplayLimits, ReplayServer, Ring
from kvwire_reference.topology import Topology
from kvwire_reference.wire import AllBlocksCleared, Batch, encode, live_frames

log = logging.getLogger(__name__)

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]

send: Final = zmq.backend.Socket.send
"""Sends a frame; what `zmq.Socket` puts around it is for other sockets and other data, and takes longer than it."""
LAST: Final = int(zmq.DONTWAIT)
MORE: Final = int(zmq.SNDMORE | zmq.DONTWAIT)
LIVE_PER_TURN = 256
"""Messages that go out before replay gets its turn."""
RETRY_MS = 2
"""How long to wait for a replay client whose pipe is full before trying again."""
LIVE_IO, REPLAY_IO = 1, 2
"""The I/O threads of the two sockets, as a bit each: what replay clients do is not felt by the live stream."""
SUBSCRIPTION_BYTES = 65536
"""The longest frame taken from a subscriber; a longer one ends its connection."""
SUBSCRIPTIONS_AT_ONCE = 100
"""Of one subscriber, between two batches: libzmq takes them in while a batch is sent."""
REASON_LENGTH = 300
"""How much of an error a warning shows; what was offered may stand in it, at any length."""


class PublisherConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where a publisher binds and what it may hold.

    `endpoint` and `replay_endpoint` are those of rank 0; `rank` is global, 0…`world_size`−1: ranks with a cache, and
    so a stream, of their own. `topology` says what else is parallel; where it has data parallelism, that is the
    world size. `wildcard` permits to listen on every interface, `ephemeral` to let the system choose a port.
    `max_queue` batches may wait, `send_mark` wait for one slow subscriber, `ring` are retained for replay. An idle
    stream carries an empty batch every `heartbeat` seconds, if set; a stream begins with `AllBlocksCleared` if
    `clear_first`. What the clients of each of the two sockets may cost is `client_limits`, what replay may,
    `replay_limits`.
    """

    endpoint: str = "tcp://127.0.0.1:5557"
    replay_endpoint: str | None = None
    topic: str = ""
    rank: int = 0
    world_size: int = 1
    ranks_per_host: int = 1
    topology: Topology = Topology()
    wildcard: bool = False
    ephemeral: bool = False
    max_queue: int = 100_000
    send_mark: int = 10_000
    ring: int = 10_000
    heartbeat: float | None = None
    clear_first: bool = True
    curve: CurveServer | None = None
    client_limits: ClientLimits = ClientLimits()
    replay_limits: ReplayLimits = ReplayLimits()


class ZmqPublisher:
    """Publishes the batches of one rank over ZeroMQ. One object is one incarnation of a stream.

    Construction refuses what cannot work (`EndpointError`) and binds nothing; `start` binds. As a context
    manager it is started and shut down. `context`, its own and there once it is started, is where the clients
    of an inproc endpoint must live; they close before it is shut down.
    """

    def __init__(self, config: PublisherConfig) -> None:
        self.config = config
        self.rank = config.rank
        config.topology.check()
        if config.topology.data not in (1, config.world_size):
            raise EndpointError(
                Cause.TOPOLOGY, f"{config.topology} has {config.topology.data} streams, not {config.world_size}"
            )
        self.endpoint, self.replay_endpoint = check_endpoints(
            config.endpoint,
            config.replay_endpoint,
            world_size=config.world_size,
            ranks_per_host=config.ranks_per_host,
            rank=config.rank,
            ephemeral=config.ephemeral,
            wildcard=config.wildcard,
        )
        self._topic = config.topic.encode()
        self._ring = Ring(config.ring)
        self._queue = Backlog()
        # Guards the number, the counters, the two flags, and that numbers enter the queue in order.
        self._lock = threading.Lock()
        self._next_number = 0
        self._sent = 0
        self._dropped = 0
        self._unencodable = 0
        self._stopped = False
        self._woken = False
        self._deadline = math.inf
        self._last_offer = time.monotonic()
        self._last_ts = 0.0
        self._guard = Guard(config.client_limits)
        self._gate: Gatekeeper | None = None
        self._replay: ReplayServer | None = None
        self._replay_moved = False
        self._thread: threading.Thread | None = None
        if config.clear_first:
            # A consumer may still hold what an earlier life of this rank announced [KVW-SEQ-008].
            self.publish(Batch(time.time(), (AllBlocksCleared(),), self.rank))

    def __enter__(self) -> "ZmqPublisher":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # Any thread

    @property
    def counters(self) -> Counters:
        """What became of the batches so far, the leading clear and heartbeats included."""
        with self._lock:
            return Counters(self._next_number, self._sent, self._dropped, self._unencodable)

    @property
    def replay_counters(self) -> ReplayCounters:
        """What became of the replay requests so far."""
        return msgspec.structs.replace(self._replay.counters) if self._replay else ReplayCounters()

    @property
    def guard_counters(self) -> GuardCounters:
        """Connections that were ended so far, so that clients stay within their bounds."""
        return msgspec.structs.replace(self._guard.counters)

    def publish(self, batch: Batch) -> bool:
        """Offer a batch; return whether it was accepted. Never waits, whatever subscribers do.

        The number is taken first, so that a batch dropped for a full queue, or after `shutdown`, leaves a hole
        [KVW-SEQ-002]. Whatever cannot be encoded is accepted here and dropped later. Raises `ValueError`, and takes
        no number, for a batch of another rank.
        """
        offered: object = batch
        if isinstance(offered, Batch) and offered.data_parallel_rank != self.rank:
            raise ValueError(f"a batch of rank {offered.data_parallel_rank} on the stream of rank {self.rank}")
        with self._lock:
            number = self._reserve()
            accepted = not self._stopped and len(self._queue) < self.config.max_queue
            if accepted:
                self._queue.put(number, batch)
                if not self._woken:
                    self._wake()
        if not accepted:
            self._count_drop(number, "the queue is full or the publisher stopped")
        return accepted

    def start(self) -> None:
        """Bind and begin to send; a second call does nothing.

        Raises `EndpointError` for an endpoint in use, before any socket is open, `zmq.ZMQError` if one cannot be
        bound for another reason, with nothing left open, and `RuntimeError` after `shutdown`: a new incarnation is
        a new object.
        """
        if self._thread is not None:
            return
        if self._stopped:
            raise RuntimeError("this publisher was shut down; make a new one")
        self._check_free()
        self._open()
        self._thread = threading.Thread(target=self._run, name=f"kvwire-publisher-{self.rank}", daemon=True)
        self._thread.start()
        # A daemon thread would be cut off in the middle of its queue when the interpreter ends.
        atexit.register(self.shutdown)

    def shutdown(self, timeout: float = 1.0) -> None:
        """Send what was accepted, for `timeout` seconds at most, then close; count what was left as dropped.

        Harmless when called twice or without `start`.
        """
        with self._lock:
            if not self._stopped:
                self._deadline = time.monotonic() + timeout
                self._stopped = True
                if not self._woken:
                    self._wake()
        if self._thread is None:
            self._drop_rest()
        else:
            self._thread.join()
            atexit.unregister(self.shutdown)

    def _reserve(self) -> int:
        number = self._next_number
        self._next_number += 1
        return number

    def _wake(self) -> None:
        """Wake the thread, by one byte at most; the lock is held. Nobody listens before `start`."""
        if self._thread is not None:
            self._woken = True
            self._wake_sent.send(b"!")

    def _count_drop(self, number: int, why: str) -> None:
        with self._lock:
            self._dropped += 1
            dropped = self._dropped
        if dropped & (dropped - 1) == 0:
            log.warning("batch %d dropped, %d so far: %s", number, dropped, why)

    # Opening, by whoever starts it, and closing, by the thread

    def _check_free(self) -> None:
        check_free(self.endpoint, *([] if self.replay_endpoint is None else [self.replay_endpoint]))

    def _open(self) -> None:
        self._wake_sent, self._wake_heard = socket.socketpair()
        self._wake_sent.setblocking(False)
        self.context: Context = zmq.Context(io_threads=2)
        self._guard = Guard(self.config.client_limits)
        self._poller = zmq.Poller()
        self._poller.register(self._wake_heard, zmq.POLLIN)
        self._files: list[Path] = []
        try:
            if self.config.curve is not None:
                self._gate = Gatekeeper(self.context, self.config.curve.allowed)
                self._poller.register(self._gate.socket, zmq.POLLIN)
            self._live = self._open_live()
            endpoint = self._bind(self._live, self.endpoint)
            if self.replay_endpoint is not None:
                self._replay = self._open_replay()
                self._poller.register(self._replay.router, zmq.POLLIN)
                self.replay_endpoint = self._bind(self._replay.router, self.replay_endpoint)
            self.endpoint = endpoint
            self._guard.start()
        except BaseException:
            self._close()
            raise

    def _open_live(self) -> Socket:
        live = self.context.socket(zmq.PUB)
        live.set(zmq.AFFINITY, LIVE_IO)
        live.set(zmq.LINGER, 0)
        live.set(zmq.SNDHWM, self.config.send_mark)
        live.set(zmq.MAXMSGSIZE, SUBSCRIPTION_BYTES)
        live.set(zmq.RCVHWM, SUBSCRIPTIONS_AT_ONCE)
        return live

    def _open_replay(self) -> ReplayServer:
        router = self.context.socket(zmq.ROUTER)
        router.set(zmq.AFFINITY, REPLAY_IO)
        ReplayServer.prepare(router, self.config.replay_limits)
        return ReplayServer(router, self._ring, self.config.replay_limits)

    def _bind(self, unbound: Socket, endpoint: str) -> str:
        """Bind and return where: with an ephemeral port that is more than was asked [KVW-END-014]."""
        if self.config.curve is not None:
            serve_curve(unbound, self.config.curve)
        unbound.set(zmq.IPV6, int(parse(endpoint).ipv6))
        prepare(unbound, endpoint, self.config.client_limits)
        door = self._guard.add(unbound, curve=self.config.curve is not None)
        bind(unbound, endpoint)
        if (file := ipc_file(endpoint)) is not None:
            self._files.append(file)
        door.endpoint = unbound.get_string(zmq.LAST_ENDPOINT)
        if self._replay is not None and unbound is self._replay.router:
            self._replay.door = door
        return door.endpoint

    def _close(self) -> None:
        """Close every socket, wait for those that linger, and leave no file of an ipc endpoint behind."""
        self._guard.stop()
        self.context.destroy()
        self._wake_sent.close()
        self._wake_heard.close()
        for file in self._files:
            file.unlink(missing_ok=True)

    # The thread

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._wait()
                self._turn()
            self._send_rest()
        finally:
            with self._lock:
                self._stopped = True
            self._drop_rest()
            self._close()

    def _wait(self) -> None:
        self._poller.poll(self._wait_ms())
        with self._lock:
            if self._woken:
                self._wake_heard.recv(1)
                self._woken = False

    def _wait_ms(self) -> int | None:
        if self._queue or self._replay_moved:
            return 0
        if self._replay is not None and self._replay.busy:
            return RETRY_MS
        if self.config.heartbeat is None:
            return None
        return max(0, math.ceil(1000 * (self._last_offer + self.config.heartbeat - time.monotonic())))

    def _turn(self) -> None:
        """Do a bounded piece of everything, the live stream first."""
        if self._queue:
            self._last_offer = time.monotonic()
        for _ in range(LIVE_PER_TURN):
            if self._stopped or not self._queue:
                break
            self._send_next()
        self._replay_moved = self._replay is not None and self._replay.turn()
        if self._gate is not None:
            self._gate.answer()
        self._beat()

    def _beat(self) -> None:
        """Offer an empty batch when nothing was offered for a while, so that a lost tail shows [KVW-LIV-002]."""
        if self.config.heartbeat is not None and time.monotonic() - self._last_offer >= self.config.heartbeat:
            self.publish(Batch(max(time.time(), self._last_ts), (), self.rank))

    def _send_next(self) -> None:
        number, batch = self._queue.take()
        try:
            frames = self._frames(number, self._encode(batch))
        except BaseException as error:  # noqa: BLE001 - nothing that is offered may end the thread
            self._unencodable += 1
            self._count_drop(number, f"it cannot be encoded: {_reason(error)}")
            return
        # Retained first: whoever saw it live can ask from it at once, and gets it.
        self._remember(number, frames)
        try:
            self._send_live(frames)
        except (zmq.ZMQError, MemoryError) as error:
            self._ring.withdraw(number)
            self._count_drop(number, f"it cannot be sent: {_reason(error)}")
        else:
            self._last_ts = batch.ts
            self._sent += 1

    _encode = staticmethod(encode)

    def _frames(self, number: int, payload: bytes) -> Frames:
        return live_frames(self._topic, number, payload)

    def _send_live(self, frames: Frames) -> None:
        """Hand a message to every subscriber whose pipe has room; a PUB socket never waits."""
        for frame in frames[:-1]:
            send(self._live, frame, MORE)
        send(self._live, frames[-1], LAST)

    def _remember(self, number: int, frames: Frames) -> None:
        """Retain what is about to be sent, as it is sent, for replay [KVW-REP-013]."""
        self._ring.append(Entry(number, frames))

    def _send_rest(self) -> None:
        """Send what waits for half of the time left, and leave the other half to arrive."""
        now = time.monotonic()
        half = now + (self._deadline - now) / 2
        while self._queue and time.monotonic() < half:
            self._send_next()
        # A message handed to a socket is not sent yet; closing with no linger would lose it.
        self._live.set(zmq.LINGER, max(0, int(1000 * (self._deadline - time.monotonic()))))

    def _drop_rest(self) -> None:
        """Count what was accepted and will not be sent [KVW-LIV-004]."""
        while self._queue:
            number, _ = self._queue.take()
            self._count_drop(number, "the publisher stopped first")


def publisher_of(config: PublisherConfig, process: int) -> ZmqPublisher | NullPublisher:
    """Return what process 0… of `config.topology` publishes to: the stream of its rank, or nothing at all.

    Of the processes that share a cache only the first has a stream. Rank and world size follow from the topology.
    Raises `EndpointError` on every process of a deployment that cannot be streamed, not only on those with a stream.
    """
    config.topology.check()
    rank = config.topology.rank_of(process)
    if not config.topology.publishes(process):
        return NullPublisher(rank)
    return ZmqPublisher(msgspec.structs.replace(config, rank=rank, world_size=config.topology.data))


def _reason(error: BaseException) -> str:
    """Name an error and quote the beginning of it; its text may be as hostile as what was offered."""
    try:
        text = str(error)[:REASON_LENGTH]
    except Exception:  # noqa: BLE001
        text = "it cannot be written down"
    return f"{type(error).__name__}: {text}"
