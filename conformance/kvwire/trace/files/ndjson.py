"""Recordings as lines of JSON (spec/schemas/trace.schema.json): a header, one record a line, an end line.

Frames are hex. The form of exchange: small, readable, and what vectors are.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Annotated

import msgspec

from kvwire.standard import reading
from kvwire.trace import kinds
from kvwire.trace.files.ends import End, Item, checked
from kvwire.trace.packed import BATCH, BATCH_BYTES, Digest, timed
from kvwire.trace.records import Header, Record, Trace, TraceError, weight

_NOTHING = msgspec.Raw(b"{}")
BUFFER = 1 << 16
"""How many bytes of lines wait before they are written."""


LINE_BYTES = 72 * 2**20
"""The longest line that is read: a frame in hex, and what stands beside it."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as it stands in the file: frames in hex, what an event tells beside its name."""

    t_ns: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    source: str
    stream: str = ""
    connection: Count | None = None
    life: Count | None = None
    frames: list[str] | None = None
    event: str | None = None
    detail: msgspec.Raw = _NOTHING


encode = msgspec.json.Encoder(order="deterministic").encode
_line = msgspec.json.Decoder(Line)
_header = msgspec.json.Decoder(Header)
_end = msgspec.json.Decoder(End)


def record_line(record: Record) -> bytes:
    """One record as a line of the file, without its line end."""
    frames = None if record.frames is None else [frame.hex() for frame in record.frames]
    fields = b"{}" if record.detail is None else kinds.written(record.detail)
    return encode(
        Line(
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
    yield encode(trace.header) + b"\n"
    for record in trace.records:
        yield record_line(record) + b"\n"
    yield encode(End(end=len(trace.records), interrupted=trace.interrupted)) + b"\n"


def _read_record(number: int, raw: bytes) -> Record:
    try:
        line = reading.json(_line.decode, raw)
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


def bounded(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The lines of a file.

    Raises:
        TraceError: when one is longer than a line may be; the message has its number.
    """
    number = 0
    while line := file.readline(LINE_BYTES + 1):
        number += 1
        if len(line) > LINE_BYTES:
            raise TraceError(f"line {number}: longer than {LINE_BYTES} bytes")
        yield line


def items(raw_lines: Iterable[bytes], digest: Digest) -> Iterator[Item]:
    """What stands in the lines of a file, in order: the header, records, the end where there is one.

    A last line without a line end that is not whole was cut, and is left out. Records are put into ``digest`` before
    they are given.

    Raises:
        TraceError: when the header is missing, of another format or of an unknown edition, a line is no record, or a
            field of a known event is of a wrong type.
    """
    batch: list[Record] = []
    size = 0
    for item in _single(raw_lines):
        if isinstance(item, Record):
            batch.append(item)
            size += weight(item.frames or ())
            if len(batch) < BATCH and size < BATCH_BYTES:
                continue
        digest.add([timed(record) for record in batch])
        if batch:
            yield batch
            batch, size = [], 0
        if not isinstance(item, Record):
            yield item
    digest.add([timed(record) for record in batch])
    if batch:
        yield batch


def _single(raw_lines: Iterable[bytes]) -> Iterator[Header | Record | End]:
    header = end = None
    number = 0
    try:
        for number, raw in enumerate(raw_lines, 1):
            if not raw.strip():
                continue
            if end is not None:
                raise TraceError(f"line {number}: records after the end line")
            if header is None:
                yield (header := _read_header(number, raw))
                continue
            try:
                item = _read_end(number, raw) if raw.startswith(b'{"end":') else _read_record(number, raw)
            except TraceError:
                if raw.endswith(b"\n") or _is_json(raw):
                    raise
                return
            if isinstance(item, End):
                end = item
            yield item
    except EOFError:
        pass  # a compressed file that was cut
    except (zlib.error, OSError) as error:
        raise TraceError(f"behind line {number}: {getattr(error, 'strerror', None) or error}") from None
    if header is None:
        raise TraceError("the file is empty: a trace begins with its header")


def _is_json(raw: bytes) -> bool:
    try:
        reading.json(msgspec.json.decode, raw)
    except msgspec.MsgspecError as error:
        return str(error) == reading.TOO_DEEP
    return True


def _read_header(number: int, raw: bytes) -> Header:
    try:
        header = reading.json(_header.decode, raw)
    except msgspec.MsgspecError as error:
        raise TraceError(f"line {number}: no trace header ({error}); record one with `--record`") from None
    return checked(header, f"line {number}")


def _read_end(number: int, raw: bytes) -> End:
    try:
        return reading.json(_end.decode, raw)
    except msgspec.MsgspecError as error:
        raise TraceError(f"line {number}: no end line: {error}") from None
