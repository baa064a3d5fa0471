"""Which probes a run takes: those that serve what is wanted, and no others."""

from __future__ import annotations

import pytest
from tests.peers.test_mutants import PLANS

from kvwire.attack.probes import live
from kvwire.attack.probes.catalog import PROBES, plan
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.attack.witness import Recorder
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.summary import Wanted
from kvwire.judges import JUDGES
from kvwire.peers.mutants import MUTANTS
from kvwire.standard import registry
from kvwire.standard.statement import Statement, Stream

KNOWN = registry.load()
BY_NAME = {probe.name: probe for probe in PROBES}


def session(recorder: Recorder) -> Session:
    """A session that can do what one without a driver can."""
    stream = Stream(name="s", endpoint="ipc://s", replay="ipc://r")
    return Session(recorder=recorder, streams=[stream], statement=Statement())


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_probe_serves_judged_sentences(probe: Probe) -> None:
    words = probe.serves.split()
    assert words or probe.must_survive
    assert len(set(words)) == len(words)
    for word in words:
        assert KNOWN.select([word]) & JUDGES.keys(), word


@pytest.mark.parametrize("requirement", JUDGES)
def test_a_judged_sentence_is_served(requirement: str) -> None:
    serving = [probe for probe in PROBES if probe.aims_at([requirement])]
    if KNOWN[requirement].needs != ("passive",):
        serving = [probe for probe in serving if probe is not live.PROBE]
    assert serving, "no probe does what can break it"


@pytest.mark.parametrize("name", PLANS)
def test_a_mutant_is_heard_by_a_probe_that_serves_what_it_breaks(name: str) -> None:
    assert any(BY_NAME[probe].aims_at([MUTANTS[name].primary]) for probe in PLANS[name].probes)


def test_what_nobody_wants_is_left_out(recorder: Recorder) -> None:
    asked = session(recorder)
    assert [probe.name for probe in plan(asked, only=frozenset({"KVW-REP-010"}))] == [
        "live",
        "replay",
        "replay-pressure",
    ]
    assert plan(asked, "quick", frozenset({"KVW-REP-010"})) == (live.PROBE, BY_NAME["replay"])
    assert [probe.name for probe in plan(asked, only=KNOWN.select(["EXP"]))] == ["live", "places"]
    assert plan(asked, only=frozenset({"KVW-END-004"})) == (live.PROBE,)


def test_whoever_must_survive_a_probe_is_served_by_it() -> None:
    assert BY_NAME["joiner"].aims_at(["KVW-REP-018"])
    assert not BY_NAME["joiner"].aims_at(["KVW-REP-017", "KVW-ENV-001"])


@pytest.mark.network
def test_a_run_for_one_sentence_takes_its_probes_and_says_what_it_left_out() -> None:
    target = parse("mutant:no-leading-clear")
    assert not isinstance(target, TraceTarget)
    only = KNOWN.select(["SEQ-8"])
    recording = run(target, Settings(only=only, profile="replay"))
    assert recording.header.probes == ("live", "replay", "restart")
    assert {"endpoints", "pressure-long"} <= set(recording.header.left_out)
    assert not set(recording.header.left_out) & set(recording.header.probes)
    result = conclude(recording, KNOWN, registry.profile("replay"), Wanted(only=("SEQ-8",)))
    assert result.run.reproduce == "kvwire check mutant:no-leading-clear --profile replay --only SEQ-8"
    (outcome,) = result.outcomes
    assert outcome.verdict == "WARN"
    assert {finding.where.probe for finding in outcome.findings} <= set(recording.header.probes)
    assert outcome.findings
