"""A publisher that binds, accepts everything and sends nothing: it must earn nothing."""

from __future__ import annotations

from kvwire.peers.adapter import Peer, chosen, parse, serve
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.replay import Frames


class SilentPublisher(ZmqPublisher):
    """Loses every batch after it has counted it as sent."""

    def _send_live(self, frames: Frames) -> None:
        """Send nothing."""

    def _remember(self, number: int, frames: Frames) -> None:
        """Retain nothing."""


def main(argv: list[str] | None = None) -> None:
    """Serve the silent publisher."""
    arguments = parse(argv, "A publisher that sends nothing.")
    serve(Peer(name="silent publisher", make_publisher=SilentPublisher, **chosen(arguments)))


if __name__ == "__main__":
    main()
