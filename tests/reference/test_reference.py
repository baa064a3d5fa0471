"""The whole of the reference: what an engine holds is what a consumer of its stream believes."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kvwire_reference.cache import CacheConfig, CacheEngine, HostConfig, LifeCycle
from kvwire_reference.consumer import Consumer
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher

pytestmark = pytest.mark.network

CACHE = CacheConfig(block_size=4, capacity=30, announce_algorithm=True)
HYBRID = msgspec.structs.replace(
    CACHE,
    capacity=20,
    life_cycles=(LifeCycle(0), LifeCycle(1, 8), LifeCycle(2, kind="mamba", block_size=8)),
    groups=(0, 1, 2),
    host=HostConfig(capacity=15),
    netting=True,
)
"""All that an engine can be asked for."""


def until(condition: Callable[[], bool], consumer: Consumer) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        consumer.poll(0.01)


def believes(consumer: Consumer, engine: CacheEngine) -> bool:
    tables = consumer.residents.tables()
    assert all(place.algorithm == CACHE.algorithm for place in tables)
    known = {(place.medium, place.group): set(table) for place, table in tables.items()}
    held = {place: set(hashes) for place, hashes in engine.residents().items() if hashes}
    return consumer.settled and consumer.residents.complete and known == held


def work(engine: CacheEngine, chance: random.Random) -> None:
    for _ in range(100):
        engine.insert([chance.randrange(2) for _ in range(chance.randrange(1, 40))], salt=chance.choice((None, "s")))
        engine.flush()


@pytest.mark.parametrize("cache", [CACHE, HYBRID], ids=["one group", "hybrid"])
def test_a_consumer_follows_an_engine_from_before_it_came_to_after_it_restarted(room: Path, cache: CacheConfig) -> None:
    config = PublisherConfig(endpoint=f"ipc://{room}/live", replay_endpoint=f"ipc://{room}/replay", topic="kv")
    chance = random.Random(1)
    with ZmqPublisher(config) as publisher:
        engine = CacheEngine(publisher, cache)
        work(engine, chance)
        consumer = Consumer(publisher.endpoint, publisher.replay_endpoint, topic=b"kv")
        until(lambda: believes(consumer, engine), consumer)
        work(engine, chance)
        until(lambda: believes(consumer, engine), consumer)
        assert engine.announced() == engine.resident() != []
        assert consumer.residents.reproduces
    with consumer, ZmqPublisher(config) as publisher:
        engine = CacheEngine(publisher, cache)
        engine.insert([1, 2, 3, 4, 5, 6, 7, 8])
        engine.flush()
        until(lambda: believes(consumer, engine), consumer)
        engine.reset()
        engine.flush()
        until(lambda: believes(consumer, engine), consumer)
        assert consumer.residents.tables() == {}
