"""What was measured, as a page and as JSON: the authors' table beside ours, and what the spread carries."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from kvwire_reference.bench.fleet import GATHER_PERIOD_S, OFF, ROWS, Row, Way
from kvwire_reference.bench.hash_speed import BLOCK_SIZES
from kvwire_reference.bench.measure import Filtered, Report, Series
from kvwire_reference.bench.spread import Finding, Spread, compare
from kvwire_reference.bench.workload import REUSING, SECOND

RFC = "TensorRT-LLM [#17013](https://github.com/NVIDIA/TensorRT-LLM/issues/17013) and its drafts"
DRAFT = "TensorRT-LLM [#16876](https://github.com/NVIDIA/TensorRT-LLM/pull/16876)"
HASHER = "TensorRT-LLM, a change of its C++ hasher"
THEIR_RATE = 79_289
"""Tokens per second and GPU in the authors' fleet."""
THEIR_ZMQ = 0.0110
"""What ZMQ took from the throughput of their local run."""

NOT_COMPARED = """\
* **Throughput**: theirs is of a served model. Here nothing computes keys and values, so a ratio is to the bookkeeping
  of a cache. It bounds what they measured neither from above nor from below.
* **Language**: their cache and hashes are C++ under Python, ours are Python. `v1_block_key` takes some hundred times
  longer here than in C, while SHA-256 is C in both: what the second hash costs here is mostly the language.
* **GPUs**: a scheduler works while its GPU does, and what it does in that time costs no throughput until it takes
  longer than a step. Here nothing hides it.
* **Ranks**: theirs are processes on 32 GPUs. Ours take turns in one process, and publishers share the interpreter with
  the engines: the CPU time of all threads counts what they take from them, the waiting for each other nowhere.
* **Gathering**: theirs crosses machines. Ours packs and unpacks, nothing travels, and nobody waits; the waiting is
  computed. Attention data parallelism makes ranks wait for each other in every layer anyway, so that not all of it is
  the price of events.
* **What an event is**: a generic event of theirs may hold several blocks, one of ours is one page; tokens are objects
  of their own there, and one tuple here.
* **Load**: theirs is the traffic of agents, ours is drawn at random from fixed seeds. The shares that are filtered
  follow from the mix, and so does the reuse.
* **Tiers**: the host tier here is a model in front of the announcer: bounded, first in first out, and the same in
  every row, *off* included.
"""


class Clock(Enum):
    """Whose CPU time."""

    SCHEDULER = "scheduler thread"
    PROCESS = "all threads"


class Claim(NamedTuple):
    """What `row` costs, held against `base`."""

    row: str
    base: str
    finding: dict[Clock, Finding]


class Table:
    """The rows of a report by name, each held against *off* of the same repetition."""

    def __init__(self, report: Report) -> None:
        self._rows = {row.row: row for row in report.rows}
        self._off = self._rows[Row(Way.OFF).name]

    def ratio(self, row: Row, clock: Clock) -> Spread:
        """CPU time of a row to that of *off*."""
        pairs = zip(_seconds(self._rows[row.name], clock), _seconds(self._off, clock), strict=True)
        return Spread.of([above / below for above, below in pairs])

    def beyond(self, row: Row, clock: Clock) -> Spread:
        """Nanoseconds per token of prompts that a row takes beyond *off*."""
        pairs = zip(_seconds(self._rows[row.name], clock), _seconds(self._off, clock), strict=True)
        return Spread.of([(above - below) * 1e9 / self._off.tokens for above, below in pairs])

    def waited(self, row: Row) -> Spread:
        """Share of rank-time at the barrier."""
        return Spread.of(self._rows[row.name].waited)

    def gatherings(self, row: Row) -> Spread:
        """How often ranks met in a run."""
        return Spread.of(self._rows[row.name].gatherings)

    def reuse(self) -> float:
        """Share of tokens that were cached, the same in all rows."""
        return self._off.cached / self._off.tokens

    def claims(self) -> list[Claim]:
        """What is held against what: events against none, one way against another, the second hash against reuse."""
        events = [row for row in ROWS if row.way not in OFF]
        again = Row(Way.OFF_AGAIN)
        pairs = [(again, Row(Way.OFF)), *((row, again) for row in events)]
        for way, base in (
            (Way.GENERIC, Way.NULL),
            (Way.ZMQ, Way.NULL),
            (Way.GATHERED, Way.ZMQ),
            (Way.LEGACY, Way.ZMQ),
        ):
            pairs += [(Row(way, algorithm), Row(base, algorithm)) for algorithm in (SECOND, REUSING)]
        pairs += [(row, Row(row.way, REUSING)) for row in events if row.algorithm == SECOND]
        return [
            Claim(
                row.name,
                base.name,
                {clock: compare(self.ratio(row, clock), self.ratio(base, clock)) for clock in Clock},
            )
            for row, base in pairs
        ]


def as_json(report: Report) -> bytes:
    """Every value, and what follows from them."""
    table = Table(report)
    return (
        msgspec.json.format(
            msgspec.json.encode(
                {
                    "measured": report,
                    "ratio_to_off": {
                        row.name: {clock.value: table.ratio(row, clock) for clock in Clock} for row in ROWS
                    },
                    "claims": [
                        {"row": claim.row, "against": claim.base}
                        | {clock.value: finding.value for clock, finding in claim.finding.items()}
                        for claim in table.claims()
                    ],
                }
            ),
            indent=1,
        )
        + b"\n"
    )


def page(report: Report, command: str) -> str:
    """A report as Markdown; `command` says how it was made."""
    table = Table(report)
    sections = (
        _head(report, command),
        _beside(report, table),
        _rows(table),
        _claims(table),
        _filtered(report),
        _gathered(table),
        _hashes(report),
        ("## What cannot be compared", NOT_COMPARED.rstrip()),
    )
    return "\n\n".join(part for section in sections for part in section) + "\n"


def _head(report: Report, command: str) -> Iterator[str]:
    machine, load = report.machine, report.workload
    yield "# What events cost an engine"
    yield _prose(
        f"""Written by `{command}`. {machine.python}, {machine.system}, {machine.cores} cores, load {machine.load[0]}
        before and {machine.load[1]} after. {report.repetitions} repetitions, each of which runs every row once, in
        another order, so that what the machine does meets all of them. A number is the median of what single
        repetitions gave, in brackets the range between the quartiles, in parentheses the extremes. Two of them differ
        where the brackets do not meet; where they do, nothing is claimed."""
    )
    yield _prose(
        f"""{load.ranks} ranks get {load.requests} requests each, which run as a prompt of about
        {load.shared + load.own} tokens and again with an answer of about {load.answer}; caches of {load.capacity}
        blocks of {load.block_size} tokens, three life cycles, a host tier of {load.host} pages. *Off* is an engine
        whose announcer does nothing. v1 is `v1_block_key`, computed beside the SHA-256 key that the cache needs
        anyway; v2 is 64 bits of that key."""
    )


def _beside(report: Report, table: Table) -> Iterator[str]:
    filtered = report.filtered
    again = table.ratio(Row(Way.OFF_AGAIN), Clock.SCHEDULER)

    def cost(row: Row) -> str:
        beyond = table.beyond(row, Clock.SCHEDULER)
        at_their_rate = beyond.median * 1e-9 * THEIR_RATE
        ratio = _percent(table.ratio(row, Clock.SCHEDULER))
        return f"{ratio}; {_brackets(beyond, 0)} ns/token, {_share(at_their_rate, 2)} of a thread"

    yield "## The authors' table, and ours"
    yield _prose(
        f"""Theirs is the change of throughput. Ours is what the scheduler's thread takes beyond *off*: per cent of the
        bookkeeping of a cache, CPU nanoseconds per token of prompts, and, as arithmetic and no measurement, what these
        are of one thread at {THEIR_RATE:,} tokens/s. Their figures are quoted, and were not measured again."""
    )
    yield _grid(
        ("", "authors", "source", "here"),
        (
            ("no events", "what the others are held against", RFC, f"*off*; a second time {_percent(again)}"),
            (
                "legacy: generic, second hash, gathered",
                "−12.4 %, 8 nodes, 32 GPUs",
                RFC,
                cost(Row(Way.LEGACY, SECOND)),
            ),
            ("native: per rank, key reused", "−0.55 %, 8 nodes, 32 GPUs", RFC, cost(Row(Way.ZMQ))),
            ("native, null publisher", "+0.07 %, local", RFC, cost(Row(Way.NULL))),
            ("native, ZMQ", f"−{_share(THEIR_ZMQ, 2)}, local", RFC, cost(Row(Way.ZMQ))),
            (
                "generic events, and those on the wire",
                "3.249 million, 54,491: 98.3 % filtered",
                DRAFT,
                _filtered_shortly(filtered),
            ),
            ("hashing, token by token → batches of 4 KiB", "9.5 → 6.5 ns/token", HASHER, _batching(report)),
            ("rate", f"{THEIR_RATE:,} tokens/s per GPU", RFC, "no GPU"),
            ("reuse ratio, events on and off", "", "", f"{_share(table.reuse())} in every row, *off* included"),
        ),
    )
    width = again.upper - again.lower
    yield _prose(
        f"""The brackets of *off* against itself are {_share(width)} wide: by the rule above a change of
        {_share(THEIR_ZMQ, 2)} of this bookkeeping {"would not" if width > THEIR_ZMQ else "could"} be seen here."""
    )


def _rows(table: Table) -> Iterator[str]:
    yield "## Every row, as a ratio to *off*"
    yield _grid(
        ("row", *(clock.value for clock in Clock)),
        ((row.name, *(_full(table.ratio(row, clock)) for clock in Clock)) for row in ROWS if row.way is not Way.OFF),
    )


def _claims(table: Table) -> Iterator[str]:
    yield "## What the spread carries"
    yield "Whether the first takes more or less CPU time than the second."
    yield _grid(
        ("this", "against", *(clock.value for clock in Clock)),
        ((claim.row, claim.base, *(claim.finding[clock].value for clock in Clock)) for claim in table.claims()),
    )


def _filtered(report: Report) -> Iterator[str]:
    filtered = report.filtered
    yield "## What is filtered"
    yield _prose(
        f"""A mutation is of one page: created, stored or grown, copied to another tier, or removed from one. Of
        {filtered.mutations:,}, **at block level**, {filtered.announced:,} were of blocks that stand in an event:
        {_share(filtered.by_block)} are filtered. **At event level** these stand in {filtered.wire_events:,} events of
        {filtered.batches:,} batches: {_share(filtered.by_event)} fewer than generic events. What lies between the two
        shares is coalescing, and nothing was filtered there."""
    )
    yield _grid(
        ("mutation", "count", "share"),
        ((fate, f"{count:,}", _share(count / filtered.mutations)) for fate, count in filtered.fates.items()),
    )


def _gathered(table: Table) -> Iterator[str]:
    yield "## Gathered on rank 0, a model"
    yield _prose(
        f"""At the end of an iteration, once the busiest rank has worked for {GATHER_PERIOD_S * 1e3:.0f} ms, every rank
        packs what it has; rank 0 unpacks it, filters it if it is generic, and publishes a batch per rank on its own
        stream. What packing, unpacking and publishing take is in the rows above. Waiting is not: of the time of all
        ranks, so much would be spent at the barrier until the busiest is there:"""
    )
    yield _grid(
        ("row", "share of the time waited", "gatherings in a run"),
        (
            (row.name, _brackets(table.waited(row), 3), f"{table.gatherings(row).median:.0f}")
            for row in ROWS
            if row.way in (Way.GATHERED, Way.LEGACY)
        ),
    )


def _hashes(report: Report) -> Iterator[str]:
    yield "## Hashing, in ns per token"
    yield _prose(
        f"""`v1_block_key` has no batches: each token needs the seed that the one before it left. A block of
        {BLOCK_SIZES[0]} tokens fills no batch of 4 KiB; it is handed over in one piece. *Bytes packed before* is what
        SHA-256 takes without Python's part."""
    )
    names = list(dict.fromkeys(series.function for series in report.hashes))
    values = {(series.function, series.block_size): Spread.of(series.ns_per_token) for series in report.hashes}
    yield _grid(
        ("function", *(f"blocks of {size}" for size in BLOCK_SIZES)),
        ((name, *(_brackets(values[name, size], 1) for size in BLOCK_SIZES)) for name in names),
    )


def _filtered_shortly(filtered: Filtered) -> str:
    counts = f"{filtered.mutations:,}, {filtered.wire_events:,}"
    return f"{counts}: {_share(filtered.by_event)} filtered; of blocks {_share(filtered.by_block)}"


def _batching(report: Report) -> str:
    large = {series.function: series for series in report.hashes if series.block_size == BLOCK_SIZES[-1]}
    each, batched = (
        _brackets(Spread.of(large[f"v2_sha256/u64, {way}"].ns_per_token), 1)
        for way in ("token by token", "batches of 4 KiB")
    )
    return f"{each} → {batched} ns/token, blocks of {BLOCK_SIZES[-1]}, Python"


def _seconds(row: Series, clock: Clock) -> Sequence[float]:
    return row.scheduler if clock is Clock.SCHEDULER else row.process


def _brackets(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} [{spread.lower:.{digits}f}–{spread.upper:.{digits}f}]"


def _full(spread: Spread) -> str:
    return f"{_brackets(spread, 2)} ({spread.least:.2f}–{spread.most:.2f})"


def _percent(ratio: Spread) -> str:
    median, lower, upper = ((value - 1) * 100 for value in (ratio.median, ratio.lower, ratio.upper))
    return f"{median:+.0f} % [{lower:+.0f}…{upper:+.0f}]".replace("-", "−")


def _share(value: float, digits: int = 1) -> str:
    return f"{value * 100:.{digits}f} %"


def _prose(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns line up."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruled = [header, ["-" * width for width in widths], *lines[1:]]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in ruled)
