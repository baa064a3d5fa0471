"""``kvwire check``."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from kvwire.attack import targets
from kvwire.attack.endings import Endings
from kvwire.attack.probes.kit.session import Limits, Mode
from kvwire.attack.run import DEADLINE_S, Settings, run
from kvwire.attack.targets import TargetError, TraceTarget, parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness import Recorder
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
@click.option("--drive", metavar="openai:URL", help="Drive the engine behind zmq:… by its OpenAI-compatible API.")
@click.option(
    "--record", type=FILE, help="Write the trace of the run to this file, as it comes; judge it again with `judge`."
)
@click.option(
    "--for",
    "seconds",
    type=Seconds(min=0.1),
    help="Seconds to listen to a target that is not driven (10); what else is done takes as many at most, or 5.",
)
@click.option("--quick", is_flag=True, help="Listen (4 s), work a little, ask for replay; no attack, no claim (12 s).")
@click.option("--thorough", is_flag=True, help="Everything, long runs under pressure included (minutes).")
def check(
    target: str,
    options: Options,
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
    was lost for good, or time ran out), 4 error (the target was not reached, the harness failed, or a file
    could not be written), 130 interrupted (Ctrl-C or SIGTERM; what was found is kept).
    With --expected-failures, what the file expects does not count, and an entry that does not come true is 1.
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
            recorded = run(place, how, progress, Recorder(sink=sink))
        code = finish(recorded, options)
        if sink is not None and sink.failed is not None:
            say(f"kvwire: --record {sink.failed}", err=True)
            return Exit.ERROR
        return Exit.INTERRUPTED if endings.told else code
