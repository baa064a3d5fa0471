"""What the commands share that judge: their options, progress, and what becomes of a result."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console

from kvwire.cli.baseline import expectations, today
from kvwire.conclusion import result
from kvwire.conclusion.conclude import FilterError, select
from kvwire.conclusion.result import Result
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit
from kvwire.recordings.judging import Asked, concluded
from kvwire.report.console import render
from kvwire.standard import registry
from kvwire.standard.registry import UnknownNameError
from kvwire.trace.records import Trace

FILE = click.Path(dir_okay=False, path_type=Path)
Progress = Callable[[str], None]
PIPE_COLUMNS = 140
"""How wide a report is that goes into a pipe or a file."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace is judged, and where what is found goes."""

    how: Asked
    ids: frozenset[str] | None
    json: Path | None
    quiet: bool
    verbose: bool


def judging_options(command: click.decorators.FC) -> click.decorators.FC:
    """The options that checking and judging share."""
    for option in reversed(
        (
            click.option("--json", type=FILE, help="Write the result stream (NDJSON) to this file."),
            click.option("--profile", help="Hold it to this profile: core, replay, ranks, …; `ranks+replay` is both."),
            click.option(
                "--only", multiple=True, metavar="ID", help="Only this sentence (SEQ-009) or area (SEQ); repeatable."
            ),
            click.option(
                "--expected-failures",
                "expected",
                type=FILE,
                help="What is known to be broken does not count (a TOML file, see `kvwire baseline`).",
            ),
            click.option("--strict", is_flag=True, help="A warning is a failure."),
            click.option("--allow-inconclusive", is_flag=True, help="Exit 0, not 3, when too little was seen."),
            click.option("--quiet", is_flag=True, help="No report; the exit code and the files say it all."),
            click.option("--verbose", "-v", is_flag=True, help="A row for each sentence and stream besides."),
        )
    ):
        command = option(command)
    return command


def asked_for(
    json: Path | None,
    profile: str | None,
    only: tuple[str, ...],
    expected: Path | None,
    strict: bool,
    allow_inconclusive: bool,
    quiet: bool,
    verbose: bool,
) -> Options:
    """The shared options, tried before a run: what would lose its result after it is refused.

    Raises:
        click.UsageError: when one of them cannot be used.
    """
    try:
        ids = select(only, registry.load())
        if profile is not None:
            registry.profile(profile)
    except (FilterError, UnknownNameError) as error:
        raise click.UsageError(str(error)) from None
    writable(json, "--json")
    return Options(
        ids=ids,
        how=Asked(
            wanted=Wanted(only=only, strict=strict, allow_inconclusive=allow_inconclusive),
            profile=profile,
            expected=None if expected is None else expectations(expected),
            today=today(),
        ),
        json=json,
        quiet=quiet,
        verbose=verbose,
    )


def writable(path: Path | None, option: str) -> None:
    """Refuse before the run what would lose its result after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"{option} {path}: the folder {path.absolute().parent} does not exist")


@contextlib.contextmanager
def progress_of() -> Iterator[Progress]:
    """What is being done, on a terminal; nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("…") as status:
        yield lambda text: status.update(f"{text} …")


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM ends a run as Ctrl-C does: what was found is kept."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def console_of() -> Console:
    """Where the report goes; a pipe has no width, and lines that are broken in it are hard to search."""
    console = Console(soft_wrap=False)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(soft_wrap=False, width=PIPE_COLUMNS)


def finish(judged: Trace, options: Options) -> int:
    """Judge, report, and give the exit code."""
    try:
        outcome = concluded(judged, options.how)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    if options.json is not None:
        options.json.write_bytes(result.dump(outcome))
    if not options.quiet:
        render(outcome, console_of(), verbose=options.verbose)
    return code_of(outcome)


def code_of(outcome: Result) -> int:
    """The exit code of a result."""
    if outcome.summary.interrupted:
        return Exit.INTERRUPTED
    assert outcome.summary.exit is not None
    return outcome.summary.exit
