"""What a recording shows of a result: the bytes at the place of a finding, what happened around it, and the course of
each stream.

A result names places; who has the recording too can see them. Everything here is for eyes and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kvwire.conclusion.diagnosis.residents import Residents
from kvwire.conclusion.hearing import of_stream
from kvwire.conclusion.result import Result
from kvwire.history.timeline import Gap, build
from kvwire.judges.verdict import Where
from kvwire.trace.packed import digest
from kvwire.trace.records import Record, Trace
from kvwire.wire.dialect import read
from kvwire.wire.events import Event
from kvwire.wire.framing import number_of, split_live, split_replay

AROUND = 4
"""How many records of a stream are shown before and behind that of a finding."""
BYTES = 16
"""Bytes in a row of hex."""
ROWS = 6
"""Rows of hex shown before the byte at which a finding points, and behind its last."""
COURSE = 240
"""At most so many points of a stream's course are drawn."""
EVENTS = 64
"""How many events of the batch at fault are listed."""


class Cell(msgspec.Struct, frozen=True):
    """One byte, and whether a finding points at it."""

    hex: str
    marked: bool


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of hex: where it begins, its bytes, and the text that they are."""

    offset: int
    cells: tuple[Cell, ...]
    text: str


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One frame of a message: its name and length in bytes, and the part of it that is shown."""

    name: str
    size: int
    rows: tuple[Row, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One record beside that of a finding: seconds of the run, where it came from, what it is."""

    record: int
    after_s: float
    source: str
    said: str
    here: bool


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording shows at the place of one finding."""

    frames: tuple[Frame, ...]
    events: tuple[str, ...]
    steps: tuple[Step, ...]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a stream: seconds of the run, its number, and how many blocks were resident behind it."""

    after_s: float
    number: int
    resident: int


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """The course of a stream: its points, and when numbers fell back (a restart) or were left out (a gap)."""

    stream: str
    points: tuple[Point, ...]
    restarts: tuple[float, ...]
    gaps: tuple[float, ...]


class Mismatch(ValueError):
    """The recording is not that of the result; the message says by what it is told."""


def held_together(report: Result, trace: Trace) -> None:
    """See that a recording is that of a result.

    Raises:
        Mismatch: when target, streams, statement or what was recorded differ.
    """
    header = trace.header
    for what, mine, theirs in (
        ("target", report.run.target, header.target),
        ("streams", report.run.streams, [stream.name for stream in header.streams]),
        ("statement", report.run.statement_sha256, header.statement.digest),
    ):
        if mine != theirs:
            raise Mismatch(f"the recording is of another run: its {what} is {theirs!r}, that of the result {mine!r}")
    if report.run.recording_sha256 and report.run.recording_sha256 != digest(trace):
        raise Mismatch("the recording is of another run: other things were recorded; see `kvwire verify`")


def evidence(trace: Trace, where: Where) -> Evidence | None:
    """What the recording shows at a place; None where the place is no record of it."""
    if where.record is None or where.record >= len(trace.records):
        return None
    record = trace.records[where.record]
    return Evidence(
        frames=tuple(_frames(record, where)),
        events=tuple(_events(record)),
        steps=tuple(_steps(trace.records, where.record)),
    )


def _names(record: Record) -> tuple[str, ...]:
    count = len(record.frames or ())
    for names in (
        (("delimiter", "sequence", "payload"), ("delimiter", "topic", "sequence", "payload"))
        if record.is_replay
        else (("topic", "sequence", "payload"),)
    ):
        if count == len(names):
            return names
    return tuple(f"frame {at}" for at in range(count))


def _frames(record: Record, where: Where) -> Iterator[Frame]:
    for name, frame in zip(_names(record), record.frames or (), strict=True):
        at = where.offset if where.frame in (name, "message") else None
        length = max(1, len(where.hex or "") // 2) if at is not None else 0
        yield Frame(name=name, size=len(frame), rows=tuple(_rows(frame, at, length)))


def _rows(frame: bytes, at: int | None, length: int) -> Iterator[Row]:
    middle = (at or 0) // BYTES
    last = ((at or 0) + length) // BYTES
    for row in range(max(0, middle - ROWS), last + ROWS + 1):
        begin = row * BYTES
        part = frame[begin : begin + BYTES]
        if not part:
            return
        yield Row(
            offset=begin,
            cells=tuple(
                Cell(f"{byte:02x}", at is not None and at <= begin + place < at + length)
                for place, byte in enumerate(part)
            ),
            text="".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part),
        )


def _payload(record: Record) -> bytes | None:
    if record.frames is None:
        return None
    if record.is_replay:
        replayed = split_replay(record.frames)
        return None if replayed is None else replayed[2]
    live = split_live(record.frames) if record.is_live else None
    return None if live is None else live[1]


def _events(record: Record) -> Iterator[str]:
    payload = _payload(record)
    if not payload:
        return
    events = read(payload).events
    for event in events[:EVENTS]:
        yield described(event)
    if len(events) > EVENTS:
        yield f"… and {len(events) - EVENTS} more"


def described(event: Event) -> str:
    """An event on a line."""
    parts = [event.tag or "(untagged)"]
    if event.hashes:
        parts.append("hashes " + ", ".join(map(str, event.hashes[:4])) + (", …" if len(event.hashes) > 4 else ""))
    if event.kind == "stored":
        parts.append(f"parent {'nil' if event.parent is None else event.parent}")
        parts.append(f"{len(event.tokens)} tokens of block size {event.block_size}")
    for name, value in (
        ("medium", event.medium),
        ("group", event.group if "group_idx" in event.keys else None),
        ("kind", event.spec_kind),
        ("lora_id", event.lora_id),
        ("lora_name", event.lora_name),
    ):
        if value is not None:
            parts.append(f"{name} {value}")
    return "; ".join(parts)


def _steps(records: Sequence[Record], here: int) -> Iterator[Step]:
    stream, begin = records[here].stream, records[0].t_ns
    chosen = [here]
    for step in (-1, 1):
        at, found = here + step, 0
        while 0 <= at < len(records) and found < AROUND:
            if records[at].stream in ("", stream):
                chosen.append(at)
                found += 1
            at += step
    for index in sorted(chosen):
        record = records[index]
        yield Step(
            record=index,
            after_s=(record.t_ns - begin) / 1e9,
            source=record.source,
            said=_said(record),
            here=index == here,
        )


def _said(record: Record) -> str:
    if record.frames is None:
        return record.event or "nothing"
    payload = _payload(record)
    if payload is None:
        return f"message of {len(record.frames)} frames"
    number = next((n for n in map(number_of, record.frames[:2]) if n is not None), None)
    said = "end marker" if not payload else ", ".join(_counted(read(payload).events)) or "no events"
    return said if number is None else f"number {number}: {said}"


def _counted(events: Sequence[Event]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for event in events:
        counts[event.tag or "(untagged)"] = counts.get(event.tag or "(untagged)", 0) + 1
    for tag, count in counts.items():
        yield tag if count == 1 else f"{count} {tag}"


def courses(trace: Trace) -> tuple[Course, ...]:
    """The course of every declared stream that sent anything."""
    begin = trace.records[0].t_ns if trace.records else 0
    found = (_course(trace, info.name, begin) for info in trace.header.streams)
    return tuple(course for course in found if course.points)


def _course(trace: Trace, stream: str, begin: int) -> Course:
    points: list[Point] = []
    restarts: list[float] = []
    gaps: list[float] = []
    for incarnation in build(of_stream(enumerate(trace.records), stream)).incarnations:
        residents, lost = Residents(), False
        for step in incarnation.steps():
            if isinstance(step, Gap):
                lost = step.first <= step.last
                continue
            after_s = (trace.records[step.record].t_ns - begin) / 1e9
            if incarnation.index and step is incarnation.batches[0]:
                restarts.append(after_s)
            if lost:
                gaps.append(after_s)
            lost = False
            for event in step.reading.events:
                residents.take(event, step.number)
            points.append(Point(after_s=after_s, number=step.number, resident=len(residents)))
    step_by = max(1, len(points) // COURSE)
    thinned = points[::step_by]
    if points and thinned[-1] is not points[-1]:
        thinned.append(points[-1])
    return Course(stream=stream, points=tuple(thinned), restarts=tuple(restarts), gaps=tuple(gaps))
