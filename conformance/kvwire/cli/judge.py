"""``kvwire judge``: recordings, one or many."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import click
import msgspec

from kvwire.attack.endings import Endings
from kvwire.cli.judging import FINISHING, Options, Progress, judging_options, progressing, reported
from kvwire.cli.quantities import Named, Whole
from kvwire.cli.screen import Growing, say, screen, wrote
from kvwire.conclusion.result import Ended, Result
from kvwire.judges.verdict import Exit
from kvwire.recordings.cluster import ClusterError, connected
from kvwire.recordings.judging import Answer, Asked, ended, line, read, read_capture
from kvwire.recordings.looking import looked
from kvwire.recordings.many import Tally, answers, default_workers
from kvwire.recordings.units import Unit, units
from kvwire.report.faces import face, print_to
from kvwire.report.recordings import row, totals
from kvwire.report.visible import safe
from kvwire.standard.registry import UnknownNameError
from kvwire.trace import files
from kvwire.trace.captures import capture
from kvwire.trace.captures.capture import Told
from kvwire.trace.records import TraceError

ENDED = {"cut": "cut short", "interrupted": "whole, but interrupted", "whole": "whole"}
TELL_RECORDS = 5000
"""After how many records progress is shown."""
Judge = Callable[[Sequence[Unit], Asked, Callable[[int], None]], Generator[Answer, None, None]]


def capture_options(command: Callable[..., int]) -> Callable[..., int]:
    """What packet captures do not show of their ports."""
    port = click.option(
        "--port",
        "ports",
        multiple=True,
        metavar="PORT[:REPLAY]",
        help="Of a capture: read these ports only; repeatable.",
    )
    topic = click.option("--topic", metavar="TEXT", help="Of a capture: the topic that is declared.")
    return port(topic(command))


def said_of(found: Sequence[Unit], ports: Sequence[str], topic: str | None) -> Told:
    """What the user said of captures by these options.

    Raises:
        click.UsageError: when a port is none, or something was said of a file that is no capture.
    """
    told = Told(ports=dict(map(_port, ports)), topic=topic)
    for path in (path for unit in found if told != Told() for path in unit.paths):
        if not capture.is_capture(path):
            raise click.UsageError(f"{path} is no packet capture: --port and --topic say nothing of it")
    return told


@click.command("judge")
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=Named())
@judging_options
@capture_options
@click.option("--workers", type=Whole(min=1), metavar="N", help="Processes for several recordings (one a core).")
@click.option("--cluster", metavar="ADDRESS", help="Several by a Dask cluster: tcp://HOST:8786.")
def judge_command(
    paths: tuple[Path, ...],
    options: Options,
    ports: tuple[str, ...],
    topic: str | None,
    workers: int | None,
    cluster: str | None,
) -> int:
    """Judge recorded runs again: the same recording gets the same verdicts, to the byte.

    FILE is a recording (.kvtrace, .kvtrace.gz, .mcap), a packet capture (pcap, pcapng) of a publisher's ports, or a
    folder of them. A capture is judged passively; what is spoken at a port says which it is, or --port.

    Several give one result stream, in the order in which they are named, and one line each; the parts of one recording
    (FILE.0001 …) are judged as one. What cannot be read is an error that is named, and the others are judged.

    Exit codes are those of `kvwire check`; of several recordings the first of 1, 4, 3, 0 that one of them has.
    """
    if workers is not None and cluster is not None:
        raise click.UsageError("--workers are processes here, --cluster those elsewhere: give one of them")
    return judged(paths, options, workers, cluster, lambda found: said_of(found, ports, topic))


def _port(text: str) -> tuple[int, int | None]:
    """A publish port and its replay port."""
    publish, _, replay = text.partition(":")
    found: tuple[int, int | None] = (0, None)
    if re.fullmatch(r"[0-9]{1,5}(?::[0-9]{1,5})?", text):
        found = (int(publish), int(replay) if replay else None)
    if not all(0 < port < 2**16 for port in found if port is not None):
        raise click.UsageError(f"--port {text}: a port is a number from 1 to 65535, as in 5557 or 5557:5657")
    return found


def judged(
    paths: Sequence[Path],
    options: Options,
    workers: int | None = None,
    cluster: str | None = None,
    telling: Callable[[Sequence[Unit]], Told] = lambda _: Told(),
) -> int:
    """Judge, report, and give the exit code; ``telling`` says what captures among the recordings do not show.

    Raises:
        click.UsageError: when there is nothing to judge.
    """
    try:
        found = units(paths)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    options = msgspec.structs.replace(options, how=msgspec.structs.replace(options.how, told=telling(found)))
    if len(found) == 1:
        with Endings(patience=1, said=FINISHING) as endings:
            code = _one(found[0], options)
            return Exit.INTERRUPTED if endings.told else code
    if cluster is None:
        count = workers or default_workers()
        return _many(found, options, lambda units, asked, tell: answers(units, asked, count, tell))
    try:
        with connected(cluster) as there:
            return _many(found, options, there.answers)
    except ClusterError as error:
        raise click.UsageError(f"--cluster: {error}") from None


def _one(unit: Unit, options: Options) -> int:
    if unit.error:
        raise click.UsageError(unit.error)
    try:
        with progressing() as progress:
            outcome, count, how = _read(unit, options, progress)
    except (TraceError, UnknownNameError) as error:
        raise click.UsageError(str(error)) from None
    if how is not None and not options.quiet:
        parts = f" in {len(unit.paths)} parts" if len(unit.paths) > 1 else ""
        say(f"{unit.name}: {count} records{parts}, {ENDED[how]}", err=True)
    return reported(outcome, options, lambda: looked(outcome, *unit.paths, told=options.how.told))


def _read(unit: Unit, options: Options, progress: Progress) -> tuple[Result, int, Ended | None]:
    """The result of a recording, how many records it has, and how it ended, which a capture does not say."""
    if capture.is_capture(unit.paths[0]):

        def heard(count: int) -> None:
            if count % TELL_RECORDS == 0:
                progress(f"judging {unit.name}, {count} messages")

        return *read_capture(unit.paths[0], options.how, heard), None
    with files.open_recording(*unit.paths) as recording:

        def tell(count: int) -> None:
            if count % TELL_RECORDS == 0:
                progress(f"judging {unit.name}, {recording.position:.0%}")

        outcome, last = read(recording, options.how, tell), recording.ended
        return outcome, last.records, ended(last.interrupted, last.cut)


def _many(found: Sequence[Unit], options: Options, judge: Judge) -> int:
    if "badge" in options.files:
        raise click.UsageError(f"--badge is of one result, and there are {len(found)} recordings")
    tally, interrupted = Tally(), False
    kept: list[Result] = []
    keeps = options.github or not options.files.keys() <= {"json"}
    with contextlib.ExitStack() as stack:
        out = Growing(options.files.get("json"))
        stack.callback(out.close)
        endings = stack.enter_context(Endings())
        progress = stack.enter_context(progressing())
        told = judge(found, options.how, lambda count: progress(f"judged {count} of {len(found)}"))
        try:
            with contextlib.closing(told):
                for answer in told:
                    tally.add(answer)
                    with progress.aside():
                        _tell(answer, options, out)
                    if keeps and answer.result is not None:
                        kept.append(answer.result)
                    if endings.told:  # raised where nobody heard it, in a finalizer of the engine
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            interrupted = True
        total = tally.total(interrupted=interrupted)
        out.write(line(total))
    written = wrote((path, face(kept, kind)) for kind, path in options.files.items() if kind != "json")
    if options.github:
        click.echo(face(kept, "github"), nl=False)
    if not options.quiet:
        for text in totals(safe(total), len(found)):
            screen().print(text)
    if total.exit is None:
        return Exit.INTERRUPTED
    return total.exit if written and not out.failed else Exit.ERROR


def _tell(answer: Answer, options: Options, out: Growing) -> None:
    out.write(answer.dump())
    if options.quiet:
        return
    report = None if answer.result is None else safe(answer.result)
    short = report is not None  # one line each, however many sentences they break
    screen().print(row(safe(answer.recording), report), no_wrap=short, overflow="ellipsis" if short else None)
    if options.verbose and answer.result is not None:
        print_to(screen(), [answer.result], verbose=True)
