"""``session/sessions.json``: what each session is, by its plan or its story, and what the judges say of its trace.

All of it follows from the traces, the plans, the stories and the judges; nothing else is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from kvwire.judges.verdict import Verdict
from kvwire.standard.registry import LEVELS
from kvwire.trace.marks import Witnesses
from kvwire.trace.records import LIVE, Trace
from kvwire.vectors import sessions
from kvwire.vectors.model import EDITION, SESSION_SCHEMA, Note, Said, SessionExpected, SessionFile, SessionInput
from kvwire_generators.sessions.plans import AT_WORK, Plan, mutant_of, plans

NOTES: dict[str, Note] = {
    "recorded": Note(
        kind="origin",
        description="a run of kvwire against a publisher of its own; its clocks begin at 0, its paths are made up",
    ),
    "synthetic": Note(kind="origin", description="a story: records that were written, not received"),
    "honest": Note(kind="property", description="nothing is broken, however it looks: nobody may speak"),
    "mutant": Note(
        kind="property",
        description="the reference with one small fault; the first of the requirements is the sentence that it breaks, "
        "the others speak with it",
    ),
    "one-witness": Note(
        kind="property", description="of the two live witnesses one is kept; the other one changes no verdict"
    ),
    "lowered": Note(
        kind="property", description="of a run that was driven, what this level of control would have shown"
    ),
    "two-streams": Note(kind="property", description="two ranks, each with a stream of its own"),
}
OPEN = (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)
"""What a group may say of a requirement for all of its sessions: the more frequent one."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session: what it is, its trace, and what is said of it."""

    name: str
    comment: str
    flags: tuple[str, ...]
    requirements: tuple[str, ...]
    recording: Trace
    expected: SessionExpected


def spoken(expected: SessionExpected) -> frozenset[str]:
    """The ids that are FAIL or WARN."""
    heard = (Verdict.FAIL, Verdict.WARN)
    return frozenset(name for said in expected.verdicts.values() for name, what in said.items() if what in heard)


def honest(name: str, comment: str, flags: Iterable[str], requirements: Iterable[str], recording: Trace) -> Session:
    """A session on which nobody may speak; the requirements are those that it is about.

    Raises:
        sessions.SessionError: when somebody does.
    """
    told = broken(name, comment, flags, (), recording)
    return msgspec.structs.replace(told, requirements=tuple(requirements))


def broken(name: str, comment: str, flags: Iterable[str], requirements: Iterable[str], recording: Trace) -> Session:
    """A session on which the judges of these requirements speak, and nobody else.

    Raises:
        sessions.SessionError: when others do.
    """
    expected = sessions.expected_of(sessions.judged(recording))
    if (heard := spoken(expected)) != set(requirements):
        raise sessions.SessionError(f"{name}: {', '.join(sorted(heard)) or 'nobody'} spoke")
    return Session(
        name=name,
        comment=comment,
        flags=tuple(flags),
        requirements=tuple(requirements),
        recording=recording,
        expected=expected,
    )


def planned(name: str, plan: Plan, recording: Trace) -> Session:
    """The session that a plan asks for, from a trace.

    Raises:
        sessions.SessionError: when the trace is none of this plan, or does not show what it is for.
    """
    header = recording.header
    if (header.level, header.profile) != (plan.level, plan.profile):
        found = f"{header.level} and {header.profile}"
        raise sessions.SessionError(f"{name}: planned is {plan.level} and {plan.profile}, the trace is {found}")
    result = sessions.judged(recording)
    if result.troubles:
        raise sessions.SessionError(f"{name}: the run was in trouble: {result.troubles[0].text}")
    flags = []
    if plan.target != AT_WORK and plan.level != "driven":
        flags.append("lowered")
    heard_by = [record.detail.of for record in recording.records if isinstance(record.detail, Witnesses)]
    if any(LIVE[1] not in of for of in heard_by):
        flags.append("one-witness")
    if len(header.streams) > 1:
        flags.append("two-streams")
    what = mutant_of(name)
    if what is None:
        return honest(name, plan.comment, ("recorded", "honest", *flags), (), recording)
    expected = sessions.expected_of(result)
    heard = spoken(expected)
    if what.primary not in heard or not heard <= what.expected[plan.level]:
        wanted = sorted(what.expected[plan.level])
        raise sessions.SessionError(f"{name}: spoke {sorted(heard)}, of {wanted} with {what.primary}")
    return Session(
        name=name,
        comment=plan.comment,
        flags=("recorded", "mutant", *flags),
        requirements=(what.primary, *sorted(heard - {what.primary})),
        recording=recording,
        expected=expected,
    )


def recorded(folder: Path) -> tuple[list[Session], list[str]]:
    """The sessions that are planned, from the traces that a folder of vectors has, and what is wrong with those."""
    found, problems = [], []
    for name, plan in plans().items():
        if (folder / sessions.path_of(name)).is_file():
            try:
                found.append(planned(name, plan, sessions.trace_of(folder, name)))
            except sessions.SessionError as error:
                problems.append(f"{sessions.path_of(name)}: {error}: run `python -m kvwire_generators record {name}`")
    return found, problems


def file(told: Collection[Session]) -> SessionFile:
    """``sessions.json``: sessions of one profile and level are a group, so that a line names only what is its own."""
    kinds = sorted({_kind(session) for session in told}, key=lambda kind: (kind[0], LEVELS.index(kind[1])))
    groups = tuple(
        _group(*kind, sorted((one for one in told if _kind(one) == kind), key=lambda one: one.name)) for kind in kinds
    )
    return SessionFile(
        schema=SESSION_SCHEMA,
        spec_edition=EDITION,
        generator=__name__,
        count=len(told),
        notes={flag: NOTES[flag] for flag in sorted({flag for session in told for flag in session.flags})},
        groups=groups,
    )


def _kind(session: Session) -> tuple[str, str]:
    return session.recording.header.profile, session.recording.header.level


def _group(profile: str, level: str, told: list[Session]) -> sessions.SessionGroup:
    counts: dict[str, Counter[Said]] = {}
    for session in told:
        for said in session.expected.verdicts.values():
            for name, what in said.items():
                counts.setdefault(name, Counter())[what] += 1
    otherwise = {name: max(OPEN, key=lambda verdict: count[verdict]) for name, count in counts.items()}
    return sessions.SessionGroup(
        name=f"{profile}, {level}",
        comment=f"held to the profile {profile}, {level}",
        otherwise=otherwise,
        tests=tuple(_test(session, otherwise) for session in told),
    )


def _test(session: Session, otherwise: Mapping[str, Verdict]) -> sessions.Session:
    header, expected = session.recording.header, session.expected
    own = {
        stream: {name: what for name, what in said.items() if otherwise[name] != what}
        for stream, said in expected.verdicts.items()
    }
    return sessions.Session(
        id=f"{sessions.KIND}-{session.name}",
        comment=session.comment,
        flags=session.flags,
        requirements=session.requirements,
        result="valid",
        input=SessionInput(level=header.level, profile=header.profile, trace=sessions.path_of(session.name)),
        expected=SessionExpected(exit=expected.exit, verdicts=own),
    )


def disagreements(wanted: bytes, found: bytes) -> list[str]:
    """Where the verdicts of the judges and those in a file differ: session, stream, requirement, both."""
    try:
        right, here = (
            {
                test.id: (test.expected.exit, sessions.verdicts(group, test))
                for group in read.groups
                for test in group.tests
            }
            for read in (msgspec.json.decode(data, type=SessionFile) for data in (wanted, found))
        )
    except msgspec.MsgspecError as error:
        return [f"{sessions.PATH}: {error}"]
    problems = []
    for name in right.keys() & here.keys():
        (code, got), (stored_code, stored) = right[name], here[name]
        problems += [
            f"{sessions.PATH}: {name}: {stream}: {requirement}: expected {_told(there.get(requirement))}, "
            f"got {_told(said.get(requirement))}"
            for stream in sorted(got.keys() | stored.keys())
            for said, there in [(got.get(stream, {}), stored.get(stream, {}))]
            for requirement in sorted(said.keys() | there.keys())
            if said.get(requirement) != there.get(requirement)
        ]
        if code != stored_code:
            problems.append(f"{sessions.PATH}: {name}: expected exit {stored_code}, got {code}")
    return sorted(problems)


def _told(said: Said | None) -> str:
    match said:
        case None:
            return "nothing"
        case int():
            return f"PASS ×{said}"
        case _:
            return str(said)
