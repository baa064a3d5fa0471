"""The inputs of hash tests as numbers and bytes, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from kvwire.vectors.model import HashInput, Run, TokenItem

Token = int | bytes


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One block of a chain: its tokens, its extra ids (None: not in use) and its multimodal keys."""

    tokens: tuple[Token, ...]
    extra: tuple[int, ...] | None = None
    mm: tuple[tuple[bytes, int], ...] = ()


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """A whole input: where the chain begins, its reuse scope, and its blocks."""

    blocks: tuple[Piece, ...]
    parent: int | None = None
    parent_key: bytes | None = None
    lora: int | None = None
    salt: int | None = None


def expand(items: Iterable[TokenItem]) -> tuple[Token, ...]:
    """The tokens that a list stands for: ids, 32 bytes for a digest, and the ids of each run."""
    tokens: list[Token] = []
    for item in items:
        if isinstance(item, Run):
            tokens.extend(item.start + index * item.step for index in range(item.count))
        else:
            tokens.append(bytes.fromhex(item) if isinstance(item, str) else item)
    return tuple(tokens)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def read(given: HashInput) -> Chain:
    """The input of a test as numbers and bytes; without tokens it has no block."""
    tokens, size = expand(given.tokens), given.block_size or 1
    blocks = []
    for index, start in enumerate(range(0, len(tokens), size)):
        extra = None if given.extra_ids is None else tuple(map(int, given.extra_ids[start : start + size]))
        keys = () if given.mm_keys is None else given.mm_keys[index]
        mm = tuple((bytes.fromhex(key.hash), key.start_offset) for key in keys)
        blocks.append(Piece(tokens=tokens[start : start + size], extra=extra, mm=mm))
    return Chain(
        blocks=tuple(blocks),
        parent=_number(given.parent),
        parent_key=None if given.parent_key is None else bytes.fromhex(given.parent_key),
        lora=_number(given.lora_id),
        salt=_number(given.salt_id),
    )


def rounded(value: int) -> int:
    """An integer that went through floating point and was printed again: its shortest decimal of 53 bits."""
    return int(Decimal(repr(float(value))))
