"""Traces as files (spec/schemas/trace.schema.json): a header, one record a line, an end line. Frames are hex.

A file whose name ends in ``.gz`` is compressed.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kvwire.trace import kinds
from kvwire.trace.records import FORMAT, Header, Record, Trace, TraceError

EDITIONS = ("1",)
"""The editions of the standard by which a trace can be judged."""
_NOTHING = msgspec.Raw(b"{}")


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as it stands in the file: frames in hex, what an event tells beside its name."""

    t_ns: int
    source: str
    stream: str = ""
    connection: int | None = None
    life: int | None = None
    frames: list[str] | None = None
    event: str | None = None
    detail: msgspec.Raw = _NOTHING


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of the file: how many records stand before it."""

    end: int
    interrupted: bool = False


_encode = msgspec.json.Encoder(order="deterministic").encode
_line = msgspec.json.Decoder(_Line)


def record_line(record: Record) -> bytes:
    """One record as a line of the file, without its line end."""
    frames = None if record.frames is None else [frame.hex() for frame in record.frames]
    fields = b"{}" if record.detail is None else kinds.written(record.detail)
    return _encode(
        _Line(
            t_ns=record.t_ns,
            source=record.source,
            stream=record.stream,
            connection=record.connection,
            life=record.life,
            frames=frames,
            event=record.event,
            detail=_NOTHING if fields == b"{}" else msgspec.Raw(fields),
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
        if path.suffix == ".gz":
            out.write(gzip.compress(b"".join(lines(trace)), mtime=0))  # equal traces give equal bytes
        else:
            out.writelines(lines(trace))
    partial.replace(path)


def _read_record(number: int, raw: bytes) -> Record:
    try:
        line = _line.decode(raw)
        frames = None if line.frames is None else tuple(bytes.fromhex(frame) for frame in line.frames)
    except (msgspec.MsgspecError, ValueError) as error:
        raise TraceError(f"line {number}: not a record: {error}") from None
    try:
        detail = None if line.event is None else kinds.read(line.source, line.event, line.detail)
    except msgspec.MsgspecError as error:
        raise TraceError(f"line {number}: {line.source} {line.event!r}: {error}") from None
    return Record(
        t_ns=line.t_ns,
        source=line.source,
        stream=line.stream,
        connection=line.connection,
        life=line.life,
        frames=frames,
        detail=detail,
    )


def parse(raw_lines: Iterable[bytes]) -> Trace:
    """The trace of the lines of a file.

    Raises:
        TraceError: when the header is missing, of another format or of an unknown edition, a line is no record, a field
            of a known event is of a wrong type, or the end is missing.
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
            for edition in (header.edition, header.statement.edition):
                if edition not in EDITIONS:
                    raise TraceError(f"line {number}: edition {edition!r} is unknown; this harness knows edition '1'")
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
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return parse(file)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
