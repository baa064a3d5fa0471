"""Signals that ask a run to end lose neither its report nor its recording, whenever they come."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_check import await_bytes, await_handler
from tests.kit.checked import KVWIRE, kvwire

from kvwire.attack.endings import Endings
from kvwire.judges.verdict import Exit

END_S = 60


def signalled(phase: str, times: int, number: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``kvwire`` that gets so many signals when a phase begins."""
    command = (sys.executable, "-m", "tests.kit.signalled", phase, str(times), number, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)


@pytest.mark.network
@pytest.mark.parametrize(("times", "number"), [(1, "SIGTERM"), (2, "SIGINT"), (1, "SIGHUP")])
@pytest.mark.parametrize("phase", ["start", "probes", "closing", "judging", "reporting"])
def test_a_signal_loses_nothing_in_whatever_phase(tmp_path: Path, phase: str, times: int, number: str) -> None:
    found, recording = tmp_path / "found.json", tmp_path / "run.kvtrace"
    done = signalled(
        phase, times, number, "check", "reference:", "--only", "ENV", "--json", str(found), "--record", str(recording)
    )
    assert done.returncode == Exit.INTERRUPTED, done.stderr
    assert "Traceback" not in done.stderr
    assert kvwire("judge", str(recording), "--quiet").returncode not in (Exit.USAGE, Exit.ERROR)
    if times == 1 or phase in ("start", "probes", "closing"):  # the second one in a row ends judging at once
        assert "sentences:" in done.stdout
        assert found.exists()
    if phase in ("judging", "reporting"):
        assert "once more ends at once" in done.stderr


@pytest.mark.network
def test_a_terminal_that_is_closed_takes_nothing_with_it(tmp_path: Path) -> None:
    found, recording = tmp_path / "found.json", tmp_path / "run.kvtrace"
    command = (*KVWIRE, "check", "reference:", "--only", "ENV", "--json", str(found), "--record", str(recording))
    child, terminal = pty.fork()
    if not child:
        os.execvp(command[0], command)
    await_bytes(recording)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (Exit.INTERRUPTED, Exit.ERROR), "what is printed has no place to go"
    assert json.loads(found.read_bytes().splitlines()[-1])["interrupted"] is True
    assert kvwire("judge", str(recording), "--quiet").returncode == Exit.INTERRUPTED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_all_is_imported_ends_without_a_traceback(number: signal.Signals) -> None:
    process = subprocess.Popen((*KVWIRE, "check", "reference:"), stderr=subprocess.PIPE, text=True)
    await_handler(process.pid, signal.SIGTERM)  # ours is there, and most imports are still to come
    process.send_signal(number)
    _, said = process.communicate(timeout=END_S)
    assert process.returncode == Exit.INTERRUPTED
    assert "Traceback" not in said


KILLED = """
import os, signal, sys, time
from kvwire.cli import root
def killed(**_):
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(30)
root.main.main = killed
root.entry()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_does_nothing_about_signals_is_interrupted(number: signal.Signals) -> None:
    command = (sys.executable, "-c", KILLED, str(int(number)))
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
    assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, "interrupted\n")


LAST = {
    "when callbacks run": "import atexit; atexit.register(os.kill, os.getpid(), signal.SIGTERM)",
    "when modules go": """
class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGTERM):
        kill(me, number)
late = Late()
""",
}


@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_one_more_signal_behind_all_that_is_told_is_no_death(last: str) -> None:
    script = f"""
import os, signal
from kvwire.cli import root
def interrupted():
    raise KeyboardInterrupt
root.run = interrupted
{last}
root.entry()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=END_S, check=False)
    assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_waits_for_a_terminal_that_is_closed_changes_no_exit_code(stream: str) -> None:
    script = f"""
import pty, os, sys
from kvwire.cli import root
ours, theirs = pty.openpty()
sys.{stream} = os.fdopen(theirs, "w")
def interrupted():
    sys.{stream}.write("what was found")
    os.close(ours)
    return {int(Exit.INTERRUPTED)}
root.run = interrupted
root.entry()
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=END_S, check=False)
    assert done.returncode == Exit.INTERRUPTED


def test_one_signal_of_several_is_an_exception() -> None:
    with Endings() as endings:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert endings.told == [signal.SIGTERM, signal.SIGINT]


def test_who_is_patient_hears_the_first_and_ends_with_the_second(capfd: pytest.CaptureFixture[str]) -> None:
    with Endings(patience=1, said="soon\n"):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert capfd.readouterr().err == "soon\n"


def test_what_is_held_is_not_ended_and_what_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Endings() as endings:
            endings.hold()
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
        assert endings.told == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGTERM, before)
