"""What is held up is noted: this process, a publisher that was stopped, a witness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from kvwire.attack.stalls import HARNESS, NOTED_MS, PUBLISHER, Stall, StallWatch
from kvwire.attack.witness import Recorder
from kvwire.standard.statement import Stream
from kvwire.trace.marks import Stalled
from kvwire.trace.records import LIVE, Record

BOUND_S = 10.0


def found(watch: StallWatch, of: str) -> Stall:
    """The first of its kind."""
    end = time.monotonic() + BOUND_S
    while (left := end - time.monotonic()) > 0:
        if (stall := watch.found.get(timeout=left)).of == of:
            return stall
    raise AssertionError(f"no stall of {of} was noted")


def hold_up(seconds: float) -> None:
    """Let no other thread of this process run."""
    end = time.perf_counter() + seconds
    held = sys.getswitchinterval()
    sys.setswitchinterval(5.0)
    try:
        while time.perf_counter() < end:
            pass
    finally:
        sys.setswitchinterval(held)


def test_a_stall_of_this_process_is_noticed() -> None:
    watch = StallWatch()
    watch.start()
    time.sleep(2 * NOTED_MS / 1000)  # nothing holds the thread up meanwhile, but perhaps the machine
    hold_up(0.3)
    watch.end()
    stalls = [watch.found.get() for _ in range(watch.found.qsize())]
    assert any(stall.of == HARNESS and stall.ms > 200 for stall in stalls)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_publisher_that_was_stopped_is_noticed_whether_it_goes_on_or_not(goes_on: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    watch = StallWatch()
    watch.watch(child.pid, "s")
    watch.start()
    try:
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        if goes_on:
            child.send_signal(signal.SIGCONT)
            stall = found(watch, PUBLISHER)
        else:
            watch.end()
            stall = found(watch, PUBLISHER)
        assert stall.stream == "s"
        assert stall.ms > 100
    finally:
        child.kill()
        child.wait()
        watch.end()


def test_a_child_that_ended_is_left_to_who_waits_for_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    watch = StallWatch()
    watch.watch(child.pid, "s")
    watch.start()
    time.sleep(0.1)
    assert child.wait() == 3
    watch.end()


@pytest.mark.network
def test_a_witness_that_was_stopped_says_so(recorder: Recorder) -> None:
    recorder.watch([Stream(name="s", endpoint="tcp://127.0.0.1:9")])
    began_ns = time.monotonic_ns()
    witness = next(iter(recorder._witnesses.values())).process.pid
    os.kill(witness, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(witness, signal.SIGCONT)

    def said() -> Record | None:
        stalled = (r for r in recorder.records if isinstance(r.detail, Stalled) and r.detail.of == LIVE[0])
        return next(stalled, None)

    assert recorder.wait(lambda: said() is not None, BOUND_S)
    assert recorder.waited(began_ns, "s").held_ns > 0.2e9
