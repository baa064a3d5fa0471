"""The reference engine and publisher as a target: ``python -m kvwire.peers.reference``."""

from __future__ import annotations

from kvwire.peers.adapter import Peer, chosen, parse, serve


def main(argv: list[str] | None = None) -> None:
    """Serve the reference."""
    serve(Peer(**chosen(parse(argv, "The reference, driven by the adapter protocol."))))


if __name__ == "__main__":
    main()
