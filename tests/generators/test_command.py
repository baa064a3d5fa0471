"""``python -m kvwire_generators``: what is generated is written in one go, or compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvwire.standard import drift
from kvwire_generators import build
from kvwire_generators.__main__ import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_build_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: tmp_path)  # from a wheel there is none
    monkeypatch.setattr(build, "check", lambda _: ["hash/salt_id.json:9: salt-id-known: the generator gives …"])
    result = run("build", "--check")
    assert result.exit_code == 1
    assert "salt-id-known" in result.stdout
    monkeypatch.setattr(build, "check", lambda _: [])
    assert run("build", "--check").stdout == "vectors: data and generators agree\n"
    monkeypatch.setattr(build, "write", lambda _: [])
    assert run("build").stdout == "vectors: built\n"


def test_build_needs_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: None)
    result = run("build")
    assert result.exit_code == 2
    assert "its vectors read-only" in result.stderr


def test_a_session_without_a_plan_is_not_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: tmp_path)
    result = run("record", "nothing")
    assert result.exit_code == 2
    assert "no session 'nothing' is recorded; there are reference, " in result.stderr
