"""From files to results: one recording."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvwire.conclusion import expected_failures
from kvwire.conclusion.conclude import Listening, conclude
from kvwire.conclusion.expected_failures import Entry
from kvwire.conclusion.fleet import Member
from kvwire.conclusion.passing import passes
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
from kvwire.trace.records import HELD_BYTES, Header, Record, Trace, TraceError, held


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How recordings are judged.

    ``profile`` of None is that of each one's header; ``today`` is an ISO date; ``told`` is what packet captures do not
    show of their ports; ``held`` is how much of a recording may be held in memory.
    """

    profile: str | None = None
    wanted: Wanted = Wanted()
    expected: tuple[Entry, ...] | None = None
    today: str = ""
    told: Told = Told()
    held: int = HELD_BYTES


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


def read(
    recording: files.Recording,
    asked: Asked,
    each: Callable[[int], None] = lambda _: None,
    *,
    beside: list[Member] | None = None,
) -> Result:
    """The result of a recording, in constant memory where nothing was done to the publisher; ``each`` record is told.

    ``beside`` takes what its streams show that those of other recordings are held against, where nobody drove them.

    Raises:
        TraceError: when it cannot be read.
        UnknownNameError: when there is no profile of its name.
    """
    if not passes(recording.header):
        records: list[Record] = []
        for count, record in enumerate(held(recording, asked.held)):
            records.append(record)
            each(count)
        ended = recording.ended
        return concluded(
            Trace(header=ended.header, records=tuple(records), interrupted=ended.interrupted, cut=ended.cut), asked
        )
    run = _listening(recording.header, asked)
    for count, record in enumerate(recording):
        run.take(record)
        each(count)
    ended = recording.ended
    outcome = run.result(interrupted=ended.interrupted, cut=ended.cut, header=ended.header, recorded=ended.digest)
    if beside is not None:
        beside += run.members()
    return _held(outcome, asked)


def read_capture(
    path: Path, asked: Asked, each: Callable[[int], None] = lambda _: None, *, beside: list[Member] | None = None
) -> tuple[Result, int]:
    """The result of a packet capture, in constant memory, and how many records it has; otherwise as ``read``."""
    header, records = capture.open_capture(path, asked.told)
    run = _listening(header, asked, digests=True)
    for count, record in enumerate(records):
        run.take(record)
        each(count)
    outcome = _held(run.result(), asked)
    if beside is not None:
        beside += run.members()
    return outcome, run.hearing.records


def _listening(header: Header, asked: Asked, *, digests: bool = False) -> Listening:
    profile = registry.profile(asked.profile or header.profile)
    return Listening(header, registry.load(), profile, asked.wanted, digests=digests)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one recording: a result, or why there is none; and what its streams, where nobody drove them, show
    that those of others are held against.
    """

    recording: Recording
    result: Result | None = None
    members: tuple[Member, ...] = ()

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
    members: list[Member] = []
    how: Ended = "whole"
    try:
        if capture.is_capture(unit.paths[0]):
            outcome, count = read_capture(unit.paths[0], asked, beside=members)
        else:
            with files.open_recording(*unit.paths) as recording:
                outcome = read(recording, asked, beside=members)
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
        members=tuple(members),
    )


def ended(interrupted: bool, cut: str) -> Ended:
    """How a recording ended, in a word."""
    return "cut" if cut else "interrupted" if interrupted else "whole"


def failed(unit: Unit, why: str) -> Answer:
    """A recording that has no result; why does not depend on where its files lie."""
    for path in unit.paths:
        why = why.replace(str(path), path.name)
    if len(unit.paths) == 1:
        why = why.removeprefix(f"{unit.paths[0].name}: ")
    return Answer(recording=Recording(name=unit.name, parts=len(unit.paths), error=why))
