"""What the generators share: files from groups, notes of what is used, and sentences that are cited."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

from kvwire.standard import registry, resources
from kvwire.vectors.model import EDITION, Cite, File, Group, Note


class VectorError(ValueError):
    """The generator contradicts itself, or the standard; the message names the test."""


def normal(text: str) -> str:
    """A text without markup of block quotes and with single spaces, to look for sentences in chapters."""
    return re.sub(r"\s+", " ", re.sub(r"^> ?", "", text, flags=re.MULTILINE))


@functools.cache
def _chapter(name: str) -> str:
    return normal((resources.spec() / name).read_text(encoding="utf-8"))


def cite(requirement: str) -> Cite:
    """A sentence of the standard by its id."""
    found = registry.load()[requirement]
    return Cite(chapter=found.section.split(":")[0], sentence=found.sentence, requirement=requirement)


def quote(chapter: str, sentence: str) -> Cite:
    """A sentence of the standard that has no id.

    Raises:
        VectorError: when the chapter does not say so.
    """
    if sentence not in _chapter(chapter):
        raise VectorError(f"{chapter} does not say: {sentence}")
    return Cite(chapter=chapter, sentence=sentence)


def make(schema: str, generator: str, groups: Iterable[Group[Any, Any]], notes: dict[str, Note]) -> File[Any, Any]:
    """A file of these groups, with the notes that its tests use.

    Raises:
        VectorError: for a flag, fault or mistake without a note, an id used twice, an unknown requirement, or an
            acceptable test that cites nothing.
    """
    kept = tuple(group for group in groups if group.tests)
    used: dict[str, str] = {}
    seen: set[str] = set()
    for test in (test for group in kept for test in group.tests):
        if test.id in seen:
            raise VectorError(f"{test.id}: the id is used twice")
        seen.add(test.id)
        if (test.result == "acceptable") != (test.cites is not None):
            raise VectorError(f"{test.id}: acceptable cites a sentence, and nothing else does")
        for requirement in test.requirements:
            if requirement not in registry.load():
                raise VectorError(f"{test.id}: there is no {requirement}")
        names = [*test.flags, *test.mistakes]
        if (test.result == "invalid") != (test.expected.fault is not None):
            raise VectorError(f"{test.id}: invalid has a fault, and nothing else does")
        if test.expected.fault is not None:
            names += [test.expected.fault, *getattr(test.expected, "also", ())]
        used.update(dict.fromkeys(names, test.id))
    if missing := sorted(set(used) - set(notes)):
        raise VectorError(f"{used[missing[0]]}: no note says what {missing[0]!r} means")
    return File(
        schema=schema,
        spec_edition=EDITION,
        generator=generator,
        count=len(seen),
        notes={name: notes[name] for name in sorted(used)},
        groups=kept,
    )


def links(*requirements: str) -> tuple[str, ...]:
    """The chapters in which requirements stand, each once."""
    return tuple(dict.fromkeys(registry.load()[r].section.split(":")[0] for r in requirements))


def fault(description: str, *requirements: str) -> Note:
    """The note of a fault and the requirements that it breaks."""
    return Note(kind="fault", description=description, requirements=requirements, links=links(*requirements))
