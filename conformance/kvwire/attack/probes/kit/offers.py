"""What the harness offers: prompts for an engine, and batches for a publisher that has none.

Both are seeded. Batches follow a small tree of blocks, so that what is offered keeps every sentence about events: a
parent is resident, a removal takes leaves first, nothing is stored twice, and hashes recompute. Every batch has a
``ts`` of its own, by which it is found again on the wire.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvwire.standard.protocol import Refused
from kvwire.wire.projection import batch_projection
from kvwire_reference.hashing import ALGORITHMS, ChainState, signed

FALLBACK = "v2_sha256_64/u32"
"""The function of offered hashes where the publisher declares none of the registry."""
VOCABULARY = 100_000
"""Text tokens lie below it."""
TS_STEP = 1e-5
"""The least difference of two ``ts``, in seconds: well above what a double can tell apart."""
MEDIUM = "GPU"

Event = dict[str, Any]


@dataclass(eq=False, slots=True)
class _Node:
    parent: _Node | None
    state: ChainState
    tokens: tuple[int, ...]
    children: int = 0

    @property
    def hash(self) -> int:
        assert self.state.hash is not None
        return signed(self.state.hash)


class Offers:
    """Makes prompts and batches; knows what the offered batches left resident. Tokens are of ``vocabulary``."""

    def __init__(
        self,
        seed: int,
        algorithm: str | None,
        block_size: int,
        rank: int,
        vocabulary: range = range(VOCABULARY),
    ) -> None:
        self.random = random.Random(seed)
        self._thrown = random.Random(seed + 1)
        self.algorithm = ALGORITHMS.get(algorithm or FALLBACK, ALGORITHMS[FALLBACK])
        self.block_size = block_size
        self.rank = rank
        self.vocabulary = vocabulary
        self._nodes: list[_Node] = []
        self._gone: list[_Node] = []
        self._ts = 0.0

    def throwaway(self) -> list[int]:
        """Tokens of one block that shift none of the others: how many are thrown away is not ours to say."""
        return self._drawn(self._thrown, self.block_size)

    def tokens(self, blocks: int, extra: int = 0) -> list[int]:
        """Fresh tokens: so many whole blocks, and some more."""
        return self._drawn(self.random, blocks * self.block_size + extra)

    def _drawn(self, chance: random.Random, count: int) -> list[int]:
        """What as many calls of `choice` draw, in a third of the time: an attack offers a million tokens."""
        room, draw = len(self.vocabulary), chance.getrandbits
        bits = room.bit_length()
        drawn: list[int] = []
        while len(drawn) < count:
            if (at := draw(bits)) < room:
                drawn.append(self.vocabulary[at])
        return drawn

    # batches

    @property
    def stamp(self) -> float:
        """The ``ts`` of the newest batch."""
        return self._ts

    def batch(self, *events: Event) -> dict[str, Any]:
        """The projection of a batch of these events, stamped now and later than every one before."""
        self._ts = max(time.time(), self._ts + TS_STEP)
        return batch_projection(self._ts, events, self.rank)

    def thrown(self) -> Event:
        """A store of one block that nothing else is built on."""
        event = self._store(None, self.algorithm.root(), [self.throwaway()])
        del self._nodes[-1:]
        return event

    def root(self, blocks: int, lora_id: int | None = None) -> Event:
        """A store of a new chain."""
        return self._store(None, self.algorithm.root(lora_id), [self.tokens(1) for _ in range(blocks)])

    def passing(self, blocks: int) -> Event:
        """A store of a new chain that no later offer refers to: thousands of them are not remembered here."""
        event = self.root(blocks)
        del self._nodes[-blocks:]
        return event

    def extend(self, blocks: int) -> Event:
        """A store of new blocks below a resident one; a new chain if nothing is resident."""
        if not self._nodes:
            return self.root(blocks)
        parent = self.random.choice(self._nodes)
        return self._store(parent, parent.state, [self.tokens(1) for _ in range(blocks)])

    def again(self) -> Event:
        """A store of a block that was removed, under its old parent; a new block if there is none."""
        while self._gone:
            node = self._gone.pop()
            if node.parent is None or node.parent in self._nodes:
                root = self.algorithm.root(node.state.lora_id)
                return self._store(node.parent, node.parent.state if node.parent else root, [list(node.tokens)])
        return self.extend(1)

    def remove(self, blocks: int) -> Event:
        """A removal of up to so many blocks, each a leaf when its turn comes."""
        hashes: list[int] = []
        while self._nodes and len(hashes) < blocks:
            node = self.random.choice([node for node in self._nodes if not node.children])
            self._nodes.remove(node)
            self._gone.append(node)
            if node.parent is not None:
                node.parent.children -= 1
            hashes.append(node.hash)
        return {"type": "BlockRemoved", "block_hashes": hashes, "medium": MEDIUM} if hashes else self.root(1)

    def clear(self) -> Event:
        """A clear of everything."""
        self.forget()
        return {"type": "AllBlocksCleared"}

    @contextlib.contextmanager
    def unless_refused(self) -> Iterator[None]:
        """What is made within counts as offered, unless the adapter refuses it."""
        nodes, gone = [(node, node.children) for node in self._nodes], list(self._gone)
        try:
            yield
        except Refused:
            for node, children in nodes:
                node.children = children
            self._nodes, self._gone = [node for node, _ in nodes], gone
            raise

    def forget(self) -> None:
        """Nothing is resident any more: a clear was offered, or a new life begins."""
        self._nodes.clear()
        self._gone.clear()

    def _store(self, parent: _Node | None, state: ChainState, blocks: list[list[int]]) -> Event:
        event: Event = {
            "type": "BlockStored",
            "block_hashes": [],
            "parent_block_hash": None if parent is None else parent.hash,
            "token_ids": [],
            "block_size": self.block_size,
            "lora_id": state.lora_id,
            "medium": MEDIUM,
            "lora_name": None,
        }
        for tokens in blocks:
            state = self.algorithm.next(state, tokens)
            if parent is not None:
                parent.children += 1
            parent = _Node(parent, state, tuple(tokens))
            self._nodes.append(parent)
            event["block_hashes"].append(parent.hash)
            event["token_ids"] += tokens
        return event
