"""``kvwire watch``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvwire.attack.curve import Curve
from kvwire.attack.endings import Endings
from kvwire.attack.targets import TargetError, parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.cli.credentials import curve_options
from kvwire.cli.judging import FILE
from kvwire.cli.quantities import Duration, Place
from kvwire.cli.screen import say, writable, wrote
from kvwire.conclusion.conclude import FilterError, select
from kvwire.conclusion.result import Recording
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit
from kvwire.recordings.judging import Answer, dumped, line
from kvwire.recordings.many import Tally
from kvwire.report.visible import visible
from kvwire.standard import registry
from kvwire.standard.registry import UnknownNameError
from kvwire.watch.beside import StreamState, Violations
from kvwire.watch.lines import Line, Lines
from kvwire.watch.watching import Ended, Watch

if TYPE_CHECKING:
    from kvwire.watch.metrics import Serving


@click.command("watch")
@click.argument("targets", metavar="TARGET…", nargs=-1, required=True)
@click.option("--metrics", "place", type=Place(), help="Serve /metrics and /healthz on this port.")
@click.option("--for", "seconds", type=Duration(), help="End after this time: 90, 30s, 1h30m, 2d.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--replay-gaps", "replays", is_flag=True, help="Ask the replay socket for what was missed.")
@click.option("--result", type=FILE, help="Write the result stream there at the end.")
@click.option("--silent", "silent_s", type=Duration(), help="A longer pause is silence, whatever its rhythm.")
@click.option("--profile", help="Hold them to this profile: core, replay, ranks, …")
@click.option("--only", multiple=True, metavar="ID", help="Only this sentence or area; again for more.")
@click.option("--strict", is_flag=True, help="A warning is a failure.")
@click.option("--allow-inconclusive", is_flag=True, help="Exit 0, not 3, when too little was seen.")
@curve_options
def watch_command(
    targets: tuple[str, ...],
    place: tuple[str, int] | None,
    seconds: float | None,
    as_json: bool,
    replays: bool,
    result: Path | None,
    silent_s: float | None,
    profile: str | None,
    only: tuple[str, ...],
    strict: bool,
    allow_inconclusive: bool,
    curve: Curve | None,
) -> int:
    """Judge what the publishers at TARGET… (zmq:… or FILE.toml) send, beside them, until stopped; for weeks.

    It only listens. Publishers and networks may go and come back. A line tells what is new: of each sentence and stream
    the first three findings, then a count an hour. /healthz is 200 while every stream is heard within its own rhythm.
    Ctrl-C, SIGTERM, a closed terminal and a reader that leaves end it in good order.

    Exit codes are those of `kvwire check`; of several targets the first of 1, 4, 3, 0 that one of them has.
    """
    places = [_listened(text) for text in targets]
    if twice := sorted({text for text in targets if targets.count(text) > 1}):
        raise click.UsageError(f"{twice[0]!r} is named twice")
    try:
        if profile is not None:
            registry.profile(profile)
        select(only, registry.load())
    except (UnknownNameError, FilterError) as error:
        raise click.UsageError(str(error)) from None
    if result is not None:
        writable(result, "--result")
    out = _Out(as_json=as_json)
    lines = Lines(out.write, time.monotonic())
    wanted = Wanted(only=only, strict=strict, allow_inconclusive=allow_inconclusive)
    with contextlib.ExitStack() as stack:
        serving = None if place is None else _serving(*place)
        if serving is not None:
            stack.callback(serving.close)
        endings = stack.enter_context(Endings())
        endings.hold()
        watch = Watch(
            places,
            lines,
            profile=profile,
            wanted=wanted,
            replays=replays,
            silent_s=silent_s,
            curve=curve,
            show=lambda now, streams, violations: _show(serving, now, streams, violations),
        )
        failed = watch.run(lambda: bool(endings.told) or out.gone, seconds)
        for why in failed:
            say(f"kvwire: {why}", err=True)
        return _finish(watch.results(), lines, result, failed=bool(failed) or (out.gone and not endings.told))


def _listened(text: str) -> ListenTarget:
    try:
        target = parse(text)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    if not isinstance(target, ListenTarget):
        raise click.UsageError(f"{text!r} is not listened to: name a running publisher, zmq:ENDPOINT or FILE.toml")
    return target


class _Out:
    """Standard output. When its reader has left, or its terminal is closed, the watch ends in good order."""

    def __init__(self, *, as_json: bool) -> None:
        self.gone = False
        self._as_json = as_json

    def write(self, said: Line) -> None:
        """A line, as far as there is somebody to read it."""
        if self.gone:
            return
        try:
            click.echo(said.json if self._as_json else said.words)
        except OSError:
            self.gone = True


def _serving(host: str, port: int) -> Serving:
    try:
        from kvwire.watch.metrics import Serving
    except ModuleNotFoundError:
        raise click.UsageError("--metrics needs prometheus-client: `python -m pip install prometheus-client`") from None
    try:
        serving = Serving(host, port)
    except OSError as error:
        raise click.UsageError(f"--metrics {host}:{port}: {error.strerror or error}") from None
    shown = f"[{host}]" if ":" in host else host
    say(f"kvwire: http://{shown}:{serving.port}/metrics and /healthz", err=True)
    return serving


def _show(
    serving: Serving | None, now: float, streams: Sequence[StreamState], violations: Sequence[Violations]
) -> None:
    if serving is not None:
        from kvwire.watch.metrics import View

        serving.view = View(at=now, streams=streams, violations=violations)


def _finish(results: Sequence[Ended], lines: Lines, path: Path | None, *, failed: bool) -> int:
    """Say what it came to, write the result stream, and give the exit code."""
    tally, written = Tally(), b""
    for name, found, members in results:
        why = "" if found is not None else "it was never listened to"
        told = Recording(name=visible(name), ended="whole", error=why)
        answer = Answer(recording=told, result=found, members=members)
        tally.add(answer)
        written += answer.dump() if len(results) > 1 or found is None else dumped(found)
        if found is not None:
            lines.ended(name, found.summary.headline, found.summary.exit)
    total = tally.total()
    if len(results) > 1:
        written += line(total)
    if path is not None and not wrote([(path, written)]):
        failed = True
    if failed and total.exit != Exit.NOT_CONFORMANT:
        return Exit.ERROR
    return Exit.ERROR if total.exit is None else total.exit
