"""Measure and print; `--json` and `--markdown` keep what was measured."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from kvwire_reference.bench.measure import measure
from kvwire_reference.bench.report import as_json, page
from kvwire_reference.bench.workload import QUICK, Workload

COMMAND = "python -m kvwire_reference.bench"
REPETITIONS = 40


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="What events cost an engine.")
    parser.add_argument("--repetitions", type=int, help=f"runs of every row, {REPETITIONS} by default")
    parser.add_argument(
        "--requests", type=int, help=f"requests of each rank in a run, {Workload().requests} by default"
    )
    parser.add_argument("--quick", action="store_true", help="a small workload, three times: claims nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measured value, and what follows")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page that is printed")
    options = parser.parse_args(arguments)
    workload, repetitions, command = Workload(), REPETITIONS, [COMMAND]
    if options.quick:
        workload, repetitions = QUICK, 3
        command.append("--quick")
    if options.requests is not None:
        workload = workload.of(options.requests)
        command.append(f"--requests {options.requests}")
    if options.repetitions is not None:
        repetitions = options.repetitions
        command.append(f"--repetitions {repetitions}")
    report = measure(workload, repetitions)
    text = page(report, " ".join(command))
    print(text, end="")
    if options.json is not None:
        options.json.write_bytes(as_json(report))
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
