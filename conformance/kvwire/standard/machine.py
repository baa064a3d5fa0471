"""What the machine refuses, which is no fault of the harness: said in a line. And a place for sockets on it."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from concurrent.futures import BrokenExecutor
from pathlib import Path

from kvwire.standard import reading

ERRORS = frozenset(
    getattr(errno, name)
    for name in (
        "EACCES",
        "EAGAIN",
        "EDQUOT",
        "EFBIG",
        "EIO",
        "EISDIR",
        "ELOOP",
        "EMFILE",
        "ENAMETOOLONG",
        "ENFILE",
        "ENOENT",
        "ENOMEM",
        "ENOSPC",
        "ENOTDIR",
        "EPERM",
        "EROFS",
    )
)


def refusal(error: BaseException) -> str:
    """What it refused; empty where an error is another."""
    if isinstance(error, OSError) and error.errno in ERRORS:
        place = error.filename2 or error.filename  # of a copy, where it goes
        return f"{place}: {error.strerror}" if place else str(error.strerror)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, BrokenExecutor):
        return "a process that worked here was ended: there may not be enough memory"
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":  # Python has no type for it
        return "no thread can be started: there are too many, or there is not enough memory"
    return ""


def folder(most: int) -> Path:
    """A private folder for sockets, whose name has at most so many bytes and is UTF-8: in /tmp where not in TMPDIR.

    Raises:
        OSError: when there is no such place.
    """
    for place in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - the folder in it is private
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix="kvwire-", dir=place))
            if reading.named(str(made)) == str(made) and len(os.fsencode(made)) <= most:
                return made
            made.rmdir()
    why = "no socket can lie here: set TMPDIR to a folder with a short name, in UTF-8"
    raise OSError(errno.ENAMETOOLONG, why, reading.named(tempfile.gettempdir()))
