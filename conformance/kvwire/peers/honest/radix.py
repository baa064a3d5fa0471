"""An engine that is a radix tree: an edge holds all pages up to where another sequence parts, and is split there.

A sequence is put into the tree when its prompt is done; the leaf that was unused longest leaves as a whole. Splitting
an edge moves pages about and is nothing that an event tells.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kvwire.peers.honest import hashers
from kvwire.peers.honest.hashers import Hasher, Scope
from kvwire.peers.honest.mark import honest
from kvwire.standard.protocol import Refused
from kvwire_reference.cache import CacheConfig
from kvwire_reference.hashing import Token
from kvwire_reference.multimodal import MmItem
from kvwire_reference.outlet import Outlet
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, signed

DEVICE = "GPU"
PageTokens = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Node:
    """The end of an edge: its pages with their hashes, what hangs below, and when it was used last."""

    parent: Node | None = None
    pages: list[PageTokens] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    children: dict[PageTokens, Node] = field(default_factory=dict)
    used: int = 0

    def walk(self) -> Iterator[Node]:
        """It and all below."""
        yield self
        for child in self.children.values():
            yield from child.walk()


class RadixEngine:
    """The cache; an event for each page that is stored, and one for each leaf that goes, its last page first."""

    hasher: ClassVar[Hasher]

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        if config.host is not None or len(config.life_cycles) > 1 or config.netting:
            raise Refused("this engine has one group and one tier")
        self._size = config.block_size
        self._capacity = config.capacity
        self._outlet = outlet
        self._roots: dict[Scope, Node] = {}
        self._held = 0
        self._clock = itertools.count(1)
        self._events: list[Event] = []
        self._last_ts = 0.0

    # what the adapter asks

    def insert(
        self, tokens: Sequence[Token], *, lora_id: int | None = None, salt: str | None = None, mm: Sequence[MmItem] = ()
    ) -> int:
        """Run a prompt."""
        text = tuple(token for token in tokens if isinstance(token, int))
        if mm or len(text) < len(tokens):
            raise ValueError("this engine takes text only")
        scope = Scope(lora_id, salt)
        pages = [text[at : at + self._size] for at in range(0, len(text) - self._size + 1, self._size)]
        hashes = self.hasher.chain(scope, pages)
        node, cached = self._matched(self._roots.setdefault(scope, Node()), pages)
        room = self._make_room(len(pages) - cached, node)
        end = cached + room
        if room:
            new = Node(node, list(pages[cached:end]), list(hashes[cached:end]), used=next(self._clock))
            node.children[pages[cached]] = new
            self._held += room
            for at in range(cached, end):
                self._stored(hashes[at], hashes[at - 1] if at else None, pages[at], scope)
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
        """Forget every page."""
        self._roots.clear()
        self._held = 0
        self._events.append(AllBlocksCleared())

    def resident(self) -> list[int]:
        """What is held."""
        return [value for root in self._roots.values() for node in root.walk() for value in node.hashes]

    def residents(self) -> Mapping[tuple[str, int], list[int]]:
        """The same."""
        return {(DEVICE, 0): self.resident()}

    # the tree

    def _matched(self, root: Node, pages: Sequence[PageTokens]) -> tuple[Node, int]:
        """Where the longest known beginning of a sequence ends, and of how many pages it is; an edge is split there."""
        node, depth = root, 0
        now = next(self._clock)
        node.used = now
        while depth < len(pages) and (child := node.children.get(pages[depth])) is not None:
            known = zip(child.pages, pages[depth:], strict=False)
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], known))
            if same < len(child.pages):
                child = self._split(child, same)
            child.used = now
            node, depth = child, depth + same
        return node, depth

    def _split(self, node: Node, at: int) -> Node:
        """Part an edge after so many pages; the upper part."""
        parent = node.parent
        assert parent is not None
        upper = Node(parent, node.pages[:at], node.hashes[:at], {node.pages[at]: node}, node.used)
        parent.children[upper.pages[0]] = upper
        node.parent, node.pages, node.hashes = upper, node.pages[at:], node.hashes[at:]
        return upper

    def _make_room(self, wanted: int, spare: Node) -> int:
        """Let leaves go until there is room for so many pages; for how many there is."""
        while self._capacity - self._held < wanted:
            leaves = [node for root in self._roots.values() for node in root.walk() if node.pages and not node.children]
            oldest = min((node for node in leaves if node is not spare), key=lambda node: node.used, default=None)
            if oldest is None:
                break
            assert oldest.parent is not None
            del oldest.parent.children[oldest.pages[0]]
            self._held -= len(oldest.pages)
            gone = tuple(signed(value) for value in reversed(oldest.hashes))
            self._events.append(BlockRemoved(block_hashes=gone, medium=DEVICE))
        return min(wanted, self._capacity - self._held)

    def _stored(self, value: int, parent: int | None, page: PageTokens, scope: Scope) -> None:
        self._events.append(
            BlockStored(
                block_hashes=(signed(value),),
                parent_block_hash=None if parent is None else signed(parent),
                token_ids=page,
                block_size=self._size,
                lora_id=scope.lora,
                medium=DEVICE,
                lora_name=None,
            )
        )


@honest(
    "radix",
    unlike="an engine that is a radix tree of edges with many pages, which are split, and evicted leaf by leaf",
    passes="RES-003 RES-012 RES-013",
)
class Radix(RadixEngine):
    hasher = hashers.registry("v2_sha256_64/u32")


@honest(
    "sglang-hashes",
    unlike="the radix tree with SGLang's hashes; the engine knows salts and no adapters",
    passes="HSH-001 HSH-002",
    statement={"algorithm": "x-sglang-sha256"},
)
class SglangHashes(RadixEngine):
    hasher = hashers.sglang()
