"""One run: open a target, let the probes that apply write into a trace, close everything, and hand the trace over.

Judging comes after, and is a function of the trace (``kvwire.conclusion``). Whatever goes wrong on the way stands in
the trace; what was recorded is never lost.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Sequence

import msgspec
import zmq

from kvwire.attack.endings import Endings
from kvwire.attack.orphans import Orphans
from kvwire.attack.probes.catalog import ASIDE, PROBES, plan
from kvwire.attack.probes.kit.session import Limits, Mode, Probe, Session
from kvwire.attack.targets import LiveTarget, Opened
from kvwire.attack.targets.process import END_S
from kvwire.attack.witness import Recorder, WitnessError
from kvwire.standard.machine import refusal
from kvwire.standard.protocol import AdapterError, Refused, Start, Unsupported
from kvwire.standard.registry import JOINS
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.marks import Trouble
from kvwire.trace.planned import CUT, Left, Planned
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


def default_profile(statement: Statement, streams: Sequence[Stream], start: Start | None = None) -> str:
    """What a target is held to unless the user says.

    Its own claim, else the legacy profile of its form, else what its streams show, and those of its statement:
    ``ranks`` where several declare ranks of their own, or ``start`` made it one of several, ``replay`` where one has
    a replay socket, the union where both is so.
    """
    if statement.profile is not None:
        return statement.profile
    if statement.form != "map":
        return f"legacy-{statement.form}"
    world = (start and start.world) or 1
    shown = {
        "ranks": len({stream.rank for stream in (*streams, *statement.streams)} - {None}) > 1 or world > 1,
        "replay": any(stream.replay for stream in streams),
    }
    return JOINS.join(name for name, seen in shown.items() if seen) or "core"


def run(
    target: LiveTarget,
    settings: Settings | None = None,
    progress: Progress = silent,
    recorder: Recorder | None = None,
    *,
    alone: bool = False,
) -> Trace:
    """Run every probe that applies to a target and return the trace; ``interrupted`` when the user ended it.

    ``recorder`` is closed at the end, and so is what it writes to. ``alone``: this process starts nothing else
    meanwhile, so that whatever children it has then are what the target left behind, and are ended.
    """
    settings = settings or Settings()
    recorder = recorder or Recorder()
    under_way = _UnderWay()
    orphans = Orphans() if alone else None
    with Endings() as endings:
        interrupted = False
        try:
            try:
                _attack(target, settings, progress, recorder, under_way)
            except (AdapterError, WitnessError, zmq.ZMQError) as error:
                recorder.note(Trouble(text=str(error)))
                under_way.course.cut(Left.ENDED)
            endings.hold()
        except KeyboardInterrupt:  # the only one: signals behind it are noted
            interrupted = True
            under_way.course.cut(Left.INTERRUPTED)
        finally:
            endings.hold()
            _close(recorder, under_way.opened, progress, orphans)
        header = _header(target, under_way.opened, under_way.course, settings)
        interrupted = interrupted or bool(endings.told)
        if recorder.sink is not None:
            recorder.sink.end(interrupted=interrupted, header=header)
        return Trace(
            header=header,
            records=tuple(recorder.records),
            interrupted=interrupted,
        )


class _UnderWay:
    """What there is of a run that may end at any time."""

    def __init__(self) -> None:
        self.opened: Opened | None = None
        self.course = Course()


def _attack(
    target: LiveTarget, settings: Settings, progress: Progress, recorder: Recorder, under_way: _UnderWay
) -> None:
    recorder.stalls.start()
    progress("reaching the target")
    under_way.opened = opened = target.open(recorder)
    session = opened.session(
        recorder,
        limits=settings.limits,
        deadline=time.monotonic() + settings.limits.listen_s + settings.deadline_s,
        seed=settings.seed_for(opened),
    )
    under_way.course = Course.of(session, settings)
    if recorder.sink is not None:
        recorder.sink.begin(_header(target, opened, under_way.course, settings))
    _probe(session, opened, under_way.course, progress)


class Course:
    """What becomes of each probe of a run.

    ``todo`` are those that are to be carried out, in order; ``probes`` those that were begun.
    """

    def __init__(self, todo: tuple[Probe, ...] = (), left: dict[str, Left] | None = None) -> None:
        self.todo = list(todo)
        self.probes: list[str] = []
        self.left = left or {}
        self.planned: dict[str, Planned] = {}

    @classmethod
    def of(cls, session: Session, settings: Settings) -> Course:
        """What a run is to do with this target."""
        able = plan(session, "thorough")
        if settings.probes is not None:
            aside = (probe for probe in ASIDE if probe.applies(session))
            return cls(tuple(probe for probe in (*able, *aside) if probe.name in settings.probes))
        chosen = plan(session, settings.mode, settings.only)
        left = {probe.name: _left(probe, session, settings) for probe in able if probe not in chosen}
        course = cls(chosen, left)
        known = dict.fromkeys((*PROBES, *chosen))
        course.planned = {probe.name: _planned(probe, session, left.get(probe.name)) for probe in known}
        return course

    def cut(self, why: Left, said: str = "") -> None:
        """The probe that is under way, and what was to come, is not carried out to its end."""
        for probe in self.todo:
            self.leave(probe, why, said)
        self.todo.clear()

    def leave(self, probe: Probe, why: Left, said: str = "") -> None:
        """A probe is not carried out, or not to its end."""
        if why in CUT and probe.name not in self.probes:
            self.left[probe.name] = why
        if probe.name in self.planned:
            self.planned[probe.name] = msgspec.structs.replace(self.planned[probe.name], left=why, said=said)


def _left(probe: Probe, session: Session, settings: Settings) -> Left:
    return Left.ONLY if probe.applies(session, settings.mode) else Left.MODE


def _planned(probe: Probe, session: Session, left: Left | None) -> Planned:
    lacks = probe.needs - session.can
    if lacks:
        left = Left.REPLAY if "replayable" in lacks else Left.DECLARATION if lacks == {"heartbeat"} else Left.VERB
    survived = (requirement.removeprefix("KVW-") for requirement in probe.must_survive)
    serves = " ".join(dict.fromkeys((*probe.serves.split(), *survived)))
    return Planned(name=probe.name, serves=serves, left=left, lacks=tuple(sorted(lacks)))


def _over(session: Session) -> Left | None:
    """Why nothing more can be done; None when it can."""
    if session.left() > 0:
        return None
    return Left.FULL if session.recorder.full else Left.TIME if session.alive() else Left.ENDED


def _probe(session: Session, opened: Opened, course: Course, progress: Progress) -> None:
    """Run the probes in order; a refusal ends one probe, a broken adapter ends them all."""
    while course.todo:
        if (over := _over(session)) is not None:
            course.cut(over)
            break
        probe = course.todo[0]
        count = len(course.probes) + len(course.todo)
        place = f"{len(course.probes) + 1} of {count}" if count > 1 else ""
        progress(f"probe {probe.name} ({place}{', ' if place else ''}{session.left():.0f} s left at most)")
        course.probes.append(probe.name)
        try:
            probe(session)
        except (Refused, Unsupported) as error:
            session.trouble(f"probe {probe.name} could not be carried out: {error}", session.driven.name)
            course.leave(probe, Left.REFUSED, str(error))
        except AdapterError as error:
            if opened.alive():
                session.trouble(f"probe {probe.name}: {error}", session.driven.name)
            course.cut(Left.ENDED, str(error))
            break
        except zmq.ZMQError as error:  # an endpoint that nobody can use, or too many sockets
            session.trouble(f"probe {probe.name}: {error}", session.driven.name)
            course.leave(probe, Left.REFUSED, str(error))
        except Exception as error:  # noqa: BLE001 - the harness's own fault loses nothing that was found
            if not (said := refusal(error)):
                traceback.print_exc()
                said = f"a fault of the harness, please report it: {type(error).__name__}: {error}"
            session.trouble(f"probe {probe.name}: {said}", session.driven.name)
            course.leave(probe, Left.REFUSED, said)
        if (over := _over(session)) is not None:
            course.leave(probe, over)
        del course.todo[0]


def _close(recorder: Recorder, opened: Opened | None, progress: Progress, orphans: Orphans | None) -> None:
    """End what was started."""
    progress("closing")
    try:
        if opened is not None:
            opened.close()
    finally:
        recorder.close()
        if orphans is not None:
            orphans.end(END_S)


def _header(
    target: LiveTarget,
    opened: Opened | None,
    course: Course,
    settings: Settings,
) -> Header:
    if opened is None:
        return Header(
            trace=FORMAT,
            edition="1",
            target=target.text,
            level="passive",
            profile=settings.profile or "core",
            mode=settings.mode,
        )
    return Header(
        trace=FORMAT,
        edition=opened.statement.edition,
        target=target.text,
        drive=opened.drive,
        level=opened.level,
        can=opened.can,
        sets=opened.sets,
        profile=settings.profile or default_profile(opened.statement, opened.streams, opened.start),
        implementation=opened.implementation,
        mode=settings.mode,
        probes=tuple(course.probes),
        left_out=tuple(course.left),
        plan=tuple(course.planned.values()),
        life_from_start=opened.life_from_start,
        statement=opened.statement,
        streams=opened.infos,
    )
