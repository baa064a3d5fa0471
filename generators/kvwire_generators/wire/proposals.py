"""Payloads as current proposals of the field would send them (spec/adoption.md); each flag is a proposal."""

from __future__ import annotations

from typing import Any

from kvwire.vectors.model import Note
from kvwire_generators.wire.events import CHILD, CLEARED, DIGEST, ROOT, Payload, batch, one, p, picture, removed, stored
from kvwire_generators.wire.invalid import Bad, bad

_HOMES = {
    "vllm": ("vLLM", "https://github.com/vllm-project/vllm"),
    "sglang": ("SGLang", "https://github.com/sgl-project/sglang"),
    "dynamo": ("Dynamo", "https://github.com/ai-dynamo/dynamo"),
}


def _note(flag: str) -> Note:
    home, _, number = flag.partition("-")
    name, link = _HOMES[home]
    return Note(
        kind="origin", description=f"as proposed in {name}#{number}", links=("adoption.md", f"{link}/pull/{number}")
    )


_FLAGS = """vllm-33304 sglang-37482 dynamo-8197 vllm-52655 sglang-40601 vllm-55487 vllm-55488 vllm-52067 vllm-48281
vllm-51381 sglang-37734 vllm-48501 sglang-39604 vllm-51699 vllm-48933 vllm-43468 vllm-45939 vllm-58119 vllm-44451
vllm-44488 vllm-50438 vllm-50732 vllm-57789"""
NOTES: dict[str, Note] = {
    **{flag: _note(flag) for flag in _FLAGS.split()},
    "atom": Note(kind="origin", description="as ATOM sends it", links=("adoption.md",)),
    "sglang-bigrams": Note(kind="origin", description="as SGLang sends it for bigrams", links=("adoption.md",)),
    "sourced": Note(kind="origin", description="several sources in one batch", links=("adoption.md",)),
}
SALTS = ("KVW-EVT-019",)
"""Whether a salt in clear is right depends on what is declared: either answer is."""


def salted() -> list[Payload]:
    """Salts in clear, right only where they are declared."""
    told: tuple[tuple[str, str, Any, str], ...] = (
        ("extra-keys", "a salt as a bare string", one(extra_keys=[["tenant-a"]]), "vllm-33304"),
        ("key", "a salt in a key of its own", one(cache_salt="tenant-a"), "sglang-37482 dynamo-8197"),
        ("ranges", "another salt in the second block", stored(extra_keys=[["tenant-a"], ["tenant-b"]]), "vllm-52655"),
    )
    return [
        p(f"proposal-salt-{slug}", comment, batch(event), *SALTS, flags=flags) for slug, comment, event, flags in told
    ]


def taken() -> list[Payload]:
    """What a reader takes."""
    unknown, types = ("KVW-EVT-023",), ("KVW-EVT-021",)
    typed = [{"type": "lora", "name": "poems"}, {"type": "mm", "hash": DIGEST, "offset": 0}]
    return [
        p(
            "proposal-nil-keys",
            "nil `lora_name` and `medium`",
            batch(one(medium=None)),
            "KVW-EVT-005",
            flags="sglang-40601",
        ),
        p(
            "proposal-typed-extra-keys",
            "extra keys that say what they are",
            batch(one(extra_keys=[typed])),
            "KVW-EVT-029",
            flags="vllm-55487",
        ),
        p(
            "proposal-event-version",
            "the version of an event",
            batch(one(event_version=1)),
            *unknown,
            flags="vllm-55488",
        ),
        p(
            "proposal-ownership",
            "a copy that a pool owns",
            batch(one(ownership="pool"), removed(ownership="pool")),
            *types,
            flags="vllm-52067",
        ),
        p(
            "proposal-locality",
            "a copy on another host",
            batch(one(medium="CPU", locality="REMOTE")),
            *types,
            flags="vllm-48281",
        ),
        p(
            "proposal-session",
            "the session of the request",
            batch(one(session_id="s-1")),
            *types,
            flags="sglang-37482 vllm-51381",
        ),
        p(
            "proposal-sessions",
            "several sessions",
            batch(one(session_ids=["s-1", "s-2"])),
            *unknown,
            flags="sglang-37734",
        ),
        p(
            "proposal-continuation",
            "what a request continues",
            batch(one(continuation_id="c-1")),
            *unknown,
            flags="vllm-48501",
        ),
        p("proposal-reason", "why a block went", batch(removed(reason="evicted")), *unknown, flags="sglang-39604"),
        p("proposal-origin", "where a block came from", batch(one(origin="prefill")), *unknown, flags="vllm-51699"),
        p(
            "proposal-copies",
            "how many copies are left",
            batch(removed(remaining_copy_counts=[1])),
            *unknown,
            flags="vllm-48933",
        ),
        p(
            "proposal-placeholder",
            "keys without tokens: a location update",
            batch(stored(medium="CPU", token_ids=[], block_size=0)),
            "KVW-EVT-032",
            flags="vllm-43468",
        ),
        p(
            "proposal-partial-entry",
            "an entry below the block size of its group, under a parent that nobody announced",
            batch(stored(), one(block_hashes=[CHILD - 1], parent_block_hash=ROOT - 1, token_ids=[1, 2], block_size=2)),
            "KVW-EVT-033",
            flags="vllm-45939 vllm-58119",
        ),
        p(
            "proposal-skipped-keys",
            "reserved keys, on full blocks",
            batch(one(skipped_token_ids=[])),
            *unknown,
            flags="vllm-44488",
        ),
        p(
            "proposal-lookahead",
            "tokens of the next block",
            batch(one(lookahead_token_ids=[5, 6])),
            *unknown,
            flags="vllm-50438",
        ),
        p(
            "proposal-inactive",
            "an event of another type, in a batch of its own",
            batch({"type": "BlockInactive", "block_hashes": [ROOT], "medium": "GPU"}),
            "KVW-EVT-024",
            "KVW-EVT-034",
            flags="vllm-50732",
        ),
        p(
            "proposal-transferred",
            "another one",
            batch({"type": "BlockTransferred", "block_hashes": [ROOT], "from": "GPU", "to": "CPU"}),
            "KVW-EVT-024",
            "KVW-EVT-034",
            flags="atom",
        ),
        p(
            "proposal-clear-medium",
            "a clear that spares other media",
            batch({**CLEARED, "medium": "GPU"}),
            "KVW-RES-011",
        ),
        p(
            "proposal-clear-owner",
            "a clear that spares shared copies",
            batch({**CLEARED, "ownership": None}),
            "KVW-RES-011",
        ),
        p(
            "proposal-epoch",
            "a clear that names its incarnation",
            batch({**CLEARED, "epoch": "0198c3"}),
            "KVW-SEQ-014",
            flags="vllm-57789",
        ),
        p("proposal-heartbeat", "an empty batch", batch(), "KVW-BAT-005", flags="vllm-57789"),
        p(
            "proposal-picture-session",
            "a digest token, with a session",
            batch(picture(session_id=None)),
            *types,
            flags="vllm-51381",
        ),
    ]


def refused() -> list[Bad]:
    """What a sentence forbids."""
    source = [{"source": "worker-1", "events": [0]}]
    return [
        bad(
            "semantics",
            "token-count",
            "proposal-sparse",
            "two hashes, and the tokens of three blocks",
            batch(stored(token_ids=list(range(12)))),
        ),
        bad(
            "semantics",
            "token-count",
            "proposal-skipped-blocks",
            "a block is left out of the hashes, and its tokens stand in a key of their own",
            batch(stored(token_ids=[1, 2, 3, 4, 5, 6], skipped_token_ids=[7, 8])),
        ),
        bad(
            "schema",
            "token-type",
            "proposal-bigrams",
            "each token with the next one",
            batch(one(token_ids=[[1, 2], [2, 3], [3, 4], [4, 5]])),
        ),
        bad(
            "schema",
            "batch-length",
            "proposal-sources",
            "a fourth element: who the events are of",
            [*batch(one()), source],
        ),
    ]


FORBIDDEN = {
    "proposal-sparse": "vllm-44451",
    "proposal-skipped-blocks": "vllm-44488",
    "proposal-bigrams": "sglang-bigrams",
    "proposal-sources": "sourced",
}
"""The proposals of what is refused."""
