"""Publishers that break replay: one small change each of the server that hands out the ring."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import zmq

from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.replay import Client, Entry, Frames, ReplayLimits, ReplayServer, Ring
from kvwire_reference.wire import END_SEQUENCE


class Replays(ZmqPublisher):
    """Serves replay with another server."""

    server: ClassVar[type[ReplayServer]] = ReplayServer

    def _open_replay(self) -> ReplayServer:
        honest = super()._open_replay()
        return self.server(honest.router, self._ring, self.config.replay_limits)


class _Bare(ReplayServer):
    def _answer_item(self, entry: Entry) -> Frames:
        return [b"", *entry.frames[1:]]


class ReplayWithoutTopic(Replays):
    """Leaves the topic frame out of replayed batches, as vLLM did before version 0.26."""

    server = _Bare


class _Rewritten(ReplayServer):
    def _answer_item(self, entry: Entry) -> Frames:
        delimiter, topic, sequence, payload = super()._answer_item(entry)
        ts, events, rank = msgspec.msgpack.decode(payload)
        return [delimiter, topic, sequence, msgspec.msgpack.encode([ts - 1.0, events, rank])]


class ReplayRewritten(Replays):
    """Stamps replayed batches anew, a second earlier."""

    server = _Rewritten


class _Twice(ReplayServer):
    def _send(self, identity: bytes, frames: Frames) -> None:
        super()._send(identity, frames)
        if int.from_bytes(frames[2], "big") % 10 == 9:
            super()._send(identity, frames)


class ReplayTwice(Replays):
    """Hands every tenth batch of an answer out twice."""

    server = _Twice


class _Endless(ReplayServer):
    _handed = False

    def _send(self, identity: bytes, frames: Frames) -> None:
        end = frames[2] == END_SEQUENCE
        if not (end and self._handed):
            super()._send(identity, frames)
        self._handed = not end


class ReplayWithoutEnd(Replays):
    """Sends no end marker after batches."""

    server = _Endless


class _TwoEnds(ReplayServer):
    def _hand_next(self, client: Client) -> None:
        waiting = len(client.cursors)
        super()._hand_next(client)
        if len(client.cursors) < waiting:
            self._send(client.identity, self._end_marker())


class ReplayTwoEnds(Replays):
    """Sends the end marker twice."""

    server = _TwoEnds


class _NothingForNothing(ReplayServer):
    def _admit(self, identity: bytes, start: int) -> None:
        if start <= self._ring.newest:
            super()._admit(identity, start)


class ReplaySilentOnFuture(Replays):
    """Does not answer a request for which nothing is retained."""

    server = _NothingForNothing


class _AnyFrames(ReplayServer):
    def _start_of(self, request: Frames) -> int | None:
        if len(request) > 3 and len(request[2]) == 8:
            return int.from_bytes(request[2], "big")
        return super()._start_of(request)


class ReplayAnyFrames(Replays):
    """Answers a request with frames to spare."""

    server = _AnyFrames


class _AnyStart(ReplayServer):
    def _start_of(self, request: Frames) -> int | None:
        return int.from_bytes(request[2], "big") if len(request) == 3 else None


class ReplayAnyStart(Replays):
    """Looks neither at the delimiter nor at the length of the start, as every publisher seen today."""

    server = _AnyStart


class _Sulking(ReplayServer):
    _sulks = False

    def _handle(self, request: list[bytes]) -> None:
        if self._sulks:
            self._sulks = False
            return
        self._sulks = self._start_of(request) is None
        super()._handle(request)


class ReplaySulks(Replays):
    """Ignores the request after a malformed one."""

    server = _Sulking


class _Shunning(ReplayServer):
    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._shunned: set[bytes] = set()

    def _handle(self, request: list[bytes]) -> None:
        if self._start_of(request) is None:
            self._shunned.add(request[0])
        elif request[0] not in self._shunned:
            super()._handle(request)


class ReplayShuns(Replays):
    """Hears no more of a client that sent a malformed request."""

    server = _Shunning


class _Truncating(ReplayServer):
    def _admit(self, identity: bytes, start: int) -> None:
        super()._admit(identity, start)
        client = self._clients.get(identity)
        if client is None or not client.cursors:
            return
        last = start - 1
        for _ in range(20):
            entry = self._ring.at_or_after(last + 1)
            if entry is None:
                return
            last = entry.number
        client.cursors[-1].last = min(last, client.cursors[-1].last)


class ReplayTruncated(Replays):
    """Hands out twenty batches at most, and then the end marker."""

    server = _Truncating


class ReplayForgets(ZmqPublisher):
    """Does not retain every eighth batch."""

    def _remember(self, number: int, frames: Frames) -> None:
        if number % 8 != 5:
            super()._remember(number, frames)


class _EndPayload(ReplayServer):
    def _end_marker(self) -> Frames:
        return [*super()._end_marker()[:3], msgspec.msgpack.encode([0, self._ring.newest])]


class ReplayEndPayload(Replays):
    """Puts the oldest and newest number into the end marker, undeclared."""

    server = _EndPayload
