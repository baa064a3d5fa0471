"""EVT: digest tokens, and the keys of the items that blocks hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kit.stories import Event, Story, cleared, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.trace.calls import CacheCall

PASS, FAIL = Verdict.PASS, Verdict.FAIL
DIGEST = "ab" * 32
OTHER = "cd" * 32


def sent(*events: Any) -> Story:
    """One batch of these events."""
    story = Story()
    story.send(*events)
    return story


def speaks(story: Story) -> set[str]:
    """What of EVT is broken."""
    return {name for name in story.spoken() if name.startswith("EVT")}


def mm_key(**fields: Any) -> dict[str, Any]:
    return {"type": "mm_key", "hash": DIGEST, "start_offset": 0, **fields}


def multimodal(mm_keys: Any) -> Event:
    """A store whose block holds a digest token."""
    return {**stored("a"), "token_ids": [1, DIGEST, 32001, 32002], "mm_keys": mm_keys}


def test_a_digest_token_is_a_permission_that_was_used() -> None:
    story = sent(multimodal([[mm_key(uuid="u")]]))
    assert story.verdict("EVT-011") == (PASS, 1)
    assert story.verdict("EVT-012") == (PASS, 1)
    assert speaks(story) == set()


@pytest.mark.parametrize(
    "mm_keys",
    [
        [[{"type": "mm_key", "hash": DIGEST}]],
        [[mm_key(hash="ab")]],
        [[mm_key(hash=DIGEST + "a")]],
        [[mm_key(start_offset=-1)]],
        [[mm_key(start_offset="0")]],
        [[mm_key(type="mm")]],
        [[mm_key(uuid=7)]],
        [[mm_key(uuid=None)]],
        [[mm_key(length=3)]],
        [[mm_key(), 3]],
        [[{}]],
    ],
)
def test_an_element_of_mm_keys_that_is_none(mm_keys: Any) -> None:
    assert speaks(sent(multimodal(mm_keys))) == {"EVT-030"}
    assert speaks(sent({**stored("a"), "mm_keys": mm_keys})) == {"EVT-030"}  # no digest in clear


@pytest.mark.parametrize("mm_keys", [None, "x", [], [[], []], [None], [mm_key()]])
def test_a_digest_token_without_proper_mm_keys(mm_keys: Any) -> None:
    assert speaks(sent(multimodal(mm_keys))) == {"EVT-012"}


def test_a_digest_token_without_any_mm_keys() -> None:
    story = sent({name: value for name, value in multimodal([]).items() if name != "mm_keys"})
    assert speaks(story) == {"EVT-012"}
    assert story.outcome("EVT-012").findings[0].seen == "1 digest tokens, no `mm_keys`"


def test_items_are_asked_for_in_whole_events_and_digests_where_there_are_some() -> None:
    story = sent({**multimodal([[mm_key()]]), "token_ids": [DIGEST, 1]})  # fewer than the block holds
    assert "EVT-031" not in story.witnessed()
    assert "EVT-012" not in sent(stored("a")).witnessed()
    assert "EVT-030" not in sent({**stored("a"), "mm_keys": [[]]}).witnessed()


TOKENS = [1, DIGEST, 32001, 32002, 32003, 32004, 7, 8]


def two(first: list[Any], second: list[Any], tokens: list[Any] = TOKENS) -> Event:
    """A store of two blocks with these keys; the item begins in the first and goes on in the second."""
    return {**stored("ab"), "token_ids": tokens, "mm_keys": [first, second]}


@pytest.mark.parametrize(
    "event",
    [
        two([mm_key()], [mm_key(start_offset=3)]),
        two([mm_key(hash=DIGEST.upper())], [mm_key(start_offset=3)]),
        two([mm_key()], [], [1, DIGEST, 32001, 32002, 5, 6, 7, 8]),
        two([mm_key()], [mm_key(start_offset=2)], [1, DIGEST, 32001, 9, 32002, 6, 7, 8]),  # another stretch
        two(
            [mm_key()], [mm_key(start_offset=3), mm_key(start_offset=4)], [1, DIGEST, 32001, 32002, 32003, 9, 32004, 8]
        ),
        two([mm_key()], [], [1, 9, 9, DIGEST, 10, 11, 12, 13]),  # an item of one token, and text that counts up
        two([mm_key()], [], [1, DIGEST, 3, 4, 5, 6, 7, 8]),
        two(
            [mm_key()], [mm_key(hash=OTHER), mm_key(start_offset=3)], [1, DIGEST, 32001, 32002, 32003, OTHER, 32001, 8]
        ),
        {  # the same item twice in a row, the first time begun in an earlier event
            **two([mm_key(start_offset=10), mm_key()], [mm_key(start_offset=2)], [32010, 32011, DIGEST, 1, 2, 3, 4, 5]),
            "parent_block_hash": 7,
        },
    ],
)
def test_keys_that_are_as_the_tokens(event: Event) -> None:
    assert sent(event).verdict("EVT-031") == (PASS, 1)


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        (two([mm_key()], [mm_key()]), "abababab… at offset 0 in block 1 of the event"),
        (two([mm_key()], [mm_key(start_offset=9)]), "abababab… at offset 9 in block 1 of the event"),
        (two([], [mm_key(start_offset=3)]), "no key in block 0 of the event"),
        (two([mm_key(hash=OTHER)], []), "cdcdcdcd… at offset 0 in block 0 of the event"),
        (two([mm_key(), mm_key(hash=OTHER)], [mm_key(start_offset=3)]), "abababab… at offset 0, cdcdcdcd… at offset 0"),
        (two([mm_key(), mm_key()], [mm_key(start_offset=3)]), "abababab… at offset 0, abababab… at offset 0"),
        (two([mm_key(), mm_key(start_offset=3)], []), "abababab… at offset 0, abababab… at offset 3"),
    ],
)
def test_keys_that_the_tokens_deny(event: Event, seen: str) -> None:
    story = sent(event)
    assert speaks(story) == {"EVT-031"}
    assert story.outcome("EVT-031").findings[0].seen.startswith(seen)


@pytest.mark.parametrize(
    "event",
    [
        two([mm_key()], []),
        two([mm_key()], [mm_key(start_offset=2)]),
        two([mm_key()], [], [DIGEST, 7, 8, 9, 10, 11, 3, 4]),  # an item of one token, and text that counts up
        two([mm_key()], [mm_key(start_offset=1)], [DIGEST, 7, 8, 9, 10, 32001, 3, 4]),  # and its second stretch
    ],
)
def test_an_item_that_may_go_on_as_text_that_counts_up(event: Event) -> None:
    assert sent(event).verdict("EVT-031") == (Verdict.INCONCLUSIVE, 0)


def test_without_a_digest_in_clear_nothing_is_known_of_items() -> None:
    event = {**stored("ab"), "mm_keys": [[mm_key()], [mm_key(start_offset=17)]]}
    assert sent(event).outcome("EVT-031").reason == Reason.NOT_USED


def test_lists_of_keys_that_are_not_one_a_block_are_of_no_block() -> None:
    """Only digests in clear ask for one each."""
    story = sent({**stored("a"), "mm_keys": [[mm_key()], [mm_key()]]})
    assert speaks(story) == set()
    assert story.verdict("EVT-030") == (PASS, 1)
    assert story.outcome("EVT-031").reason == Reason.NOT_USED


def ran(*events: Event, runs: Any = ((1, 3), (6, 1)), **call: Any) -> Story:
    """Events after a prompt with an item in two stretches; its third block is text."""
    story = Story().begin()
    tokens = (1, DIGEST, 32001, 32002, 5, 6, 32003, 8, 9, 10, 11, 12)
    story.note(CacheCall(tokens=tokens, mm=({"digest": DIGEST, "runs": runs},), cached_tokens=0, **call))
    story.send(*events)
    return story


def chain(*keys: Any) -> list[Event]:
    """The blocks of that prompt, each in an event of its own, with these keys; ``...``: without ``mm_keys``."""
    tokens = [[1, DIGEST, 32001, 32002], [5, 6, 32003, 8], [9, 10, 11, 12]]
    events = [
        {**stored(name, above), "token_ids": own}
        for name, above, own in zip("abc", [None, "a", "b"], tokens, strict=True)
    ]
    return [event if own is ... else {**event, "mm_keys": [own]} for event, own in zip(events, keys, strict=True)]


def test_the_items_of_a_prompt_are_known_in_every_block() -> None:
    assert ran(*chain([mm_key()], [mm_key(start_offset=3)], [])).verdict("EVT-031") == (PASS, 2)
    assert ran(*chain([mm_key()], [mm_key(start_offset=3)], ...)).verdict("EVT-031") == (PASS, 2)


@pytest.mark.parametrize(
    "keys",
    [
        ([mm_key()], [], []),
        ([mm_key()], ..., []),
        ([mm_key()], [mm_key(start_offset=4)], []),
        ([mm_key()], [mm_key(start_offset=3)] * 2, []),
        ([mm_key()], [mm_key(start_offset=3)], [mm_key(start_offset=4)]),
    ],
)
def test_keys_that_are_not_those_of_the_prompt(keys: Any) -> None:
    assert speaks(ran(*chain(*keys))) == {"EVT-031"}


@pytest.mark.parametrize(
    ("between", "verdict"), [("restart", (PASS, 2)), ("disconnect", (PASS, 2)), ("drop", (FAIL, 3))]
)
def test_what_a_hash_was_in_another_life_tells_nothing_of_items(between: str, verdict: tuple[Verdict, int]) -> None:
    story = ran(*chain([mm_key()], [mm_key(start_offset=3)], []))
    getattr(story, between)()
    story.send(chain([], [], [])[1])
    assert story.verdict("EVT-031") == verdict


@pytest.mark.parametrize("second", [[mm_key(start_offset=3)], []])
@pytest.mark.parametrize("runs", [((1, 3), (6, 1)), "none that can be read"])
def test_blocks_that_two_prompts_fill_with_other_items_are_not_known(second: Any, runs: Any) -> None:
    """Their tokens are the same, and what of them are an item's is not."""
    story = ran(runs=((1, 3),))
    call = story.records[-3].detail
    assert isinstance(call, CacheCall)
    story.note(msgspec.structs.replace(call, mm=({"digest": DIGEST, "runs": runs},)))
    story.send(*chain([mm_key()], second, []))
    assert story.verdict("EVT-031") == (PASS, 1)


@pytest.mark.parametrize("runs", [None, 3, [[1]], [["x", 2]]])
def test_items_that_cannot_be_read_are_not_known(runs: Any) -> None:
    assert speaks(ran(*chain([mm_key()], [], []), runs=runs)) == set()


def test_a_clear_has_no_keys() -> None:
    assert sent(cleared()).outcome("EVT-031").reason == Reason.NOT_USED
