"""A consumer of one stream: subscribe, buffer, ask replay, splice, compare, resynchronise.

What a message *means* is decided in `stream`; here are only the sockets. The order of things matters:

* Replay is asked for only once the subscription's handshake has succeeded, so that nothing falls between
  [KVW-SEQ-011]. What a publisher sends before it has read the subscription shows as a gap at its next batch.
* Each connection gets a subscriber of its own. The end of a connection ends its subscriber, together with what it
  still held, so that nothing an old publisher sent can arrive after it. (A subscriber left to reconnect by itself
  mixes the two, and one that met a message beyond its size limit never reconnects at all.)
* The monitor is drained after each message and before the message is believed: the I/O thread reports the end
  of a connection before it delivers anything of the next one.
* Each question gets a DEALER of its own, so that what an older question left behind cannot be taken for its
  answer. (REQ reads only the first message of an answer [KVW-REP-021].)
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeAlias

import zmq
from zmq.utils.monitor import recv_monitor_message

from kvwire_reference import endpoints, wire
from kvwire_reference.residents import Residents
from kvwire_reference.stream import Counters, Stream

Socket: TypeAlias = "zmq.Socket[bytes]"
Prepare: TypeAlias = Callable[[Socket], None]

BURST: Final = 10_000
"""Messages taken from one socket before the others get their turn."""
RECONNECT_S: Final = 0.1


class Consumer:
    """Knows what is resident on one rank's stream, for as long as `poll` is called.

    `endpoint` and `replay` (or `None`) are that rank's own endpoints; `topic` is compared, not only subscribed
    to, because a subscription matches prefixes. `algorithm` is the hash label that the publisher declares, if
    it announces none, `counted` says that it declares counted residency. `reply_bound_s` bounds the silence within
    an answer [KVW-REP-024], `queue` the messages waiting here, `max_message` their size in bytes and with it all
    that one batch may hold. `prepare` sets options on each socket before it connects (CURVE keys, say). A `context`
    that is passed in is not ended here.

    Not thread-safe. One thread may hold and poll several consumers.
    """

    def __init__(
        self,
        endpoint: str,
        replay: str | None = None,
        *,
        topic: bytes = b"",
        algorithm: str | None = None,
        counted: bool = False,
        context: "zmq.Context[Socket] | None" = None,
        reply_bound_s: float = 2.0,
        queue: int = 100_000,
        max_message: int = 64 * 2**20,
        prepare: Prepare | None = None,
    ) -> None:
        self._ipv6 = endpoints.parse(endpoint).ipv6 or (replay is not None and endpoints.parse(replay).ipv6)
        self.stream = Stream(Residents(algorithm, counted=counted))
        self.foreign = 0
        """Messages that were not of this form, or had another topic."""
        self._endpoint = endpoint
        self._replay = replay
        self._topic = topic
        self._reply_bound_s = reply_bound_s
        self._queue = queue
        self._max_message = max_message
        self._prepare = prepare
        self._owned = context is None
        self._context: zmq.Context[Socket] = zmq.Context() if context is None else context
        self._connected = False
        self._reconnect_at = 0.0
        self._deadline = 0.0
        self._subscriber: Socket | None = None
        self._monitor: Socket | None = None
        self._dealer: Socket | None = None
        self._poller = zmq.Poller()
        self._subscribe()

    @property
    def residents(self) -> Residents:
        """What is resident, as far as it is known."""
        return self.stream.residents

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        return self.stream.counters

    @property
    def settled(self) -> bool:
        """Whether the publisher is connected and no question is open."""
        return self._connected and self.stream.settled

    def poll(self, timeout_s: float = 0.1) -> int:
        """Take in what has arrived, waiting at most `timeout_s` for the first of it; returns batches applied."""
        before = self.counters.applied
        if self._subscriber is None and time.monotonic() >= self._reconnect_at:
            self._subscribe()
        self._poller.poll(max(0, round(1000 * self._wait_s(timeout_s))))
        self._take_live()
        self._take_answer()
        self._ask()
        return self.counters.applied - before

    def close(self) -> None:
        """Close all sockets at once, and the context if it is ours. May be called twice."""
        self._unsubscribe()
        self._drop_dealer()
        if self._owned:
            self._context.term()  # every socket is closed without linger: this does not wait

    def __enter__(self) -> Self:
        """Use the consumer in a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _socket(self, kind: int) -> Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = self._queue
        socket.setsockopt(zmq.MAXMSGSIZE, self._max_message)
        socket.ipv6 = self._ipv6
        if self._prepare is not None:
            self._prepare(socket)
        self._poller.register(socket, zmq.POLLIN)
        return socket

    def _wait_s(self, timeout_s: float) -> float:
        if self._dealer is not None:
            timeout_s = min(timeout_s, self._deadline - time.monotonic())
        if self._subscriber is None:
            timeout_s = min(timeout_s, self._reconnect_at - time.monotonic())
        return timeout_s

    def _subscribe(self) -> None:
        self._subscriber = self._socket(zmq.SUB)
        self._monitor = self._subscriber.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._monitor.linger = 0
        self._poller.register(self._monitor, zmq.POLLIN)
        self._subscriber.subscribe(self._topic)
        self._subscriber.connect(self._endpoint)
        self._connected = self._endpoint.startswith("inproc://")  # no handshake to wait for, none to lose

    def _unsubscribe(self) -> None:
        self._connected = False
        if self._subscriber is None or self._monitor is None:
            return
        self._subscriber.disable_monitor()
        for socket in (self._monitor, self._subscriber):
            self._poller.unregister(socket)
            socket.close()
        self._subscriber = self._monitor = None

    def _take_live(self) -> None:
        for _ in range(BURST):
            if self._subscriber is None:
                return
            frames = _receive(self._subscriber)
            self._take_monitor()
            if frames is None or self._subscriber is None:
                return
            try:
                message = wire.parse_live(frames)
            except wire.WireError:
                self.foreign += 1
                continue
            if message.topic == self._topic:
                self.stream.live(message.sequence, message.payload)
            else:
                self.foreign += 1

    def _take_monitor(self) -> None:
        while self._monitor is not None and self._monitor.poll(0):
            if recv_monitor_message(self._monitor, zmq.NOBLOCK)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._connected = True
                continue
            self._unsubscribe()
            self._reconnect_at = time.monotonic() + RECONNECT_S
            self.stream.disconnected()

    def _ask(self) -> None:
        if not self._connected:
            return
        if self._replay is None:
            if self.stream.asking:
                self.stream.give_up()
            return
        start = self.stream.ask()
        if start is None:
            return
        self._drop_dealer()
        self._dealer = self._socket(zmq.DEALER)
        self._dealer.connect(self._replay)
        self._dealer.send_multipart(wire.replay_request_frames(start), zmq.NOBLOCK)
        self._deadline = time.monotonic() + self._reply_bound_s

    def _take_answer(self) -> None:
        for _ in range(BURST):
            if self._dealer is None or not self.stream.waiting:
                break
            frames = _receive(self._dealer)
            if frames is not None:
                self._deadline = time.monotonic() + self._reply_bound_s
                self._take_reply(frames)
            elif time.monotonic() >= self._deadline:
                self.stream.unanswered()
            else:
                return
        if not self.stream.waiting:
            self._drop_dealer()

    def _take_reply(self, frames: Sequence[bytes]) -> None:
        try:
            message = wire.parse_replay_answer(frames)
        except wire.WireError:
            self.foreign += 1
            self.stream.unanswered()
            return
        if message is None:
            self.stream.ended()
        elif message.topic == self._topic:
            self.stream.replayed(message.sequence, message.payload)
        else:
            self.foreign += 1
            self.stream.unanswered()

    def _drop_dealer(self) -> None:
        if self._dealer is not None:
            self._poller.unregister(self._dealer)
            self._dealer.close()
            self._dealer = None


def _receive(socket: Socket) -> list[bytes] | None:
    try:
        return socket.recv_multipart(zmq.NOBLOCK)
    except zmq.Again:
        return None
