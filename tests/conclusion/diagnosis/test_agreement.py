"""Two streams, one prompt, two hashes: each cause that there can be is named by `kvwire doctor A B`, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conclusion.diagnosis.test_diagnosis import PROMPTS, VLLM, engine, hashed
from tests.kit.hashed import chain
from tests.kit.stories import Story, cleared, stored

from kvwire import cli
from kvwire.conclusion.diagnosis.recognition import seeded
from kvwire.hashes.functions import NO_SCOPE, Scope
from kvwire.hashes.mistakes import BY_NAME
from kvwire.judges.verdict import Exit
from kvwire.trace import files

SIZE = 16
ONE, OTHER = bytes(range(32)), bytes(range(1, 33))


def scoped(name: str, own: Scope = NO_SCOPE, mm: Sequence[tuple[bytes, int]] = (), **extra: Any) -> Story:
    """An engine that announced the prompts in one reuse scope, or with an item in each first block."""
    story = Story()
    story.send(cleared())
    for tokens in PROMPTS:
        blocks = [tuple(tokens[at : at + SIZE]) for at in range(0, len(tokens), SIZE)]
        keys = [tuple(mm), *[()] * (len(blocks) - 1)]
        values = [value - 2**64 if value >= 2**63 else value for value in chain(name, blocks, own, keys)]
        told = dict(extra)
        if mm:
            told["mm_keys"] = [
                [{"type": "mm_key", "hash": item.hex(), "start_offset": at} for item, at in block] for block in keys
            ]
        story.send({**stored("a", size=SIZE), "block_hashes": values, "token_ids": tokens, **told})
    return story


V1, V2 = "v1_block_key", "v2_sha256_64/u32"
CAUSES = {
    "seed": (engine(VLLM), engine(seeded(VLLM, "42")), "another seed: 1:s has none, 2:s runs with PYTHONHASHSEED=42"),
    "block size": (engine(VLLM), engine(VLLM, 32), "another block size: 1:s has 16 tokens, 2:s 32"),
    "finer": (
        engine(BY_NAME[V2], 64),
        engine(BY_NAME[V2], 64, finer=16),
        "blocks of another size are hashed: 64 against 16",
    ),
    "width": (scoped(V2), scoped("v2_sha256_64/u64"), "tokens are hashed as eight bytes each, not as four"),
    "function": (scoped(V1), scoped("x-sglang-sha256"), "another function: 1:s uses v1_block_key, 2:s x-sglang-sha256"),
    "salt in clear": (
        scoped(V2, Scope(salt="a"), cache_salt="a"),
        scoped(V2, Scope(salt="b"), cache_salt="b"),
        "another salt: 1:s has salt id ",
    ),
    "salt told by its tag": (
        scoped(V2, Scope(salt="a"), scope="t-a"),
        scoped(V2),
        "another salt: 1:s has scope t-a, 2:s none",
    ),
    "salt that is not told": (scoped(V2), scoped(V2, Scope(salt="b")), "a salt that the wire does not show"),
    "salt among extra keys": (
        scoped(VLLM.name, Scope(salt="a"), extra_keys=[["a"], None, None, None]),
        scoped(VLLM.name, extra_keys=[None] * 4),
        "other extra keys: 1:s has ('a',), 2:s None",
    ),
    "adapter": (
        scoped(V2, Scope(1), lora_id=1),
        scoped(V2, Scope(2), lora_id=2),
        "another adapter: 1:s has 1, 2:s 2",
    ),
    "no adapter": (scoped(V2), scoped(V2, Scope(2), lora_id=2), "another adapter: 1:s has none, 2:s 2"),
    "multimodal keys": (
        scoped(V1, mm=[(ONE, 3)]),
        scoped(V1, mm=[(OTHER, 3)]),
        "other multimodal keys: 1:s has 0001020304050607… at 3, 2:s 0102030405060708… at 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_for_which_two_streams_part_is_named_and_no_other(
    cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other, said = CAUSES[cause]
    names = []
    for name, story in (("a", one), ("b", other)):
        path = tmp_path / f"{name}.kvtrace"
        files.write(story.trace(), path)
        names.append(str(path))
    assert cli.run(["doctor", *names]) == Exit.NOT_CONFORMANT
    out = " ".join(capsys.readouterr().out.split())
    assert "hash one prompt differently: 0 of" in out
    assert f"because {said}" in out or said in out
    others = [text for name, (_, _, text) in CAUSES.items() if name != cause and text[:16] != said[:16]]
    assert not [text for text in others if f"because {text}" in out]


def test_of_several_hashes_of_a_prompt_those_in_the_likest_scopes_are_compared() -> None:
    from tests.conclusion.diagnosis.test_diagnosis import of

    one, other = scoped(V2, Scope(7), lora_id=7), scoped("v2_sha256_64/u64", Scope(7), lora_id=7)
    for tokens in PROMPTS:
        values = hashed(BY_NAME[V2], tokens, SIZE)
        one.send({**stored("a", size=SIZE), "block_hashes": values, "token_ids": tokens})
    (agreement,) = of(one, other).agreements
    assert agreement.parting is not None
    assert not any("adapter" in why for why in agreement.parting.why)
