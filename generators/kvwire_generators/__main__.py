"""``python -m kvwire_generators``: write what is generated, in a checkout with an editable install."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from kvwire.judges.verdict import Exit
from kvwire.standard import drift
from kvwire.standard.registry import UnknownNameError
from kvwire.vectors.sessions import SessionError
from kvwire_generators import checkout


def _home() -> Path:
    """The checkout."""
    spec = drift.checkout()
    if spec is None:
        raise click.UsageError("this kvwire is an installed copy and its files are read-only: run this in a checkout")
    return spec.parent


def _end(problems: Sequence[str], done: str) -> None:
    for problem in problems:
        click.echo(problem)
    if problems:
        click.echo(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}", err=True)
        raise click.exceptions.Exit(Exit.NOT_CONFORMANT)
    click.echo(done)


@click.group(invoke_without_command=True)
@click.option("--check", is_flag=True, help="Write nothing; say which file would change, where, and why.")
@click.pass_context
def main(context: click.Context, check: bool) -> None:
    """Write everything that is generated in a checkout: registry, lock, ceiling, vectors, who speaks in stored traces,
    the table of README.md.

    Nothing is written behind a step that somebody has to do by hand; that is named with file, id, and the way out.
    """
    if context.invoked_subcommand is not None:
        return
    home = _home()
    if check:
        _end(checkout.check(home), "everything generated is up to date")
    else:
        _end(checkout.write(home), "everything generated is written")


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def record(names: tuple[str, ...]) -> None:
    """Record sessions anew (in a checkout): those named, or all that are planned; then write the rest."""
    from kvwire_generators.sessions import records

    home = _home()
    failed = []
    try:
        chosen = records.wanted(names)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    for name, plan in chosen.items():
        try:
            path = records.store(home / "vectors", records.record(name, plan, records.ATTEMPTS))
            click.echo(f"{name}: {path.stat().st_size} bytes")
        except SessionError as error:
            failed.append(str(error))
    _end(failed or checkout.write(home), "everything generated is written")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def site(folder: Path) -> None:
    """Write the source of the site to FOLDER: `mkdocs build --strict -f FOLDER/mkdocs.yml` makes it one."""
    from kvwire_generators.site.pages import site as pages

    made = pages(_home())
    if folder.exists() and any(folder.iterdir()) and not (folder / "mkdocs.yml").is_file():
        raise click.UsageError(f"{folder} holds other things: name an empty folder")
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in made.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    click.echo(f"{folder}: {len(made)} files")


if __name__ == "__main__":
    main()
