"""When something that takes part in a run is held up: a thread that wakes up every few milliseconds, or does not.

It notes by how much it was late, and when a process of a publisher was stopped and went on. Whatever comes late then is
no fault of a publisher (``kvwire.trace.attempts``).
"""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import NamedTuple

TICK_S = 0.01
NOTED_MS = 40.0
"""Shorter ones are not noted: less than half of the shortest bound that the standard gives, which is that of a call."""
HARNESS = "harness"
PUBLISHER = "publisher"


class Stall(NamedTuple):
    """Who was held up, the stream whose publisher it is (empty for parts of the harness), until when, how long."""

    of: str
    stream: str
    ended_ns: int
    ms: float


class StallWatch:
    """The thread, its findings, and the processes that it watches. ``of`` is whose thread it is."""

    def __init__(self, of: str = HARNESS) -> None:
        self.of = of
        self.found: queue.SimpleQueue[Stall] = queue.SimpleQueue()
        self._processes: dict[int, str] = {}
        self._stopped: dict[int, int] = {}
        """Process → when it was seen to be stopped."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kvwire-stalls", daemon=True)

    def start(self) -> None:
        """Begin; more than once is once."""
        if not self._thread.is_alive() and not self._over.is_set():
            self._thread.start()

    def watch(self, process: int, stream: str) -> None:
        """Watch a child of ours, which serves a stream, too."""
        if hasattr(os, "waitid"):  # not on every system
            self._processes[process] = stream

    def end(self) -> None:
        """Come to an end, and note who still stands still."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for process in list(self._stopped):
            self._goes_on(process, time.monotonic_ns())

    def _watch(self) -> None:
        before = time.monotonic_ns()
        while not self._over.wait(TICK_S):
            now = time.monotonic_ns()
            late_ms = (now - before) / 1e6 - 1000 * TICK_S
            if late_ms >= NOTED_MS:
                self.found.put(Stall(self.of, "", now, late_ms))
            for process in list(self._processes):
                self._look(process, before, now)
            before = now

    def _look(self, process: int, before: int, now: int) -> None:
        """Whether it was stopped or went on since the look before; that it ended is left to who waits for it."""
        try:
            told = os.waitid(os.P_PID, process, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
        except ChildProcessError:
            self._goes_on(process, now)
            self._processes.pop(process, None)
            return
        if told is None:
            return
        if told.si_code == os.CLD_STOPPED:
            self._stopped.setdefault(process, before)
        elif told.si_code == os.CLD_CONTINUED:
            self._goes_on(process, now)

    def _goes_on(self, process: int, now: int) -> None:
        began = self._stopped.pop(process, None)
        if began is not None and (ms := (now - began) / 1e6) >= NOTED_MS:
            self.found.put(Stall(PUBLISHER, self._processes.get(process, ""), now, ms))
