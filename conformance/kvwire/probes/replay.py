"""Replay requests, well-formed and not, each from a client of its own (spec/replay.md)."""

from __future__ import annotations

import itertools
import time
from types import TracebackType

import zmq

from kvwire.probes.session import Probe, Session
from kvwire.statement import Stream
from kvwire.stimuli import WELL_FORMED
from kvwire.timeline import END_SEQUENCE, number_of, split_replay
from kvwire.trace import Source
from kvwire.witness_process import DISCONNECTED, HANDSHAKE_SUCCEEDED, Monitor, Socket, prepare

BURST = 256
POLL_MS = 10
FUTURE = 2**32
"""How far above the newest number a start in the future lies."""
SURVIVE = "KVW-REP-007"
REST = 6
"""How often the rest of an answer that ended too early is asked for."""
IMPATIENT_S = 1.0
"""How long an answer may stay silent once another one of the stream was silent for ``replay_s``."""


def start_frame(start: int) -> bytes:
    """A start as it stands in a request."""
    return start.to_bytes(8, "big")


MALFORMED: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("frames-three", (b"", start_frame(0), b"more")),
    ("frames-one", (start_frame(0),)),
    ("delimiter-filled", (b"filled", start_frame(0))),
    ("start-0-bytes", (b"", b"")),
    ("start-4-bytes", (b"", bytes(4))),
    ("start-9-bytes", (b"", bytes(9))),
)
"""Requests that are not well-formed, by what is wrong; whoever overlooks it reads 0, and answers with everything."""


class Client:
    """One request on a DEALER of its own, and what came back."""

    def __init__(self, context: zmq.Context[Socket], name: str, stream: Stream) -> None:
        assert stream.replay is not None
        self.name = name
        self.stream = stream.name
        self.socket: Socket = context.socket(zmq.DEALER)
        prepare(self.socket, stream.replay)
        self.monitor = Monitor(self.socket)
        self.socket.connect(stream.replay)
        self.numbers: list[int] = []
        self.messages = 0
        self.marked = False
        self.lost = False
        self.outcome: str | None = None
        self.bound_s = 0.0
        self.heard_at = time.monotonic()

    @property
    def has_hole(self) -> bool:
        """Whether a number is missing between two of the answer."""
        return any(after > before + 1 for before, after in itertools.pairwise(self.numbers))

    def close(self) -> None:
        """Vanish."""
        self.monitor.close()
        self.socket.close(0)


class Asker:
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

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._open:
            client.close()
        self._context.destroy(linger=0)

    # one request

    def ask(self, stream: Stream, start: int) -> Client:
        """Send a well-formed request and await its answer; what it leaves out is asked for again, at once.

        What another answer holds was retained when this one left it out: a hole, or the rest after an early marker.
        """
        client = rest = self._ask(stream, start)
        if client.has_hole:
            self._ask(stream, start, again=True)
        for _ in range(REST):
            newest = self.session.recorder.newest(stream.name)
            if rest.outcome != "marker" or not rest.numbers or newest is None or rest.numbers[-1] >= newest:
                break
            rest = self._ask(stream, rest.numbers[-1] + 1, again=True)
        return client

    def _ask(self, stream: Stream, start: int, **detail: object) -> Client:
        client = self.send(stream, WELL_FORMED, (b"", start_frame(start)), start=str(start), **detail)
        if client.outcome is None:
            self._await(client)
        return client

    def send(self, stream: Stream, kind: str, frames: tuple[bytes, ...], **detail: object) -> Client:
        """Connect, and send a request once the handshake is there; without one the outcome is ``unreachable``."""
        session = self.session
        client = Client(self._context, session.next_client(), stream)
        self._open.append(client)
        reached = session.wait(lambda: self._reached(client), session.limits.handshake_s)
        session.recorder.pump()  # what was heard live by now stands before the request
        if not reached:
            of, bound = [client.name], session.limits.handshake_s
            session.mark("unreachable", stream.name, endpoint=stream.replay, of=of, bound_s=bound)
            client.outcome = "unreachable"
            return client
        hexes = [frame.hex() for frame in frames]
        session.mark("replay-request", stream.name, client=client.name, kind=kind, frames=hexes, **detail)
        client.socket.send_multipart(frames, zmq.DONTWAIT)
        client.heard_at = time.monotonic()
        return client

    def _reached(self, client: Client) -> bool:
        self._hear_monitor(client)
        return self.session.recorder.handshakes(client.stream, client.name) > 0

    def _hear_monitor(self, client: Client) -> None:
        for event in client.monitor.drain():
            if event == DISCONNECTED:
                client.lost = True
                continue
            of = {"of": client.name}
            self.session.recorder.add(source=Source.MONITOR, stream=client.stream, event=event, detail=of)
            client.lost = client.lost and event != HANDSHAKE_SUCCEEDED

    def _await(self, client: Client) -> None:
        """Hear every open client until this one's answer is over, and record how it ended."""
        bound = self.session.limits.replay_s
        client.bound_s = min(bound, IMPATIENT_S) if self.silent else bound
        while client.outcome is None:
            self.listen(POLL_MS)
            client.outcome = self._over(client)
        self.silent = self.silent or client.outcome == "timeout"
        self.done(client)

    def _over(self, client: Client) -> str | None:
        if client.marked:
            return "marker"
        if client.messages >= self.session.limits.replay_messages:
            return "count"
        if client.lost:
            return "disconnected"
        if time.monotonic() - client.heard_at >= client.bound_s or self.session.left() <= 0:
            return "timeout"
        return None

    def done(self, client: Client) -> None:
        """Record the end of a request, and let the oldest clients go."""
        self.session.mark(
            "replay-done",
            client.stream,
            client=client.name,
            outcome=client.outcome,
            after_s=client.bound_s,
            messages=client.messages,
        )
        over = [client for client in self._open if client.outcome is not None]
        while len(self._open) > self.keep and over:
            oldest = over.pop(0)
            self._open.remove(oldest)
            oldest.close()

    # hearing

    def listen(self, timeout_ms: int) -> None:
        """Wait for a message on any open client, record what is there, and keep the witnesses moving."""
        poller = zmq.Poller()
        for client in self._open:
            poller.register(client.socket, zmq.POLLIN)
        poller.poll(timeout_ms)
        for client in self._open:
            self._take(client)
            self._hear_monitor(client)
        self.session.recorder.pump()

    def _take(self, client: Client) -> None:
        for _ in range(BURST):
            try:
                frames = tuple(client.socket.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return
            self.session.recorder.add(source=client.name, stream=client.stream, frames=frames)
            client.messages += 1
            client.heard_at = time.monotonic()
            parts = split_replay(frames)
            if parts is None:
                continue
            if parts[1] == END_SEQUENCE:
                client.marked = True
            elif (number := number_of(parts[1])) is not None:
                client.numbers.append(number)

    def await_read(self, clients: list[Client], start: int) -> None:
        """Send another request behind an unanswered one of each client, and wait for an end marker on each connection.

        A connection keeps its order: an end marker shows that the first request was read, and that its answer, if it
        has one, is here. A publisher that serves a request now and then may take its time for that.
        """
        for client in clients:
            self.session.mark("replay-behind", client.stream, client=client.name, start=str(start))
            client.socket.send_multipart((b"", start_frame(start)), zmq.DONTWAIT)
        bound = IMPATIENT_S if self.silent else self.session.limits.replay_s
        end = time.monotonic() + bound
        while not all(client.marked or client.lost for client in clients) and time.monotonic() < end:
            if self.session.left() <= 0:
                break
            self.listen(POLL_MS)
        self.linger()
        for client in clients:
            client.bound_s = bound
            client.outcome = "marker" if client.marked else "timeout"
            self.done(client)

    def linger(self) -> None:
        """Hear what comes late, for ``late_s``."""
        end = time.monotonic() + self.session.limits.late_s
        while (left := end - time.monotonic()) > 0:
            self.listen(max(1, int(left * 1000)))


def starts(asker: Asker, stream: Stream) -> bool:
    """Ask from 0, from the middle, from the newest and from the future; False when nobody is there to be asked."""
    first = asker.ask(stream, 0)
    if first.outcome == "unreachable":
        return False
    live = asker.session.recorder.newest(stream.name)
    oldest = first.numbers[0] if first.numbers else 0
    newest = max([*first.numbers[-1:], *([] if live is None else [live])], default=0)
    for start in ((oldest + newest) // 2, newest, newest + FUTURE):
        asker.ask(stream, start)
    return True


def malformed(asker: Asker, stream: Stream) -> None:
    """Ask wrongly in every way, and after each time rightly, on another connection; then await the wrong ones."""
    newest = asker.session.recorder.newest(stream.name) or 0
    wrong: list[Client] = []
    for kind, frames in MALFORMED:
        wrong.append(asker.send(stream, kind, frames))
        asker.ask(stream, newest)
    asker.await_read([client for client in wrong if client.outcome is None], newest + FUTURE)


def run(session: Session) -> None:
    """Every stream that has a replay endpoint."""
    for stream in session.streams:
        if stream.replay is None:
            continue
        with Asker(session) as asker:
            if starts(asker, stream):
                malformed(asker, stream)


PROBE = Probe(
    name="replay",
    mode="quick",
    run=run,
    needs=frozenset({"replayable"}),
    must_survive=(SURVIVE,),
    bounds="an answer is over at its end marker, after replay_messages, or after replay_s without a message; "
    "what comes later is heard for late_s",
)
