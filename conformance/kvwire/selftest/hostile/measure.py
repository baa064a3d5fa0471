"""What a process and all that it started cost: time, and memory at their worst."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

SAMPLE_S = 0.03
PROC = Path("/proc")
VARIABLE = "KVWIRE_HOSTILE"
"""A variable of the environment that everything inherits that a command starts, however it is orphaned."""


def parents() -> dict[int, int]:
    """The parent of every process."""
    found: dict[int, int] = {}
    for place in PROC.iterdir():
        if place.name.isdigit():
            try:
                found[int(place.name)] = int((place / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it has just ended
    return found


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    of = parents()
    found, more = [root], [root]
    while more:
        more = [pid for pid, parent in of.items() if parent in more and pid not in found]
        found += more
    return found


def pss(pid: int) -> int:
    """The bytes of a process in memory, of what it shares its part; 0 once it has ended."""
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_bytes()
    except OSError:
        return 0
    line = next((line for line in rollup.splitlines() if line.startswith(b"Pss:")), b"Pss: 0")
    return int(line.split()[1]) * 1024


def marked(token: str) -> list[int]:
    """Every process that was started with this token in its environment and still runs."""
    wanted = f"{VARIABLE}={token}".encode()
    found = []
    for place in PROC.iterdir():
        try:
            if place.name.isdigit() and wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to these, where they still run."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Sampler:
    """Looks at the tree of a process, again and again, until told to end. ``peak``: the most bytes at one look.

    What holds more than ``most`` is killed, before the machine is.
    """

    def __init__(self, root: int, most: int) -> None:
        self.peak = 0
        self._root, self._most = root, most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            pids = tree(self._root)
            self.peak = max(self.peak, sum(map(pss, pids)))
            if self.peak > self._most:
                kill(pids)
            self._over.wait(max(SAMPLE_S, time.monotonic() - began))

    def end(self) -> int:
        """The peak, in bytes."""
        self._over.set()
        self._thread.join()
        return self.peak
