"""``python -m kvwire_generators``: everything that is generated is written in one go, or compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from kvwire.peers import mutants
from kvwire.standard import drift
from kvwire.vectors import sessions
from kvwire_generators import checkout
from kvwire_generators.__main__ import main
from kvwire_generators.sessions import plans

HOME = checkout.ROOT


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What is generated, and what it is generated from beside the code, to be changed."""
    for name in ("spec", "vectors"):
        shutil.copytree(HOME / name, tmp_path / name)
    (tmp_path / "implementations").mkdir()
    for name in (checkout.README, checkout.SPOKEN):
        shutil.copy(HOME / name, tmp_path / name)
    return tmp_path


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.slow
def test_the_checkout_is_up_to_date() -> None:
    assert checkout.check(HOME) == [], "run `tox -e generate`"


@pytest.mark.slow
def test_what_is_stale_is_named_and_written_again(home: Path) -> None:
    changed(home / checkout.SPOKEN, "KVW-", "KVW-RES-099")
    changed(home / "README.md", "✓ kept, on at least one occasion", "✓ kept, on one occasion")
    changed(home / "vectors" / sessions.PATH, '"KVW-ENV-001":"FAIL"', '"KVW-ENV-001":9')
    (home / "spec" / "editions" / "pending.toml").unlink()
    (home / "vectors" / "COVERAGE.md").unlink()
    (home / "vectors" / "wire" / "mine.json").write_text("{}")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    problems = checkout.check(home)
    assert before == {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    named = sorted({problem.split(":")[0] for problem in problems})
    assert named == [
        "README.md",
        checkout.SPOKEN,
        "spec/editions/pending.toml",
        "vectors/COVERAGE.md",
        f"vectors/{sessions.PATH}",
        "vectors/wire/mine.json",
    ]
    assert any(": KVW-ENV-001: expected PASS ×9, got FAIL" in problem for problem in problems)
    assert checkout.write(home) == []
    for path in (
        "README.md",
        checkout.SPOKEN,
        "spec/editions/pending.toml",
        "vectors/COVERAGE.md",
        f"vectors/{sessions.PATH}",
    ):
        assert (home / path).read_bytes() == (HOME / path).read_bytes(), path
    assert not (home / "vectors" / "wire" / "mine.json").exists()


@pytest.mark.slow
def test_nothing_is_written_behind_what_somebody_has_to_decide(home: Path) -> None:
    (home / "vectors" / "COVERAGE.md").unlink()
    lock = home / "vectors" / "ids.lock"
    lock.write_text(lock.read_text() + "gone-1 hash/salt_id.json\n")
    (problem,) = checkout.write(home)
    assert problem.startswith("vectors/hash/salt_id.json: gone-1: the test is gone: ")
    assert not (home / "vectors" / "COVERAGE.md").exists()


@pytest.mark.slow
def test_while_the_registry_is_stale_the_rest_is_not_compared(home: Path) -> None:
    changed(home / "spec" / "requirements.toml", 'decided_by = "envelope"', 'decided_by = "engine"')
    stale, rest = checkout.check(home)
    assert stale.startswith("spec/requirements.json: not what the prose and the table give: ")
    assert rest == checkout.AGAIN


@pytest.mark.slow
def test_a_judged_sentence_that_no_mutant_breaks_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = {name: one for name, one in mutants.MUTANTS.items() if one.primary != "KVW-ENV-003"}
    monkeypatch.setattr(mutants, "MUTANTS", left)
    (problem,) = checkout.write(home)
    assert problem.startswith("conformance/kvwire/peers: KVW-ENV-003: it is judged, and no mutant breaks it: ")


@pytest.mark.network
@pytest.mark.slow
def test_a_session_that_is_missing_is_recorded(home: Path) -> None:
    path = home / "vectors" / sessions.path_of("mutant-two-frames")
    path.unlink()
    (problem,) = checkout.check(home)
    assert problem.endswith("run `python -m kvwire_generators record mutant-two-frames`")
    assert checkout.write(home) == []
    assert path.is_file()


@pytest.mark.slow
def test_a_session_that_cannot_be_recorded_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "vectors" / sessions.path_of("mutant-two-frames")
    path.unlink()
    plan = msgspec.structs.replace(plans.plans()["mutant-two-frames"], probes=("live", "nothing"))
    monkeypatch.setattr(plans, "plans", lambda: {"mutant-two-frames": plan})
    monkeypatch.setattr("kvwire_generators.sessions.records.ATTEMPTS", 1)
    monkeypatch.setattr("kvwire_generators.sessions.records.record", _refuse)
    assert checkout.write(home) == [f"vectors/{sessions.path_of('mutant-two-frames')}: nothing was heard"]


def _refuse(*_: object) -> None:
    raise sessions.SessionError("nothing was heard")


# --- the command --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: tmp_path / "spec")  # from a wheel there is none
    monkeypatch.setattr(checkout, "check", lambda _: ["vectors/hash/salt_id.json:9: salt-id-known: …"])
    result = run("--check")
    assert result.exit_code == 1
    assert "salt-id-known" in result.stdout
    monkeypatch.setattr(checkout, "check", lambda _: [])
    assert run("--check").stdout == "everything generated is up to date\n"
    monkeypatch.setattr(checkout, "write", lambda home: [] if home == tmp_path else ["elsewhere"])
    assert run().stdout == "everything generated is written\n"


@pytest.mark.slow
def test_the_command_needs_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: None)
    result = run()
    assert result.exit_code == 2
    assert "its files are read-only" in result.stderr


@pytest.mark.slow
def test_a_session_without_a_plan_is_not_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drift, "checkout", lambda: tmp_path / "spec")
    result = run("record", "nothing")
    assert result.exit_code == 2
    assert "no session 'nothing' is recorded; there are reference, " in result.stderr
