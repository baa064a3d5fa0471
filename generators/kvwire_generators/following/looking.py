"""Prompts that are looked up: which function makes a stream's hashes, in which scope, and whether it really does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvwire.vectors.model import ConsumerStream, Group
from kvwire_generators.following.scripts import (
    ConsumerGroup,
    ConsumerTest,
    Event,
    cleared,
    moved,
    removed,
    scenario,
    stored,
)
from kvwire_reference import hashing

SIZE = 4
PROMPT = tuple(range(1000, 1012))
V1, U32, U64, BARE = "v1_block_key", "v2_sha256_64/u32", "v2_sha256_64/u64", "v2_sha256_64"
PLAIN: dict[str, Any] = {"tokens": PROMPT, "medium": "GPU"}
LOOKS: dict[str, dict[str, Any]] = {
    "prompt": PLAIN,
    "longer": {**PLAIN, "tokens": (*PROMPT, 1, 2)},
    "fork": {**PLAIN, "tokens": (*PROMPT[:4], 9, *PROMPT[5:])},
    "short": {**PLAIN, "tokens": PROMPT[:3]},
    "host": {**PLAIN, "medium": "CPU"},
    "nil": {**PLAIN, "medium": None},
    "coarse": {**PLAIN, "group": 1},
    "salted": {**PLAIN, "salt": "tenant-a"},
    "other-salt": {**PLAIN, "salt": "tenant-b"},
    "lora-7": {**PLAIN, "lora_id": "7"},
    "lora-0": {**PLAIN, "lora_id": "0"},
    "summaries": {**PLAIN, "lora_name": "summaries"},
    "poems": {**PLAIN, "lora_name": "poems"},
}


def chain(
    computed: str,
    tokens: Sequence[int] = PROMPT,
    *,
    size: int = SIZE,
    salt: str | None = None,
    lora: int | None = None,
    **more: Any,
) -> Event:
    """A store of all blocks of a prompt by a function, which it announces unless ``hash_algo`` says otherwise."""
    blocks, _ = hashing.split_blocks(tokens, size)
    salted = None if salt is None else hashing.salt_id(salt)
    states = hashing.hash_chain(hashing.ALGORITHMS[computed], blocks, lora_id=lora, salt_id=salted)
    return {
        **stored(""),
        "block_hashes": [hashing.signed(state.hash) for state in states if state.hash is not None],
        "token_ids": list(tokens),
        "block_size": size,
        "lora_id": lora,
        "hash_algo": computed,
        **more,
    }


def looked(
    slug: str,
    comment: str,
    events: Sequence[Event],
    looks: str,
    found: str,
    ids: str,
    *,
    streams: Sequence[ConsumerStream] = (ConsumerStream(name="s"),),
    flags: str = "",
) -> ConsumerTest:
    """Events on a stream that is known from its beginning, and what look-ups find then."""
    script = "; ".join(["back > 0", "end", "live a0", *(f"look {name}" for name in looks.split())])
    return scenario(
        slug,
        comment,
        script,
        None,
        0,
        *ids.split(),
        batches={"a0": [cleared(), *events]},
        streams=streams,
        looks=LOOKS,
        found=found,
        flags=f"look-up {flags}".strip(),
    )


def functions() -> list[ConsumerTest]:
    """One function a stream."""
    ids = "HSH-011"
    three = "prompt longer fork short host nil"
    tests = [
        looked(f"look-{n}", f"announces {label}", [chain(label)], three, "3 3 1 0 0 0", ids)
        for n, label in enumerate((V1, U32, U64, "v2_sha256_low64/u32", "v2_sha256_low64/u64"))
    ]
    declared = (ConsumerStream(name="s", algorithm=U64),)
    wide = (2**31, *PROMPT[1:])
    return [
        *tests,
        looked(
            "look-declared",
            "declares a function, and announces none",
            [chain(U64, hash_algo=None)],
            "prompt",
            "3",
            ids,
            streams=declared,
        ),
        looked(
            "look-announced",
            "what is announced comes before what was declared",
            [chain(U32)],
            "prompt",
            "3",
            ids,
            streams=declared,
        ),
        looked(
            "look-opaque",
            "hashes that nobody can recompute match no prompt",
            [chain(U32, hash_algo="opaque")],
            "prompt",
            "0",
            ids,
        ),
        looked(
            "look-unknown",
            "a function that a consumer does not know",
            [chain(U32, hash_algo="x-mine")],
            "prompt",
            "0",
            ids,
        ),
        looked("look-none", "no function is known", [chain(U32, hash_algo=None)], "prompt", "0", ids),
        looked(
            "look-bare-u32",
            "the bare label, four bytes a token",
            [chain(U32, hash_algo=BARE)],
            three,
            "3 3 1 0 0 0",
            "HSH-013",
        ),
        looked(
            "look-bare-u64",
            "the bare label, eight bytes a token",
            [chain(U64, hash_algo=BARE)],
            three,
            "3 3 1 0 0 0",
            "HSH-013",
        ),
        looked(
            "look-bare-salted-first",
            "a salted chain settles nothing; the first root that comes out does",
            [chain(U64, salt="tenant-a", hash_algo=BARE), chain(U64, hash_algo=BARE)],
            "prompt salted",
            "3 3",
            "HSH-013",
        ),
        scenario(
            "look-bare-wide",
            "the bare label, and a token that four bytes do not take",
            "back > 0; end; live a0; look wide",
            None,
            0,
            "HSH-013",
            batches={"a0": [chain(U64, wide, hash_algo=BARE)]},
            looks={"wide": {**PLAIN, "tokens": wide}},
            found="3",
            flags="look-up",
        ),
        looked(
            "look-wrong-function",
            "announces four bytes a token and hashes eight: no prompt is found, which is noticed",
            [chain(U64, hash_algo=U32)],
            "prompt",
            "0",
            "HSH-015",
            flags="wrong-function",
        ),
        looked(
            "look-wrong-child",
            "a root that comes out, and a child that does not follow from it",
            [{**chain(U32), "block_hashes": [chain(U32)["block_hashes"][0], 7 * 10**12, 8 * 10**12]}],
            "prompt",
            "1",
            "HSH-015",
        ),
    ]


def scopes() -> list[ConsumerTest]:
    """Salts and adapters."""
    tag = hashing.scope_tag("tenant-a")
    return [
        looked(
            "look-salt",
            "a salt that is not on the wire",
            [chain(U32, salt="tenant-a")],
            "salted other-salt prompt",
            "3 0 0",
            "HSH-011",
        ),
        looked(
            "look-salt-v1",
            "the same under v1_block_key",
            [chain(V1, salt="tenant-a")],
            "salted other-salt prompt",
            "3 0 0",
            "HSH-011",
        ),
        looked(
            "look-scope",
            "a salt by its tag",
            [chain(U32, salt="tenant-a", scope=tag)],
            "salted other-salt prompt",
            "3 0 0",
            "HSH-011",
        ),
        looked(
            "look-scope-both",
            "the same prompt with and without a salt",
            [chain(U32, salt="tenant-a", scope=tag), chain(U32)],
            "salted prompt other-salt",
            "3 3 0",
            "HSH-011",
        ),
        looked(
            "look-lora",
            "an adapter by its number; 0 is a number",
            [chain(U32, lora=7)],
            "lora-7 lora-0 prompt",
            "3 0 0",
            "HSH-011",
        ),
        looked(
            "look-lora-0", "adapter 0 is no absence of one", [chain(U32, lora=0)], "lora-0 prompt", "3 0", "HSH-011"
        ),
    ]


def two(
    slug: str,
    comment: str,
    ids: str,
    first: Event,
    second: Event,
    looks: str,
    found: str,
    *,
    declared: tuple[str | None, str | None] = (None, None),
    flags: str = "",
) -> ConsumerTest:
    """Two streams that say one thing each, and look-ups on both; ``declared`` are their functions."""
    joined = "; ".join(
        f"{name}: back > 0; {name}: end; {name}: live {life}0" for name, life in (("rank0", "a"), ("rank1", "b"))
    )
    asked = "; ".join(f"{name}: look {look}" for look in looks.split() for name in ("rank0", "rank1"))
    return scenario(
        slug,
        comment,
        f"{joined}; {asked}",
        None,
        0,
        *ids.split(),
        batches={"a0": [cleared(), first], "b0": [cleared(), second]},
        streams=[ConsumerStream(name=f"rank{rank}", algorithm=algorithm) for rank, algorithm in enumerate(declared)],
        looks=LOOKS,
        found=found,
        flags=f"look-up {flags}".strip(),
    )


def fleets() -> list[ConsumerTest]:
    """Several streams, several lives, several functions."""
    lives: dict[str, Any] = {"looks": LOOKS, "flags": "look-up"}
    return [
        two(
            "fleet-two-functions",
            "one worker hashes by v1, one by v2: each finds the prompt by its own",
            "HSH-011 HSH-012",
            chain(V1),
            chain(U32),
            "prompt",
            "3 3",
        ),
        two(
            "fleet-two-declared",
            "neither announces its function, and each stream declares another one",
            "HSH-011 HSH-012",
            chain(V1, hash_algo=None),
            chain(U32, hash_algo=None),
            "prompt",
            "3 3",
            declared=(V1, U32),
        ),
        two(
            "fleet-one-announces",
            "one was upgraded and announces v2, both are still declared as v1",
            "HSH-011 HSH-012",
            chain(V1, hash_algo=None),
            chain(U32),
            "prompt",
            "3 3",
            declared=(V1, V1),
        ),
        two(
            "fleet-one-is-silent",
            "both are declared as v1, and one hashes by v2 without a word: its prompt is not found, which is noticed",
            "HSH-011 HSH-015",
            chain(V1, hash_algo=None),
            chain(U32, hash_algo=None),
            "prompt",
            "3 0",
            declared=(V1, V1),
            flags="wrong-function",
        ),
        two(
            "fleet-two-widths",
            "the bare label means one width on each",
            "HSH-013",
            chain(U32, hash_algo=BARE),
            chain(U64, hash_algo=BARE),
            "prompt",
            "3 3",
        ),
        two(
            "fleet-adapters",
            "id 7 is one adapter here and another one there",
            "EVT-035",
            chain(U32, lora=7, lora_name="summaries"),
            chain(U32, lora=7, lora_name="poems"),
            "summaries poems",
            "3 0 0 3",
        ),
        scenario(
            "life-settles-anew",
            "what the bare label meant ends with the incarnation",
            "back > 0; end; live a0; look prompt; gone; back > 0; end > 0; replay b0; end; look prompt",
            None,
            0,
            "HSH-013",
            batches={"a0": [chain(U64, hash_algo=BARE)], "b0": [chain(U32, hash_algo=BARE)]},
            found="3 3",
            **lives,
        ),
        scenario(
            "life-announces-another",
            "a worker is upgraded from v1 to v2 at a restart",
            "back > 0; end; live a0; look prompt; live b0; look prompt",
            None,
            0,
            "HSH-011",
            batches={"a0": [chain(V1)], "b0": [cleared(), chain(U32)]},
            found="3 3",
            **lives,
        ),
        scenario(
            "life-announces-while-declared",
            "a worker that is declared as v1 is upgraded at a restart, and announces v2",
            "back > 0; end; live a0; look prompt; live b0; look prompt",
            None,
            0,
            "HSH-011",
            batches={"a0": [chain(V1, hash_algo=None)], "b0": [cleared(), chain(U32)]},
            streams=(ConsumerStream(name="s", algorithm=V1),),
            found="3 3",
            **lives,
        ),
        scenario(
            "life-two-functions",
            "two functions within one life, which no publisher may send: their tables never meet",
            "back > 0; end; live a0; live a1; look prompt; live a2; look prompt",
            None,
            2,
            "HSH-012",
            batches={
                "a0": [chain(V1)],
                "a1": [chain(U32, PROMPT[:8])],
                "a2": [{**removed(""), "block_hashes": chain(V1)["block_hashes"], "hash_algo": U32}],
            },
            found="2 2",
            **lives,
        ),
        scenario(
            "life-hole",
            "behind a final hole nothing is found that was held before it",
            "back > 0; end; live a0; look prompt; live a2 > 0; replay a0 a2; end; look prompt",
            None,
            2,
            "SEQ-018",
            batches={"a0": [chain(U32)], "a2": []},
            found="3 0",
            sure=False,
            **lives,
        ),
    ]


def places() -> list[ConsumerTest]:
    """Tiers and groups."""
    fine = chain(U32)
    coarse = {
        **fine,
        "block_hashes": [fine["block_hashes"][1]],
        "token_ids": list(PROMPT[:8]),
        "block_size": 8,
        "group_idx": 1,
    }
    partial = {**stored("b1"), "block_size": 2, "token_ids": [1, 2], "parent_block_hash": 9 * 10**12, "hash_algo": U32}
    ids = "RES-010 EVT-027"
    return [
        looked(
            "look-tiers",
            "one block on the host only, two in both",
            [fine, {**fine, "medium": "CPU"}, {**removed(""), "block_hashes": fine["block_hashes"][2:]}],
            "prompt host",
            "2 3",
            ids,
        ),
        looked(
            "look-tier-unknown",
            "a medium that nobody knows is not GPU",
            [{**fine, "medium": "x-tape"}],
            "prompt host",
            "0 0",
            ids,
        ),
        looked(
            "look-tier-nil", "the unspecified medium is not GPU", [{**fine, "medium": None}], "prompt nil", "0 3", ids
        ),
        looked(
            "look-location-update",
            "blocks whose keys alone are on the host",
            [fine, {**moved(""), "block_hashes": fine["block_hashes"][:2]}],
            "prompt host",
            "3 2",
            ids,
        ),
        looked(
            "look-coarse",
            "a coarse group names blocks by the hash of their last part",
            [fine, coarse],
            "prompt coarse",
            "3 1",
            "HSH-011",
        ),
        looked(
            "look-partial",
            "a partial entry leaves the block size of its group",
            [fine, partial],
            "prompt",
            "3",
            "HSH-011",
        ),
        looked("look-partial-first", "also when it comes first", [partial, fine], "prompt", "3", "HSH-011"),
    ]


def groups() -> list[ConsumerGroup]:
    """All of them, by subject."""
    told = (
        ("functions", "Which function makes the hashes of a stream.", functions()),
        ("scopes", "Salts and adapters.", scopes()),
        ("fleets", "Several streams, several lives, several functions.", fleets()),
        ("places", "Tiers and groups.", places()),
    )
    return [Group(name=name, comment=comment, tests=tuple(tests)) for name, comment, tests in told]
