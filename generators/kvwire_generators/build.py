"""The vectors: what the generators give, and where a folder differs from it."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvwire.trace import files as traces
from kvwire.vectors import identities, manifest, sessions
from kvwire.vectors.layout import name_of, write_file, write_manifest
from kvwire.vectors.model import EDITION
from kvwire_generators import consumers, coverage, known
from kvwire_generators.endpoints import endpoint_vectors
from kvwire_generators.following import consumer_vectors
from kvwire_generators.frames import envelope_vectors, replay_vectors
from kvwire_generators.hash import hash_vectors
from kvwire_generators.sessions import index, plans
from kvwire_generators.sessions.stories import stories
from kvwire_generators.wire import wire_vectors

BY_HAND = (known.PATH,)
"""Data files that hold facts from elsewhere and are not generated."""
GENERATORS = (wire_vectors, envelope_vectors, replay_vectors, endpoint_vectors, consumer_vectors)
SHOWN = 100


def generate(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Every generated file by its path in ``vectors/``, and what has to be decided by hand.

    What is kept is read from ``folder``: the files of ``BY_HAND``, the traces that were recorded, the lock file.
    """
    data: dict[str, bytes] = {}
    tests: dict[str, str] = {}
    problems: list[str] = []
    hashes = hash_vectors.files()
    files: dict[str, Any] = dict(hashes)
    for generator in GENERATORS:
        files.update(generator.files())
    for path, file in files.items():
        data[path] = write_file(file)
        for test in file.tests:
            if test.id in tests:
                problems.append(f"{path}: {test.id}: {tests[test.id]} has the id too")
            tests[test.id] = path
    problems += [f"{coverage.NAME}: {hole}: no test and no reason" for hole in coverage.holes(hashes.values())]
    recorded, bad_sessions = index.recorded(folder)
    told = [*recorded, *stories()]
    data |= {sessions.path_of(one.name): b"".join(traces.lines(one.recording)) for one in told}
    if told:
        listing = index.file(told)
        data[sessions.PATH] = write_file(listing)
        tests |= dict.fromkeys((test.id for test in listing.tests), sessions.PATH)
    tests |= dict.fromkeys((f"{sessions.KIND}-{name}" for name in plans.plans()), sessions.PATH)
    problems += bad_sessions
    data[consumers.PATH] = consumers.write()
    lock = folder / identities.NAME
    locked, bad = identities.read(lock.read_text(encoding="utf-8") if lock.is_file() else "")
    entries, undecided = identities.update(locked, tests)
    hand = {path: (folder / path).read_bytes() for path in BY_HAND}
    problems += known.problems(hand[known.PATH], hashes)
    problems += [
        f"{known.PATH}: {a.id}: {tests[a.id]} has the id too" for a in known.read(hand[known.PATH]) if a.id in tests
    ]
    extra = {
        manifest.EDITION_FILE: f"{EDITION}\n".encode(),
        identities.NAME: identities.write(entries).encode(),
        manifest.NAME: write_manifest(manifest.build({**data, **hand})),
        coverage.NAME: (coverage.write(hashes.values()) + plans.coverage(len(told))).encode(),
    }
    return {**data, **extra}, [*problems, *bad, *undecided]


def difference(path: str, wanted: bytes, found: bytes) -> list[str]:
    """Where a file differs from what it should be: a line per test, note or other line, with both texts."""
    right, here = wanted.decode().split("\n"), found.decode(errors="replace").split("\n")
    problems = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(None, right, here, autojunk=False).get_opcodes():
        if tag != "equal":
            pairs = itertools.zip_longest(right[i:i_end], here[j:j_end])
            problems += [_place(path, j + number + 1, *pair) for number, pair in enumerate(pairs)]
    return problems


def _place(path: str, number: int, right: str | None, here: str | None) -> str:
    name = name_of(right or "") or name_of(here or "")
    place = f"{path}:{number}: {name}: " if name else f"{path}:{number}: "
    if right is None or here is None:
        return f"{place}{'the line should not be here' if right is None else 'a line is missing before this one'}"
    common = next((n for n, (a, b) in enumerate(zip(right, here, strict=False)) if a != b), min(len(right), len(here)))
    start = max(0, common - SHOWN // 2)
    shown = [repr(text[start : start + SHOWN]) for text in (right, here)]
    return f"{place}the generator gives {shown[0]}, the file has {shown[1]}"


def strays(folder: Path, data: Mapping[str, bytes]) -> list[str]:
    """The data files of a folder that nothing writes."""
    kinds = {path.split("/")[0] for path in data if "/" in path}
    there = [
        str(path.relative_to(folder))
        for kind in sorted(kinds)
        for path in sorted((folder / kind).iterdir())
        if path.suffix in (".json", sessions.SUFFIX)
    ]
    return [path for path in there if path not in data and path not in BY_HAND]


def differences(folder: Path, data: Mapping[str, bytes]) -> list[str]:
    """Where the files of a folder differ from this data: file, line and test of each place."""
    problems = []
    for path, content in data.items():
        target = folder / path
        if not target.is_file():
            problems.append(f"{path}: the file is missing: run `tox -e generate`")
        elif (found := target.read_bytes()) != content:
            problems += (index.disagreements(content, found) if path == sessions.PATH else []) or difference(
                path, content, found
            )
    return problems + [f"{path}: no generator writes this file: remove it" for path in strays(folder, data)]
