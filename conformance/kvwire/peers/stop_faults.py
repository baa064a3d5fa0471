"""Publishers that end badly: one small change each of what becomes of batches and ports at a stop."""

from __future__ import annotations

import time

import zmq

from kvwire.peers.mutant import Session, mutant
from kvwire_reference.backlog import Backlog
from kvwire_reference.publisher import ZmqPublisher

TOO_LARGE = "half a megabyte has to wait when it is stopped"
"""Why the session vectors have none of those that lose what waits."""
SEND_S = 0.0005
"""How long a batch takes while others wait."""


@mutant(
    "stops-at-once",
    breaks="LIV-003",
    change="what waits when it is stopped is dropped and counted",
    levels=("driven",),
    session=TOO_LARGE,
)
class StopsAtOnce(ZmqPublisher):
    """Takes its time with a full queue, so that there is something to drop."""

    def _send_next(self) -> None:
        super()._send_next()
        if self._queue:
            time.sleep(SEND_S)

    def _send_rest(self) -> None:
        """Send nothing more; what was handed to the socket leaves."""
        self._live.set(zmq.LINGER, 500)


@mutant(
    "closes-without-linger",
    breaks="LIV-003",
    change="what the socket holds at a stop is lost",
    levels=("driven",),
    session=TOO_LARGE,
)
class ClosesWithoutLinger(ZmqPublisher):
    """As the model publisher. It was handed to the socket, and no call tells how much of it left."""

    def _send_rest(self) -> None:
        super()._send_rest()
        self._live.set(zmq.LINGER, 0)


@mutant(
    "forgets-the-rest",
    breaks="LIV-004",
    change="what waits when it is stopped is dropped and not counted",
    levels=("driven",),
    driven="LIV-003",
    reason="what is forgotten was not sent either",
    session=TOO_LARGE,
)
class ForgetsTheRest(StopsAtOnce):
    def _drop_rest(self) -> None:
        self._queue = Backlog()


_kept: list[ZmqPublisher] = []
"""Publishers whose sockets outlive them, until the process ends."""


@mutant(
    "keeps-its-port",
    breaks="LIV-005",
    change="a port is held after the stop",
    levels=("driven",),
    session=Session(probes=("live", "endpoints")),
)
class KeepsItsPort(ZmqPublisher):
    def _close(self) -> None:
        if not self.endpoint.startswith("tcp://"):
            super()._close()
            return
        _kept.append(self)
        if self._replay is not None:
            self._replay.router.close(0)
        self._wake_sent.close()
        self._wake_heard.close()
