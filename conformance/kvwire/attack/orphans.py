"""What an adapter leaves behind outside of its process group: on Linux this process adopts it, and ends it.

A child that calls ``setsid`` is in no group of the adapter's, and when its parent ends it has another: while a run
lasts that is this process, and not the first one of the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

SET_CHILD_SUBREAPER = 36
"""Of Linux's ``prctl``."""
WAIT_S = 0.02


class Orphans:
    """From now on this process adopts them. It starts nothing meanwhile that is not ended before they are."""

    def __init__(self) -> None:
        self._before = _children()
        _adopt(1)

    def end(self, patience_s: float) -> None:
        """They have so long to end by themselves; then they are killed, and so is what they leave in turn."""
        try:
            self._reap(patience_s, kill=False)
        finally:
            self._reap(patience_s, kill=True)
            _adopt(0)

    def _reap(self, patience_s: float, *, kill: bool) -> None:
        deadline = time.monotonic() + patience_s
        while (left := _children() - self._before) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, ChildProcessError, PermissionError):
                    if kill:
                        os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(WAIT_S)


def _children() -> set[int]:
    """The children of this process; none where the system does not tell."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that has ended
                found.update(map(int, (task / "children").read_text().split()))
    return found


def _adopt(whether: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, *(ctypes.c_ulong(value) for value in (whether, 0, 0, 0)))
