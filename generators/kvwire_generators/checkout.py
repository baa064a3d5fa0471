"""Everything that is generated in a checkout: registry, lock, ceiling, vectors, what speaks in stored traces, a table.

The order is that of what reads what. While something has to be decided by hand, nothing is written behind it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvwire.judges.places import places, uses
from kvwire.peers import mutants
from kvwire.peers.honest import catalog
from kvwire.standard import drift, registry
from kvwire.standard.editions import EDITION
from kvwire.vectors import sessions

ROOT = Path(__file__).parents[2]
README = "README.md"
SPOKEN = "implementations/spoken.json"
AGAIN = "the rest follows from the registry, and is compared once `tox -e generate` has written that"


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from the registry: files of ``vectors/``, other files, and what has to be decided by hand."""

    vectors: Mapping[str, bytes]
    others: Mapping[str, bytes]
    undecided: list[str]


def write(home: Path) -> list[str]:
    """Write what is generated, and record the sessions that are planned and missing.

    Returns what has to be decided by hand: file, id, and what to do.
    """
    spec, vectors = home / "spec", home / "vectors"
    if problems := drift.build(spec, _code()):
        return [str(problem) for problem in problems]
    registry.load.cache_clear()
    registry.profile.cache_clear()
    if unfit := misfits(spec):
        return unfit
    if failed := _record(vectors):
        return failed
    made = _made(home)
    if made.undecided:
        return made.undecided
    from kvwire_generators import build

    for path, content in made.vectors.items():
        _write(vectors / path, content)
    for path in build.strays(vectors, made.vectors):
        (vectors / path).unlink()
    for path, content in made.others.items():
        _write(home / path, content)
    return []


def _write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def check(home: Path) -> list[str]:
    """Where the checkout differs from what is generated: each file, its place, and why; or what is to be decided."""
    spec, vectors = home / "spec", home / "vectors"
    problems = misfits(spec)
    if drift.draft(spec, _code()).requirements != registry.load().requirements:
        return [*problems, AGAIN]
    made = _made(home)
    if made.undecided:
        return problems + made.undecided
    from kvwire_generators import build

    problems += [f"vectors/{text}" for text in build.differences(vectors, made.vectors)]
    for path, content in made.others.items():
        problems += build.difference(path, content, (home / path).read_bytes())
    return problems


def _record(vectors: Path) -> list[str]:
    """Record the sessions that are planned and missing; which of them could not be."""
    from kvwire_generators.sessions import plans, records

    failed = []
    for name, plan in plans.plans().items():
        if not (vectors / sessions.path_of(name)).is_file():
            try:
                records.store(vectors, records.record(name, plan, records.ATTEMPTS))
            except sessions.SessionError as error:
                failed.append(f"vectors/{sessions.path_of(name)}: {error}")
    return failed


def _made(home: Path) -> Made:
    """What follows from the registry.

    Generators quote the standard when they are imported, the stories are those of the tests, and table and traces have
    their scripts beside the implementations: hence no import before.
    """
    sys.path[:0] = [folder for folder in (str(ROOT), str(ROOT / "implementations")) if folder not in sys.path]
    import table
    import traces

    from kvwire_generators import build
    from kvwire_generators.sessions import plans

    files, problems = build.generate(home / "vectors")
    text = (home / README).read_text(encoding="utf-8")
    return Made(
        vectors=files,
        others={README: table.replaced(text, table.render()).encode(), SPOKEN: traces.render()},
        undecided=[*(f"vectors/{text}" for text in problems), *plans.problems(files), *table.problems()],
    )


def misfits(spec: Path) -> list[str]:
    """What does not fit together of standard, judges, mutants and honest peers."""
    known = registry.Registry(EDITION, drift.draft(spec, _code()).requirements)
    found = drift.check(spec, _code()) + mutants.problems(mutants.MUTANTS.values(), known)
    found += catalog.problems(catalog.HONEST.values(), known)
    return [str(problem) for problem in found]


def _code() -> drift.Code:
    return drift.Code(judges=places(), uses=uses())
