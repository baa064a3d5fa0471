"""``kvwire convert`` and ``kvwire verify``: what is done with recordings besides judging them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kvwire.cli.baseline import expectations
from kvwire.cli.judging import FILE
from kvwire.conclusion.result import ResultError
from kvwire.judges.verdict import Exit
from kvwire.recordings.units import Unit, units
from kvwire.recordings.verifying import verified
from kvwire.trace import files
from kvwire.trace.records import TraceError

_PATHS = click.Path(path_type=Path)


def one_of(paths: Sequence[Path]) -> Unit:
    """The one recording that lies in these files.

    Raises:
        click.UsageError: when they are none, or several.
    """
    try:
        found = units(paths)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if len(found) > 1:
        raise click.UsageError(f"these are {len(found)} recordings, {', '.join(u.name for u in found[:3])} …: name one")
    if found[0].error:
        raise click.UsageError(found[0].error)
    return found[0]


@click.command()
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=_PATHS)
@click.option("--output", "-o", "path", type=FILE, required=True, help="Its ending says the form.")
def convert(paths: tuple[Path, ...], path: Path) -> int:
    """Write a recording in another form, without loss: .mcap, .kvtrace (lines of JSON) or .kvtrace.gz.

    The parts of one recording (FILE.0001 …) become one file.
    """
    unit = one_of(paths)
    try:
        with files.open_recording(*unit.paths) as recording:
            files.convert(recording, path)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if recording.ended.cut:
        click.echo(f"{path}: {recording.ended.cut}", err=True)
    return Exit.CONFORMANT


@click.command()
@click.argument("result_stream", metavar="RESULT", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.argument("paths", metavar="RECORDING…", nargs=-1, required=True, type=_PATHS)
@click.option("--expected-failures", "expected", type=FILE, help="The file that the result was held against.")
def verify(result_stream: Path, paths: tuple[Path, ...], expected: Path | None) -> int:
    """Derive a result (`--json RESULT`) again from its recording, and compare to the byte.

    Every result has the digests of the standard, of the source of the judges, and of what was recorded, whatever the
    form of its file. What differs is named: another standard, other judges, another recording, other verdicts.

    Exit codes: 0 the same bytes, 1 something differs, 2 usage.
    """
    try:
        found = units(paths)
        entries = None if expected is None else expectations(expected)
        differing = list(verified(result_stream.read_bytes(), found, entries))
    except (TraceError, ResultError) as error:
        raise click.UsageError(f"{result_stream}: {error}" if isinstance(error, ResultError) else str(error)) from None
    for line in differing:
        click.echo(line)
    if not differing:
        click.echo(f"{result_stream} follows from {', '.join(map(str, paths))}, to the byte")
    return Exit.NOT_CONFORMANT if differing else Exit.CONFORMANT
