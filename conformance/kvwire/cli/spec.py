"""``kvwire spec``: build, check and release the standard, inside a checkout."""

from __future__ import annotations

from pathlib import Path

import click

from kvwire.cli.screen import say
from kvwire.judges.verdict import Exit
from kvwire.standard import drift, registry, sources
from kvwire.standard.prose import Problem


def _folder(*, built: bool = True) -> Path:
    folder = drift.checkout()
    if folder is None:
        raise click.UsageError(
            "this kvwire is an installed copy and its standard read-only: run `kvwire spec` in a checkout, installed "
            "with `python -m pip install --editable .`"
        )
    if problems := list(sources.unreadable(folder, built=built)):
        _end(problems, "")
    return folder


def _code() -> drift.Code:
    from kvwire.judges.places import places, uses

    return drift.Code(judges=places(), uses=uses())


def _peers() -> list[Problem]:
    from kvwire.peers import mutants
    from kvwire.peers.honest import catalog

    known = registry.load()
    return mutants.problems(mutants.MUTANTS.values(), known) + catalog.problems(catalog.HONEST.values(), known)


def _end(problems: list[Problem], done: str) -> None:
    for problem in problems:
        say(str(problem))
    if problems:
        say(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}", err=True)
        raise click.exceptions.Exit(Exit.NOT_CONFORMANT)
    say(done)


@click.group()
def spec() -> None:
    """Build, check and release the standard (in a checkout)."""


@spec.command()
def build() -> None:
    """Write the registry, the lock file and the ceiling of pending ids."""
    _end(drift.build(_folder(built=False), _code()), "spec: built")


@spec.command()
def check() -> None:
    """Find whatever does not fit together: prose, table, judges, lock, ceiling, profiles, mutants, honest peers."""
    _end([*drift.check(_folder(), _code()), *_peers()], "spec: everything fits together")


@spec.command()
def release() -> None:
    """Freeze the edition; refused while any id is pending."""
    _end(drift.release(_folder(), _code()), "spec: edition frozen")
