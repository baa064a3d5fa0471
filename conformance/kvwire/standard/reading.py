"""What strangers wrote, read: files within bounds; JSON and TOML, however deep or odd, as a value or one error."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

MIB = 2**20
STATEMENT_BYTES = MIB
"""How long what somebody writes by hand may be: a statement, expectations, expected failures."""
RESULT_BYTES = 64 * MIB
"""How long a result stream may be."""

DEPTH = 64
"""How deep a value may be nested of which nothing else is known."""
SHOWN = 80
"""How many characters of a value are shown."""
TOO_DEEP = "it is nested too deeply"

Value = TypeVar("Value")


def json(decode: Callable[[bytes | msgspec.Raw], Value], raw: bytes | msgspec.Raw) -> Value:
    """What a decoder of msgspec makes of JSON.

    Raises:
        msgspec.MsgspecError: when it is none, or not of the decoder's type, or nested more deeply than can be read.
    """
    try:
        return decode(raw)
    except RecursionError:
        raise msgspec.DecodeError(TOO_DEEP) from None


def is_deep(value: object, most: int = DEPTH) -> bool:
    """Whether objects and arrays in a value are nested more deeply than so."""
    level = [value]
    for _ in range(most + 1):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list | tuple)
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list | tuple)
        ]
        if not level:
            return False
    return True


def real(path: Path) -> Path:
    """What a name stands for. Of links in a circle itself: pathlib has an error for them that is no OSError."""
    return Path(os.path.realpath(path))


def regular(path: Path) -> None:
    """Refuse what is no regular file: reading it may never end, or never begin.

    Raises:
        OSError: when it is none; ``strerror`` says so.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "no regular file: copy what it gives to one first")


def content(path: Path, most: int = STATEMENT_BYTES) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: when it cannot be read, is no regular file or longer than ``most`` bytes; ``strerror`` says which.
    """
    regular(path)
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"longer than {most} bytes")
    return raw


class TomlError(ValueError):
    """A file that is no TOML, or cannot be read: the message says why, and names it."""


def toml(path: Path) -> tuple[dict[str, Any], str]:
    """What a TOML file holds, and its text.

    Raises:
        TomlError: when it cannot be read, is too long, or no TOML.
    """
    try:
        text = content(path).decode()
        return tomllib.loads(text.replace("\r\n", "\n")), text
    except OSError as error:
        raise TomlError(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise TomlError(f"{path}: not TOML: {TOO_DEEP}") from None
    except ValueError as error:  # no UTF-8, no TOML, a number with thousands of digits
        raise TomlError(f"{path}: not TOML: {error}") from None


def line_of(text: str, place: Sequence[str | int]) -> int | None:
    """The line of a TOML text in which the value of a place begins, as far as tables and keys on lines tell.

    ``place`` are keys and indices from the top, as in ``("streams", 0, "rank")``.
    """
    table: tuple[str | int, ...] = ()
    counts: dict[str, int] = {}
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[(\[?)\s*([\w.\"' -]+?)\s*\]", line):
            name = re.sub(r"[\"'\s]", "", head[2])
            table = tuple(name.split("."))
            if head[1]:
                counts[name] = counts.get(name, -1) + 1
                table = (*table, counts[name])
            here = table
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            here = (*table, *re.sub(r"[\"']", "", key[1]).split("."))
        else:
            continue
        if here == tuple(place[: len(here)]) and (best is None or len(here) > best[0]):
            best = (len(here), number)
    return None if best is None else best[1]


def place_of(error: msgspec.ValidationError) -> tuple[str | int, ...]:
    """Where a value stands of which msgspec complains, or a field that it does not know."""
    said, _, path = str(error).partition(" - at `$")
    parts = re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]", path)
    unknown = re.search(r"unknown field `(.*)`", said, re.DOTALL)
    return (*(name or int(index) for name, index in parts), *([unknown[1]] if unknown else []))


def complaint(error: msgspec.ValidationError, raw: object, text: str = "") -> str:
    """What is wrong with a value, to be put behind the name of its file: line, field, value, and what it may be."""
    place = place_of(error)
    line = line_of(text, place) if text else None
    found = f", line {line}: " if line is not None else ": "
    holder = place[:-1] if "unknown field" in str(error) else place
    if holder:
        found += f"`{path_of(holder)}`" + (
            ": " if str(error).startswith("Object") else f" is {shown(at(raw, place))}: "
        )
    return found + str(error).partition(" - at `")[0]


def path_of(place: Sequence[str | int]) -> str:
    """A place as users write it: ``streams[0].rank``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def at(value: Any, place: Sequence[str | int]) -> Any:
    """The value of a place; None where there is none."""
    for part in place:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def named(name: str) -> str:
    """The name of a file as text that can be written: bytes of it that are no UTF-8 in hex."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def shown(value: object, most: int = SHOWN) -> str:
    """A value in at most so many characters."""
    text = "(nested too deeply)" if is_deep(value) else repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
