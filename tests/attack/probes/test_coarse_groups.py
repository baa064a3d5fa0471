"""The probe of groups and tiers tries a group whose blocks are larger than those of the first."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.runs import LIMITS, judged, spoken

from kvwire.attack.run import Settings, run
from kvwire.attack.targets import parse
from kvwire.attack.targets.adapted import AdapterTarget
from kvwire.judges.verdict import Verdict
from kvwire.trace.calls import StartCall
from kvwire.trace.records import told

pytestmark = pytest.mark.network


def test_a_window_in_coarser_blocks_is_tried() -> None:
    target = parse("reference:?block_size=4")
    assert isinstance(target, AdapterTarget)
    limits = msgspec.structs.replace(LIMITS, prompts=60)
    recording = run(target, Settings(probes=("live", "tiers"), limits=limits))
    starts = [call for _, call in told(enumerate(recording.records), StartCall) if call.succeeded]
    assert 8 in {group.block_size for call in starts for group in call.groups or ()}
    result = judged(recording)
    assert spoken(result) == frozenset()
    assert "KVW-CHN-002" in {line.requirement for line in result.outcomes if line.verdict is Verdict.PASS}
