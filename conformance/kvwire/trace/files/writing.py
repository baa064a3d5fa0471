"""Writing recordings: whole ones in one step, or record by record while a run goes on."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from kvwire.standard import reading
from kvwire.trace.detail import SocketEvent
from kvwire.trace.files import ndjson
from kvwire.trace.files.ends import End
from kvwire.trace.files.forms import Form, form_of, last_part, part_of
from kvwire.trace.files.reading import Recording
from kvwire.trace.marks import Witnesses
from kvwire.trace.records import Header, Part, Record, Trace, TraceError

FULL = 0.95
"""A part that has this much of its size is not filled any more."""
FLUSH_S = 1.0
"""What was recorded so long ago can be read, whatever happens to the writer."""


SYSTEM = (Path("/proc"), Path("/sys"))
"""Where nothing is a file of ours, whatever is behind its name; nor is what lies in ``/dev`` itself."""


class _Out:
    """A regular file that is written from its beginning, without a buffer."""

    def __init__(self, path: Path) -> None:
        refuse_special(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise TraceError(f"{path}: not a regular file; name one that can be replaced")
        os.ftruncate(descriptor, 0)
        self._descriptor = descriptor
        self._size = 0

    def write(self, data: bytes, /) -> int:
        left = memoryview(data)
        while left:
            written = os.write(self._descriptor, left)
            self._size += written
            left = left[written:]
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Close it, once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def refuse_special(path: Path) -> None:
    """Refuse to write where something else than a regular file is, or a name of the system's such as `/dev/stdout`.

    Raises:
        TraceError: when there is a folder, a pipe, a device …
    """
    try:
        folder = reading.real(path.absolute().parent)
        special = folder == Path("/dev") or any(folder.is_relative_to(system) for system in SYSTEM)
        if special or not stat.S_ISREG(path.stat().st_mode):
            raise TraceError(f"{path}: not a regular file; name one that can be replaced")
    except FileNotFoundError:
        return
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


class Encoder(Protocol):
    """Writes one file of a recording."""

    @property
    def size(self) -> int:
        """How large the file is at most once what waits is written."""

    def begin(self, header: Header) -> None:
        """Write the header."""

    def add(self, record: Record) -> None:
        """Write a record."""

    def flush(self) -> None:
        """Make what was written readable."""

    def end(self, end: End) -> None:
        """Write the end."""


class _Lines:
    """Writes a recording as lines."""

    def __init__(self, out: _Out, level: int | None = None) -> None:
        self._out = out
        self._waiting = bytearray()
        self._compress = None if level is None else zlib.compressobj(level, wbits=31)
        self._inside = 0
        """How many bytes were compressed since the last flush: what they come to is not known yet."""

    @property
    def size(self) -> int:
        return self._out.tell() + len(self._waiting) + self._inside

    def begin(self, header: Header) -> None:
        self._line(ndjson.encode(header))

    def add(self, record: Record) -> None:
        self._line(ndjson.record_line(record))

    def _line(self, line: bytes) -> None:
        line += b"\n"
        if self._compress is not None:
            self._inside += len(line)
            line = self._compress.compress(line)
        self._waiting += line
        if len(self._waiting) >= ndjson.BUFFER:
            self._push()

    def _push(self) -> None:
        self._out.write(bytes(self._waiting))
        self._waiting.clear()

    def flush(self) -> None:
        if self._compress is not None:
            self._waiting += self._compress.flush(zlib.Z_SYNC_FLUSH)
            self._inside = 0
        self._push()

    def end(self, end: End) -> None:
        self._line(ndjson.encode(end))
        if self._compress is not None:
            self._waiting += self._compress.flush()
        self._push()


def _encoders(form: Form, level: int = 1) -> Callable[[_Out], Encoder]:
    """What writes files of a form.

    Raises:
        TraceError: when a package is missing that it needs.
    """
    if form == "mcap":
        from kvwire.trace.files.container import McapEncoder

        return McapEncoder
    return functools.partial(_Lines, level=level if form == "lines.gz" else None)


class Sink:
    """A recording that is written while its run goes on, so that whatever ends the run leaves what was recorded.

    ``add`` only takes a record; ``push`` writes what was taken, at the latest when the run ``end``s. Up to ``begin``
    everything waits, as a file begins with its header. With ``rotate``, the recording goes into files of about so many
    bytes, each of which can be judged alone; their numbers go on behind those of files that are there. ``shield`` puts
    interrupts off while a record is written.

    A full disk ends the writing, not the run: ``failed`` says why, and what was written stays.

    Raises:
        TraceError: when the path is something else than a regular file, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        rotate: int | None = None,
        shield: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self.path = path
        self.failed: str | None = None
        self.written = 0
        """How many records are written, those in earlier parts included."""
        self.bytes = 0
        """How many bytes earlier parts have."""
        self._rotate = rotate
        self._shield = shield
        self._of = secrets.token_hex(8)
        self._first = self._part = 1 if rotate is None else last_part(path) + 1
        self._taken: list[Record] = []
        self._header: Header | None = None
        self._standing: dict[tuple[str, str], Record] = {}
        """What is repeated at the beginning of a part: witnesses, and what became of their connections."""
        self._flushed = time.monotonic()
        self._in_part = 0
        self._open()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the recording so far."""
        if self._rotate is None:
            return (self.path,)
        return tuple(part_of(self.path, number) for number in range(self._first, self._part + 1))

    @property
    def size(self) -> int:
        """How many bytes were written, what waits included."""
        return self.bytes + self._encoder.size

    def _open(self) -> None:
        path = self.files[-1]
        try:
            encoder = _encoders(form_of(path))
            self._out = _Out(path)
            self._encoder = encoder(self._out)
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror}") from None

    def begin(self, header: Header) -> None:
        """Write the header, as far as it is known."""
        self._header = header
        with self._guarded():
            self._encoder.begin(self._of_part(header))
            self._encoder.flush()

    def _of_part(self, header: Header) -> Header:
        if self._rotate is None:
            return header
        part = Part(of=self._of, number=self._part, repeats=len(self._standing) if self._part > self._first else 0)
        return msgspec.structs.replace(header, part=part)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Inside, something is written: no interrupt comes between, and what fails is kept in mind."""
        with self._shield():
            try:
                yield
            except (OSError, TraceError) as error:
                said = error.strerror if isinstance(error, OSError) else str(error)
                self.failed = f"{self.files[-1]}: {said}; the file holds what was recorded before"
                self._taken.clear()

    def add(self, record: Record) -> None:
        """Take a record."""
        if self.failed is None:
            self._taken.append(record)

    def push(self) -> None:
        """Write what was taken, and make it readable every ``FLUSH_S``."""
        if self._header is None or self.failed is not None:
            return
        with self._guarded():
            taken, self._taken = self._taken, []
            for record in taken:
                if self._rotate is not None and self._encoder.size >= self._rotate:
                    self._encoder.flush()  # what waits is counted as it is, not as it will be compressed
                    if self._encoder.size >= FULL * self._rotate and self._in_part:
                        self._next()
                self._encoder.add(record)
                self._in_part += 1
                self.written += 1
                self._note(record)
            now = time.monotonic()
            if now - self._flushed >= FLUSH_S:
                self._flushed = now
                self._encoder.flush()

    def _note(self, record: Record) -> None:
        if isinstance(record.detail, Witnesses):
            self._standing[record.stream, record.source] = record
        elif isinstance(record.detail, SocketEvent):
            self._standing[record.stream, record.detail.of] = record

    def _next(self) -> None:
        """End this part and begin the next."""
        assert self._header is not None
        self._encoder.end(End(end=self._in_part, interrupted=False, continued=True))
        self._out.close()
        self.bytes += self._out.tell()
        self._part += 1
        self._in_part = len(self._standing)
        self._open()
        self._encoder.begin(self._of_part(self._header))
        for record in self._standing.values():
            self._encoder.add(record)
        self._encoder.flush()

    def end(self, *, interrupted: bool = False, header: Header | None = None) -> None:
        """End the recording; ``header`` is the header as it is known by now."""
        if self._header is None and header is not None:
            self.begin(header)
        self.push()
        if self._header is not None and self.failed is None:
            later: Header | msgspec.UnsetType = msgspec.UNSET
            if header is not None and header != self._header:
                later = self._of_part(header)
            with self._guarded():
                self._encoder.end(End(end=self._in_part, interrupted=interrupted, header=later))
        self._out.close()


# --- whole files -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def saved(path: Path) -> Iterator[Encoder]:
    """Inside, a file is written beside the path; behind it, it is there in one step, so that no half is ever left.

    Raises:
        TraceError: when the path is something else than a regular file, or cannot be written.
        OSError: when the disk is full; it names the path.
    """
    refuse_special(path)
    encoder = _encoders(form_of(path), level=9)
    path = reading.real(path) if path.is_symlink() else path  # what a name stands for is replaced, not the name
    partial = path.with_name(f".kvwire.{os.getpid()}.partial")  # short, however long the name is
    try:
        out = _Out(partial)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    try:
        yield encoder(out)
        out.close()
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
    finally:
        out.close()


def write(trace: Trace, path: Path) -> None:
    """Write a trace as a whole; equal traces give equal bytes.

    Raises:
        TraceError: when the path is something else than a regular file, or cannot be written.
    """
    with saved(path) as encoder:
        encoder.begin(trace.header)
        for record in trace.records:
            encoder.add(record)
        if trace.cut:
            encoder.flush()
        else:
            encoder.end(End(end=len(trace.records), interrupted=trace.interrupted))


def convert(recording: Recording, path: Path) -> None:
    """Write a recording in the form that the path ends in: the same header, records and end, whatever their forms.

    Raises:
        TraceError: when it is damaged, or the path cannot be written.
    """
    several = len(recording.paths) > 1
    with saved(path) as encoder:
        encoder.begin(msgspec.structs.replace(recording.header, part=None) if several else recording.header)
        for record in recording:
            encoder.add(record)
        if (end := recording.end) is None:
            encoder.flush()
        elif several:
            header = end.header
            if header is not msgspec.UNSET:
                header = msgspec.structs.replace(header, part=None)
            encoder.end(End(end=recording.ended.records, interrupted=end.interrupted, header=header))
        else:
            encoder.end(end)
