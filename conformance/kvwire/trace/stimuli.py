"""What the harness did to a publisher, read back from the records of a trace.

A stimulus record's ``event`` is the adapter verb; its ``detail`` holds the request's arguments and the answer's fields
side by side: ``publish`` → ``batch`` (the projection), ``accepted`` and ``blocked_us``; ``burst`` → ``batches`` and for
each of them ``accepted`` and ``blocked_us``; ``fault`` → ``kind``; ``cache`` → ``tokens lora salt mm`` and
``cached_tokens``; ``resident`` → ``hashes``; ``stats`` → its counters. A verb that failed has ``refused``,
``unsupported`` or ``error``. A replay request is ``replay-request`` {client, start, kind} and ends with
``replay-done`` {client, outcome}; ``replay-behind`` {client, start} is a well-formed request behind a malformed one on
the same connection, whose end marker shows that the first was read. A request under pressure says its ``situation``:
``together`` with others, ``paused`` on a connection that does not read for a while, ``beyond`` the requests that may
wait there, ``behind`` them when it reads again, ``beside`` a client that does not read, on one that will be
``vanishing``, ``after`` that, or ``req`` from a REQ socket; ``connection`` names the first request of its connection,
``rcvhwm`` the receive high-water mark where it is low. ``replay-resumed`` {connection, paused_s, requests, retained}
ends a pause; ``replay-load`` {phase, rss, answer_bytes, batches} is the publisher's memory before and under requests
that nobody reads. ``live-awaited`` {during: nothing | replay | vanished, outcome: seen | bound, offered, heard} ends a
wait for live batches. ``joined`` {at, settled, complete, blocks, missing, extra} compares what a consumer that joined
late knows with what one knows that joined before. Other waits end with {outcome: seen | bound, after_s, bound_s}:
``reset-done`` for a reset to show, ``tail-done`` for the batch that was offered last.
``attack`` {attack} stands before what is done to another instance.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kvwire.trace.records import Record, Source
from kvwire.wire.events import TWO_64, Event
from kvwire.wire.projection import plain_event, read_float

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


OFFERING = frozenset({"publish", "burst", "fault"})
"""The verbs that offer batches."""


def offers(records: Sequence[tuple[int, Record]]) -> tuple[Offer, ...]:
    """Every offered batch of a stream, in order."""
    found: list[Offer] = []
    for index, record in records:
        if record.source != Source.STIMULUS or record.event not in OFFERING:
            continue
        detail = record.detail
        failed = any(failure in detail for failure in FAILED)
        if record.event == "fault":
            if not ("refused" in detail or "unsupported" in detail):
                found.append(Offer(record=index, ts=b"", events=(), accepted=False, failed=failed, doomed=True))
        elif record.event == "publish" and "batch" in detail:
            found.append(_offer(index, detail["batch"], detail.get("accepted"), detail.get("blocked_us"), failed))
        else:
            batches = detail.get("batches", ())
            accepted = detail.get("accepted") or [None] * len(batches)
            blocked = detail.get("blocked_us") or [None] * len(batches)
            found += [_offer(index, *answer, failed) for answer in zip(batches, accepted, blocked, strict=True)]
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
