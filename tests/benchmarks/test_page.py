"""The frame of the benchmarks: what a row says, and how the page is brought up to date."""

from pathlib import Path

import pytest

from benchmarks import publisher
from benchmarks.machine import machine
from benchmarks.page import section, written
from benchmarks.registry import MODULES
from benchmarks.rows import Effort, Row, in_turn, ratios


def told(*rows: Row) -> list[str]:
    text = section(publisher, rows, Effort(repetitions=3), machine(0.5))
    return [" ".join(line.split()) for line in text.splitlines() if line.startswith("| ")][2:]


def test_a_row_says_whether_its_median_is_as_wanted() -> None:
    assert told(Row(name="slow", against="vLLM", values=(0.9, 1.2, 1.1), at_most=1.0)) == [
        "| slow | vLLM | 1.10× [0.90–1.20] | ≤ 1.00× | **not met** |"
    ]
    assert told(Row(name="fast", values=(2.0, 9.0, 1.0), at_least=1.5)) == [
        "| fast | | 2.00× [1.00–9.00] | ≥ 1.50× | met |"
    ]
    assert told(Row(name="memory", values=(250.0,), unit="MB", at_least=100, at_most=300)) == [
        "| memory | | 250 MB [250–250] | ≥ 100 MB, ≤ 300 MB | met |"
    ]
    assert told(Row(name="plain", values=(1.0,))) == ["| plain | | 1.00× [1.00–1.00] | | |"]


def test_a_row_that_was_left_out_says_why_and_meets_nothing() -> None:
    row = Row(name="rate", against="Peer", left_out="not installed", at_least=1.5)
    assert row.met is None
    assert told(row) == ["| rate | Peer | left out: not installed | ≥ 1.50× | |"]


def test_ways_run_in_turn_after_one_time_that_does_not_count_and_in_another_order_each_time() -> None:
    order: list[str] = []

    def way(name: str) -> int:
        order.append(name)
        return len(order)

    names = ("a", "b", "c")
    results = in_turn({name: lambda name=name: way(name) for name in names}, 4)  # type: ignore[misc]
    rounds = [order[start : start + 3] for start in range(0, len(order), 3)]
    assert len(rounds) == 5
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len({tuple(one) for one in rounds[1:]}) > 1
    assert sorted(number for values in results.values() for number in values) == list(range(4, 16))


def test_a_ratio_is_taken_within_a_repetition() -> None:
    assert ratios([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]) == (0.5, 0.5, 0.5)
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_a_run_of_one_module_leaves_the_sections_of_others_as_they_stand(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    order = ("one", "two", "three")
    written(page, [("three", "## three\n\nold\n"), ("one", "## one\n\nold\n")], order)
    written(page, [("two", "## two\n\nnew\n"), ("one", "## one\n\nnew\n")], order)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Performance\n")
    assert text.endswith("## one\n\nnew\n\n## two\n\nnew\n\n## three\n\nold\n")
    written(page, [], order)
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_measures(name: str) -> None:
    assert (MODULES[name].__doc__ or "").strip()
