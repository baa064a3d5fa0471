"""Where the judges and the ids stand in the source, for whoever compares judges with the standard."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from kvwire.judges import AREAS
from kvwire.judges.area import judges_of
from kvwire.standard.drift import Place, Use
from kvwire.standard.prose import ID

JUDGING = ("judges", "conclusion")
"""The rooms in which an id stands where its judge is marked with it, and nowhere else."""


def _package() -> Path:
    return Path(str(resources.files("kvwire")))


def _named(file: Path) -> str:
    root = _package().parents[1]
    return str(file.relative_to(root) if file.is_relative_to(root) else file)


def places() -> tuple[Place, ...]:
    """Every judge of every area."""
    return tuple(
        Place(
            id=judge.requirement,
            area=judge.chapter,
            method=judge.name,
            doc=judge.__doc__ or "",
            memory=judge.memory or area.memory,
            file=_named(Path(inspect.getfile(judge.method))),
            line=inspect.getsourcelines(judge.method)[1],
        )
        for area in AREAS
        for judge in judges_of(area)
    )


def uses() -> tuple[Use, ...]:
    """Every id that is a text of its own in the code of the harness, except where a judge is marked with it."""
    files = (file for file in sorted(_package().rglob("*.py")) if "_data" not in file.relative_to(_package()).parts)
    return tuple(use for file in files for use in _uses(file))


def _uses(file: Path) -> Iterator[Use]:
    text = file.read_text(encoding="utf-8")
    if "KVW-" not in text:
        return
    nodes = list(ast.walk(ast.parse(text)))
    marks = {
        node.args[0]
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "judge" and node.args
    }
    judging = file.relative_to(_package()).parts[0] in JUDGING
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and ID.match(node.value)
            and node not in marks
        ):
            yield Use(id=node.value, file=_named(file), line=node.lineno, judging=judging)
