"""``session/``: whole runs, and what has to be said of them. The traces are kept, the verdicts are computed.

A file holds one session. Its trace was recorded once (``session_records``) or written as a story (the tests'); a build
judges it anew and leaves the rest of the file as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.trace import files as trace_files
from kvwire.trace.records import Trace, TraceError
from kvwire.vectors.layout import line
from kvwire.vectors.model import (
    EDITION,
    SESSION_SCHEMA,
    Group,
    Note,
    Said,
    SessionExpected,
    SessionFile,
    SessionInput,
    SessionTrace,
    Test,
)

KIND = "session"
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
    "no-instances": Note(
        kind="property", description="what other instances of the publisher did, which the harness started, is left out"
    ),
    "two-streams": Note(kind="property", description="two ranks, each with a stream of its own"),
}
Session = Test[SessionInput, SessionExpected]


class SessionError(ValueError):
    """A file is no session; the message says why."""


def path_of(name: str) -> str:
    """The path in ``vectors/`` of the session of a name."""
    return f"{KIND}/{name}.json"


def trace_of(session: Session) -> Trace:
    """The trace of a session.

    Raises:
        SessionError: when its lines are none, or contradict level and profile.
    """
    given = session.input
    lines = (line(part).encode() for part in (given.trace.header, *given.trace.records, given.trace.end))
    try:
        found = trace_files.parse(lines)
    except TraceError as error:
        raise SessionError(f"{session.id}: {error}") from None
    if (found.header.level, found.header.profile) != (given.level, given.profile):
        raise SessionError(f"{session.id}: level and profile are not those of the header")
    return found


def judged(recording: Trace) -> Result:
    """What the judges say of a trace."""
    return conclude(recording, registry.load(), registry.profile(recording.header.profile))


def expected_of(recording: Trace) -> SessionExpected:
    """The verdicts on a trace, in the order of the registry."""
    result = judged(recording)
    verdicts: dict[str, dict[str, Said]] = {stream.name: {} for stream in result.streams}
    for outcome in result.outcomes:
        passed = outcome.verdict == Verdict.PASS
        said = Said(verdict=str(outcome.verdict), witnesses=outcome.witnesses if passed else None)
        verdicts[outcome.stream][outcome.requirement] = said
    return SessionExpected(exit=result.summary.exit, verdicts=verdicts)


def make(
    name: str, title: str, comment: str, flags: Iterable[str], requirements: Iterable[str], recording: Trace
) -> SessionFile:
    """The file of one session."""
    header, *records, end = (msgspec.json.decode(text) for text in trace_files.lines(recording))
    session = Session(
        id=f"{KIND}-{name}",
        comment=comment,
        flags=tuple(flags),
        requirements=tuple(requirements),
        result="valid",
        input=SessionInput(
            level=recording.header.level,
            profile=recording.header.profile,
            trace=SessionTrace(header=header, records=tuple(records), end=end),
        ),
        expected=expected_of(recording),
    )
    return SessionFile(
        schema=SESSION_SCHEMA,
        spec_edition=EDITION,
        generator=__name__,
        count=1,
        notes={flag: NOTES[flag] for flag in sorted(session.flags)},
        groups=(Group(name=title, comment="", tests=(session,)),),
    )


def write(file: SessionFile) -> bytes:
    """The bytes of a session's file: one record and one verdict a line."""
    (group,) = file.groups
    (session,) = group.tests
    given, expected = session.input, session.expected
    head = ",\n ".join(
        f'"{name}":{line(getattr(file, name))}' for name in ("schema", "spec_edition", "generator", "count")
    )
    notes = ",\n  ".join(f"{line(name)}:{line(note)}" for name, note in file.notes.items())
    about = ",".join(
        f'"{name}":{line(getattr(session, name))}' for name in ("id", "comment", "flags", "requirements", "result")
    )
    records = ",\n      ".join(line(record) for record in given.trace.records)
    streams = ",\n    ".join(
        f"{line(name)}:{{\n     "
        + ",\n     ".join(f"{line(requirement)}:{line(said)}" for requirement, said in verdicts.items())
        + "\n    }"
        for name, verdicts in expected.verdicts.items()
    )
    text = f"""{{
 {head},
 "notes":{{
  {notes}
 }},
 "groups":[
 {{"name":{line(group.name)},"comment":{line(group.comment)},
  "tests":[
   {{{about},
    "input":{{"level":{line(given.level)},"profile":{line(given.profile)},"trace":{{
     "header":{line(given.trace.header)},
     "records":[
      {records}
     ],
     "end":{line(given.trace.end)}}}}},
    "expected":{{"exit":{line(expected.exit)},"verdicts":{{
    {streams}}}}}}}
  ]}}
 ]
}}
"""
    return text.encode()


def read(data: bytes) -> SessionFile:
    """A session's file from its bytes.

    Raises:
        SessionError: when it is none.
    """
    try:
        file = msgspec.json.decode(data, type=SessionFile)
        ((_,),) = (group.tests for group in file.groups)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SessionError(f"not a session: {error}") from None
    return file


def refreshed(file: SessionFile) -> SessionFile:
    """The same session, judged anew.

    Raises:
        SessionError: when its trace is none, or a flag unknown.
    """
    (group,) = file.groups
    (session,) = group.tests
    if unknown := sorted(set(session.flags) - NOTES.keys()):
        raise SessionError(f"{session.id}: no note says what {unknown[0]!r} means")
    now = msgspec.structs.replace(session, expected=expected_of(trace_of(session)))
    return msgspec.structs.replace(
        file,
        schema=SESSION_SCHEMA,
        spec_edition=EDITION,
        generator=__name__,
        count=1,
        notes={flag: NOTES[flag] for flag in sorted(session.flags)},
        groups=(msgspec.structs.replace(group, tests=(now,)),),
    )


def files(folder: Path) -> tuple[dict[str, SessionFile], list[str]]:
    """Every session of a folder of vectors by its path, judged anew, and what is no session."""
    found: dict[str, SessionFile] = {}
    problems = []
    for place in sorted((folder / KIND).glob("*.json")):
        path = path_of(place.stem)
        try:
            file = refreshed(read(place.read_bytes()))
        except SessionError as error:
            problems.append(f"{path}: {error}")
            continue
        (session,) = file.tests
        if session.id != f"{KIND}-{place.stem}":
            problems.append(f"{path}: {session.id}: the id is not that of the file")
        found[path] = file
    return found, problems


def disagreements(path: str, wanted: bytes, found: bytes) -> list[str]:
    """Where the verdicts of the judges and those in a file differ: session, stream, requirement, both."""
    try:
        (right,), (here,) = read(wanted).tests, read(found).tests
    except SessionError as error:
        return [f"{path}: {error}"]
    problems = []
    streams = [*right.expected.verdicts, *(here.expected.verdicts.keys() - right.expected.verdicts.keys())]
    for stream in streams:
        got, stored = right.expected.verdicts.get(stream, {}), here.expected.verdicts.get(stream, {})
        problems += [
            f"{path}: {right.id}: {stream}: {requirement}: expected {_told(stored, requirement)}, "
            f"got {_told(got, requirement)}"
            for requirement in sorted(got.keys() | stored.keys())
            if got.get(requirement) != stored.get(requirement)
        ]
    if right.expected.exit != here.expected.exit:
        problems.append(f"{path}: {right.id}: expected exit {here.expected.exit}, got {right.expected.exit}")
    return problems


def _told(verdicts: Mapping[str, Said], requirement: str) -> str:
    said: Any = verdicts.get(requirement)
    if said is None:
        return "nothing"
    return said.verdict if said.witnesses is None else f"{said.verdict} ×{said.witnesses}"
