"""Multimodal items in a prompt: what stands in their place, and which blocks they reach into."""

from collections.abc import Sequence

import msgspec

from kvwire_reference.hashing import MmSegment, Token, digest_tokens
from kvwire_reference.wire import MmKey


class MmItem(msgspec.Struct, frozen=True):
    """A multimodal item in a prompt.

    `runs` are the `(position, length)` in tokens that it takes, in order; what the prompt holds there is
    replaced by the item's digest token and the ids that follow it. `uuid` is the user's name for it, if any.
    """

    digest: bytes
    runs: tuple[tuple[int, int], ...]
    uuid: str | None = None


def segment(key: MmKey) -> MmSegment:
    """A key as the hash functions take it."""
    return bytes.fromhex(key.hash), key.start_offset


def with_items(tokens: Sequence[Token], mm: Sequence[MmItem], id_offset: int) -> Sequence[Token]:
    """Replace the tokens of multimodal items by digest tokens and the ids that follow them."""
    if not mm:
        return tokens
    replaced = list(tokens)
    for item in mm:
        stand_ins = digest_tokens(item.digest, sum(length for _, length in item.runs), id_offset)
        for position, length in item.runs:
            if position < 0 or length < 1 or position + length > len(replaced):
                raise ValueError(f"an item takes {length} tokens at {position} of a prompt of {len(replaced)}")
            replaced[position : position + length] = stand_ins[:length]
            del stand_ins[:length]
    return replaced


def mm_keys(mm: Sequence[MmItem], start: int, end: int) -> tuple[MmKey, ...]:
    """Keys of the items that reach into the tokens `start`…`end`−1, in the order of their tokens.

    A key's `start_offset` counts the tokens of the item, in earlier runs too, before its first one here.
    """
    found: list[tuple[int, MmKey]] = []
    for item in mm:
        before = 0
        for position, length in item.runs:
            first = max(start, position)
            if first < min(end, position + length):
                found.append((first, MmKey(item.digest.hex(), before + first - position, item.uuid)))
            before += length
    return tuple(key for _, key in sorted(found, key=lambda pair: pair[0]))
