"""EVT: the map, its keys, and what each of them holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.stories import T0, TOPIC, Event, Story, block, cleared, number_frame, pack, payload, removed, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.protocol import EngineGroup
from kvwire.standard.statement import Group, Statement
from kvwire.trace.calls import StartCall

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE


def sent(*events: Any, statement: Statement | None = None) -> Story:
    """One batch of these events."""
    story = Story(statement=statement)
    story.send(*events)
    return story


def speaks(story: Story) -> set[str]:
    """What of EVT is broken."""
    return {name for name in story.spoken() if name.startswith("EVT")}


def without(event: Event, key: str) -> Event:
    return {name: value for name, value in event.items() if name != key}


def spliced(event: Event, old: bytes, new: bytes) -> Story:
    """A batch whose bytes were changed in one place."""
    content = payload(event)
    assert content.count(old) == 1
    story = Story()
    story.send(content=content.replace(old, new))
    return story


def key(name: str) -> bytes:
    """A key as it stands on the wire."""
    return pack(name)


def test_an_honest_stream_shows_each_sentence_as_often_as_it_could_have_broken_it() -> None:
    story = sent(cleared(), stored([1, 2], size=4), removed([2]), stored([4], parent=1))
    outcomes = story.outcomes()
    counted = {n: outcomes[n].witnesses for n in outcomes if n.startswith("EVT") and outcomes[n].verdict is PASS}
    top_bit = sum(any(block(n) < 0 for n in names) for names in ([1, 2], [2], [4, 1]))
    assert counted == {
        "EVT-001": 4,
        "EVT-002": 4,
        "EVT-003": 4,
        "EVT-004": 4,
        "EVT-005": 2,
        "EVT-006": 1,
        "EVT-007": 3,
        "EVT-008": top_bit,
        "EVT-009": 3,
        "EVT-010": 2,
        "EVT-013": 2,
        "EVT-014": 2,
        "EVT-015": 3,
        "EVT-016": 3,
        "EVT-017": 1,
        "EVT-021": 2,
    }
    assert {n: outcomes[n].reason for n in outcomes if n.startswith("EVT") and n not in counted} == {
        "EVT-011": Reason.NOT_USED,
        "EVT-012": outcomes["EVT-012"].reason,
        "EVT-018": Reason.NOT_USED,
        "EVT-019": outcomes["EVT-019"].reason,
        "EVT-028": Reason.NOT_CLAIMED,
        "EVT-029": Reason.NOT_USED,
        "EVT-030": Reason.NOT_USED,
        "EVT-031": Reason.NOT_USED,
        "EVT-032": Reason.NOT_USED,
        "EVT-033": Reason.NOT_USED,
        "EVT-034": Reason.NOT_USED,
        "EVT-036": Reason.NOT_CLAIMED,
        "EVT-037": Reason.NOT_CLAIMED,
        "EVT-038": Reason.NOT_USED,
    }


@pytest.mark.parametrize("event", [["AllBlocksCleared"], pack(cleared()), 7, None, {"kind": "x"}, {"type": 3}])
def test_an_event_that_is_no_tagged_map(event: Any) -> None:
    story = sent(event)
    assert speaks(story) == {"EVT-001"}
    assert story.place("EVT-001")[:3] == ("0", "payload", 11)
    assert "EVT-034" not in story.witnessed()


def test_an_event_of_an_unknown_type_is_an_event() -> None:
    story = sent({"type": "BlockTransferred", "block_hashes": [1]})
    assert story.verdict("EVT-001") == (PASS, 1)
    assert story.verdict("EVT-007") == (OPEN, 0)
    assert story.judged().notes == ("event types that edition 1 does not know: BlockTransferred",)


def test_a_key_that_is_bytes_or_a_number() -> None:
    for changed in (b"\xc4\x06medium", b"\x05"):
        story = spliced(removed("a"), key("medium"), changed)
        assert speaks(story) == {"EVT-002", "EVT-006"}  # and so the key `medium` is missing
        assert story.outcome("EVT-002").findings[0].where.hex == story.place("EVT-002")[3]


def test_a_key_inside_a_value_counts_too() -> None:
    story = sent({**removed("a"), "x": [{"y": {1: 2}}]})
    assert speaks(story) == {"EVT-002"}
    story = spliced({**removed("a"), "x": {"y": 1, "z": 2}}, key("z"), key("y"))
    assert speaks(story) == {"EVT-003"}
    assert story.outcome("EVT-003").findings[0].seen == "'y' a second time"


def test_a_key_twice_is_found_at_its_second_place() -> None:
    story = spliced({**cleared(), "typf": "AllBlocksCleared"}, key("typf"), key("type"))
    assert speaks(story) == {"EVT-003"}
    content = payload({**cleared(), "typf": "AllBlocksCleared"})
    assert story.place("EVT-003")[2] == content.index(key("typf"))


def test_an_ext_type_in_an_untyped_place_and_outside_events() -> None:
    story = spliced({**removed("a"), "x": 9}, key("x") + b"\x09", key("x") + b"\xd4\x05\xaa")
    assert speaks(story) == {"EVT-004"}
    assert story.outcome("EVT-004").findings[0].seen == "ext type 5 of 1 bytes"
    story = Story()
    story.send(content=b"\x93\xd6\xff\x00\x00\x00\x00\x90\x00")
    assert set(story.spoken()) == {"BAT-002", "EVT-004"}
    assert story.place("EVT-004")[:3] == ("0", "payload", 1)
    story = Story()
    story.send(content=pack([1, [], 0]))
    assert set(story.spoken()) == {"BAT-002"}


@pytest.mark.parametrize(
    ("name", "silent"),
    [
        ("block_hashes", {"EVT-007", "EVT-008", "EVT-009", "EVT-013"}),
        ("parent_block_hash", set()),
        ("token_ids", {"EVT-010", "EVT-013"}),
        ("block_size", {"EVT-013", "EVT-014"}),
        ("lora_id", set()),
        ("medium", {"EVT-015", "EVT-016"}),
        ("lora_name", set()),
    ],
)
def test_a_store_lacks_a_key(name: str, silent: set[str]) -> None:
    story = sent(without(stored("a"), name))
    assert {n for n in sent(stored("a")).witnessed() - story.witnessed() if n.startswith("EVT")} == silent
    assert speaks(story) == {"EVT-005"}
    assert story.outcome("EVT-005").findings[0].expected == f"the key `{name}`"
    assert story.place("EVT-005")[:3] == ("0", "payload", 11)


@pytest.mark.parametrize("name", ["block_hashes", "medium"])
def test_a_removal_lacks_a_key(name: str) -> None:
    assert speaks(sent(without(removed("a"), name))) == {"EVT-006"}


@pytest.mark.parametrize(
    "event",
    [
        {**stored("a"), "block_hashes": [b"\x01" * 32]},
        {**stored("a"), "block_hashes": 7},
        {**stored("a"), "parent_block_hash": "7"},
        {**stored("a"), "block_hashes": [1.0]},
        {**removed("a"), "block_hashes": None},
    ],
)
def test_a_hash_that_is_no_integer(event: Event) -> None:
    story = sent(event)
    assert speaks(story) == {"EVT-007"}
    assert not {"EVT-008", "EVT-009"} & story.witnessed()
    assert "EVT-009" not in sent({**removed("a"), "block_hashes": []}).witnessed()


def test_an_unsigned_hash_is_a_warning_and_a_small_one_shows_no_sign() -> None:
    story = sent({**removed("a"), "block_hashes": [5, 2**63, 2**64 - 1]})
    assert (story.outcome("EVT-008").verdict, story.outcome("EVT-008").violations) == (WARN, 1)
    assert story.outcome("EVT-008").findings[0].expected == f"a block hash in signed form, {-(2**63)}"
    assert story.place("EVT-008")[3] == (b"\xcf\x80" + bytes(7) + b"\xcf" + b"\xff" * 8 + b"\xa6medium")[:24].hex()
    assert sent({**removed("a"), "block_hashes": [5]}).verdict("EVT-008") == (OPEN, 0)
    assert sent({**removed("a"), "block_hashes": [-5]}).verdict("EVT-008") == (PASS, 1)


def test_hash_0_as_block_or_parent_is_a_warning() -> None:
    assert speaks(sent({**removed("a"), "block_hashes": [0]})) == {"EVT-009"}
    assert speaks(sent({**stored("a"), "parent_block_hash": 0})) == {"EVT-009"}


@pytest.mark.parametrize("token", [-1, 2**32, 1.0, "12", [3, 4], None])
def test_a_token_that_is_none(token: Any) -> None:
    story = sent({**stored("a"), "token_ids": [1, 2, token, 4]})
    assert speaks(story) == {"EVT-010"}
    assert story.outcome("EVT-013").witnesses == 0


def test_tokens_that_are_no_array() -> None:
    assert speaks(sent({**stored("a"), "token_ids": None})) == {"EVT-010"}


def test_the_token_range_of_four_byte_tokens() -> None:
    event = {**stored("a"), "token_ids": [1, 2, 3, 2**31]}
    assert speaks(sent(event)) == set()
    assert speaks(sent(event, statement=Statement(algorithm="v2_sha256_64/u32"))) == {"EVT-010"}
    assert "EVT-010" not in sent(stored("a"), statement=Statement(algorithm="v2_sha256_64/u32")).spoken()
    assert speaks(sent({**event, "hash_algo": "v2_sha256_64/u32"})) == {"EVT-010"}
    assert speaks(sent(event, statement=Statement(algorithm="v1_block_key"))) == set()


@pytest.mark.parametrize(
    ("event", "broken"),
    [
        ({**stored("ab"), "token_ids": [1, 2, 3, 4, 5, 6, 7]}, {"EVT-013"}),
        ({**stored("a"), "block_hashes": [], "token_ids": []}, {"EVT-013"}),
        ({**stored("a"), "token_ids": []}, {"EVT-013"}),
        ({**stored("a"), "block_size": 0, "token_ids": []}, {"EVT-013", "EVT-014"}),
        ({**stored("a"), "block_size": None}, {"EVT-014"}),
        ({**stored("a"), "block_size": None, "token_ids": None}, {"EVT-010", "EVT-014"}),
        ({**stored("a"), "block_size": -4}, {"EVT-014"}),
    ],
)
def test_blocks_that_are_not_full(event: Event, broken: set[str]) -> None:
    assert speaks(sent(event)) == broken


def test_a_block_size_that_changes_within_a_group() -> None:
    story = sent(stored("a", size=4), stored("b", size=8, group_idx=1))
    assert speaks(story) == set()
    story.send(stored("c", size=2))
    assert story.verdict("EVT-014") == (FAIL, 3)
    assert story.outcome("EVT-014").findings[0].expected == "block_size 4, as in number 0"


def test_the_declared_block_size_holds_for_each_group() -> None:
    statement = Statement(block_size=4, groups=(Group(idx=1, block_size=8),))
    story = sent(stored("a", size=4), stored("b", size=8, group_idx=1), stored("c", size=4, group_idx=2))
    assert story.verdict("EVT-014") == (PASS, 3)
    story = sent(stored("a", size=4), stored("b", size=4, group_idx=1), statement=statement)
    assert story.verdict("EVT-014") == (FAIL, 2)
    assert story.outcome("EVT-014").findings[0].expected == "block_size 8, as declared"
    assert sent(stored("a", size=4), stored("b", size=8, group_idx=1), statement=statement).verdict("EVT-014") == (
        PASS,
        2,
    )


def test_a_group_that_is_not_declared_has_the_size_of_its_stores() -> None:
    story = sent(stored("a", size=4), stored("b", size=8, group_idx=1), statement=Statement(block_size=4))
    assert story.verdict("EVT-014") == (PASS, 2)
    story.send(stored("c", size=4, group_idx=1))
    assert story.outcome("EVT-014").findings[0].expected == "block_size 8, as in number 0"
    assert sent(stored("a", size=8), statement=Statement(block_size=4)).verdict("EVT-014") == (FAIL, 1)


def location(names: str, medium: str | None = "STORAGE", **extra: Any) -> Event:
    """A location update."""
    return {**stored(names, medium=medium), "token_ids": [], "block_size": 0, **extra}


UPDATES = Statement(extensions=("location_updates",))


def test_a_declared_location_update_is_no_block() -> None:
    story = sent(stored("ab"), location("ab"), location("xyx", "x-pool"), statement=UPDATES)
    assert story.verdict("EVT-032") == (PASS, 2)
    assert story.verdict("EVT-013") == (PASS, 1)
    assert story.verdict("EVT-014") == (PASS, 1)
    assert {name for name in story.spoken() if name[:3] in ("EVT", "CHN", "HSH")} == set()


def test_an_undeclared_location_update_is_a_store_without_tokens() -> None:
    story = sent(location("ab"))
    assert speaks(story) == {"EVT-013", "EVT-014"}
    assert story.outcome("EVT-032").reason == Reason.NOT_USED


@pytest.mark.parametrize(
    "event",
    [
        location("a", "GPU"),
        location("a", None),
        location("a", parent_block_hash=5),
        location("a", block_size=4),
        location("a", token_ids=[1, 2, 3]),
        location("a", block_hashes=[]),
    ],
)
def test_what_has_another_form_is_no_location_update(event: Event) -> None:
    story = sent(event, statement=UPDATES)
    assert speaks(story) & {"EVT-013", "EVT-014"}
    assert story.verdict("EVT-032") == (OPEN, 0) or story.outcome("EVT-032").reason == Reason.NOT_USED


ENTRIES = ("partial_entries",)


def test_a_declared_partial_entry_is_below_the_size_of_its_group_and_under_any_parent() -> None:
    statement = Statement(block_size=8, extensions=ENTRIES)
    story = Story(statement=statement).begin()
    story.send(stored("ab", size=8), stored("c", "nobody", size=2))
    assert story.verdict("EVT-033") == (PASS, 1)
    assert story.verdict("EVT-014") == (PASS, 1)
    assert {name for name in story.spoken() if name[:3] in ("EVT", "CHN")} == set()


@pytest.mark.parametrize(
    ("event", "extensions", "broken"),
    [
        (stored("c", "nobody", size=2), (), {"EVT-014", "CHN-003"}),
        (stored("cd", "nobody", size=2), ENTRIES, {"EVT-014", "CHN-003"}),
        (stored("c", "nobody", size=16), ENTRIES, {"EVT-014", "CHN-003"}),
        (stored("c", "nobody", size=8), ENTRIES, {"CHN-003"}),
    ],
)
def test_what_is_no_partial_entry(event: Event, extensions: tuple[str, ...], broken: set[str]) -> None:
    story = Story(statement=Statement(block_size=8, extensions=extensions)).begin()
    story.send(stored("ab", size=8), event)
    assert {name for name in story.spoken() if name[:3] in ("EVT", "CHN")} == broken


def test_a_single_block_can_be_a_partial_entry_until_the_size_of_the_group_is_known() -> None:
    story = Story(statement=Statement(extensions=ENTRIES)).begin()
    story.send(stored("c", "nobody", size=2), stored("ab", size=8), stored("d", "nobody", size=4))
    assert {name for name in story.spoken() if name[:3] in ("EVT", "CHN")} == set()
    assert story.verdict("EVT-033") == (PASS, 1)
    story.send(stored("ef", size=4))
    assert story.verdict("EVT-014") == (FAIL, 2)


@pytest.mark.parametrize("begins", [Story.restart, Story.disconnect])
def test_a_new_life_may_have_larger_partial_entries(begins: Callable[[Story], None]) -> None:
    """That of a life before says nothing of the size of its blocks; a disconnect may begin one."""
    story = Story(statement=Statement(extensions=ENTRIES)).begin()
    story.send(stored("ab", size=8))
    begins(story)
    story.send(cleared(), stored("c", "nobody", size=12), stored("ef", size=16))
    assert {name for name in story.spoken() if name[:3] in ("EVT", "CHN")} == set()


@pytest.mark.parametrize("extra", [None, [None, None], [[], ["adapter", ["img", 0]]], [[b"x"], None]])
def test_extra_keys_that_are_fine(extra: Any) -> None:
    assert sent(stored("ab", extra_keys=extra)).verdict("EVT-029") == (PASS, 1)


@pytest.mark.parametrize("extra", [["x", "x"], [["x"]], [[], [], []], "x", 7, {}, [[], 3], [{"type": "salt"}, None]])
def test_extra_keys_of_another_shape(extra: Any) -> None:
    assert speaks(sent(stored("ab", extra_keys=extra))) == {"EVT-029"}


def test_an_unknown_type_stands_alone() -> None:
    unknown = {"type": "BlockUpdated", "x": 1}
    assert sent(unknown, unknown).verdict("EVT-034") == (PASS, 2)
    for other in (stored("a"), {"type": "BlockTransferred"}):
        story = sent(other, unknown)
        assert story.outcome("EVT-034").verdict is WARN
    assert sent(stored("a"), removed("a"), cleared()).outcome("EVT-034").reason == Reason.NOT_USED


FULL = (Group(idx=0, kind="full_attention"), Group(idx=1, kind="sliding_window", window=8), Group(idx=2, window=4))


@pytest.mark.parametrize(
    ("group", "kind", "window", "fine"),
    [
        (0, "full_attention", None, True),
        (0, "mla_attention", None, False),
        (0, "full_attention", 8, False),
        (1, "sliding_window", 8, True),
        (1, "sliding_window", None, False),
        (1, "sliding_window", 16, False),
        (1, None, 8, False),
        (2, "chunked_local_attention", 4, True),
        (2, None, 4, True),
        (2, "sliding_window", None, False),
    ],
)
def test_kind_and_window_are_the_declared_ones(group: int, kind: str | None, window: int | None, fine: bool) -> None:
    event = stored("a", group_idx=group, kv_cache_spec_kind=kind, kv_cache_spec_sliding_window=window)
    outcome = sent(event, statement=Statement(groups=FULL)).outcome("EVT-036")
    assert (outcome.verdict, outcome.witnesses) == (PASS if fine else FAIL, 1)


def test_a_group_has_one_kind_and_window_in_a_life() -> None:
    whole: dict[str, Any] = {"kv_cache_spec_kind": "full_attention"}
    window: dict[str, Any] = {"kv_cache_spec_sliding_window": 8}
    story = sent(stored("a", **whole), stored("b", group_idx=1, **window), stored("c"))
    assert story.outcome("EVT-036").reason == Reason.NOT_CLAIMED
    story.send(stored("d", **whole), stored("e", group_idx=1, **window))
    assert story.verdict("EVT-036") == (PASS, 2)
    story.send(stored("f", kv_cache_spec_kind="mamba"), stored("g", group_idx=1, kv_cache_spec_sliding_window=16))
    assert (story.outcome("EVT-036").verdict, story.outcome("EVT-036").violations) == (FAIL, 2)
    assert story.outcome("EVT-036").findings[0].expected == (
        "the kind 'full_attention', no window in group 0, as in number 0"
    )
    story = sent(stored("a", **whole))
    story.restart()
    story.begin().send(stored("a", **window))
    assert "EVT-036" not in story.spoken()


def test_a_store_that_names_no_kind_and_a_group_that_is_not_declared_are_no_occasion() -> None:
    story = sent(stored("a", group_idx=1), stored("b", group_idx=7, kv_cache_spec_kind="mamba"))
    assert story.outcome("EVT-036").reason == Reason.NOT_CLAIMED
    told = sent(stored("a", group_idx=1), statement=Statement(groups=FULL))
    assert told.verdict("EVT-036") == (OPEN, 0)


@pytest.mark.parametrize("asked", [False, True])
def test_groups_that_the_harness_asked_for_are_no_declaration(asked: bool) -> None:
    """An adapter that takes `groups` and does not hand them on is not the publisher."""
    story = Story(statement=Statement(groups=(Group(kind="sliding_window", window=8, block_size=8),)))
    if asked:
        story.note(StartCall(groups=(EngineGroup(kind="sliding_window", window=8, block_size=8),)))
    story.send(stored("a", kv_cache_spec_kind="full_attention"))
    assert speaks(story) == (set() if asked else {"EVT-014", "EVT-036"})
    for name in ("EVT-014", "EVT-036"):
        assert story.outcome(name).verdict is (OPEN if asked else FAIL)
        assert story.outcome(name).reason.startswith("the groups are others than `start` asked for" if asked else "")


def test_groups_that_contradict_themselves_are_not_those_of_any_start() -> None:
    asked = Group(kind="sliding_window", window=8, block_size=4)
    for first, second in ((8, None), (16, 8), (16, None)):
        story = Story(statement=Statement(groups=(asked,)))
        story.note(StartCall(groups=(EngineGroup(kind="sliding_window", window=8, block_size=4),)))
        story.send(stored("a", kv_cache_spec_kind="sliding_window", kv_cache_spec_sliding_window=first))
        assert speaks(story) == set()
        story.send(stored("b", kv_cache_spec_kind="sliding_window", kv_cache_spec_sliding_window=second))
        assert speaks(story) == (set() if second == 8 else {"EVT-036"})
        story.send(stored("c", size=2))
        assert "EVT-014" in speaks(story)


V_ARRAY: list[Any] = ["BlockStored", [5], None, [1, 2, 3, 4], 4, None, "GPU", None]
S_ARRAY: list[Any] = ["BlockStored", [5], None, [1, 2, 3, 4], 4, None, "GPU", {"cache_salt": "t"}]


@pytest.mark.parametrize(
    ("form", "event", "fine"),
    [
        ("array-v", V_ARRAY, True),
        ("array-v", V_ARRAY[:7], True),
        ("array-v", S_ARRAY, False),
        ("array-v", stored("a"), False),
        ("array-s", S_ARRAY, True),
        ("array-s", V_ARRAY[:7], True),
        ("array-s", stored("a"), False),
    ],
)
def test_a_declared_legacy_form_is_the_form_of_every_event(form: Any, event: Any, fine: bool) -> None:
    outcome = sent(event, statement=Statement(form=form)).outcome("EVT-037")
    assert (outcome.verdict, outcome.witnesses) == (PASS if fine else FAIL, 1)


def test_who_declares_maps_is_judged_by_another_sentence() -> None:
    story = sent(V_ARRAY)
    assert story.outcome("EVT-001").verdict is FAIL
    assert story.outcome("EVT-037").reason == Reason.NOT_CLAIMED


def test_keys_of_a_clear_have_types_too() -> None:
    fine = {**cleared(), "medium": "CPU", "ownership": None, "epoch": "7f3a"}
    assert sent(fine).verdict("EVT-021") == (PASS, 1)
    assert sent(fine).verdict("EVT-016") == (PASS, 1)
    assert speaks(sent({**cleared(), "epoch": 7})) == {"EVT-021"}
    assert speaks(sent({**cleared(), "medium": ""})) == {"EVT-015"}


def test_a_new_life_may_have_another_block_size() -> None:
    story = sent(cleared(), stored("a", size=4))
    story.restart()
    story.send(cleared(), stored("a", size=8))
    story.disconnect()
    story.send(stored("b", size=16))  # a new life again, perhaps
    assert speaks(story) == set()
    story = sent(cleared(), stored("a", size=4))
    story.drop()
    story.send(stored("b", size=8))  # after a hole it is the same one
    assert speaks(story) == {"EVT-014"}


def test_the_block_size_of_what_was_offered_is_not_the_publishers() -> None:
    story = Story(sets=("engine", "ts")).begin()
    story.publish(stored("a", size=8))
    story.send(stored("b", size=4))
    assert story.verdict("EVT-014") == (PASS, 1)


@pytest.mark.parametrize(("medium", "broken"), [("", {"EVT-015"}), (3, {"EVT-015"}), ("gpu", {"EVT-016"})])
def test_a_medium_that_is_none_or_not_registered(medium: Any, broken: set[str]) -> None:
    assert speaks(sent(stored("a", medium=medium))) == broken
    assert speaks(sent(removed("a", medium=medium))) == broken


@pytest.mark.parametrize("medium", ["CPU", "STORAGE", "x-cxl", None])
def test_media_that_are_fine(medium: str | None) -> None:
    assert sent(stored("a", medium=medium)).verdict("EVT-016") == (PASS, 1)


def test_an_edition_is_a_permission_and_a_text_is_no_edition() -> None:
    assert sent({**cleared(), "v": 1}).verdict("EVT-018") == (PASS, 1)
    outcome = sent({**cleared(), "v": "1"}).outcome("EVT-018")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_USED)
    assert outcome.notes == ["the `v` of a `AllBlocksCleared` is no integer"]
    assert not sent(cleared()).outcome("EVT-018").notes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lora_id", "7"),
        ("lora_id", -1),
        ("lora_name", 7),
        ("group_idx", -1),
        ("group_idx", "0"),
        ("kv_cache_spec_sliding_window", -4),
        ("kv_cache_spec_kind", 1),
        ("hash_algo", 5),
        ("locality", 1),
        ("ownership", ["x"]),
        ("scope", 16),
        ("session_id", 7),
        ("epoch", 3),
    ],
)
def test_a_key_of_another_type(name: str, value: Any) -> None:
    story = sent({**stored("a"), name: value})
    assert speaks(story) == {"EVT-021"}
    assert f"`{name}` that is" in story.outcome("EVT-021").findings[0].expected
    if name in ("group_idx", "hash_algo", "ownership"):
        assert speaks(sent({**removed("a"), name: value})) == {"EVT-021"}


def test_nil_is_every_type_and_a_removal_without_such_keys_is_no_occasion() -> None:
    names = ("group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "hash_algo", "ownership", "scope")
    assert sent({**stored("a"), **dict.fromkeys(names)}).verdict("EVT-021") == (PASS, 1)
    assert sent(removed("a")).verdict("EVT-021") == (OPEN, 0)


def test_what_was_offered_is_not_judged_and_what_was_made_of_it_is() -> None:
    story = Story(sets=("engine", "ts"))
    story.publish({**stored("a"), "block_hashes": [0]})
    assert story.outcome("EVT-009").reason == Reason.OURS
    ts = story.offer(stored("b"))
    story.send(content=payload({**stored("b"), "medium": "gpu"}, ts=ts))
    assert speaks(story) == {"EVT-016"}
    assert story.judged().notes == ("1 events are what was offered, 1 are the publisher's own",)


def test_an_event_is_ours_as_often_as_it_was_offered() -> None:
    story = Story(sets=("engine", "ts"))
    story.publish(removed("a", medium="gpu"))
    assert speaks(story) == set()
    story.send(removed("a", medium="gpu"))
    assert story.verdict("EVT-016") == (WARN, 1)


def test_array_events_are_named_and_read() -> None:
    story = Story()
    store = ["BlockStored", [block("a")], None, [1, 2, 3, 4], 4, None, "GPU", None]
    story.frames(TOPIC, number_frame(0), pack([T0, [store, ["BlockRemoved", [block("a")], "GPU", 0]], 0]))
    outcomes = story.outcomes()
    assert story.judged().form == "array-v"
    assert outcomes["EVT-001"].violations == 2
    assert {name: outcomes[name].reason for name in ("EVT-002", "EVT-003", "EVT-005", "EVT-006", "EVT-018")} == (
        dict.fromkeys(("EVT-002", "EVT-003", "EVT-005", "EVT-006", "EVT-018"), Reason.LEGACY)
    )
    assert story.verdict("EVT-013") == (PASS, 1)
    assert story.verdict("EVT-017") == (PASS, 1)


def test_maps_beside_arrays_are_the_occasions_of_what_is_said_of_keys() -> None:
    story = sent(stored("a"), V_ARRAY, removed("a"), ["BlockRemoved", [5], "GPU"])
    counted = {name: story.outcome(name).witnesses for name in ("EVT-002", "EVT-003", "EVT-005", "EVT-006")}
    assert counted == {"EVT-002": 2, "EVT-003": 2, "EVT-005": 1, "EVT-006": 1}


def test_silence_and_empty_batches_show_nothing() -> None:
    for story in (Story(), sent()):
        outcomes = story.outcomes()
        assert {outcomes[name].witnesses for name in outcomes if name.startswith("EVT")} == {0}
        assert PASS not in {outcomes[name].verdict for name in outcomes if name.startswith("EVT")}


# --- the group of a removal ---------------------------------------------------------------------------------------


def removals(*events: Event, begun: bool = True, **statement: Any) -> Story:
    """One batch each, from number 0 on or joined late."""
    story = Story(statement=Statement(**statement))
    story.next = 0 if begun else 143
    for event in events:
        story.send(event)
    return story


def test_a_removal_from_the_wrong_group_is_one_fault() -> None:
    story = removals(stored("a", group_idx=1), removed("a"), stored("a", group_idx=1))
    assert {name for name in story.spoken() if name[:3] in ("EVT", "RES", "CHN")} == {"EVT-017"}
    finding = story.outcome("EVT-017").findings[0]
    assert finding.expected == f"group 1, in which {block('a') % 2**64} was stored"
    assert finding.seen == "a removal from group 0"


def test_a_group_that_is_absent_nil_or_0_is_one() -> None:
    story = removals(stored("ab", group_idx=None), removed("a", group_idx=0), removed("b"))
    assert story.outcome("EVT-017").witnesses == 2


def test_a_late_listener_may_have_missed_the_store_in_that_group() -> None:
    story = removals(stored("a", group_idx=1), removed("a"), stored("a", group_idx=1), begun=False)
    assert {name for name in story.spoken() if name[:3] in ("EVT", "RES", "CHN")} == set()


@pytest.mark.parametrize("residency", ["set", "counted"])
def test_each_removal_from_a_group_that_holds_the_block_is_a_witness(residency: str) -> None:
    story = removals(stored("a"), stored("b"), removed("ab"), residency=residency)
    assert story.outcome("EVT-017").witnesses == 2
