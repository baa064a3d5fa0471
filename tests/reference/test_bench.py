"""The benchmark runs, and says what it measured."""

import pytest

from kvwire_reference.bench import Workload, lines, main, measure_filter, measure_second_hash, median_ratio
from kvwire_reference.hashing import ALGORITHMS

SMALL = Workload(requests=24, per_iteration=4, documents=2, shared=256, own=64, capacity=64)


@pytest.mark.network
def test_it_prints_one_ratio_per_algorithm_and_second_hash(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--requests", "8", "--repetitions", "1"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed if line.startswith("  ")][: len(ALGORITHMS)] == list(ALGORITHMS)
    assert all(float(line.split()[1]) > 0 for line in printed[1 : 1 + len(ALGORITHMS)])
    assert len(printed) == len(ALGORITHMS) + 6


def test_a_ratio_is_the_median_of_pairs_whoever_runs_first() -> None:
    order: list[str] = []
    times = iter((8.0, 2.0, 1.0, 3.0, 9.0, 1.0))

    def side(name: str) -> float:
        order.append(name)
        return next(times)

    assert median_ratio(3, lambda: side("one"), lambda: side("other")) == 4.0
    assert order == ["one", "other", "other", "one", "one", "other"]


def test_a_second_hash_is_measured_against_none() -> None:
    assert set(measure_second_hash(SMALL, 1)) == {"v2_sha256_64/u64", "v1_block_key"}


def test_most_of_what_happens_in_a_cache_never_reaches_the_wire() -> None:
    filtered = measure_filter(SMALL)
    assert filtered == measure_filter(SMALL)
    assert 0 < filtered.batches <= filtered.events < filtered.blocks < filtered.mutations
    assert 0.5 < filtered.share < 1


def test_the_text_of_a_report_names_what_was_compared() -> None:
    from kvwire_reference.bench import Filtered, Report

    text = "\n".join(lines(Report({"a": 1.25}, {"b": 2.0}, Filtered(1000, 100, 20, 4))))
    assert "1.250" in text
    assert "2.000" in text
    assert "98.0%" in text
