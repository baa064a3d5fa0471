"""The rows of the benchmark: ranks in one process, an engine each, and the way of their events."""

import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from kvwire_reference.bench.announcers import Adapter, FilteredLate, Generic, GenericEvent, Silent, Tiered
from kvwire_reference.bench.workload import REUSING, SECOND, Step, Workload
from kvwire_reference.cache import CacheEngine
from kvwire_reference.outlet import NullPublisher, Outlet
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, Event

GATHER_PERIOD_S = 0.005
CONNECTING_S = 30.0
SUBSCRIBER = """
import sys, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.set(zmq.RCVHWM, 0)
socket.subscribe(b"")
for endpoint in sys.argv[1:]:
    socket.connect(endpoint)
heard = set()
while len(heard) < len(sys.argv) - 1:
    heard.add(socket.recv_multipart()[0])
print("hears all", flush=True)
while True:
    socket.recv_multipart()
"""


class Way(Enum):
    """What becomes of a mutation of the cache."""

    OFF = "off"
    OFF_AGAIN = "off, a second time"
    GENERIC = "generic events, null outlet"
    NULL = "per-rank events, null outlet"
    ZMQ = "per-rank events, ZMQ"
    GATHERED = "per-rank events, gathered on rank 0, ZMQ"
    LEGACY = "generic events, gathered on rank 0, ZMQ"


OFF = (Way.OFF, Way.OFF_AGAIN)


class Row(NamedTuple):
    """One line of the table. `algorithm` names the hash of events; with events off, that of the cache's own key."""

    way: Way
    algorithm: str = REUSING

    @property
    def name(self) -> str:
        """As it is printed."""
        if self.way in OFF:
            return self.way.value
        return f"{self.way.value}, {'v1' if self.algorithm == SECOND else 'v2'}"


ROWS = (
    *map(Row, OFF),
    *(Row(way, algorithm) for way in Way if way not in OFF for algorithm in (SECOND, REUSING)),
)


class Publishers(NamedTuple):
    """Where ranks publish: each on a stream of its own, or all on that of rank 0."""

    own: Sequence[Outlet]
    rank_0: Outlet


class Share(NamedTuple):
    """What one rank adds to a gathering: it packs what it has, and rank 0 makes of it what goes on the wire."""

    pack: Callable[[], bytes]
    unpack: Callable[[bytes], tuple[Event, ...]]


class Held(NullPublisher):
    """Keeps the events of one rank until they are gathered."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self._events: list[Event] = []

    def publish(self, batch: Batch) -> bool:
        """Keep the events."""
        self._events += batch.events
        return super().publish(batch)

    def take(self) -> list[Event]:
        """Hand over what was kept since the last time."""
        taken, self._events = self._events, []
        return taken


class Gathering:
    """All ranks meet, pack what they have, and rank 0 unpacks and publishes it: a batch per rank, as rank 0's own.

    They meet at the end of an iteration, once the busiest has worked for `period` seconds since the last time. `waited`
    adds up how long the others would have stood at the barrier, in rank-seconds, `worked` what all ranks did.
    """

    def __init__(self, shares: Sequence[Share], outlet: Outlet, period: float = GATHER_PERIOD_S) -> None:
        self.times = 0
        self.waited = 0.0
        self.worked = 0.0
        self._shares = shares
        self._outlet = outlet
        self._period = period
        self._busy = [0.0] * len(shares)

    def worked_for(self, rank: int, seconds: float) -> None:
        """Note what a rank did in an iteration."""
        self._busy[rank] += seconds

    def meet(self, last: bool = False) -> None:
        """Gather if it is time, or there is no other."""
        slowest = max(self._busy)
        if slowest < self._period and not last:
            return
        self.times += 1
        self.worked += sum(self._busy)
        self.waited += sum(slowest - busy for busy in self._busy)
        self._busy = [0.0] * len(self._busy)
        packed = [share.pack() for share in self._shares]
        for share, payload in zip(self._shares, packed, strict=True):
            events = share.unpack(payload)
            if events:
                self._outlet.publish(Batch(time.time(), events, self._outlet.rank))


class Fleet(NamedTuple):
    """The engines of all ranks, the outlets that have to drain, and the gathering, if there is one."""

    engines: Sequence[CacheEngine]
    outlets: Sequence[Outlet]
    gathering: Gathering | None = None


class Run(NamedTuple):
    """What a run took, in CPU seconds: `scheduler` of the thread that runs the engines, `process` of all threads.

    `cached` of `tokens` were reused; `waited` is the share of rank-time at the barrier.
    """

    scheduler: float
    process: float
    tokens: int
    cached: int
    waited: float = 0.0
    gatherings: int = 0


def fleet(row: Row, workload: Workload, publishers: Publishers) -> Fleet:
    """Build new engines for a row."""
    if row.way in (Way.GATHERED, Way.LEGACY):
        return _gathered(row, workload, publishers.rank_0)
    zmq = row.way is Way.ZMQ
    outlets = list(publishers.own) if zmq else [NullPublisher(rank) for rank in range(workload.ranks)]
    engines = [CacheEngine(outlet, workload.config(row.algorithm)) for outlet in outlets]
    for engine in engines:
        form = engine.announcer.form
        if row.way is Way.GENERIC:
            engine.announcer = FilteredLate(form, workload.host, life_cycle_ids(engine))
        elif row.way in OFF:
            engine.announcer = Silent(form, workload.host)
        else:
            engine.announcer = Tiered(form, workload.host)
    return Fleet(engines, outlets)


def life_cycle_ids(engine: CacheEngine) -> list[int]:
    """The ids of the life cycles of an engine."""
    return [life_cycle.id for life_cycle in engine.config.life_cycles]


def drive(fleet: Fleet, steps: Sequence[Step]) -> Run:
    """Run all prompts of all ranks, one rank after the other, until the last batch is sent."""
    tokens = cached = 0
    process, scheduler = time.process_time(), time.thread_time()
    now = scheduler
    for step in steps:
        for rank, prompts in enumerate(step):
            engine = fleet.engines[rank]
            for prompt in prompts:
                tokens += len(prompt)
                cached += engine.insert(prompt)
            engine.flush()
            begin, now = now, time.thread_time()
            if fleet.gathering is not None:
                fleet.gathering.worked_for(rank, now - begin)
        if fleet.gathering is not None:
            fleet.gathering.meet(last=step is steps[-1])
            now = time.thread_time()
    scheduler = time.thread_time() - scheduler
    for outlet in fleet.outlets:
        while outlet.counters.sent + outlet.counters.dropped < outlet.counters.offered:
            time.sleep(0.0005)
    process = time.process_time() - process
    if fleet.gathering is None:
        return Run(scheduler, process, tokens, cached)
    waited = fleet.gathering.waited / (fleet.gathering.waited + fleet.gathering.worked)
    return Run(scheduler, process, tokens, cached, waited, fleet.gathering.times)


@contextmanager
def publishers(ranks: int) -> Iterator[Publishers]:
    """Publishers over ipc, and one subscriber, a process of its own, that hears and reads all of them."""
    with ExitStack() as stack:
        room = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvwire-bench-")))
        own = [
            ZmqPublisher(
                PublisherConfig(endpoint=f"ipc://{room / 'own'}", rank=rank, world_size=ranks, topic=str(rank))
            )
            for rank in range(ranks)
        ]
        rank_0 = ZmqPublisher(PublisherConfig(endpoint=f"ipc://{room / 'all'}", topic="all"))
        for publisher in (*own, rank_0):
            stack.enter_context(publisher)
        endpoints = [publisher.endpoint for publisher in (*own, rank_0)]
        subscriber = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", SUBSCRIBER, *endpoints], stdout=subprocess.PIPE)
        )
        stack.callback(subscriber.kill)
        said = subscriber.stdout
        assert said is not None
        deadline = time.monotonic() + CONNECTING_S
        while not select.select([said], [], [], 0.01)[0]:
            if time.monotonic() > deadline or subscriber.poll() is not None:
                raise RuntimeError("the subscriber does not hear all publishers")
            for publisher in (*own, rank_0):
                publisher.publish(Batch(time.time(), (), publisher.rank))
        yield Publishers(own, rank_0)


def _gathered(row: Row, workload: Workload, rank_0: Outlet) -> Fleet:
    engines: list[CacheEngine] = []
    shares: list[Share] = []
    for rank in range(workload.ranks):
        held = Held(rank)
        engine = CacheEngine(held, workload.config(row.algorithm))
        if row.way is Way.LEGACY:
            announcer = Generic(engine.announcer.form, workload.host, life_cycle_ids(engine))
            shares.append(_generic_share(announcer))
            engine.announcer = announcer
        else:
            shares.append(_wire_share(held))
            engine.announcer = Tiered(engine.announcer.form, workload.host)
        engines.append(engine)
    return Fleet(engines, [rank_0], Gathering(shares, rank_0))


def _wire_share(held: Held) -> Share:
    encoder = msgspec.msgpack.Encoder()
    decoder = msgspec.msgpack.Decoder(tuple[Event, ...])
    return Share(lambda: encoder.encode(held.take()), decoder.decode)


def _generic_share(announcer: Generic) -> Share:
    """The filter stands behind the gathering, at rank 0."""
    encoder = msgspec.msgpack.Encoder()
    decoder = msgspec.msgpack.Decoder(list[GenericEvent])
    adapter = Adapter(announcer.form)
    return Share(lambda: encoder.encode(announcer.take()), lambda packed: adapter.events(decoder.decode(packed)))
