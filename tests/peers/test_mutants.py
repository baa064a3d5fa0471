"""Each mutant is heard for what it breaks, and for nothing else: live, from its stored trace, at every level."""

from __future__ import annotations

import pytest
from tests.peers.runs import at_levels, dumped, recorded, replayed, spoken

from kvwire import registry
from kvwire.judges import TABLE
from kvwire.peers.mutants import LEVELS, MUTANTS, Mutant


def profile_of(mutant: Mutant) -> str:
    return "multimodal" if mutant.peer.get("multimodal") else "replay"


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
