"""``ids.lock``: every id that a test ever had. Ids are appended, never reused; one that is gone leaves a tombstone.

A line is ``id file``, or ``id file withdrawn``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

NAME = "ids.lock"
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
WITHDRAWN = "withdrawn"


class Entry(msgspec.Struct, frozen=True):
    """One id: the file that holds or held its test, and whether it was withdrawn."""

    file: str
    withdrawn: bool = False


def read(text: str) -> tuple[dict[str, Entry], list[str]]:
    """The entries of a lock file, and what is wrong with its lines."""
    entries: dict[str, Entry] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if len(words) not in (2, 3) or words[2:] not in ([], [WITHDRAWN]) or not ID.match(words[0]):
            problems.append(f"{NAME}:{number}: not `id file` or `id file withdrawn`: {line!r}")
        elif words[0] in entries:
            problems.append(f"{NAME}:{number}: {words[0]} stands here a second time")
        else:
            entries[words[0]] = Entry(words[1], len(words) == 3)
    return entries, problems


def write(entries: Mapping[str, Entry]) -> str:
    """The lock file of these entries."""
    return "".join(f"{name} {entry.file}{f' {WITHDRAWN}' * entry.withdrawn}\n" for name, entry in entries.items())


def update(locked: Mapping[str, Entry], tests: Mapping[str, str]) -> tuple[dict[str, Entry], list[str]]:
    """The lock file with the ids of new tests (id → file) appended, and what has to be decided by hand."""
    problems = [
        f"{tests[name]}: {name}: the id was withdrawn and is used again: take another"
        for name, entry in locked.items()
        if entry.withdrawn and name in tests
    ]
    problems += [
        f"{entry.file}: {name}: the test is gone: bring it back, or write `withdrawn` behind its line in {NAME}"
        for name, entry in locked.items()
        if not entry.withdrawn and name not in tests
    ]
    problems += [
        f"{file}: {name}: not an id: lower-case words and digits, joined by hyphens"
        for name, file in tests.items()
        if not ID.match(name)
    ]
    kept = {name: entry if entry.withdrawn else Entry(tests.get(name, entry.file)) for name, entry in locked.items()}
    return {**kept, **{name: Entry(file) for name, file in tests.items() if name not in locked}}, problems
