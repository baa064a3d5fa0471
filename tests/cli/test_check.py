"""What a user of ``kvwire check`` sees, and the exit code of each ending."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from tests.kit.checked import KVWIRE, Checked, kvwire

from kvwire import cli
from kvwire.judges.verdict import Exit

pytestmark = pytest.mark.network


@pytest.fixture
def served(room: Path) -> Iterator[str]:
    """Serve the reference in another process; yields the target that it prints."""
    command = (
        *KVWIRE,
        "serve",
        "--endpoint",
        f"ipc://{room}/live",
        "--replay",
        f"ipc://{room}/replay",
        "--rate",
        "200",
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.fullmatch(r"kvwire check '(.*)'\n", line)
        assert match is not None, line
        yield match[1]
        process.send_signal(signal.SIGINT)
        process.wait(10)


def test_the_reference_is_conformant_and_the_report_says_what_was_seen(checked_reference: Checked) -> None:
    assert checked_reference.exit == Exit.CONFORMANT, checked_reference.stderr
    assert re.search(r"KVW-ENV-001 +MUST +PASS ×\d+", checked_reference.stdout)
    assert re.search(r"\d+ of \d+ judged", checked_reference.stdout)
    assert "conformant as far as this level shows" in checked_reference.stdout
    assert checked_reference.stderr == ""


def test_a_mutant_fails_with_what_a_stranger_needs() -> None:
    done = kvwire("check", "mutant:integer-ts", "--quick")
    assert done.returncode == Exit.NOT_CONFORMANT
    assert "KVW-BAT-002" in done.stdout
    assert "MUST send `ts` as a msgpack float64" in done.stdout
    assert re.search(r"expected +`ts` as float64", done.stdout)
    assert re.search(r"seen +integer \d+", done.stdout)
    assert re.search(r"where +number \d+, record \d+, payload frame, byte 1, hex ce[0-9a-f]+", done.stdout)
    assert re.search(r"again: kvwire check mutant:integer-ts --profile replay --quick --only KVW-BAT-002", done.stdout)


def test_a_should_warns_and_strict_promotes_it() -> None:
    assert kvwire("check", "mutant:no-leading-clear", "--only", "seq-8").returncode == Exit.CONFORMANT
    strict = kvwire("check", "mutant:no-leading-clear", "--only", "KVW-SEQ-008", "--strict")
    assert strict.returncode == Exit.NOT_CONFORMANT


def test_live_and_recorded_results_are_equal_to_the_byte(checked_reference: Checked, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    recording = str(checked_reference.recording)
    assert kvwire("judge", recording, "--json", str(again), "--quiet").returncode == Exit.CONFORMANT
    assert checked_reference.result.read_bytes() == again.read_bytes()
    summary = checked_reference.lines()[-1]
    assert summary["kind"] == "summary"
    assert summary["exit"] == Exit.CONFORMANT
    assert kvwire("check", f"trace:{recording}", "--quiet").returncode == Exit.CONFORMANT


def test_a_served_reference_passes_from_outside_apart_from_what_its_level_cannot_show(served: str) -> None:
    done = kvwire("check", served, "--for", "4")
    assert done.returncode == Exit.CONFORMANT, done.stdout
    assert "beyond this level of control" in done.stdout
    assert re.search(r"KVW-REP-001 +MUST +PASS", done.stdout)


def test_another_topic_than_declared_is_a_failure_that_names_the_topic(served: str) -> None:
    done = kvwire("check", served.replace("topic=kv-events", "topic=other"), "--for", "1")
    assert done.returncode == Exit.NOT_CONFORMANT
    assert "KVW-ENV-003" in done.stdout
    assert "kv-events" in done.stdout


def test_nobody_there_is_an_error_that_names_the_endpoint(room: Path) -> None:
    done = kvwire("check", f"zmq:ipc://{room}/nobody", "--for", "1")
    assert done.returncode == Exit.ERROR
    assert f"no ZeroMQ handshake on ipc://{room}/nobody" in done.stdout


def test_healthy_but_silent_is_inconclusive(room: Path) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.PUB) as pub:
        pub.set(zmq.LINGER, 0)
        pub.bind(f"ipc://{room}/silent")
        done = kvwire("check", f"zmq:ipc://{room}/silent", "--for", "1")
        allowed = kvwire("check", f"zmq:ipc://{room}/silent", "--for", "1", "--allow-inconclusive")
    assert done.returncode == Exit.INCONCLUSIVE
    assert "PASS" not in done.stdout
    assert allowed.returncode == Exit.CONFORMANT


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", "zmq:tcp://127.0.0.1"), "has no port"),
        (("check", "nonsense"), "is no target"),
        (("check", "mutant:nobody"), "there is no mutant"),
        (("check", "--only", "KVW-XXX-001"), "matches no judged sentence: no requirement 'KVW-XXX-001'"),
        (("check", "--only", "seq-6"), "KVW-SEQ-006 binds a publisher and is review"),
        (("check", "--profile", "nobody"), "no profile"),
        (("check", "--json", "/nowhere/at/all.json"), "does not exist"),
        (("judge", "/nowhere.kvtrace"), "/nowhere.kvtrace"),
        (("explain", "KVW-SEQ-999"), "no requirement"),
        (("list", "SEQ", "SEC"), "no requirement 'SEC'"),
        (("mutants", "list", "SEQ-0"), "no requirement 'SEQ-0'; of that area: KVW-SEQ-001"),
        (("list", "--level", "PERHAPS"), "no sentence matches"),
        (("frobnicate",), "No such command"),
    ],
)
def test_bad_input_is_a_usage_error_that_names_the_thing(arguments: tuple[str, ...], says: str) -> None:
    done = kvwire(*arguments)
    assert done.returncode == Exit.USAGE
    assert says in done.stderr


def test_a_cut_trace_is_a_usage_error_that_names_the_file(checked_reference: Checked, tmp_path: Path) -> None:
    recording = tmp_path / "run.kvtrace"
    lines = checked_reference.recording.read_bytes().splitlines(keepends=True)
    recording.write_bytes(b"".join(lines[:-1]))
    done = kvwire("judge", str(recording))
    assert done.returncode == Exit.USAGE
    assert "the file was cut short" in done.stderr


def test_an_uncaught_exception_is_an_error_and_not_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("kvwire.cli.check.run", broken)
    assert cli.run(["check"]) == Exit.ERROR


def test_an_adapter_that_cannot_start_is_an_error_with_its_words() -> None:
    done = kvwire("check", f"exec:{sys.executable} -c 'raise SystemExit(\"no peer here\")'")
    assert done.returncode == Exit.ERROR
    assert "no peer here" in done.stdout


def test_an_interrupt_keeps_what_was_found(tmp_path: Path, served: str) -> None:
    found, recording = tmp_path / "found.json", tmp_path / "run.kvtrace"
    command = (*KVWIRE, "check", served, "--for", "60", "--json", str(found), "--record", str(recording))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(2.5)  # somewhere in the middle: any moment must do
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == Exit.INTERRUPTED
    assert "interrupted" in out
    summary = json.loads(found.read_text().splitlines()[-1])
    assert summary["interrupted"] is True
    assert "verdict" not in summary
    assert kvwire("judge", str(recording), "--quiet").returncode == Exit.INTERRUPTED
