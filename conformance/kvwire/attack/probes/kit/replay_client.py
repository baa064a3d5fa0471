"""Replay clients of ours: connections, the requests on them, and what comes back for each (spec/replay.md)."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Sequence
from types import TracebackType

import zmq

from kvwire.attack.curve import Curve
from kvwire.attack.probes.kit.session import Session
from kvwire.attack.witness_process import DISCONNECTED, HANDSHAKE_SUCCEEDED, RCVHWM, Monitor, Socket, prepare
from kvwire.standard.statement import Stream
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import WELL_FORMED, ReplayBehind, ReplayDone, ReplayRequest, Unreachable
from kvwire.wire.framing import END_NUMBER, END_SEQUENCE, number_of, split_live, split_replay

BURST = 256
QUIET_S = 0.3
"""How long a connection is silent before the next request on it asks whether more will come."""
POLL_MS = 10
REST = 6
"""How often the rest of an answer that ended too early is asked for."""
IMPATIENT_S = 1.0
"""How long an answer may stay silent once another one of the stream was silent for ``replay_s``."""
RCVBUF = 4096
"""What the system buffers for a client that pauses, in bytes: little, so that its pause is felt. Tcp heeds it."""


def start_frame(start: int) -> bytes:
    """A start as it stands in a request; behind the last number there is that of the end marker."""
    return min(start, END_NUMBER).to_bytes(8, "big")


class Request:
    """One request, and what came back for it. ``name`` is the source of its answer's records."""

    def __init__(self, name: str, start: int | None, situation: str = "") -> None:
        self.name = name
        self.start = start
        self.situation = situation
        self.numbers: list[int] = []
        self.messages = 0
        self.payload_bytes = 0
        self.marked = False
        self.outcome: str | None = None

    @property
    def holes(self) -> list[int]:
        """The first missing number of each hole between two numbers of the answer."""
        return [before + 1 for before, after in itertools.pairwise(self.numbers) if after > before + 1]


class Client:
    """One connection. It reads unless told not to; ``mark`` is its receive high-water mark in messages."""

    def __init__(
        self,
        context: zmq.Context[Socket],
        name: str,
        stream: Stream,
        *,
        mark: int = RCVHWM,
        kind: int = zmq.DEALER,
        curve: Curve | None = None,
    ) -> None:
        assert stream.replay is not None
        self.name = name
        self.stream = stream
        self.mark = mark
        self.delimited = kind != zmq.REQ
        """Whether the delimiter is ours to send and to read; REQ keeps it to itself."""
        self.socket: Socket = context.socket(kind)
        prepare(self.socket, stream.replay, curve)
        if mark != RCVHWM:
            self.socket.set(zmq.RCVHWM, mark)
            self.socket.set(zmq.RCVBUF, RCVBUF)
        self.monitor = Monitor(self.socket)
        self.socket.connect(stream.replay)
        self.requests: list[Request] = []
        self.reading = True
        self.known: dict[int, int] = {}
        """What follows each number, as another answer showed: a publisher may have holes of its own."""
        self.reached = False
        self.lost = False
        self.handshake_s = 0.0
        """For how long its handshake was awaited at most."""
        self.bound_s = 0.0
        self.heard_at = time.monotonic()
        self._at = 0

    def begin(self, requests: list[Request]) -> None:
        """Nothing came yet, and these are what was asked."""
        self.requests, self._at = requests, 0

    @property
    def over(self) -> bool:
        """Whether every request has its outcome."""
        return all(request.outcome is not None for request in self.requests)

    @property
    def idle(self) -> bool:
        """Whether the last request has its end marker."""
        return bool(self.requests) and self.requests[-1].marked

    @property
    def last(self) -> int | None:
        """The last number that came."""
        return next((request.numbers[-1] for request in reversed(self.requests) if request.numbers), None)

    def request_of(self, number: int | None, oldest: int = 0) -> Request:
        """The request that a message answers; ``number`` is that of its batch, None if it holds none.

        A connection keeps its order: the next answer begins after an end marker or, where that is missing, at a number
        that does not rise. Where numbers do not follow each other it is the answer to the request that asked for this
        number, if one did; unless the number can be the ``oldest`` that is retained, at which every answer begins whose
        beginning was evicted. Numbers follow each other as in ``known``, where they are in it.
        """
        current = self.requests[self._at]
        last = current.numbers[-1] if current.numbers else None
        over = current.marked or (number is not None and last is not None and number <= last)
        later = range(self._at + 1, len(self.requests))
        if current.start is not None and current.numbers and current.numbers[0] > current.start:
            oldest = max(oldest, current.numbers[0])
        if later and over and number is not None:
            start = self.requests[later[0]].start
            if start is not None and start < number <= oldest:
                self._at += 1
                return self.requests[self._at]
        if later and (over or (number is not None and last is not None and number != self.known.get(last, last + 1))):
            asked = next((at for at in later if number is not None and number == self.requests[at].start), None)
            if asked is not None:
                self._at = asked
            elif over:
                self._at += 1
        return self.requests[self._at]

    def overtaken(self, request: Request) -> bool:
        """Whether a later request has been answered."""
        return request in self.requests[: self._at]

    def put(self, frames: Sequence[bytes]) -> None:
        """Send, unless the connection was ended here: who is lost hears nothing."""
        with contextlib.suppress(zmq.Again):
            self.socket.send_multipart(frames, zmq.DONTWAIT)

    def close(self) -> None:
        """Vanish."""
        self.monitor.close()
        self.socket.close(0)


class ReplayClients:
    """Sends requests and records what comes back. A client stays open for a while after its answer.

    Thus a second end marker, or a late answer to a malformed request, is heard too.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.keep = max(1, session.statement.bounds.replay_clients // 2)
        self._context: zmq.Context[Socket] = zmq.Context()
        self._open: list[Client] = []
        self.silent = False
        """Whether an answer was silent for the whole bound: the next ones get less."""
        self.unreached = False
        """The same of handshakes."""

    def __enter__(self) -> ReplayClients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._open:
            client.close()
        self._context.destroy(linger=0)

    # asking

    def ask(self, stream: Stream, start: int, situation: str = "") -> Request:
        """Send a well-formed request and await its answer; what it leaves out is asked for again, at once.

        An answer that does not come in time is asked for again, until it is certain that none comes.
        What another answer holds was retained when this one left it out: a hole, or the rest after an early marker.
        What an answer leaves out that was asked to begin with it was not retained.
        """
        first = rest = self._until_certain(stream, start, situation)
        for number in self._left_out(stream, first):
            self._ask(stream, number, situation, again=True)
        for _ in range(REST):
            newest = self.session.recorder.newest(stream.name)
            if rest.outcome != "marker" or not rest.numbers or newest is None or rest.numbers[-1] >= newest:
                break
            rest = self._ask(stream, rest.numbers[-1] + 1, situation, again=True)
        return first

    def _until_certain(self, stream: Stream, start: int, situation: str) -> Request:
        """The first request of these; if a later one has its answer in time, that one."""
        request: Request | None = None
        for attempt in self.session.attempts(stream.name):
            last = self._ask(stream, start, situation, again=bool(attempt))
            request = last if request is None or last.marked else request
            if last.outcome not in ("timeout", "unreachable"):
                break
        assert request is not None
        return request

    def _left_out(self, stream: Stream, request: Request) -> list[int]:
        """The first number of each hole of an answer, of a few; what a witness heard, if anything, comes first."""
        if not request.holes:
            return []
        heard = self.heard(stream, request.numbers[0])
        return [first for first in request.holes if first in heard][:REST] or request.holes[:1]

    def heard(self, stream: Stream, first: int) -> set[int]:
        """The numbers from a first one on that a witness has heard live since one was last connected."""
        found: set[int] = set()
        for record in reversed(self.session.recorder.records):
            if record.stream != stream.name:
                continue
            if record.event == DISCONNECTED:
                break
            if record.is_live and record.frames and (parts := split_live(record.frames)) and parts[0] >= first:
                found.add(parts[0])
        return found

    def _ask(self, stream: Stream, start: int, situation: str, *, again: bool = False) -> Request:
        client = self.connect(stream)
        request = self.request(client, start, situation, again=again)
        self.await_answers([client])
        return request

    def connect(self, stream: Stream, *, mark: int = RCVHWM, kind: int = zmq.DEALER) -> Client:
        """A new connection, once its handshake is there or ``handshake_s`` is over."""
        session = self.session
        client = Client(
            self._context, session.next_client(), stream, mark=mark, kind=kind, curve=session.recorder.curve
        )
        self._open.append(client)
        bound = session.limits.handshake_s
        client.handshake_s = min(bound, IMPATIENT_S) if self.unreached else bound
        client.reached = session.wait(lambda: self._reached(client), client.handshake_s)
        self.unreached = self.unreached or not client.reached
        session.recorder.pump()  # what was heard live by now stands before the request
        return client

    def request(self, client: Client, start: int, situation: str = "", *, again: bool = False) -> Request:
        """Send a well-formed request."""
        frames = (b"", start_frame(start))
        return self.send(client, WELL_FORMED, frames, start=start, situation=situation, again=again)

    def send(
        self,
        client: Client,
        kind: str,
        frames: Sequence[bytes],
        *,
        start: int | None = None,
        situation: str = "",
        again: bool = False,
    ) -> Request:
        """Send a request over a connection; without a handshake its outcome is ``unreachable``."""
        first = not client.requests
        request = Request(client.name if first else self.session.next_client(), start, situation)
        client.requests.append(request)
        if not client.reached and self.session.left() <= 0:
            request.outcome = "over"
            return request
        stream, bound = client.stream, self.session.limits.handshake_s
        assert stream.replay is not None
        if not client.reached and not situation:
            self.session.mark(Unreachable(endpoint=stream.replay, of=(client.name,), bound_s=bound), stream.name)
            request.outcome = "unreachable"
            return request
        sent = ReplayRequest(
            client=request.name,
            kind=kind,
            start=None if start is None else str(start),
            frames=tuple(frame.hex() for frame in frames),
            situation=situation,
            connection="" if first else client.name,
            rcvhwm=None if client.mark == RCVHWM else client.mark,
            again=again,
        )
        self.session.mark(sent, stream.name)
        if client.reached:
            client.put(frames if client.delimited else frames[1:])
        else:
            self._done(client, request, "unreachable")
        client.heard_at = time.monotonic()
        return request

    def _reached(self, client: Client) -> bool:
        self._hear_monitor(client)
        return self.session.recorder.handshakes(client.stream.name, client.name) > 0

    def _hear_monitor(self, client: Client) -> None:
        for event in client.monitor.drain():
            if event == DISCONNECTED:
                client.lost = True
                continue
            self.session.recorder.note(SocketEvent(event=event, of=client.name), client.stream.name)
            client.lost = client.lost and event != HANDSHAKE_SUCCEEDED
        if said := client.monitor.said_cut():
            client.lost = True
            endpoint = str(client.stream.replay)
            with contextlib.suppress(zmq.ZMQError):
                client.socket.disconnect(endpoint)  # it would ask for nothing there
            self.session.trouble(f"{endpoint}: {said}", client.stream.name)

    # awaiting

    def await_answers(self, clients: Iterable[Client], bound_s: float | None = None) -> None:
        """Hear every open client until these ones' answers are over, and record how each ended.

        An answer is over when nothing came on its connection for ``bound_s``, by default ``replay_s``.
        """
        bound = self.session.limits.replay_s if bound_s is None else bound_s
        bound = min(bound, IMPATIENT_S) if self.silent else bound
        waiting = list(clients)
        for client in waiting:
            client.bound_s = bound
            client.heard_at = time.monotonic()
        while waiting := [client for client in waiting if not self._settle(client)]:
            self.listen(POLL_MS)

    def _settle(self, client: Client) -> bool:
        """Record what is over on a connection; return whether all of it is."""
        for request in client.requests:
            if request.outcome is None and (outcome := self._over(client, request)) is not None:
                self.silent = self.silent or outcome == "timeout"
                self._done(client, request, outcome)
        return client.over

    def _over(self, client: Client, request: Request) -> str | None:
        if request.marked:
            return "marker"
        if request.messages >= self.session.limits.replay_messages:
            return "count"
        if not client.delimited and request.messages:
            return "first"
        if client.overtaken(request):
            return "overtaken"
        if client.lost:
            return "disconnected"
        if self.session.left() <= 0:
            return "over"
        return "timeout" if time.monotonic() - client.heard_at >= client.bound_s else None

    def vanish(self, clients: Iterable[Client]) -> None:
        """Close connections, whatever is under way on them."""
        for client in clients:
            self._open.remove(client)
            client.close()
            for request in client.requests:
                if request.outcome is None:
                    self._done(client, request, "vanished")

    def _done(self, client: Client, request: Request, outcome: str) -> None:
        """Record the end of a request, and let the oldest clients go."""
        self._mark_done(client, request, outcome)
        self._let_go()

    def _mark_done(self, client: Client, request: Request, outcome: str) -> None:
        request.outcome = outcome
        after_s = client.handshake_s if outcome == "unreachable" else client.bound_s
        done = ReplayDone(client=request.name, outcome=outcome, after_s=after_s, messages=request.messages)
        self.session.mark(done, client.stream.name)

    def _let_go(self) -> None:
        over = [client for client in self._open if client.over and client.requests]
        while len(self._open) > self.keep and over:
            oldest = over.pop(0)
            self._open.remove(oldest)
            oldest.close()

    # hearing

    def listen(self, timeout_ms: int) -> None:
        """Wait for a message on any client that reads, record what is there, and keep the witnesses moving."""
        reading = [client for client in self._open if client.reading]
        poller = zmq.Poller()
        for client in reading:
            poller.register(client.socket, zmq.POLLIN)
        if reading:
            poller.poll(timeout_ms)
        for client in reading:
            self._take(client)
        self.session.recorder.pump(0 if reading else timeout_ms / 1000)

    def _take(self, client: Client) -> None:
        taken: list[tuple[bytes, ...]] = []
        for _ in range(BURST):
            try:
                frames = tuple(client.socket.recv_multipart(zmq.DONTWAIT))
            except zmq.ZMQError as error:
                if error.errno in (zmq.EAGAIN, zmq.EFSM):  # a REQ that has its answer reads no more
                    break
                raise
            client.monitor.took(frames)
            taken.append(frames if client.delimited else (b"", *frames))
        self._hear_monitor(client)  # that the connection was made again stands before what came over it
        for frames in taken:
            self.take_in(client, frames)

    def take_in(self, client: Client, frames: tuple[bytes, ...]) -> None:
        """Record a message that a client received."""
        client.heard_at = time.monotonic()
        parts = split_replay(frames)
        number = None if parts is None or parts[1] == END_SEQUENCE else number_of(parts[1])
        request = client.request_of(number, self._oldest(client.stream))
        self.session.recorder.add(source=request.name, stream=client.stream.name, frames=frames)
        request.messages += 1
        request.marked = request.marked or (parts is not None and parts[1] == END_SEQUENCE)
        if number is not None and parts is not None:
            request.numbers.append(number)
            request.payload_bytes += len(parts[2])

    def _oldest(self, stream: Stream) -> int:
        """The highest number that can be the oldest of a full ring, by what was heard and is declared."""
        ring, newest = self.session.statement.ring, self.session.recorder.newest(stream.name)
        return 0 if ring is None or newest is None else max(0, newest + 1 - ring)

    def await_read(self, clients: list[Client], start: int) -> None:
        """Send another request behind an unanswered one of each client, and wait for an end marker on each connection.

        A connection keeps its order: an end marker shows that the first request was read, and that its answer, if it
        has one, is here. A publisher that serves a request now and then may take its time for that.
        """
        for client in clients:
            first = client.requests[0]
            self.session.mark(ReplayBehind(client=first.name, start=str(start)), client.stream.name)
            client.put((b"", start_frame(start)))
        for attempt in self.session.attempts():
            bound = IMPATIENT_S if self.silent or attempt else self.session.limits.replay_s
            end = time.monotonic() + bound
            while not all(client.requests[0].marked or client.lost for client in clients) and time.monotonic() < end:
                if self.session.left() <= 0:
                    break
                self.listen(POLL_MS)
            if not attempt:
                self.linger()
            for client in clients:
                client.bound_s = bound
                self._mark_done(client, client.requests[0], self._over(client, client.requests[0]) or "timeout")
            clients = [client for client in clients if not (client.requests[0].marked or client.lost)]
            if not clients:
                break
        self._let_go()

    def hear_out(self, clients: Sequence[Client], numbers: Sequence[int]) -> None:
        """Hear connections until they are silent; then ask on those that owe an answer, from about their last number.

        A connection keeps its order, so that the answer to the last request shows that the others will not come.
        """
        for client in clients:
            while not client.idle and time.monotonic() - client.heard_at < QUIET_S and self.session.left() > 0:
                self.listen(POLL_MS)
            last = client.last
            if client.idle or last is None or client.lost:
                continue
            unanswered = {request.start for request in client.requests if not request.messages}
            start = max((n for n in numbers if n <= last and n not in unanswered), default=last)
            self.request(client, start, situation="behind")

    def linger(self) -> None:
        """Hear what comes late, for ``late_s``."""
        end = time.monotonic() + self.session.limits.late_s
        while (left := end - time.monotonic()) > 0:
            self.listen(max(1, int(left * 1000)))
