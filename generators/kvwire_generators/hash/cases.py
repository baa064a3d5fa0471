"""How hash tests are written down: a case is a test without its values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypedDict, Unpack

import msgspec

from kvwire.vectors.model import Cite, HashInput, MmKey, Run, TokenItem

MAX = str(2**64 - 1)
ROUNDING = str(2**53 + 1)


class Where(TypedDict, total=False):
    """Where a chain begins: the members of an input that are text."""

    parent: str
    parent_key: str
    lora_id: str
    lora_name: str
    salt_id: str
    salt: str


SCOPE: Where = {"lora_id": "7", "salt_id": "123"}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One test to be: its slug (the id without the prefix of its function), words, flags and input.

    ``fault`` makes it invalid, ``cites`` acceptable. ``known`` names a known answer with these inputs.
    """

    slug: str
    comment: str
    flags: tuple[str, ...]
    given: HashInput
    fault: str | None = None
    cites: Cite | None = None
    requirements: tuple[str, ...] = ()


def ids(name: str, count: int) -> tuple[TokenItem, ...]:
    """Ordinary token ids, ``count`` of them, that differ from test to test; a run where they are many."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    run = Run(start=1000 + seed % 30011, count=count, step=1 + seed // 30011 % 97)
    return (run,) if count > 8 else tuple(run.start + index * run.step for index in range(count))


def digest(name: str) -> str:
    """The 32-byte digest of an item, in hex."""
    return hashlib.sha256(name.encode()).hexdigest()


def item(name: str, count: int, offset: int = 32000) -> tuple[TokenItem, ...]:
    """A multimodal item of ``count`` tokens: its digest, then synthetic ids behind ``offset``."""
    return (digest(name), *(offset + index for index in range(1, count)))


def keys(*blocks: Sequence[tuple[str, int]]) -> tuple[tuple[MmKey, ...], ...]:
    """The multimodal keys of each block, from (digest, start offset)."""
    return tuple(tuple(MmKey(hash=name, start_offset=start) for name, start in block) for block in blocks)


def case(
    slug: str,
    comment: str,
    flags: str,
    tokens: Sequence[TokenItem],
    size: int,
    /,
    *,
    requirements: tuple[str, ...] = (),
    fault: str | None = None,
    cites: Cite | None = None,
    mm: tuple[tuple[MmKey, ...], ...] | None = None,
    extra: Sequence[int] | None = None,
    **where: Unpack[Where],
) -> Case:
    """A case; ``flags`` are words, ``where`` says where the chain begins."""
    given = HashInput(
        tokens=tuple(tokens), block_size=size, mm_keys=mm, extra_ids=None if extra is None else tuple(map(str, extra))
    )
    given = msgspec.structs.replace(given, **where)
    return Case(
        slug=slug,
        comment=comment,
        flags=tuple(flags.split()),
        given=given,
        fault=fault,
        cites=cites,
        requirements=requirements,
    )
