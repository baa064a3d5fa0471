"""From tallies to verdicts: what is not applicable and why, what is muted, and that nothing seen is nothing shown."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from tests.kit.stories import (
    T0,
    VERBS,
    Event,
    Story,
    cleared,
    everything,
    pack,
    payload,
    removed,
    stored,
)

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.judging import judge_stream
from kvwire.conclusion.outcome import outcome
from kvwire.judges import TABLE
from kvwire.judges.verdict import ORDER, Exit, Finding, Reason, Tally, Verdict, Where, aggregate, exit_code
from kvwire.standard import registry
from kvwire.standard.statement import Statement
from kvwire.trace.calls import CacheCall
from kvwire.trace.records import FORMAT, Header, StreamInfo

REGISTRY = registry.load()
STREAM = StreamInfo(name="s", endpoint="ipc://x", replay="ipc://y", topic="kv", rank=0)


def header(**fields: Any) -> Header:
    return Header(**{"trace": FORMAT, "edition": "1", "target": "t", "level": "driven", "can": VERBS, **fields})


def tallied(*, witnesses: int = 0, violations: int = 0, opened: str = "") -> Tally:
    tally = Tally()
    tally.saw(witnesses)
    for _ in range(violations):
        tally.broke(Finding(expected="e", seen="s", where=Where(record=0)))
    if opened:
        tally.open(opened)
    return tally


def verdict(name: str, tally: Tally, **fields: Any) -> tuple[Verdict, str]:
    """Verdict and reason for a tally."""
    form = fields.pop("form", "map")
    stream = fields.pop("stream", STREAM)
    profile = fields.pop("profile", everything())
    result = outcome(REGISTRY[f"KVW-{name}"], stream, tally, header(**fields), form, profile)
    return result.verdict, result.reason


# --- nothing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("can", [(), VERBS])
@pytest.mark.parametrize("replay", [False, True])
def test_a_silent_publisher_earns_no_pass_at_all(can: tuple[str, ...], replay: bool) -> None:
    outcomes = Story(can=can, replay=replay).outcomes()
    assert {outcome.verdict for outcome in outcomes.values()} <= {Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE}
    assert all(outcome.reason for outcome in outcomes.values())
    assert not any(outcome.witnesses for outcome in outcomes.values())


def test_nor_does_one_that_only_connects_disconnects_and_is_asked() -> None:
    story = Story()
    story.connect()
    story.disconnect()
    story.note(CacheCall(tokens=(1, 2, 3, 4), cached_tokens=0))
    story.offer(stored("a"), accepted=False)
    story.done(story.ask(), "disconnected")
    assert Verdict.PASS not in {outcome.verdict for outcome in story.outcomes().values()}


def test_every_judged_sentence_of_a_publisher_has_an_outcome_and_no_other() -> None:
    story = Story().told(2)
    names = [outcome.requirement for outcome in story.judged().outcomes]
    assert names == [r.id for r in REGISTRY.binding("publisher") if r.id in TABLE]
    assert set(TABLE) <= {r.id for r in REGISTRY.requirements}


# --- from a tally to a verdict ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tally", "wanted"),
    [
        ("ENV-001", tallied(witnesses=3), Verdict.PASS),
        ("ENV-001", tallied(), Verdict.INCONCLUSIVE),
        ("ENV-001", tallied(witnesses=3, opened="why"), Verdict.INCONCLUSIVE),
        ("ENV-001", tallied(witnesses=3, opened="why", violations=1), Verdict.FAIL),
        ("SEQ-003", tallied(violations=1), Verdict.FAIL),  # MUST NOT
        ("EVT-008", tallied(violations=1), Verdict.WARN),  # SHOULD
        ("EVT-009", tallied(violations=1), Verdict.WARN),  # SHOULD NOT
        ("EVT-011", tallied(witnesses=1), Verdict.PASS),  # MAY, used
        ("EVT-011", tallied(), Verdict.NOT_APPLICABLE),  # MAY, not used
    ],
)
def test_severity_comes_from_the_key_word(name: str, tally: Tally, wanted: Verdict) -> None:
    assert verdict(name, tally)[0] is wanted


def test_an_open_question_gives_its_reason() -> None:
    assert verdict("ENV-001", tallied(opened="why")) == (Verdict.INCONCLUSIVE, "why")


def test_a_tally_counts_everything_and_keeps_a_few_examples() -> None:
    tally = tallied(witnesses=5, violations=100)
    for at in range(20):
        tally.note(f"note {at % 9}")
    assert (tally.witnesses, tally.violations, len(tally.findings), len(tally.notes)) == (105, 100, 3, 6)


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("RES-003", {"can": ()}, Reason.BEYOND),
        ("RES-006", {"can": ("cache",)}, Reason.BEYOND),  # all that it needs is required
        ("REP-003", {"stream": StreamInfo(name="s", endpoint="ipc://x")}, Reason.BEYOND),
        ("EVT-009", {"sets": ("engine", "ts")}, Reason.OURS),
        ("BAT-003", {"sets": ("engine", "ts")}, Reason.OURS),
        ("RNK-001", {"sets": ("rank",)}, Reason.OURS),
        ("EVT-005", {"form": "array-v"}, Reason.LEGACY),
        ("EVT-003", {"form": "array"}, Reason.LEGACY),
        ("EVT-011", {}, Reason.NOT_USED),
        ("HSH-003", {}, Reason.NOT_USED),
        ("ENV-003", {"stream": StreamInfo(name="s", endpoint="ipc://x")}, Reason.NOT_CLAIMED),
        ("RNK-003", {"stream": StreamInfo(name="s", endpoint="ipc://x")}, Reason.NOT_CLAIMED),
        ("RES-004", {}, Reason.NOT_CLAIMED),
        ("RES-001", {"statement": Statement(residency="counted")}, Reason.NOT_CLAIMED),
        ("ENV-001", {"profile": msgspec.structs.replace(everything(), ids=())}, Reason.NOT_CLAIMED),
    ],
)
def test_what_is_not_applicable_says_why(name: str, fields: dict[str, Any], reason: Reason) -> None:
    assert verdict(name, tallied(), **fields) == (Verdict.NOT_APPLICABLE, reason)


@pytest.mark.parametrize("name", ["ENV-001", "EVT-005"])
def test_what_the_adapter_writes_itself_is_never_the_publishers(name: str) -> None:
    sets = (REGISTRY[f"KVW-{name}"].decided_by,)
    for tally in (tallied(), tallied(witnesses=4), tallied(violations=2)):
        assert verdict(name, tally, sets=sets) == (Verdict.NOT_APPLICABLE, Reason.OURS)


def test_what_was_broken_was_broken_whatever_was_not_claimed() -> None:
    """A condition that is not declared but seen speaks all the same; a profile and a level are another matter."""
    for fields in ({"form": "array-v"}, {"sets": ("engine",)}, {"stream": msgspec.structs.replace(STREAM, rank=None)}):
        assert verdict("EVT-003", tallied(violations=1), **fields)[0] is Verdict.FAIL
    empty = msgspec.structs.replace(everything(), ids=())
    assert verdict("EVT-003", tallied(violations=1), profile=empty)[0] is Verdict.NOT_APPLICABLE
    assert verdict("RES-003", tallied(violations=1), can=())[0] is Verdict.NOT_APPLICABLE


def test_the_aggregate_is_the_worst() -> None:
    for size in (1, 2, 3):
        for verdicts in itertools.permutations(ORDER, size):
            assert aggregate(verdicts) is min(verdicts, key=ORDER.index)
    assert aggregate([]) is Verdict.NOT_APPLICABLE
    assert ORDER == (
        Verdict.FAIL,
        Verdict.ERROR,
        Verdict.INCONCLUSIVE,
        Verdict.WARN,
        Verdict.PASS,
        Verdict.NOT_APPLICABLE,
    )


def test_exit_codes() -> None:
    assert {verdict: int(exit_code(verdict)) for verdict in ORDER} == {
        Verdict.FAIL: 1,
        Verdict.ERROR: 4,
        Verdict.INCONCLUSIVE: 3,
        Verdict.WARN: 0,
        Verdict.PASS: 0,
        Verdict.NOT_APPLICABLE: 0,
    }
    assert exit_code(Verdict.WARN, strict=True) is Exit.NOT_CONFORMANT


# --- what was offered ---------------------------------------------------------------------------------------------

BAD: dict[str, Event] = {
    "EVT-009": {**removed("a"), "block_hashes": [0]},
    "EVT-013": {**stored("a"), "token_ids": [1, 2]},
    "EVT-016": removed("a", medium="gpu"),
    "CHN-003": stored("b", "q"),
    "RES-002": removed("q"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_offered_event_is_the_harnesss_and_the_same_from_the_publisher_is_not(name: str) -> None:
    story = Story(sets=("engine", "ts")).begin()
    story.publish(BAD[name])
    assert (story.outcome(name).verdict, story.outcome(name).reason) == (Verdict.NOT_APPLICABLE, Reason.OURS)
    story = Story(sets=("engine", "ts")).begin()
    story.offer(cleared())
    story.send(BAD[name])
    assert name in story.spoken()


@pytest.mark.parametrize(
    "change",
    [
        {"medium": "gpu"},
        {"block_hashes": [5]},
        {"lora_id": 7},
        {"lora_name": "x"},
        {"group_idx": 2},
        {"kv_cache_spec_kind": "sliding_window"},
        {"token_ids": [1, 2, 3, 5]},
        {"parent_block_hash": 9},
    ],
)
def test_an_event_that_is_not_what_was_offered_is_the_publishers_own(change: dict[str, Any]) -> None:
    story = Story(sets=("engine", "ts")).begin()
    offered = {**stored("a"), "token_ids": [1, 2, 3, 4]}
    ts = story.offer(offered)
    story.send(content=payload({**offered, **change}, ts=ts))
    assert story.judged().notes == ("0 events are what was offered, 2 are the publisher's own",)
    assert story.outcome("EVT-007").witnesses == 1


def test_the_encoding_of_an_offered_event_is_judged_all_the_same() -> None:
    story = Story(sets=("engine", "ts"))
    ts = story.offer(stored("a"))
    story.send(content=payload({key: value for key, value in stored("a").items() if key != "lora_name"}, ts=ts))
    assert story.spoken() == {"EVT-005": "keys block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium"}


def test_a_label_that_the_publisher_adds_does_not_make_an_event_its_own() -> None:
    story = Story(sets=("engine", "ts"))
    ts = story.offer(stored("a"))
    story.send(content=payload({**stored("a"), "hash_algo": "v1_block_key"}, ts=ts))
    assert story.judged().notes == ("1 events are what was offered, 0 are the publisher's own",)


# --- streams ------------------------------------------------------------------------------------------------------


def test_records_of_another_stream_are_not_this_ones_and_those_of_none_are_everybodys() -> None:
    story = Story().told(3)
    before = story.verdict("ENV-001")
    other = Story(stream="other")
    other.frames(b"", by="a")
    story.records += other.records
    story.records.append(msgspec.structs.replace(other.records[0], stream=""))
    assert story.verdict("ENV-001") == (Verdict.FAIL, before[1] + 1)


def test_the_level_is_that_of_the_stream() -> None:
    story = Story().told(2)
    whole = story.trace()
    bare = StreamInfo(name="bare", endpoint="ipc://z")
    whole = msgspec.structs.replace(whole, header=msgspec.structs.replace(whole.header, streams=(story.info, bare)))
    outcomes = judge_stream(whole, bare, REGISTRY, everything()).outcomes
    assert {o.reason for o in outcomes if o.requirement == "KVW-REP-003"} == {Reason.BEYOND}


def test_only_what_was_asked_for() -> None:
    story = Story().told(2)
    only = frozenset({"KVW-ENV-001", "KVW-BAT-001"})
    outcomes = judge_stream(story.trace(), story.info, REGISTRY, everything(), only).outcomes
    assert [outcome.requirement for outcome in outcomes] == ["KVW-ENV-001", "KVW-BAT-001"]


@pytest.mark.parametrize(
    ("events", "form"),
    [
        ([], "none"),
        ([cleared()], "map"),
        ([["AllBlocksCleared"]], "array"),
        ([["BlockRemoved", [5], "GPU", 0]], "array-v"),
        ([["AllBlocksCleared"], cleared()], "mixed"),
    ],
)
def test_the_form_of_a_stream(events: list[Any], form: str) -> None:
    story = Story()
    story.send(content=pack([T0, events, 0]))
    story.send()
    assert story.judged().form == form


ARRAYS: dict[str, Any] = {
    "array-v": ["BlockStored", [5], None, [1, 2, 3, 4], 4, None, "GPU", "adapter"],
    "array-s": ["BlockStored", [5], None, [1, 2, 3, 4], 4, None, "GPU", {"cache_salt": "t"}],
    "map": stored("a"),
}


@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("profile", ["legacy-array-v", "legacy-array-s"])
def test_a_legacy_profile_is_of_streams_in_its_form(profile: str, form: str) -> None:
    story = Story()
    story.send(ARRAYS[form])
    result = conclude(story.trace(), REGISTRY, registry.profile(profile))
    (outcome,) = (o for o in result.outcomes if o.requirement == "KVW-EVT-037")
    assert outcome.verdict == ("PASS" if profile.endswith(form) else "FAIL")
    if form == "map":
        assert result.summary.headline.startswith("not conformant (EVT-037)")


@pytest.mark.parametrize("profile", ["legacy-array-v", "core"])
def test_the_headline_says_why_arrays_do_not_conform(profile: str) -> None:
    """Under a legacy profile too, which leaves out the sentence that they break, so that it can be satisfied."""
    story = Story()
    story.send(content=pack([T0, [["AllBlocksCleared"], ["BlockRemoved", [], "GPU", None]], 0]))
    summary = conclude(story.trace(), REGISTRY, registry.profile(profile)).summary
    assert summary.headline == "legacy array-v; edition 1: not conformant (EVT-001)"


def test_groups_of_whose_chains_nothing_is_concluded_are_named() -> None:
    story = Story().begin()
    story.send(*(stored(f"a{at}", group_idx=at, kv_cache_spec_kind="mamba") for at in (1, 2)))
    story.send(stored("b", kv_cache_spec_kind="full_attention"), stored("c", kv_cache_spec_kind="Full Attention"))
    assert story.judged().notes == (
        "nothing is concluded about the chains of group 0, of the kind 'Full Attention'",
        "nothing is concluded about the chains of groups 1, 2, of the kind 'mamba'",
    )


def test_events_are_counted_by_type() -> None:
    story = Story()
    story.send(cleared(), stored("a"), stored("b"), {"type": "BlockMoved"}, 7)  # type: ignore[arg-type]
    assert story.judged().events == {"(untagged)": 1, "AllBlocksCleared": 1, "BlockMoved": 1, "BlockStored": 2}


def test_verdicts_are_a_function_of_the_trace() -> None:
    def told() -> bytes:
        story = Story().told(5)
        story.replay()
        story.restart()
        story.told(3)
        return msgspec.json.encode(story.judged().outcomes)

    assert told() == told()
