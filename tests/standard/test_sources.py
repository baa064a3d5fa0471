"""Files of the standard that cannot be read are named, and read no further."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvwire.cli.root import main
from kvwire.judges.verdict import Exit
from kvwire.standard import drift, sources

REAL = Path(__file__).parents[2] / "spec"
Spoil = Callable[[Path], object]


def written(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content)


def instead(make: Spoil) -> Spoil:
    def spoil(path: Path) -> None:
        path.unlink()
        make(path)

    return spoil


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A copy of the standard."""
    return shutil.copytree(REAL, tmp_path / "spec")


def test_the_standard_can_be_read() -> None:
    assert list(sources.unreadable(REAL)) == []


@pytest.mark.parametrize(
    ("name", "spoil", "why"),
    [
        ("batch.md", written(b"\xff\xfe"), "no UTF-8: invalid start byte at byte 0"),
        ("batch.md", written(b"x" * (sources.MOST + 1)), "longer than 4194304 bytes"),
        ("batch.md", instead(lambda path: path.symlink_to("/dev/zero")), "no regular file"),
        ("batch.md", instead(os.mkfifo), "no regular file"),
        ("batch.md", instead(lambda path: path.symlink_to("nowhere")), "No such file"),
        ("requirements.toml", written(b"["), "not TOML"),
        ("editions/pending.toml", written(b"a = " + b"[" * 10_000), "not TOML"),
        ("requirements.json", written(b"[]"), "Expected `object`, got `array`; `kvwire spec build` writes it"),
        ("requirements.json", written(b"{"), "Input data was truncated"),
        ("profiles/core.json", written(b"{}"), "missing required field"),
        ("schemas/batch.schema.json", written(b"{"), "truncated"),
        ("schemas/batch.schema.json", written(b"[" * 100_000), "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_a_problem_of_that_file_and_no_traceback(
    name: str, spoil: Spoil, why: str, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: real)
    spoil(real / name)
    for command in ("check", "release", *(["build"] if name != sources.BUILT else [])):
        done = CliRunner().invoke(main, ["spec", command])
        assert done.exit_code == Exit.NOT_CONFORMANT, command
        assert f"spec/{name}: it cannot be read: " in done.output
        assert why in done.output
        assert "1 problem\n" in done.output


def test_build_writes_a_registry_that_was_none(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: real)
    (real / "requirements.json").write_bytes(b"{")
    done = CliRunner().invoke(main, ["spec", "build"])
    assert done.exit_code == Exit.CONFORMANT, done.output
    assert (real / "requirements.json").read_bytes() == (REAL / "requirements.json").read_bytes()
