"""Control groups in parallel processes: an interrupt keeps what was measured, and no worker outlives who asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from kvwire.attack.endings import Endings
from kvwire.selftest.matrix import Row, rows_of

END_S = 60.0
ROOT = Path(__file__).parents[2]


def toy(name: str, *, told: Path) -> Row:
    """A peer whose run takes no time, or one that is in the midst of it until somebody ends it."""
    if name == "endless":
        with Endings():
            told.write_text(str(os.getpid()), encoding="utf-8")
            time.sleep(10 * END_S)
    return Row(mutant=name, primary="KVW-RNK-003", cells={}, troubles=[], amiss=[], seconds=0.0)


def awaited(told: Path) -> int:
    """The process that runs without end, once it does."""
    end = time.monotonic() + END_S
    while not (told.exists() and told.read_text(encoding="utf-8")):
        assert time.monotonic() < end
        time.sleep(0.02)
    return int(told.read_text(encoding="utf-8"))


def test_an_interrupt_keeps_what_was_measured_and_ends_what_runs(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def interrupted(_: Row) -> None:
        awaited(told)
        os.kill(os.getpid(), signal.SIGINT)

    with Endings():
        rows, whole = rows_of(["quick", "endless", "never"], partial(toy, told=told), 1, interrupted)
    assert ([row.mutant for row in rows], whole) == (["quick"], False)


def test_all_that_was_measured_is_the_whole(tmp_path: Path) -> None:
    rows, whole = rows_of(["one", "two"], partial(toy, told=tmp_path / "pid"), 2)
    assert ([row.mutant for row in rows], whole) == (["one", "two"], True)


def test_no_worker_outlives_who_asked(tmp_path: Path) -> None:
    script = f"""
from functools import partial
from pathlib import Path
from kvwire.selftest.matrix import rows_of
from tests.selftest.test_matrix import toy
if __name__ == "__main__":
    rows_of(["endless"], partial(toy, told=Path({str(tmp_path / "pid")!r})), 1)
"""
    (tmp_path / "asks.py").write_text(script, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, "-W", "ignore", str(tmp_path / "asks.py")]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.DEVNULL) as asks:
        worker = awaited(tmp_path / "pid")
        asks.kill()
    end = time.monotonic() + END_S
    while alive(worker):
        assert time.monotonic() < end, f"process {worker} is still there"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process is there, and more than what its parent has not asked for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
