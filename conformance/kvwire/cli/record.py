"""``kvwire record``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kvwire.attack.curve import Curve
from kvwire.attack.endings import Endings
from kvwire.attack.recording import record
from kvwire.attack.targets import TargetError, parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness import whole
from kvwire.cli.credentials import curve_options
from kvwire.cli.judging import FILE, progressing
from kvwire.cli.quantities import Duration, Size, Whole
from kvwire.cli.screen import say
from kvwire.judges.verdict import Exit
from kvwire.trace.files import Sink
from kvwire.trace.records import TraceError

ROTATE_BYTES = 64 * 1024
"""How small a part may be."""


def sink_of(path: Path, rotate: int | None = None) -> Sink:
    """Where a run is recorded.

    Raises:
        click.UsageError: when nothing can be written there.
    """
    try:
        return Sink(path, rotate=rotate, shield=whole)
    except TraceError as error:
        raise click.UsageError(str(error)) from None


@click.command("record")
@click.argument("target")
@click.option("--output", "-o", "path", type=FILE, required=True, help="The file: .mcap for long recordings, .kvtrace.")
@click.option("--for", "seconds", type=Duration(), help="End after this time: 90, 30s, 1h30m, 2d.")
@click.option("--batches", type=Whole(min=1), help="End after so many batches, of all streams together.")
@click.option("--rotate", type=Size(ROTATE_BYTES), help="Go on in another file at this size: FILE.0001, FILE.0002 …")
@click.option("--overwrite", is_flag=True, help="Replace FILE where there is one.")
@curve_options
def record_command(
    target: str,
    path: Path,
    seconds: float | None,
    batches: int | None,
    rotate: int | None,
    overwrite: bool,
    curve: Curve | None,
) -> int:
    """Record what the publisher at TARGET (zmq:… or a statement, FILE.toml) sends, until stopped; judge it later.

    It listens only: no prompt, no replay request. A lost connection is tried again for as long as it takes. What was
    recorded more than a second ago can be read whatever happens; Ctrl-C and SIGTERM end the file in good order. With
    --rotate each part can be judged alone, or all of them together, and numbers go on behind those that are there.

    Exit codes: 0 the file is whole, 2 usage, 3 nothing was heard, 4 error (the disk is full, or the processes that
    listen have ended): what was recorded before is kept.
    """
    try:
        place = parse(target)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    if not isinstance(place, ListenTarget):
        raise click.UsageError(f"{target!r} is not listened to: name a running publisher, zmq:ENDPOINT or FILE.toml")
    if rotate is None and path.is_file() and path.stat().st_size and not overwrite:
        raise click.UsageError(f"{path} is there already: name another file, or replace it with --overwrite")
    sink = sink_of(path, rotate)
    began = time.monotonic()
    with Endings() as endings, progressing() as progress:
        endings.hold()
        done = record(
            place,
            sink,
            seconds=seconds,
            batches=batches,
            stopped=lambda: bool(endings.told),
            curve=curve,
            tell=lambda count: progress(f"{_so_far(sink, count)}, {time.monotonic() - began:.0f} s"),
        )
    if done.failed is not None:
        say(f"kvwire: {done.failed}", err=True)
        return Exit.ERROR
    if not done.batches:
        why = "connected, and nothing came" if done.connected else done.refused or "no publisher was reached"
        say(f"kvwire: {why}", err=True)
        return Exit.INCONCLUSIVE
    return Exit.CONFORMANT


def _so_far(sink: Sink, batches: int) -> str:
    parts = f" in {len(sink.files)} parts" if len(sink.files) > 1 else ""
    return f"{batches} batches, {sink.size / 1e6:.1f} MB{parts}"
