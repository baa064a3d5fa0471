"""What became of each probe of a run: which were left, and why."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest
from tests.kit.probing import QUICK

from kvwire.attack.probes.catalog import PROBES
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.conclusion.conclude import conclude
from kvwire.standard import registry
from kvwire.standard.protocol import Refused
from kvwire.trace.planned import Left
from kvwire.trace.records import Trace

pytestmark = pytest.mark.network
KNOWN = registry.load()
REFERENCE = "reference:"


def ran(text: str, settings: Settings, stop_at: str = "") -> Trace:
    def progress(said: str) -> None:
        if stop_at and said.startswith(f"probe {stop_at} ("):
            raise KeyboardInterrupt

    target = parse(text)
    assert not isinstance(target, TraceTarget)
    return run(target, msgspec.structs.replace(settings, limits=QUICK), progress)


def left(trace: Trace) -> dict[str, Left]:
    return {probe.name: probe.left for probe in trace.header.plan if probe.left is not None}


def test_the_plan_names_every_probe_and_what_a_quick_run_leaves() -> None:
    trace = ran(REFERENCE, Settings(mode="quick"))
    assert [probe.name for probe in trace.header.plan] == [probe.name for probe in PROBES]
    assert left(trace)["restart"] is Left.MODE
    assert left(trace)["heartbeat"] is Left.DECLARATION
    assert set(trace.header.left_out) == {name for name, why in left(trace).items() if why is Left.MODE}
    assert not left(trace).keys() & set(trace.header.probes)


def test_what_only_wants_and_the_mode_leaves_are_told_apart() -> None:
    trace = ran(REFERENCE, Settings(only=KNOWN.select(["SEQ-8"])))
    assert left(trace)["endpoints"] is Left.ONLY
    assert left(trace)["replay-volume"] is Left.MODE


def test_a_run_that_is_out_of_time_says_what_it_did_not_come_to() -> None:
    """Its deadline is over as soon as the first probe is."""
    trace = ran(REFERENCE, Settings(deadline_s=-QUICK.listen_s))
    assert "live" not in trace.header.probes
    assert {left(trace)["live"], left(trace)["restart"]} == {Left.TIME}
    assert {"live", "restart"} <= set(trace.header.left_out)
    summary = conclude(trace, KNOWN, registry.profile("replay")).summary
    assert summary.no_claim == ["cut"]
    assert summary.headline.startswith("no claim: out of time before the end of live, places, requests")


def test_progress_says_how_many_probes_there_are_and_how_long_they_may_take() -> None:
    told: list[str] = []
    target = parse(REFERENCE)
    assert not isinstance(target, TraceTarget)
    run(target, Settings(mode="quick", limits=QUICK), told.append)
    probes = [text for text in told if text.startswith("probe ")]
    assert re.fullmatch(r"probe live \(1 of \d+, \d+ s left at most\)", probes[0])
    assert f"({len(probes)} of {len(probes)}, " in probes[-1]


def test_an_interrupt_leaves_what_was_to_come() -> None:
    trace = ran(REFERENCE, Settings(mode="quick"), stop_at="replay")
    assert trace.interrupted
    assert left(trace)["replay"] is Left.INTERRUPTED
    assert "prompts" not in left(trace)
    assert {"replay", "stop"} <= set(trace.header.left_out)
    assert left(trace)["restart"] is Left.MODE


def test_verbs_that_an_adapter_lacks_are_named(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(
        "from kvwire.peers.adapter import Adapter, Peer, serve\n"
        "import kvwire.peers.adapter as a\n"
        "class Less(Adapter):\n"
        "    def _hello(self, request):\n"
        "        answer = super()._hello(request)\n"
        "        answer['can'] = [verb for verb in answer['can'] if verb != 'restart']\n"
        "        return answer\n"
        "a.Adapter = Less; serve(Peer())\n"
    )
    trace = ran(f"exec:{sys.executable} {adapter}", Settings(mode="quick"))
    (restart,) = [probe for probe in trace.header.plan if probe.name == "restart"]
    assert (restart.left, restart.lacks) == (Left.VERB, ("restart",))


def test_a_probe_that_is_refused_says_with_which_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Session) -> None:
        raise Refused("no prompts today")

    probe = Probe(name="refused", run=refused, needs=frozenset({"cache"}), serves="RES-003", mode="quick")
    monkeypatch.setattr("kvwire.attack.run.plan", lambda session, mode="plain", only=None: (PROBES[0], probe))
    trace = ran(REFERENCE, Settings(mode="quick"))
    (planned,) = [one for one in trace.header.plan if one.name == "refused"]
    assert (planned.left, planned.said) == (Left.REFUSED, "no prompts today")
    assert "refused" in trace.header.probes
