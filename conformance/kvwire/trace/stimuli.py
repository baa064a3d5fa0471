"""What the harness did to a publisher, as judges take it: batches offered and prompts run."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from kvwire.trace.calls import BurstCall, CacheCall, FaultCall, PublishCall
from kvwire.trace.records import Records, told
from kvwire.wire.events import DIGEST, TWO_64, Event
from kvwire.wire.projection import plain_event, read_float


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One batch that was offered through the adapter: the record, its ``ts`` bits, its events and rank.

    ``failed``: the adapter refused it or erred, so that it may not have reached the publisher. ``doomed``: it comes to
    grief as the harness wanted (``fault``); what it holds is the adapter's. ``blocked_us`` is how long the call took.
    """

    record: int
    ts: bytes
    events: tuple[Mapping[str, Any], ...]
    accepted: bool
    rank: int | None = None
    failed: bool = False
    doomed: bool = False
    blocked_us: int | None = None


def offers(records: Records) -> tuple[Offer, ...]:
    """Every offered batch of a stream, in order."""
    found: list[Offer] = []
    for index, record in records:
        match record.detail:
            case FaultCall(refused=None, unsupported=None) as call:
                failed = not call.succeeded
                found.append(Offer(record=index, ts=b"", events=(), accepted=False, failed=failed, doomed=True))
            case PublishCall(batch=Mapping() as batch) as call:
                found.append(_offer(index, batch, call.accepted, call.blocked_us, not call.succeeded))
            case BurstCall(batches=batches) as call if batches:
                accepted = call.accepted or [None] * len(batches)
                blocked = call.blocked_us or [None] * len(batches)
                answers = zip(batches, accepted, blocked, strict=True)
                found += [_offer(index, *answer, not call.succeeded) for answer in answers]
    return tuple(found)


def _offer(record: int, batch: Mapping[str, Any], accepted: bool | None, blocked: int | None, failed: bool) -> Offer:
    return Offer(
        record=record,
        ts=struct.pack(">d", read_float(batch["ts"])),
        events=tuple(plain_event(event) for event in batch["events"]),
        accepted=bool(accepted),
        rank=batch.get("data_parallel_rank"),
        failed=failed,
        blocked_us=blocked,
    )


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
    tokens = tuple(
        bytes.fromhex(t) if isinstance(t, str) and DIGEST.match(t) else t for t in offered.get("token_ids", ())
    )
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
    """One prompt that the harness ran through ``cache``: tokens as they stand in events, and its reuse scope.

    ``items`` are its multimodal items, each a digest and the runs (position, length) that it takes; None: not known.
    """

    record: int
    tokens: tuple[int | bytes, ...]
    lora: int | None
    salt: str | None
    cached_tokens: int | None
    items: tuple[tuple[bytes, tuple[tuple[int, int], ...]], ...] | None = None


def _items(call: CacheCall) -> tuple[tuple[bytes, tuple[tuple[int, int], ...]], ...] | None:
    if not call.mm:
        return None if any(isinstance(token, str) for token in call.tokens) else ()
    try:
        return tuple(
            (bytes.fromhex(item["digest"]), tuple((int(at), int(length)) for at, length in item["runs"]))
            for item in call.mm
        )
    except (KeyError, TypeError, ValueError):
        return None


def prompts(records: Records) -> tuple[Prompt, ...]:
    """Every prompt of a stream, in order."""
    return tuple(
        Prompt(
            record=index,
            tokens=tuple(bytes.fromhex(token) if isinstance(token, str) else token for token in call.tokens),
            lora=None if call.lora is None else int(call.lora),
            salt=call.salt,
            cached_tokens=call.cached_tokens,
            items=_items(call),
        )
        for index, call in told(records, CacheCall)
        if call.succeeded
    )
