"""Ranks that publish at a pace, in one process: `python -m benchmarks.sending` with a `Fleet` as JSON.

Says `ready` when all are bound, begins at the first line of its input, says what was offered by each at the end, and
goes on serving until its input ends.
"""

import random
import sys
import time
from contextlib import ExitStack

import msgspec

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, BlockStored

BLOCK_SIZE = 16
BLOCKS = 4
"""Of each batch: what vLLM sends for 64 tokens."""
TICK_S = 0.002


class Fleet(msgspec.Struct, frozen=True):
    """`ranks` at an ipc endpoint, which together publish `rate` batches a second for `seconds`."""

    endpoint: str
    ranks: int
    rate: float
    seconds: float


def main() -> None:
    """Publish."""
    fleet = msgspec.json.decode(sys.argv[1], type=Fleet)
    with ExitStack() as stack:
        publishers = [
            stack.enter_context(
                ZmqPublisher(PublisherConfig(endpoint=fleet.endpoint, rank=rank, world_size=fleet.ranks, ring=100))
            )
            for rank in range(fleet.ranks)
        ]
        print("ready", flush=True)
        while sys.stdin.readline() == "once\n":
            for rank, publisher in enumerate(publishers):
                publisher.publish(Batch(time.time(), (), rank))
        _publish(fleet, publishers)
        print(msgspec.json.encode([publisher.counters.offered for publisher in publishers]).decode(), flush=True)
        sys.stdin.read()


def _publish(fleet: Fleet, publishers: list[ZmqPublisher]) -> None:
    chance = random.Random(0)
    events = [_stored(chance) for _ in range(256)]
    begin = time.monotonic()
    for number in range(round(fleet.rate * fleet.seconds)):
        while number >= fleet.rate * (time.monotonic() - begin):
            time.sleep(TICK_S)
        rank = number % fleet.ranks
        publishers[rank].publish(Batch(time.time(), (events[number % len(events)],), rank))


def _stored(chance: random.Random) -> BlockStored:
    return BlockStored(
        block_hashes=tuple(chance.getrandbits(63) for _ in range(BLOCKS)),
        parent_block_hash=None,
        token_ids=tuple(chance.choices(range(100_000), k=BLOCKS * BLOCK_SIZE)),
        block_size=BLOCK_SIZE,
        lora_id=None,
        medium="GPU",
        lora_name=None,
    )


if __name__ == "__main__":
    main()
