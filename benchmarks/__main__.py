"""Measure and print; `--markdown` brings the page up to date."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import load, machine
from benchmarks.page import section, written
from benchmarks.registry import MODULES
from benchmarks.rows import Effort


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print, module by module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast this is, in ratios.")
    parser.add_argument("--only", nargs="+", choices=MODULES, metavar="MODULE", help=f"of {', '.join(MODULES)}")
    parser.add_argument("--repetitions", type=int, help=f"of everything, {Effort().repetitions} by default")
    parser.add_argument("--quick", action="store_true", help="a small workload, three times: claims nothing")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="bring this page up to date, section by section")
    options = parser.parse_args(arguments)
    effort = Effort(
        repetitions=options.repetitions or (3 if options.quick else Effort().repetitions), quick=options.quick
    )
    for name in options.only or MODULES:
        before = load()
        rows = list(MODULES[name].rows(effort))
        text = section(MODULES[name], rows, effort, machine(before))
        print(text, flush=True)
        if options.markdown is not None:
            written(options.markdown, [(name, text)], list(MODULES))


if __name__ == "__main__":
    main()
