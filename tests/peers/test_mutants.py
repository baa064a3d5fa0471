"""Each mutant is heard for what it breaks, and for nothing else: live, from its stored trace, at every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from tests.kit.runs import at_levels, dumped, judged, recorded, replayed, spoken

from kvwire.conclusion.result import Trouble
from kvwire.peers.mutants import MUTANTS, problems
from kvwire.selftest.matrix import Cell, Row, amiss, at_last, cells, signatures
from kvwire.standard import registry
from kvwire.standard.registry import ControlLevel
from kvwire_generators.sessions import records
from kvwire_generators.sessions.plans import PREFIX, plans

SAME_SIGNATURE: dict[tuple[str, ...], str] = {}
"""Sentences that the same mutants break at the same levels, and why they are two sentences all the same."""


PLANS = {name.removeprefix(PREFIX): plan for name, plan in plans().items() if name.startswith(PREFIX)}
"""With which probes a mutant is heard in a small run."""


@pytest.mark.network
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.slow
def test_a_small_run_hears_a_mutant_for_what_it_breaks_and_for_nothing_else(name: str) -> None:
    """What is broken speaks, whatever speaks is expected, and nothing of it is lost in a trace."""
    recording = records.record(f"{PREFIX}{name}", PLANS[name]).recording
    assert MUTANTS[name].primary in spoken(judged(recording))
    assert dumped(replayed(recording)) == dumped(recording)


def test_mutants_fit_the_standard_and_every_judged_must_and_should_has_one() -> None:
    assert problems(MUTANTS.values(), registry.load()) == []


NAMED: dict[str, tuple[dict[str, object], str]] = {
    "no such sentence": ({"primary": "KVW-SEQ-999"}, "there is no KVW-SEQ-999"),
    "a sentence without a judge": ({"primary": "KVW-ENV-007"}, "KVW-ENV-007 is not judged"),
    "nobody speaks": ({"expected": {}}, "at no level does anybody speak of what it breaks"),
    "no reason": ({"reason": ""}, "reason is missing: why does anybody speak of KVW-SEQ-009?"),
    "a report twice": ({"reports": ("vllm#1", "vllm#1")}, "it names a report twice"),
    "no number": ({"reports": ("vllm",)}, "'vllm' is no report: write repository#number"),
}


@pytest.mark.parametrize(("changed", "fault"), NAMED.values(), ids=NAMED)
def test_what_does_not_fit_is_named(changed: dict[str, object], fault: str) -> None:
    name = "loses-without-a-hole"
    odd = {**MUTANTS, name: msgspec.structs.replace(MUTANTS[name], **changed)}
    said = [str(problem) for problem in problems(odd.values(), registry.load())]
    assert [s for s in said if s.endswith(f"mutant {name}: {fault}")], said
    assert all(s.startswith("conformance/kvwire/peers/frame_faults.py: ") for s in said)


def test_a_judged_sentence_that_no_mutant_breaks_is_named() -> None:
    rest = [mutant for mutant in MUTANTS.values() if mutant.primary != "KVW-ENV-001"]
    (problem,) = problems(rest, registry.load())
    assert problem.id == "KVW-ENV-001"
    assert "no mutant breaks it" in problem.message


def test_mutants_stand_in_the_order_of_areas_and_sentences() -> None:
    primary = [mutant.primary for mutant in MUTANTS.values()]
    assert primary == sorted(primary, key=lambda name: (registry.AREAS.index(name.split("-")[1]), name))


def test_no_two_judges_have_one_kill_signature() -> None:
    shared = {tuple(ids) for ids in signatures(tuple(MUTANTS.values())).values() if len(ids) > 1}
    assert shared == set(SAME_SIGNATURE), "merge the sentences, tell them apart by a mutant, or give a reason"


@pytest.mark.network
def test_cells_tell_a_kill_from_silence_and_from_a_death() -> None:
    result = at_levels(recorded("mutant:wrong-rank", mode="quick"), "replay")["driven"]
    killed, passed = "KVW-RNK-003", "KVW-RNK-001"
    assert cells(frozenset({killed}), result) == {killed: "killed"}
    assert cells(frozenset({killed, passed}), result) == {passed: "silent", killed: "killed"}
    assert cells(frozenset(), result) == {killed: "unexpected"}
    troubled = msgspec.structs.replace(result, troubles=(Trouble(text="it ended"),))
    assert cells(frozenset({killed}), troubled) == {killed: "dead"}


@pytest.mark.network
def test_what_is_said_has_to_tell_a_difference_and_to_stand_in_the_trace() -> None:
    recording = recorded("mutant:wrong-rank", mode="quick")
    told = judged(recording)
    assert amiss(recording, "KVW-RNK-003", told, "replay") == []
    (broken,) = [outcome for outcome in told.outcomes if outcome.requirement == "KVW-RNK-003"]
    first = broken.findings[0]
    vain = msgspec.structs.replace(broken, findings=(msgspec.structs.replace(first, seen=first.expected),))
    others = tuple(vain if outcome is broken else outcome for outcome in told.outcomes)
    assert amiss(recording, "KVW-RNK-003", msgspec.structs.replace(told, outcomes=others), "replay") == [
        "its stored trace is judged otherwise",
        "KVW-RNK-003 expects what it saw",
    ]


def row_of(cell: Cell, amiss: Sequence[str] = ()) -> Row:
    """A row with one cell."""
    cells: Mapping[ControlLevel, Mapping[str, Cell]] = {"driven": {"KVW-RNK-003": cell}}
    return Row(mutant="x", primary="KVW-RNK-003", cells=cells, troubles=[], amiss=list(amiss), seconds=1.0)


def test_what_is_not_exact_is_run_again_until_it_is_or_often_enough() -> None:
    told: list[Row] = []
    later = iter([row_of("killed", amiss=["its stored trace is judged otherwise"]), row_of("killed")])
    found = at_last(row_of("silent"), 5, lambda _: next(later), told.append)
    assert found.exact
    assert found.runs == 3
    assert [row.exact for row in told] == [False, True]
    assert at_last(row_of("silent"), 2, lambda _: row_of("silent"), told.append).runs == 3
    assert at_last(row_of("silent"), 0, lambda _: row_of("killed"), told.append) == row_of("silent")
    assert at_last(row_of("killed"), 2, lambda _: row_of("silent"), told.append) == row_of("killed")
