"""The mutants: the reference with one small named change each. ``python -m kvwire.peers.mutants NAME``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.replay import Frames


class LittleEndianNumber(ZmqPublisher):
    """Writes the sequence number with its lowest byte first."""

    def _frames(self, number: int, payload: bytes) -> Frames:
        topic, sequence, rest = super()._frames(number, payload)
        return [topic, sequence[::-1], rest]


MUTANTS: Mapping[str, Mapping[str, Any]] = {
    "little-endian-number": {"make_publisher": LittleEndianNumber},
}
"""The fields of ``Peer`` that each mutant sets."""


def main(argv: list[str] | None = None) -> None:
    """Serve one mutant."""
    parser = argparse.ArgumentParser(description="The reference with one small change.")
    parser.add_argument("name", choices=tuple(MUTANTS), metavar="NAME")
    options(parser)
    arguments = parser.parse_args(argv)
    serve(Peer(**{"name": f"mutant {arguments.name}", **chosen(arguments), **MUTANTS[arguments.name]}))


if __name__ == "__main__":
    main()
