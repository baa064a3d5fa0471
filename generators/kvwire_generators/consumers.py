"""``wire/consumers.json``: which known consumer took which payload of the corpus, and how that is known."""

from __future__ import annotations

from typing import Literal

import msgspec

from kvwire.vectors import layout
from kvwire.vectors.model import EDITION, Note
from kvwire_generators import corpus

PATH = "wire/consumers.json"
SCHEMA = "kvwire/vectors/consumers/1"
Evidence = Literal["executed", "executed-on-a-replica", "executed-alike", "read"]


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """One decoder of one project at one version, and how what it does is known."""

    id: str
    name: str
    project: str
    version: str
    evidence: Evidence
    comment: str


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What consumers did with one payload of ``wire/corpus.json``.

    ``rejected``: the whole batch was lost. ``emptied``: an empty batch was taken for it, without an error. ``partly``:
    an event was skipped and the others were taken. Taking a batch says nothing of what is done with it later.
    """

    id: str
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    emptied: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()


class Consumers(msgspec.Struct, frozen=True, kw_only=True):
    """The file; ``count`` is the number of observations of one consumer and one payload."""

    schema: str
    spec_edition: str
    generator: str
    count: int
    notes: dict[str, Note]
    consumers: tuple[Consumer, ...]
    observations: tuple[Observation, ...]


_GITHUB = "https://github.com/"
_LLMD = f"{_GITHUB}llm-d/llm-d-router"

MATRIX: tuple[Consumer, ...] = (
    Consumer(
        id="llmd-vllm",
        name="llm-d router, adapter for vLLM",
        project=_LLMD,
        version="ebab687927f5 (2026-08-22), msgpack for Go 5.4.1",
        evidence="executed",
        comment="maps and arrays; hashes shorter than nine bytes lose the batch",
    ),
    Consumer(
        id="llmd-sglang",
        name="llm-d router, adapter for SGLang",
        project=_LLMD,
        version="ebab687927f5 (2026-08-22), msgpack for Go 5.4.1",
        evidence="executed",
        comment="arrays of at most nine slots",
    ),
    Consumer(
        id="aibrix",
        name="AIBrix, decoder of its KV event manager",
        project=f"{_GITHUB}vllm-project/aibrix",
        version="e3e10f9e4aeb (2026-08-22)",
        evidence="executed",
        comment="arrays; a batch that is rejected also ends the connection",
    ),
    Consumer(
        id="dynamo",
        name="Dynamo, zmq_wire of its KV router",
        project=f"{_GITHUB}ai-dynamo/dynamo",
        version="deserialize.rs 0917ca25, types.rs 2bd0a36d (2026)",
        evidence="executed-on-a-replica",
        comment="types, order and defaults were typed again from its source; maps and arrays",
    ),
    Consumer(
        id="sgl-router",
        name="SGLang, sgl-router, wire.rs",
        project=f"{_GITHUB}sgl-project/sglang",
        version="August 2026, before #40684",
        evidence="executed",
        comment="arrays; hashes below 2^63; at most 65,536 hashes and 1,048,576 tokens an event",
    ),
    Consumer(
        id="vllm-map",
        name="vLLM, typed decoder of its map events (msgspec)",
        project=f"{_GITHUB}vllm-project/vllm",
        version="5ac2684976ee (2026-08-07)",
        evidence="executed",
        comment="maps with all required keys",
    ),
    Consumer(
        id="vllm-array",
        name="vLLM, typed decoder of its last array events (msgspec)",
        project=f"{_GITHUB}vllm-project/vllm",
        version="8c296de63b47 (2026-05-18)",
        evidence="executed",
        comment="arrays of at least eight slots",
    ),
    Consumer(
        id="kthena",
        name="kthena, typed decoder of its runtime (msgspec)",
        project=f"{_GITHUB}volcano-sh/kthena",
        version="3cc057284c34 (2026-08-21)",
        evidence="executed",
        comment="arrays of at least six slots",
    ),
)
"""The decoders of the corpus, in the order of the letters in ``corpus.tsv``."""

OTHERS: tuple[tuple[Consumer, dict[str, tuple[str, ...]]], ...] = (
    (
        Consumer(
            id="smg",
            name="smg, kv_wire.rs of its engine servicer",
            project=f"{_GITHUB}smg-project/smg",
            version="4e80904b (2026-08)",
            evidence="read",
            comment="maps and arrays; skips an event that it cannot read and keeps the others",
        ),
        {"accepted": ("01", "02", "04", "06", "16", "30", "37", "58", "a12", "a13", "a46"), "partly": ("20", "a11")},
    ),
    (
        Consumer(
            id="vllm-router",
            name="vllm-router, policy kv_aware",
            project="vllm-router on the Python package index",
            version="0.1.17",
            evidence="executed-alike",
            comment="maps only; a missing `medium`, `lora_id` or `lora_name`, or an unknown key, loses the batch",
        ),
        {"accepted": ("01", "16"), "rejected": ("02", "04", "07", "09", "10", "21", "44")},
    ),
)
"""Consumers that were not fed the corpus, with the payloads that what is known of them settles."""

NOTES = {
    "executed": Note(kind="property", description="these very bytes were fed to the project's own decoder"),
    "executed-on-a-replica": Note(
        kind="property", description="these very bytes were fed to a decoder rebuilt from the project's source"
    ),
    "executed-alike": Note(
        kind="property", description="the project's own code was run on other payloads of the same shape"
    ),
    "read": Note(kind="property", description="read in the project's source, not run"),
}


def build() -> Consumers:
    """The file."""
    observations = []
    for row in corpus.corpus():
        found: dict[str, list[str]] = {"accepted": [], "rejected": [], "emptied": [], "partly": []}
        names = {corpus.ACCEPTED: "accepted", corpus.REJECTED: "rejected", corpus.EMPTIED: "emptied"}
        for consumer, letter in zip(MATRIX, row.seen, strict=True):
            found[names[letter]].append(consumer.id)
        for consumer, settled in OTHERS:
            for verdict, payloads in settled.items():
                if row.id.removeprefix("corpus-") in payloads:
                    found[verdict].append(consumer.id)
        observations.append(Observation(id=row.id, **{name: tuple(ids) for name, ids in found.items()}))
    return Consumers(
        schema=SCHEMA,
        spec_edition=EDITION,
        generator=__name__,
        count=sum(len(o.accepted) + len(o.rejected) + len(o.emptied) + len(o.partly) for o in observations),
        notes=NOTES,
        consumers=(*MATRIX, *(consumer for consumer, _ in OTHERS)),
        observations=tuple(observations),
    )


def write() -> bytes:
    """The bytes of the file: one consumer or payload a line."""
    file = build()
    return layout.write(
        file, notes=file.notes, consumers=layout.lines(file.consumers), observations=layout.lines(file.observations)
    )
