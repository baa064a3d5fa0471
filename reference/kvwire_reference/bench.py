"""What events cost an engine: `python -m kvwire_reference.bench`.

Prints ratios of CPU time, not times: each is the median over repetitions in which the two sides run directly
after each other, so that a busy machine slows both. The engine holds no keys and values, so it does nothing
*but* what events need, and the ratios are upper bounds.
"""

import argparse
import gc
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from kvwire_reference.announcer import Fate
from kvwire_reference.cache import CacheConfig, CacheEngine, LifeCycle
from kvwire_reference.hashing import ALGORITHMS, Algorithm, ChainState
from kvwire_reference.outlet import NullPublisher, Outlet
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.radix import Piece

Prompt = Sequence[int]

REUSING = "v2_sha256_64/u32"
"""The algorithm whose wire hash is a part of the key that the cache has anyway."""
SECOND_HASHES = ("v2_sha256_64/u64", "v1_block_key")
"""What an engine may compute beside that key: another SHA-256, and the mixing hash (pure Python here)."""
LIFE_CYCLES = (LifeCycle(0), LifeCycle(1, 1024), LifeCycle(2, 256))
SUBSCRIBER = """
import sys, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.set(zmq.RCVHWM, 0)
socket.subscribe(b"")
socket.connect(sys.argv[1])
while True:
    socket.recv_multipart()
"""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts that share `documents` beginnings of `shared` tokens and end in `own` tokens each.

    `requests` prompts run, `per_iteration` of them between two flushes, in a cache of `capacity` blocks of
    `block_size` tokens.
    """

    requests: int = 160
    per_iteration: int = 8
    documents: int = 8
    shared: int = 2048
    own: int = 256
    block_size: int = 32
    capacity: int = 1024

    def prompts(self) -> list[Prompt]:
        """The prompts, the same ones every time."""
        chance = random.Random(0)
        documents = [[chance.randrange(100_000) for _ in range(self.shared)] for _ in range(self.documents)]
        return [
            [*chance.choice(documents), *(chance.randrange(100_000) for _ in range(self.own))]
            for _ in range(self.requests)
        ]

    def config(self, algorithm: str) -> CacheConfig:
        """A cache with room for less than all of it."""
        return CacheConfig(
            block_size=self.block_size, capacity=self.capacity, algorithm=algorithm, life_cycles=LIFE_CYCLES
        )


class Filtered(msgspec.Struct, frozen=True):
    """Of `mutations` of the cache, `blocks` were announced, in `events` of `batches`."""

    mutations: int
    blocks: int
    events: int
    batches: int

    @property
    def share(self) -> float:
        """Share of mutations that reached no event of their own."""
        return 1 - self.events / self.mutations


class Report(msgspec.Struct, frozen=True):
    """Medians of ratios: per algorithm ZMQ to null publisher, per second hash two hashes to one."""

    publishing: dict[str, float]
    second_hash: dict[str, float]
    filtered: Filtered


class HashingTwice(CacheEngine):
    """Computes `second` for every block beside the hash it announces, as engines did before key reuse."""

    second: Algorithm

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        self.second.next(self.second.root(), piece.tokens)
        return super()._next_state(state, piece)


def drive(engine: CacheEngine, outlet: Outlet, prompts: Sequence[Prompt], per_iteration: int) -> float:
    """Run the prompts through the engine until the last batch is sent; return the CPU seconds that took.

    CPU time of the process counts the publisher's thread in full and other processes not at all.
    """
    gc.collect()
    begin = time.process_time()
    for index, prompt in enumerate(prompts, start=1):
        engine.insert(prompt)
        if index % per_iteration == 0:
            engine.flush()
    engine.flush()
    while outlet.counters.sent + outlet.counters.dropped < outlet.counters.offered:
        time.sleep(0.0001)
    return time.process_time() - begin


def median_ratio(repetitions: int, one: Callable[[], float], other: Callable[[], float]) -> float:
    """Median of `one()` / `other()`, taking turns at who runs first."""
    ratios = []
    for repetition in range(repetitions):
        if repetition % 2:
            below, above = other(), one()
        else:
            above, below = one(), other()
        ratios.append(above / below)
    return statistics.median(ratios)


@contextmanager
def subscribed_publisher() -> Iterator[ZmqPublisher]:
    """A publisher over ipc with one subscriber, in a process of its own, that reads all."""
    with tempfile.TemporaryDirectory(prefix="kvwire-bench-") as room:
        publisher = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{Path(room) / 'live'}"))
        with publisher, subprocess.Popen([sys.executable, "-c", SUBSCRIBER, publisher.endpoint]) as subscriber:
            try:
                yield publisher
            finally:
                subscriber.kill()


def measure_publishing(workload: Workload, repetitions: int, publisher: Outlet) -> dict[str, float]:
    """Per algorithm, the time of an engine that publishes to that of one that throws its batches away."""
    prompts = workload.prompts()

    def run(algorithm: str, outlet: Outlet) -> float:
        return drive(CacheEngine(outlet, workload.config(algorithm)), outlet, prompts, workload.per_iteration)

    return {
        label: median_ratio(repetitions, partial(run, label, publisher), partial(run, label, NullPublisher()))
        for label in ALGORITHMS
    }


def measure_second_hash(workload: Workload, repetitions: int) -> dict[str, float]:
    """Per second hash, the time of an engine that computes it to that of one that reuses its key."""
    prompts, outlet, config = workload.prompts(), NullPublisher(), workload.config(REUSING)

    def reusing() -> float:
        return drive(CacheEngine(outlet, config), outlet, prompts, workload.per_iteration)

    def twice(label: str) -> float:
        engine = HashingTwice(outlet, config)
        engine.second = ALGORITHMS[label]
        return drive(engine, outlet, prompts, workload.per_iteration)

    return {label: median_ratio(repetitions, partial(twice, label), reusing) for label in SECOND_HASHES}


def measure_filter(workload: Workload) -> Filtered:
    """Count what happens in the cache and what of it reaches the wire."""
    engine = CacheEngine(NullPublisher(), workload.config(REUSING))
    batches = []
    for index, prompt in enumerate(workload.prompts(), start=1):
        engine.insert(prompt)
        if index % workload.per_iteration == 0:
            batches.append(engine.flush())
    sent = [batch for batch in (*batches, engine.flush()) if batch is not None]
    fates = engine.announcer.fates
    return Filtered(
        mutations=fates.total(),
        blocks=fates[Fate.STORED] + fates[Fate.REMOVED],
        events=sum(len(batch.events) for batch in sent),
        batches=len(sent),
    )


def measure(workload: Workload, repetitions: int) -> Report:
    """Measure everything."""
    with subscribed_publisher() as publisher:
        publishing = measure_publishing(workload, repetitions, publisher)
    return Report(publishing, measure_second_hash(workload, repetitions), measure_filter(workload))


def lines(report: Report) -> Iterator[str]:
    """A report as text."""
    yield "engine with ZMQ publisher / engine with null publisher"
    for label, ratio in report.publishing.items():
        yield f"  {label:22} {ratio:6.3f}"
    yield f"engine that computes a second hash / engine that reuses its key ({REUSING})"
    for label, ratio in report.second_hash.items():
        yield f"  {label:22} {ratio:6.3f}"
    filtered = report.filtered
    yield "mutations of the cache that reach no event of their own"
    yield (
        f"  {filtered.share:.1%}: of {filtered.mutations} mutations {filtered.blocks} were of blocks announced, "
        f"in {filtered.events} events of {filtered.batches} batches"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m kvwire_reference.bench", description="What events cost an engine.")
    parser.add_argument("--requests", type=int, default=Workload().requests, help="prompts per run")
    parser.add_argument("--repetitions", type=int, default=7, help="runs of each side of a ratio")
    options = parser.parse_args(arguments)
    for line in lines(measure(Workload(requests=options.requests), options.repetitions)):
        print(line)


if __name__ == "__main__":
    main()
