"""``kvwire serve`` and ``kvwire mutants``: the publishers of ours."""

from __future__ import annotations

import itertools
import signal
import time
from types import FrameType

import click
import msgspec

from kvwire.peers.mutants import LEVELS, MUTANTS
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.endpoints import EndpointError
from kvwire_reference.hashing import ALGORITHMS
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher


@click.command()
@click.option("--endpoint", default="tcp://127.0.0.1:5557", show_default=True, help="Where rank 0 publishes.")
@click.option("--replay", default="tcp://127.0.0.1:5657", show_default=True, help="Replay socket, or `none`.")
@click.option("--topic", default="kv-events", show_default=True, help="Topic of every message.")
@click.option("--rank", default=0, show_default=True, type=click.IntRange(min=0), help="Global rank.")
@click.option("--algorithm", default="v2_sha256_64/u32", show_default=True, type=click.Choice(tuple(ALGORITHMS)))
@click.option("--block-size", default=16, show_default=True, type=click.IntRange(min=1), help="Tokens of a block.")
@click.option("--capacity", default=256, show_default=True, type=click.IntRange(min=1), help="Blocks in the cache.")
@click.option("--rate", default=50.0, show_default=True, type=click.FloatRange(min=0.1), help="Prompts a second.")
@click.option("--wildcard", is_flag=True, help="Permit an endpoint on every interface: prompts become readable there.")
def serve(
    endpoint: str,
    replay: str,
    topic: str,
    rank: int,
    algorithm: str,
    block_size: int,
    capacity: int,
    rate: float,
    wildcard: bool,
) -> None:
    """Run the reference publisher with a workload of made-up prompts, until stopped (Ctrl-C)."""
    import random

    config = PublisherConfig(
        endpoint=endpoint,
        replay_endpoint=None if replay == "none" else replay,
        topic=topic,
        rank=rank,
        world_size=rank + 1,
        wildcard=wildcard,
    )
    try:
        publisher = ZmqPublisher(config)
        publisher.start()
    except EndpointError as error:
        raise click.UsageError(str(error)) from None
    stopping = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    engine = CacheEngine(publisher, CacheConfig(block_size=block_size, capacity=capacity, algorithm=algorithm))
    where = f"zmq:{publisher.endpoint}?topic={topic}" + (
        f"&replay={publisher.replay_endpoint}" if publisher.replay_endpoint else ""
    )
    click.echo(f"kvwire check '{where}'")
    random_ = random.Random(1)
    prefixes = [[random_.randrange(100_000) for _ in range(4 * block_size)] for _ in range(8)]
    try:
        for turn in itertools.count():
            if stopping:
                break
            if turn % 500 == 499:
                engine.reset()
            prompt = random_.choice(prefixes) + [
                random_.randrange(100_000) for _ in range(random_.randrange(4 * block_size))
            ]
            engine.insert(prompt, lora_id=7 if turn % 10 == 3 else None)
            engine.flush()
            time.sleep(1 / rate)  # the pace of the workload, not an oracle
    finally:
        publisher.shutdown()
        for number, handler in before.items():
            signal.signal(number, handler)
    counters = publisher.counters
    click.echo(f"stopped: {counters.offered} batches offered, {counters.sent} sent, {counters.dropped} dropped")


@click.group()
def mutants() -> None:
    """The mutants: the reference with one known fault each."""


@mutants.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_command(as_json: bool) -> None:
    """List every mutant, the sentence it breaks, and what else must speak."""
    from rich.console import Console
    from rich.table import Table

    if as_json:
        for mutant in MUTANTS.values():
            expected = {level: sorted(mutant.expected[level]) for level in LEVELS}
            click.echo(
                msgspec.json.encode(
                    {"name": mutant.name, "primary": mutant.primary, "change": mutant.change, "expected": expected}
                )
            )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("mutant", "breaks", "seen when", "change", "also"):
        table.add_column(name, no_wrap=name in ("mutant", "breaks"), overflow="fold")
    for mutant in MUTANTS.values():
        others = sorted({i.removeprefix("KVW-") for level in LEVELS for i in mutant.expected[level]})
        others.remove(mutant.primary.removeprefix("KVW-"))
        table.add_row(mutant.name, mutant.primary, mutant.levels[0], mutant.change, " ".join(others))
    Console().print(table)
