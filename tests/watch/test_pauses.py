"""Whether a stream is heard within its own rhythm."""

from __future__ import annotations

from kvwire.history.rhythm import TIMES
from kvwire.watch.pauses import FLOOR_S, HOUR_S, Pauses


def told(pauses: Pauses, *times: float) -> Pauses:
    for at in times:
        pauses.heard(at)
    return pauses


def test_a_busy_stream_may_always_pause_for_a_while() -> None:
    assert told(Pauses(0.0), 0.0, 0.1, 0.2).bound == FLOOR_S


def test_a_slow_stream_may_pause_for_several_of_its_own_pauses() -> None:
    assert told(Pauses(0.0, None), 0.0, 3.0, 7.0).bound == TIMES * 4.0


def test_a_time_that_was_named_stands_whatever_the_rhythm() -> None:
    assert told(Pauses(0.0, 1.5), 0.0, 3.0, 7.0).bound == 1.5


def test_an_outage_that_nobody_noticed_doubles_the_bound_at_most() -> None:
    assert told(Pauses(0.0), 0.0, 100_000.0).bound == 2 * FLOOR_S


def test_a_pause_without_a_connection_is_no_pause_of_the_stream() -> None:
    pauses = told(Pauses(0.0), 0.0)
    pauses.lost()
    assert told(pauses, 9.0).bound == FLOOR_S
    assert told(pauses, 18.0).bound == TIMES * 9.0


def test_a_rhythm_is_forgotten_after_a_day() -> None:
    pauses = told(Pauses(0.0), 0.0, 9.0)
    assert pauses.bound == TIMES * 9.0
    for second in range(10, int(25 * HOUR_S), 5):
        pauses.heard(float(second))
    assert pauses.bound == TIMES * 5.0


def test_what_never_came_is_silent_since_the_beginning() -> None:
    assert Pauses(5.0).silence(12.0) == 7.0
    assert told(Pauses(5.0), 10.0).silence(12.0) == 2.0
