"""``kvwire report``: faces of stored results."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from kvwire.cli.quantities import Named
from kvwire.cli.screen import screen, writable, wrote
from kvwire.conclusion import result
from kvwire.conclusion.result import Result, ResultError
from kvwire.judges.verdict import Exit
from kvwire.recordings.looking import looked
from kvwire.report import faces
from kvwire.report.evidence import Mismatch
from kvwire.report.faces import FaceError, Format
from kvwire.standard import reading
from kvwire.trace.records import TraceError

_FILE = Named(dir_okay=False)


def read_result(path: Path) -> Result:
    """A stored result stream.

    Raises:
        click.UsageError: when the file is none, with the line.
    """
    try:
        return result.parse(reading.content(path, reading.RESULT_BYTES))
    except (OSError, ResultError) as error:
        raise click.UsageError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from None


@click.command("report")
@click.argument("results", metavar="RESULT...", nargs=-1, required=True, type=_FILE)
@click.option("--format", "kind", type=click.Choice(get_args(Format)), default="console", show_default=True)
@click.option("--output", "-o", type=_FILE, help="Write to this file, not to standard output.")
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    type=_FILE,
    help="The recording of each RESULT, in their order: html shows the bytes and the course of the stream.",
)
@click.option("--verbose", "-v", is_flag=True, help="Console: a row for each sentence and stream besides.")
def report_command(
    results: tuple[Path, ...], kind: Format, output: Path | None, recordings: tuple[Path, ...], verbose: bool
) -> int:
    """Show results that `--json` wrote: RESULT is a result stream; several make one report.

    \b
    kvwire check TARGET --json run.json --record run.kvtrace
    kvwire report run.json --recording run.kvtrace --format html -o run.html

    Every face says what the run's exit code said; this command's own is 0 when the report was written, 2 when not.
    """  # noqa: D301 - click reads the \b
    if recordings and len(recordings) != len(results):
        raise click.UsageError(
            f"{len(results)} results and {len(recordings)} recordings; give one --recording for each"
        )
    if output is not None:
        writable(output, "--output")
    try:
        reports = [read_result(path) for path in results]
        if kind == "console" and output is None:
            faces.print_to(screen(), reports, verbose=verbose)
            return Exit.CONFORMANT
        seen = [looked(*pair) for pair in zip(reports, recordings, strict=False)]
        content = faces.face(reports, kind, seen, verbose=verbose)
    except (TraceError, FaceError, Mismatch) as error:
        raise click.UsageError(str(error)) from None
    if output is not None:
        return Exit.CONFORMANT if wrote([(output, content)]) else Exit.ERROR
    click.echo(content, nl=False)
    return Exit.CONFORMANT
