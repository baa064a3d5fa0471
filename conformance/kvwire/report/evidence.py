"""What a recording shows of a result: the bytes at the place of a finding, what happened around it, and the course of
each stream.

A result names places; who has the recording too can see them. Everything here is for eyes and decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Where
from kvwire.report.course import Course, Courser
from kvwire.trace.records import Header, Record
from kvwire.wire.dialect import read
from kvwire.wire.events import Event
from kvwire.wire.framing import number_of, split_live, split_replay

AROUND = 4
"""How many records of a stream are shown before and behind that of a finding."""
BYTES = 16
"""Bytes in a row of hex."""
ROWS = 6
"""Rows of hex shown before the byte at which a finding points, and behind its last."""
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


class Mismatch(ValueError):
    """The recording is not that of the result; the message says by what it is told."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording shows of a result: evidence by outcome and finding, and the course of each stream."""

    at: Mapping[tuple[int, int], Evidence]
    courses: tuple[Course, ...] = ()


def look(report: Result, header: Header, records: Iterable[Record], digest: Callable[[], str] | None = None) -> Seen:
    """What a recording shows of its result; its records are taken once, and none is kept but those at findings.

    ``digest`` is asked when they are over, for that of what was recorded; None where it is known whose recording it is.

    Raises:
        Mismatch: when target, streams, statement or what was recorded differ.
    """
    for what, mine, theirs in (
        ("target", report.run.target, header.target),
        ("streams", report.run.streams, [stream.name for stream in header.streams]),
        ("statement", report.run.statement_sha256, header.statement.digest),
    ):
        if mine != theirs:
            raise Mismatch(f"the recording is of another run: its {what} is {theirs!r}, that of the result {mine!r}")
    places = _Places(report)
    coursers = {info.name: Courser(info) for info in header.streams}
    begin: int | None = None
    for index, record in enumerate(records):
        begin = record.t_ns if begin is None else begin
        after_s = (record.t_ns - begin) / 1e9
        places.take(index, record, after_s)
        for name in (record.stream,) if record.stream else coursers:
            if (courser := coursers.get(name)) is not None:
                courser.take(index, record, after_s)
    if digest is not None and report.run.recording_sha256 not in ("", digest()):
        raise Mismatch("the recording is of another run: other things were recorded; see `kvwire verify`")
    courses = (courser.course() for courser in coursers.values())
    return Seen(at=places.found(), courses=tuple(course for course in courses if course is not None))


class _Place:
    """A record at which findings point, and what is around it."""

    def __init__(self, stream: str, steps: list[Step]) -> None:
        self.stream = stream
        self.steps = steps
        self.missing = AROUND


class _Places:
    """Looks at the records at which findings point, and at those around them; only the last ones are kept."""

    def __init__(self, report: Result) -> None:
        self._wanted: dict[int, list[tuple[tuple[int, int], Where]]] = {}
        for at, outcome in enumerate(report.outcomes):
            for number, finding in enumerate(outcome.findings):
                if finding.where.record is not None:
                    self._wanted.setdefault(finding.where.record, []).append(((at, number), finding.where))
        self._found: list[tuple[tuple[int, int], _Place, tuple[Frame, ...], tuple[str, ...]]] = []
        self._open: list[_Place] = []
        self._beside = _Last()
        """The last records of no stream."""
        self._before: dict[str, _Last] = {"": self._beside}
        """By stream, its last records and those of none."""

    def take(self, index: int, record: Record, after_s: float) -> None:
        """Take the next record."""
        if not self._wanted:
            return
        for place in list(self._open):
            if record.stream in ("", place.stream):
                place.steps.append(_step(index, record, after_s))
                place.missing -= 1
                if not place.missing:
                    self._open.remove(place)
        if (before := self._before.get(record.stream)) is None:
            before = self._before[record.stream] = _Last(self._beside)
        if (wheres := self._wanted.get(index)) is not None:
            steps = [*(_step(*one) for one in before), _step(index, record, after_s, here=True)]
            place, events = _Place(record.stream, steps), tuple(_events(record))
            self._open.append(place)
            self._found += ((key, place, tuple(_frames(record, where)), events) for key, where in wheres)
        for held in (before,) if record.stream else self._before.values():
            held.append((index, record, after_s))

    def found(self) -> dict[tuple[int, int], Evidence]:
        """What was seen, by outcome and finding."""
        return {
            key: Evidence(frames=frames, events=events, steps=tuple(place.steps))
            for key, place, frames, events in self._found
        }


class _Last(deque[tuple[int, Record, float]]):
    """The last records, with their index and the seconds of the run."""

    def __init__(self, before: Iterable[tuple[int, Record, float]] = ()) -> None:
        super().__init__(before, AROUND)


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


def _step(index: int, record: Record, after_s: float, *, here: bool = False) -> Step:
    return Step(record=index, after_s=after_s, source=record.source, said=_said(record), here=here)


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
