"""The page: a section per module, each with the machine on which it was measured.

A run writes the sections of the modules that it ran, and leaves the others of a page as they stand.
"""

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.machine import Machine
from benchmarks.rows import RATIO, Effort, Module, Row

HEAD = """\
# Performance

Written by `python -m benchmarks`, section by section; each says on which machine. A figure is the median of what
single repetitions gave, in brackets their least and greatest. What is compared was run in turn in every repetition, and
a ratio is one of the same repetition. *Wanted* is a bound on the median; where it is not met, the table says so.
"""
COLUMNS = ("what", "against", "median [least–greatest]", "wanted", "")


def name_of(module: Module) -> str:
    """The name of a module, which is the title of its section."""
    return module.__name__.rpartition(".")[2]


def section(module: Module, rows: Sequence[Row], effort: Effort, on: Machine) -> str:
    """What a module measured, as markdown."""
    about = inspect.cleandoc(module.__doc__ or "")
    counts = f"{effort.repetitions} repetitions{', quick: they claim nothing' if effort.quick else ''}"
    return "\n\n".join((f"## {name_of(module)}", about, f"{counts}; {on}.", _table(rows))) + "\n"


def replaced(page: str, sections: Iterable[tuple[str, str]], order: Sequence[str]) -> str:
    """A page with these sections, by name, in place of those that it had; its others stay."""
    kept = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    texts = {name: f"## {name}\n{rest.rstrip()}\n" for name, rest in kept.items()} | dict(sections)
    return "\n".join((HEAD, *(texts[name] for name in order if name in texts)))


def written(path: Path, sections: Iterable[tuple[str, str]], order: Sequence[str]) -> None:
    """Bring a page up to date."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(replaced(before, sections, order), encoding="utf-8")


def _table(rows: Sequence[Row]) -> str:
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [f"| {' | '.join(map(str.ljust, line, widths))} |" for line in cells]
    lines.insert(1, f"| {' | '.join('-' * width for width in widths)} |")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    measured = f"left out: {row.left_out}"
    if row.values:
        measured = f"{_figure(row.median, row)} [{_number(min(row.values))}–{_number(max(row.values))}]"
    wanted = [f"≥ {_figure(row.at_least, row)}"] if row.at_least is not None else []
    wanted += [f"≤ {_figure(row.at_most, row)}"] if row.at_most is not None else []
    said = {True: "met", False: "**not met**", None: ""}[row.met]
    return row.name, row.against, measured, ", ".join(wanted), said


def _figure(value: float, row: Row) -> str:
    return f"{_number(value)}{RATIO}" if row.unit == RATIO else f"{_number(value)} {row.unit}"


def _number(value: float) -> str:
    """With about three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
