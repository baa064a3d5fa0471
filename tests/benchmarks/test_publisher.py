"""The benchmark of publishers measures what it says."""

from pathlib import Path

import pytest

from benchmarks import publisher, publishing
from benchmarks.publishing import Publisher, Seen, Task
from benchmarks.rows import Effort


@pytest.mark.network
def test_every_batch_of_the_reference_is_heard_and_every_call_is_timed() -> None:
    seen = publisher.run(Task("reference", "", 300, 20))
    assert (len(seen.calls), len(seen.paced), seen.heard) == (300, 20, 300)
    assert seen.rate > 0


def test_publishers_that_are_not_there_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Task] = []

    def run(task: Task) -> Seen:
        asked.append(task)
        return Seen([1000] * 100, [1000] * 100, task.batches, 1.0, 1.0)

    monkeypatch.setattr(publisher, "PEERS", tmp_path)
    monkeypatch.setattr(publisher, "run", run)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "VERSION").touch()
    rows = list(publisher.rows(Effort(repetitions=2)))
    assert {task.publisher for task in asked} == {"reference", "vllm"}
    assert {row.against for row in rows if row.left_out} == {"SGLang", "Dynamo's TensorRT-LLM"}
    held = {row.name: (row.median, row.met) for row in rows if row.against == "vLLM" and row.met is not None}
    assert held == {
        "a call, median": (1.0, True),
        "a call, p99": (1.0, True),
        "batches heard per second": (1.0, False),
    }


@pytest.mark.network
def test_a_publisher_that_loses_batches_is_seen_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "SILENT_S", 0.3)
    whole = publishing.PUBLISHERS["reference"](tmp_path, f"ipc://{tmp_path}/live", f"ipc://{tmp_path}/replay")
    offered = 0

    def every_other(batch: object) -> None:
        nonlocal offered
        offered += 1
        if offered % 2:
            whole.publish(batch)

    try:
        seen = publishing.measure(
            Publisher(every_other, whole.batch, whole.wake, whole.close),
            f"ipc://{tmp_path}/live",
            Task("reference", "", 40, 0),
        )
    finally:
        whole.close()
    assert seen.heard == 20
