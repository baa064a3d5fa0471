"""``kvwire baseline``: files of expected failures."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from kvwire.cli.quantities import Named
from kvwire.cli.screen import say, writable, wrote
from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.expected_failures import HEAD, Entry, ExpectedFailuresError
from kvwire.conclusion.result import ResultError
from kvwire.judges.verdict import Exit
from kvwire.standard import reading, registry

_FILE = Named(dir_okay=False)


def today() -> str:
    """The date, as entries have it that expire."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def expectations(path: Path) -> tuple[Entry, ...]:
    """The entries of a file.

    Raises:
        click.UsageError: when it has none to read.
    """
    try:
        return expected_failures.read(path, registry.load())
    except ExpectedFailuresError as error:
        raise click.UsageError(str(error)) from None


@click.group()
def baseline() -> None:
    """Keep a file of expected failures.

    \b
    [[expected]]
    id = "KVW-REP-006"            or REP-006
    reason = "starts of a wrong length are answered from 0"
    verdict = "WARN"              or FAIL, INCONCLUSIVE, NOT-APPLICABLE; without it FAIL or WARN
    stream = "rank-0"             without it any stream
    message = "no batch for *"    how its first finding begins ("EXPECTED; seen SEEN"), * for any text
    link = "https://…"            for readers
    expires = 2027-01-31          the last day on which it counts
    unsteady = true               it may as well not occur: it depends on milliseconds

    `kvwire check … --expected-failures FILE` does not count what an entry matches, and ends with 1 when an
    entry does not come true: the sentence passes, fails in another way or is not judged, or the entry has expired.
    """  # noqa: D301 - click reads the \b


@baseline.command()
@click.argument("file", type=_FILE)
@click.argument("result_stream", metavar="RESULT", type=Named(dir_okay=False, exists=True))
def update(file: Path, result_stream: Path) -> int:
    """Add to FILE what a whole run (`--json RESULT`) broke, or left open, and FILE does not expect yet.

    Each entry waits for its reason. Entries that are there stay as they are.
    """
    entries = expectations(file) if file.exists() else ()
    try:
        new = expected_failures.lacking(result.parse(reading.content(result_stream, reading.RESULT_BYTES)), entries)
    except (OSError, ExpectedFailuresError, ResultError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{result_stream}: {why}") from None
    if new:
        writable(file, "FILE")
        text = file.read_text(encoding="utf-8") if file.exists() else HEAD
        if not wrote([(file, (text + expected_failures.dump(new)).encode())]):
            return Exit.ERROR
    for entry in new:
        say(f"{entry.id} {entry.verdict}: say why in {file}")
    say(f"{len(new)} new, {len(entries)} as before")
    return Exit.CONFORMANT
