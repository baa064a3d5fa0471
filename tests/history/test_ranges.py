"""Numbers as ranges say what a set of them would."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady

from kvwire.history.ranges import Ranges

NUMBERS = st.lists(st.integers(0, 30), max_size=40)


def ranges(numbers: list[int]) -> Ranges:
    found = Ranges()
    for record, number in enumerate(numbers):
        found.add(number, record)
    return found


@steady
@given(NUMBERS, NUMBERS)
def test_they_hold_what_a_set_holds(numbers: list[int], others: list[int]) -> None:
    own, known = ranges(numbers), set(numbers)
    assert {n for first, last in own for n in range(first, last + 1)} == known
    assert len(own) == len(known)
    ascending = sorted(known)
    assert own.holes == [(low, high) for low, high in itertools.pairwise(ascending) if high > low + 1]
    assert all(own.record_of(first) == numbers.index(first) for first, _ in own)
    assert all(own.hold(low, low + 2) == ({low, low + 1, low + 2} <= known) for low in range(30))
    assert own.meet(ranges(others)) == bool(known & set(others))
    assert [*Ranges.union([own, ranges(others)])] == [*ranges(sorted(known | set(others)))]
