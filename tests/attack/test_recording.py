"""What becomes of a recording when those that listen come to grief."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from kvwire.attack import recording
from kvwire.attack.targets import parse
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness import Recorder, WitnessError
from kvwire.selftest.hostile.peers.replay import serve_in_background
from kvwire.trace import files
from kvwire.trace.files import Sink
from kvwire.trace.marks import ReplayDone, Trouble


def nobody(tmp_path: Path) -> ListenTarget:
    target = parse(f"zmq:ipc://{tmp_path}/nobody?replay=ipc://{tmp_path}/replay")
    assert isinstance(target, ListenTarget)
    return target


@pytest.mark.network
def test_when_every_witness_has_ended_the_file_is_whole_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Recorder.watch

    def watch(self: Recorder, *arguments: object) -> None:
        real(self, *arguments)  # type: ignore[arg-type]
        for witness in self._witnesses.values():
            os.kill(witness.process.pid, signal.SIGKILL)

    monkeypatch.setattr(Recorder, "watch", watch)
    path = tmp_path / "run.mcap"
    done = recording.record(nobody(tmp_path), Sink(path), stopped=lambda: False)
    assert (done.failed, done.batches) == (recording.DEAF, 0)
    trace = files.read(path)
    assert trace.cut == ""
    texts = [record.detail.text for record in trace.records if isinstance(record.detail, Trouble)]
    assert sorted(texts) == ["the witness live-a ended by itself", "the witness live-b ended by itself"]
    assert trace.header.streams[0].replay is None


def test_witnesses_that_do_not_get_ready_are_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def watch(*_: object) -> None:
        raise WitnessError("the witness process was not ready within 10 s")

    monkeypatch.setattr(Recorder, "watch", watch)
    done = recording.record(nobody(tmp_path), Sink(tmp_path / "run.mcap"), stopped=lambda: False)
    assert done.failed == "the witness process was not ready within 10 s"


@pytest.mark.network
@pytest.mark.parametrize(("answer_s", "stops_s"), [(1.0, 60.0), (60.0, 1.0)])
def test_an_answer_that_drips_without_end_holds_nobody_up(
    answer_s: float, stops_s: float, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "ANSWER_S", answer_s)
    target = nobody(room)
    stream = target.statement.streams[0]
    assert stream.replay is not None
    serve_in_background(stream.replay, "replay-drip")
    reception = recording.Reception(target, Sink(room / "run.mcap"), replays=True)
    reception.begin()
    began = time.monotonic()
    reception.ask(stream, 0, lambda: time.monotonic() - began > stops_s)
    assert 1 <= time.monotonic() - began < 8
    reception.end()
    details = [record.detail for record in files.read(room / "run.mcap").records]
    assert [detail.outcome for detail in details if isinstance(detail, ReplayDone)] == ["over"]
