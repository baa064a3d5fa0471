"""An engine is waited for until it is idle only where its word and its stream differ."""

from __future__ import annotations

import time

import pytest
from tests.kit.probing import marks, session

from kvwire.attack.probes.kit.drained_prompts import DrainedPrompts
from kvwire.attack.probes.kit.readiness import handshakes, prime
from kvwire.attack.witness import Recorder
from kvwire.trace.calls import ResidentCall
from kvwire.trace.marks import Settled

pytestmark = pytest.mark.network

BOUND_S = 2.0
"""What the peer declares."""


def test_who_agrees_with_its_stream_is_not_waited_for(recorder: Recorder) -> None:
    with session(recorder, "reference:?block_size=4&capacity=16") as run:
        assert handshakes(run)
        assert prime(run)
        drained = DrainedPrompts(run)
        drained.begin()
        drained.prompt(run.offers.tokens(3))
        drained.ask()
    assert len(marks(recorder, ResidentCall)) == 1
    assert not any(mark.idle for mark in marks(recorder, Settled))


def test_who_differs_is_asked_again_once_it_is_idle(recorder: Recorder) -> None:
    with session(recorder, "honest:late-1-s") as run:
        drained = DrainedPrompts(run)
        drained.driver.cache(run.offers.tokens(3))
        began = time.monotonic()
        drained.ask()
        assert time.monotonic() - began >= BOUND_S
    assert len(marks(recorder, ResidentCall)) == 2
    assert [mark.idle for mark in marks(recorder, Settled)] == [True]
