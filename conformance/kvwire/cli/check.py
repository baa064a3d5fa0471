"""``kvwire check`` and ``kvwire judge``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console

from kvwire.attack import targets
from kvwire.attack.endings import Endings
from kvwire.attack.probes.kit.session import Limits, Mode
from kvwire.attack.run import DEADLINE_S, Progress, Settings, run, silent
from kvwire.attack.targets import TargetError, TraceTarget, parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.cli.baseline import expectations, today
from kvwire.cli.screen import screen
from kvwire.conclusion import expected_failures
from kvwire.conclusion.conclude import FilterError, conclude, select
from kvwire.conclusion.expected_failures import Entry
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit
from kvwire.report.faces import Format, face, print_to
from kvwire.standard import registry
from kvwire.standard.registry import Profile, UnknownNameError
from kvwire.trace import files
from kvwire.trace.captures import capture
from kvwire.trace.captures.capture import Told
from kvwire.trace.records import Trace, TraceError

_FILE = click.Path(dir_okay=False, path_type=Path)
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


@contextlib.contextmanager
def progressing() -> Iterator[Progress]:
    """What is being done, on a terminal; nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    with console.status("…") as status:
        yield lambda text: status.update(f"{text} …")


FINISHING = "kvwire: what was found is judged and reported; once more ends at once\n"


def settings(profile: str | None, mode: Mode, only: frozenset[str] | None, seconds: float | None) -> Settings:
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
    files: dict[Format, Path]
    github: bool
    quiet: bool
    verbose: bool


def _asked(
    files: dict[Format, Path | None],
    github: bool,
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
    for kind, path in files.items():
        _writable(path, f"--{kind}")
    return _Asked(
        ids=ids,
        wanted=Wanted(only=only, strict=strict, allow_inconclusive=allow_inconclusive),
        profile=profile,
        expected=None if expected is None else expectations(expected),
        files={kind: path for kind, path in files.items() if path is not None},
        github=github,
        quiet=quiet,
        verbose=verbose,
    )


def _finish(judged: Trace, asked: _Asked) -> int:
    """Judge, report, and give the exit code."""
    profile = _profile(asked.profile or judged.header.profile)
    outcome = conclude(judged, registry.load(), profile, asked.wanted)
    if asked.expected is not None:
        outcome = expected_failures.held(outcome, asked.expected, today(), asked.wanted)
    for kind, path in asked.files.items():
        path.write_bytes(face([outcome], kind, [judged] if kind == "html" else ()))
    if asked.github:
        click.echo(face([outcome], "github"), nl=False)
    if not asked.quiet:
        print_to(screen(), [outcome], verbose=asked.verbose)
    if outcome.summary.interrupted:
        return Exit.INTERRUPTED
    assert outcome.summary.exit is not None
    return outcome.summary.exit


def _judging(command: click.decorators.FC) -> click.decorators.FC:
    """The options that checking and judging share."""
    for option in reversed(
        (
            click.option("--json", type=_FILE, help="Write the result stream (NDJSON) to this file."),
            click.option("--html", type=_FILE, help="Write a page with all evidence to this file."),
            click.option("--junit", type=_FILE, help="Write JUnit XML to this file."),
            click.option("--markdown", type=_FILE, help="Write Markdown, as for a job's summary, to this file."),
            click.option("--badge", type=_FILE, help="Write the JSON of an endpoint badge to this file."),
            click.option("--github", is_flag=True, help="Print annotations as GitHub's workflow commands too."),
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
@click.option("--record", type=_FILE, help="Write the trace of the run to this file; judge it again with `judge`.")
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
    html: Path | None,
    junit: Path | None,
    markdown: Path | None,
    badge: Path | None,
    github: bool,
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
    honest:NAME                     a publisher that keeps the standard in its own way (`kvwire honest list`)
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
    written: dict[Format, Path | None] = {
        "json": json,
        "html": html,
        "junit": junit,
        "markdown": markdown,
        "badge": badge,
    }
    asked = _asked(written, github, profile, only, expected, strict, allow_inconclusive, quiet, verbose)
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
    with Endings(patience=1, said=FINISHING) as endings:
        with progressing() as progress:
            bounded = seconds if isinstance(place, ListenTarget) else None
            recorded = run(place, settings(profile, mode, asked.ids, bounded), progress)
        if record is not None:
            files.write(recorded, record)
        code = _finish(recorded, asked)
        return Exit.INTERRUPTED if endings.told else code


@click.command("judge")
@click.argument("file", type=_FILE)
@_judging
@click.option(
    "--port",
    "ports",
    multiple=True,
    metavar="PORT[:REPLAY]",
    help="Of a packet capture: a publish port, and its replay port; nothing else is read then. Repeatable.",
)
@click.option("--topic", help="Of a packet capture: the topic that the publisher declares.")
def judge_command(
    file: Path,
    ports: tuple[str, ...],
    topic: str | None,
    json: Path | None,
    html: Path | None,
    junit: Path | None,
    markdown: Path | None,
    badge: Path | None,
    github: bool,
    profile: str | None,
    only: tuple[str, ...],
    expected: Path | None,
    strict: bool,
    allow_inconclusive: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Judge a recorded run again: the same trace gets the same verdicts.

    FILE is what `kvwire check --record` wrote, or a packet capture (pcap, pcapng) of a publisher's ports:
    `tcpdump -s 0 -w kv.pcap port 5557`. A capture is judged passively; replay that others asked for is judged
    where it was seen. Publish and replay ports are found by what is spoken there; name them with --port where a
    capture began in the middle of connections and too little shows it. See docs/captures.md.

    Exit codes are those of `kvwire check`; a file that is neither is 2.
    """
    written: dict[Format, Path | None] = {
        "json": json,
        "html": html,
        "junit": junit,
        "markdown": markdown,
        "badge": badge,
    }
    asked = _asked(written, github, profile, only, expected, strict, allow_inconclusive, quiet, verbose)
    return _judge(file, asked, Told(ports=dict(map(_port, ports)), topic=topic))


def _port(text: str) -> tuple[int, int | None]:
    """A publish port and its replay port."""
    publish, _, replay = text.partition(":")
    try:
        found = (int(publish), int(replay) if replay else None)
    except ValueError:
        found = (0, None)
    if not all(0 < port < 2**16 for port in found if port is not None):
        raise click.UsageError(f"--port {text}: a port is a number from 1 to 65535, as in 5557 or 5557:5657")
    return found


def _judge(file: Path, asked: _Asked, told: Told | None = None) -> int:
    try:
        if capture.is_capture(file):
            recorded = capture.read(file, told)
        elif told is not None and (told.ports or told.topic is not None):
            raise click.UsageError(f"{file} is no packet capture: --port and --topic say nothing of it")
        else:
            recorded = files.read(file)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    return _finish(recorded, asked)
