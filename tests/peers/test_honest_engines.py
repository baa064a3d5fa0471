"""Nobody speaks of engines that are more than one cache with one group, or that take their time."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from tests.kit import late_engine as late
from tests.kit.runs import LIMITS, judged, spoken

from kvwire.attack.probes.kit.session import Limits
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import parse
from kvwire.attack.targets.adapted import AdapterTarget
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict
from kvwire.standard.protocol import EngineGroup, EngineTier, Start
from kvwire.trace.calls import StartCall
from kvwire.trace.records import told

pytestmark = pytest.mark.network

LIGHT: Limits = msgspec.structs.replace(LIMITS, prompts=60)
PROBES = ("live", "prompts", "reset", "residency", "tiers", "restart")
FULL, WINDOW = EngineGroup(idx=0, kind="full_attention"), EngineGroup(idx=1, kind="sliding_window", window=8)
HOST = EngineTier(medium="CPU", capacity=40)

ENGINES: dict[str, Start] = {
    "a window that is not announced": Start(groups=(FULL, msgspec.structs.replace(WINDOW, announced=False))),
    "a window that is": Start(groups=(FULL, WINDOW)),
    "a window in coarser blocks": Start(groups=(FULL, msgspec.structs.replace(WINDOW, block_size=8))),
    "a state-space group that is": Start(groups=(FULL, EngineGroup(idx=1, kind="mamba"))),
    "two dense groups": Start(groups=(FULL, EngineGroup(idx=1, kind="mla_attention"))),
    "host memory that is not announced": Start(tiers=(msgspec.structs.replace(HOST, announced=False),)),
    "host memory that is": Start(tiers=(HOST,)),
    "groups and host memory": Start(groups=(FULL, WINDOW), tiers=(HOST,)),
    "netting": Start(netting=True),
}


def quiet(target: AdapterTarget) -> Result:
    """The result of a run in which nobody speaks."""
    result = judged(run(target, Settings(probes=PROBES, limits=LIGHT)))
    assert spoken(result) == frozenset()
    return result


def passed(result: Result) -> set[str]:
    return {line.requirement for line in result.outcomes if line.verdict is Verdict.PASS}


@pytest.mark.parametrize("name", ENGINES)
def test_nobody_speaks_of_the_reference_with(name: str) -> None:
    target = parse("reference:?block_size=4&capacity=40")
    assert isinstance(target, AdapterTarget)
    chosen = {
        key: value for key in ("groups", "tiers", "netting") if (value := getattr(ENGINES[name], key)) is not None
    }
    start = msgspec.structs.replace(target.start, **chosen)
    result = quiet(AdapterTarget(target.text, target.command, start, target.env))
    assert {"KVW-RES-003", "KVW-RES-012", "KVW-RES-013", "KVW-CHN-003"} <= passed(result)
    assert ("KVW-CHN-002" in passed(result)) or "window" not in name


def test_nobody_speaks_of_an_engine_whose_events_are_late() -> None:
    command = (sys.executable, str(Path(late.__file__)), "0.1", "0.7")
    result = quiet(AdapterTarget("late", command, Start(block_size=4, capacity=40, topic="kv")))
    assert {"KVW-RES-003", "KVW-RES-006"} <= passed(result)


def test_a_window_in_coarser_blocks_is_tried() -> None:
    target = parse("reference:?block_size=4")
    assert isinstance(target, AdapterTarget)
    recording = run(target, Settings(probes=("live", "tiers"), limits=LIGHT))
    starts = [call for _, call in told(enumerate(recording.records), StartCall) if call.succeeded]
    assert 8 in {group.block_size for call in starts for group in call.groups or ()}
    assert "KVW-CHN-002" in passed(judged(recording))
