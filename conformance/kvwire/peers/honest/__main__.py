"""``python -m kvwire.peers.honest NAME`` serves one honest peer, driven by the adapter protocol or by an API."""

from __future__ import annotations

import argparse

from kvwire.peers.adapter import chosen, options, serve
from kvwire.peers.honest import balanced
from kvwire.peers.honest.catalog import HONEST, peer_of


def main(argv: list[str] | None = None) -> None:
    """Serve one."""
    parser = argparse.ArgumentParser(description="A publisher that keeps the standard and is unlike the reference.")
    parser.add_argument("name", choices=tuple(HONEST), metavar="NAME")
    options(parser)
    arguments = parser.parse_args(argv)
    peer = peer_of(arguments.name, **chosen(arguments))
    if HONEST[arguments.name].api:
        balanced.serve(peer)
    else:
        serve(peer)


if __name__ == "__main__":
    main()
