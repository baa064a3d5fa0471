"""The benchmark measures what it says, and claims no more than its spread carries."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from kvwire_reference.announcer import Fate as Announced
from kvwire_reference.bench import announcers
from kvwire_reference.bench import measure as measuring
from kvwire_reference.bench.__main__ import main
from kvwire_reference.bench.announcers import Fate, Silent
from kvwire_reference.bench.fleet import OFF, ROWS, Gathering, Publishers, Row, Run, Share, Way, drive, fleet
from kvwire_reference.bench.hash_speed import BLOCK_SIZES, hash_functions
from kvwire_reference.bench.measure import (
    CachingChanged,
    HashSeries,
    Machine,
    Report,
    check_reuse,
    measure_filter,
    repetition,
    series,
)
from kvwire_reference.bench.report import Table, as_json, page
from kvwire_reference.bench.spread import Finding, Spread, compare
from kvwire_reference.bench.workload import QUICK, REUSING, SECOND
from kvwire_reference.outlet import NullPublisher
from kvwire_reference.wire import Batch, BlockRemoved, BlockStored, Event, encode

STEPS = QUICK.steps()


class Kept(NullPublisher):
    """Keeps the events of every batch."""

    def __init__(self, rank: int = 0) -> None:
        super().__init__(rank)
        self.batches: list[tuple[Event, ...]] = []

    def publish(self, batch: Batch) -> bool:
        self.batches.append(batch.events)
        return super().publish(batch)


def kept() -> tuple[list[Kept], Kept, Publishers]:
    own, rank_0 = [Kept(rank) for rank in range(QUICK.ranks)], Kept()
    return own, rank_0, Publishers(own, rank_0)


# --- rows -------------------------------------------------------------------------------------------------


def test_there_is_a_row_for_every_way_and_for_each_of_them_both_hashes() -> None:
    assert {row.way for row in ROWS} == set(Way)
    for way in set(Way) - set(OFF):
        assert {row.algorithm for row in ROWS if row.way is way} == {SECOND, REUSING}
    assert len({row.name for row in ROWS}) == len(ROWS) == 12


@pytest.mark.parametrize("way", OFF)
def test_off_builds_no_event(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: object, **__: object) -> None:
        raise AssertionError("an event was built")

    for name in ("Created", "Stored", "Updated", "Removed", "BlockStored", "BlockRemoved"):
        monkeypatch.setattr(announcers, name, built)
    for name in ("BlockStored", "BlockRemoved", "Run"):
        monkeypatch.setattr(f"kvwire_reference.announcer.{name}", built)
    own, rank_0, publishers = kept()
    off = fleet(Row(way), QUICK, publishers)
    drive(off, STEPS)
    assert not any(outlet.batches for outlet in (*own, rank_0))
    assert all(outlet.counters.offered == 0 for outlet in off.outlets)
    assert all(isinstance(engine.announcer, Silent) and not engine.announcer.fates for engine in off.engines)
    with pytest.raises(AssertionError, match="an event was built"):
        drive(fleet(Row(Way.NULL), QUICK, publishers), STEPS)


@pytest.mark.parametrize("algorithm", [SECOND, REUSING])
def test_generic_events_filtered_late_are_those_that_are_filtered_at_the_mutation(algorithm: str) -> None:
    own, _, publishers = kept()
    drive(fleet(Row(Way.ZMQ, algorithm), QUICK, publishers), STEPS)
    late = fleet(Row(Way.GENERIC, algorithm), QUICK, publishers)
    batches: list[list[tuple[Event, ...]]] = [[] for _ in late.engines]
    for step in STEPS:
        for engine, prompts, seen in zip(late.engines, step, batches, strict=True):
            for prompt in prompts:
                engine.insert(prompt)
            batch = engine.flush()
            if batch is not None:
                seen.append(batch.events)
    assert batches == [outlet.batches for outlet in own]
    assert {type(event) for event in itertools.chain(*batches[0])} == {BlockStored, BlockRemoved}


@pytest.mark.parametrize("way", [Way.GATHERED, Way.LEGACY])
def test_what_is_gathered_on_rank_0_is_what_ranks_publish(way: Way) -> None:
    own, rank_0, publishers = kept()
    drive(fleet(Row(Way.ZMQ), QUICK, publishers), STEPS)
    gathered = fleet(Row(way), QUICK, publishers)
    run = drive(gathered, STEPS)
    assert run.gatherings >= 1
    stored = [_blocks(outlet.batches) for outlet in own]
    assert sorted(_blocks(rank_0.batches)) == sorted([*stored[0], *stored[1]])
    for batch in rank_0.batches:
        encode(Batch(0.0, batch, 0))


def _blocks(batches: Sequence[tuple[Event, ...]]) -> list[tuple[str, int]]:
    return [
        (type(event).__name__, block)
        for batch in batches
        for event in batch
        for block in getattr(event, "block_hashes", ())
    ]


def test_ranks_gather_once_the_busiest_has_worked_for_the_period_and_the_others_wait_for_it() -> None:
    outlet = Kept()
    shares = [Share(lambda: b"", lambda _: ()) for _ in range(2)]
    gathering = Gathering(shares, outlet, period=5.0)
    gathering.worked_for(0, 1.0)
    gathering.worked_for(1, 4.0)
    gathering.meet()
    assert gathering.times == 0
    gathering.worked_for(1, 2.0)
    gathering.meet()
    assert (gathering.times, gathering.worked, gathering.waited) == (1, 7.0, 5.0)
    gathering.meet(last=True)
    assert gathering.times == 2
    assert not outlet.batches


@pytest.fixture(name="measured_with")
def _measured_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """`measure` with a `repetition` of the test's own, and nothing else that takes time."""

    def run(repetition: Callable[[Sequence[Row]], dict[Row, Run]], repetitions: int) -> Report:
        monkeypatch.setattr(measuring, "repetition", lambda rows, *_: repetition(rows))
        monkeypatch.setattr(measuring, "publishers", lambda _: nullcontext(kept()[2]))
        monkeypatch.setattr(measuring, "hash_functions", list)
        return measuring.measure(QUICK, repetitions)

    return run


def test_every_repetition_runs_every_row_in_another_order_after_one_that_does_not_count(
    measured_with: Callable[..., Report],
) -> None:
    orders: list[list[Row]] = []

    def run(rows: Sequence[Row]) -> dict[Row, Run]:
        orders.append(list(rows))
        return {row: Run(len(orders), len(orders), 100, 40) for row in rows}

    report = measured_with(run, 3)
    assert all(set(order) == set(ROWS) and len(order) == len(ROWS) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert all(row.scheduler == [2, 3, 4] for row in report.rows)


def test_nothing_is_reported_when_a_row_reused_other_tokens(measured_with: Callable[..., Report]) -> None:
    with pytest.raises(CachingChanged):
        measured_with(lambda rows: {row: Run(1, 1, 100, 40 + (row.way is Way.ZMQ)) for row in rows}, 1)


def test_events_change_nothing_of_what_is_reused() -> None:
    _, _, publishers = kept()
    runs = repetition(ROWS, QUICK, STEPS, publishers)
    assert set(runs) == set(ROWS)
    assert len({(run.cached, run.tokens) for run in runs.values()}) == 1
    assert 0 < runs[Row(Way.OFF)].cached < runs[Row(Way.OFF)].tokens


def test_a_row_that_reuses_other_tokens_than_off_is_no_measurement() -> None:
    off, zmq = Row(Way.OFF), Row(Way.ZMQ)
    check_reuse({off: [Run(1, 1, 100, 40)], zmq: [Run(2, 2, 100, 40)]})
    with pytest.raises(CachingChanged, match="per-rank events, ZMQ, v2: 39 of 100"):
        check_reuse({off: [Run(1, 1, 100, 40)], zmq: [Run(2, 2, 100, 40), Run(2, 2, 100, 39)]})


# --- what is filtered -------------------------------------------------------------------------------------


def test_the_mix_has_pools_tiers_life_cycles_partial_blocks_and_removals() -> None:
    filtered = measure_filter(QUICK, STEPS)
    assert filtered == measure_filter(QUICK, STEPS)
    for fate in (Fate.STORED, Fate.REMOVED, Fate.CREATED, Fate.TIER, Fate.OTHER_LIFE_CYCLE, Fate.PARTIAL):
        assert filtered.fates[fate.value] > 0, fate
    assert 0 < filtered.batches <= filtered.wire_events < filtered.announced < filtered.mutations
    assert 0 < filtered.by_block < filtered.by_event < 1


def test_the_announcer_of_the_reference_announces_as_many_blocks_as_the_late_filter() -> None:
    _, _, publishers = kept()
    native = fleet(Row(Way.NULL), QUICK, publishers)
    drive(native, STEPS)
    fates = [engine.announcer.fates for engine in native.engines]
    announced = sum(of_rank[Announced.STORED] + of_rank[Announced.REMOVED] for of_rank in fates)
    assert announced == measure_filter(QUICK, STEPS).announced


# --- hashing ----------------------------------------------------------------------------------------------


def test_every_way_of_hashing_gives_the_same_key() -> None:
    functions = {(function.name, function.block_size): function for function in hash_functions(4096)}
    for size in BLOCK_SIZES:
        for width in ("u32", "u64"):
            name = f"v2_sha256/{width}"
            key = functions[f"{name}, token by token", size].run()
            assert functions[f"{name}, bytes packed before", size].run() == key
            chain = functions[f"{name}, batches of 4 KiB", size].run()
            assert isinstance(chain, list)
            assert chain[-1] == key
        assert functions["v1_block_key, token by token", size].measure() > 0


# --- spread -----------------------------------------------------------------------------------------------


def test_a_spread_has_median_quartiles_and_extremes() -> None:
    assert Spread.of([5, 1, 2, 4, 3]) == Spread(median=3, lower=2, upper=4, least=1, most=5, count=5)
    assert Spread.of([2.0]) == Spread(2.0, 2.0, 2.0, 2.0, 2.0, 1)


def test_a_claim_is_withheld_where_spreads_overlap() -> None:
    low, high = Spread.of([1.0, 1.1, 1.2, 1.3, 1.4]), Spread.of([1.2, 1.3, 1.4, 1.5, 1.6])
    assert compare(high, low) is compare(low, high) is Finding.NONE
    apart = Spread.of([1.4, 1.5, 1.6, 1.7, 1.8])
    assert (compare(apart, low), compare(low, apart)) == (Finding.MORE, Finding.LESS)
    touching = Spread.of([1.2, 1.3, 1.5, 1.6, 1.7])
    assert touching.lower == low.upper
    assert compare(touching, low) is Finding.NONE


def test_four_repetitions_carry_no_claim() -> None:
    assert compare(Spread.of([9.0] * 4), Spread.of([1.0] * 25)) is Finding.FEW


# --- the page ---------------------------------------------------------------------------------------------


def _report(seconds: Mapping[Row, Sequence[float]]) -> Report:
    return Report(
        machine=Machine(python="CPython 3", system="Linux x86_64", cores=2, load=(0.5, 0.7)),
        workload=QUICK,
        repetitions=5,
        rows=[series(row, [Run(value, value, 1000, 450) for value in seconds[row]]) for row in ROWS],
        hashes=[HashSeries(function.name, function.block_size, [1.5, 2.5, 3.5]) for function in hash_functions(4096)],
        filtered=measure_filter(QUICK, STEPS),
    )


@pytest.fixture(name="report_of")
def _report_of() -> Callable[..., Report]:
    def make(**ways: Sequence[float]) -> Report:
        same = [1.0] * 5
        return _report({row: same if row.way in OFF else ways.get(row.way.name, same) for row in ROWS})

    return make


def test_a_page_says_what_differs_and_what_does_not(report_of: Callable[..., Report]) -> None:
    report = report_of(ZMQ=[1.9, 2.0, 2.0, 2.0, 2.1], NULL=[0.9, 0.95, 1.0, 1.05, 1.1])
    claims = {(claim.row, claim.base): set(claim.finding.values()) for claim in Table(report).claims()}
    zmq, null, again = Row(Way.ZMQ).name, Row(Way.NULL).name, Row(Way.OFF_AGAIN).name
    assert claims[zmq, again] == {Finding.MORE}
    assert claims[zmq, null] == {Finding.MORE}
    assert claims[null, again] == {Finding.NONE}
    assert claims[again, Row(Way.OFF).name] == {Finding.NONE}
    lines = page(report, "a command").splitlines()
    (about,) = (line for line in lines if line.startswith(f"| {null} ") and f"| {again} " in line)
    assert about.count("no difference beyond the spread") == 2


def test_ratios_are_taken_within_a_repetition(report_of: Callable[..., Report]) -> None:
    report = report_of()
    drifting = [1.0, 2.0, 4.0, 8.0, 16.0]
    rows = [msgspec.structs.replace(row, scheduler=drifting, process=drifting) for row in report.rows]
    table = Table(msgspec.structs.replace(report, rows=rows))
    assert all(set(claim.finding.values()) == {Finding.NONE} for claim in table.claims())


def test_a_page_has_the_authors_figures_with_their_sources_and_all_that_was_measured(
    report_of: Callable[..., Report],
) -> None:
    text = page(report_of(), "a command")
    for figure in ("−12.4 %", "−0.55 %", "+0.07 %", "−1.10 %", "98.3 %", "3.249 million", "9.5 → 6.5", "79,289"):
        (row, *_) = (line for line in text.splitlines() if figure in line and line.startswith("|"))
        assert "TensorRT-LLM" in row
    assert all(f"| {row.name} " in text for row in ROWS)
    assert all(f"| {function.name} " in text for function in hash_functions(4096))
    assert "45.0 % in every row" in text
    assert "## What cannot be compared" in text


def test_json_holds_every_value_and_every_claim(report_of: Callable[..., Report]) -> None:
    report = report_of()
    written = json.loads(as_json(report))
    assert msgspec.convert(written["measured"], Report) == report
    assert list(written["ratio_to_off"]) == [row.name for row in ROWS]
    assert len(written["claims"]) == len(Table(report).claims())


@pytest.mark.network
def test_the_command_prints_and_writes_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    markdown, numbers = tmp_path / "page.md", tmp_path / "numbers.json"
    main(["--quick", "--repetitions", "2", "--requests", "4", "--markdown", str(markdown), "--json", str(numbers)])
    printed = capsys.readouterr().out
    assert markdown.read_text(encoding="utf-8") == printed
    assert str(tmp_path) not in printed
    assert all(f"| {row.name} " in printed for row in ROWS)
    measured = json.loads(numbers.read_text(encoding="utf-8"))["measured"]
    assert {len(row["scheduler"]) for row in measured["rows"]} == {2}
