"""Replay: the ring of the newest batches and the ROUTER that hands them out.

The answer to `[identity][empty][start]` is every retained batch from `start` on, frame for frame
as it was sent live, then an end marker. A client may be slow, may pause and may vanish; the live
stream must not notice. So nothing here waits: each client has a cursor, each turn of the publisher
moves every cursor a little, and what the socket does not take now is tried again next turn. An end
marker is a promise that all was handed over, hence a client given up never gets one.

Beside the ring, clients can make it hold what was handed to libzmq and the system for them, and is not
acknowledged [KVW-REP-019]. Over tcp that is for all together at most four times `pipe_bytes`, and one
batch for each connection; everywhere `send_mark` batches for each connection. Requests are bounded by
`line` and `waiting_per_client` once they are whole, and before by the guard, which bounds connections
too.
"""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec
import zmq

from kvwire_reference.guard import Door
from kvwire_reference.wire import replay_end_frames

Frames = Sequence[bytes]

REQUEST_FRAMES = 3
TURN_S = 0.1
"""How long a client is answered before one that waits takes its place."""
SEQUENCE_BYTES = 8


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A batch that was sent, or is about to be: its number, and its frames `[topic][sequence][payload]`."""

    number: int
    frames: Frames


class Ring:
    """The newest `size` batches, ascending; numbers may be missing, none is there twice."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a ring holds at least the newest batch, not {size}")
        self._entries: deque[Entry] = deque(maxlen=size)
        self._displaced: Entry | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: Entry) -> None:
        """Retain `entry`; the oldest one leaves when the ring is full."""
        full = len(self._entries) == self._entries.maxlen
        self._displaced = self._entries[0] if full else None
        self._entries.append(entry)

    def withdraw(self, number: int) -> None:
        """Take the newest batch back, if it is this one, for it could not be sent; the one it displaced returns."""
        if self.newest != number:
            return
        self._entries.pop()
        if self._displaced is not None:
            self._entries.appendleft(self._displaced)
            self._displaced = None

    def at_or_after(self, number: int) -> Entry | None:
        """Return the oldest retained batch whose number is at least `number`."""
        index = bisect_left(self._entries, number, key=attrgetter("number"))
        return self._entries[index] if index < len(self._entries) else None

    @property
    def newest(self) -> int:
        """Number of the newest retained batch; -1 when nothing is retained."""
        return self._entries[-1].number if self._entries else -1


class ReplayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay may cost the publisher. `patience` is in seconds, `…_bytes` in bytes, the rest are counts.

    `clients` are answered at once; where more ask, they take turns, and as many as `line` wait for theirs.
    """

    clients: int = 16
    line: int = 256
    waiting_per_client: int = 8
    messages_per_turn: int = 32
    frames_per_turn: int = 256
    request_bytes: int = 65536
    send_mark: int = 64
    pipe_bytes: int = 32 * 2**20
    patience: float = 15.0


class ReplayCounters(msgspec.Struct):
    """Requests `answered` to the end, `malformed`, over a bound (`refused`), `abandoned`."""

    answered: int = 0
    malformed: int = 0
    refused: int = 0
    abandoned: int = 0


@dataclass(slots=True)
class Cursor:
    """How far one request has got: the next number to hand out and the last one it is owed."""

    position: int
    last: int


@dataclass(slots=True)
class Client:
    """The requests of one peer, answered one after the other; when it last took a message, and when its turn began.

    `fd` is the descriptor of its connection, −1 where that is not known.
    """

    identity: bytes
    fd: int
    moved_at: float
    began_at: float = 0.0
    cursors: deque[Cursor] = field(default_factory=deque)


class ReplayServer:
    """Answers replay requests from `ring` on a bound ROUTER, a turn at a time, never waiting.

    All methods are called from the thread that owns `router`, which is also the only one that
    appends to `ring`.
    """

    def __init__(self, router: "zmq.Socket[bytes]", ring: Ring, limits: ReplayLimits) -> None:
        self.router = router
        self.limits = limits
        self.counters = ReplayCounters()
        self.door: Door | None = None
        """Where connections are counted and ended, if they are."""
        self._ring = ring
        self._clients: dict[bytes, Client] = {}
        self._line: dict[bytes, Client] = {}
        """Who waits for a turn, the longest first."""
        self._incoming: list[bytes] = []
        self._asking = -1
        """The descriptor of the connection that the newest frame came from."""

    @staticmethod
    def prepare(router: "zmq.Socket[bytes]", limits: ReplayLimits) -> None:
        """Set the options that losslessness and bounded memory rest on; call before binding."""
        # Without MANDATORY a ROUTER drops, silently, what a full pipe cannot take.
        router.set(zmq.ROUTER_MANDATORY, 1)
        # Per client: what a paused reader can pin in memory.
        router.set(zmq.SNDHWM, limits.send_mark)
        # A longer frame ends its connection: what strangers can make this process allocate.
        router.set(zmq.MAXMSGSIZE, limits.request_bytes)
        router.set(zmq.LINGER, 0)

    @property
    def busy(self) -> bool:
        """Whether any client is still owed something."""
        return bool(self._clients or self._line)

    def turn(self) -> bool:
        """Take requests in, hand a bounded number of messages out; return whether any went out."""
        self._take_requests()
        self._let_in()
        share = max(1, self.limits.messages_per_turn // max(1, len(self._clients)))
        moved = 0
        for client in list(self._clients.values()):
            moved += self._serve(client, share)
        return moved > 0

    # Requests

    def _take_requests(self) -> None:
        # Frame by frame, so that neither many requests nor one of a million frames costs the live
        # stream more than a turn.
        for _ in range(self.limits.frames_per_turn):
            try:
                frame = self.router.recv(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            if self.door is not None:
                self._asking = _descriptor(frame)
                self.door.took(self._asking, len(frame))
            # One frame too many already tells that it is malformed.
            if len(self._incoming) <= REQUEST_FRAMES:
                self._incoming.append(frame.bytes)
            if not frame.more:
                request, self._incoming = self._incoming, []
                self._handle(request)

    def _handle(self, request: list[bytes]) -> None:
        start = self._start_of(request)
        if start is None:
            self.counters.malformed += 1
        else:
            self._admit(request[0], start)

    def _start_of(self, request: Frames) -> int | None:
        """Return the number a request asks to start from; None if it is malformed."""
        if len(request) != REQUEST_FRAMES:
            return None
        _, delimiter, start = request
        if delimiter or len(start) != SEQUENCE_BYTES:
            return None
        return int.from_bytes(start, "big")

    def _admit(self, identity: bytes, start: int) -> None:
        client = self._clients.get(identity) or self._line.get(identity)
        if client is None and len(self._line) < self.limits.line:
            client = self._line[identity] = Client(identity, self._asking, time.monotonic())
        # One request is being answered, the others wait.
        if client is None or len(client.cursors) > self.limits.waiting_per_client:
            self.counters.refused += 1
            return
        client.cursors.append(Cursor(start, self._ring.newest))
        self._let_in()

    def _let_in(self) -> None:
        """Begin to answer those who have waited the longest, as far as there is room or a turn is over."""
        if not self._line:
            return
        now = time.monotonic()
        for client in list(self._clients.values()) if len(self._clients) >= self.limits.clients else ():
            if now - client.began_at >= TURN_S:
                self._line[client.identity] = self._clients.pop(client.identity)
        while self._line and len(self._clients) < self.limits.clients:
            identity = next(iter(self._line))
            client = self._clients[identity] = self._line.pop(identity)
            client.began_at = now

    def _share(self) -> int:
        """Bytes that one client may leave unacknowledged before it gets more."""
        waiting = 0 if self.door is None else len(self.door.connections)
        return self.limits.pipe_bytes // max(waiting, self.limits.clients)

    # Answers

    def _serve(self, client: Client, share: int) -> int:
        """Hand `client` up to `share` messages; return how many it took."""
        for taken in range(share):
            try:
                if self.door is not None and not self.door.has_room(client.fd, self._share()):
                    raise zmq.Again
                self._hand_next(client)
            except zmq.Again:
                # Its pipe is full. That is no error until it lasts.
                if time.monotonic() - client.moved_at > self.limits.patience:
                    self._give_up(client)
                return taken
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                self._give_up(client)
                return taken
            client.moved_at = time.monotonic()
            if not client.cursors:
                del self._clients[client.identity]
                return taken + 1
        return share

    def _hand_next(self, client: Client) -> None:
        """Send the next message of the request being answered, and only then move its cursor."""
        cursor = client.cursors[0]
        entry = self._ring.at_or_after(cursor.position)
        if entry is not None and entry.number <= cursor.last:
            self._send(client.identity, self._answer_item(entry))
            if self.door is not None:
                self.door.gave(client.fd, sum(map(len, entry.frames)))
            cursor.position = entry.number + 1
        else:
            self._send(client.identity, self._end_marker())
            client.cursors.popleft()
            self.counters.answered += 1

    def _answer_item(self, entry: Entry) -> Frames:
        """One retained batch: the delimiter, then frame for frame what was sent live [KVW-REP-001]."""
        return (b"", *entry.frames)

    def _end_marker(self) -> Frames:
        """Say that all that was retained at the time of the request, and still is, was handed over [KVW-REP-008]."""
        return replay_end_frames()

    def _send(self, identity: bytes, frames: Frames) -> None:
        """Send whole or raise: `zmq.Again` when the pipe is full, EHOSTUNREACH when it is gone."""
        self.router.send_multipart([identity, *frames], zmq.DONTWAIT)

    def _give_up(self, client: Client) -> None:
        del self._clients[client.identity]
        self.counters.abandoned += len(client.cursors)


def _descriptor(frame: zmq.Frame) -> int:
    """Return the descriptor of the connection that a frame came from; -1 of a peer with ZMTP 1.0, which has none."""
    try:
        return int(frame.get(zmq.SRCFD))
    except zmq.ZMQError:
        return -1
