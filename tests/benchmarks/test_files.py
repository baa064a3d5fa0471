"""The benchmark of recordings measures what it says."""

from __future__ import annotations

from pathlib import Path

from benchmarks import files as benchmark
from benchmarks.rows import Effort
from kvwire.trace import files


def test_a_recording_holds_as_many_tokens_as_it_says_and_two_witnesses_heard_each(tmp_path: Path) -> None:
    heard = list(benchmark.records(4, 16, 6_400))
    assert len(heard) == 200
    assert [record.source for record in heard[:3]] == ["live-a", "live-b", "live-a"]
    benchmark._written(heard, tmp_path / "run.mcap")
    assert list(files.read(tmp_path / "run.mcap").records) == heard


def test_every_form_and_shape_has_its_size_and_its_times() -> None:
    rows = list(benchmark.rows(Effort(repetitions=1, quick=True)))
    assert len(rows) == 3 * 3 * 3 + 1
    assert all(row.median > 0 for row in rows)
    sizes = {row.name: row.median for row in rows if row.unit == benchmark.PER_MILLION}
    assert sizes["1 × 128: MCAP: size"] < sizes["1 × 128: lines: size"] / 3
