"""What an adapter leaves behind in a session of its own, deaf to SIGTERM."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

RUN = """
import subprocess, sys, time
from kvwire.attack.orphans import Orphans
ours = subprocess.Popen(["sleep", "60"])
orphans = Orphans()
print(subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True, check=True).stdout)
began = time.monotonic()
orphans.end(0.3)
print(int(ours.poll() is None), time.monotonic() - began)
ours.kill()
ours.wait()
"""
LEAVES = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    nested = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
    print(os.getpid(), nested.pid, flush=True)
    os.close(1)
    time.sleep(60)
os._exit(0)
"""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else lets a process adopt")
def test_what_an_adapter_leaves_behind_is_ended_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, LEAVES], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    *left, ours, seconds = done.stdout.split()
    assert len(left) == 2
    deadline = time.monotonic() + 5
    while any(_runs(int(pid)) for pid in left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(_runs(int(pid)) for pid in left)
    assert ours == "1"
    assert float(seconds) < 5
