"""Counters that interleave on one endpoint."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.kit.stories import Story, foreign, payload, stored

from kvwire.history.senders import Senders, senders


def heard(numbers: Iterable[int]) -> Senders | None:
    """What is said of these numbers, each with bytes of its own."""
    story = Story()
    for at, number in enumerate(numbers):
        story.live(number, payload(stored([at]), ts=story.tick()))
    return senders(story.timeline())


@pytest.mark.parametrize(
    ("numbers", "count", "first", "last"),
    [
        ([0, 0, 1, 1, 2, 2], 2, 0, 2),
        ([0, 1000, 1, 1001, 2, 1002, 3, 1003], 2, 1, 3),
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3, 0, 2),
    ],
)
def test_counters_that_go_up_side_by_side(numbers: list[int], count: int, first: int, last: int) -> None:
    found = heard(numbers)
    assert found is not None
    assert (found.count, found.first, found.last) == (count, first, last)
    assert found.text.startswith(f"{'two' if count == 2 else count} senders: ")


@pytest.mark.parametrize(
    "numbers",
    [range(9), [0, 0, 1, 1], [0, 5, 2, 9, 6, 20, 13], [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7], [*range(9), *range(12)]],
)
def test_one_sender_however_it_miscounts(numbers: Iterable[int]) -> None:
    assert heard(numbers) is None


def test_what_a_witness_hears_late_and_copies_are_no_counter() -> None:
    story = Story()
    for number in range(6):
        story.send(stored([number]), by="a" if number % 2 else "b")
    for number in range(6):
        story.live(number, story.retained[number], by="ab")
    assert senders(story.timeline()) is None
    story.live(3, foreign(3))
    assert senders(story.timeline()) is None


def test_a_restart_that_both_witnesses_noticed_is_one_counter() -> None:
    story = Story().told(5)
    story.restart()
    story.told(5)
    assert senders(story.timeline()) is None
