"""The command line. Exit codes: 0 conformant at this level, 1 not conformant, 2 usage, 3 inconclusive, 4 error,
130 interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, TextIO

import click

from kvwire.attack.endings import SIGNALS
from kvwire.cli.baseline import baseline
from kvwire.cli.check import check
from kvwire.cli.completion import completion
from kvwire.cli.doctor import doctor
from kvwire.cli.examples import show
from kvwire.cli.hash import hash_command
from kvwire.cli.judge import judge_command
from kvwire.cli.lookup import lookup_command
from kvwire.cli.peers import honest, mutants, serve
from kvwire.cli.record import record_command
from kvwire.cli.recordings import convert, scrub, verify
from kvwire.cli.report import report_command
from kvwire.cli.screen import say, say_json, screen
from kvwire.cli.selftest import selftest
from kvwire.cli.spec import spec
from kvwire.cli.vectors import vectors
from kvwire.cli.watch import watch_command
from kvwire.judges import TABLE
from kvwire.judges.verdict import Exit
from kvwire.report.visible import visible
from kvwire.standard import registry
from kvwire.standard.machine import refusal
from kvwire.standard.registry import LEVELS


class ReaderLeftError(Exception):
    """Nobody reads what is printed any more."""


class Kvwire(click.Group):
    """The commands. What click makes of a reader that has left is exit code 1, which means *not conformant* here."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the arguments; ``--help`` prints."""
        try:
            return super().make_context(*arguments, **options)
        except BrokenPipeError:
            raise ReaderLeftError from None

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderLeftError from None


@click.group(cls=Kvwire, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("kvwire"), prog_name="kvwire")
def main() -> None:
    """Say, sentence by sentence of the standard, what a KV-cache event publisher keeps.

    \b
    kvwire check                             the reference publisher
    kvwire check 'zmq:tcp://HOST:PORT'       a running publisher, listening only
    kvwire check 'exec:COMMAND'              a publisher behind an adapter
    kvwire doctor 'zmq:tcp://HOST:PORT'      what is on the stream?

    Exit codes: 0 nothing broken was seen, 1 not conformant, 2 usage, 3 inconclusive, 4 error, 130 interrupted.
    """  # noqa: D301 - click reads the \b


def _ids(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """What a shell offers for a word that is begun: ids, with ``KVW-`` or as reports print them."""
    known = [requirement.id for requirement in registry.load().requirements]
    names = known if begun.upper().startswith("K") else [name.removeprefix("KVW-") for name in known]
    return [name for name in names if name.startswith(begun.upper())]


@main.command("list")
@click.argument("names", nargs=-1, metavar="[ID]...", shell_complete=_ids)
@click.option("--profile", help="Only the sentences of this profile, and from which level each has to be conclusive.")
@click.option("--level", help="Only this level: MUST, SHOULD, MAY, 'MUST NOT', 'SHOULD NOT'.")
@click.option("--binds", type=click.Choice(["publisher", "consumer", "replay-client"]), help="Only what binds these.")
@click.option("--not-judged", is_flag=True, help="Only sentences without a judge, with the reason.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_command(
    names: tuple[str, ...],
    profile: str | None,
    level: str | None,
    binds: str | None,
    not_judged: bool,
    as_json: bool,
) -> None:
    """List the sentences of the standard, or those of these ids and areas such as SEQ."""
    from rich.table import Table
    from rich.text import Text

    try:
        held = None if profile is None else registry.profile(profile)
        named = registry.load().select(names)
    except registry.UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    rows = [
        r
        for r in registry.load().requirements
        if (held is None or r.id in held.ids)
        and (not names or r.id in named)
        and (level is None or r.level == level.upper())
        and (binds is None or r.binds == binds)
        and not (not_judged and r.id in TABLE)
    ]
    if not rows:
        raise click.UsageError("no sentence matches these filters")
    if as_json:
        for row in rows:
            say_json(row)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "level", "binds", "status", *(("conclusive from",) if held else ()), "sentence"):
        table.add_column(name, no_wrap=name in ("id", "level"), overflow="fold")
    for row in rows:
        reason = row.pending or row.review or row.untestable
        text = row.sentence if not (not_judged and reason) else f"{row.sentence} ({reason})"
        wanted = () if held is None else (next((at for at in LEVELS if row.id in held.conclusive[at]), "–"),)
        table.add_row(row.id, row.level, row.binds, row.status, *wanted, Text(text))
    screen().print(table)


@main.command()
@click.argument("requirement", metavar="ID", shell_complete=_ids)
def explain(requirement: str) -> None:
    """Explain one sentence: its words, place, what it needs, what decides it, its probes and its mutants."""
    from kvwire.cli.explanation import explanation

    try:
        click.echo(explanation(requirement))
    except registry.UnknownNameError as error:
        raise click.UsageError(str(error)) from None


main.add_command(check)
main.add_command(judge_command)
main.add_command(record_command)
main.add_command(watch_command)
main.add_command(convert)
main.add_command(scrub)
main.add_command(verify)
main.add_command(doctor)
main.add_command(lookup_command)
main.add_command(report_command)
main.add_command(baseline)
main.add_command(hash_command)
main.add_command(serve)
main.add_command(mutants)
main.add_command(honest)
main.add_command(spec)
main.add_command(vectors)
main.add_command(selftest)
main.add_command(completion)
show(main)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing else decides it.

    An uncaught exception is 4, with its traceback on standard error: Python's own 1 means *not conformant* here. What
    the machine refuses (a full disk, a folder that is gone, a reader that has left) is 4 too, and said in one line.
    """
    try:
        code = main.main(args=arguments, prog_name="kvwire", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Abort:
        return int(Exit.INTERRUPTED)
    except click.ClickException as error:
        return _refused(error)
    except KeyboardInterrupt:
        say("interrupted", err=True)
        return int(Exit.INTERRUPTED)
    except (ReaderLeftError, BrokenPipeError):
        _say_no_more(sys.stdout)
        return int(Exit.ERROR)
    except Exception as error:  # noqa: BLE001 - the one place that maps whatever goes wrong to an exit code
        if not (refused := refusal(error)):
            return _fault()
        if isinstance(error, OSError):
            _say_no_more(sys.stdout)
        with contextlib.suppress(OSError):
            say(f"kvwire: error: {refused}", err=True)
        return int(Exit.ERROR)
    return code if isinstance(code, int) else int(Exit.CONFORMANT)


def _refused(error: click.ClickException) -> int:
    """Say what cannot be used; of what stands in it, a terminal obeys nothing."""
    if not isinstance(error, click.MissingParameter):  # whose lines are ours
        context = error.ctx if isinstance(error, click.UsageError) else None
        error = click.UsageError(visible(error.format_message()), context)
    error.show()
    return int(Exit.USAGE)


def _fault() -> int:
    traceback.print_exc()
    say("kvwire: error: this is a fault of the harness, not of the target; please report it", err=True)
    return int(Exit.ERROR)


def _say_no_more(stream: TextIO | None) -> None:
    """It takes nothing more: what waits there goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _handed_on() -> None:
    """Flush what was printed. What a closed terminal refuses is left: Python would end with 120 for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            _say_no_more(stream)


def entry() -> None:
    """The console script. A terminal that does not know a character gets its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for number in SIGNALS:  # where a command does nothing of its own about them, each is an interrupt
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    try:
        code = run()
    except KeyboardInterrupt:  # between what it did last and here
        code = int(Exit.INTERRUPTED)
    for number in SIGNALS:  # everything is told: one more ends at once, and changes nothing
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))
    _handed_on()
    atexit.register(_ignore_signals)
    sys.exit(code)


def _ignore_signals() -> None:
    """While the interpreter goes, it puts back what a signal did before: an end without our exit code."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
