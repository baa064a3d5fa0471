"""CHN: parents."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.stories import Event, Story, block, cleared, payload, removed, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Group, Statement
from kvwire.trace.calls import CacheCall

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
WINDOW: dict[str, Any] = {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 8}


def sent(*events: Event, statement: Statement | None = None) -> Story:
    """One batch an event, known from 0."""
    story = Story(statement=statement)
    for event in events:
        story.send(event)
    return story


def speaks(story: Story) -> set[str]:
    """What of CHN is broken."""
    return {name for name in story.spoken() if name.startswith("CHN")}


def counts(story: Story) -> dict[str, int]:
    """The witnesses of each sentence that has any."""
    return {n: o.witnesses for n, o in story.outcomes().items() if n.startswith("CHN") and o.witnesses}


def windowed(names: str, parent: str | None = None, **extra: Any) -> Event:
    """A store in window group 1."""
    return stored(names, parent, group_idx=1, **WINDOW, **extra)


# --- CHN-003 ------------------------------------------------------------------------------------------------------


def test_parents_that_are_resident() -> None:
    story = sent(cleared(), stored("ab"), stored("c", "b"), stored("d", "a"), removed("c"), stored("e", "d"))
    assert counts(story) == {"CHN-003": 3, "CHN-004": 4}
    assert speaks(story) == set()


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ([stored("a")], ""),
        ([stored("ab"), removed("b")], "; it was removed in number 1"),
        ([stored("ab"), cleared()], "; the last clear was in number 1"),
        ([stored("ab", group_idx=1)], "; it is in medium GPU, group 1"),
    ],
)
def test_a_parent_that_is_not_resident(before: list[Event], why: str) -> None:
    story = sent(*before, stored("c", "b"))
    assert story.verdict("CHN-003") == (FAIL, 1), why
    number = str(len(before))
    assert story.place("CHN-003")[:3] == (number, "payload", 11)
    seen = story.outcome("CHN-003").findings[0].seen
    named = f"parent {block('b') % 2**64} of block {block('c') % 2**64}"
    assert seen == f"{named} is resident in none of its locations{why}"


def test_a_parent_of_the_life_before_the_restart() -> None:
    story = sent(cleared(), stored("ab"))
    story.restart()
    story.send(cleared())
    story.send(stored("c", "b"))
    assert speaks(story) == {"CHN-003"}


def test_a_parent_may_live_in_another_medium() -> None:
    story = sent(stored("a"), stored("a", medium="CPU"), removed("a"), stored("b", "a"), removed("a", medium="CPU"))
    assert speaks(story) == set()
    assert counts(story)["CHN-003"] == 1
    story.send(stored("c", "a", medium="CPU"))
    assert speaks(story) == {"CHN-003"}


def test_order_within_a_batch_counts() -> None:
    story = Story()
    story.send(stored("a"), stored("b", "a"), removed("ba"), stored("c", "a"))
    assert story.verdict("CHN-003") == (FAIL, 2)


def test_nothing_is_said_of_what_is_unknown() -> None:
    story = Story()
    story.next = 143
    story.send(stored("b", "a"))
    story.send(stored("c", "b"), removed("b"), stored("d", "b"))  # in GPU it is gone; elsewhere, who knows
    assert counts(story) == {"CHN-003": 1, "CHN-004": 3}
    story.drop()
    story.send(stored("e", "c"))
    assert counts(story) == {"CHN-003": 1, "CHN-004": 4}
    story.send(cleared(), stored("f", "c"))
    assert speaks(story) == {"CHN-003"}


def test_an_unreadable_event_hides_what_came_before_it_and_only_that() -> None:
    story = sent(stored("a"), {**removed("a"), "block_hashes": ["x"]}, stored("b", "a"))
    assert speaks(story) == set()
    story = Story()
    story.send(stored("b", "a"), {**removed("a"), "block_hashes": ["x"]})
    assert speaks(story) == {"CHN-003"}
    story = sent(stored("a"))
    story.send(content=b"\xc1")
    story.send(stored("b", "q"))
    assert speaks(story) == set()


# --- CHN-002 ------------------------------------------------------------------------------------------------------


def test_in_a_window_group_it_is_enough_that_the_parent_was_stored() -> None:
    story = sent(windowed("ab"), removed("a", group_idx=1), windowed("c", "a"), windowed("d", "c"))
    assert counts(story) == {"CHN-002": 2, "CHN-004": 3}


def test_a_window_parent_that_was_never_stored_or_is_cleared() -> None:
    story = sent(windowed("a"), windowed("d", "q"))
    assert speaks(story) == {"CHN-002"}
    assert story.outcome("CHN-002").findings[0].expected == "a parent that was stored in group 1 since the last clear"
    assert speaks(sent(windowed("a"), cleared(), windowed("b", "a"))) == {"CHN-002"}


def test_a_window_group_of_which_something_was_missed() -> None:
    story = Story()
    story.next = 7
    story.send(windowed("b", "a"))
    assert counts(story) == {"CHN-004": 1}
    story.send(cleared(), windowed("a"))
    story.drop()
    story.send(windowed("b", "a"), windowed("c", "b"))
    assert counts(story) == {"CHN-002": 1, "CHN-004": 3}


def test_a_memory_that_was_exceeded_says_so() -> None:
    statement = Statement(window_memory=2, groups=(Group(idx=1, kind="sliding_window", window=8),))
    story = sent(windowed("abc"), windowed("d", "a"), windowed("e", "d"), statement=statement)
    outcome = story.outcome("CHN-002")
    assert (outcome.verdict, outcome.witnesses) == (PASS, 1)
    assert outcome.notes == ["the memory for window groups was exceeded: what was forgotten is not judged"]


@pytest.mark.parametrize(
    "group",
    [
        Group(idx=1, window=8),
        Group(idx=1, kind="chunked_local_attention"),
        Group(idx=1, kind="sliding_window_mla"),
        Group(idx=1, kind="sliding_window", window=8),
    ],
)
def test_a_group_is_a_window_group_by_declaration_too(group: Group) -> None:
    statement = Statement(groups=(group,))
    story = sent(stored("a", group_idx=1), stored("b", "q", group_idx=1), statement=statement)
    assert speaks(story) == {"CHN-002"}


def test_a_group_whose_window_shows_late_is_not_blamed_for_what_was_not_remembered() -> None:
    story = sent(stored("a", group_idx=1), removed("a", group_idx=1), windowed("b", "a"))
    assert speaks(story) == set()


@pytest.mark.parametrize("idx", [0, 1])
@pytest.mark.parametrize("kind", ["full", "full_attention", "mla_attention", "sink_full_attention"])
def test_kinds_that_keep_whole_prefixes(kind: str, idx: int) -> None:
    story = sent(stored("a", group_idx=idx), stored("b", "q", group_idx=idx, kv_cache_spec_kind=kind))
    assert speaks(story) == {"CHN-003"}
    story = sent(
        stored("ab", group_idx=idx, kv_cache_spec_kind=kind),
        stored("c", "b", group_idx=idx, kv_cache_spec_kind=kind),
    )
    assert counts(story) == {"CHN-003": 1, "CHN-004": 2}


@pytest.mark.parametrize("extra", [{"kv_cache_spec_kind": "mamba"}, {"kv_cache_spec_kind": "x-new"}, {}])
def test_nothing_is_concluded_about_a_group_of_unknown_kind(extra: Event) -> None:
    story = sent(stored("a", group_idx=1, **extra), stored("b", "q", group_idx=1, **extra))
    assert speaks(story) == set()
    assert counts(story) == {"CHN-004": 1}
    story.send(stored("b", "b", group_idx=1, **extra))
    assert "CHN-004" in speaks(story)


def test_what_groups_are_ends_with_a_life() -> None:
    """A release may number them otherwise: of a group above 0 without a kind nothing is known again."""
    story = sent(stored("ab", group_idx=1, kv_cache_spec_kind="full_attention"))
    story.restart()
    for event in (stored("ab", group_idx=1), removed("a", group_idx=1), stored("c", "a", group_idx=1)):
        story.send(event)
    assert counts(story).get("CHN-003") is None
    assert speaks(story) == set()


def test_a_declared_kind_holds_where_the_stores_say_nothing() -> None:
    events = stored("a", group_idx=1), stored("b", "q", group_idx=1)
    assert speaks(sent(*events, statement=Statement(groups=(Group(idx=1, kind="full"),)))) == {"CHN-003"}
    assert speaks(sent(*events, statement=Statement(groups=(Group(idx=1, kind="mamba"),)))) == set()


def test_partial_entries_need_no_resident_parent_where_they_are_declared() -> None:
    events = stored("ab", size=8), stored("h", "g", size=4)
    declared = Statement(block_size=8, extensions=("partial_entries",))
    assert speaks(sent(*events)) == {"CHN-003"}
    assert speaks(sent(*events, statement=declared)) == set()
    assert speaks(sent(stored("ab", size=8), stored("h", "g", size=8), statement=declared)) == {"CHN-003"}


def test_nor_a_stored_one_in_a_window_group() -> None:
    window = Group(idx=1, kind="sliding_window", window=8, block_size=8)
    entry = windowed("x", "nobody", size=4)
    for extensions, broken in ((("partial_entries",), set()), ((), {"CHN-002"})):
        statement = Statement(block_size=8, groups=(window,), extensions=extensions)
        assert speaks(sent(cleared(), windowed("a", size=8), entry, statement=statement)) == broken
        assert speaks(sent(cleared(), windowed("b", "nobody", size=8), statement=statement)) == {"CHN-002"}


def test_a_location_update_says_nothing_of_chains() -> None:
    update = stored("bc", size=4, medium="STORAGE", token_ids=[], block_size=0)
    declared = Statement(extensions=("location_updates",))
    story = sent(cleared(), stored("abc"), update, removed("c"), stored("d", "c"), statement=declared)
    assert speaks(story) == set()
    assert story.verdict("CHN-004") == (PASS, 2)


def test_a_clear_of_one_medium_leaves_the_parents_in_another() -> None:
    copy = stored("a", medium="CPU")
    clear = {**cleared(), "medium": "GPU"}
    assert speaks(sent(stored("a"), copy, clear, stored("b", "a"))) == set()
    assert speaks(sent(stored("a"), clear, stored("b", "a"))) == {"CHN-003"}


# --- CHN-006 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "below", "says"),
    [
        ({"lora_name": "a"}, {"lora_name": "b"}, True),
        ({"lora_name": "a", "lora_id": 1}, {"lora_name": "a", "lora_id": 2}, False),
        ({"lora_id": 1}, {"lora_id": 2}, True),
        ({"lora_id": 0}, {"lora_id": 2}, None),
        ({"scope": "0" * 16}, {"scope": "1" * 16}, True),
        ({"scope": "0" * 16, "lora_id": 1}, {"scope": "0" * 16, "lora_id": 2}, True),
        ({"lora_name": "a"}, {"lora_name": "a"}, False),
        ({"lora_name": "a"}, {}, None),
        ({}, {"lora_name": "a"}, None),
        ({"lora_name": "a"}, {"lora_id": 1}, None),
        ({"lora_name": "a"}, {"scope": "0" * 16}, None),
        ({}, {}, None),
    ],
)
def test_a_parent_of_another_scope(above: Event, below: Event, says: bool | None) -> None:
    story = sent(stored("a", **above), stored("b", "a", **below))
    outcome = story.outcome("CHN-006")
    assert (outcome.violations, outcome.witnesses) == (int(bool(says)), int(says is not None))
    if says:
        assert outcome.findings[0].where.stored == "0"


def test_a_block_that_was_stored_in_several_scopes_is_of_each() -> None:
    story = sent(stored("a", lora_id=1), removed("a"), stored("a", lora_id=2), stored("b", "a", lora_id=1))
    assert story.verdict("CHN-006") == (PASS, 1)
    story.send(stored("c", "a", lora_id=3))
    assert speaks(story) == {"CHN-006"}
    assert "stored in group 0 with lora_id 1" in story.outcome("CHN-006").findings[0].seen


@pytest.mark.parametrize("between", ["clear", "hole", "restart"])
def test_scopes_of_what_is_over_are_not_compared(between: str) -> None:
    story = sent(stored("a", lora_id=1))
    if between == "clear":
        story.send(cleared())
    elif between == "hole":
        story.drop()
    else:
        story.restart()
    story.send(stored("b", "a", lora_id=2))
    assert "CHN-006" not in speaks(story)


def test_without_window_groups_the_sentence_does_not_apply() -> None:
    outcome = sent(stored("a")).outcome("CHN-002")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_CLAIMED)


# --- CHN-004 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "name"),
    [
        ([{**stored("a"), "parent_block_hash": block("a")}], "a"),  # its own parent
        ([stored("aba")], "a"),  # twice in one event
        ([stored("ab"), stored("ca", "b")], "a"),  # below itself
        ([stored("b", "a"), stored("a", "b")], "a"),  # named before it was stored
    ],
)
def test_a_hash_twice_in_a_chain(events: list[Event], name: str) -> None:
    story = Story()
    story.next = 9  # residency is unknown, so that nothing else speaks
    for event in events:
        story.send(event)
    assert {"CHN-004"} <= speaks(story) <= {"CHN-004", "CHN-003"}
    assert story.outcome("CHN-004").findings[0].seen == f"hash {block(name) % 2**64} is its own ancestor"


def test_equal_hashes_are_equal_mod_2_to_the_64() -> None:
    story = sent({**stored("a"), "parent_block_hash": block("a") % 2**64})
    assert "CHN-004" in speaks(story)


def test_a_block_that_comes_back_under_its_parent_is_no_circle() -> None:
    story = sent(stored("abc"), removed("cb"), stored("b", "a"), stored("c", "b"), cleared(), stored("cba"))
    assert story.verdict("CHN-004") == (PASS, 4)


def test_what_hung_where_before_a_hole_makes_no_circle() -> None:
    """In the hole both may have been removed, and b stored as the first of its chain."""
    story = sent(stored("ab"))
    story.drop()
    story.send(stored("a", "b"))
    assert speaks(story) == set()


def test_copies_of_a_block_are_no_circle() -> None:
    story = sent(stored("ab"), stored("ab"), stored("b", "a"), statement=Statement(residency="counted"))
    assert story.verdict("CHN-004") == (PASS, 3)


def test_a_root_alone_shows_nothing() -> None:
    assert sent(stored("a")).verdict("CHN-004") == (OPEN, 0)


def test_long_chains_take_linear_time() -> None:
    """A walk for every event would look at 12 million ancestors here."""
    story = Story().begin()
    story.send(*(stored([at], at - 1 if at else None, size=1) for at in range(5_000)))
    assert story.verdict("CHN-004") == (PASS, 4_999)


# --- CHN-001 ------------------------------------------------------------------------------------------------------


def prompted(*events: Event, tokens: tuple[int, ...] = tuple(range(1, 13))) -> Story:
    """Events after a prompt of three blocks, 1…12."""
    story = Story().begin()
    story.note(CacheCall(tokens=tokens, cached_tokens=0))
    story.send(*events)
    return story


def store(name: str, parent: str | None, tokens: list[int]) -> Event:
    return {**stored(name, parent, size=len(tokens)), "token_ids": tokens}


def test_nil_at_the_start_of_a_prompt_and_a_parent_behind_it() -> None:
    story = prompted(store("a", None, [1, 2, 3, 4]), store("b", "a", [5, 6, 7, 8]), store("c", "b", [9, 10, 11, 12]))
    assert story.verdict("CHN-001") == (PASS, 3)


@pytest.mark.parametrize(
    ("event", "seen"),
    [(store("a", "q", [1, 2, 3, 4]), f"parent {block('q') % 2**64}"), (store("b", None, [5, 6, 7, 8]), "nil")],
)
def test_a_parent_at_the_start_and_nil_behind_it(event: Event, seen: str) -> None:
    story = prompted(event)
    assert "CHN-001" in speaks(story)
    assert story.outcome("CHN-001").findings[0].seen == seen
    assert story.place("CHN-001")[:2] == ("1", "payload")


@pytest.mark.parametrize("tokens", [[50, 51, 52, 53], [3, 4, 5, 6], [13, 14, 15, 16]])
def test_blocks_that_are_in_no_prompt_or_not_at_a_seam_of_it_show_nothing(tokens: list[int]) -> None:
    assert prompted(store("a", None, tokens)).verdict("CHN-001") == (OPEN, 0)


def test_a_block_that_is_both_shows_nothing() -> None:
    story = prompted(store("a", None, [1, 2, 3, 4]), tokens=(1, 2, 3, 4, 1, 2, 3, 4))
    assert story.verdict("CHN-001") == (OPEN, 0)


def test_groups_of_other_block_sizes_are_cut_by_their_own() -> None:
    story = prompted(store("a", None, [1, 2, 3, 4]), {**store("b", "a", [3, 4]), "group_idx": 1})
    assert story.outcome("CHN-001").witnesses == 2


@pytest.mark.parametrize(("size", "end", "broken"), [(1, 4, 0), (2, 4, 0), (4, 4, 1), (1, 3, 1)])
def test_a_generated_block_of_few_tokens_may_equal_the_head_of_a_prompt(size: int, end: int, broken: int) -> None:
    """Behind the end of a prompt only, which is 1…4, and that of what goes on 1…3 is not."""
    blocks = [
        store(str(at), None if at == 0 else str(at - size), [*range(at + 1, at + size + 1)])
        for at in range(0, end, size)
    ]
    story = prompted(*blocks, store("g", str(end - size), [*range(1, size + 1)]), tokens=(1, 2, 3, 4))
    assert story.outcome("CHN-001").violations == broken


def test_a_store_without_the_key_is_not_judged_for_its_value() -> None:
    event = store("b", None, [5, 6, 7, 8])
    del event["parent_block_hash"]
    assert prompted(event).verdict("CHN-001") == (OPEN, 0)


def test_who_cannot_run_prompts_is_not_asked() -> None:
    assert Story(can=("publish",)).told(2).outcome("CHN-001").reason == Reason.BEYOND


# --- what was offered ---------------------------------------------------------------------------------------------


def test_what_the_harness_offered_is_not_judged_and_what_came_of_it_is() -> None:
    story = Story(sets=("engine", "ts"))
    story.publish(stored("a"))
    story.publish(stored("c", "q"))
    assert {story.outcome(name).reason for name in ("CHN-003", "CHN-004")} == {Reason.OURS}
    ts = story.offer(stored("d", "a"))
    story.send(content=payload(stored("d", "z"), ts=ts))
    assert speaks(story) == {"CHN-003"}
