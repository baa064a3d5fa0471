"""From files to results: one recording."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import msgspec

from kvwire.conclusion import expected_failures
from kvwire.conclusion.conclude import Listening, conclude
from kvwire.conclusion.expected_failures import Entry
from kvwire.conclusion.judging import passes
from kvwire.conclusion.result import Ended, Recording, Result, Total
from kvwire.conclusion.summary import Wanted
from kvwire.recordings.units import Unit
from kvwire.report.faces import face
from kvwire.report.visible import ascii_json
from kvwire.standard import registry
from kvwire.standard.registry import UnknownNameError
from kvwire.trace import files
from kvwire.trace.captures import capture
from kvwire.trace.captures.capture import Told
from kvwire.trace.records import Record, Trace, TraceError


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How recordings are judged.

    ``profile`` of None is that of each one's header; ``today`` is an ISO date; ``told`` is what packet captures do not
    show of their ports.
    """

    profile: str | None = None
    wanted: Wanted = Wanted()
    expected: tuple[Entry, ...] | None = None
    today: str = ""
    told: Told = Told()


def concluded(trace: Trace, asked: Asked) -> Result:
    """The result of a trace.

    Raises:
        UnknownNameError: when there is no profile of its name.
    """
    profile = registry.profile(asked.profile or trace.header.profile)
    return _held(conclude(trace, registry.load(), profile, asked.wanted), asked)


def _held(outcome: Result, asked: Asked) -> Result:
    if asked.expected is None:
        return outcome
    return expected_failures.held(outcome, asked.expected, asked.today, asked.wanted)


def read(recording: files.Recording, asked: Asked, each: Callable[[int], None] = lambda _: None) -> Result:
    """The result of a recording, in constant memory where nothing was done to the publisher; ``each`` record is told.

    Raises:
        TraceError: when it cannot be read.
        UnknownNameError: when there is no profile of its name.
    """
    profile = registry.profile(asked.profile or recording.header.profile)
    if not passes(recording.header):
        records: list[Record] = []
        for count, record in enumerate(recording):
            records.append(record)
            each(count)
        ended = recording.ended
        return concluded(
            Trace(header=ended.header, records=tuple(records), interrupted=ended.interrupted, cut=ended.cut), asked
        )
    run = Listening(recording.header, registry.load(), profile, asked.wanted)
    for count, record in enumerate(recording):
        run.take(record)
        each(count)
    ended = recording.ended
    outcome = run.result(interrupted=ended.interrupted, cut=ended.cut, header=ended.header, recorded=ended.digest)
    return _held(outcome, asked)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one recording: a result, or why there is none."""

    recording: Recording
    result: Result | None = None

    def dump(self) -> bytes:
        """Its lines of a result stream of many."""
        return line(self.recording) + (b"" if self.result is None else dumped(self.result))


def line(what: Recording | Total) -> bytes:
    """One line of a result stream of many."""
    return ascii_json(msgspec.json.encode(what, order="deterministic")) + b"\n"


def dumped(outcome: Result) -> bytes:
    """The result stream of one recording, as `--json` writes it."""
    return face([outcome], "json")


def answer(unit: Unit, asked: Asked) -> Answer:
    """Judge one recording; whatever goes wrong is an answer too."""
    if unit.error:
        return failed(unit, unit.error)
    try:
        if capture.is_capture(unit.paths[0]):
            trace = capture.read(unit.paths[0], asked.told)
            outcome, count, how = concluded(trace, asked), len(trace.records), ended(trace.interrupted, trace.cut)
        else:
            with files.open_recording(*unit.paths) as recording:
                outcome = read(recording, asked)
                last = recording.ended
            count, how = last.records, ended(last.interrupted, last.cut)
    except (TraceError, UnknownNameError) as error:
        return failed(unit, str(error))
    except Exception as error:  # noqa: BLE001 - the others are judged all the same
        traceback.print_exc()
        return failed(unit, f"the harness failed: {type(error).__name__}: {error}")
    return Answer(
        recording=Recording(
            name=unit.name,
            parts=len(unit.paths),
            records=count,
            ended=how,
        ),
        result=outcome,
    )


def ended(interrupted: bool, cut: str) -> Ended:
    """How a recording ended, in a word."""
    return "cut" if cut else "interrupted" if interrupted else "whole"


def failed(unit: Unit, why: str) -> Answer:
    """A recording that has no result; why does not depend on where its files lie."""
    for path in unit.paths:
        why = why.replace(str(path), path.name)
    return Answer(recording=Recording(name=unit.name, parts=len(unit.paths), error=why))
