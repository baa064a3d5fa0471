"""Watching publishers for hours: memory and processor time of `kvwire watch`, sampled.

    python -m benchmarks.soak run --for 3600 --rate 2000 --csv soak.csv
    python -m benchmarks.soak page soak.csv --markdown docs/watch.md

`run` starts four publishers and a watch of them all with `--metrics`. Every batch stores a block of 16 tokens that was
never stored before, and removes the oldest of 2,048 per publisher; the first publisher is killed and started again now
and then. `page` writes what came of it between the marks of a page.
"""

import argparse
import contextlib
import csv
import itertools
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import zmq
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.machine import load, machine
from kvwire_reference import hashing, wire

FUNCTION = "v2_sha256_64/u32"
RESIDENT = 2048
BLOCK = 16
SAMPLE_S = 10.0
WARM_S = 600.0
"""Until then what is remembered fills up; a third of the run, where it is shorter."""
FIELDS = ("seconds", "rss_mb", "witnesses_mb", "cpu_s", "batches", "missing", "incarnations", "violations", "lag_ms")
LEFT, TOP, WIDTH, HEIGHT = 64, 16, 720, 240
"""Of the picture, in units of its view box."""
BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"


def publish(endpoint: str, rate: float) -> None:
    """Publish so many batches a second, until ended."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sender = context.socket(zmq.PUB)
    sender.bind(endpoint)
    function = hashing.candidates(FUNCTION)[0]
    chance = random.Random()
    held: deque[int] = deque()
    began, number = time.monotonic(), 0
    while True:
        while number < (time.monotonic() - began) * rate:
            tokens = chance.choices(range(100_000), k=BLOCK)
            value = function.next(function.root(), tokens).hash
            assert value is not None
            value = hashing.signed(value)
            held.append(value)
            events: list[wire.Event] = [
                wire.BlockStored(
                    block_hashes=(value,),
                    parent_block_hash=None,
                    token_ids=tuple(tokens),
                    block_size=BLOCK,
                    lora_id=None,
                    lora_name=None,
                    medium="GPU",
                    hash_algo=FUNCTION,
                )
            ]
            if len(held) > RESIDENT:
                events.append(wire.BlockRemoved(block_hashes=(held.popleft(),), medium="GPU"))
            payload = wire.encode(wire.Batch(time.time(), tuple(events), 0))
            sender.send_multipart(wire.live_frames(b"kv-events", number, payload))
            number += 1
        time.sleep(0.005)


def free_port() -> int:
    """One on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def resident(pid: int) -> float:
    """Resident memory of a process in MB; 0 of one that is gone."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6
    return 0.0


def family(pid: int) -> list[int]:
    """The children of a process."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text(encoding="ascii").split()]


def processor_s(pid: int) -> float:
    """Processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Scraped(msgspec.Struct):
    """What is read from the metrics."""

    batches: float = 0
    missing: float = 0
    incarnations: float = 0
    violations: float = 0
    lag_ms: float = 0


def await_metrics(port: int) -> None:
    """Wait until a watch shows how things stand.

    Raises:
        OSError: when it does not within a minute.
    """
    end = time.monotonic() + 60
    while True:
        try:
            scrape(port)
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def scrape(port: int) -> Scraped:
    """The sums of some metrics over all streams, and the greatest lag."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = {one.name: one.samples for one in text_string_to_metric_families(answer.read().decode())}

    def total(name: str) -> float:
        return sum(sample.value for sample in families.get(f"kvwire_{name}", ()))

    return Scraped(
        batches=total("batches"),
        missing=total("missing_numbers"),
        incarnations=total("incarnations"),
        violations=total("violations"),
        lag_ms=1000 * max((sample.value for sample in families.get("kvwire_lag_seconds", ())), default=0),
    )


@contextlib.contextmanager
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended at the end."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)


def run(seconds: float, rate: float, restart_s: float, path: Path, publishers: int = 4) -> None:
    """Run publishers and a watch, and sample it into a file."""
    endpoints = [f"tcp://127.0.0.1:{free_port()}" for _ in range(publishers)]
    port, before = free_port(), load()
    result = path.with_suffix(".ndjson")

    def start(endpoint: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "benchmarks.soak", "publish", endpoint, "--rate", str(rate / publishers)]
        return subprocess.Popen(words)

    with children() as started, path.open("w", newline="", encoding="utf-8") as out:
        started += [start(endpoint) for endpoint in endpoints]
        targets = [f"zmq:{endpoint}" for endpoint in endpoints]
        words = [sys.executable, "-m", "kvwire", "watch", *targets, "--metrics", str(port), "--result", str(result)]
        with path.with_suffix(".log").open("wb") as log:
            watch = subprocess.Popen(words, stdout=log, stderr=log)
        started.append(watch)
        rows = csv.writer(out)
        rows.writerow(FIELDS)
        await_metrics(port)
        began = restarted = time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            time.sleep(max(0.0, SAMPLE_S - (time.monotonic() - now)))
            seen, at = scrape(port), time.monotonic() - began
            figures = (resident(watch.pid), sum(map(resident, family(watch.pid))), processor_s(watch.pid))
            rows.writerow([f"{value:.1f}" for value in (at, *figures, *msgspec.structs.astuple(seen))])
            out.flush()
            if time.monotonic() - restarted >= restart_s:
                restarted = time.monotonic()
                started[0].kill()
                started[0].wait(60)
                started[0] = start(endpoints[0])
        watch.send_signal(signal.SIGTERM)
        code = watch.wait(120)
    about = path.with_suffix(".txt")
    about.write_text(f"exit code {code}; {machine(before)}\n", encoding="utf-8")


def page(path: Path, markdown: Path) -> None:
    """Write what came of a run between the marks of a page."""
    with path.open(encoding="utf-8") as text:
        samples = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(text)]
    about = path.with_suffix(".txt")
    on = about.read_text(encoding="utf-8").strip() if about.exists() else "not at its end yet"
    picture = markdown.parent / "img" / "watch-memory.svg"
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(drawn(samples), encoding="utf-8")
    shown = f"![Memory of the watch, and of its witnesses, over the run](img/{picture.name})"
    lines = [BEGIN, "", *_table(samples), "", shown, "", f"{on}.", "", END]
    before = markdown.read_text(encoding="utf-8")
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not marked.search(before):
        raise SystemExit(f"{markdown}: there is no {BEGIN} … {END} in it")
    markdown.write_text(marked.sub(lambda _: "\n".join(lines), before), encoding="utf-8")


def drawn(samples: Sequence[dict[str, float]]) -> str:
    """Memory over time, as SVG: that of the watch, that of its witnesses, and when a publisher began anew."""
    last, most = samples[-1]["seconds"], max(one["rss_mb"] for one in samples)
    top = 100 * math.ceil(most / 100)

    def at(seconds: float, memory_mb: float) -> str:
        return f"{LEFT + WIDTH * seconds / last:.1f},{TOP + HEIGHT * (1 - memory_mb / top):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {TOP + HEIGHT + 40}" role="img">',
        "<title>Memory of a watch over a run</title>",
        '<rect width="100%" height="100%" fill="#fff"/><g font-family="sans-serif" font-size="12" fill="#333">',
    ]
    for memory in range(0, top + 1, 100 if top <= 1000 else 500):
        x, y = at(0, memory).split(",")
        parts.append(f'<path d="M{x} {y}h{WIDTH}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y}" ')
        parts.append(f'text-anchor="end" dominant-baseline="middle">{memory} MB</text>')
    for minute in range(0, int(last / 60) + 1, 10):
        x, y = at(60 * minute, 0).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 18:.1f}" text-anchor="middle">{minute} min</text>')
    for before, one in itertools.pairwise(samples):
        if one["incarnations"] > before["incarnations"]:
            x, y = at(one["seconds"], 0).split(",")
            parts.append(f'<path d="M{x} {y}v-6" stroke="#333"/>')
    for name, colour, what in (("rss_mb", "#06c", "the watch"), ("witnesses_mb", "#c60", "its witnesses together")):
        line = " ".join(at(one["seconds"], one[name]) for one in samples)
        x, y = at(last, samples[-1][name]).split(",")
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{x}" y="{float(y) - 8:.1f}" text-anchor="end" fill="{colour}">{what}</text>')
    caption = "marks below: a publisher was killed and began anew"
    parts.append(f'<text x="{LEFT}" y="{TOP + HEIGHT + 36}">{caption}</text></g></svg>')
    return "\n".join(parts) + "\n"


def _table(samples: Sequence[dict[str, float]]) -> Iterator[str]:
    last = samples[-1]
    duration = last["seconds"]
    warm = [one for one in samples if one["seconds"] >= min(WARM_S, duration / 3)]
    quarter = max(1, len(warm) // 4)

    def mean(name: str, of: Sequence[dict[str, float]]) -> float:
        return sum(one[name] for one in of) / len(of)

    yield "| what | figure |"
    yield "| --- | --- |"
    yield f"| duration | {duration / 60:.0f} min |"
    yield f"| batches judged | {last['batches']:,.0f}, {last['batches'] / duration:,.0f} a second |"
    yield f"| lives of publishers heard, numbers missing | {last['incarnations']:.0f}, {last['missing']:.0f} |"
    yield f"| violations | {last['violations']:.0f} |"
    yield f"| processor time of the watch | {100 * last['cpu_s'] / duration:.0f} % of one core |"
    yield f"| greatest lag in a sample | {max(one['lag_ms'] for one in warm):.0f} ms |"
    for name, title in (("rss_mb", "memory of the watch"), ("witnesses_mb", "memory of its witnesses together")):
        first, end = mean(name, warm[:quarter]), mean(name, warm[-quarter:])
        most = max(one[name] for one in samples)
        yield f"| {title}: first and last quarter after warming up, greatest | {first:.1f}, {end:.1f}, {most:.1f} MB |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish, run or write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="Memory of a watch, over hours.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    publishing = verbs.add_parser("publish", help="publish on an endpoint, until ended")
    publishing.add_argument("endpoint")
    publishing.add_argument("--rate", type=float, default=500)
    running = verbs.add_parser("run", help="run publishers and a watch, and sample it")
    running.add_argument("--for", dest="seconds", type=float, default=3600)
    running.add_argument("--rate", type=float, default=2000, help="batches a second, of all publishers together")
    running.add_argument("--restart", type=float, default=300, help="seconds between two deaths of the first publisher")
    running.add_argument("--csv", type=Path, required=True)
    writing = verbs.add_parser("page", help="write what came of a run into a page")
    writing.add_argument("csv", type=Path)
    writing.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args(arguments)
    match options.verb:
        case "publish":
            publish(options.endpoint, options.rate)
        case "run":
            run(options.seconds, options.rate, options.restart, options.csv)
        case _:
            page(options.csv, options.markdown)


if __name__ == "__main__":
    main()
