"""A stream stopped when it is silent for longer than its own rhythm allows while peers go on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kvwire.history.rhythm import Heard, allowed_s, stopped

S = 10**9


def heard(*times: float, began: float = 0.0, ended: float = 100.0) -> Heard:
    pauses = [after - before for before, after in pairwise(times)]
    return Heard(
        began_ns=int(began * S),
        first_ns=int(times[0] * S),
        last_ns=int(times[-1] * S),
        longest_ns=int(max(pauses, default=0) * S),
        ended_ns=int(ended * S),
    )


STEADY = heard(*range(101))


@pytest.mark.parametrize(
    ("other", "is_stopped"),
    [
        (heard(0, 1, 2), True),
        (heard(0, 10, 20), True),
        (heard(0, 30, 60), False),  # so long it may pause
        (heard(0, 1, 2, ended=3), False),  # and then nobody listened
        (heard(0, 1, 2, ended=7), True),
        (heard(50), False),  # its rhythm is unknown, and it was not heard for longer before
        (heard(5), True),
    ],
)
def test_by_its_own_rhythm(other: Heard, is_stopped: bool) -> None:
    assert stopped({"a": other, "b": STEADY}) == ["a"] * is_stopped


def test_where_all_end_together_none_has_stopped() -> None:
    assert stopped({"a": heard(0, 1, 2), "b": heard(0, 1, 2.5), "c": heard(0, 1, 3)}) == []
    assert stopped({"a": heard(0, 1, 2)}) == []
    assert stopped({}) == []


def test_a_silence_has_a_least_length() -> None:
    assert allowed_s(0.0) == 2.0
    assert allowed_s(1.0) == 5.0
    assert allowed_s(1.0, 10.0) == 10.0


def test_times_by_another_clock_are_the_same_times() -> None:
    moved = heard(1, 2, 5).shifted(7 * S)
    assert (moved.first_ns, moved.last_ns, moved.ended_ns, moved.longest_ns) == (8 * S, 12 * S, 107 * S, 3 * S)
    assert moved.allowed_ns == heard(1, 2, 5).allowed_ns
    assert not heard(1, 2).meets(heard(3, 4))
    assert heard(1, 3).meets(heard(3, 4))
