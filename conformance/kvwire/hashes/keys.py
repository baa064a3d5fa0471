"""What else of an event than tokens enters the hashes of its blocks: extra keys, and multimodal keys."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwire.wire.events import TWO_64, Event


def plain_keys(value: Any) -> Any:
    """Extra keys as a serialiser of the publisher had them: tuples of text, bytes and integers.

    Raises:
        TypeError: when they hold anything else.
    """
    if isinstance(value, list):
        return tuple(plain_keys(item) for item in value)
    if value is None or isinstance(value, str | bytes | int):
        return value
    raise TypeError(f"extra keys of {type(value).__name__}")


def extra_keys(payload: bytes, event: Event) -> tuple[tuple[Any, ...] | None, ...] | None:
    """The extra keys of each block of an event, from its payload; None when it has none that can be read."""
    if "extra_keys" not in event.keys:
        return None
    try:
        raw = msgspec.msgpack.decode(payload[event.start : event.end])
        keys = plain_keys(raw["extra_keys"] if isinstance(raw, dict) else raw[8])
    except (msgspec.MsgspecError, TypeError, KeyError, IndexError):
        return None
    if not isinstance(keys, tuple) or len(keys) != len(event.hashes):
        return None
    return keys if all(key is None or isinstance(key, tuple) for key in keys) else None


def kinded(keys: tuple[Any, ...], *, first: bool) -> tuple[Any, ...]:
    """The extra keys of vLLM with their kinds, which its events leave out, of a block without LoRA adapter: the first
    of its chain, or another.

    Raises:
        LookupError: when they do not tell what they are.
    """
    if sum(isinstance(key, str) for key in keys) > first:
        raise LookupError
    return tuple(map(_kinded, keys))


def _kinded(key: Any) -> tuple[Any, ...]:
    match key:
        case str():
            return "cache_salt", key
        case bytes():
            return "prompt_embeds", key
        case (str(), int()):
            return "mm", *key
    raise LookupError


def readable(event: Event) -> bool:
    """Whether the multimodal keys of an event can enter its hashes: one list a block, offsets of 64 bits."""
    if event.mm_keys is None or len(event.mm_keys) != len(event.hashes):
        return False
    return all(0 <= offset < TWO_64 for keys in event.mm_keys for _, offset in keys)
