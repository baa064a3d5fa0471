"""The soak: bad weather accuses nobody, an accusation is counted and its trace kept, and the bound is the right one."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kit.runs import recorded

from kvwire.judges.verdict import Exit
from kvwire.selftest import soak
from kvwire.trace import files
from kvwire.trace.records import Trace


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.steady
def test_bad_weather_accuses_nobody(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    outcome = CliRunner().invoke(soak.main, ["3", "--seed", "1", "--busy", "1", "--keep", str(keep)])
    assert outcome.exit_code == Exit.CONFORMANT, outcome.output
    assert "3 quick runs of the reference: 0 with a false FAIL, 0 with a false WARN" in outcome.output
    assert "at most 63.16% of such runs" in outcome.output
    assert not keep.exists()


@pytest.mark.network
def test_an_accusation_is_counted_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = recorded("mutant:integer-ts", mode="quick")

    def one(seed: int, mode: soak.SoakMode) -> tuple[Trace, str]:
        return broken, "replay"

    monkeypatch.setattr(soak, "one", one)
    outcome = CliRunner().invoke(soak.main, ["2", "--seed", "7", "--busy", "0", "--keep", str(tmp_path / "kept")])
    assert outcome.exit_code == Exit.NOT_CONFORMANT
    assert "seed 7, mutant:integer-ts, passive: FAIL KVW-BAT-002" in outcome.output
    assert "FAIL KVW-BAT-002 in 2 runs" in outcome.output
    assert "2 quick runs of the reference: 2 with a false FAIL" in outcome.output
    assert files.read(tmp_path / "kept" / "8-quick.kvtrace") == broken


@pytest.mark.network
def test_an_interrupt_leaves_what_was_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kvwire.selftest.soak", "50", "--busy", "1", "--keep", str(tmp_path / "kept")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    limit = threading.Timer(60, child.kill)
    limit.start()
    try:
        assert child.stdout.readline().startswith("seed ")
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
        assert child.wait(20) == Exit.INTERRUPTED
    finally:
        limit.cancel()
        child.stdout.close()
        child.wait(20)
    assert "0 quick runs of the reference" in rest


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    assert soak.upper_bound(0, 200) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert soak.upper_bound(0, 10**6) == pytest.approx(3e-6, rel=0.01)  # the rule of three
    assert soak.upper_bound(1, 100) == pytest.approx(0.0466, abs=1e-4)
    assert soak.upper_bound(3, 3) == 1.0
    assert soak.upper_bound(0, 0) == 1.0
