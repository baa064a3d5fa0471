"""Publishers that bind, accept everything, and show next to nothing: what they do not show must earn them nothing.

``python -m kvwire.peers.near_null KIND`` serves one, driven by the adapter protocol.
"""

from __future__ import annotations

import argparse

import msgspec

from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames
from kvwire_reference.wire import Batch, BlockStored


class Silent(ZmqPublisher):
    """Loses every batch after it has counted it as sent."""

    def _send_live(self, frames: Frames) -> None:
        """Send nothing."""

    def _remember(self, number: int, frames: Frames) -> None:
        """Retain nothing."""


class OneEvent(ZmqPublisher):
    """Sends the first ``BlockStored`` of an incarnation, and never anything else."""

    def __init__(self, config: PublisherConfig) -> None:
        self._shown = False
        self._showing = False
        super().__init__(config)

    def _encode(self, batch: Batch) -> bytes:
        stored = tuple(event for event in batch.events if isinstance(event, BlockStored))[:1]
        self._showing = bool(stored) and not self._shown
        self._shown = self._shown or self._showing
        return super()._encode(msgspec.structs.replace(batch, events=stored))

    def _send_live(self, frames: Frames) -> None:
        if self._showing:
            super()._send_live(frames)

    def _remember(self, number: int, frames: Frames) -> None:
        if self._showing:
            super()._remember(number, frames)


class Heartbeats(ZmqPublisher):
    """Sends every batch without its events."""

    def _encode(self, batch: Batch) -> bytes:
        return super()._encode(msgspec.structs.replace(batch, events=()))


class Duplicates(ZmqPublisher):
    """Sends the first message of an incarnation again and again, in place of every other."""

    def __init__(self, config: PublisherConfig) -> None:
        self._first: Frames | None = None
        super().__init__(config)

    def _remember(self, number: int, frames: Frames) -> None:
        self._first = self._first or frames
        if self._first == frames:
            super()._remember(number, frames)

    def _send_live(self, frames: Frames) -> None:
        super()._send_live(self._first or frames)


KINDS: dict[str, type[ZmqPublisher]] = {
    "silent": Silent,
    "one-event": OneEvent,
    "heartbeats": Heartbeats,
    "duplicates": Duplicates,
}


def main(argv: list[str] | None = None) -> None:
    """Serve one of them."""
    parser = argparse.ArgumentParser(description="A publisher that shows next to nothing.")
    parser.add_argument("kind", choices=tuple(KINDS))
    options(parser)
    arguments = parser.parse_args(argv)
    serve(Peer(name=f"{arguments.kind} publisher", make_publisher=KINDS[arguments.kind], **chosen(arguments)))


if __name__ == "__main__":
    main()
