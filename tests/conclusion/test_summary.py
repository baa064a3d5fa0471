"""What a run may claim, how its sentences add up, and its exit code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.conclusion.test_notices import heard, trace
from tests.kit.stories import Story, cleared, everything, stored

from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.summary import Wanted
from kvwire.judges.verdict import Exit, Verdict
from kvwire.standard import registry
from kvwire.standard.registry import Profile
from kvwire.trace.planned import Left, Planned
from kvwire.trace.records import Trace

KNOWN = registry.load()
TIME = Planned(name="restart", serves="SEQ-007", left=Left.TIME)
LOST = [(0.0, "s", "up"), *heard(1, 2, 3), (6.0, "s", "down")]


def told(story: Story | None = None, *, interrupted: bool = False, **header: Any) -> Trace:
    made = (story or Story().told(3)).trace()
    header_ = msgspec.structs.replace(made.header, **header)
    return msgspec.structs.replace(made, header=header_, interrupted=interrupted)


def summed(made: Trace, profile: Profile | None = None, **wanted: Any) -> result.Summary:
    return conclude(made, KNOWN, profile or everything(), Wanted(**wanted)).summary


@pytest.mark.parametrize(
    ("made", "wanted", "claim", "headline", "code"),
    [
        (told(), {}, [], "conformant as far as this level shows; edition 1,", Exit.CONFORMANT),
        (told(mode="quick"), {}, ["quick"], "no claim: quick run; nothing broken was seen;", Exit.CONFORMANT),
        (told(), {"only": ("ENV",)}, ["only"], "no claim: only ENV asked for; nothing broken", Exit.CONFORMANT),
        (told(plan=(TIME,)), {}, ["cut"], "no claim: out of time before the end of restart;", Exit.INCONCLUSIVE),
        (trace(LOST), {}, ["lost"], "no claim: connection to s lost after 6 s, not back; nothing", Exit.INCONCLUSIVE),
        (trace(LOST), {"allow_inconclusive": True}, ["lost"], "no claim: connection", Exit.CONFORMANT),
        (told(interrupted=True), {}, ["interrupted"], "interrupted: what was found so far", None),
    ],
)
def test_what_is_not_whole_makes_no_claim(
    made: Trace, wanted: dict[str, Any], claim: list[str], headline: str, code: Exit | None
) -> None:
    summary = summed(made, **wanted)
    assert summary.no_claim == claim
    assert summary.headline.startswith(headline)
    assert summary.exit == code
    assert ("conformant" in summary.headline) == (not claim)


def test_what_the_profile_does_not_have_is_not_said_to_be_seen_too_little() -> None:
    headline = summed(told(), registry.profile("core"), only=("REP-008",)).headline
    assert headline.startswith("no claim: only REP-008 asked for; profile core has nothing of that (`kvwire")


def test_a_run_that_was_made_with_only_makes_no_claim_when_all_of_it_is_judged() -> None:
    left = Planned(name="restart", serves="SEQ-007", left=Left.ONLY)
    assert summed(told(plan=(left,))).headline.startswith("no claim: run with --only; nothing broken was seen;")


def test_what_is_broken_is_broken_in_a_quick_run_too() -> None:
    story = Story().told(2)
    story.send(stored("a"), stored("a"))
    summary = summed(told(story, mode="quick"))
    assert summary.headline.startswith("not conformant (RES-001)")
    assert (summary.exit, summary.no_claim) == (Exit.NOT_CONFORMANT, ["quick"])


def test_a_warning_stands_in_the_line_that_claims_nothing() -> None:
    story = Story()
    story.send(stored("a"))
    story.replay()
    summary = summed(told(story, mode="quick"))
    assert summary.headline.startswith("no claim: quick run; no MUST broken was seen, 1 warning;")


def test_a_quick_run_that_saw_too_little_is_inconclusive() -> None:
    wants = dict.fromkeys(("passive", "replayable", "driven"), ("KVW-EVT-006",))
    profile = msgspec.structs.replace(everything(), conclusive=wants)
    summary = summed(told(mode="quick"), profile)
    assert summary.headline.startswith("no claim: quick run; too little was seen;")
    assert summary.exit == Exit.INCONCLUSIVE


def test_expected_failures_do_not_make_a_lost_connection_whole() -> None:
    made = conclude(trace(LOST), KNOWN, everything())
    held = expected_failures.held(made, (), "2026-01-01", Wanted())
    assert held.summary.exit == Exit.INCONCLUSIVE
    assert expected_failures.partial(made) is not None


@pytest.mark.parametrize("profile", ["core", "replay"])
@pytest.mark.parametrize("only", [(), ("SEQ",)])
def test_the_counts_add_up(profile: str, only: tuple[str, ...]) -> None:
    """However many streams there are, and whatever the profile leaves out."""
    story = Story().told(3)
    story.send(stored("a"), stored("a"))
    for made in (told(story), trace([*heard(1, 2, name="a"), *heard(1, 2, name="b", rank=1)], names="ab")):
        summary = summed(made, registry.profile(profile), only=only)
        assert sum(summary.sentences.values()) + len(summary.not_judged) == summary.total
        assert set(summary.sentences) <= set(Verdict)


def test_of_several_streams_the_worst_counts() -> None:
    made = trace([*heard(1, 2, name="a"), (1.0, "b", "up")], names="ab")
    assert summed(made, only=("ENV-001",)).sentences == {"INCONCLUSIVE": 1}


def test_silence_is_the_headline_of_a_run_that_heard_nothing() -> None:
    wants = dict.fromkeys(("passive", "replayable", "driven"), ("KVW-ENV-001",))
    profile = msgspec.structs.replace(everything(), conclusive=wants)
    summary = summed(trace([(0.0, "s", "up")], end=3.0), profile)
    assert summary.headline.startswith("inconclusive: connected, and nothing came in 3 s; edition 1")


def test_a_finding_names_what_stands_at_its_place() -> None:
    story = Story()
    story.send(cleared(), stored("a", group_idx=3, kv_cache_spec_kind="full_attention"))
    story.send(stored("a", group_idx=3, kv_cache_spec_kind="full_attention"))
    outcomes = conclude(story.trace(), KNOWN, everything()).outcomes
    (broken,) = [one for one in outcomes if one.requirement == "KVW-RES-001"]
    said = "BlockStored of 1 hash, medium GPU, group 3, kind full_attention"
    assert broken.findings[0].where.event == said
