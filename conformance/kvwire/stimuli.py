"""What the harness did to a publisher, read back from the records of a trace.

A stimulus record's ``event`` is the adapter verb; its ``detail`` holds the request's arguments and the answer's fields
side by side: ``publish`` → ``batch`` (the projection) and ``accepted``; ``cache`` → ``tokens lora salt mm`` and
``cached_tokens``; ``resident`` → ``hashes``; ``stats`` → its counters. A verb that failed has ``refused``,
``unsupported`` or ``error``. A replay request is ``replay-request`` {client, start, kind} and ends with
``replay-done`` {client, outcome}; ``replay-behind`` {client, start} is a well-formed request behind a malformed one on
the same connection, whose end marker shows that the first was read. A wait for a reset to show ends with
``reset-done`` {outcome}.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kvwire.events import TWO_64, Event
from kvwire.projection import plain_event, read_float
from kvwire.trace import Record, Source

FAILED = ("refused", "unsupported", "error")
WELL_FORMED = "well-formed"


def succeeded(record: Record, verb: str) -> bool:
    """Whether the record is a stimulus of that verb which the publisher carried out."""
    return (
        record.source == Source.STIMULUS
        and record.event == verb
        and not any(failure in record.detail for failure in FAILED)
    )


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One batch that the harness offered through ``publish``: the record, its ``ts`` bits, its events and rank.

    ``failed``: the adapter refused it or erred, so that it may not have reached the publisher.
    """

    record: int
    ts: bytes
    events: tuple[Mapping[str, Any], ...]
    accepted: bool
    rank: int | None = None
    failed: bool = False


def offers(records: Sequence[tuple[int, Record]]) -> tuple[Offer, ...]:
    """Every offered batch of a stream, in order."""
    found: list[Offer] = []
    for index, record in records:
        if record.source != Source.STIMULUS or record.event != "publish" or "batch" not in record.detail:
            continue
        batch = record.detail["batch"]
        found.append(
            Offer(
                record=index,
                ts=struct.pack(">d", read_float(batch["ts"])),
                events=tuple(plain_event(event) for event in batch["events"]),
                accepted=bool(record.detail.get("accepted", False)),
                rank=batch.get("data_parallel_rank"),
                failed=any(failure in record.detail for failure in FAILED),
            )
        )
    return tuple(found)


def same_event(offered: Mapping[str, Any], seen: Event) -> bool:
    """Whether an event on the wire is what was offered, hashes compared mod 2^64."""
    if offered.get("type") != seen.tag:
        return False
    if seen.kind == "cleared":
        return True
    if offered.get("hash_algo") not in (None, seen.hash_algo):  # a publisher may announce what it is configured for
        return False
    hashes = tuple(value % TWO_64 for value in offered.get("block_hashes", ()) if isinstance(value, int))
    if hashes != seen.hashes or offered.get("medium") != seen.medium or (offered.get("group_idx") or 0) != seen.group:
        return False
    if seen.kind == "removed":
        return True
    parent = offered.get("parent_block_hash")
    tokens = tuple(bytes.fromhex(t) if isinstance(t, str) else t for t in offered.get("token_ids", ()))
    return (
        (None if parent is None else parent % TWO_64) == seen.parent
        and tokens == seen.tokens
        and offered.get("block_size") == seen.block_size
        and offered.get("lora_id") == seen.lora_id
        and offered.get("lora_name") == seen.lora_name
        and offered.get("kv_cache_spec_kind") == seen.spec_kind
        and offered.get("kv_cache_spec_sliding_window") == seen.window
    )


def recognised(offered: Mapping[str, Any], seen: Event) -> bool:
    """Whether an event on the wire can only be the offered one, whatever became of its other values on the way."""
    hashes = tuple(value % TWO_64 for value in offered.get("block_hashes") or () if isinstance(value, int))
    return offered.get("type") == seen.tag and hashes == seen.hashes


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt that the harness ran through ``cache``: tokens as they stand in events, and its reuse scope."""

    record: int
    tokens: tuple[int | bytes, ...]
    lora: int | None
    salt: str | None
    cached_tokens: int | None


def prompts(records: Sequence[tuple[int, Record]]) -> tuple[Prompt, ...]:
    """Every prompt of a stream, in order."""
    found: list[Prompt] = []
    for index, record in records:
        if not succeeded(record, "cache"):
            continue
        detail = record.detail
        lora, cached = detail.get("lora"), detail.get("cached_tokens")
        found.append(
            Prompt(
                record=index,
                tokens=tuple(bytes.fromhex(t) if isinstance(t, str) else int(t) for t in detail["tokens"]),
                lora=None if lora is None else int(lora),
                salt=detail.get("salt"),
                cached_tokens=None if cached is None else int(cached),
            )
        )
    return tuple(found)
