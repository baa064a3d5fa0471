"""One run: open a target, let the probes that apply write into a trace, close everything, and hand the trace over.

Judging comes after, and is a function of the trace (``kvwire.conclusion``). Whatever goes wrong on the way stands in
the trace; what was recorded is never lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import msgspec

from kvwire.attack.probes.catalog import plan
from kvwire.attack.probes.kit.session import Limits, Mode, Probe, Session
from kvwire.attack.targets import LiveTarget, Opened
from kvwire.attack.witness import Recorder, WitnessError
from kvwire.standard.protocol import AdapterError, Refused, Unsupported
from kvwire.standard.registry import JOINS
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.marks import Trouble
from kvwire.trace.records import FORMAT, Header, Trace

DEADLINE_S = 120.0
"""When a driven run ends at the latest; a run that listens ends this long after it has listened."""

SEED = 1

Progress = Callable[[str], None]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is made.

    ``profile`` of None: what the target declares, else by what it shows. ``only``: the ids that are wanted, so that
    probes which serve none of them are left out. ``probes`` of None: those of the ``mode`` that are wanted, else those
    of these names that apply. ``seed`` of None: always the same for a publisher that the harness starts, and
    another in each run for one that ran before it, whose engine would know the prompts of the run before.
    """

    profile: str | None = None
    mode: Mode = "plain"
    only: frozenset[str] | None = None
    probes: tuple[str, ...] | None = None
    limits: Limits = Limits()
    deadline_s: float = DEADLINE_S
    seed: int | None = None

    def seed_for(self, opened: Opened) -> int:
        """The seed of a run against this target."""
        if self.seed is not None:
            return self.seed
        return SEED if opened.life_from_start else random.SystemRandom().getrandbits(32)


def silent(_: str) -> None:
    """Show no progress."""


def default_profile(statement: Statement, streams: Sequence[Stream]) -> str:
    """What a target is held to unless the user says.

    Its own claim, else the legacy profile of its form, else what its streams show: ``ranks`` where several declare
    ranks of their own, ``replay`` where one has a replay socket, the union where both is so.
    """
    if statement.profile is not None:
        return statement.profile
    if statement.form != "map":
        return f"legacy-{statement.form}"
    shown = {
        "ranks": len({stream.rank for stream in streams} - {None}) > 1,
        "replay": any(stream.replay for stream in streams),
    }
    return JOINS.join(name for name, seen in shown.items() if seen) or "core"


def run(
    target: LiveTarget,
    settings: Settings | None = None,
    progress: Progress = silent,
    recorder: Recorder | None = None,
) -> Trace:
    """Run every probe that applies to a target and return the trace; ``interrupted`` when the user ended it.

    ``recorder`` is closed at the end.
    """
    settings = settings or Settings()
    recorder = recorder or Recorder()
    opened: Opened | None = None
    probes: list[str] = []
    left_out: list[str] = []
    interrupted = False
    try:
        progress("reaching the target")
        opened = target.open(recorder)
        session = opened.session(
            recorder,
            limits=settings.limits,
            deadline=time.monotonic() + settings.limits.listen_s + settings.deadline_s,
            seed=settings.seed_for(opened),
        )
        able = plan(session, "thorough")
        if settings.probes is None:
            chosen = plan(session, settings.mode, settings.only)
            left_out += [probe.name for probe in able if probe not in chosen]
        else:
            chosen = tuple(probe for probe in able if probe.name in settings.probes)
        _probe(session, opened, chosen, probes, progress)
    except KeyboardInterrupt:
        interrupted = True
    except (AdapterError, WitnessError) as error:
        recorder.note(Trouble(text=str(error)))
    finally:
        _close(recorder, opened, progress)
    return Trace(
        header=_header(target, opened, tuple(probes), tuple(left_out), settings),
        records=tuple(recorder.records),
        interrupted=interrupted,
    )


def _probe(session: Session, opened: Opened, chosen: tuple[Probe, ...], probes: list[str], progress: Progress) -> None:
    """Run the probes in order; a refusal ends one probe, a broken adapter ends them all."""
    for probe in chosen:
        if session.left() <= 0:
            break
        progress(f"probe {probe.name}")
        probes.append(probe.name)
        try:
            probe(session)
        except (Refused, Unsupported) as error:
            session.trouble(f"probe {probe.name} could not be carried out: {error}", session.driven.name)
        except AdapterError as error:
            if opened.alive():
                session.trouble(f"probe {probe.name}: {error}", session.driven.name)
            break


def _close(recorder: Recorder, opened: Opened | None, progress: Progress) -> None:
    """End what was started; a second interrupt does not leave children behind."""
    progress("closing")
    try:
        if opened is not None:
            opened.close()
    except KeyboardInterrupt:
        if opened is not None:
            opened.close()
    finally:
        recorder.close()


def _header(
    target: LiveTarget,
    opened: Opened | None,
    probes: tuple[str, ...],
    left_out: tuple[str, ...],
    settings: Settings,
) -> Header:
    if opened is None:
        return Header(
            trace=FORMAT,
            edition="1",
            target=target.text,
            level="passive",
            profile=settings.profile or "core",
            probes=probes,
        )
    return Header(
        trace=FORMAT,
        edition=opened.statement.edition,
        target=target.text,
        drive=opened.drive,
        level=opened.level,
        can=opened.can,
        sets=opened.sets,
        profile=settings.profile or default_profile(opened.statement, opened.streams),
        implementation=opened.implementation,
        mode=settings.mode,
        probes=probes,
        left_out=left_out,
        life_from_start=opened.life_from_start,
        statement=opened.statement,
        streams=opened.infos,
    )
