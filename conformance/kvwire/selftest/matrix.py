"""Requirement × mutant, from real runs: what each mutant must be heard for, and what the judges said.

The other control group, of whom nobody may speak, is in ``honest``.

A cell exists where a mutant must be heard, or was. ``killed``: the sentence was said to be broken, as expected.
``silent``: it was not. ``inconclusive``: it was left open. ``dead``: the mutant's run was in trouble, so that nothing
it shows counts; a crash is not a kill. ``unexpected``: the sentence was said to be broken and should not have been.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Literal, Protocol, TypeVar, get_args

import msgspec

from kvwire.attack.probes.kit.session import Limits, Mode
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.conclusion import result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.judges import TABLE
from kvwire.judges.verdict import Verdict
from kvwire.peers.mutant import Mutant
from kvwire.peers.mutants import MUTANTS, profile_of
from kvwire.standard import registry
from kvwire.standard.registry import LEVELS, ControlLevel
from kvwire.trace import files, levels
from kvwire.trace.records import Trace

Cell = Literal["killed", "silent", "inconclusive", "dead", "unexpected"]
CELLS: tuple[Cell, ...] = get_args(Cell)
SPEAKS = (Verdict.FAIL, Verdict.WARN)
LIMITS = msgspec.structs.replace(Limits(), replay_s=2.0)
"""A silent answer is awaited for less than users are given; an honest one takes milliseconds."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant: its cells per level of control, the troubles of its run, and how long that took in seconds.

    ``amiss`` is what else is wrong with what was said. ``runs`` is how many it took: all but the last were not exact.
    """

    mutant: str
    primary: str
    cells: Mapping[ControlLevel, Mapping[str, Cell]]
    troubles: list[str]
    amiss: list[str]
    seconds: float
    runs: int = 1

    @property
    def name(self) -> str:
        """The mutant's."""
        return self.mutant

    @property
    def exact(self) -> bool:
        """Whether everything that had to be said was said, and nothing else."""
        return not self.amiss and all(cell == "killed" for cells in self.cells.values() for cell in cells.values())


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it, as it is stored: rows in the order of the mutants, and the sentences that no mutant breaks."""

    edition: str
    rows: list[Row]
    without: list[str]


def recorded(
    target: str, limits: Limits = LIMITS, mode: Mode = "plain", probes: tuple[str, ...] | None = None
) -> Trace:
    """Run a target and return its trace; ``probes`` as in ``Settings``.

    Raises:
        KeyboardInterrupt: when the run was interrupted.
    """
    place = parse(target)
    assert not isinstance(place, TraceTarget)
    recording = run(place, Settings(limits=limits, mode=mode, probes=probes))
    if recording.interrupted:
        raise KeyboardInterrupt
    return recording


def at_levels(recording: Trace, profile: str, at: Sequence[ControlLevel] = LEVELS) -> dict[ControlLevel, Result]:
    """The results that the run would have had at each level of control, or at those."""
    known, chosen = registry.load(), registry.profile(profile)
    return {level: conclude(levels.lowered(recording, level), known, chosen) for level in at}


def cells(expected: frozenset[str], told: Result) -> dict[str, Cell]:
    """The cells of one mutant at one level: by id, in order."""
    verdicts: dict[str, set[Verdict]] = {}
    for outcome in told.outcomes:
        verdicts.setdefault(outcome.requirement, set()).add(Verdict(outcome.verdict))
    found: dict[str, Cell] = {}
    for requirement in sorted(expected | verdicts.keys()):
        said = verdicts.get(requirement, set())
        spoken = not said.isdisjoint(SPEAKS)
        if requirement not in expected:
            if spoken:
                found[requirement] = "unexpected"
        elif told.troubles:
            found[requirement] = "dead"
        elif spoken:
            found[requirement] = "killed"
        else:
            found[requirement] = "inconclusive" if Verdict.INCONCLUSIVE in said else "silent"
    return found


def amiss(recording: Trace, primary: str, told: Result, profile: str) -> list[str]:
    """What is wrong with what was said: another result from the stored trace, or a finding that tells no difference."""
    found: list[str] = []
    known, chosen = registry.load(), registry.profile(profile)
    stored = conclude(files.parse(files.lines(recording)), known, chosen)
    if result.dump(stored) != result.dump(told):
        found.append("its stored trace is judged otherwise")
    findings = [finding for outcome in told.outcomes if outcome.requirement == primary for finding in outcome.findings]
    if any(finding.expected == finding.seen for finding in findings):
        found.append(f"{primary} expects what it saw")
    return found


def measure(name: str, keep: Path | None = None) -> Row:
    """Run one mutant and judge it at every level; the trace of one that is not exact is kept in a folder, if given."""
    began = time.monotonic()
    mutant = MUTANTS[name]
    recording = recorded(f"mutant:{name}")
    results = at_levels(recording, profile_of(mutant))
    row = Row(
        mutant=name,
        primary=mutant.primary,
        cells={level: cells(mutant.expected[level], results[level]) for level in LEVELS},
        troubles=[trouble.text for trouble in results["driven"].troubles],
        amiss=amiss(recording, mutant.primary, results["driven"], profile_of(mutant)),
        seconds=round(time.monotonic() - began, 2),
    )
    if keep is not None and not row.exact:
        keep.mkdir(parents=True, exist_ok=True)
        files.write(recording, keep / f"{name}.kvtrace")
    return row


class Measured(Protocol):
    """What came of one peer of a control group."""

    @property
    def name(self) -> str:
        """The peer's."""

    @property
    def exact(self) -> bool:
        """Whether it is as it must be."""

    @property
    def runs(self) -> int:
        """How many runs it took."""


AnyRow = TypeVar("AnyRow", bound=Measured)


def at_last(row: AnyRow, again: int, run: Callable[[str], AnyRow], progress: Callable[[AnyRow], None]) -> AnyRow:
    """The row of the first exact run of up to ``again`` more, else of the last; ``runs`` counts all of them."""
    while not row.exact and row.runs <= again:
        row = msgspec.structs.replace(run(row.name), runs=row.runs + 1)  # type: ignore[type-var]
        progress(row)
    return row


CLOSING_S = 10.0
"""For so long a worker whose parent is gone may close what it runs."""


def _at_work() -> None:
    """A worker: SIGTERM ends its run, SIGINT is the parent's to hear, and no worker outlives its parent."""
    signal.signal(signal.SIGINT, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _work(measured: Callable[[str], AnyRow], name: str) -> AnyRow:
    """One of a worker's; the worker ends with what is interrupted, and takes no other."""
    try:
        return measured(name)
    except KeyboardInterrupt:
        os._exit(1)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(CLOSING_S)
    os._exit(1)


def rows_of(
    names: Sequence[str],
    measured: Callable[[str], AnyRow],
    processes: int,
    progress: Callable[[AnyRow], None] = lambda _: None,
    again: int = 0,
) -> tuple[list[AnyRow], bool]:
    """Measure peers in parallel processes; ``progress`` is called for each run that is done, in their order.

    What was not exact is run up to ``again`` times more, alone: then nothing that ran beside it disturbed it. An
    interrupt ends what runs, and keeps what was done: False says that it is not all.
    """
    rows: list[AnyRow] = []
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_at_work)
    try:
        for row in pool.map(partial(_work, measured), names):
            rows.append(row)
            progress(row)
        for at, row in enumerate(rows):
            rows[at] = at_last(row, again, lambda name: pool.submit(_work, measured, name).result(), progress)
    except KeyboardInterrupt:
        for worker in active_children():
            worker.terminate()
        return rows, False
    finally:
        pool.shutdown(cancel_futures=True)
    return rows, True


def measured(
    names: Sequence[str],
    processes: int,
    progress: Callable[[Row], None] = lambda _: None,
    keep: Path | None = None,
    again: int = 0,
) -> tuple[list[Row], bool]:
    """Run mutants, as ``rows_of`` does."""
    return rows_of(names, partial(measure, keep=keep), processes, progress, again)


def matrix_of(rows: list[Row]) -> Matrix:
    """The whole of it, of what was measured."""
    broken = {mutant.primary for mutant in MUTANTS.values()}
    judged = [
        requirement.id
        for requirement in registry.load().binding("publisher")
        if requirement.id in TABLE and requirement.level != "MAY"
    ]
    return Matrix(edition="1", rows=rows, without=[requirement for requirement in judged if requirement not in broken])


def signatures(mutants: Sequence[Mutant]) -> dict[frozenset[tuple[str, ControlLevel]], list[str]]:
    """Which sentences are broken by exactly the same mutants at the same levels: by that set, the ids in order."""
    kills: dict[str, set[tuple[str, ControlLevel]]] = {}
    for mutant in mutants:
        for level in LEVELS:
            for requirement in mutant.expected[level]:
                kills.setdefault(requirement, set()).add((mutant.name, level))
    found: dict[frozenset[tuple[str, ControlLevel]], list[str]] = {}
    for requirement, signature in sorted(kills.items()):
        found.setdefault(frozenset(signature), []).append(requirement)
    return found


def by_requirement(matrix: Matrix, level: ControlLevel = "driven") -> Iterator[tuple[str, Counter[Cell], list[str]]]:
    """For each sentence: how often each cell occurs at a level, and the mutants whose primary sentence it is."""
    counts: dict[str, Counter[Cell]] = {}
    for row in matrix.rows:
        for requirement, cell in row.cells[level].items():
            counts.setdefault(requirement, Counter())[cell] += 1
    for requirement, count in sorted(counts.items()):
        yield requirement, count, [row.mutant for row in matrix.rows if row.primary == requirement]
