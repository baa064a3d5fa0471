"""What strangers wrote: regular files of a bounded length; JSON and TOML as a value, or one clear error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.standard import reading


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = {"a": [value]}
    return value


def test_what_is_nested_too_deeply_is_an_error_like_others() -> None:
    for raw in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000):
        with pytest.raises(msgspec.DecodeError, match="too deeply"):
            reading.json(msgspec.json.decode, raw)


@pytest.mark.parametrize(("depth", "deep"), [(1, False), (31, False), (40, True), (50_000, True)])
def test_depth_is_counted_without_recursion(depth: int, deep: bool) -> None:
    assert reading.is_deep(nested(depth)) == deep
    assert len(reading.shown(nested(depth))) <= reading.SHOWN


TEXT = """a = 1
[t]
b = 2
"c d" = 3
[[l]]
e = 4
[[l]]
f = [1,
  2]
[l.g]
h.i = 5
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("a",), 1),
        (("t", "b"), 3),
        (("l", 0, "e"), 6),
        (("l", 1, "f", 1), 8),
        (("t", "x"), 2),
        (("z",), None),
        (("l", 1), 7),
    ],
)
def test_a_place_has_the_line_in_which_its_value_begins(place: tuple[str | int, ...], line: int | None) -> None:
    assert reading.line_of(TEXT, place) == line


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xff", "not TOML: 'utf-8' codec"),
        (b"a = ", "not TOML: "),
        (b"a = " + b"[" * 3000, "too deeply"),
        (b"a = " + b"9" * 5000, "Exceeds the limit"),
        (b"#" * (reading.STATEMENT_BYTES + 1), "longer than"),
    ],
)
def test_what_is_no_toml_is_refused_by_name(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(reading.TomlError, match=says) as refused:
        reading.toml(path)
    assert str(refused.value).startswith(str(path))


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(reading.TomlError, match=f"{path}: "):
            reading.toml(path)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 10)
    assert reading.content(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="longer than 9 bytes"):
        reading.content(path, 9)


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    for special in (path, Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file"):
            reading.content(special)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "arguments",
    [
        ("judge", "/dev/zero"),
        ("report", "/dev/zero"),
        ("doctor", "trace:/dev/zero"),
        ("check", "reference:", "--expected-failures", "/dev/zero"),
    ],
)
def test_every_command_refuses_it(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(list(arguments)) == Exit.USAGE
    assert "no regular file" in capsys.readouterr().err
