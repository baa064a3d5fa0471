"""The state machine finds a fault that a publisher has, and keeps the session in which it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.selftest.machine import PROFILE, SETTINGS, Machine

from kvwire.selftest import soak
from kvwire.trace import files


@pytest.mark.network
@pytest.mark.slow
def test_a_fault_is_found_and_its_session_kept(tmp_path: Path) -> None:
    class Broken(Machine):
        kinds = ("mutant:integer-ts",)
        keep = tmp_path

    few = settings(SETTINGS, max_examples=1, stateful_step_count=3, database=None, phases=[Phase.generate])
    with pytest.raises(AssertionError, match="KVW-BAT-002"):
        run_state_machine_as_test(Broken, settings=few)
    kept = files.read(tmp_path / "KVW-BAT-002.kvtrace")
    assert "KVW-BAT-002" in {said.what for said in soak.said(kept, PROFILE)}
