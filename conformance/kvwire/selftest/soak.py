"""Many runs against the reference on a machine that is made to behave badly: how often is an honest publisher accused?

``python -m kvwire.selftest.soak [RUNS]``. All processors are kept busy; the publisher's sending thread sleeps at
random, and most runs see it through relays that are slow, stand still, and cut one witness off. Whatever takes part is
stopped at random, for up to three seconds: the publisher's process, other instances of it, the witnesses, the harness
itself. Nothing of that is the publisher's fault: whatever is said against it is a fault of a judge or a probe. What was
said is printed with its seed, and its trace is kept.
"""

from __future__ import annotations

import dataclasses
import math
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, get_args

import click
import msgspec
from rich.console import Console

from kvwire.attack.probes.kit.session import Instance
from kvwire.attack.relay import Relay
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import Opened, parse
from kvwire.attack.targets.adapted import AdapterTarget
from kvwire.attack.targets.process import AdapterProcess
from kvwire.attack.witness import Recorder
from kvwire.judges.verdict import Exit, Verdict
from kvwire.selftest import matrix
from kvwire.trace import files
from kvwire.trace.records import LIVE, Source, Trace

RUNS = 200
TARGETS: Mapping[str, str] = {
    "reference:": "replay",
    "reference:?role=publish": "replay",
    "reference:?algorithm=v1_block_key": "replay",
    "reference:?multimodal=true": "multimodal",
    "reference:?rank=3&topic=": "replay",
    "reference:?block_size=1&capacity=64": "replay",
}
"""What is run, in turn, and the profile that it is held to."""
SoakMode = Literal["quick", "plain"]
PAUSE_S: Mapping[SoakMode, float] = {"quick": 0.4, "plain": 0.04}
"""How long a process stands still at most, most of the times."""
LONG_S = 3.0
"""And how long now and then."""
LONG = 0.1
"""The share of those."""
CALM_S = 0.5
"""The mean time between two disturbances."""
DELAY_S = 0.15
CUTS = 0.3
"""The share of the runs with relays in which one of them cuts its witness off, once or more."""
END_S = 2.0
CONFIDENCE = 0.95
STOP = """
import os, signal, sys, time
parent = os.getppid()
for line in sys.stdin:
    os.kill(parent, signal.SIGSTOP)
    time.sleep(float(line))
    os.kill(parent, signal.SIGCONT)
"""
"""Stops its parent for as long as each line says."""
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"

Sort = Literal["FAIL", "WARN", "ERROR", "INCONCLUSIVE"]
SORTS: tuple[Sort, ...] = get_args(Sort)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said against the reference in a run, and at which level of control."""

    sort: Sort
    what: str
    level: str


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One run that came to its end: its seed and target, and what was said."""

    seed: int
    target: str
    said: tuple[Said, ...]


class Weather(threading.Thread):
    """Disturbs one run at random until it is ended: stops processes of publishers, witnesses, this one, and relays."""

    def __init__(
        self,
        recorder: Recorder,
        relays: Mapping[Source, Relay],
        chance: random.Random,
        pause_s: float,
        stopper: Stopper,
    ):
        super().__init__(name="kvwire-weather", daemon=True)
        self.publishers: list[Stoppable] = []
        """Those that run at the time."""
        self._recorder = recorder
        self._stopper = stopper
        self._relays = relays
        self._chance = chance
        self._pause_s = pause_s
        self._over = threading.Event()
        self._cut_off = chance.choice(list(relays)) if relays and chance.random() < CUTS else None

    def run(self) -> None:
        """One disturbance after another."""
        acts: list[Callable[[], None]] = [self._pause, self._pause_witness, self._pause_here]
        if self._relays:
            acts += [self._slow, self._stand_still]
        if self._cut_off is not None:
            acts.append(self._relays[self._cut_off].cut)
        while not self._over.wait(self._chance.expovariate(1 / CALM_S)):
            self._chance.choice(acts)()

    def end(self) -> None:
        """Leave everything running."""
        self._over.set()
        self.join()

    def _seconds(self) -> float:
        return self._chance.uniform(0, LONG_S if self._chance.random() < LONG else self._pause_s)

    def _pause(self) -> None:
        self._hold(self._chance.choice(self.publishers))

    def _pause_witness(self) -> None:
        if processes := self._recorder.processes:
            self._hold(self._chance.choice(processes))

    def _pause_here(self) -> None:
        self._stopper.stop(self._seconds())

    def _hold(self, process: Stoppable) -> None:
        process.signal(signal.SIGSTOP)
        try:
            self._over.wait(self._seconds())
        finally:
            process.signal(signal.SIGCONT)

    def _slow(self) -> None:
        self._chance.choice(list(self._relays.values())).delay_s = self._chance.uniform(0, DELAY_S)

    def _stand_still(self) -> None:
        relay = self._chance.choice(list(self._relays.values()))
        relay.stop()
        self._over.wait(self._seconds())
        relay.go()


class Stoppable(Protocol):
    """A child process."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""


class Stopper:
    """A child that stops this process, and lets it go on."""

    def __init__(self) -> None:
        self._child = subprocess.Popen([sys.executable, "-c", STOP], stdin=subprocess.PIPE, process_group=0)

    def stop(self, seconds: float) -> None:
        """Stand still for so long, from now on."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{seconds:.3f}\n".encode())
        self._child.stdin.flush()
        time.sleep(seconds)

    def end(self) -> None:
        """Leave this process running."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(LONG_S + END_S)


@dataclasses.dataclass(frozen=True)
class Disturbed:
    """The reference, stalling, in bad weather."""

    target: AdapterTarget
    relays: Mapping[Source, Relay]
    chance: random.Random
    pause_s: float

    @property
    def text(self) -> str:
        """As if nothing were the matter."""
        return self.target.text

    def open(self, recorder: Recorder) -> Opened:
        """Open the target; the weather begins when it is reached, and ends before it is closed."""
        opened = self.target.open(recorder)
        assert isinstance(opened.driver, AdapterProcess)
        assert opened.fresh is not None
        stopper = Stopper()
        weather = Weather(recorder, self.relays, self.chance, self.pause_s, stopper)
        weather.publishers.append(opened.driver)
        weather.start()
        others = opened.fresh

        @contextmanager
        def fresh(names: Sequence[str]) -> Iterator[Sequence[Instance]]:
            with others(names) as instances:
                weather.publishers += [instance.driver for instance in instances]
                try:
                    yield instances
                finally:
                    weather.publishers = weather.publishers[: -len(instances)]

        def close() -> None:
            weather.end()
            stopper.end()
            opened.close()

        return dataclasses.replace(opened, close=close, fresh=fresh)


def one(seed: int, mode: SoakMode) -> tuple[Trace, str]:
    """The trace of one disturbed run, and the profile that it is held to: the seed decides all but the times."""
    chance = random.Random(seed)
    text = list(TARGETS)[seed % len(TARGETS)]
    place = parse(text)
    assert isinstance(place, AdapterTarget)
    command = [word.replace("kvwire.peers.reference", "kvwire.peers.stalling") for word in place.command]
    place = dataclasses.replace(place, command=(*command, "--seed", str(seed)))
    with ExitStack() as stack:
        relays: dict[Source, Relay] = {}
        behind = chance.choice([(), LIVE[:1], LIVE[1:], LIVE])

        def through(source: Source) -> Callable[[str], str]:
            def way(endpoint: str) -> str:
                relays[source] = stack.enter_context(Relay(endpoint))
                return relays[source].endpoint

            return way

        recorder = Recorder(ways={source: through(source) for source in behind})
        target = Disturbed(place, relays, chance, PAUSE_S[mode])
        recording = run(target, Settings(profile=TARGETS[text], mode=mode, seed=seed), recorder=recorder)
    return recording, TARGETS[text]


def said(recording: Trace, profile: str) -> tuple[Said, ...]:
    """What is said against the publisher of a trace, at each level of control that it can be judged at."""
    found: list[Said] = []
    for level, outcome in matrix.at_levels(recording, profile).items():
        for line in outcome.outcomes:
            sort = Verdict(line.verdict)
            if sort is Verdict.FAIL or sort is Verdict.WARN:
                found.append(Said(sort="FAIL" if sort is Verdict.FAIL else "WARN", what=line.requirement, level=level))
        found += [Said(sort="INCONCLUSIVE", what=i, level=level) for i in outcome.summary.conclusive_missing]
        found += [Said(sort="ERROR", what=trouble.text, level=level) for trouble in outcome.troubles]
    return tuple(found)


def upper_bound(failures: int, runs: int) -> float:
    """The one-sided 95 % Clopper-Pearson bound on a rate of which ``failures`` in ``runs`` were seen; 1 for no runs."""
    if failures >= runs:
        return 1.0

    def at_most(rate: float) -> float:
        """How likely so few are at a rate."""
        ways = (math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1) for k in range(failures + 1))
        return sum(math.exp(log + k * math.log(rate) + (runs - k) * math.log1p(-rate)) for k, log in enumerate(ways))

    low, high = 0.0, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        low, high = (rate, high) if at_most(rate) > 1 - CONFIDENCE else (low, rate)
    return high


class _Busy:
    """Children that do nothing but compute, until they are ended or this process is."""

    def __init__(self, count: int) -> None:
        self._children = [subprocess.Popen([sys.executable, "-c", BUSY], process_group=0) for _ in range(count)]

    def __enter__(self) -> _Busy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait(END_S)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("…") as status:
        yield status.update


def soak(
    runs: int, mode: SoakMode, seed: int, busy: int, keep: Path, progress: Callable[[str], None]
) -> Iterator[Tried]:
    """Run after run, each with the next seed; traces of those in which something was said are kept.

    Ends early when it is interrupted, with ``KeyboardInterrupt``.
    """
    with _Busy(busy):
        for number in range(runs):
            progress(f"run {number + 1} of {runs} …")
            recording, profile = one(seed + number, mode)
            if recording.interrupted:
                raise KeyboardInterrupt
            tried = Tried(seed=seed + number, target=recording.header.target, said=said(recording, profile))
            if tried.said:
                keep.mkdir(parents=True, exist_ok=True)
                files.write(recording, keep / f"{tried.seed}-{mode}.kvtrace")
            yield tried


def _report(tried: list[Tried], mode: SoakMode, keep: Path) -> int:
    """Print what came of it; the number of runs with a false FAIL."""
    counts = Counter(about for one in tried for about in {(said.sort, said.what) for said in one.said})
    for (sort, what), count in sorted(counts.items()):
        click.echo(f"{sort} {what} in {count} runs")
    by_sort = {sort: sum(any(said.sort == sort for said in one.said) for one in tried) for sort in SORTS}
    click.echo(
        f"{len(tried)} {mode} runs of the reference: "
        + ", ".join(f"{count} with a false {sort}" for sort, count in by_sort.items())
    )
    failures = by_sort["FAIL"]
    click.echo(f"at 95 % confidence at most {upper_bound(failures, len(tried)):.2%} of such runs have a false FAIL")
    if any(one.said for one in tried):
        click.echo(f"the traces are in {keep}")
    return failures


@click.command()
@click.argument("runs", default=RUNS, type=click.IntRange(min=1))
@click.option("--mode", type=click.Choice(list(PAUSE_S)), default="quick", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the first run (random, and printed).")
@click.option("--busy", type=click.IntRange(min=0), help="Processes that do nothing but compute (one per processor).")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), default="soak", show_default=True)
def main(runs: int, mode: SoakMode, seed: int | None, busy: int | None, keep: Path) -> None:
    """Run the reference RUNS times under bad conditions; one false FAIL ends with 1, an interrupt with 130."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    tried: list[Tried] = []
    interrupted = False
    try:
        click.echo(f"seed {seed}; one run again: python -m kvwire.selftest.soak 1 --mode {mode} --seed NUMBER")
        with _progress() as progress:
            cores = os.cpu_count() or 1
            for one in soak(runs, mode, seed, cores if busy is None else busy, keep, progress):
                tried.append(one)
                for said in one.said:
                    click.echo(f"seed {one.seed}, {one.target}, {said.level}: {said.sort} {said.what}")
    except KeyboardInterrupt:
        interrupted = True
    failures = _report(tried, mode, keep)
    sys.exit(Exit.INTERRUPTED if interrupted else Exit.NOT_CONFORMANT if failures else Exit.CONFORMANT)


if __name__ == "__main__":
    main()
