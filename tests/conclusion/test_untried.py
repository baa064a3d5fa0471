"""Why a sentence got no verdict: from the plan of a run and what was heard, one of a closed list, and words."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from tests.kit.stories import Story, everything

from kvwire.conclusion import result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.outcome import NOTHING
from kvwire.conclusion.untried import Why
from kvwire.judges import JUDGES
from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard import registry
from kvwire.standard.statement import Bounds, Group, Residency, Statement, Stream
from kvwire.trace.marks import Unreachable
from kvwire.trace.planned import Left, Planned
from kvwire.trace.records import StreamInfo

KNOWN = registry.load()
LIVE = Planned(name="live", serves="ENV BAT")
RESTART = "SEQ-007"
OTHERS: tuple[tuple[Literal["none", "clear"], Residency], ...] = (("none", "set"), ("clear", "counted"))
"""Values that do without a sentence each."""


def outcome(name: str, story: Story, *plan: Planned, mode: str = "plain") -> result.Outcome:
    trace = story.trace()
    trace = msgspec.structs.replace(trace, header=msgspec.structs.replace(trace.header, plan=plan, mode=mode))
    outcomes = conclude(trace, KNOWN, everything()).outcomes
    return next(one for one in outcomes if one.requirement == f"KVW-{name}")


@pytest.mark.parametrize(
    ("left", "mode", "says"),
    [
        (Left.MODE, "quick", "left out by --quick: probe restart"),
        (Left.MODE, "plain", "left out by a run without --thorough: probe restart"),
        (Left.ONLY, "plain", "left out by --only: probe restart"),
        (Left.TIME, "plain", "no time was left for probe restart"),
        (Left.FULL, "plain", "the trace was full before the end of probe restart"),
        (Left.INTERRUPTED, "plain", "interrupted before the end of probe restart"),
        (Left.ENDED, "plain", "the target had ended, or failed, before the end of probe restart"),
        (Left.REFUSED, "plain", "probe restart was refused: not now"),
        (Left.VERB, "plain", "probe restart would need `restart`"),
        (Left.REPLAY, "plain", "there is no replay socket for probe restart"),
        (Left.DECLARATION, "plain", "no `bounds.heartbeat_s` is declared, for which probe restart could wait"),
    ],
)
def test_a_probe_that_was_left_is_why_its_sentence_is_open(left: Left, mode: str, says: str) -> None:
    probe = Planned(name="restart", serves=RESTART, left=left, lacks=("restart",), said="not now")
    found = outcome(RESTART, Story().told(2), LIVE, probe, mode=mode)
    assert (found.verdict, found.why) == (Verdict.INCONCLUSIVE, Why(left))
    assert found.reason == f"{NOTHING}: {says}"


def test_every_reason_of_a_probe_is_one_of_a_sentence() -> None:
    assert [left.value for left in Left] == [why.value for why in Why][: len(Left)]


def test_what_was_tried_and_not_shown_says_so() -> None:
    probe = Planned(name="restart", serves=RESTART)
    found = outcome(RESTART, Story().told(2), LIVE, probe)
    assert (found.why, found.reason) == (Why.NOT_SHOWN, NOTHING)


def test_a_probe_that_could_not_be_matters_less_than_one_that_was() -> None:
    probes = (Planned(name="restart", serves="SEQ"), Planned(name="again", serves=RESTART, left=Left.VERB))
    assert outcome(RESTART, Story().told(2), *probes).why is Why.NOT_SHOWN
    probes = (Planned(name="restart", serves="SEQ"), Planned(name="again", serves=RESTART, left=Left.TIME))
    assert outcome(RESTART, Story().told(2), *probes).why is Why.TIME


def test_a_trace_without_a_plan_says_what_it_said() -> None:
    found = outcome(RESTART, Story().told(2))
    assert (found.why, found.reason) == (Why.NOT_SHOWN, NOTHING)


def test_an_occasion_that_could_not_be_decided_keeps_its_words() -> None:
    story = Story().told(2)
    story.offer()
    found = outcome("SEQ-009", story, Planned(name="live", serves="SEQ-009", left=Left.TIME))
    assert (found.verdict, found.why) == (Verdict.INCONCLUSIVE, Why.UNDECIDED)
    assert found.reason.startswith("an accepted batch was not seen")


def test_a_silent_stream_is_silent_for_what_was_tried_on_it() -> None:
    story = Story()
    story.connect()
    restart = Planned(name="restart", serves=RESTART, left=Left.MODE)
    silent = outcome("ENV-001", story, LIVE, restart)
    assert silent.why is Why.SILENT
    assert silent.reason.startswith(f"{NOTHING}: connected, and nothing came in ")
    assert outcome(RESTART, story, LIVE, restart).why is Why.MODE


def test_a_connection_that_was_lost_is_why_the_rest_is_open() -> None:
    story = Story().told(2)
    story.connect()
    story.disconnect()
    found = outcome("EVT-006", story, Planned(name="live", serves="EVT"))
    assert found.why is Why.LOST
    assert "not back" in found.reason


def test_a_replay_socket_that_is_not_reached_leaves_replay_open_and_nothing_else() -> None:
    story = Story().told(2)
    story.note(Unreachable(endpoint="tcp://127.0.0.1:5657", of=("replay-1",), bound_s=5.0))
    plan = (Planned(name="live", serves="EVT"), Planned(name="replay", serves="REP"))
    assert outcome("REP-003", story, *plan).why is Why.UNREACHABLE
    assert outcome("EVT-006", story, *plan).why is Why.NOT_SHOWN
    story.note(Unreachable(endpoint="tcp://127.0.0.1:5557", of=("live-a",), bound_s=5.0))
    assert outcome("EVT-006", story, *plan).why is Why.UNREACHABLE


def test_what_does_not_apply_says_why_and_what_is_lacking() -> None:
    passive = Story(can=(), replay=False).told(2)
    assert (outcome("REP-003", passive).why, outcome("REP-003", passive).lacks) == (Why.REPLAY, ["replayable"])
    assert outcome("RES-003", passive).why is Why.ADAPTER
    some = Story(can=("publish",)).told(2)
    assert (outcome("RES-006", some).why, outcome("RES-006", some).lacks) == (Why.VERB, ["cache", "reset"])
    counted = outcome("RES-004", Story().told(2))
    assert (counted.why, counted.lacks) == (Why.DECLARATION, ['residency = "counted"'])
    assert outcome("EVT-011", Story().told(2)).why is Why.UNUSED
    assert outcome("ENV-001", Story(sets=("envelope",)).told(2)).why is Why.OURS
    none = msgspec.structs.replace(everything(), ids=())
    assert {one.why for one in conclude(passive.trace(), KNOWN, none).outcomes} == {Why.PROFILE}


def test_what_would_have_to_be_declared_is_named() -> None:
    """By the field of the statement, with the field of which it is a part before a dot."""
    stream = StreamInfo(name="s", endpoint="tcp://127.0.0.1:5557")
    everywhere = [Statement(salt=salt, residency=policy, algorithm="opaque") for salt, policy in OTHERS]
    waiting = {
        name
        for name, judge in JUDGES.items()
        if any(judge.unclaimed(stream, statement) is Reason.NOT_CLAIMED for statement in everywhere)
    }
    assert waiting == {name for name, judge in JUDGES.items() if judge.declares} - {"KVW-REP-014"}
    for name in waiting:
        first, _, second = JUDGES[name].declares.split()[0].partition(".")
        parts: dict[str, type[msgspec.Struct]] = {"streams": Stream, "groups": Group, "bounds": Bounds}
        assert first in Statement.__struct_fields__
        assert not second or second in parts[first].__struct_fields__


def test_every_outcome_without_a_verdict_says_why_and_no_other() -> None:
    for story in (Story(), Story().told(3), Story(can=(), replay=False).told(2)):
        for one in conclude(story.trace(), KNOWN, everything()).outcomes:
            open_ = one.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)
            assert (one.why is not None) == open_, one.requirement
