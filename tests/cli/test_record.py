"""`kvwire record`, and `--record` of `check`: whatever ends them leaves a file that can be judged."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from tests.kit.checked import KVWIRE, kvwire

from kvwire import cli
from kvwire.cli.quantities import Duration, Size
from kvwire.judges.verdict import Exit
from kvwire.trace import files
from kvwire.trace.detail import SocketEvent
from kvwire.trace.records import LIVE, Trace, TraceError

pytestmark = pytest.mark.timeout(300)
BOUND_S = 100.0
"""For anything that a loaded machine is slow at."""


def until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def heard(path: Path) -> int:
    """How many messages can be read of a recording by now."""
    try:
        return sum(record.is_live for record in files.read(path).records)
    except TraceError:
        return 0


def serve(room: Path) -> subprocess.Popen[str]:
    """The reference in another process, on a fixed path."""
    where = ("--endpoint", f"ipc://{room}/live", "--replay", f"ipc://{room}/replay")
    process = subprocess.Popen((*KVWIRE, "serve", *where, "--rate", "200"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.wait(20)
    if process.stdout is not None:
        process.stdout.close()


@pytest.fixture
def target(room: Path) -> Iterator[str]:
    process = serve(room)
    yield f"zmq:ipc://{room}/live"
    stop(process)


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def recording() -> Iterator[Start]:
    """Starts `kvwire record` in another process, which is gone at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(target: str, path: Path, preexec_fn: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            (*KVWIRE, "record", target, "-o", str(path)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=preexec_fn,  # noqa: PLW1509
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def judged(path: Path) -> tuple[int, str]:
    done = kvwire("judge", str(path))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.network
@pytest.mark.parametrize(("number", "form"), [(signal.SIGINT, "mcap"), (signal.SIGTERM, "kvtrace")])
def test_a_signal_ends_a_recording_with_a_whole_file(
    target: str, recording: Start, tmp_path: Path, number: int, form: str
) -> None:
    path = tmp_path / f"run.{form}"
    process = recording(target, path)
    until(lambda: heard(path) > 20, process)
    process.send_signal(number)
    assert process.communicate(timeout=BOUND_S) == ("", "")
    assert process.returncode == Exit.CONFORMANT
    trace = files.read(path)
    assert (trace.cut, trace.interrupted, trace.header.level) == ("", False, "passive")
    assert judged(path)[0] == Exit.CONFORMANT


@pytest.mark.network
def test_what_a_kill_leaves_is_judged_and_said_to_be_cut(target: str, recording: Start, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    process = recording(target, path)
    until(lambda: heard(path) > 40, process)
    before = heard(path)
    process.kill()
    process.communicate()
    assert heard(path) >= before
    code, said = judged(path)
    assert code == Exit.INCONCLUSIVE
    assert "no claim: the recording was cut short after " in said


@pytest.mark.network
def test_what_a_kill_leaves_of_a_check_is_judged_and_its_probes_are_not_taken_for_done(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    process = subprocess.Popen((*KVWIRE, "check", "--record", str(path), "--quiet"), process_group=0)
    try:
        until(lambda: heard(path) > 40)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the adapter is in a group of its own and ends with its input
        process.wait()
    trace = files.read(path)
    assert trace.cut
    assert {probe.left for probe in trace.header.plan} >= {"interrupted"}
    assert "the recording was cut short" in judged(path)[1]


@pytest.mark.network
def test_a_lost_connection_is_tried_again_and_both_lives_are_in_the_file(
    room: Path, recording: Start, tmp_path: Path
) -> None:
    path = tmp_path / "run.kvtrace"
    first = serve(room)
    process = recording(f"zmq:ipc://{room}/live", path)
    until(lambda: heard(path) > 20, process)
    stop(first)
    before = heard(path)
    second = serve(room)
    until(lambda: heard(path) > before + 20, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND_S)
    stop(second)
    assert process.returncode == Exit.CONFORMANT
    events = [record.event for record in files.read(path).records if isinstance(record.detail, SocketEvent)]
    assert events.count("HANDSHAKE_SUCCEEDED") == 4
    assert events.count("DISCONNECTED") >= 2
    assert "2 incarnations" in judged(path)[1]


@pytest.mark.network
def test_batches_and_parts_bound_a_recording_and_the_parts_are_one(target: str, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    done = kvwire("record", target, "-o", str(path), "--batches", "700", "--rotate", "64KiB")
    assert (done.returncode, done.stdout, done.stderr) == (Exit.CONFORMANT, "", "")
    parts = files.recordings(tmp_path)
    assert len(parts) > 1
    assert not path.exists()
    whole: Trace = files.read(*parts)
    counts = [sum(record.source == source for record in whole.records) for source in LIVE]
    assert max(counts) >= 700
    assert judged(tmp_path)[0] == Exit.CONFORMANT


@pytest.mark.network
def test_where_nobody_is_the_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    done = kvwire("record", f"zmq:ipc://{tmp_path}/nobody", "-o", str(path), "--for", "1s")
    assert done.returncode == Exit.INCONCLUSIVE
    assert done.stderr == "kvwire: no publisher was reached\n"
    code, said = judged(path)
    assert code == Exit.ERROR
    assert "no ZeroMQ handshake on ipc://" in said


@pytest.mark.network
def test_a_full_disk_is_an_error_that_names_the_file_and_what_was_written_is_kept(
    target: str, recording: Start, tmp_path: Path
) -> None:
    path = tmp_path / "run.kvtrace"
    limit = 200_000
    process = recording(target, path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    _, said = process.communicate(timeout=BOUND_S)
    assert process.returncode == Exit.ERROR
    assert said == f"kvwire: {path}: File too large; the file holds what was recorded before\n"
    assert path.stat().st_size == limit
    assert files.read(path).cut
    assert heard(path) > 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reference:", "-o", "x.mcap"), "is not listened to: name a running publisher"),
        (("zmq:tcp://127.0.0.1:1", "-o", "/dev/null"), "/dev/null: not a regular file"),
        (("zmq:tcp://127.0.0.1:1", "-o", "/nowhere/x.mcap"), "/nowhere/x.mcap: No such file or directory"),
        (("zmq:tcp://127.0.0.1:1", "-o", "x", "--for", "soon"), "'soon' is no time; write 90, 30s, 1h30m or 2d"),
        (("zmq:tcp://127.0.0.1:1", "-o", "x", "--rotate", "1KB"), "'1KB' is less than 65536 bytes"),
        (("zmq:tcp://127.0.0.1:1",), "--output"),
    ],
)
def test_bad_input_is_a_usage_error_that_names_the_thing(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["record", *arguments]) == Exit.USAGE
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_recording_that_is_there_is_not_replaced_unless_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.kvtrace"
    path.write_text("a week of evidence")
    assert cli.run(["record", "zmq:tcp://127.0.0.1:1", "-o", str(path)]) == Exit.USAGE
    assert "is there already: name another file, or replace it with --overwrite" in capsys.readouterr().err
    assert path.read_text() == "a week of evidence"


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("1h30m", 5400), ("2d", 172800)])
def test_times(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize(("text", "size"), [("65536", 65536), ("1GB", 10**9), ("64KiB", 65536), ("1.5m", 1_500_000)])
def test_sizes(text: str, size: int) -> None:
    assert Size(1).convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "0s", "1x", "h"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no time"):
        Duration().convert(text, None, None)
