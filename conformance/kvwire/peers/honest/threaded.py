"""A publisher of two threads: one sends, the other answers replay requests, and they share the ring alone."""

from __future__ import annotations

import math
import threading
import time

import zmq

from kvwire.peers.honest.mark import PROBES, honest
from kvwire_reference.publisher import RETRY_MS, PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Entry, Ring

LOOK_MS = 50
"""How often the second thread looks whether it has to end."""


class SharedRing(Ring):
    """A ring that two threads use."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._mine = threading.RLock()

    def append(self, entry: Entry) -> None:
        with self._mine:
            super().append(entry)

    def withdraw(self, number: int) -> None:
        with self._mine:
            super().withdraw(number)

    def at_or_after(self, number: int) -> Entry | None:
        with self._mine:
            return super().at_or_after(number)

    @property
    def newest(self) -> int:
        """Number of the newest retained batch."""
        with self._mine:
            return self._entries[-1].number if self._entries else -1


@honest(
    "two-threads",
    unlike="live batches and replay have a thread each: an answer is made while the next batch is sent",
    passes="REP-001 REP-002 REP-003 REP-008 REP-013 SEQ-007 RES-003",
    replayable="REP-001 REP-002 REP-003 REP-008 REP-013",
    probes=(*PROBES, "replay"),
)
class TwoThreads(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(config)
        self._ring = SharedRing(config.ring)
        self._over = threading.Event()
        self._answering: threading.Thread | None = None

    def _open(self) -> None:
        super()._open()
        if self._replay is not None:
            self._poller.unregister(self._replay.router)
            self._answering = threading.Thread(target=self._answer, daemon=True)
            self._answering.start()

    def _answer(self) -> None:
        replay = self._replay
        assert replay is not None
        while not self._over.is_set():
            if replay.router.poll(0 if replay.busy else LOOK_MS, zmq.POLLIN) or replay.busy:
                moved = replay.turn()
                if replay.busy and not moved:
                    time.sleep(RETRY_MS / 1000)

    def _turn(self) -> None:
        for _ in range(len(self._queue)):
            if self._stopped:
                break
            self._send_next()
        self._beat()

    def _wait_ms(self) -> int | None:
        if self._queue:
            return 0
        if self.config.heartbeat is None:
            return None
        return max(0, math.ceil(1000 * (self._last_offer + self.config.heartbeat - time.monotonic())))

    def _close(self) -> None:
        self._over.set()
        if self._answering is not None:
            self._answering.join()
        super()._close()
