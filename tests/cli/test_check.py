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


ALLOWANCE_S = 10.0
"""For processes to begin and to end, and for judging, on a loaded machine."""


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
    assert checked_reference.stdout.splitlines()[1].startswith("conformant as far as this level shows")
    assert re.search(r"^ENV \d+ ✓ · SEQ \d+ ✓", checked_reference.stdout, re.MULTILINE)
    assert re.search(r"^\d+ sentences: \d+ PASS, ", checked_reference.stdout, re.MULTILINE)
    assert checked_reference.stderr == ""


def test_a_mutant_fails_with_what_a_stranger_needs() -> None:
    done = kvwire("check", "mutant:integer-ts", "--quick")
    assert done.returncode == Exit.NOT_CONFORMANT
    assert "KVW-BAT-002" in done.stdout
    assert "MUST send `ts` as a msgpack float64" in done.stdout
    assert re.search(r"expected +`ts` as float64", done.stdout)
    assert re.search(r"seen +integer \d+", done.stdout)
    assert re.search(r"where +number \d+, record \d+, payload frame, byte 1, hex ce[0-9a-f]+", done.stdout)
    assert re.search(r"again: kvwire check mutant:integer-ts --profile replay --quick --only BAT-002", done.stdout)


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
    begun = time.monotonic()
    done = kvwire("check", served, "--for", "10", "-v")
    assert time.monotonic() - begun < 2 * 10 + ALLOWANCE_S
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
    assert f"no ZeroMQ handshake on ipc://{room}/nobody" in done.stdout.splitlines()[2]


def test_healthy_but_silent_is_inconclusive(room: Path) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.PUB) as pub:
        pub.set(zmq.LINGER, 0)
        pub.bind(f"ipc://{room}/silent")
        done = kvwire("check", f"zmq:ipc://{room}/silent", "--for", "1")
        allowed = kvwire("check", f"zmq:ipc://{room}/silent", "--for", "1", "--allow-inconclusive")
    assert done.returncode == Exit.INCONCLUSIVE
    assert "PASS" not in done.stdout
    assert re.match(r"inconclusive: connected, and nothing came in \d", done.stdout.splitlines()[1])
    assert allowed.returncode == Exit.CONFORMANT


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", "zmq:tcp://127.0.0.1"), "has no port"),
        (("check", "nonsense"), "is no target"),
        (("check", "mutant:nobody"), "there is no mutant"),
        (("check", "--only", "KVW-XXX-001"), "matches no judged sentence: no requirement 'KVW-XXX-001'"),
        (("check", "--only", "evt-22"), "KVW-EVT-022 binds a publisher and is review"),
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


def test_a_cut_trace_is_judged_as_far_as_it_goes_and_claims_nothing(checked_reference: Checked, tmp_path: Path) -> None:
    recording = tmp_path / "run.kvtrace"
    lines = checked_reference.recording.read_bytes().splitlines(keepends=True)
    recording.write_bytes(b"".join(lines[:-1]))
    done = kvwire("judge", str(recording))
    assert done.returncode == Exit.INCONCLUSIVE
    assert f"no claim: the recording was cut short after {len(lines) - 2} records" in done.stdout
    assert done.stderr == f"run.kvtrace: {len(lines) - 2} records, cut short\n"


def test_an_uncaught_exception_is_an_error_and_not_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("kvwire.cli.check.run", broken)
    assert cli.run(["check"]) == Exit.ERROR


def test_an_adapter_that_cannot_start_is_an_error_with_its_words() -> None:
    done = kvwire("check", f"exec:{sys.executable} -c 'raise SystemExit(\"no peer here\")'")
    assert done.returncode == Exit.ERROR
    assert "no peer here" in done.stdout


def test_a_quick_run_claims_nothing_and_says_what_it_left_out(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    done = kvwire("check", "--quick", "--json", str(found))
    assert done.returncode == Exit.CONFORMANT, done.stdout
    assert done.stdout.splitlines()[1].startswith("no claim: quick run; nothing broken was seen;")
    assert re.search(r"^open, left out by a quick run: SEQ-007, ", done.stdout, re.MULTILINE)
    lines = [json.loads(line) for line in found.read_text().splitlines()]
    assert lines[0]["not_run"]["restart"] == "mode"
    assert lines[-1]["no_claim"] == ["quick"]
    assert {line["why"] for line in lines if line.get("requirement") == "KVW-SEQ-007"} == {"mode"}


DIES = """
import struct, sys, time
import msgspec, zmq
socket = zmq.Context().socket(zmq.PUB)
socket.bind(sys.argv[1])
print("bound", flush=True)
end = time.monotonic() + float(sys.argv[2])
number = 0
while time.monotonic() < end:
    event = {"type": "AllBlocksCleared"}
    payload = msgspec.msgpack.encode([time.time(), [event], 0])
    socket.send_multipart([b"kv", struct.pack(">Q", number), payload])
    number += 1
    time.sleep(0.02)
"""
"""A publisher that is as it should be for a while, and is then gone."""


def test_a_publisher_that_dies_while_it_is_listened_to_is_in_the_first_lines(room: Path) -> None:
    endpoint = f"ipc://{room}/dies"
    with subprocess.Popen((sys.executable, "-c", DIES, endpoint, "3"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "bound\n"
        done = kvwire("check", f"zmq:{endpoint}", "--for", "5")
    head = done.stdout.splitlines()[:3]
    assert re.search(r"no claim: connection to stream-0 lost after [\d.]+ s, not back", "\n".join(head)), head
    assert done.returncode == Exit.INCONCLUSIVE
    assert "conformant" not in done.stdout


def await_handler(pid: int, number: signal.Signals, bound_s: float = 20.0) -> None:
    """Wait until a process handles a signal: on a loaded machine it may long be importing."""
    status = Path(f"/proc/{pid}/status")
    end = time.monotonic() + bound_s
    while time.monotonic() < end:
        caught = re.search(r"^SigCgt:\s*(\w+)$", status.read_text(), re.MULTILINE) if status.exists() else None
        if caught is not None and int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.05)


def await_bytes(path: Path, bound_s: float = 60.0) -> None:
    """Wait until something is in a file."""
    end = time.monotonic() + bound_s
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < end, f"{path} stays empty"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_found(tmp_path: Path, served: str, number: signal.Signals) -> None:
    found, recording = tmp_path / "found.json", tmp_path / "run.kvtrace"
    command = (*KVWIRE, "check", served, "--for", "60", "--json", str(found), "--record", str(recording))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        await_handler(process.pid, number)
        await_bytes(recording)  # before its first record there is nothing to keep
        time.sleep(1.5)  # somewhere in the middle: any moment must do
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == Exit.INTERRUPTED
    assert "interrupted" in out
    summary = json.loads(found.read_text().splitlines()[-1])
    assert summary["interrupted"] is True
    assert "verdict" not in summary
    assert kvwire("judge", str(recording), "--quiet").returncode == Exit.INTERRUPTED


def test_the_attack_on_replay_works_while_the_stream_is_busy(served: str, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    kvwire("check", served, "--for", "2", "--only", "REP-009", "--only", "REP-012", "--json", str(found))
    lines = [json.loads(line) for line in found.read_text().splitlines()]
    verdicts = {line["requirement"]: line["verdict"] for line in lines if line["kind"] == "outcome"}
    assert verdicts == {"KVW-REP-009": "PASS", "KVW-REP-012": "PASS"}
