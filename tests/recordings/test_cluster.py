"""A Dask cluster on loopback: the same stream as one process, whatever dies, and errors that name file and worker."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.trace.test_recordings import run

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.recordings import cluster
from kvwire.recordings.cluster import ClusterError, Task, connected, judge
from kvwire.recordings.judging import Answer, Asked
from kvwire.recordings.many import Tally, answers
from kvwire.recordings.units import Unit, units
from kvwire.standard import resources
from kvwire.trace import files

if TYPE_CHECKING:
    from distributed import LocalCluster
    from distributed.scheduler import WorkerState

DISTRIBUTED = importlib.util.find_spec("distributed") is not None or bool(os.environ.get("CI"))
"""In continuous integration its absence is no excuse."""
needs_distributed = pytest.mark.skipif(not DISTRIBUTED, reason="distributed is not installed: kvwire[cluster]")
LONG = 400
"""So many batches take a worker longer than it takes to stop it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings in several forms, long ones among them, and one that is none."""
    inside = tmp_path_factory.mktemp("fleet")
    for name in ("clear", "gap", "mutant-integer-ts"):
        files.write(files.read(resources.vectors() / "session" / f"{name}.kvtrace"), inside / f"{name}.mcap")
    for name in ("long-a", "long-b", "long-c"):
        files.write(run(LONG), inside / f"{name}.mcap")
    (inside / "none.mcap").write_bytes(b"nothing of ours")
    return inside


@pytest.fixture(scope="module")
def alone(folder: Path) -> bytes:
    """The result stream of one process."""
    return stream(list(answers(units([folder]), Asked(), 1)))


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalCluster]:
    """A scheduler in this process, and two workers that are processes."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
    ) as made:
        yield made


def stream(found: Sequence[Answer]) -> bytes:
    tally = Tally()
    for one in found:
        tally.add(one)
    return b"".join([*(one.dump() for one in found), msgspec.json.encode(tally.total())])


def registered(of: LocalCluster) -> dict[str, WorkerState]:
    """The workers that the scheduler knows, by address."""
    assert of.scheduler is not None
    workers: dict[str, WorkerState] = of.scheduler.workers
    return workers


class Killer:
    """Kills the first worker that is seen to have a recording; it is stopped before, so that it cannot finish it."""

    def __init__(self, of: LocalCluster) -> None:
        self.of = of
        self.killed = 0

    def __call__(self, _: int) -> None:
        if self.killed:
            return
        for nanny in self.of.workers.values():
            process, known = nanny.process, registered(self.of).get(nanny.worker_address)
            if process is None or known is None:
                continue  # it begins anew
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.3)
            busy = bool(known.processing)
            os.kill(process.pid, signal.SIGKILL if busy else signal.SIGCONT)
            if busy:
                self.killed = process.pid
                return


def test_without_the_extra_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ClusterError, match=r"a cluster needs distributed: `python -m pip install distributed`"),
        connected("tcp://127.0.0.1:8786"),
    ):
        pass


@pytest.mark.parametrize("address", ["", "host:8786", "tcp://host", "tcp://:8786", "http://host:80", "tcp://host:x"])
def test_what_is_no_address_is_refused(address: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["judge", str(folder), "--cluster", address]) == Exit.USAGE
    assert f"--cluster: {address!r} is no address of a scheduler: tcp://HOST:8786" in capsys.readouterr().err


def test_workers_here_and_elsewhere_are_one_too_many(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["judge", str(folder), "--cluster", "tcp://h:1", "--workers", "2"]) == Exit.USAGE
    assert "give one of them" in capsys.readouterr().err


@needs_distributed
@pytest.mark.network
def test_a_scheduler_that_does_not_answer_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    kept = tmp_path / "before.ndjson"
    kept.write_text("of a run before")
    assert cli.run(["judge", str(folder), "--cluster", "tcp://127.0.0.1:9", "--json", str(kept)]) == Exit.USAGE
    assert "no scheduler answers at tcp://127.0.0.1:9 within 0.5 s" in capsys.readouterr().err
    assert kept.read_text() == "of a run before"


@needs_distributed
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(300)
class TestCluster:
    """With a scheduler and two workers."""

    def test_the_stream_is_that_of_one_process(
        self, workers: LocalCluster, folder: Path, alone: bytes, tmp_path: Path
    ) -> None:
        told: list[int] = []
        with connected(workers.scheduler_address) as there:
            found = list(there.answers(units([folder]), Asked(), told.append))
        assert stream(found) == alone
        assert told[-1] == len(found)
        paths = [tmp_path / "cluster", tmp_path / "alone"]
        hows = [["--cluster", workers.scheduler_address], ["--workers", "1"]]
        for path, how in zip(paths, hows, strict=True):
            asked = ["judge", str(folder), *how, "--only", "SEQ", "--quiet", "--json", str(path)]
            assert cli.run(asked) == Exit.ERROR
        assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_a_worker_that_is_killed_costs_nothing(self, workers: LocalCluster, folder: Path, alone: bytes) -> None:
        killer = Killer(workers)
        with connected(workers.scheduler_address) as there:
            found = list(there.answers(units([folder]), Asked(), killer))
        assert killer.killed
        assert [one.recording.error for one in found if one.recording.name != "none.mcap"] == [""] * 6
        assert stream(found) == alone

    def test_a_recording_that_kills_every_worker_is_named_and_the_others_are_judged(
        self, workers: LocalCluster, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(workers.scheduler, "allowed_failures", 0)
        killer = Killer(workers)
        with connected(workers.scheduler_address) as there:
            found = list(there.answers(units([folder]), Asked(), killer))
        dead = [one for one in found if one.recording.error.startswith("the workers that judged it died")]
        assert killer.killed
        assert dead
        errors = {one.recording.name for one in found if one.recording.error}
        assert errors == {"none.mcap", *(one.recording.name for one in dead)}
        assert len(errors) < len(found)

    def test_errors_name_the_file_and_the_worker(self, workers: LocalCluster, folder: Path) -> None:
        path = folder / "clear.mcap"
        size = path.stat().st_size
        task = Task(unit=Unit(name="clear", paths=(path,)), sizes=(size,), asked=Asked(), judges=cluster._judges())
        gone = Unit(name="gone", paths=(folder / "gone.mcap",))
        wrong: dict[str, dict[str, Any]] = {
            f"cannot read {folder / 'gone.mcap'} (No such file or directory): each worker reads": {"unit": gone},
            f"has another file at {path}: {size} bytes, and here it has 7": {"sizes": (7,)},
            "has another standard or other judges: install this kvwire there": {"judges": ("", "")},
        }
        with connected(workers.scheduler_address) as there:
            for said, fields in wrong.items():
                other = msgspec.structs.replace(task, **fields)
                error = there._client.submit(judge, other, pure=False).result(timeout=60).recording.error
                assert error.startswith("worker tcp://127.0.0.1:")
                assert said in error

    def test_a_file_that_is_gone_here_too_is_an_error_of_one_recording(
        self, workers: LocalCluster, folder: Path, tmp_path: Path
    ) -> None:
        copies = [tmp_path / "a.mcap", tmp_path / "b.mcap"]
        for copy in copies:
            copy.write_bytes((folder / "gap.mcap").read_bytes())
        found = units(copies)
        copies[0].unlink()
        with connected(workers.scheduler_address) as there:
            assert [bool(one.recording.error) for one in there.answers(found, Asked())] == [True, False]

    def test_an_interrupt_keeps_what_was_judged(self, workers: LocalCluster, folder: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.ndjson"
        many = [str(folder / "clear.mcap")]
        for copy in range(8):
            other = tmp_path / f"{copy}.mcap"
            other.write_bytes((folder / "long-a.mcap").read_bytes())
            many.append(str(other))
        command = [sys.executable, "-m", "kvwire", "judge", *many, "--cluster", workers.scheduler_address]
        with subprocess.Popen([*command, "--json", str(out)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().endswith("clear.mcap: 10 batches\n")
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()
            assert process.wait(60) == Exit.INTERRUPTED
        assert ", interrupted after " in said
        lines = [msgspec.json.decode(line) for line in out.read_bytes().splitlines()]
        assert next(line["name"] for line in lines if line["kind"] == "recording") == "clear.mcap"
        assert (lines[-1]["kind"], lines[-1]["interrupted"]) == ("total", True)

    def test_a_cluster_without_workers_is_not_waited_for(
        self, workers: LocalCluster, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last one: it takes the workers away."""
        monkeypatch.setattr(cluster, "ALONE_S", 1.0)
        monkeypatch.setattr(cluster, "WORKER_S", 1.0)
        with connected(workers.scheduler_address) as there:
            workers.scale(0)
            deadline = time.monotonic() + 60
            while registered(workers) and time.monotonic() < deadline:
                time.sleep(0.1)
            (found, *_) = there.answers(units([folder / "clear.mcap", folder / "gap.mcap"]), Asked())
        assert found.recording.error.endswith("has had no scheduler or no worker for 1 s")
        with (
            pytest.raises(ClusterError, match=r"the cluster has no worker: start some with `dask worker tcp://127"),
            connected(workers.scheduler_address),
        ):
            pass
