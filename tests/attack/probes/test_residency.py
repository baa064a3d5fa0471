"""The small cache that is filled, hit, evicted and reset: what its prompts are there to show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.kit.runs import judged, recorded, spoken

SILENT = """
from kvwire.peers.adapter import Peer, serve
from kvwire.peers.mutant import made_of
from kvwire_reference.announcer import Announcer

class Silent(Announcer):
    def _may_follow(self, block):
        return block.state.{scope} is None and super()._may_follow(block)

serve(Peer(**made_of(Silent), statement={{"profile": "replay", "bounds": {{"reset_visible_s": 0.5}}}}))
"""


@pytest.mark.network
@pytest.mark.parametrize("scope", ["lora_id", "salt_id"])
def test_a_publisher_that_is_silent_about_a_scope_is_heard(scope: str, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(SILENT.format(scope=scope))
    trace = recorded(f"exec:{sys.executable} {adapter}", probes=("live", "residency"))
    assert spoken(judged(trace)) == {"KVW-RES-013"}
