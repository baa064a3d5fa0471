"""Which chain a stored block belongs to, by its tokens, and in which reuse scopes such a chain can have been run.

The wire says neither where a chain's root is nor its scope. The chain is followed by the claimed parents, through a
window of the most recently used hashes; the scopes come from the prompts that the harness ran. A prompt explains every
chain that is a prefix of it; where no prompt does, an engine that goes on by generating explains every chain that goes
on from the last full block of a prompt. (That it generates another prompt of ours, token by token, is left out of
account.) A batch can be the work of any prompt whose stimulus stands before it in the trace, and of the next one,
whose answer had not come yet.
"""

from __future__ import annotations

import bisect
import hashlib
import struct
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kvwire.hashes.functions import Scope, Token
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event

WINDOW = 65_536
"""How many hashes of an incarnation are remembered, those least recently used forgotten first."""
ROOT = b""
_MARK = b"\xff" * 8
"""Stands before a digest, where no token id of eight bytes can."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Window(Generic[K, V]):
    """A mapping that keeps what was used last and counts what it forgot."""

    def __init__(self, size: int = WINDOW) -> None:
        self.size = size
        self.forgotten = 0
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the last that is forgotten."""
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self.size:
            self._kept.popitem(last=False)
            self.forgotten += 1

    def clear(self) -> None:
        """Keep nothing more of an incarnation that is over."""
        self._kept.clear()
        self.forgotten = 0


def extend(above: bytes, tokens: Sequence[Token]) -> bytes:
    """The identity (16 bytes) of a chain: that of the chain above and one block of tokens."""
    return hashlib.blake2b(above + _packed(tokens), digest_size=16).digest()


def _packed(tokens: Sequence[Token]) -> bytes:
    try:
        return struct.pack(f"<{len(tokens)}Q", *tokens)
    except struct.error:
        return b"".join(_MARK + t if isinstance(t, bytes) else struct.pack("<Q", t) for t in tokens)


class Text(NamedTuple):
    """The tokens of a chain from its root, however they are cut into blocks: their bytes as a number, and how many."""

    number: int
    length: int


NOTHING = Text(0, 0)
_MODULUS = 2**128 - 159
"""A prime."""


def longer(above: Text, tokens: Sequence[Token]) -> Text:
    """The tokens above, and one block more."""
    own = _packed(tokens)
    number = int.from_bytes(own, "little") * pow(256, above.length, _MODULUS)
    return Text((above.number + number) % _MODULUS, above.length + len(own))


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One stored block in its chain.

    ``own`` identifies the block's tokens, ``chain`` all tokens from the root (None when the root was not seen, or was
    forgotten), ``text`` the same without the borders of blocks, ``size`` is that of the block. ``items`` are the
    digests of the multimodal items that it is said to hold (None when nothing is said). ``scopes`` are the scopes in
    which such a chain can have been run; empty when no prompt of ours explains it. ``ended`` are those whose prompts
    end at or above it. ``plain``: seen from the root, and nothing but text in it.
    """

    own: bytes
    parent: int | None
    size: int = 0
    chain: bytes | None = None
    text: Text | None = None
    items: tuple[bytes, ...] | None = None
    scopes: frozenset[Scope] = frozenset()
    ended: frozenset[Scope] = frozenset()
    plain: bool = False


class _Prefixes(msgspec.Struct, frozen=True):
    """For one block size: chain → the prompts that have it as prefix, and those whose last full block it is."""

    runs: dict[bytes, list[int]]
    ends: dict[bytes, list[int]]


class Chains:
    """The chains of one stream; O(window) and the prompts."""

    def __init__(self, prompts: Sequence[Prompt], window: int = WINDOW) -> None:
        self._links: Window[int, Link] = Window(window)
        self._coarse: Window[tuple[int, int], Link] = Window(window)
        """By block size and hash, where a block of another size had the hash before."""
        self._records = [prompt.record for prompt in prompts]
        self._tokens = [prompt.tokens for prompt in prompts]
        self._scopes = [Scope(lora=prompt.lora, salt=prompt.salt) for prompt in prompts]
        self._prefixes: dict[int, _Prefixes] = {}

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Every scope in which a prompt was run, in the order of their first prompts."""
        return tuple(dict.fromkeys(self._scopes))

    def begin(self) -> None:
        """A new incarnation: its hashes say nothing of the old one's."""
        self._links.clear()
        self._coarse.clear()

    def get(self, value: int) -> Link | None:
        """The block of a hash as it was first stored in this incarnation; None when unknown or forgotten."""
        return self._links.get(value)

    def causes(self, record: int) -> int:
        """How many prompts can have been begun before the batch that ``record`` held first."""
        return bisect.bisect_left(self._records, record) + 1

    def runs(self, chain: bytes, size: int, record: int | None = None, since: int = -1) -> list[Scope]:
        """The scope of every prompt that has the chain as prefix, begun before ``record`` or ever, in order.

        ``since``: only of those whose record is not before that one.
        """
        before = len(self._scopes) if record is None else self.causes(record)
        numbers = self._of(size).runs.get(chain, ())
        return [self._scopes[number] for number in numbers if number < before and self._records[number] >= since]

    def _of(self, size: int) -> _Prefixes:
        if (known := self._prefixes.get(size)) is not None:
            return known
        found = self._prefixes[size] = _Prefixes({}, {})
        for number, tokens in enumerate(self._tokens):
            chain = ROOT
            for start in range(0, len(tokens) - size + 1, size):
                chain = extend(chain, tokens[start : start + size])
                found.runs.setdefault(chain, []).append(number)
            found.ends.setdefault(chain, []).append(number)
        return found

    def _ended(self, chain: bytes, size: int, before: int) -> frozenset[Scope]:
        return frozenset(self._scopes[number] for number in self._of(size).ends.get(chain, ()) if number < before)

    def stored(self, event: Event, record: int, *, plain: bool = True) -> list[tuple[Link, Link | None]]:
        """The blocks of a ``whole`` event as links, each with the link that the same hash had before.

        ``plain`` is false when the event gives the blocks content besides tokens.
        """
        size = event.block_size or 0
        before = self.causes(record)
        found: list[tuple[Link, Link | None]] = []
        parent = event.parent
        above = None if parent is None else self._coarse.get((size, parent)) or self._links.get(parent)
        root_ended = self._ended(ROOT, size, before) if parent is None else frozenset()
        for index, value in enumerate(event.hashes):
            tokens = event.block(index)
            keys = None if event.mm_keys is None or index >= len(event.mm_keys) else event.mm_keys[index]
            items = None if keys is None else tuple(digest for digest, _ in keys)
            link = self._link(tokens, parent, above, root_ended, size, before, plain=plain, items=items)
            prior = self._links.get(value)
            found.append((link, prior))
            if prior is None or prior.chain is None:
                self._links.put(value, link)
            elif prior.size != size:
                self._coarse.put((size, value), link)
            parent, above = value, link
        return found

    def _link(
        self,
        tokens: tuple[Token, ...],
        parent: int | None,
        above: Link | None,
        root_ended: frozenset[Scope],
        size: int,
        before: int,
        *,
        plain: bool,
        items: tuple[bytes, ...] | None,
    ) -> Link:
        own = extend(ROOT, tokens)
        if parent is None:
            chain, ended, text = own, root_ended, longer(NOTHING, tokens)
        elif above is None or above.chain is None or above.text is None:
            return Link(own=own, parent=parent, size=size, items=items)
        else:
            chain, ended, text = extend(above.chain, tokens), above.ended, longer(above.text, tokens)
            plain = plain and above.plain
        plain = plain and bytes not in map(type, tokens)
        if not self._scopes:
            return Link(own=own, parent=parent, size=size, chain=chain, text=text, items=items, plain=plain)
        runs = [n for n in self._of(size).runs.get(chain, ()) if n < before]
        return Link(
            own=own,
            parent=parent,
            size=size,
            chain=chain,
            text=text,
            items=items,
            scopes=frozenset(self._scopes[number] for number in runs) or ended,
            ended=ended | self._ended(chain, size, before),
            plain=plain,
        )
