"""The benchmark of reception counts what was published and what of it did not come."""

from collections.abc import Callable
from typing import cast

import pytest

from benchmarks import reception
from benchmarks.rows import Effort
from benchmarks.sending import Fleet
from kvwire.attack.witness import Recorder, Witness
from kvwire.attack.witness_process import Item

pytestmark = pytest.mark.network


def test_every_batch_of_every_rank_is_due_from_both_witnesses() -> None:
    heard = reception.hear(Fleet("", ranks=3, rate=600, seconds=0.5))
    assert heard.lost == 0
    assert 600 <= heard.due < 660, "all of them, and what was still under way of the batches that it began with"
    assert heard.seconds > 0
    assert heard.broken == 0, "what the ranks say is as it should be"
    assert 0 < heard.lines <= reception.SCREEN


def test_what_a_witness_does_not_hand_over_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    write = cast("Callable[[Recorder, Witness, Item], None]", Recorder._write)
    monkeypatch.setattr(reception, "QUIET_S", 0.2)

    def forgetful(recorder: Recorder, witness: Witness, item: Item) -> None:
        if item.frames is None or item.frames[1] not in {number.to_bytes(8, "big") for number in (50, 60)}:
            write(recorder, witness, item)

    monkeypatch.setattr(Recorder, "_write", forgetful)
    heard = reception.hear(Fleet("", ranks=2, rate=1000, seconds=0.4))
    assert heard.lost == 2 * 2 * 2


def test_the_rows_are_of_a_pace_and_of_as_fast_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Fleet] = []

    def hear(fleet: Fleet) -> reception.Heard:
        asked.append(fleet)
        return reception.Heard(due=8000, lost=len(asked) - 1, seconds=1.0, harness=0.1, witness=0.2)

    monkeypatch.setattr(reception, "hear", hear)
    rows = {row.name: row for row in reception.rows(Effort(repetitions=2, quick=True))}
    assert [round(fleet.rate * fleet.seconds) for fleet in asked] == [2000, 4000, 4000]
    assert (rows["lost"].met, rows["at once: lost"].met) == (True, False)
    assert rows["the harness"].values == (10.0,)
    assert rows["at once: batches per second"].values == (2.0, 2.0)
