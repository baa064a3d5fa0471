"""The reference on a bad day: its sending thread falls asleep now and then, for no reason that anybody could see.

It breaks nothing. What a judge says against it is a fault of the judge.
"""

from __future__ import annotations

import argparse
import random
import time

from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames

OFTEN = 0.03
"""The share of messages before which it sleeps."""
LONGEST_S = 0.03


def main(argv: list[str] | None = None) -> None:
    """Serve it; ``--shake`` seeds when and for how long it sleeps."""
    parser = argparse.ArgumentParser(description="The reference, whose sending thread sleeps now and then.")
    options(parser)
    parser.add_argument("--shake", type=int, default=1, metavar="SEED")
    arguments = parser.parse_args(argv)
    chance = random.Random(arguments.shake)

    class Shaken(ZmqPublisher):
        def _send_live(self, frames: Frames) -> None:
            if chance.random() < OFTEN:
                time.sleep(chance.uniform(0, LONGEST_S))
            super()._send_live(frames)

    def make(config: PublisherConfig) -> ZmqPublisher:
        return Shaken(config)

    serve(Peer(make_publisher=make, **chosen(arguments)))


if __name__ == "__main__":
    main()
