"""The reference passes everything that its level can show, and a publisher that shows nothing passes nothing."""

from __future__ import annotations

import sys

import msgspec
import pytest
from tests.peers.runs import LIMITS, at_levels, dumped, judged, recorded, replayed, spoken

from kvwire.result import Result
from kvwire.verdict import Exit, Verdict

pytestmark = pytest.mark.network

TARGETS = {
    "reference:": "replay",
    "reference:?algorithm=v1_block_key": "replay",
    "reference:?algorithm=v2_sha256_64/u64": "replay",
    "reference:?multimodal=true": "multimodal",
    "reference:?role=publish": "replay",
    "reference:?replay=none": "core",
    "reference:?rank=3&topic=": "replay",
    "reference:?cap=4": "replay",
    "reference:?ring=30": "replay",
    "reference:?block_size=1&capacity=64": "replay",
    "reference:?heartbeat=0.3": "replay",
}


def verdicts(outcome: Result) -> dict[str, Verdict]:
    return {line.requirement: line.verdict for line in outcome.outcomes}


@pytest.mark.parametrize("target", TARGETS)
def test_nobody_speaks_of_the_reference_however_it_is_started(target: str) -> None:
    recording = recorded(target)
    results = at_levels(recording, TARGETS[target])
    for level, outcome in results.items():
        assert spoken(outcome) == frozenset(), level
        assert not outcome.troubles
    assert dumped(replayed(recording), TARGETS[target]) == dumped(recording, TARGETS[target])
    evicted = "ring=" in target  # then nothing proves that the first number was 0
    assert results["driven"].summary.exit == (Exit.INCONCLUSIVE if evicted else Exit.CONFORMANT)
    assert results["driven"].summary.conclusive_missing == (["KVW-SEQ-001"] if evicted else [])


def test_the_reference_leaves_nothing_open_at_the_driven_level() -> None:
    outcome = judged(recorded("reference:"))
    assert [line.requirement for line in outcome.outcomes if line.verdict is Verdict.INCONCLUSIVE] == []


def test_repeated_runs_do_not_vary() -> None:
    first, second = (verdicts(judged(recorded("reference:"))) for _ in range(2))
    assert first == second


def test_a_silent_publisher_earns_nothing() -> None:
    command = f"exec:{sys.executable} -m kvwire.peers.silent"
    outcome = judged(recorded(command, msgspec.structs.replace(LIMITS, prime_s=0.5, settle_s=0.3)))
    passed = {line.requirement.split("-")[1] for line in outcome.outcomes if line.verdict is Verdict.PASS}
    assert passed.isdisjoint({"ENV", "SEQ", "BAT", "EVT", "CHN", "HSH", "RES", "RNK"})
    assert {"KVW-ENV-001", "KVW-SEQ-003", "KVW-EVT-001"} <= {
        line.requirement for line in outcome.outcomes if line.verdict is Verdict.INCONCLUSIVE
    }
    assert outcome.summary.exit != Exit.CONFORMANT
