"""The reference passes everything that its level can show, and a publisher that shows nothing passes nothing."""

from __future__ import annotations

import sys

import msgspec
import pytest
from tests.kit.checked import Checked
from tests.kit.runs import LIMITS, at_levels, dumped, judged, recorded, replayed, spoken

from kvwire.attack.probes.kit.session import Mode
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Exit, Verdict
from kvwire.standard.registry import ControlLevel
from kvwire.trace.records import Trace

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.steady]

TARGETS = {
    "reference:?algorithm=v1_block_key": "replay",
    "reference:?algorithm=v2_sha256_64/u64": "replay",
    "reference:?multimodal=true": "multimodal",
    "reference:?salt=tag": "replay",
    "reference:?role=publish": "replay",
    "reference:?replay=none": "core",
    "reference:?rank=3&topic=": "replay",
    "reference:?cap=4": "replay",
    "reference:?ring=30": "replay",
    "reference:?block_size=1&capacity=64": "replay",
    "reference:?heartbeat=0.3": "replay",
}


LIGHT = msgspec.structs.replace(LIMITS, prompts=60, batches=40)
"""Every probe, with less work: what is judged at every level twice takes longer to judge than to run."""


def verdicts(outcome: Result) -> dict[str, Verdict]:
    return {line.requirement: line.verdict for line in outcome.outcomes}


def nobody_speaks(recording: Trace, profile: str) -> dict[ControlLevel, Result]:
    """The results at every level, in which nobody speaks, and which the written trace gives too."""
    results = at_levels(recording, profile)
    for level, outcome in results.items():
        assert spoken(outcome) == frozenset(), level
        assert not outcome.troubles
    assert dumped(replayed(recording), profile) == dumped(recording, profile)
    return results


@pytest.mark.parametrize("target", TARGETS)
def test_nobody_speaks_of_the_reference_however_it_is_started(target: str) -> None:
    # A block a token is a matter of the cache: under replay pressure it would make half a million events.
    probes = ("live", "prompts", "reset", "joiner", "residency", "cap", "restart") if "block_size=1" in target else None
    results = nobody_speaks(recorded(target, LIGHT, probes=probes), TARGETS[target])
    if probes is not None:
        passed = {name for name, verdict in verdicts(results["driven"]).items() if verdict is Verdict.PASS}
        assert {"KVW-RES-001", "KVW-RES-003", "KVW-RES-013", "KVW-CHN-003", "KVW-HSH-002"} <= passed
        return
    evicted = "ring=" in target  # then nothing proves that the first number was 0
    assert results["driven"].summary.exit == (Exit.INCONCLUSIVE if evicted else Exit.CONFORMANT)
    assert results["driven"].summary.conclusive_missing == (["KVW-SEQ-001"] if evicted else [])


def test_nobody_speaks_of_the_reference_at_any_level_and_nothing_is_open(checked_reference: Checked) -> None:
    driven = nobody_speaks(checked_reference.trace(), "replay")["driven"]
    assert [line.requirement for line in driven.outcomes if line.verdict is Verdict.INCONCLUSIVE] == []
    assert driven.summary.exit == Exit.CONFORMANT
    assert driven.summary.conclusive_missing == []


def test_repeated_runs_do_not_vary(checked_reference: Checked) -> None:
    first, second = (verdicts(judged(recording)) for recording in (checked_reference.trace(), recorded("reference:")))
    assert first == second


NEAR_NULL = {
    "silent": {"ENV", "SEQ", "BAT", "EVT", "CHN", "HSH", "RES", "RNK"},
    # The block of its one event was announced, and is reused: that much it shows (RES-013).
    "one-event": {"SEQ-002", "SEQ-003", "SEQ-004", "BAT-004", "EVT-017", "EVT-018", "CHN-002", "HSH-006"}
    | {f"RES-{number:03}" for number in range(1, 13)},
    "heartbeats": {"EVT", "CHN", "HSH", "RES"},
    "duplicates": {"SEQ-002", "SEQ-003", "SEQ-004", "BAT-004", "EVT-005", "CHN", "HSH", "RES"},
}
"""What a publisher that shows next to nothing must not pass: whole areas, or sentences."""


@pytest.mark.parametrize(
    ("kind", "mode"),
    # In a plain run the others keep every probe waiting for what does not come.
    [*((kind, "quick") for kind in NEAR_NULL), ("silent", "plain"), ("heartbeats", "plain")],
)
def test_who_shows_next_to_nothing_passes_nothing_else(kind: str, mode: Mode) -> None:
    command = f"exec:{sys.executable} -m kvwire.peers.near_null {kind}"
    recording = recorded(command, msgspec.structs.replace(LIMITS, prime_s=0.5, settle_s=0.3), mode)
    for level, outcome in at_levels(recording, "replay").items():
        passed = {id_ for id_, verdict in verdicts(outcome).items() if verdict is Verdict.PASS}
        short = {id_.removeprefix("KVW-") for id_ in passed}
        assert NEAR_NULL[kind].isdisjoint(short | {id_[:3] for id_ in short}), level
        assert outcome.summary.exit != Exit.CONFORMANT, level
        assert not outcome.troubles, level


def test_what_a_silent_publisher_hides_stays_open() -> None:
    command = f"exec:{sys.executable} -m kvwire.peers.near_null silent"
    outcome = judged(recorded(command, msgspec.structs.replace(LIMITS, prime_s=0.5, settle_s=0.3), mode="quick"))
    assert {"KVW-ENV-001", "KVW-SEQ-003", "KVW-EVT-001"} <= {
        line.requirement for line in outcome.outcomes if line.verdict is Verdict.INCONCLUSIVE
    }
