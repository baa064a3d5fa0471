"""What the commands share that judge: their options, progress, and what becomes of a result."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.status import Status

from kvwire.cli.baseline import expectations, today
from kvwire.cli.quantities import Named, Size
from kvwire.cli.screen import aside, say, screen, writable, wrote
from kvwire.conclusion.conclude import FilterError, select
from kvwire.conclusion.result import Result
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit
from kvwire.recordings.judging import Asked, concluded
from kvwire.report.evidence import Mismatch, Seen, look
from kvwire.report.faces import Format, face, print_to
from kvwire.standard import registry
from kvwire.standard.registry import UnknownNameError
from kvwire.trace.records import Trace, TraceError

FILE = Named(dir_okay=False)
FILES: tuple[Format, ...] = ("json", "html", "junit", "markdown", "badge")
"""The faces of a result that have an option each that names a file."""

MEMORY_LEAST = 256 * 1000**2
BESIDE_BYTES = 112 * 1000**2
"""What a run takes beside its records; these take as much again when they are judged."""

FINISHING = "kvwire: what was found is judged and reported; once more ends at once\n"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a recording is judged, and where what is found goes."""

    how: Asked
    ids: frozenset[str] | None
    files: dict[Format, Path]
    github: bool
    quiet: bool
    verbose: bool


def judging_options(command: Callable[..., int]) -> Callable[..., int]:
    """The options that checking and judging share; the command gets them as one, tried before anything is done."""

    @functools.wraps(command)
    def gathered(
        *,
        profile: str | None,
        only: tuple[str, ...],
        expected: Path | None,
        strict: bool,
        memory: int,
        allow_inconclusive: bool,
        github: bool,
        quiet: bool,
        verbose: bool,
        **others: Any,
    ) -> int:
        written = {kind: others.pop(kind) for kind in FILES}
        asked = Wanted(only=only, strict=strict, allow_inconclusive=allow_inconclusive)
        options = Options(
            ids=_ids(only),
            how=_asked(profile, expected, asked, memory),
            files={kind: path for kind, path in written.items() if path is not None},
            github=github,
            quiet=quiet,
            verbose=verbose,
        )
        for kind, path in options.files.items():
            writable(path, f"--{kind}")
        return command(options=options, **others)

    for option in reversed(
        (
            click.option("--json", type=FILE, help="Write the result stream (NDJSON) there."),
            click.option("--html", type=FILE, help="Write a page with all evidence there."),
            click.option("--junit", type=FILE, help="Write JUnit XML there."),
            click.option("--markdown", type=FILE, help="Write Markdown, as for a job's summary."),
            click.option("--badge", type=FILE, help="Write the JSON of an endpoint badge there."),
            click.option("--github", is_flag=True, help="Print GitHub's workflow commands too."),
            click.option("--profile", metavar="NAME", help="core, replay, ranks, …; `ranks+replay` is both."),
            click.option("--only", multiple=True, metavar="ID", help="This sentence or area (SEQ) only; repeatable."),
            click.option(
                "--expected-failures",
                "expected",
                type=FILE,
                help="What it expects does not count: `kvwire baseline`.",
            ),
            click.option(
                "--memory",
                type=Size(MEMORY_LEAST),
                default="512MB",
                show_default=True,
                help="Of run and judging; more is cut.",
            ),
            click.option("--strict", is_flag=True, help="A warning is a failure."),
            click.option("--allow-inconclusive", is_flag=True, help="Exit 0, not 3, when too little was seen."),
            click.option("--quiet", is_flag=True, help="No report: exit code and files say it all."),
            click.option("--verbose", "-v", is_flag=True, help="A row for each sentence and stream besides."),
        )
    ):
        gathered = option(gathered)
    return gathered


def _ids(only: tuple[str, ...]) -> frozenset[str] | None:
    try:
        return select(only, registry.load())
    except FilterError as error:
        raise click.UsageError(str(error)) from None


def _asked(profile: str | None, expected: Path | None, wanted: Wanted, memory: int) -> Asked:
    try:
        if profile is not None:
            registry.profile(profile)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    entries = None if expected is None else expectations(expected)
    return Asked(wanted=wanted, profile=profile, expected=entries, today=today(), held=(memory - BESIDE_BYTES) // 2)


class Progress:
    """Says what is being done, on a terminal; nothing in a pipe."""

    def __init__(self, status: Status | None) -> None:
        self._status = status

    def __call__(self, text: str) -> None:
        """Something is being done now."""
        if self._status is not None:
            self._status.update(f"{text} …")

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, something else is printed, and its line makes room."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()


@contextlib.contextmanager
def progressing() -> Iterator[Progress]:
    """What is being done, while it is."""
    console = aside()
    if not console.is_terminal:
        yield Progress(None)
        return
    with console.status("…") as status:
        yield Progress(status)


def finish(judged: Trace, options: Options) -> int:
    """Judge, report, and give the exit code."""
    try:
        outcome = concluded(judged, options.how)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    return reported(outcome, options, lambda: look(outcome, judged.header, judged.records))


def reported(outcome: Result, options: Options, look_again: Callable[[], Seen] | None = None) -> int:
    """Report, and give the exit code; ``look_again`` says what the recording shows, for the face that has it."""

    def seen(kind: Format) -> Sequence[Seen]:
        if look_again is None or kind != "html":
            return ()
        try:
            return [look_again()]
        except (TraceError, Mismatch) as error:  # a pipe, say, or somebody else has written to it
            say(f"kvwire: the page shows no bytes: read once more, {error}", err=True)
            return ()

    written = wrote((path, face([outcome], kind, seen(kind))) for kind, path in options.files.items())
    if options.github:
        click.echo(face([outcome], "github"), nl=False)
    if not options.quiet:
        print_to(screen(), [outcome], verbose=options.verbose)
    if outcome.summary.interrupted:
        return Exit.INTERRUPTED
    assert outcome.summary.exit is not None
    return outcome.summary.exit if written else Exit.ERROR
