"""Which files make a recording: each by itself, but the parts of one that was written to several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kvwire.standard import reading
from kvwire.trace import files
from kvwire.trace.captures import capture
from kvwire.trace.records import Part, TraceError

CAPTURES = (".pcap", ".pcapng", ".cap")
"""The endings of packet captures that are looked for in folders: behind them stand the numbers of files that tcpdump
writes in turn, and ``.gz``."""
_CAPTURE = re.compile(rf"({'|'.join(map(re.escape, CAPTURES))})[0-9]*(\.gz)?\Z")


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One recording: its name for readers and its files, in their order; ``error`` says why it is none."""

    name: str
    paths: tuple[Path, ...]
    error: str = ""


class _File(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: Path
    part: Part | None = None
    error: str = ""


def units(paths: Sequence[Path]) -> tuple[Unit, ...]:
    """The recordings among files and folders, in the order in which they are named; those of a folder are sorted.

    Parts that follow each other are one recording, which stands where its first part does. Where one is missing, the
    recording begins anew behind it.

    Raises:
        TraceError: when a folder holds no recording.
    """
    found: list[list[_File]] = []
    by_recording: dict[str, list[_File]] = {}
    seen: set[Path] = set()
    for file in _files(paths):
        if (real := reading.real(file.path)) in seen:
            continue
        seen.add(real)
        if file.part is None:
            found.append([file])
        elif file.part.of in by_recording:
            by_recording[file.part.of].append(file)
        else:
            found.append(by_recording.setdefault(file.part.of, [file]))
    return tuple(unit for group in found for unit in _of(group))


def _files(paths: Sequence[Path]) -> Iterator[_File]:
    for path in paths:
        if not path.is_dir():
            yield _looked(path.name, path)
            continue
        captured = (file for file in path.rglob("*") if _CAPTURE.search(file.name) and capture.is_capture(file))
        inside = sorted([*files.recordings(path), *captured])
        if not inside:
            endings = ", ".join((*files.ENDINGS, *CAPTURES))
            raise TraceError(f"{path}: no recording is in this folder: none ends in {endings}")
        for file in inside:
            yield _looked(file.relative_to(path).as_posix(), file)


def _looked(name: str, path: Path) -> _File:
    name = reading.named(name)
    if capture.is_capture(path):
        return _File(name=name, path=path)
    try:
        with files.open_recording(path) as recording:
            return _File(name=name, path=path, part=recording.header.part)
    except TraceError as error:
        return _File(name=name, path=path, error=str(error))


def _of(group: list[_File]) -> Iterator[Unit]:
    """The recordings of files that are one, or parts of one."""
    first = group[0]
    if first.part is None:
        yield Unit(name=first.name, paths=(first.path,), error=first.error)
        return
    by_number = {file.part.number: file for file in group if file.part is not None}
    run: list[int] = []
    for number in sorted(by_number):
        if run and number != run[-1] + 1:
            yield _joined([by_number[one] for one in run])
            run = []
        run.append(number)
    yield _joined([by_number[one] for one in run])


def _joined(parts: Sequence[_File]) -> Unit:
    name = parts[0].name
    if len(parts) > 1:
        name += f"…{parts[-1].name.rpartition('.')[2]}"
    return Unit(name=name, paths=tuple(part.path for part in parts))
