"""Small files of strangers: regular ones, of a bounded length."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.standard import small_files


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 10)
    assert small_files.content(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="longer than 9 bytes"):
        small_files.content(path, 9)


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    for special in (path, Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file"):
            small_files.content(special)


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
