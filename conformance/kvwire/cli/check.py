"""``kvwire check``."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from kvwire.attack import targets
from kvwire.attack.curve import Curve
from kvwire.attack.endings import Endings
from kvwire.attack.probes.kit.session import Limits, Mode
from kvwire.attack.run import DEADLINE_S, Settings, run
from kvwire.attack.targets import TargetError, TraceTarget, parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness import Recorder
from kvwire.cli.credentials import curve_options
from kvwire.cli.judge import judged
from kvwire.cli.judging import FILE, FINISHING, Options, finish, judging_options, progressing
from kvwire.cli.quantities import Seconds
from kvwire.cli.record import sink_of
from kvwire.cli.screen import say
from kvwire.judges.verdict import Exit

QUICK_LISTEN_S = 4.0
"""How long a quick run listens to a target that is not driven."""
QUICK_S = 8.0
"""When a quick run ends at the latest, after it could have listened."""
HANDSHAKE_S = 2.0
"""For how long a handshake is awaited at least, however short ``--for`` is."""
WORK_S = 5.0
"""What ``--for`` leaves at least for everything but listening."""


def settings(profile: str | None, mode: Mode, only: frozenset[str] | None, seconds: float | None) -> Settings:
    """How a run is made; ``seconds`` to listen to a target that nobody drives bound what else is done."""
    limits, deadline_s = Limits(), DEADLINE_S
    if mode == "quick":
        limits, deadline_s = msgspec.structs.replace(limits, listen_s=QUICK_LISTEN_S), QUICK_S
    if seconds is not None:
        limits = msgspec.structs.replace(limits, listen_s=seconds, handshake_s=min(max(HANDSHAKE_S, seconds), 5.0))
        deadline_s = min(deadline_s, max(WORK_S, seconds))
    return Settings(profile=profile, mode=mode, only=only, limits=limits, deadline_s=deadline_s)


@click.command()
@click.argument("target", default="reference:")
@judging_options
@curve_options
@click.option("--drive", metavar="openai:URL", help="Prompts to the engine behind zmq:…, by its API.")
@click.option("--record", type=FILE, help="Write the trace of the run there, for `judge`.")
@click.option(
    "--for",
    "seconds",
    type=Seconds(min=0.1),
    metavar="SECONDS",
    help="Listen so long (10); bounds the rest.",
)
@click.option("--quick", is_flag=True, help="No attack, no claim: 12 s at most.")
@click.option("--thorough", is_flag=True, help="Long runs under pressure too (minutes).")
def check(
    target: str,
    options: Options,
    drive: str | None,
    record: Path | None,
    seconds: float | None,
    quick: bool,
    thorough: bool,
    curve: Curve | None,
) -> int:
    """Check a publisher: attack TARGET and say, sentence by sentence, what holds.

    \b
    kvwire check                            the reference publisher (reference:)
    kvwire check 'zmq:tcp://H:P?replay=tcp://H:P&topic=T&ranks=N&mode=connect|bind'
    kvwire check zmq:tcp://H:P --drive openai:http://H:P/v1       and its engine
    kvwire check 'exec:COMMAND'             a publisher behind an adapter
    kvwire check kvwire.toml                a conformance statement
    kvwire check mutant:NAME                one known fault; honest:NAME: none
    kvwire check trace:FILE                 a recorded run

    Exit codes: 0 conformant at this level (--quick, --only: nothing broken was seen, no claim), 1 not conformant, or
    not as expected, 2 usage, 3 inconclusive, 4 error, 130 interrupted: what was found is kept.
    """  # noqa: D301 - click reads the \b
    try:
        place = parse(target)
        if drive is not None:
            place = targets.drive(place, drive)
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    if quick and thorough:
        raise click.UsageError("--quick and --thorough exclude each other")
    if isinstance(place, TraceTarget):
        if record is not None or seconds is not None or quick or thorough:
            raise click.UsageError(
                "a trace is judged, not run: --record, --for, --quick and --thorough say nothing here"
            )
        return judged((place.path,), options)
    mode: Mode = "quick" if quick else "thorough" if thorough else "plain"
    sink = None if record is None else sink_of(record)
    with Endings(patience=1, said=FINISHING) as endings:
        with progressing() as progress:
            bounded = seconds if isinstance(place, ListenTarget) else None
            how = settings(options.how.profile, mode, options.ids, bounded)
            recorded = run(place, how, progress, Recorder(options.how.held, sink=sink, curve=curve), alone=True)
        code = finish(recorded, options)
        if sink is not None and sink.failed is not None:
            say(f"kvwire: --record {sink.failed}", err=True)
            return Exit.ERROR
        return Exit.INTERRUPTED if endings.told else code
