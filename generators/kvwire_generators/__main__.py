"""``python -m kvwire_generators``: write what is generated, in a checkout with an editable install."""

from __future__ import annotations

from pathlib import Path

import click

from kvwire.judges.verdict import Exit
from kvwire.standard import drift
from kvwire.standard.registry import UnknownNameError
from kvwire.vectors.sessions import SessionError
from kvwire_generators import build as building
from kvwire_generators.sessions import records as recording


def _checkout() -> Path:
    """The folder of vectors in a checkout."""
    spec = drift.checkout()
    if spec is None:
        raise click.UsageError("this kvwire is an installed copy and its vectors read-only: run this in a checkout")
    return spec.parent / "vectors"


@click.group()
def main() -> None:
    """The vectors of a checkout: write them, check them, record sessions anew."""


@main.command()
@click.option("--check", is_flag=True, help="Write nothing; say where files differ from what the generators give.")
def build(check: bool) -> None:
    """Write the vectors (in a checkout), or check them."""
    folder = _checkout()
    problems = building.check(folder) if check else building.write(folder)
    for problem in problems:
        click.echo(problem)
    if problems:
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}", err=True)
        raise click.exceptions.Exit(Exit.NOT_CONFORMANT)
    click.echo("vectors: data and generators agree" if check else "vectors: built")


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def record(names: tuple[str, ...]) -> None:
    """Record sessions anew (in a checkout): those named, or all that is planned; then run a build."""
    folder = _checkout()
    failed = 0
    try:
        chosen = recording.wanted(names)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    for name, plan in chosen.items():
        try:
            path = recording.store(folder, name, recording.record(name, plan, recording.ATTEMPTS))
            click.echo(f"{name}: {path.stat().st_size} bytes")
        except SessionError as error:
            failed += 1
            click.echo(str(error), err=True)
    if failed:
        raise click.exceptions.Exit(Exit.NOT_CONFORMANT)


if __name__ == "__main__":
    main()
