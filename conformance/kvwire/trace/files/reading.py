"""A recording, record by record, in constant memory, whatever its form."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from kvwire.standard.reading import regular
from kvwire.trace.captures.packets import is_capture
from kvwire.trace.files import ndjson
from kvwire.trace.files.ends import End, Item
from kvwire.trace.files.forms import form_of
from kvwire.trace.marks import ProbeMark
from kvwire.trace.packed import Digest
from kvwire.trace.planned import Left
from kvwire.trace.records import HELD_BYTES, Header, Record, Trace, TraceError, held


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a recording ended, known behind its last record.

    ``header`` is the header as it was known then. ``cut`` says where a recording breaks off that has no end, and is
    empty otherwise; ``continued``: another part follows. ``digest`` is the SHA-256 of what was recorded, in hex, the
    same in every form.
    """

    header: Header
    records: int
    interrupted: bool = False
    cut: str = ""
    continued: bool = False
    digest: str


class Recording:
    """The records of one file, or of the parts of one recording in order. Iterate once, then see how it ``ended``.

    ``header`` is the header as it was known when the recording began: target, level, statement and streams are
    final, what became of the probes stands in ``ended.header``. Use it in a ``with`` statement, which closes the file.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self._digest = Digest()
        self._files: list[IO[bytes] | gzip.GzipFile] = []
        self._items = self._of(self.paths[0])
        try:
            self.header = self._header_of(self.paths[0])
        except TraceError:
            self.close()
            raise
        self._last = self.header
        self.end: End | None = None
        """What stands behind the last record that was read; None where nothing does."""
        self._ended: Ended | None = None
        self._count = self._at = 0
        self._begun: list[str] = []
        self._done: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open."""
        for file in self._files:
            file.close()

    def __iter__(self) -> Iterator[Record]:
        """The records, in order.

        Raises:
            TraceError: when the file is damaged; the message names file and place.
        """
        for at, path in enumerate(self.paths):
            self._at = at
            yield from self._records(path)
        self._conclude()

    @property
    def position(self) -> float:
        """How much of it was read, from 0 to 1; files may grow meanwhile, or go."""
        done = sum(map(_size, self.paths[: self._at]))
        here = self._files[0].tell() if self._files and not self._files[0].closed else 0
        return min(1.0, (done + here) / max(1, sum(map(_size, self.paths))))

    @property
    def ended(self) -> Ended:
        """How it ended."""
        assert self._ended is not None, "known behind the last record only"
        return self._ended

    def _of(self, path: Path) -> Iterator[Item]:
        """What stands in a file; its records are in the digest."""
        for file in self._files:
            file.close()
        self._files.clear()
        try:
            regular(path)
            file = path.open("rb")
            self._files.append(file)
            if form_of(path) == "mcap":
                from kvwire.trace.files import container

                yield from container.items(file, self._digest)
                return
            raw: IO[bytes] | gzip.GzipFile = file
            if form_of(path) == "lines.gz":
                raw = gzip.GzipFile(fileobj=file)
                self._files.append(raw)
            yield from ndjson.items(ndjson.bounded(raw), self._digest)
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror or error}") from None
        except TraceError as error:
            if is_capture(path):
                raise TraceError(f"{path}: a packet capture, which is no recording: `kvwire judge` takes it") from None
            raise TraceError(f"{path}: {error}") from None

    def _header_of(self, path: Path) -> Header:
        item = next(self._items, None)
        if not isinstance(item, Header):
            raise TraceError(f"{path}: the file is empty: a trace begins with its header")
        return item

    def _records(self, path: Path) -> Iterator[Record]:
        own = repeated = 0
        self.end = None
        if path != self.paths[0]:
            self._items = self._of(path)
            self._last = self._header_of(path)
            repeated = 0 if self._last.part is None else self._last.part.repeats
            self._digest.skipped = repeated
        for item in self._items:
            if isinstance(item, list):
                new = item[repeated:]
                repeated -= min(repeated, len(item))
                own += len(item)
                for record in new:
                    self._count += 1
                    if isinstance(record.detail, ProbeMark):
                        self._mark(record.detail)
                    yield record
            elif isinstance(item, End):
                self.end = item
                if item.end != own:
                    raise TraceError(f"{path}: the end line counts {item.end} records, the file has {own}")
                if item.header is not msgspec.UNSET:
                    self._last = item.header
        if self.end is None and path != self.paths[-1]:
            raise TraceError(f"{path}: cut short, and another part follows")

    def _mark(self, mark: ProbeMark) -> None:
        if mark.phase == "begins":
            self._begun.append(mark.name)
        else:
            self._done.add(mark.name)

    def _conclude(self) -> None:
        end = self.end
        header = self._last
        if end is None:
            header = self._cut(header)
        if header.part is not None and self.header.part is not None:
            header = msgspec.structs.replace(header, part=self.header.part)
        interrupted = end is not None and end.interrupted
        cut = "" if end is not None else f"the recording was cut short after {self._count} records"
        self._ended = Ended(
            header=header,
            records=self._count,
            interrupted=interrupted,
            cut=cut,
            continued=end is not None and end.continued is True,
            digest=self._digest.end(header, interrupted=interrupted, cut=bool(cut)),
        )

    def _cut(self, header: Header) -> Header:
        """The header of a run that did not come to its end: no probe that did not end was carried out."""
        plan = tuple(
            msgspec.structs.replace(probe, left=Left.INTERRUPTED)
            if probe.left is None and probe.name not in self._done
            else probe
            for probe in header.plan
        )
        return msgspec.structs.replace(header, plan=plan, probes=tuple(self._begun) or header.probes)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def open_recording(*paths: Path) -> Recording:
    """The recording that lies in a file, or in several that are its parts, in their order.

    Raises:
        TraceError: when the first file is none; the message names it.
    """
    return Recording(paths)


def read(*paths: Path, most: int = HELD_BYTES) -> Trace:
    """Read a whole recording into memory. One that was cut short is read as far as it goes (``Trace.cut``).

    Raises:
        TraceError: when it is none, or takes more than ``most`` bytes of memory; the message names the file.
    """
    with open_recording(*paths) as recording:
        records = tuple(held(recording, most))
    ended = recording.ended
    return Trace(header=ended.header, records=records, interrupted=ended.interrupted, cut=ended.cut)


def parse(raw_lines: Iterable[bytes]) -> Trace:
    """The trace of the lines of a file, which has to be whole.

    Raises:
        TraceError: when it is not, or a line is none of a trace; the message has its number.
    """
    header: Header | None = None
    records: list[Record] = []
    end: End | None = None
    for item in ndjson.items(raw_lines, Digest()):
        if isinstance(item, list):
            records += item
        elif isinstance(item, Header):
            header = item
        else:
            end = item
    assert header is not None
    if end is None:
        raise TraceError(f"the end line is missing after {len(records)} records: the file was cut short")
    if end.end != len(records):
        raise TraceError(f"the end line counts {end.end} records, the file has {len(records)}")
    last = header if end.header is msgspec.UNSET else end.header
    return Trace(header=last, records=tuple(records), interrupted=end.interrupted)
