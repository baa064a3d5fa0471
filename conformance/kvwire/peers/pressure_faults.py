"""Publishers that break replay under pressure: one small change each of who is served, when, and at whose cost."""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod

import msgspec
import zmq

from kvwire.peers.replay_faults import Replays
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Client, Frames, ReplayLimits, ReplayServer, Ring
from kvwire_reference.wire import END_SEQUENCE

PATIENCE_S = 1.0
"""How long a mutant waits for a client that reads nothing: less than the harness pauses, more than a prompt reader."""


def gives_up(config: PublisherConfig) -> ZmqPublisher:
    """A publisher that abandons a client which reads nothing for a second, without a word."""
    limits = msgspec.structs.replace(config.replay_limits, patience=PATIENCE_S)
    return ZmqPublisher(msgspec.structs.replace(config, replay_limits=limits))


class _Dropping(ReplayServer):
    """Sends as a ROUTER without options to a client that reads nothing for a second, until its answer is over."""

    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._lossy: set[bytes] = set()

    def _hand_next(self, client: Client) -> None:
        try:
            super()._hand_next(client)
        except zmq.Again:
            if time.monotonic() - client.moved_at < PATIENCE_S:
                raise
            self._lossy.add(client.identity)
            super()._hand_next(client)

    def _send(self, identity: bytes, frames: Frames) -> None:
        self.router.set(zmq.ROUTER_MANDATORY, identity not in self._lossy)
        super()._send(identity, frames)
        if frames[2] == END_SEQUENCE:
            self._lossy.discard(identity)


class DropsSilently(Replays):
    """What a full pipe cannot take is dropped, as a ROUTER without options does, and nobody knows."""

    server = _Dropping


class _Skipping(ReplayServer):
    """When a pipe is full, the next batch is left out; the end marker waits for its turn."""

    def _hand_next(self, client: Client) -> None:
        cursor = client.cursors[0]
        try:
            super()._hand_next(client)
        except zmq.Again:
            entry = self._ring.at_or_after(cursor.position)
            if entry is None or entry.number >= cursor.last or time.monotonic() - client.moved_at < PATIENCE_S:
                raise
            client.moved_at = time.monotonic()
            cursor.position = entry.number + 1


class ReplaySkips(Replays):
    """Leaves out a batch that a full pipe does not take for a second, and goes on with the next."""

    server = _Skipping


class _Ending(ReplayServer):
    """What a full pipe does not take for a while is left out, up to the end marker."""

    def _hand_next(self, client: Client) -> None:
        cursor = client.cursors[0]
        try:
            super()._hand_next(client)
        except zmq.Again:
            entry = self._ring.at_or_after(cursor.position)
            waited = time.monotonic() - client.moved_at
            if waited > PATIENCE_S and entry is not None and entry.number == cursor.position:
                cursor.position = cursor.last + 1
            raise


class ReplayEndsEarly(Replays):
    """Leaves out the rest of an answer that a client does not read for a second, and sends the end marker after it."""

    server = _Ending


class _Evicted(ReplayServer, ABC):
    """Knows the answers that are under way, and how many batches were evicted since it last looked."""

    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._begun: dict[bytes, int] = {}
        """By client: the oldest retained number when it was last looked at."""

    def _hand_next(self, client: Client) -> None:
        cursor = client.cursors[0]
        oldest = self._oldest()
        evicted = oldest - self._begun.get(client.identity, oldest)
        if evicted and cursor.position <= cursor.last:
            self._begun[client.identity] = oldest
            self._shift(client, evicted, lost=cursor.position < oldest)
        if client.cursors:
            super()._hand_next(client)

    def _oldest(self) -> int:
        entry = self._ring.at_or_after(0)
        return 0 if entry is None else entry.number

    def _send(self, identity: bytes, frames: Frames) -> None:
        super()._send(identity, frames)
        if frames[2] == END_SEQUENCE:
            self._begun.pop(identity, None)
        else:
            self._begun.setdefault(identity, self._oldest())

    @abstractmethod
    def _shift(self, client: Client, evicted: int, *, lost: bool) -> None:
        """Do what this publisher does instead of going on from the oldest."""


class _BreakingOff(_Evicted):
    def _shift(self, client: Client, evicted: int, *, lost: bool) -> None:
        if lost:
            client.cursors.popleft()
            self._begun.pop(client.identity)


class ReplayBreaksOff(Replays):
    """Breaks an answer off, without an end marker, when its next batch was evicted."""

    server = _BreakingOff


class _Counting(_Evicted):
    def _shift(self, client: Client, evicted: int, *, lost: bool) -> None:
        client.cursors[0].position += evicted


class ReplayCountsPlaces(Replays):
    """Finds its way by the place in the ring, so that it leaves out as many batches as are evicted meanwhile."""

    server = _Counting


class ReplayFirst(ZmqPublisher):
    """Sends nothing live while a replay client is owed something."""

    def _turn(self) -> None:
        if self._replay is None or not self._replay.busy:
            super()._turn()
        else:
            self._replay_moved = self._replay.turn()


class _OneAtATime(ReplayServer):
    def _serve(self, client: Client, share: int) -> int:
        first = next(iter(self._clients))
        return super()._serve(client, share) if client.identity == first else 0


class ReplayOneAtATime(Replays):
    """Serves one client after the other, each to its end."""

    server = _OneAtATime


class _Dying(ReplayServer):
    def _give_up(self, client: Client) -> None:
        raise zmq.ZMQError(errno.EHOSTUNREACH)


class ReplayDiesWithClient(Replays):
    """Its thread ends when a client is gone that was owed something."""

    server = _Dying


class _Hoarding(ReplayServer):
    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._hoard: dict[bytes, list[bytes]] = {}

    def _admit(self, identity: bytes, start: int) -> None:
        super()._admit(identity, start)
        frames: list[bytes] = []
        while (entry := self._ring.at_or_after(start)) is not None:
            frames += entry.frames
            start = entry.number + 1
        self._hoard.setdefault(identity, []).append(b"".join(frames))

    def turn(self) -> bool:
        moved = super().turn()
        self._hoard = {identity: held for identity, held in self._hoard.items() if identity in self._clients}
        return moved


class ReplayHoards(Replays):
    """Makes a copy of the whole answer for every request, and keeps it while its client is served."""

    server = _Hoarding
