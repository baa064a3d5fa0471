"""Publishers that break replay: one small change each of the server that hands out the ring."""

from __future__ import annotations

import time

import msgspec
import zmq

from kvwire.peers.mutant import Session, mutant
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.replay import Client, Entry, Frames, ReplayLimits, ReplayServer, Ring
from kvwire_reference.wire import END_SEQUENCE

REPLAYED = Session(options="block_size=2&capacity=12&role=publish", probes=("live", "restart"), level="replayable")
"""What was offered before and after a restart is asked for."""
LATE_S = 0.005
ASKED = Session(options="block_size=2&capacity=12&ring=6", probes=("live", "replay"), level="replayable")
"""Requests of all kinds, of a small ring."""


@mutant(
    "replay-without-topic",
    breaks="REP-001",
    change="replayed batches have no topic frame",
    levels=("replayable", "driven"),
    reports="vllm#45174",
    session=REPLAYED,
)
class ReplayWithoutTopic(ReplayServer):
    """As vLLM did before version 0.26."""

    def _answer_item(self, entry: Entry) -> Frames:
        return [b"", *entry.frames[1:]]


@mutant(
    "declares-bare-replay",
    breaks="REP-026",
    change="replay without topic frames is declared, and they are sent",
    levels=("replayable", "driven"),
    statement={"replay_form": "replay-bare"},
    session=REPLAYED,
)
class DeclaresBareReplay(ReplayServer):
    """Declared is the form before an update of the engine."""


@mutant(
    "replay-rewritten",
    breaks="REP-001",
    change="replayed batches are stamped anew",
    levels=("replayable", "driven"),
    reports="llm-d-router#1887",
    session=REPLAYED,
)
class ReplayRewritten(ReplayServer):
    def _answer_item(self, entry: Entry) -> Frames:
        delimiter, topic, sequence, payload = super()._answer_item(entry)
        ts, events, rank = msgspec.msgpack.decode(payload)
        return [delimiter, topic, sequence, msgspec.msgpack.encode([ts - 1.0, events, rank])]


@mutant(
    "replay-twice",
    breaks="REP-002",
    change="every tenth batch is replayed twice",
    levels=("replayable", "driven"),
    session=REPLAYED,
)
class ReplayTwice(ReplayServer):
    def _send(self, identity: bytes, frames: Frames) -> None:
        super()._send(identity, frames)
        if int.from_bytes(frames[2], "big") % 10 == 9:
            super()._send(identity, frames)


@mutant(
    "replay-without-end",
    breaks="REP-003",
    change="no end marker after batches",
    levels=("replayable", "driven"),
    reports="sglang#38945",
    session=REPLAYED,
)
class ReplayWithoutEnd(ReplayServer):
    _handed = False

    def _send(self, identity: bytes, frames: Frames) -> None:
        end = frames[2] == END_SEQUENCE
        if not (end and self._handed):
            super()._send(identity, frames)
        self._handed = not end


@mutant(
    "replay-two-ends", breaks="REP-003", change="two end markers", levels=("replayable", "driven"), session=REPLAYED
)
class ReplayTwoEnds(ReplayServer):
    def _hand_next(self, client: Client) -> None:
        waiting = len(client.cursors)
        super()._hand_next(client)
        if len(client.cursors) < waiting:
            self._send(client.identity, self._end_marker())


@mutant(
    "replay-silent-on-future",
    breaks="REP-004",
    change="no answer when nothing is retained",
    levels=("replayable", "driven"),
    reports="Mooncake#3616",
    session=ASKED,
)
class ReplaySilentOnFuture(ReplayServer):
    def _admit(self, identity: bytes, start: int) -> None:
        if start <= self._ring.newest:
            super()._admit(identity, start)


@mutant(
    "replay-any-frames",
    breaks="REP-005",
    change="a request with frames to spare is answered",
    levels=("replayable", "driven"),
    session=ASKED,
)
class ReplayAnyFrames(ReplayServer):
    def _start_of(self, request: Frames) -> int | None:
        if len(request) > 3 and len(request[2]) == 8:
            return int.from_bytes(request[2], "big")
        return super()._start_of(request)


@mutant(
    "replay-any-start",
    breaks="REP-006",
    change="delimiter and length of the start are not looked at",
    levels=("replayable", "driven"),
    session=ASKED,
)
class ReplayAnyStart(ReplayServer):
    """As every publisher seen today."""

    def _start_of(self, request: Frames) -> int | None:
        return int.from_bytes(request[2], "big") if len(request) == 3 else None


@mutant(
    "replay-sulks",
    breaks="REP-007",
    change="the request after a malformed one is ignored",
    levels=("replayable", "driven"),
    reports="Mooncake#3616",
    session=ASKED,
)
class ReplaySulks(ReplayServer):
    _sulks = False

    def _handle(self, request: list[bytes]) -> None:
        if self._sulks:
            self._sulks = False
            return
        self._sulks = self._start_of(request) is None
        super()._handle(request)


@mutant(
    "replay-shuns",
    breaks="REP-007",
    change="a client that sent a malformed request is not heard any more",
    levels=("replayable", "driven"),
    session=ASKED,
)
class ReplayShuns(ReplayServer):
    def __init__(self, router: zmq.Socket[bytes], ring: Ring, limits: ReplayLimits) -> None:
        super().__init__(router, ring, limits)
        self._shunned: set[bytes] = set()

    def _handle(self, request: list[bytes]) -> None:
        if self._start_of(request) is None:
            self._shunned.add(request[0])
        elif request[0] not in self._shunned:
            super()._handle(request)


@mutant(
    "replay-truncated",
    breaks="REP-008",
    change="the end marker comes after twenty batches",
    levels=("replayable", "driven"),
    reports="sglang#38945",
    session=Session(
        options="block_size=2&capacity=12&role=publish",
        probes=("live", "batches", "replay"),
        level="replayable",
        limits={"batches": 24},
    ),
)
class ReplayTruncated(ReplayServer):
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


@mutant(
    "replay-forgets",
    breaks="REP-013",
    change="every eighth batch is not retained",
    levels=("replayable", "driven"),
    reports="llm-d-router#1737",
    session=REPLAYED,
)
class ReplayForgets(ZmqPublisher):
    def _remember(self, number: int, frames: Frames) -> None:
        if number % 8 != 5:
            super()._remember(number, frames)


@mutant(
    "replay-end-payload",
    breaks="REP-014",
    change="the end marker has a payload",
    levels=("replayable", "driven"),
    session=REPLAYED,
)
class ReplayEndPayload(ReplayServer):
    """Puts the newest number into the end marker, undeclared."""

    def _end_marker(self) -> Frames:
        return [*super()._end_marker()[:3], msgspec.msgpack.encode([0, self._ring.newest])]


@mutant(
    "retains-late",
    breaks="REP-013",
    change="a batch is retained some milliseconds after it was sent, when no other waits",
    levels=("replayable", "driven"),
    session=Session(probes=("live", "retention")),
)
class RetainsLate(ZmqPublisher):
    """Serves replay meanwhile."""

    _late: tuple[int, Frames] | None = None

    def _remember(self, number: int, frames: Frames) -> None:
        self._late = number, frames

    def _send_live(self, frames: Frames) -> None:
        super()._send_live(frames)
        end = time.monotonic() + LATE_S
        while not self._queue and time.monotonic() < end:
            if self._replay is not None:
                self._replay.turn()
            time.sleep(LATE_S / 20)
        if self._late is not None:
            super()._remember(*self._late)
