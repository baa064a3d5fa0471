"""What waits to be sent comes out as it was put, with its number, whatever was dropped between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvwire_reference.backlog import Backlog
from kvwire_reference.wire import Batch

STEPS = st.lists(st.none() | st.integers(1, 4), max_size=60)
"""To take one, or to put one whose number is so much above that of the one before."""


def batch(number: int) -> Batch:
    return Batch(float(number), (), 0)


@given(STEPS)
def test_batches_come_out_in_order_with_their_numbers(steps: list[int | None]) -> None:
    backlog = Backlog()
    waiting: list[tuple[int, Batch]] = []
    number = -1
    for step in steps:
        if step is not None:
            number += step
            backlog.put(number, batch(number))
            waiting.append((number, batch(number)))
        elif waiting:
            assert backlog.head() == waiting[0]
            assert backlog.take() == waiting.pop(0)
        assert len(backlog) == len(waiting)
        assert bool(backlog) == bool(waiting)
    assert [backlog.take() for _ in waiting] == waiting


def test_numbers_may_begin_anywhere_and_fall_back() -> None:
    numbers = [7, 8, 3, 4, 2, 3, 4, 5, 9, 8, 9]
    backlog = Backlog()
    for number in numbers:
        backlog.put(number, batch(number))
    assert [backlog.take()[0] for _ in numbers] == numbers


def test_nothing_is_taken_from_nothing_and_no_number_is_lost_by_it() -> None:
    backlog = Backlog()
    for take in (backlog.take, backlog.head):
        with pytest.raises(IndexError):
            take()
    backlog.put(0, batch(0))
    with pytest.raises(IndexError):
        [backlog.take() for _ in range(2)]
    backlog.put(1, batch(1))
    assert backlog.take() == (1, batch(1))
