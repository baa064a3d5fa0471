"""Each mutant is heard for what it breaks, and for nothing else: live, from its stored trace, at every level."""

from __future__ import annotations

import re

import msgspec
import pytest
from tests.peers.runs import at_levels, dumped, judged, recorded, replayed, spoken

from kvwire import registry
from kvwire.judges import TABLE
from kvwire.matrix import cells, profile_of, signatures
from kvwire.peers.mutants import LEVELS, MUTANTS, Mutant
from kvwire.result import Trouble
from kvwire.vectors import session_records, sessions
from kvwire.vectors.session_plans import PREFIX, plans

SAME_SIGNATURE: dict[tuple[str, ...], str] = {}
"""Sentences that the same mutants break at the same levels, and why they are two sentences all the same."""


PLANS = {name: plan for name in MUTANTS if not (plan := plans()[f"{PREFIX}{name}"]).left_out}
"""With which probes a mutant is heard in a small run."""


@pytest.mark.network
@pytest.mark.parametrize("name", PLANS)
def test_a_small_run_hears_a_mutant_for_what_it_breaks_and_for_nothing_else(name: str) -> None:
    """What is broken speaks, whatever speaks is expected, and nothing of it is lost in a trace."""
    (session,) = session_records.record(f"{PREFIX}{name}", PLANS[name]).tests
    recording = sessions.trace_of(session)
    assert MUTANTS[name].primary in spoken(judged(recording))
    assert dumped(replayed(recording)) == dumped(recording)


@pytest.mark.matrix
@pytest.mark.network
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_is_heard_for_what_it_breaks_and_for_nothing_else(mutant: Mutant) -> None:
    recording = recorded(f"mutant:{mutant.name}")
    results = at_levels(recording, profile_of(mutant))
    assert {level: sorted(spoken(results[level])) for level in LEVELS} == {
        level: sorted(mutant.expected[level]) for level in LEVELS
    }
    assert not results["driven"].troubles, "a crash is not a kill"
    for outcome in results["driven"].outcomes:
        if outcome.requirement == mutant.primary:
            assert outcome.findings
            assert outcome.findings[0].expected != outcome.findings[0].seen
    assert dumped(replayed(recording), profile_of(mutant)) == dumped(recording, profile_of(mutant))


def test_every_judged_must_and_should_has_a_mutant_or_a_reason() -> None:
    without = {
        requirement.id
        for requirement in registry.load().binding("publisher")
        if requirement.id in TABLE and requirement.level != "MAY"
    } - {mutant.primary for mutant in MUTANTS.values()}
    assert without == set(), "a judge needs a mutant that it kills"


def test_primary_ids_are_judged_at_some_level_and_reasons_are_given() -> None:
    for mutant in MUTANTS.values():
        assert mutant.primary in TABLE
        assert any(mutant.primary in mutant.expected[level] for level in LEVELS)
        others = frozenset[str]().union(*mutant.expected.values()) - {mutant.primary}
        assert bool(others) <= bool(mutant.reason), f"{mutant.name}: why do {sorted(others)} speak?"


def test_no_two_judges_have_one_kill_signature() -> None:
    shared = {tuple(ids) for ids in signatures(tuple(MUTANTS.values())).values() if len(ids) > 1}
    assert shared == set(SAME_SIGNATURE), "merge the sentences, tell them apart by a mutant, or give a reason"


def test_reports_are_named_as_repository_and_number() -> None:
    for mutant in MUTANTS.values():
        assert len(set(mutant.reports)) == len(mutant.reports)
        for report in mutant.reports:
            assert re.fullmatch(r"[A-Za-z0-9_.-]+#\d+", report), mutant.name


@pytest.mark.network
def test_cells_tell_a_kill_from_silence_and_from_a_death() -> None:
    result = at_levels(recorded("mutant:wrong-rank"), "replay")["driven"]
    killed, passed = "KVW-RNK-003", "KVW-RNK-001"
    assert cells(frozenset({killed}), result) == {killed: "killed"}
    assert cells(frozenset({killed, passed}), result) == {passed: "silent", killed: "killed"}
    assert cells(frozenset(), result) == {killed: "unexpected"}
    troubled = msgspec.structs.replace(result, troubles=(Trouble(text="it ended"),))
    assert cells(frozenset({killed}), troubled) == {killed: "dead"}
