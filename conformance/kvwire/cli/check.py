"""``kvwire check`` and ``kvwire judge``."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console

from kvwire.attack import targets
from kvwire.attack.probes.kit.session import Limits, Mode
from kvwire.attack.run import DEADLINE_S, Progress, Settings, run, silent
from kvwire.attack.targets import TargetError, TraceTarget, parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness import Recorder, whole
from kvwire.cli.baseline import expectations, today
from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.conclude import FilterError, conclude, select
from kvwire.conclusion.expected_failures import Entry
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit
from kvwire.report.console import render
from kvwire.standard import registry
from kvwire.standard.registry import Profile, UnknownNameError
from kvwire.trace import files
from kvwire.trace.files import Sink
from kvwire.trace.records import Trace, TraceError

_FILE = click.Path(dir_okay=False, path_type=Path)
PIPE_COLUMNS = 140
"""How wide a report is that goes into a pipe or a file."""
QUICK_LISTEN_S = 4.0
"""How long a quick run listens to a target that is not driven."""
QUICK_S = 8.0
"""When a quick run ends at the latest, after it could have listened."""
HANDSHAKE_S = 2.0
"""For how long a handshake is awaited at least, however short ``--for`` is."""
WORK_S = 5.0
"""What ``--for`` leaves at least for everything but listening."""


def _profile(name: str) -> Profile:
    try:
        return registry.profile(name)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None


def sink_of(path: Path, rotate: int | None = None) -> Sink:
    """Where a run is recorded.

    Raises:
        click.UsageError: when nothing can be written there.
    """
    try:
        return Sink(path, rotate=rotate, shield=whole)
    except TraceError as error:
        raise click.UsageError(str(error)) from None


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """What is being done, on a terminal; nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    with console.status("…") as status:
        yield lambda text: status.update(f"{text} …")


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
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


def _settings(profile: str | None, mode: Mode, only: frozenset[str] | None, seconds: float | None) -> Settings:
    """How a run is made; ``seconds`` to listen to a target that nobody drives bound what else is done."""
    limits, deadline_s = Limits(), DEADLINE_S
    if mode == "quick":
        limits, deadline_s = msgspec.structs.replace(limits, listen_s=QUICK_LISTEN_S), QUICK_S
    if seconds is not None:
        limits = msgspec.structs.replace(limits, listen_s=seconds, handshake_s=min(max(HANDSHAKE_S, seconds), 5.0))
        deadline_s = min(deadline_s, max(WORK_S, seconds))
    return Settings(profile=profile, mode=mode, only=only, limits=limits, deadline_s=deadline_s)


def _writable(path: Path | None, option: str) -> None:
    """Refuse before the run what would lose its result after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.UsageError(f"{option} {path}: the folder {path.absolute().parent} does not exist")


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace is judged, and where what is found goes."""

    wanted: Wanted
    ids: frozenset[str] | None
    profile: str | None
    expected: tuple[Entry, ...] | None
    json: Path | None
    quiet: bool
    verbose: bool


def _asked(
    json: Path | None,
    profile: str | None,
    only: tuple[str, ...],
    expected: Path | None,
    strict: bool,
    allow_inconclusive: bool,
    quiet: bool,
    verbose: bool,
) -> _Asked:
    """The shared options, tried before a run: what would lose its result after it is refused."""
    try:
        ids = select(only, registry.load())
    except FilterError as error:
        raise click.UsageError(str(error)) from None
    if profile is not None:
        _profile(profile)
    _writable(json, "--json")
    return _Asked(
        ids=ids,
        wanted=Wanted(only=only, strict=strict, allow_inconclusive=allow_inconclusive),
        profile=profile,
        expected=None if expected is None else expectations(expected),
        json=json,
        quiet=quiet,
        verbose=verbose,
    )


def _console() -> Console:
    """Where the report goes; a pipe has no width, and lines that are broken in it are hard to search."""
    console = Console(soft_wrap=False)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(soft_wrap=False, width=PIPE_COLUMNS)


def _finish(judged: Trace, asked: _Asked) -> int:
    """Judge, report, and give the exit code."""
    profile = _profile(asked.profile or judged.header.profile)
    outcome = conclude(judged, registry.load(), profile, asked.wanted)
    if asked.expected is not None:
        outcome = expected_failures.held(outcome, asked.expected, today(), asked.wanted)
    if asked.json is not None:
        asked.json.write_bytes(result.dump(outcome))
    if not asked.quiet:
        render(outcome, _console(), verbose=asked.verbose)
    if outcome.summary.interrupted:
        return Exit.INTERRUPTED
    assert outcome.summary.exit is not None
    return outcome.summary.exit


def _judging(command: click.decorators.FC) -> click.decorators.FC:
    """The options that checking and judging share."""
    for option in reversed(
        (
            click.option("--json", type=_FILE, help="Write the result stream (NDJSON) to this file."),
            click.option("--profile", help="Hold it to this profile: core, replay, ranks, …; `ranks+replay` is both."),
            click.option(
                "--only", multiple=True, metavar="ID", help="Only this sentence (SEQ-009) or area (SEQ); repeatable."
            ),
            click.option(
                "--expected-failures",
                "expected",
                type=_FILE,
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


@click.command()
@click.argument("target", default="reference:")
@_judging
@click.option("--drive", metavar="openai:URL", help="Drive the engine behind zmq:… by its OpenAI-compatible API.")
@click.option(
    "--record", type=_FILE, help="Write the trace of the run to this file, as it comes; judge it again with `judge`."
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0.1),
    help="Seconds to listen to a target that is not driven (10); what else is done takes as many at most, or 5.",
)
@click.option("--quick", is_flag=True, help="Listen (4 s), work a little, ask for replay; no attack, no claim (12 s).")
@click.option("--thorough", is_flag=True, help="Everything, long runs under pressure included (minutes).")
def check(
    target: str,
    json: Path | None,
    profile: str | None,
    only: tuple[str, ...],
    expected: Path | None,
    strict: bool,
    allow_inconclusive: bool,
    quiet: bool,
    verbose: bool,
    drive: str | None,
    record: Path | None,
    seconds: float | None,
    quick: bool,
    thorough: bool,
) -> int:
    """Check a publisher: attack TARGET and say, sentence by sentence, what holds.

    \b
    reference:                      the reference publisher (the default)
    mutant:NAME                     a publisher with one known fault (`kvwire mutants list`)
    zmq:tcp://H:P?replay=tcp://H:P&topic=T&ranks=N&mode=connect|bind
                                    a running publisher; mode=bind when it dials
    zmq:… --drive openai:http://H:P/v1
                                    and prompts to its engine by an OpenAI-compatible API
    exec:COMMAND                    a publisher behind an adapter
    trace:FILE                      a recorded run
    FILE.toml                       a conformance statement

    \b
    Exit codes: 0 conformant at this level (with --quick or --only: nothing broken was seen, which is no claim),
    1 not conformant, 2 usage, 3 inconclusive (something that the profile wants shown was not, the connection
    was lost for good, or time ran out), 4 error (the target was not reached, or the harness failed),
    130 interrupted (Ctrl-C or SIGTERM; what was found is kept).
    With --expected-failures, what the file expects does not count, and an entry that does not come true is 1.
    """  # noqa: D301 - click reads the \b
    try:
        place = parse(target)
        if drive is not None:
            place = targets.drive(place, drive)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    asked = _asked(json, profile, only, expected, strict, allow_inconclusive, quiet, verbose)
    _writable(record, "--record")
    if quick and thorough:
        raise click.UsageError("--quick and --thorough exclude each other")
    if isinstance(place, TraceTarget):
        if record is not None or seconds is not None or quick or thorough:
            raise click.UsageError(
                "a trace is judged, not run: --record, --for, --quick and --thorough say nothing here"
            )
        return _judge(place.path, asked)
    mode: Mode = "quick" if quick else "thorough" if thorough else "plain"
    sink = None if record is None else sink_of(record)
    with _terminable(), _progress() as progress:
        bounded = seconds if isinstance(place, ListenTarget) else None
        recorded = run(place, _settings(profile, mode, asked.ids, bounded), progress, Recorder(sink=sink))
    code = _finish(recorded, asked)
    if sink is None or sink.failed is None:
        return code
    click.echo(f"kvwire: --record {sink.failed}", err=True)
    return Exit.ERROR


@click.command("judge")
@click.argument("file", type=_FILE)
@_judging
def judge_command(
    file: Path,
    json: Path | None,
    profile: str | None,
    only: tuple[str, ...],
    expected: Path | None,
    strict: bool,
    allow_inconclusive: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Judge a recorded run again: the same trace gets the same verdicts.

    Exit codes are those of `kvwire check`.
    """
    return _judge(file, _asked(json, profile, only, expected, strict, allow_inconclusive, quiet, verbose))


def _judge(file: Path, asked: _Asked) -> int:
    try:
        recorded = files.read(file)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    return _finish(recorded, asked)
