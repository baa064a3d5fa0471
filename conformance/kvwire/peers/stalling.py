"""The reference on a bad day: its sending thread falls asleep now and then, for no reason that anybody could see.

It breaks nothing. What a judge says against it is a fault of the judge.
"""

from __future__ import annotations

import argparse
import random
import time
from functools import partial

from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames

SHARE = 0.03
"""Of all messages, before how many it sleeps."""
LONGEST_S = 0.03


class Stalling(ZmqPublisher):
    """Sleeps before a message now and then; a random generator decides before which, and for how long."""

    def __init__(self, chance: random.Random, config: PublisherConfig) -> None:
        self._chance = chance
        super().__init__(config)

    def _send_live(self, frames: Frames) -> None:
        if self._chance.random() < SHARE:
            time.sleep(self._chance.uniform(0, LONGEST_S))
        super()._send_live(frames)


def main(argv: list[str] | None = None) -> None:
    """Serve it; ``--seed`` decides when and for how long it sleeps."""
    parser = argparse.ArgumentParser(description="The reference, whose sending thread sleeps now and then.")
    options(parser)
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    arguments = parser.parse_args(argv)
    chance = random.Random(arguments.seed)
    serve(Peer(make_publisher=partial(Stalling, chance), **chosen(arguments)))


if __name__ == "__main__":
    main()
