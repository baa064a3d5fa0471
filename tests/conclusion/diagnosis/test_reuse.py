"""Announced against reused: per prompt both, medium by medium, and the first block on which they part."""

from __future__ import annotations

import pytest
from tests.kit.stories import Event, Story, block, cleared, stored

from kvwire.conclusion.diagnosis.reuse import Reused, reuse
from kvwire.conclusion.doctor import diagnose
from kvwire.trace.calls import CacheCall

PROMPT = list(range(500, 516))
SIZE = 4


def blocks(first: int, last: int, medium: str = "GPU", **extra: object) -> Event:
    """A store of blocks of the prompt."""
    return {
        **stored(range(first, last), parent=first - 1 if first else None, medium=medium),
        "token_ids": PROMPT[first * SIZE : last * SIZE],
        **extra,
    }


def removal(at: int, medium: str = "GPU") -> Event:
    return {"type": "BlockRemoved", "block_hashes": [block(at)], "medium": medium}


def asked(*events: Event, cached: int, tokens: list[int] = PROMPT, salt: str | None = None) -> tuple[Reused, ...]:
    story = Story()
    story.send(cleared())
    for event in events:
        story.send(event)
    story.note(CacheCall(tokens=tuple(tokens), cached_tokens=cached, salt=salt))
    made = story.trace()
    found = reuse(made, made.header.streams[0])
    assert diagnose([("t", made)]).reuse == list(found)
    return found


@pytest.mark.parametrize(
    ("events", "cached", "announced", "anywhere", "parting"),
    [
        ([blocks(0, 4)], 16, {"GPU": 16}, 16, None),
        ([blocks(0, 4)], 12, {"GPU": 16}, 16, None),
        ([blocks(0, 4)], 15, {"GPU": 16}, 16, None),
        ([blocks(0, 2)], 8, {"GPU": 8}, 8, None),
        ([blocks(0, 2)], 16, {"GPU": 8}, 8, 2),
        ([blocks(0, 4)], 4, {"GPU": 16}, 16, 1),
        ([blocks(0, 4), removal(0)], 0, {"GPU": 0}, 0, None),
        ([blocks(0, 4), removal(0)], 12, {"GPU": 0}, 0, 0),
        ([blocks(0, 4), blocks(0, 4, "CPU"), removal(0)], 16, {"GPU": 0, "CPU": 16}, 16, None),
        ([blocks(0, 2), blocks(0, 2, "CPU"), blocks(2, 4, "CPU"), removal(1)], 16, {"GPU": 4, "CPU": 16}, 16, None),
        ([blocks(0, 4), blocks(0, 1, kv_cache_spec_sliding_window=4, group_idx=1)], 16, {"GPU": 16}, 16, None),
    ],
)
def test_what_is_announced_is_held_against_what_is_reused(
    events: list[Event], cached: int, announced: dict[str, int], anywhere: int, parting: int | None
) -> None:
    (found,) = asked(*events, cached=cached)
    assert (found.announced, found.anywhere, found.parting) == (announced, anywhere, parting)


def test_the_block_on_which_they_part_is_told_with_what_comes_of_it() -> None:
    (more,) = asked(blocks(0, 2), cached=16)
    assert "block 2 (tokens 8 to 11) was reused and stands announced nowhere" in more.said
    (less,) = asked(blocks(0, 4), cached=4)
    assert "16 tokens (record " in less.said
    assert "4 reused, announced GPU 16: block 1 (tokens 4 to 7) stands announced and was not reused" in less.said


def test_whose_blocks_the_wire_does_not_tell_is_not_compared() -> None:
    assert asked(blocks(0, 4), cached=0, salt="tenant") == ()
    assert asked(cached=16) == ()
