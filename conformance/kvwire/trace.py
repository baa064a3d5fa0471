"""What was seen and done, record by record, and its file format (spec/schemas/trace.schema.json).

Every run is a trace, and every verdict is a function of one: judges read no clock and open no socket. The order of
the records is the order in which the harness received them; ``t_ns`` informs and decides nothing.

The file is newline-delimited JSON: a header, then one record a line, then ``{"end": …}``. Frames are hex strings.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from kvwire.statement import Statement

FORMAT = "kvwire-trace-1"
"""The first value of every trace file."""

ControlLevel = Literal["passive", "replayable", "driven"]


class TraceError(ValueError):
    """The file is not a usable trace; the message names the line and what is wrong with it."""


class Source(enum.StrEnum):
    """Where a record comes from. Replay clients are ``replay-1``, ``replay-2`` …, one per request."""

    LIVE_A = "live-a"
    LIVE_B = "live-b"
    MONITOR = "monitor"
    STIMULUS = "stimulus"
    PROCESS = "process"
    HARNESS = "harness"


LIVE = (Source.LIVE_A, Source.LIVE_B)


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing seen or done on one stream.

    A ``stream`` that the header does not declare is another instance of the publisher, which the harness started beside
    the one under test. ``frames`` for what a socket received; ``event`` and ``detail`` for the rest: a monitor's event
    (``detail.of`` is the live source), a stimulus (``event`` is the adapter verb, ``replay-request`` or
    ``replay-done``), a process event, or the harness's own trouble. ``connection`` counts the handshakes of the
    recorder so far; ``life`` is the adapter's count of starts.
    """

    t_ns: int
    source: str
    stream: str = ""
    connection: int | None = None
    life: int | None = None
    frames: tuple[bytes, ...] | None = None
    event: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether a live witness received it."""
        return self.source in LIVE

    @property
    def is_replay(self) -> bool:
        """Whether it is part of a replay answer."""
        return self.source.startswith("replay-")


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A declared stream of a run: its name and what was declared of it."""

    name: str
    endpoint: str
    replay: str | None = None
    topic: str | None = None
    rank: int | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be known to judge a trace: target, level of control, who chose what, statement, streams.

    ``drive`` is what drove a target that cannot be driven by itself (``--drive``).
    ``probes`` names what was run, ``left_out`` what would have applied and was left out by the ``mode``;
    ``life_from_start`` says that the harness started the publisher itself, so that its
    first life began on this trace.
    """

    trace: str
    edition: str
    target: str
    drive: str = ""
    level: ControlLevel
    can: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    profile: str = "core"
    implementation: str = ""
    mode: str = "plain"
    probes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    life_from_start: bool = False
    statement: Statement = Statement()
    streams: tuple[StreamInfo, ...] = ()


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A header and its records; ``interrupted`` when the run was ended by the user."""

    header: Header
    records: tuple[Record, ...]
    interrupted: bool = False


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as it stands in the file: frames in hex."""

    t_ns: int
    source: str
    stream: str = ""
    connection: int | None = None
    life: int | None = None
    frames: list[str] | None = None
    event: str | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of the file: how many records stand before it."""

    end: int
    interrupted: bool = False


_encode = msgspec.json.Encoder(order="deterministic").encode
_line = msgspec.json.Decoder(_Line)


def record_line(record: Record) -> bytes:
    """One record as a line of the file, without its line end."""
    frames = None if record.frames is None else [frame.hex() for frame in record.frames]
    return _encode(
        _Line(
            t_ns=record.t_ns,
            source=record.source,
            stream=record.stream,
            connection=record.connection,
            life=record.life,
            frames=frames,
            event=record.event,
            detail=record.detail,
        )
    )


def lines(trace: Trace) -> Iterator[bytes]:
    """The lines of a trace file, each with its line end."""
    yield _encode(trace.header) + b"\n"
    for record in trace.records:
        yield record_line(record) + b"\n"
    yield _encode({"end": len(trace.records), "interrupted": trace.interrupted}) + b"\n"


def write(trace: Trace, path: Path) -> None:
    """Write a trace file: first beside the path, then in one step onto it, so that nothing half-written is left."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as out:
        out.writelines(lines(trace))
    partial.replace(path)


def _read_record(number: int, raw: bytes) -> Record:
    try:
        line = _line.decode(raw)
        frames = None if line.frames is None else tuple(bytes.fromhex(frame) for frame in line.frames)
    except (msgspec.MsgspecError, ValueError) as error:
        raise TraceError(f"line {number}: not a record: {error}") from None
    return Record(
        t_ns=line.t_ns,
        source=line.source,
        stream=line.stream,
        connection=line.connection,
        life=line.life,
        frames=frames,
        event=line.event,
        detail=line.detail,
    )


def parse(raw_lines: Iterable[bytes]) -> Trace:
    """The trace of the lines of a file.

    Raises:
        TraceError: when the header is missing or of another format, a line is no record, or the end is missing.
    """
    header: Header | None = None
    records: list[Record] = []
    end: _End | None = None
    for number, raw in enumerate(raw_lines, 1):
        if not raw.strip():
            continue
        if end is not None:
            raise TraceError(f"line {number}: records after the end line")
        if header is None:
            try:
                header = msgspec.json.decode(raw, type=Header)
            except msgspec.MsgspecError as error:
                raise TraceError(f"line {number}: no trace header ({error}); record one with `--record`") from None
            if header.trace != FORMAT:
                raise TraceError(f"line {number}: format {header.trace!r}, this harness reads {FORMAT!r}")
        elif raw.startswith(b'{"end":'):
            try:
                end = msgspec.json.decode(raw, type=_End)
            except msgspec.MsgspecError as error:
                raise TraceError(f"line {number}: no end line: {error}") from None
        else:
            records.append(_read_record(number, raw))
    if header is None:
        raise TraceError("the file is empty: a trace begins with its header")
    if end is None:
        raise TraceError(f"the end line is missing after {len(records)} records: the file was cut short")
    if end.end != len(records):
        raise TraceError(f"the end line counts {end.end} records, the file has {len(records)}")
    return Trace(header=header, records=tuple(records), interrupted=end.interrupted)


def read(path: Path) -> Trace:
    """Read a trace file.

    Raises:
        TraceError: when it is none; the message names the file.
    """
    try:
        with path.open("rb") as file:
            return parse(file)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


_WAITED = frozenset({"idle-done"})
"""What takes nothing but to listen."""
_ASKED = frozenset({"replay-request", "replay-behind", "replay-resumed", "replay-done", "unreachable"})


def lowered(trace: Trace, level: ControlLevel) -> Trace:
    """What the same run would have shown at a lower level of control: the records that need more are left out.

    ``passive`` keeps live messages and their monitors, ``replayable`` replay requests and answers too. What the
    publisher declares is kept. Other instances need an adapter.
    """
    if level == "driven":
        return trace
    declared = {"", *(stream.name for stream in trace.header.streams)}
    header = msgspec.structs.replace(trace.header, level=level, can=(), sets=(), life_from_start=False)
    if level == "passive":
        streams = tuple(msgspec.structs.replace(stream, replay=None) for stream in header.streams)
        header = msgspec.structs.replace(header, streams=streams)

    def kept(record: Record) -> bool:
        if record.stream not in declared:
            return False
        if record.is_live or record.source == Source.HARNESS or record.event in _WAITED:
            return True
        if record.source == Source.MONITOR:
            return level == "replayable" or record.detail.get("of") in LIVE
        return level == "replayable" and (record.is_replay or record.event in _ASKED)

    return Trace(header=header, records=tuple(filter(kept, trace.records)), interrupted=trace.interrupted)
