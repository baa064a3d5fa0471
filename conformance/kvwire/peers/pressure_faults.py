"""Publishers that break replay under pressure: one small change each of who is served, when, and at whose cost."""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod

import zmq
from msgspec.structs import replace

from kvwire.peers.mutant import mutant
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Client, Frames, ReplayLimits, ReplayServer, Ring
from kvwire_reference.wire import END_SEQUENCE

TOO_LARGE = "answers have to fill a pipe: above 1 MB"
"""Why the session vectors have none of these."""
PATIENCE_S = 1.0
"""How long a mutant waits for a client that reads nothing: less than the harness pauses, more than a prompt reader."""


@mutant(
    "replay-gives-up",
    breaks="REP-010",
    change="a client that does not read for a second is abandoned",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayGivesUp(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, replay_limits=replace(config.replay_limits, patience=PATIENCE_S)))


class _Impatient(ReplayServer, ABC):
    """Finds a way out when the pipe of a client has been full for too long."""

    def _hand_next(self, client: Client) -> None:
        try:
            super()._hand_next(client)
        except zmq.Again:
            if time.monotonic() - client.moved_at < PATIENCE_S or not self._moves_on(client):
                raise

    @abstractmethod
    def _moves_on(self, client: Client) -> bool:
        """Do what this publisher does instead of waiting on; whether its client counts as served."""


@mutant(
    "replay-drops-silently",
    breaks="REP-010",
    change="what the full pipe of a paused client does not take is dropped, as a ROUTER without options does",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayDropsSilently(_Impatient):
    """Drops until the answer is over."""

    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._lossy: set[bytes] = set()

    def _moves_on(self, client: Client) -> bool:
        self._lossy.add(client.identity)
        self._hand_next(client)
        return True

    def _send(self, identity: bytes, frames: Frames) -> None:
        self.router.set(zmq.ROUTER_MANDATORY, identity not in self._lossy)
        super()._send(identity, frames)
        if frames[2] == END_SEQUENCE:
            self._lossy.discard(identity)


@mutant(
    "replay-skips",
    breaks="REP-008",
    change="a batch that a full pipe does not take for a second is left out",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplaySkips(_Impatient):
    """Goes on with the next batch; the end marker waits for its turn."""

    def _moves_on(self, client: Client) -> bool:
        cursor = client.cursors[0]
        entry = self._ring.at_or_after(cursor.position)
        if entry is None or entry.number >= cursor.last:
            return False
        client.moved_at = time.monotonic()
        cursor.position = entry.number + 1
        return True


@mutant(
    "replay-ends-early",
    breaks="REP-009",
    change="what a client does not read for a second is left out, and the end marker comes after it",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayEndsEarly(_Impatient):
    def _moves_on(self, client: Client) -> bool:
        cursor = client.cursors[0]
        entry = self._ring.at_or_after(cursor.position)
        if entry is not None and entry.number == cursor.position:
            cursor.position = cursor.last + 1
        return False


class _CountsEvicted(ReplayServer, ABC):
    """Knows the answers that are under way, and how many batches were evicted since it last looked."""

    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._oldest_seen: dict[bytes, int] = {}
        """By client: the oldest retained number when it was last looked at."""

    def _hand_next(self, client: Client) -> None:
        cursor = client.cursors[0]
        oldest = self._oldest()
        evicted = oldest - self._oldest_seen.get(client.identity, oldest)
        if evicted and cursor.position <= cursor.last:
            self._oldest_seen[client.identity] = oldest
            self._shift(client, evicted, lost=cursor.position < oldest)
        if client.cursors:
            super()._hand_next(client)

    def _oldest(self) -> int:
        entry = self._ring.at_or_after(0)
        return 0 if entry is None else entry.number

    def _send(self, identity: bytes, frames: Frames) -> None:
        super()._send(identity, frames)
        if frames[2] == END_SEQUENCE:
            self._oldest_seen.pop(identity, None)
        else:
            self._oldest_seen.setdefault(identity, self._oldest())

    @abstractmethod
    def _shift(self, client: Client, evicted: int, *, lost: bool) -> None:
        """Do what this publisher does instead of going on from the oldest."""


@mutant(
    "replay-breaks-off",
    breaks="REP-020",
    change="an answer breaks off when its next batch was evicted",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayBreaksOff(_CountsEvicted):
    """Sends no end marker either."""

    def _shift(self, client: Client, evicted: int, *, lost: bool) -> None:
        if lost:
            client.cursors.popleft()
            self._oldest_seen.pop(client.identity)


@mutant(
    "replay-counts-places",
    breaks="REP-020",
    change="the way through the ring is found by place, and what is evicted shifts it",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayCountsPlaces(_CountsEvicted):
    """Leaves out as many batches as are evicted meanwhile."""

    def _shift(self, client: Client, evicted: int, *, lost: bool) -> None:
        client.cursors[0].position += evicted


@mutant(
    "replay-first",
    breaks="REP-011",
    change="nothing is sent live while a replay client is owed something",
    levels=("driven",),
    session=TOO_LARGE,
)
class ReplayFirst(ZmqPublisher):
    def _turn(self) -> None:
        if self._replay is None or not self._replay.busy:
            super()._turn()
        else:
            self._replay_moved = self._replay.turn()


@mutant(
    "replay-one-at-a-time",
    breaks="REP-012",
    change="one client after the other is served, each to its end",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayOneAtATime(ReplayServer):
    def _serve(self, client: Client, share: int) -> int:
        first = next(iter(self._clients))
        return super()._serve(client, share) if client.identity == first else 0


@mutant(
    "replay-dies-with-client",
    breaks="REP-018",
    change="the thread ends when a client vanishes that was owed something",
    levels=("replayable", "driven"),
    session=TOO_LARGE,
)
class ReplayDiesWithClient(ReplayServer):
    def _give_up(self, client: Client) -> None:
        raise zmq.ZMQError(errno.EHOSTUNREACH)


@mutant(
    "replay-hoards",
    breaks="REP-019",
    change="every request gets a copy of the whole answer, kept while the client is served",
    levels=("driven",),
    session=TOO_LARGE,
)
class ReplayHoards(ReplayServer):
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
