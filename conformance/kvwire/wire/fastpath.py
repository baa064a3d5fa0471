"""The fast path: a typed decoder that is trusted only when its value encodes back to the same bytes.

Alone, typed decoding accepts an integer or NaN ``ts``, duplicate keys and more; so it is guarded: equal bytes, finite
``ts``, and nothing that the walker would call a flaw. Everything else is the walker's (``kvwire.wire.dialect``).
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from kvwire.wire.events import MEDIA, TWO_63, TWO_64, Event, Reading


class _Stored(msgspec.Struct, tag="BlockStored", tag_field="type", forbid_unknown_fields=True, omit_defaults=True):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    group_idx: int | msgspec.UnsetType = msgspec.UNSET
    kv_cache_spec_kind: str | msgspec.UnsetType = msgspec.UNSET
    kv_cache_spec_sliding_window: int | msgspec.UnsetType = msgspec.UNSET
    locality: str | msgspec.UnsetType = msgspec.UNSET
    ownership: str | msgspec.UnsetType = msgspec.UNSET
    scope: str | msgspec.UnsetType = msgspec.UNSET
    hash_algo: str | msgspec.UnsetType = msgspec.UNSET


class _WideStored(_Stored, tag="BlockStored", tag_field="type", forbid_unknown_fields=True, omit_defaults=True):
    """The same from an encoder that declares sixteen keys or more: msgspec then writes a map16 header, even for few."""

    beyond: msgspec.UnsetType = msgspec.UNSET


class _Removed(msgspec.Struct, tag="BlockRemoved", tag_field="type", forbid_unknown_fields=True, omit_defaults=True):
    block_hashes: list[int]
    medium: str | None
    group_idx: int | msgspec.UnsetType = msgspec.UNSET
    locality: str | msgspec.UnsetType = msgspec.UNSET
    ownership: str | msgspec.UnsetType = msgspec.UNSET
    hash_algo: str | msgspec.UnsetType = msgspec.UNSET


class _Cleared(msgspec.Struct, tag="AllBlocksCleared", tag_field="type", forbid_unknown_fields=True):
    pass


class _Batch(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    ts: float
    events: list[_Stored | _Removed | _Cleared]
    data_parallel_rank: int


class _WideBatch(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    ts: float
    events: list[_WideStored | _Removed | _Cleared]
    data_parallel_rank: int


MAP16 = b"\xde\x00"
"""How the header of a short map begins where an encoder has room for a long one."""

_decode = msgspec.msgpack.Decoder(_Batch).decode
_decode_wide = msgspec.msgpack.Decoder(_WideBatch).decode
_encode = msgspec.msgpack.Encoder().encode


def _value(value: Any) -> Any:
    return None if value is msgspec.UNSET else value


def _clean_hashes(hashes: list[int]) -> bool:
    return all(-TWO_63 <= value < TWO_63 and value != 0 for value in hashes)


def _fast_event(event: _Stored | _Removed | _Cleared, index: int) -> Event | None:
    """The canonical event of a typed one; None when it holds anything that the walker would call a flaw."""
    if isinstance(event, _Cleared):
        return Event(kind="cleared", tag="AllBlocksCleared", index=index, sound=True)
    medium_ok = event.medium is None or event.medium in MEDIA or event.medium.startswith("x-")
    if not medium_ok or not _clean_hashes(event.block_hashes):
        return None
    hashes = tuple(value % TWO_64 for value in event.block_hashes)
    keys = frozenset(name for name in event.__struct_fields__ if getattr(event, name) is not msgspec.UNSET)
    if isinstance(event, _Removed):
        if (_value(event.group_idx) or 0) < 0:
            return None
        return Event(
            kind="removed",
            tag="BlockRemoved",
            index=index,
            keys=keys,
            hashes=hashes,
            medium=event.medium,
            group=_value(event.group_idx) or 0,
            locality=_value(event.locality),
            ownership=_value(event.ownership),
            hash_algo=_value(event.hash_algo),
            sound=True,
        )
    parent = event.parent_block_hash
    if (parent is not None and not _clean_hashes([parent])) or event.block_size <= 0 or not hashes:
        return None
    if (_value(event.kv_cache_spec_sliding_window) or 0) < 0 or (_value(event.group_idx) or 0) < 0:
        return None
    if len(event.token_ids) != len(hashes) * event.block_size or (event.lora_id or 0) < 0:
        return None
    if min(event.token_ids) < 0 or max(event.token_ids) >= 2**32:
        return None
    return Event(
        kind="stored",
        tag="BlockStored",
        index=index,
        keys=keys,
        hashes=hashes,
        parent=None if parent is None else parent % TWO_64,
        tokens=tuple(event.token_ids),
        block_size=event.block_size,
        lora_id=event.lora_id,
        lora_name=event.lora_name,
        medium=event.medium,
        group=_value(event.group_idx) or 0,
        spec_kind=_value(event.kv_cache_spec_kind),
        window=_value(event.kv_cache_spec_sliding_window),
        locality=_value(event.locality),
        ownership=_value(event.ownership),
        scope=_value(event.scope),
        hash_algo=_value(event.hash_algo),
        sound=True,
        whole=True,
    )


def read_quickly(payload: bytes) -> Reading | None:
    """Read a canonical payload without flaws; None when it is anything else, and the walker must look.

    Its events carry no byte offsets.
    """
    try:
        batch: _Batch | _WideBatch = _decode(payload)
        if MAP16 in payload and _encode(batch) != payload:
            batch = _decode_wide(payload)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not math.isfinite(batch.ts) or not 0 <= batch.data_parallel_rank < 2**31 or _encode(batch) != payload:
        return None
    events: list[Event] = []
    for index, typed in enumerate(batch.events):
        event = _fast_event(typed, index)
        if event is None:
            return None
        events.append(event)
    return Reading(
        form="map" if events else "none",
        ts=batch.ts,
        events=tuple(events),
        rank=batch.data_parallel_rank,
        fast=True,
    )
