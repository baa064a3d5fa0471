"""The reference engine and publisher as a target: ``python -m kvwire.peers.reference``."""

from __future__ import annotations

import argparse

from kvwire.peers.adapter import Peer, chosen, options, serve


def main(argv: list[str] | None = None) -> None:
    """Serve the reference."""
    parser = argparse.ArgumentParser(description="The reference, driven by the adapter protocol.")
    options(parser)
    serve(Peer(**chosen(parser.parse_args(argv))))


if __name__ == "__main__":
    main()
