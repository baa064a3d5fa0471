"""A client that reads all the time, but slower than it is answered: the pipes of its connection are full all the while.

A publisher that waits for room is as slow as the client. One that goes on as if nothing had happened leaves holes, and
has room now and then: for batches behind a hole, and sooner or later for an end marker. That shows without a moment to
hit; a pause shows less, since what comes in it is lost to the last.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import zmq

from kvwire.attack.probes.kit.replay_client import Client, ReplayClients
from kvwire.attack.probes.kit.session import Session
from kvwire.standard.statement import Stream
from kvwire.trace.marks import ReplayResumed
from kvwire.wire.framing import END_SEQUENCE, SEND_MARK, SYSTEM_BUFFER

OVERFLOW = 2 * SEND_MARK + SYSTEM_BUFFER
"""Messages that the pipes and the system take of a connection whose ends both set no mark."""
SPEEDS = (0.5, 0.7, 0.35, 0.6) * 3
"""Shares of its own speed at which the client reads, one connection after the other."""
WHOLE = 2
"""After so many connections on which everything came, nothing is lost."""
SIP = 50
"""Messages that are read at once."""
MOST_BYTES = 32 * 1024 * 1024
"""What is read at most before it is recorded, by its bytes and what each message costs beside them."""
SLOWEST_S = 4.0
"""How long reading what a connection is owed takes at most."""
SILENT_MS = 100
"""How long an answer may be silent before the rest of it is awaited, and recorded as it comes."""


class SlowReader:
    """Asks for the same batches again and again. ``numbers`` are retained."""

    def __init__(self, session: Session, replays: ReplayClients, stream: Stream, numbers: Sequence[int]) -> None:
        self.session = session
        self.replays = replays
        self.stream = stream
        self.numbers = numbers
        most = max(1, min(session.statement.bounds.replay_waiting, len(numbers)))
        self.requests = min(most, max(1, -(-4 * OVERFLOW // len(numbers))))

    @property
    def owed(self) -> int:
        """Messages that a connection is owed at once."""
        return self.requests * len(self.numbers)

    def run(self) -> float:
        """Until an end marker stands behind a hole, or nothing is lost.

        How many messages a second came when it was as fast as it can be; 0 where it is owed too little to tell.
        """
        if self.owed < 2 * OVERFLOW:
            return 0.0
        speed = self._read()
        whole = 0
        for share in SPEEDS:
            if self.session.left() <= 0 or not speed:
                break
            client = self._client()
            self._sip(client, max(share * speed, self.owed / SLOWEST_S))
            self._end(client)
            whole += all(request.marked and not request.holes for request in client.requests)
            if whole == WHOLE or any(request.marked and request.holes for request in client.requests):
                break
        return speed

    def _client(self) -> Client:
        client = self.replays.connect(self.stream, mark=SEND_MARK)
        client.reading = False
        client.known = dict(zip(self.numbers, self.numbers[1:], strict=False))
        for start in self.numbers[: self.requests]:
            self.replays.request(client, start, situation="paused")
        return client

    def _read(self) -> float:
        client = self._client()
        speed = self._sip(client, None)
        self._end(client)
        return speed

    def _sip(self, client: Client, speed: float | None) -> float:
        """Read at a speed, and record it then: nothing else is done meanwhile. How fast it was, without the sleeps."""
        frames: list[tuple[bytes, ...]] = []
        if not client.socket.poll(int(1000 * self.session.limits.replay_s)):
            return 0.0
        began = ended = time.monotonic()
        ends, room = 0, MOST_BYTES
        while ends < self.requests and room > 0 and self.session.left() > 0 and client.socket.poll(SILENT_MS):
            with contextlib.suppress(zmq.Again):
                for _ in range(SIP):
                    frames.append(tuple(client.socket.recv_multipart(zmq.DONTWAIT)))
                    room -= client.monitor.took(frames[-1])
                    ends += END_SEQUENCE in frames[-1]
            ended = time.monotonic()
            if speed is not None and (early := began + len(frames) / speed - ended) > 0:
                time.sleep(early)
        for message in frames:
            self.replays.take_in(client, message)
        return len(frames) / max(ended - began, 1e-6)

    def _end(self, client: Client) -> None:
        """Read what is left, and ask once more behind it where something is owed."""
        self.session.mark(
            ReplayResumed(
                connection=client.name,
                rcvhwm=client.mark,
                paused_s=0.0,
                requests=self.requests,
                retained=len(self.numbers),
            ),
            self.stream.name,
        )
        client.reading = True
        client.heard_at = time.monotonic()
        self.replays.hear_out([client], self.numbers)
        self.replays.await_answers([client])
