"""A prompt, looked up as a correct consumer would: what is held, where, and why the rest is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conclusion.diagnosis.test_diagnosis import PROMPTS, VLLM, engine, hashed
from tests.kit.stories import Story, cleared, stored

from kvwire import cli
from kvwire.conclusion.diagnosis.lookup import Lookup, lookup
from kvwire.conclusion.diagnosis.recognition import seeded
from kvwire.hashes.functions import NO_SCOPE, Scope
from kvwire.judges.verdict import Exit
from kvwire.standard import resources

PROMPT = PROMPTS[0]
HASHES = hashed(VLLM, PROMPT, 16)


def looked(story: Story, tokens: list[int] = PROMPT, scope: Scope = NO_SCOPE) -> Lookup:
    trace = story.trace()
    return lookup(trace, trace.header.streams[0], tokens, scope=scope)


def removal(hashes: list[int], medium: str = "GPU") -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}


def test_what_was_announced_is_held_and_the_rest_was_not_announced() -> None:
    found = looked(engine(VLLM), [*PROMPT, *range(16), 7])
    assert (found.hits, found.anywhere, len(found.blocks)) == ({"GPU": 4}, 4, 5)
    assert [block.computed for block in found.blocks[:4]] == [value % 2**64 for value in HASHES]
    assert found.blocks[4].why == "never announced"


def test_a_function_that_nobody_knows_hides_no_hit() -> None:
    found = looked(engine(seeded(VLLM, "unguessable")))
    assert found.function is None
    assert found.anywhere == 4


def test_the_removal_is_named_by_its_number() -> None:
    story = engine(VLLM)
    story.send(removal(HASHES[1:2]))
    found = looked(story)
    assert found.hits == {"GPU": 1}
    assert found.blocks[1].why == "removed from GPU in number 4"


def test_a_clear_is_named_and_ends_what_was_uncertain() -> None:
    story = engine(VLLM)
    story.send(removal(HASHES), by="")
    story.send(stored("z", size=16))
    assert looked(story).uncertain.startswith("numbers 4 were lost")
    story.send(cleared())
    found = looked(story)
    assert found.blocks[0].why == "cleared from GPU in number 6"
    assert found.uncertain == ""


def test_media_are_counted_apart_and_together() -> None:
    story = engine(VLLM)
    story.send({**stored("a", size=16, medium="CPU"), "block_hashes": HASHES, "token_ids": PROMPT}, removal(HASHES[2:]))
    found = looked(story)
    assert (found.hits, found.anywhere) == ({"CPU": 4, "GPU": 2}, 4)


def test_a_clear_of_one_medium_leaves_the_other() -> None:
    story = engine(VLLM)
    story.send({**stored("a", size=16, medium="CPU"), "block_hashes": HASHES, "token_ids": PROMPT})
    story.send({**cleared(), "medium": "GPU"})
    found = looked(story)
    assert found.hits == {"CPU": 4}
    assert [held.place.medium for held in found.blocks[0].held] == ["CPU"]


def test_a_block_of_another_adapter_is_no_hit() -> None:
    story = engine(VLLM, lora_id=7, lora_name="adapter")
    assert looked(story).anywhere == 0
    assert looked(story).blocks[0].why == "announced in another reuse scope only: LoRA 7"
    for scope in (Scope(7), Scope(None, "adapter"), Scope(7, "adapter")):
        assert looked(story, scope=scope).anywhere == 4
    assert looked(story, scope=Scope(8)).anywhere == 0
    assert looked(engine(VLLM), scope=Scope(7)).anywhere == 0


def test_a_restart_forgets_what_was_held() -> None:
    story = engine(VLLM)
    story.restart()
    story.send(cleared())
    assert looked(story).anywhere == 0


def test_a_prompt_that_fills_no_block_is_nothing_to_look_up(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(resources.vectors() / "session" / "eviction.kvtrace")
    assert cli.run(["lookup", trace, "--tokens", "1,2", "--block-size", "16"]) == Exit.INCONCLUSIVE
    assert capsys.readouterr().out == "rank-0: 2 tokens, 16 a block: no full block to look up\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tokens", "1,x"], "'x' is neither an integer"),
        (["--tokens", "-1"], "a token id is outside"),
        (["--tokens", "@/nowhere"], "/nowhere"),
        (["--tokens", "1", "--stream", "other"], "--stream other: no such stream; there are"),
    ],
)
def test_bad_input_is_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(resources.vectors() / "session" / "eviction.kvtrace")
    assert cli.run(["lookup", trace, *arguments]) == Exit.USAGE
    assert said in " ".join(capsys.readouterr().err.split())
