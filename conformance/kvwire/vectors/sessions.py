"""``session/``: whole runs as trace files; what each is and what has to be said of it stands in ``sessions.json``."""

from __future__ import annotations

from pathlib import Path

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.trace import files
from kvwire.trace.records import Trace, TraceError
from kvwire.vectors.model import Group, Said, SessionExpected, SessionInput, Test

KIND = "session"
PATH = f"{KIND}/sessions.json"
SUFFIX = ".kvtrace"
Session = Test[SessionInput, SessionExpected]
SessionGroup = Group[SessionInput, SessionExpected]


class SessionError(ValueError):
    """A trace is not that of a session; the message says why."""


def path_of(name: str) -> str:
    """The path in ``vectors/`` of the trace of a session."""
    return f"{KIND}/{name}{SUFFIX}"


def trace_of(folder: Path, name: str) -> Trace:
    """The trace of a session.

    Raises:
        SessionError: when its file is missing, or none, or breaks off.
    """
    try:
        recording = files.read(folder / path_of(name))
    except TraceError as error:
        raise SessionError(str(error)) from None
    if recording.cut:
        raise SessionError(f"{folder / path_of(name)}: the end line is missing: {recording.cut}")
    return recording


def judged(recording: Trace) -> Result:
    """What the judges say of a trace."""
    return conclude(recording, registry.load(), registry.profile(recording.header.profile))


def expected_of(result: Result) -> SessionExpected:
    """All verdicts of a result, in the order of the registry."""
    verdicts: dict[str, dict[str, Said]] = {stream.name: {} for stream in result.streams}
    for outcome in result.outcomes:
        passed = outcome.verdict == Verdict.PASS
        verdicts[outcome.stream][outcome.requirement] = outcome.witnesses if passed else outcome.verdict
    return SessionExpected(exit=result.summary.exit, verdicts=verdicts)


def verdicts(group: SessionGroup, session: Session) -> dict[str, dict[str, Said]]:
    """What has to be said of a session, by stream and requirement: what its group says, and what it says itself."""
    return {stream: {**group.otherwise, **said} for stream, said in session.expected.verdicts.items()}
