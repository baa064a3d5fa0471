"""Numbers, times, sizes and names as users write them: ASCII digits, in a range, nothing that is taken for another."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import click

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
BYTES |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGT", 1)}

LOOPBACK = "127.0.0.1"
PORT_MAX = 65535


POWERS = {2**bits - less: f"2^{bits}" + ("−1" if less else "") for bits in (31, 32, 63, 64) for less in (0, 1)}
"""Numbers that help writes as powers."""

YEARS_S = 10 * 366 * SECONDS["d"]
"""The longest time that can be asked for."""


class Words(click.types.StringParamType):
    """A text that is hashed: bytes of a command line that are no UTF-8 have no encoding."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not UTF-8", param, ctx)
        return text


class Named(click.Path[Path]):
    """A file or folder that has a name, no longer than names can be; an empty one would be the current folder."""

    def __init__(self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path."""
        if not os.fspath(value):
            self.fail("the name is empty; the current folder is written as a dot", param, ctx)
        try:
            os.lstat(value)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                self.fail(f"{os.fspath(value)}: {error.strerror}", param, ctx)
        return super().convert(value, param, ctx)


class Whole(click.IntRange):
    """An integer in decimal ASCII digits; Python would take ``1_0`` and the digits of any script."""

    name = "integer"

    def _describe_range(self) -> str:
        """The range, for help: none where there is none, and powers of two as such."""
        if self.min is None and self.max is None:
            return ""
        text = super()._describe_range()
        return re.sub(r"\d{10,}", lambda found: POWERS.get(int(found[0]), found[0]), text)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The integer."""
        text = str(value).strip()
        if not re.fullmatch(r"[+-]?[0-9]{1,40}", text):
            self.fail(f"{text!r} is no integer in decimal digits", param, ctx)
        return int(super().convert(int(text), param, ctx))


class Seconds(click.FloatRange):
    """A number of seconds that is at least so many and can be awaited."""

    name = "seconds"

    def __init__(self, min: float) -> None:  # noqa: A002 - as click has it
        super().__init__(min=min, max=YEARS_S)

    def _describe_range(self) -> str:
        return f"x>={self.min:g}"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        text = str(value).strip()
        if not re.fullmatch(r"[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}", text):
            self.fail(f"{text!r} is no number in decimal digits", param, ctx)
        return float(super().convert(float(text), param, ctx))


class Duration(click.ParamType[float]):
    """A time such as ``90``, ``30s``, ``1h30m``, ``2d``, in seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        text = str(value).strip()
        parts = re.fullmatch(r"(?:[0-9]+(?:\.[0-9]+)?[smhd])+", text)
        if parts:
            seconds = sum(float(number) * SECONDS[unit] for number, unit in re.findall(r"([\d.]+)([smhd])", text))
        elif re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
            seconds = float(text)
        else:
            self.fail(f"{text!r} is no time; write 90, 30s, 1h30m or 2d", param, ctx)
        if seconds <= 0:
            self.fail(f"{text!r} is no time above 0", param, ctx)
        if seconds > YEARS_S:
            self.fail(f"{text!r} is more than ten years", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """A size such as ``500MB``, ``1GB``, ``64KiB``, in bytes."""

    name = "size"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        text = str(value).strip()
        parts = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]+)?) ?([KMGT]i?|)B?", text, re.IGNORECASE)
        unit = "" if parts is None else parts[2].upper().replace("I", "i")
        if parts is None:
            self.fail(f"{text!r} is no size; write 500MB, 1GB or 64KiB", param, ctx)
        size = int(float(parts[1]) * BYTES[unit])
        if size < self.least:
            self.fail(f"{text!r} is less than {self.least} bytes", param, ctx)
        return size


class Place(click.ParamType[tuple[str, int]]):
    """Where to listen: ``9464``, ``:9464``, ``0.0.0.0:9464``, ``[::1]:9464``; on loopback unless a host is named."""

    name = "[host:]port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The host and the port."""
        text = str(value).strip()
        parts = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):)?([0-9]{1,5})", text)
        if parts is None or int(parts[2]) > PORT_MAX:
            self.fail(f"{text!r} is no place to listen at; write 9464, 0.0.0.0:9464 or [::1]:9464", param, ctx)
        return (parts[1] or LOOPBACK).strip("[]"), int(parts[2])
