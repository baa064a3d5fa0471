"""Which failures are one, and what had been done just before a finding."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conclusion.test_summary import told
from tests.kit.stories import Story, everything, removed, stored

from kvwire.conclusion.causes import followed
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Outcome
from kvwire.judges.verdict import Finding, Verdict, Where
from kvwire.standard import registry
from kvwire.trace.calls import CacheCall, StatsCall

BY_3, BY_4 = "removed in number 3", "removed in number 4"


def broken(requirement: str, *places: dict[str, Any], seen: str = "no", **fields: Any) -> Outcome:
    findings = [Finding(expected="yes", seen=seen, where=Where(**place)) for place in places]
    return Outcome(
        requirement=f"KVW-{requirement}",
        stream=fields.pop("stream", "s"),
        verdict=fields.pop("verdict", Verdict.FAIL),
        level="MUST",
        sentence="",
        findings=findings,
        **fields,
    )


def at(record: int, offset: int = 0, **more: str) -> dict[str, Any]:
    return {"record": record, "frame": "payload", "offset": offset, "number": str(record), **more}


def heads(*outcomes: Outcome) -> dict[str, str]:
    return {outcome.requirement[4:]: outcome.follows[4:] for outcome in followed(outcomes, lambda where: where.offset)}


@pytest.mark.parametrize(
    ("cause", "other", "follows"),
    [
        (broken("CHN-003", at(5)), broken("RES-001", at(5)), True),
        (broken("CHN-003", at(5)), broken("RES-001", at(5, 40)), False),
        (broken("CHN-003", at(5)), broken("RES-001", at(6)), False),
        (broken("CHN-003", at(5)), broken("RES-001", at(5), at(8), at(9)), False),
        (broken("CHN-003", at(5)), broken("RES-001", at(9, stored="5")), True),
        (broken("CHN-003", at(5, stored="2")), broken("RES-005", {"record": 70, "stored": "2"}), True),
        (broken("CHN-003", at(5), seen=BY_3), broken("RES-002", at(9), seen=BY_3), True),
        (broken("CHN-003", at(5), seen=BY_3), broken("RES-002", at(9), seen=BY_4), False),
        (broken("CHN-003", at(5)), broken("RES-001", at(5), stream="t"), False),
        (broken("CHN-003", at(5), expected="known"), broken("RES-001", at(5)), False),
        (broken("BAT-007", at(5), verdict=Verdict.WARN), broken("RES-001", at(5)), False),
        (broken("CHN-003", at(5)), broken("HSH-004", at(5), verdict=Verdict.WARN), True),
        (broken("END-001", {"record": 5}), broken("END-002", {"record": 5}), False),
    ],
)  # fmt: skip
def test_a_failure_follows_from_another_in_the_same_events_or_by_their_blocks(
    cause: Outcome, other: Outcome, follows: bool
) -> None:
    name = cause.requirement[4:]
    assert heads(other, cause) == {other.requirement[4:]: name if follows else "", name: ""}


def test_what_follows_from_what_follows_is_told_under_the_first() -> None:
    found = heads(broken("EVT-013", at(5)), broken("CHN-003", at(5)), broken("RES-001", at(5)))
    assert found == {"EVT-013": "", "CHN-003": "EVT-013", "RES-001": "EVT-013"}


def test_no_verdict_and_no_count_depends_on_it() -> None:
    outcomes = (
        broken("CHN-003", at(5), witnesses=9, violations=1),
        broken("RES-001", at(5), witnesses=4, violations=2),
    )
    for before, after in zip(outcomes, followed(outcomes, lambda where: where.offset), strict=True):
        assert (before.verdict, before.witnesses, before.violations) == (
            after.verdict,
            after.witnesses,
            after.violations,
        )


def test_a_finding_says_what_was_asked_of_the_publisher_just_before() -> None:
    story = Story().begin()
    story.note(CacheCall(tokens=(1, 2, 3), cached_tokens=0))
    story.note(StatsCall())
    story.send(stored("a"))
    story.send(removed("b"))
    (outcome,) = [
        one for one in conclude(told(story), registry.load(), everything()).outcomes if one.requirement == "KVW-RES-002"
    ]
    assert outcome.findings[0].where.before == "`cache` (tokens of 3, cached_tokens 0) in record 2"
