"""A record as a message of a container, and the digest of a recording, which is the same in every form.

A message is a msgpack array: source, stream, connection, life, frames, event, detail. The detail is the JSON object
that stands in a line of the other form; the time stands outside.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kvwire.trace import kinds
from kvwire.trace.records import Header, Record, Trace, TraceError, weight

TIME = struct.Struct("<q")
"""The time of a record, as it stands before its message where both are hashed."""


BATCH, BATCH_BYTES = 256, 2**20
"""How many records are read, and hashed, at once, and of what weight."""


class Packed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The members of a message, in their order."""

    source: str
    stream: str
    connection: int | None
    life: int | None
    frames: tuple[bytes, ...] | None
    event: str | None
    detail: bytes | None


_encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Packed).decode


def pack(record: Record) -> bytes:
    """The message of a record."""
    detail = record.detail
    return _encode(
        Packed(
            record.source,
            record.stream,
            record.connection,
            record.life,
            record.frames,
            None if detail is None else detail.event,
            None if detail is None else kinds.written(detail),
        )
    )


def timed(record: Record) -> bytes:
    """The time and the message of a record.

    Raises:
        TraceError: when the time has more than 64 bits.
    """
    try:
        return TIME.pack(record.t_ns) + pack(record)
    except struct.error:
        raise TraceError(f"the time {record.t_ns} has more than 64 bits") from None


def unpack(t_ns: int, data: bytes | memoryview) -> Record:
    """The record of a message.

    Raises:
        msgspec.MsgspecError: when it is none, or a field of a known kind is of a wrong type.
    """
    packed = decode(data)
    detail = None
    if packed.event is not None:
        detail = kinds.read(packed.source, packed.event, packed.detail or b"{}")
    return Record(
        t_ns=t_ns,
        source=packed.source,
        stream=packed.stream,
        connection=packed.connection,
        life=packed.life,
        frames=packed.frames,
        detail=detail,
    )


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records, some at once."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += weight(record.frames or ())
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Digest:
    """SHA-256 over the times and messages of all records, in order, then over the header and how the recording ended.

    So it is that of what was recorded, whatever the form of the file, and in how many files it lies.
    """

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self.skipped = 0
        """How many records to come are left out: they were there before."""

    def add(self, records: Sequence[bytes | memoryview]) -> None:
        """The next records: of each its time and its message, which says by itself how long it is."""
        left = min(self.skipped, len(records))
        self.skipped -= left
        self._sum.update(b"".join(records[left:]))

    def end(self, header: Header, *, interrupted: bool, cut: bool) -> str:
        """The digest of the whole, in hex."""
        whole, header = self._sum.copy(), msgspec.structs.replace(header, part=None)
        whole.update(msgspec.json.encode([header, interrupted, cut], order="deterministic"))
        return whole.hexdigest()


def digest(trace: Trace) -> str:
    """The digest of a trace: that of its recording."""
    found = Digest()
    for batch in batches(trace.records):
        found.add([timed(record) for record in batch])
    return found.end(trace.header, interrupted=trace.interrupted, cut=bool(trace.cut))
