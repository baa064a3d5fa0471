"""What a consumer asks, holds and is sure of, step by step (spec/consumer.md)."""

from __future__ import annotations

from kvwire.vectors.model import ConsumerFile, Note
from kvwire_generators.following import keeping, looking, resynchronising
from kvwire_generators.making import links, make

SCHEMA = "kvwire/vectors/consumer/1"


def _property(description: str, *requirements: str) -> Note:
    return Note(kind="property", description=description, requirements=requirements, links=links(*requirements))


NOTES: dict[str, Note] = {
    "early": _property(
        "the next request starts behind what came of an answer without an end; a consumer that waits for the end "
        "marker asks from where it stood, which is as right"
    ),
    "no-replay": _property("a stream without replay"),
    "streams": _property("several streams"),
    "counted": _property("counted residency is declared", "KVW-RES-004"),
    "epoch": _property("a clear names the incarnation", "KVW-SEQ-014"),
    "location": _property("copies of another owner, or on another host", "KVW-RES-010"),
    "location-update": _property("a store without tokens", "KVW-EVT-032"),
    "partial-entry": _property("a store below the block size of its group", "KVW-EVT-033"),
    "scope-tag": _property("a salted chain with its scope tag", "KVW-EVT-028"),
    "unreadable": _property("a payload that is no batch"),
    "look-up": _property("prompts are looked up, for consumers that recompute hashes", "KVW-HSH-011"),
    "wrong-function": _property(
        "the hashes are those of another function than the announced one; a consumer that takes them for those of a "
        "salted scope leaves `reproduces` out",
        "KVW-HSH-015",
    ),
}
_GROUPS = {
    "consumer/resynchronisation": resynchronising.groups,
    "consumer/residency": keeping.groups,
    "consumer/lookup": looking.groups,
}


def files() -> dict[str, ConsumerFile]:
    """The files of ``consumer/``."""
    found: dict[str, ConsumerFile] = {}
    for name, groups in _GROUPS.items():
        found[f"{name}.json"] = make(SCHEMA, __name__, groups(), NOTES)
    return found
