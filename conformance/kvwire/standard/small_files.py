"""Small files of users and strangers, read whole: regular ones, and no longer than a bound."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MIB = 2**20
STATEMENT_BYTES = MIB
"""How long what somebody writes by hand may be: a statement, expectations, expected failures."""
RESULT_BYTES = 64 * MIB
"""How long a result stream may be."""


def regular(path: Path) -> None:
    """Refuse what is no regular file: reading it may never end, or never begin.

    Raises:
        OSError: when it is none; ``strerror`` says so.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "no regular file: copy what it gives to one first")


def content(path: Path, most: int = STATEMENT_BYTES) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: when it cannot be read, is no regular file or longer than ``most`` bytes; ``strerror`` says which.
    """
    if path.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    regular(path)
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"longer than {most} bytes")
    return raw


def text(path: Path, most: int = STATEMENT_BYTES) -> str:
    """The text of a file in UTF-8.

    Raises:
        OSError: as ``content``.
        UnicodeDecodeError: when it is another encoding.
    """
    return content(path, most).decode()
