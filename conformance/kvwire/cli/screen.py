"""What commands print, and the files that they write: nothing that strangers wrote is obeyed, nothing found is lost."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import click
import msgspec
from rich.console import Console

from kvwire.report.faces import COLUMNS
from kvwire.report.visible import ascii_json, visible
from kvwire.standard import reading


class Screen(Console):
    """A console that does not end the process by itself: rich's own exit code would be *not conformant*."""

    def on_broken_pipe(self) -> None:
        """Its reader has left."""
        raise BrokenPipeError


def screen() -> Console:
    """Standard output; a pipe has no width, and lines that are broken in it are hard to search."""
    console = Screen(soft_wrap=False, highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Screen(soft_wrap=False, highlight=False, width=COLUMNS)


def aside() -> Console:
    """Standard error, for progress."""
    return Console(file=cast("IO[str]", Lossy()))


def say(text: str, *, err: bool = False) -> None:
    """One line, in which a terminal obeys nothing. Standard error that takes nothing more is no reason to end."""
    with contextlib.suppress(*([OSError] if err else [])):
        click.echo(visible(text), err=err)


class Lossy:
    """Standard error, for what is worth nothing when nobody sees it: its terminal may be closed in the middle."""

    def write(self, text: str) -> int:
        """Write as far as it goes."""
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        with contextlib.suppress(OSError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def say_json(value: object) -> None:
    """A value as one line of JSON, in which a terminal obeys nothing."""
    click.echo(ascii_json(msgspec.json.encode(value)))


def writable(path: Path, option: str) -> None:
    """Refuse before the run what would lose its result after it.

    Raises:
        click.UsageError: when the folder is not there, or neither file nor folder can be written.
    """
    try:
        folder = path.absolute().parent
    except FileNotFoundError:
        raise click.UsageError(f"{option} {path}: the current folder does not exist any more") from None
    if not folder.is_dir():
        raise click.UsageError(f"{option} {path}: the folder {folder} does not exist")
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise click.UsageError(f"{option} {path}: {error.strerror}") from None
    if path.is_dir():
        raise click.UsageError(f"{option} {path}: a folder; name a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise click.UsageError(f"{option} {path}: it cannot be written")


def write(path: Path, content: bytes) -> None:
    """Write a file of ours. A regular one is replaced once the new one is whole; a pipe or a device is written to.

    What is standard output by another name is written as that is, among what is printed.

    Raises:
        OSError: when it cannot be written; what was there is there still.
    """
    with contextlib.suppress(FileNotFoundError):
        path = reading.real(path) if path.is_symlink() and path.parent != Path("/dev") else path
        there = path.stat()
        if _is_printed(there):
            click.echo(content, nl=False)
            return
        if not stat.S_ISREG(there.st_mode):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK), "wb", buffering=0) as file:
                os.set_blocking(file.fileno(), True)  # a pipe that nobody reads is an error, and no wait
                _whole(file, content)
            return
    partial = path.with_name(f".kvwire.{os.getpid()}.partial")  # short, however long the name is
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _is_printed(there: os.stat_result) -> bool:
    """Whether a file is what this process prints to."""
    try:
        return os.path.samestat(there, os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # it is closed, or no file
        return False


def _whole(file: IO[bytes], content: bytes) -> None:
    """Write all of it; an unbuffered file takes what it can."""
    while content:
        content = content[file.write(content) :]


def wrote(files: Iterable[tuple[Path, bytes]]) -> bool:
    """Write each of these; whether all are written. What could not be is said, and keeps none of the others."""
    failed = 0
    for path, content in files:
        try:
            write(path, content)
        except OSError as error:
            failed += 1
            say(f"kvwire: cannot write {path}: {error.strerror}", err=True)
    return not failed


class Growing:
    """A file that grows while something goes on; of None, nothing. A full disk ends the file, and nothing else."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.failed = False
        self._file: IO[bytes] | None = None
        self._printed = path is not None and path.exists() and _is_printed(path.stat())
        with self._guarded():
            self._file = None if path is None or self._printed else path.open("wb", buffering=0)

    def write(self, content: bytes) -> None:
        """Write on."""
        with self._guarded():
            if self._printed:
                click.echo(content, nl=False)
            elif self._file is not None and not self.failed:
                _whole(self._file, content)

    def close(self) -> None:
        """Close it."""
        with self._guarded():
            if self._file is not None:
                self._file.close()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.failed:
                say(f"kvwire: cannot write {self.path}: {error.strerror}", err=True)
            self.failed = True
