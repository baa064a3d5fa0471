"""The whole of the reference: what an engine holds is what a consumer of its stream believes."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.consumer import Consumer
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher

pytestmark = pytest.mark.network

CACHE = CacheConfig(block_size=4, capacity=30, announce_algorithm=True)


def until(condition: Callable[[], bool], consumer: Consumer) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        consumer.poll(0.01)


def believes(consumer: Consumer, engine: CacheEngine) -> bool:
    tables = consumer.residents.tables()
    assert all((place.medium, place.algorithm) == ("GPU", CACHE.algorithm) for place in tables)
    known = frozenset().union(*tables.values())
    return consumer.settled and consumer.residents.complete and known == set(engine.announced())


def work(engine: CacheEngine, chance: random.Random) -> None:
    for _ in range(100):
        engine.insert([chance.randrange(2) for _ in range(chance.randrange(1, 40))], salt=chance.choice((None, "s")))
        engine.flush()


def test_a_consumer_follows_an_engine_from_before_it_came_to_after_it_restarted(room: Path) -> None:
    config = PublisherConfig(endpoint=f"ipc://{room}/live", replay_endpoint=f"ipc://{room}/replay", topic="kv")
    chance = random.Random(1)
    with ZmqPublisher(config) as publisher:
        engine = CacheEngine(publisher, CACHE)
        work(engine, chance)
        consumer = Consumer(publisher.endpoint, publisher.replay_endpoint, topic=b"kv")
        until(lambda: believes(consumer, engine), consumer)
        work(engine, chance)
        until(lambda: believes(consumer, engine), consumer)
        assert engine.announced() == engine.resident() != []
    with consumer, ZmqPublisher(config) as publisher:
        engine = CacheEngine(publisher, CACHE)
        engine.insert([1, 2, 3, 4, 5, 6, 7, 8])
        engine.flush()
        until(lambda: believes(consumer, engine), consumer)
        engine.reset()
        engine.flush()
        until(lambda: believes(consumer, engine), consumer)
        assert consumer.residents.tables() == {}
