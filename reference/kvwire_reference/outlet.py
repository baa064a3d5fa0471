"""Where an engine puts its batches: the interface of a publisher, and the one that sends nothing."""

from typing import Protocol

import msgspec

from kvwire_reference.wire import Batch


class Counters(msgspec.Struct, frozen=True):
    """Batches since construction: those of `offered` neither `sent` nor `dropped` are waiting.

    `unencodable` are the dropped ones that could not be written as msgpack.
    """

    offered: int = 0
    sent: int = 0
    dropped: int = 0
    unencodable: int = 0


class Outlet(Protocol):
    """What an engine needs of a publisher."""

    @property
    def rank(self) -> int:
        """Global rank whose cache the stream describes."""

    @property
    def counters(self) -> Counters:
        """What became of the batches so far."""

    def start(self) -> None:
        """Open the stream."""

    def publish(self, batch: Batch) -> bool:
        """Offer a batch without waiting; False if it was dropped."""

    def shutdown(self, timeout: float = 1.0) -> None:
        """End the stream within `timeout` seconds."""


class NullPublisher:
    """Takes every batch and sends none: what an engine costs without a wire, and for a cache that has no stream."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self._offered = 0

    @property
    def counters(self) -> Counters:
        """Every batch counts as sent."""
        return Counters(offered=self._offered, sent=self._offered)

    def start(self) -> None:
        """Do nothing."""

    def publish(self, batch: Batch) -> bool:  # noqa: ARG002
        """Count the batch."""
        self._offered += 1
        return True

    def shutdown(self, timeout: float = 1.0) -> None:
        """Do nothing."""
