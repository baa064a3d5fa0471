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
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import msgspec
import xxhash

from kvwire.hashes.functions import Scope, Token
from kvwire.hashes.packing import token_bytes
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event

WINDOW = 65_536
"""How many hashes of an incarnation are remembered, those least recently used forgotten first."""
ROOT = b""
_MARK = b"\xff" * 8
"""Stands before a digest, so that it is told from token ids."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Window(Generic[K, V]):
    """A mapping that keeps what was used last and counts what it forgot."""

    def __init__(self, size: int = WINDOW) -> None:
        self.size = size
        self.forgotten = 0
        self.kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self.kept)

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the last that is forgotten."""
        value = self.kept.get(key)
        if value is not None:
            self.kept.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self.kept[key] = value
        self.kept.move_to_end(key)
        if len(self.kept) > self.size:
            self.kept.popitem(last=False)
            self.forgotten += 1

    def shrink(self) -> None:
        """Forget what is too much."""
        while len(self.kept) > self.size:
            self.kept.popitem(last=False)
            self.forgotten += 1

    def clear(self) -> None:
        """Keep nothing more of an incarnation that is over."""
        self.kept.clear()
        self.forgotten = 0


def extend(above: bytes, tokens: Sequence[Token]) -> bytes:
    """The identity (16 bytes) of a chain: that of the chain above and one block of tokens."""
    return xxhash.xxh3_128_digest(above + packed(tokens))


def packed(tokens: Sequence[Token]) -> bytes:
    """Tokens as bytes: four each, little-endian; a digest is told from any four."""
    try:
        return token_bytes(tokens)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return b"".join(
            _MARK + t if isinstance(t, bytes) else t.to_bytes(4 if t < 2**32 else 8, "little") for t in tokens
        )


class Text(NamedTuple):
    """The tokens of a chain from its root, however they are cut into blocks: two checksums of their bytes, and how many
    bytes.
    """

    crc: int
    adler: int
    length: int

    @property
    def tokens(self) -> int:
        """How many tokens it has, if all of them are text."""
        return self.length // 4

    def longer(self, data: bytes) -> Text:
        """These tokens, and more."""
        return Text(zlib.crc32(data, self.crc), zlib.adler32(data, self.adler), self.length + len(data))


NOTHING = Text(0, 1, 0)


def longer(above: Text, tokens: Sequence[Token]) -> Text:
    """The tokens above, and one block more."""
    return above.longer(packed(tokens))


Chain = bytes | Text
"""What identifies the tokens of a chain from its root: with their borders where prompts of ours tell how they are cut,
else without.
"""


class Strand(msgspec.Struct, gc=False):
    """The blocks of a store without faults, as they are remembered until somebody asks for one of them as a link.

    ``data`` are their tokens, four bytes each, ``number`` is the batch's. ``rooted``: their chain was seen from its
    root. ``function`` names the one of which ``keys`` are the full keys, block by block, None where it does not tell
    anything of them; ``claimed``: keys are not kept, and follow from the tokens of the chain. ``above`` is the text of
    the chain above, once somebody asked for it.
    """

    hashes: tuple[int, ...]
    parent: int | None
    size: int
    data: bytes
    rooted: bool
    plain: bool
    function: str | None
    keys: tuple[bytes, ...] | None
    claimed: bool
    number: int
    above: Text | None = None

    def index(self, value: int) -> int:
        """Which of its blocks has a hash."""
        return len(self.hashes) - 1 if self.hashes[-1] == value else self.hashes.index(value)

    def own(self, at: int) -> bytes:
        """The tokens of one block."""
        width = 4 * self.size
        return self.data[at * width : (at + 1) * width]


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One stored block in its chain.

    ``own`` identifies the block's tokens, ``chain`` all tokens from the root (None when the root was not seen, or was
    forgotten), ``text`` the same without the borders of blocks, ``size`` is that of the block. ``items`` are the
    digests of the multimodal items that it is said to hold, sorted: they are listed in any order (None when nothing is
    said). ``scopes`` are the scopes in which such a chain can have been run; empty when no prompt of ours explains it.
    ``ended`` are those whose prompts end at or above it. ``plain``: seen from the root, and nothing but text in it.
    """

    own: bytes
    parent: int | None
    size: int = 0
    chain: Chain | None = None
    text: Text | None = None
    items: tuple[bytes, ...] | None = None
    scopes: frozenset[Scope] = frozenset()
    ended: frozenset[Scope] = frozenset()
    plain: bool = False

    def is_of(self, size: int, data: bytes) -> bool:
        """Whether it is a block of these tokens, of text alone."""
        return self.size == size and self.items is None and self.own == xxhash.xxh3_128_digest(data)


class _Prefixes(msgspec.Struct, frozen=True):
    """For one block size: chain → the prompts that have it as prefix, and those whose last full block it is.

    ``before``: tokens of a block → of the blocks that stand before it in prompts; ``ROOT`` where it is the first one,
    or where content that is no text makes it unsure what stands there.
    """

    runs: dict[bytes, list[int]]
    ends: dict[bytes, list[int]]
    before: dict[bytes, set[bytes]]


def _may_be_of(event: Event, scope: Scope) -> bool:
    """Whether an event that names an adapter can be of a prompt: else it is somebody else's, or the engine's own."""
    return scope.lora is not None and (event.lora_name is not None or scope.lora == event.lora_id)


class Chains:
    """The chains of one stream; O(window) and the prompts."""

    def __init__(self, prompts: Sequence[Prompt], window: int = WINDOW) -> None:
        self._links: Window[int, Link | Strand] = Window(window)
        self._coarse: Window[tuple[int, int], Link] = Window(window)
        """By block size and hash, where a block of another size had the hash before."""
        self._records = [prompt.record for prompt in prompts]
        self._tokens = [prompt.tokens for prompt in prompts]
        self._scopes = [Scope(lora=prompt.lora, salt=prompt.salt) for prompt in prompts]
        self._text = {at for at, one in enumerate(prompts) if one.items == () and bytes not in map(type, one.tokens)}
        """The prompts of text alone."""
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
        held = self._links.get(value)
        return self.link(held, value) if isinstance(held, Strand) else held

    def link(self, strand: Strand, value: int) -> Link:
        """One block of a strand in its chain."""
        at = strand.index(value)
        above = self._text_above(strand) if strand.rooted else None
        text = None if above is None else above.longer(strand.data[: (at + 1) * 4 * strand.size])
        return Link(
            own=xxhash.xxh3_128_digest(strand.own(at)),
            parent=strand.hashes[at - 1] if at else strand.parent,
            size=strand.size,
            chain=text,
            text=text,
            plain=strand.plain and text is not None,
        )

    def _text_above(self, strand: Strand) -> Text | None:
        """The text of the chain above a strand, as far as its blocks are remembered."""
        below: list[tuple[Strand, int]] = []
        """Strands of which it is not known, and the last block of each in the chain."""
        at = len(strand.hashes) - 1
        text: Text | None = None
        while True:
            if strand.above is not None or strand.parent is None:
                text = strand.above or NOTHING
                break
            below.append((strand, at))
            parent = strand.parent
            held = self._links.kept.get(parent)
            if isinstance(held, Strand):
                strand, at = held, held.index(parent)
                continue
            if held is None or held.text is None:
                return None
            text = held.text
            strand, at = below.pop()
            strand.above = text
            break
        for under, last in reversed(below):
            text = text.longer(strand.data[: (at + 1) * 4 * strand.size])
            under.above = text
            strand, at = under, last
        return text

    def texts(self, newest: int | None = None) -> Iterator[tuple[Text, int]]:
        """The text and the hash of remembered blocks in whose chain nothing but text was seen, from its root.

        Of all of them, or of so many that were used last and those stored with them.
        """
        seen: set[int] = set()
        for value, held in islice(reversed(self._links.kept.items()), newest):
            if not isinstance(held, Strand):
                if held.plain and held.text is not None:
                    yield held.text, value
            elif held.plain and held.rooted and id(held) not in seen:
                seen.add(id(held))
                text = self._text_above(held)
                for at, own in enumerate(held.hashes if text is not None else ()):
                    assert text is not None
                    text = text.longer(held.own(at))
                    if self._links.kept.get(own) is held:
                        yield text, own

    @property
    def window(self) -> Window[int, Link | Strand]:
        """What is remembered, by hash."""
        return self._links

    @property
    def simple(self) -> bool:
        """Whether nothing but the order of tokens and parents is followed: no prompts, and no second size of a hash."""
        return not self._scopes and not len(self._coarse)

    def causes(self, record: int) -> int:
        """How many prompts can have been begun before the batch that ``record`` held first."""
        return bisect.bisect_left(self._records, record) + 1

    def runs(self, chain: Chain, size: int, record: int | None = None, since: int = -1) -> list[Scope]:
        """The scope of every prompt that has the chain as prefix, begun before ``record`` or ever, in order.

        ``since``: only of those whose record is not before that one.
        """
        before = len(self._scopes) if record is None else self.causes(record)
        numbers = self._of(size).runs.get(chain, ()) if isinstance(chain, bytes) else ()
        return [self._scopes[number] for number in numbers if number < before and self._records[number] >= since]

    def _of(self, size: int) -> _Prefixes:
        if (known := self._prefixes.get(size)) is not None:
            return known
        found = self._prefixes[size] = _Prefixes({}, {}, {})
        for number, tokens in enumerate(self._tokens):
            chain = last = ROOT
            for start in range(0, len(tokens) - size + 1, size):
                chain = extend(chain, tokens[start : start + size])
                found.runs.setdefault(chain, []).append(number)
                own = xxhash.xxh3_128_digest(packed(tokens[start : start + size]))
                found.before.setdefault(own, set()).add(last)
                last = own if number in self._text else ROOT
            found.ends.setdefault(chain, []).append(number)
        return found

    def strays(self, link: Link) -> bool:
        """Whether prompts have a block, and none of them has it behind the block that is named as its parent."""
        if not self._scopes or link.parent is None:
            return False
        above, before = self.get(link.parent), self._of(link.size).before.get(link.own)
        if above is None or above.size != link.size or not before or link.own == above.own:
            return False
        return ROOT not in before and above.own not in before

    def _ended(self, chain: bytes, size: int, before: int) -> frozenset[Scope]:
        return frozenset(self._scopes[number] for number in self._of(size).ends.get(chain, ()) if number < before)

    def stored(self, event: Event, record: int, *, plain: bool = True) -> list[tuple[Link, Link | None]]:
        """The blocks of a ``whole`` event as links, each with the link that the same hash had before.

        ``plain`` is false when the event gives the blocks content besides tokens. Scopes of prompts are left out that
        the event cannot be of by the adapter that it names.
        """
        size = event.block_size or 0
        before = self.causes(record)
        found: list[tuple[Link, Link | None]] = []
        parent = event.parent
        above = None if parent is None else self._coarse.get((size, parent)) or self.get(parent)
        root_ended = self._ended(ROOT, size, before) if parent is None else frozenset()
        for index, value in enumerate(event.hashes):
            tokens = event.block(index)
            keys = None if event.mm_keys is None or index >= len(event.mm_keys) else event.mm_keys[index]
            items = None if keys is None else tuple(sorted(digest for digest, _ in keys))
            link = self._link(tokens, parent, above, root_ended, size, before, plain=plain, items=items)
            if event.lora_id or event.lora_name:
                own = frozenset(scope for scope in link.scopes if _may_be_of(event, scope))
                link = msgspec.structs.replace(link, scopes=own)
            prior = self.get(value)
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
        data = packed(tokens)
        own = xxhash.xxh3_128_digest(data)
        if parent is None:
            ended, text = root_ended, NOTHING.longer(data)
        elif above is None or above.chain is None or above.text is None:
            return Link(own=own, parent=parent, size=size, items=items)
        else:
            # Behind a block of another size borders are not those of the prompts, whose end is then not seen either.
            ended = above.ended if above.size == size else frozenset()
            text = above.text.longer(data)
            plain = plain and above.plain
        plain = plain and bytes not in map(type, tokens)
        if not self._scopes:
            return Link(own=own, parent=parent, size=size, chain=text, text=text, items=items, plain=plain)
        chain_above = ROOT if above is None else above.chain
        assert isinstance(chain_above, bytes)
        chain = xxhash.xxh3_128_digest(chain_above + data)
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
