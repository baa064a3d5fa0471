"""Publishers that end badly: one small change each of what becomes of batches and ports at a stop."""

from __future__ import annotations

import time

import zmq

from kvwire_reference.publisher import ZmqPublisher

PACE_S = 0.0005


class StopsAtOnce(ZmqPublisher):
    """Takes its time with a full queue, and counts as dropped what waits when it is stopped."""

    def _turn(self) -> None:
        if len(self._queue) > 1:
            self._send_next()
            time.sleep(PACE_S)
        else:
            super()._turn()

    def _send_rest(self) -> None:
        """Send nothing more; what was handed to the socket leaves."""
        self._live.set(zmq.LINGER, 500)


class ForgetsTheRest(ZmqPublisher):
    """Closes without waiting for what its socket holds, as the model publisher, and takes that for sent."""

    def _send_rest(self) -> None:
        super()._send_rest()
        self._live.set(zmq.LINGER, 0)


_kept: list[ZmqPublisher] = []
"""Publishers whose sockets outlive them, until the process ends."""


class KeepsItsPort(ZmqPublisher):
    """Keeps its live socket open after it has stopped, where that is a port."""

    def _close(self) -> None:
        if not self.endpoint.startswith("tcp://"):
            super()._close()
            return
        _kept.append(self)
        if self._replay is not None:
            self._replay.router.close(0)
        self._wake_sent.close()
        self._wake_heard.close()
