"""Recordings in an MCAP container: chunks that are compressed and checksummed, readable up to the last whole one.

The header and the end are metadata records, each record is a message (``packed``), on a channel of its stream and
source. Messages have the order in which they were recorded. The library writes, and takes chunks apart from the file
and decompresses them; what stands in a chunk is sliced here, as the library makes an object of each message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from typing import IO, Protocol

import msgspec

from kvwire.standard import reading
from kvwire.trace.files.ends import End, Item, checked
from kvwire.trace.packed import BATCH, TIME, Digest, pack, timed, unpack
from kvwire.trace.records import Header, Record, TraceError

try:
    from mcap.data_stream import ReadDataStream
    from mcap.exceptions import McapError
    from mcap.opcode import Opcode
    from mcap.records import Chunk, Metadata
    from mcap.stream_reader import get_chunk_data_stream
    from mcap.writer import IndexType, Writer
    from zstandard import ZstdError, frame_content_size
except ImportError:
    raise TraceError("an .mcap file needs the package mcap: python -m pip install mcap") from None

MAGIC = b"\x89MCAP0\r\n"
HEADER, END = "kvwire.header", "kvwire.end"
"""The metadata records that hold the header and the end."""
CHUNK_BYTES = 1 << 20
"""How many bytes of messages make a chunk."""
CHUNK_MAX = 96 << 20
"""How large a record of a stranger may be, and a chunk decompressed."""
_RECORD = struct.Struct("<BQ")
_header, _end = msgspec.json.Decoder(Header), msgspec.json.Decoder(End)
_BEFORE = 14
"""How many bytes of a message, its channel, sequence and first time, stand before the time that we read."""
_LENGTH = _RECORD.size


class Out(Protocol):
    """Where a container is written."""

    def write(self, data: bytes, /) -> int:
        """All of the bytes."""

    def tell(self) -> int:
        """How many were written."""

    def flush(self) -> None:
        """Hold nothing back."""


class McapEncoder:
    """Writes a recording into a container."""

    def __init__(self, out: Out) -> None:
        self._out = out
        # Without an index of chunks nothing grows here however long the recording becomes.
        self._writer = Writer(out, chunk_size=CHUNK_BYTES, index_types=IndexType.METADATA)  # type: ignore[arg-type]
        self._channels: dict[tuple[str, str], int] = {}
        self._waiting = 0
        self._schema = 0

    @property
    def size(self) -> int:
        """How large the file is at most once what waits is written."""
        return self._out.tell() + self._waiting

    def begin(self, header: Header) -> None:
        """Write the header."""
        self._writer.start(profile="kvwire")
        self._metadata(HEADER, msgspec.json.encode(header, order="deterministic"))
        self._schema = self._writer.register_schema(header.trace, "", b"")

    def _metadata(self, name: str, json: bytes) -> None:
        self._writer.add_metadata(name, {"json": json.decode()})

    def add(self, record: Record) -> None:
        """Write a record."""
        channel = self._channels.get((record.stream, record.source))
        if channel is None:
            topic = f"{record.stream}/{record.source}"
            channel = self._writer.register_channel(topic, "msgpack", self._schema)
            self._channels[record.stream, record.source] = channel
        data = pack(record)
        written = self._out.tell()
        time = record.t_ns % (1 << 64)
        self._writer.add_message(channel, log_time=time, data=data, publish_time=time)
        self._waiting = 0 if self._out.tell() > written else self._waiting + len(data)

    def flush(self) -> None:
        """End the chunk that is being made."""
        self._writer.flush()  # type: ignore[no-untyped-call]
        self._waiting = 0

    def end(self, end: End) -> None:
        """Write the end."""
        self.flush()
        self._metadata(END, msgspec.json.encode(end, order="deterministic"))
        self._writer.finish()  # type: ignore[no-untyped-call]
        self._out.flush()


def items(file: IO[bytes], digest: Digest) -> Iterator[Item]:
    """What stands in a container, in order: the header, records by chunks, the end where there is one.

    A last chunk that is not whole was cut, and is left out. Records are put into ``digest`` before they are given.

    Raises:
        TraceError: when it is no container of ours, or damaged before its end; the message has the place.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise TraceError("not an MCAP file: it begins with other bytes")
    header = end = None
    at = len(MAGIC)
    for opcode, content, last in _records(file):
        where = f"byte {at}"
        try:
            if opcode == Opcode.METADATA:
                metadata = Metadata.read(ReadDataStream(BytesIO(content)))
                json = metadata.metadata.get("json", "").encode()
                if metadata.name == HEADER and header is None:
                    header = checked(reading.json(_header.decode, json), where)
                    yield header
                elif metadata.name == END and end is None:
                    end = reading.json(_end.decode, json)
                    yield end
            elif opcode == Opcode.CHUNK:
                chunk = _chunk(content)
                if header is None:
                    break
                yield from _messages(chunk, digest, where)
            elif opcode == Opcode.DATA_END:
                break
        except (
            msgspec.MsgspecError,
            McapError,
            struct.error,
            ValueError,
            ArithmeticError,
            RuntimeError,
            ZstdError,
        ) as error:
            if last and opcode == Opcode.CHUNK and not isinstance(error, TraceError):
                break  # the machine went down while it was written
            raise error if isinstance(error, TraceError) else TraceError(f"{where}: {error}") from None
        at += _LENGTH + len(content)
    if header is None:
        raise TraceError("no recording of kvwire: the file has no header")


def _records(file: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """The records of a file that are whole: opcode, content, and whether nothing stands behind it."""
    head = file.read(_LENGTH)
    while len(head) == _LENGTH:
        opcode, length = _RECORD.unpack(head)
        if length > CHUNK_MAX:
            raise TraceError(f"a record of {length} bytes: the file is damaged")
        content = file.read(length)
        if len(content) < length:
            return
        head = file.read(_LENGTH)
        yield opcode, content, not head.strip(b"\0")


def _chunk(content: bytes) -> bytes:
    chunk = Chunk.read(ReadDataStream(BytesIO(content)))
    if chunk.uncompressed_size > CHUNK_MAX or len(content) > CHUNK_MAX:
        raise TraceError(f"a chunk of {chunk.uncompressed_size} bytes: the file is damaged")
    if chunk.compression not in ("", "zstd"):
        raise TraceError(f"a chunk compressed by {chunk.compression!r}; kvwire reads zstd")
    if chunk.compression == "zstd" and frame_content_size(chunk.data) not in (-1, chunk.uncompressed_size):
        raise TraceError("a chunk says two sizes of itself: the file is damaged")
    stream, length = get_chunk_data_stream(chunk, validate_crc=True)
    return stream.read(length)


def _messages(chunk: bytes, digest: Digest, where: str) -> Iterator[list[Record]]:
    """The records of a chunk, by batches: small ones take many times the memory of their bytes."""
    view = memoryview(chunk)
    records: list[Record] = []
    hashed: list[bytes | memoryview] = []
    at = 0
    while at < len(chunk):
        opcode, length = _RECORD.unpack_from(chunk, at)
        start, at = at + _LENGTH + _BEFORE, at + _LENGTH + length
        if opcode != Opcode.MESSAGE:
            continue
        (t_ns,) = TIME.unpack_from(chunk, start)
        try:
            record = unpack(t_ns, view[start + TIME.size : at])
        except msgspec.MsgspecError as error:
            raise TraceError(f"{where}: byte {start} of the chunk: not a record: {error}") from None
        records.append(record)
        hashed.append(view[start:at] if record.detail is None else timed(record))
        if len(records) == BATCH:
            digest.add(hashed)
            yield records
            records, hashed = [], []
    digest.add(hashed)
    yield records
