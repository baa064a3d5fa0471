"""The reference publisher beside those of vLLM, SGLang and Dynamo (TensorRT-LLM).

Pre-built batches of one block of 128 tokens, published as fast as the caller can, to one subscriber in a process of its
own; each publisher has a process of its own, the same ring and high-water mark, and a replay socket, where its class
takes them. A call is what the engine waits for; *paced* calls come every half millisecond, so that the publisher's
thread sleeps between them. The rate is of batches heard, from the first call to the last batch heard. CPU time is that
of the publisher's process: it tells more than the rate where publisher, subscriber and others share few cores.
"""

import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.publishing import Seen, Task
from benchmarks.rows import Effort, Row, in_turn, ratios

PEERS = Path(sys.prefix, "peers")
"""Where `prepare.py` of each peer put its files, a folder each."""
REFERENCE = "reference"
VLLM = "vllm"
TITLES = {VLLM: "vLLM", "sglang": "SGLang", "dynamo-trtllm": "Dynamo's TensorRT-LLM"}
RUN_S = 120.0
NOT_THERE = "not installed here; `tox -e bench` does it"


def rows(effort: Effort) -> Iterator[Row]:
    """Measure all publishers in turn; one that is not there is left out by name."""
    batches, paced = (500, 50) if effort.quick else (20_000, 2_000)
    there = [name for name in TITLES if _there(name)]
    ways = {name: partial(run, Task(name, str(PEERS / name), batches, paced)) for name in (REFERENCE, *there)}
    seen = in_turn(ways, effort.repetitions)
    for name in TITLES:
        yield from _against(name, seen, batches)
    yield Row(name="batches per second, of the reference", values=tuple(run.rate for run in seen[REFERENCE]), unit="/s")
    yield Row(name="CPU time per batch, of the reference", values=_each(seen[REFERENCE], _cpu), unit="µs")
    yield Row(name="a call, median, of the reference", values=_each(seen[REFERENCE], _median_us), unit="µs")
    yield Row(name="a call, p99, of the reference", values=_each(seen[REFERENCE], _p99_us), unit="µs")


def _against(name: str, seen: dict[str, list[Seen]], batches: int) -> Iterator[Row]:
    title = TITLES[name]
    if name not in seen:
        yield Row(name="a call, its p99, the rate", against=title, left_out=NOT_THERE)
        return
    wanted = name == VLLM
    ours, theirs = seen[REFERENCE], seen[name]
    for what, of in CALLS.items():
        limit = 1.0 if wanted and what in WANTED else None
        yield Row(name=what, against=title, values=ratios(_each(ours, of), _each(theirs, of)), at_most=limit)
    rate = ratios(_each(ours, _rate), _each(theirs, _rate))
    yield Row(name="batches heard per second", against=title, values=rate, at_least=1.5 if wanted else None)
    yield Row(name="CPU time per batch", against=title, values=ratios(_each(ours, _cpu), _each(theirs, _cpu)))
    lost = tuple(100 * (1 - run.heard / batches) for run in theirs)
    if any(lost):
        yield Row(name=f"lost by {title}", values=lost, unit="%")


def _each(runs: Sequence[Seen], of: Callable[[Seen], float]) -> tuple[float, ...]:
    return tuple(map(of, runs))


def _rate(run: Seen) -> float:
    return run.rate


def _cpu(run: Seen) -> float:
    return run.cpu


def _median_us(run: Seen) -> float:
    return statistics.median(run.calls) / 1000


def _p99_us(run: Seen) -> float:
    return _p99(run.calls) / 1000


def _p99(calls: Sequence[int]) -> float:
    return sorted(calls)[len(calls) * 99 // 100]


CALLS: dict[str, Callable[[Seen], float]] = {
    "a call, median": _median_us,
    "a call, p99": _p99_us,
    "a paced call, median": lambda run: statistics.median(run.paced),
    "a paced call, p99": lambda run: _p99(run.paced),
}
WANTED = ("a call, median", "a call, p99")


def _there(name: str) -> bool:
    if name == "dynamo-trtllm":
        return importlib.util.find_spec("dynamo") is not None
    return (PEERS / name / "VERSION").is_file()


def run(task: Task) -> Seen:
    """Measure one publisher, in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.publishing", msgspec.json.encode(task).decode()]
    ended = subprocess.run(words, check=False, capture_output=True, timeout=RUN_S, cwd=Path(__file__).parents[1])
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"{task.publisher}: the benchmark ended with {ended.returncode}: {said}")
    return msgspec.json.decode(ended.stdout, type=Seen)
