"""What is measured: every row in every repetition, so that a machine that drifts drifts for all of them."""

import gc
import os
import platform
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from kvwire_reference.bench.announcers import Fate, FilteredLate
from kvwire_reference.bench.fleet import ROWS, Publishers, Row, Run, drive, fleet, life_cycle_ids, publishers
from kvwire_reference.bench.hash_speed import hash_functions
from kvwire_reference.bench.workload import REUSING, Step, Workload
from kvwire_reference.cache import CacheEngine
from kvwire_reference.outlet import NullPublisher


class CachingChanged(AssertionError):
    """A row reused another number of tokens than events off: it does not measure the same engine."""


class Machine(msgspec.Struct, frozen=True):
    """What the numbers depend on, as far as it can be told; `load` is of the last minute, before and after."""

    python: str
    system: str
    cores: int
    load: tuple[float, float]


class Filtered(msgspec.Struct, frozen=True):
    """What became of the mutations of all ranks' caches, each a generic event, in the order of `Fate`.

    Those announced, stored or removed, stand in `wire_events` of `batches`.
    """

    fates: dict[str, int]
    wire_events: int
    batches: int

    @property
    def mutations(self) -> int:
        """All of them."""
        return sum(self.fates.values())

    @property
    def announced(self) -> int:
        """Those that reached the wire, each a block in an event."""
        return self.fates.get(Fate.STORED.value, 0) + self.fates.get(Fate.REMOVED.value, 0)

    @property
    def by_block(self) -> float:
        """Share of mutations whose block is in no event."""
        return 1 - self.announced / self.mutations

    @property
    def by_event(self) -> float:
        """Share of generic events that have no event of their own on the wire: coalescing counts as well."""
        return 1 - self.wire_events / self.mutations


class Series(msgspec.Struct, frozen=True):
    """CPU seconds of a row, one value per repetition, and what it reused: `cached` of `tokens` in each of them."""

    row: str
    scheduler: list[float]
    process: list[float]
    tokens: int
    cached: int
    waited: list[float]
    gatherings: list[int]


class HashSeries(msgspec.Struct, frozen=True):
    """Nanoseconds per token of a hash function, one value per repetition."""

    function: str
    block_size: int
    ns_per_token: list[float]


class Report(msgspec.Struct, frozen=True):
    """Everything that was measured."""

    machine: Machine
    workload: Workload
    repetitions: int
    rows: list[Series]
    hashes: list[HashSeries]
    filtered: Filtered


def measure(workload: Workload, repetitions: int) -> Report:
    """Run all rows `repetitions` times, in another order each time, after one time that does not count."""
    steps = workload.steps()
    runs: dict[Row, list[Run]] = {row: [] for row in ROWS}
    functions = hash_functions()
    speeds: list[list[float]] = [[] for _ in functions]
    load = os.getloadavg()[0]
    with publishers(workload.ranks) as outlets:
        repetition(ROWS, workload, steps, outlets)
        for number in range(repetitions):
            order = random.Random(number).sample(ROWS, len(ROWS))
            for row, run in repetition(order, workload, steps, outlets).items():
                runs[row].append(run)
            for values, function in zip(speeds, functions, strict=True):
                values.append(function.measure())
    check_reuse(runs)
    return Report(
        machine=Machine(
            python=f"{platform.python_implementation()} {platform.python_version()}",
            system=f"{platform.system()} {platform.machine()}",
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            load=(round(load, 1), round(os.getloadavg()[0], 1)),
        ),
        workload=workload,
        repetitions=repetitions,
        rows=[series(row, of_row) for row, of_row in runs.items()],
        hashes=[
            HashSeries(function.name, function.block_size, values)
            for function, values in zip(functions, speeds, strict=True)
        ],
        filtered=measure_filter(workload, steps),
    )


def repetition(rows: Sequence[Row], workload: Workload, steps: Sequence[Step], outlets: Publishers) -> dict[Row, Run]:
    """Run the rows, one after the other, each with engines of its own."""
    runs: dict[Row, Run] = {}
    for row in rows:
        engines = fleet(row, workload, outlets)
        gc.collect()
        runs[row] = drive(engines, steps)
    return runs


def check_reuse(runs: Mapping[Row, Sequence[Run]]) -> None:
    """Raise `CachingChanged` unless every run of every row reused as many tokens as every other."""
    for row, of_row in runs.items():
        for run in of_row:
            first = next(iter(runs.values()))[0]
            if (run.cached, run.tokens) != (first.cached, first.tokens):
                raise CachingChanged(f"{row.name}: {run.cached} of {run.tokens} tokens were reused, not {first.cached}")


def series(row: Row, runs: Sequence[Run]) -> Series:
    """The runs of a row, value by value."""
    return Series(
        row=row.name,
        scheduler=[run.scheduler for run in runs],
        process=[run.process for run in runs],
        tokens=runs[0].tokens,
        cached=runs[0].cached,
        waited=[run.waited for run in runs],
        gatherings=[run.gatherings for run in runs],
    )


def measure_filter(workload: Workload, steps: Sequence[Step]) -> Filtered:
    """Count what happens in the caches of all ranks and what of it reaches the wire."""
    fates: Counter[Fate] = Counter()
    wire_events = batches = 0
    for rank in range(workload.ranks):
        engine = CacheEngine(NullPublisher(rank), workload.config(REUSING))
        announcer = FilteredLate(engine.announcer.form, workload.host, life_cycle_ids(engine))
        engine.announcer = announcer
        for step in steps:
            for prompt in step[rank]:
                engine.insert(prompt)
            batch = engine.flush()
            if batch is not None:
                batches += 1
                wire_events += len(batch.events)
        fates += announcer.adapter.fates
    return Filtered({fate.value: fates[fate] for fate in Fate}, wire_events, batches)
