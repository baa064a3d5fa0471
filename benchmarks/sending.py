"""Ranks that publish at a pace, in one process: `python -m benchmarks.sending` with a `Fleet` as JSON.

Says `ready` when all are bound, begins at the first line of its input, says what was offered by each at the end, and
goes on serving until its input ends.
"""

import random
import sys
import time
from contextlib import ExitStack

import msgspec

from kvwire_reference import hashing
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, BlockRemoved, BlockStored, Event

BLOCK_SIZE = 16
BLOCKS = 4
"""Of each batch: what vLLM sends for 64 tokens."""
TOPIC = "kv-events"
FUNCTION = "v2_sha256_64/u32"
CYCLE, RESIDENT = 256, 64
"""So many chains are stored in turn; so many of them are resident."""
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
                ZmqPublisher(
                    PublisherConfig(endpoint=fleet.endpoint, topic=TOPIC, rank=rank, world_size=fleet.ranks, ring=100)
                )
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
    first, then = _cycle()
    begin = time.monotonic()
    for number in range(round(fleet.rate * fleet.seconds)):
        while number >= fleet.rate * (time.monotonic() - begin):
            time.sleep(TICK_S)
        turn, rank = divmod(number, fleet.ranks)
        events = first[turn] if turn < RESIDENT else then[turn % CYCLE]
        publishers[rank].publish(Batch(time.time(), events, rank))


def _cycle() -> tuple[list[tuple[Event, ...]], list[tuple[Event, ...]]]:
    """What a rank says first, and then in turn: each batch stores a chain, and removes the one before the last few."""
    chance = random.Random(0)
    stored = [_stored(chance) for _ in range(CYCLE)]
    removed = [BlockRemoved(block_hashes=one.block_hashes, medium="GPU", hash_algo=FUNCTION) for one in stored]
    return [(one,) for one in stored], [(removed[at - RESIDENT], stored[at]) for at in range(CYCLE)]


def _stored(chance: random.Random) -> BlockStored:
    tokens = chance.choices(range(100_000), k=BLOCKS * BLOCK_SIZE)
    function = hashing.candidates(FUNCTION)[0]
    state, hashes = function.root(), []
    for at in range(0, len(tokens), BLOCK_SIZE):
        state = function.next(state, tokens[at : at + BLOCK_SIZE])
        assert state.hash is not None
        hashes.append(hashing.signed(state.hash))
    return BlockStored(
        block_hashes=tuple(hashes),
        parent_block_hash=None,
        token_ids=tuple(tokens),
        block_size=BLOCK_SIZE,
        lora_id=None,
        medium="GPU",
        lora_name=None,
        hash_algo=FUNCTION,
    )


if __name__ == "__main__":
    main()
