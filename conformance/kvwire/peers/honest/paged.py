"""An engine that is a table of pages: no tree, a page for each block, in one medium or in several.

A request takes the pages that the table has of its blocks, and new ones for the rest; the page that was unused longest
makes room. A page that leaves a medium goes to the one behind it, if there is one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from kvwire.peers.honest import hashers
from kvwire.peers.honest.hashers import Hasher, Scope
from kvwire.peers.honest.mark import honest
from kvwire.standard.protocol import Refused
from kvwire.standard.statement import Residency
from kvwire_reference.cache import CacheConfig
from kvwire_reference.hashing import Token, scope_tag
from kvwire_reference.multimodal import MmItem
from kvwire_reference.outlet import Outlet
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, signed

DEVICE = "GPU"


@dataclass(eq=False, frozen=True, slots=True)
class Page:
    """One block: its hash, that of its parent, its tokens, its scope, and how many blocks its chain has up to it."""

    hash: int
    parent: int | None
    tokens: tuple[int, ...]
    scope: Scope
    depth: int


class Behind(msgspec.Struct, frozen=True):
    """A medium behind the device, and how many times the pages of the device it holds."""

    medium: str
    times: float


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """How a paged engine hashes and tells.

    ``copies``: what is brought back from a medium stays there too. ``twice``: the last block of a prompt that was
    wholly cached is computed again, into a page of its own. ``names``: adapters are told by name, not by id; ``tags``:
    salts by their tags. ``keeps``: the cache outlives its publisher, and is announced to the next one.
    """

    hasher: Hasher
    behind: tuple[Behind, ...] = ()
    copies: bool = True
    residency: Residency = "set"
    twice: bool = False
    names: bool = False
    tags: bool = False
    keeps: bool = False
    extra_keys: bool = False


class Pool:
    """Pages of one medium, the longest unused first; a block can have several."""

    def __init__(self, medium: str, size: int) -> None:
        self.medium = medium
        self.size = size
        self._by_use: OrderedDict[Page, None] = OrderedDict()
        self._table: dict[int, list[Page]] = {}

    def __len__(self) -> int:
        return len(self._by_use)

    def __iter__(self) -> Iterator[Page]:
        return iter(self._by_use)

    def find(self, value: int) -> Page | None:
        """A page of the block with that hash."""
        pages = self._table.get(value)
        return pages[0] if pages else None

    def copies(self, value: int) -> int:
        """How many pages the block has."""
        return len(self._table.get(value, ()))

    def hashes(self) -> list[int]:
        """The blocks."""
        return list(self._table)

    def add(self, page: Page) -> None:
        """Take a page in."""
        self._by_use[page] = None
        self._table.setdefault(page.hash, []).append(page)

    def use(self, page: Page) -> None:
        """Mark it as just used."""
        self._by_use.move_to_end(page)

    def drop(self, page: Page) -> None:
        """Let it go."""
        del self._by_use[page]
        self._table[page.hash].remove(page)
        if not self._table[page.hash]:
            del self._table[page.hash]

    def clear(self) -> None:
        """Let all go."""
        self._by_use.clear()
        self._table.clear()

    def oldest(self, spare: set[Page]) -> Page | None:
        """The page that was unused longest, but for those."""
        return next((page for page in self._by_use if page not in spare), None)


class PagedEngine:
    """The cache; an event for each run of a request's new blocks, and one for each page that goes."""

    _outlived: ClassVar[dict[tuple[int, int], list[Pool]]] = {}
    """Of engines that keep their cache: by capacity and block size."""

    style: ClassVar[Style]

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        if config.host is not None or len(config.life_cycles) > 1 or config.netting:
            raise Refused("this engine has one group and its own tiers")
        self._size = config.block_size
        self._outlet = outlet
        sizes = [(DEVICE, config.capacity)]
        sizes += [(tier.medium, max(1, int(config.capacity * tier.times))) for tier in self.style.behind]
        self._pools = [Pool(medium, size) for medium, size in sizes]
        self._events: list[Event] = []
        self._last_ts = 0.0
        if self.style.keeps:
            self._pools = self._outlived.setdefault((config.capacity, config.block_size), self._pools)
            self._announce_all()

    # what the adapter asks

    def insert(
        self, tokens: Sequence[Token], *, lora_id: int | None = None, salt: str | None = None, mm: Sequence[MmItem] = ()
    ) -> int:
        """Run a prompt."""
        text = tuple(token for token in tokens if isinstance(token, int))
        if mm or len(text) < len(tokens):
            raise ValueError("this engine takes text only")
        scope = Scope(lora_id, salt)
        blocks = [text[at : at + self._size] for at in range(0, len(text) - self._size + 1, self._size)]
        hashes = self.style.hasher.chain(scope, blocks)
        parents: list[int | None] = [None, *hashes]
        pages = [Page(hashes[at], parents[at], blocks[at], scope, at) for at in range(len(blocks))]
        held = self._held(pages)
        cached = len(held)
        if self.style.twice and held and cached == len(pages):
            cached -= 1
            held += self._make([pages[-1]], held)
        elif cached < len(pages):
            held += self._make(pages[cached:], held)
        for page in reversed(held):  # the end of a chain goes before its beginning
            self._pools[0].use(page)
        return cached * self._size

    def flush(self) -> Batch | None:
        """Publish what happened as one batch."""
        if not self._events:
            return None
        self._last_ts = max(self._last_ts, time.time())
        batch = Batch(self._last_ts, tuple(self._events), self._outlet.rank)
        self._events.clear()
        self._outlet.publish(batch)
        return batch

    def reset(self) -> None:
        """Forget every page in every medium."""
        for pool in self._pools:
            pool.clear()
        self._events.append(AllBlocksCleared())

    def resident(self) -> list[int]:
        """What is on the device."""
        return self._pools[0].hashes()

    def residents(self) -> Mapping[tuple[str, int], list[int]]:
        """What is in each medium."""
        return {(pool.medium, 0): pool.hashes() for pool in self._pools}

    # pages

    def _held(self, pages: Sequence[Page]) -> list[Page]:
        """The pages of a prompt's beginning that are on the device, or are brought there."""
        held: list[Page] = []
        for wanted in pages:
            page = self._pools[0].find(wanted.hash)
            if page is not None:
                self._pools[0].use(page)
                if self.style.residency == "refresh":
                    self._stored(DEVICE, [page])
            else:
                page = self._brought_back(wanted, held)
                if page is None:
                    break
            held.append(page)
        return held

    def _brought_back(self, wanted: Page, held: Sequence[Page]) -> Page | None:
        for pool in self._pools[1:]:
            there = pool.find(wanted.hash)
            if there is None:
                continue
            pool.drop(there)  # taken first: what leaves the device must not push it out
            made = self._make([wanted], held)
            if made and not self.style.copies:
                self._removed(pool.medium, there)
            else:
                pool.add(there)
                self._trim(self._pools.index(pool))
            return made[0] if made else None
        return None

    def _make(self, pages: Sequence[Page], held: Sequence[Page]) -> list[Page]:
        """New pages on the device, as far as there is room that the request itself does not need."""
        device = self._pools[0]
        made: list[Page] = []
        spare = set(held)
        for page in pages:
            if len(device) >= device.size:
                oldest = device.oldest(spare)
                if oldest is None:
                    break
                self._leave(0, oldest)
            new = replace(page)
            device.add(new)
            spare.add(new)
            made.append(new)
        told = made if self.style.residency != "set" else [page for page in made if device.copies(page.hash) == 1]
        if told:
            self._stored(DEVICE, told)
        return made

    def _leave(self, level: int, page: Page) -> None:
        """A page leaves its medium, for the next one behind it if there is one."""
        pool = self._pools[level]
        pool.drop(page)
        if level + 1 < len(self._pools) and not pool.copies(page.hash):
            behind = self._pools[level + 1]
            there = behind.find(page.hash)
            if there is not None:
                behind.use(there)
            else:
                behind.add(page)
                self._stored(behind.medium, [page])
                self._trim(level + 1)
        if self.style.residency == "counted" or not pool.copies(page.hash):
            self._removed(pool.medium, page)

    def _trim(self, level: int) -> None:
        pool = self._pools[level]
        while len(pool) > pool.size:
            oldest = pool.oldest(set())
            assert oldest is not None
            self._leave(level, oldest)

    # events

    def _stored(self, medium: str, pages: Sequence[Page]) -> None:
        scope = pages[0].scope
        style = self.style
        name = scope.lora_name
        self._events.append(
            BlockStored(
                block_hashes=tuple(signed(page.hash) for page in pages),
                parent_block_hash=None if pages[0].parent is None else signed(pages[0].parent),
                token_ids=tuple(token for page in pages for token in page.tokens),
                block_size=self._size,
                lora_id=None if style.names else scope.lora,
                medium=medium,
                lora_name=name if style.names else None,
                extra_keys=tuple([name] if name else None for _ in pages) if style.extra_keys else None,
                scope=scope_tag(scope.salt) if style.tags and scope.salt is not None else None,
            )
        )

    def _removed(self, medium: str, page: Page) -> None:
        self._events.append(BlockRemoved(block_hashes=(signed(page.hash),), medium=medium))

    def _announce_all(self) -> None:
        """Say what outlived the publisher before, parents first: they can be in another medium."""
        held = [(page.depth, pool.medium, page) for pool in self._pools for page in pool]
        for _, medium, page in sorted(held, key=lambda item: item[0]):
            self._stored(medium, [page])
        self.flush()


@honest(
    "paged",
    unlike="an engine that is a table of pages without a tree; removals come one by one",
    passes="RES-003 RES-013",
)
class Paged(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"))


@honest(
    "host-and-disk",
    unlike="what leaves the device goes to the host, and from there to a disk; what is hit there is copied back",
    passes="RES-003 RES-013",
)
class HostAndDisk(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"), behind=(Behind("CPU", 0.5), Behind("DISK", 1.0)))


@honest(
    "host-moves",
    unlike="a block is on the device or on the host, never on both: a hit on the host moves it back",
    passes="RES-003 RES-013",
)
class HostMoves(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"), behind=(Behind("CPU", 1.0),), copies=False)


@honest(
    "counted",
    unlike="a block can have two pages: each is stored, and each is removed",
    passes="RES-004",
    statement={"residency": "counted"},
)
class Counted(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"), residency="counted", twice=True)


@honest(
    "second-page-untold",
    unlike="a block can have two pages, of which the first is announced, and the last removed",
    passes="RES-003 RES-013",
)
class SecondPageUntold(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"), twice=True)


@honest(
    "announces-hits",
    unlike="a block is announced again whenever a prompt hits it",
    passes="RES-003 RES-013",
    statement={"residency": "refresh"},
)
class AnnouncesHits(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"), residency="refresh")


@honest(
    "keeps-its-cache",
    unlike="the cache outlives the publisher; a new life announces the survivors after its leading clear",
    passes="RES-003 RES-005 RES-013",
)
class KeepsItsCache(PagedEngine):
    style = Style(hasher=hashers.registry("v2_sha256_64/u32"), behind=(Behind("CPU", 1.0),), keeps=True)


@honest(
    "opaque",
    unlike="hashes are a secret of its own",
    passes="RES-003 RES-013",
    statement={"algorithm": "opaque"},
)
class Opaque(PagedEngine):
    style = Style(hasher=hashers.opaque())


@honest(
    "vllm-hashes",
    unlike="hashes are vLLM's, adapters are told by name and stand in `extra_keys`, salts by their tags",
    passes="HSH-001 HSH-002 HSH-005",
    statement={"algorithm": "x-vllm-sha256-cbor/bare"},
    salt="tag",
)
class VllmHashes(PagedEngine):
    style = Style(hasher=hashers.vllm(), names=True, tags=True, extra_keys=True)


@honest(
    "vllm-hashes-seeded",
    unlike="hashes are vLLM's with a seed that only the operator knows; adapters are told by name and no other way",
    passes="HSH-005 RES-003",
    statement={"algorithm": "opaque"},
)
class VllmHashesSeeded(PagedEngine):
    style = Style(hasher=hashers.vllm("42"), names=True)


@honest(
    "dynamo-hashes",
    unlike="hashes are Dynamo's; the engine knows neither adapters nor salts",
    passes="HSH-001 HSH-002",
    statement={"algorithm": "x-dynamo-xxh3"},
)
class DynamoHashes(PagedEngine):
    style = Style(hasher=hashers.dynamo())


@honest(
    "dynamo-hashes-seeded",
    unlike="hashes are Dynamo's with another seed",
    passes="HSH-008 RES-003",
    statement={"algorithm": "opaque"},
)
class DynamoHashesSeeded(PagedEngine):
    style = Style(hasher=hashers.dynamo(7))
