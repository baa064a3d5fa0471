"""The hostile suite: its rows are sound, what breaks a bound is heard, and the quick ones are kept."""

from __future__ import annotations

import sys
import time

import pytest

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile import suite
from kvwire.selftest.hostile.bench import MEMORY_MB, Attack, Bench, Ran
from kvwire.selftest.hostile.catalog import ATTACKS

POPEN = "import subprocess, sys; print('done', flush=True); subprocess.Popen"
QUICK = [attack for attack in ATTACKS if attack.quick]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc")


def attack(code: str, *, seconds: float = 20, megabytes: int = 200, says: str = "done") -> Attack:
    """An attack that is a script."""

    def run(bench: Bench) -> Ran:
        return bench.run([sys.executable, "-c", code])

    return Attack(name="x", on="file", does="x", run=run, exits=(0,), says=says, seconds=seconds, megabytes=megabytes)


def test_there_are_fifty_at_least_and_each_has_a_name_of_its_own() -> None:
    assert len(ATTACKS) >= 50
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    assert all(attack.argued for attack in ATTACKS if attack.megabytes > MEMORY_MB)


def test_what_is_kept_is_said_to_be() -> None:
    row = suite.held(attack("print('done')"))
    assert row.broken == ()
    assert row.exit == 0


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('done'); x = bytearray(b'x') * 300_000_000; import time; time.sleep(1)", "MB, more than 200"),
        ("print('done'); raise SystemExit(3)", "exit code 3, not 0"),
        ("print('gone')", "it did not say 'done'"),
        ("import os; print('done'); open(os.environ['TMPDIR'] + '/left', 'w')", "left behind: left"),
        (
            f"{POPEN}([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)",
            "left behind: process",
        ),
        ("print('done', chr(27) + '[2J')", "an escape"),
        ("print('done', flush=True); print('Traceback (most recent call last)')", "a traceback"),
    ],
)
def test_what_breaks_a_bound_is_heard(code: str, why: str) -> None:
    row = suite.held(attack(code))
    assert any(why in said for said in row.broken), row.broken


def test_a_command_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwire.selftest.hostile.bench.starved", lambda: False)
    began = time.monotonic()
    row = suite.held(attack("import time; print('done', flush=True); time.sleep(600)", seconds=1))
    assert "it had to be killed" in row.broken
    assert time.monotonic() - began < 60


def test_the_page_has_a_row_for_each_attack() -> None:
    kept, broken = suite.Row(attack=ATTACKS[0]), suite.Row(attack=ATTACKS[1], broken=("why",))
    text = suite.page([kept, broken])
    assert f"`{ATTACKS[0].name}`" in text
    assert "**broken**: why" in text


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["selftest", "hostile", "--only", "nobody"]) == Exit.USAGE
    assert "no attack 'nobody'" in capsys.readouterr().err


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: attack.name)
def test_a_quick_attack_is_kept(attack: Attack) -> None:
    row = suite.held(attack)
    assert not row.broken, suite.told(row) + "\n" + row.output[-3000:]
