"""Streams to measure with: batches as an engine sends them, without a fault or with one deviation in all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from kvwire_reference import hashing

Shape = Literal["a", "b", "c"]
Function = Literal["v1", "v2"]
Deviation = Literal["", "unsigned", "array", "x-key"]

SHAPES: dict[Shape, tuple[int, int, int]] = {"a": (1, 1, 128), "b": (16, 1, 128), "c": (1, 4, 16)}
"""Events of a batch, blocks of an event, tokens of a block."""
LENGTH = 64
"""Blocks of a chain, about."""
REMOVING = 0.3
"""The share of batches with a removal."""
LABELS: dict[Function, str] = {"v1": "v1_block_key", "v2": "v2_sha256_64/u32"}


class Stream:
    """Batches of one shape, and the tokens in them. ``capacity``: more blocks than so many are removed at once."""

    def __init__(
        self,
        shape: Shape,
        function: Function,
        batches: int,
        deviation: Deviation = "",
        *,
        capacity: int | None = None,
        seed: int = 1,
    ) -> None:
        self._random = random.Random(seed)
        self._function = function
        self._algorithm = hashing.ALGORITHMS[LABELS[function]]
        self._deviation = deviation
        self._resident: list[int] = []
        self._chain: list[hashing.ChainState] = []
        self._length = 0
        self._events, self._blocks, self._size = SHAPES[shape]
        self.tokens = batches * self._events * self._blocks * self._size
        self._capacity = capacity
        self._count = batches

    @property
    def payloads(self) -> Iterator[bytes]:
        """The batches as they stand on the wire, one after the other."""
        return map(msgspec.msgpack.encode, self._batches(self._count))

    def _batches(self, count: int) -> Iterator[list[Any]]:
        for number in range(count):
            events: list[Any] = [] if number else [{"type": "AllBlocksCleared"}]
            if self._resident and self._random.random() < REMOVING:
                at = self._random.randrange(len(self._resident))
                self._resident[at], self._resident[-1] = self._resident[-1], self._resident[at]
                events.append(
                    self._formed("BlockRemoved", block_hashes=[self._wire(self._resident.pop())], medium="GPU")
                )
            if self._capacity is not None and len(self._resident) > self._capacity:
                gone = [self._wire(value) for value in self._resident[: self._capacity // 8]]
                del self._resident[: self._capacity // 8]
                events.append(self._formed("BlockRemoved", block_hashes=gone, medium="GPU"))
            events += [self._store() for _ in range(self._events)]
            yield [1_750_000_000.0 + number * 0.0123, events, 0]

    def _wire(self, value: int) -> int:
        return value if self._deviation == "unsigned" else hashing.signed(value)

    def _store(self) -> Any:
        if not self._length or not self._chain:
            self._chain = [self._algorithm.root()]
            self._length = self._random.randint(self._blocks, 2 * LENGTH)
        state = self._chain[-1]
        parent = state.hash
        tokens: list[int] = []
        hashes: list[int] = []
        for _ in range(self._blocks):
            own = [self._random.randrange(128_000) for _ in range(self._size)]
            state = self._algorithm.next(state, own)
            assert state.hash is not None
            tokens += own
            hashes.append(state.hash)
        self._length = max(0, self._length - self._blocks)
        self._chain = [state]
        if parent is not None:
            self._resident.append(parent)  # it may go now, as the next block of its chain is there
        self._resident += hashes[:-1] if self._length else hashes
        return self._formed(
            "BlockStored",
            block_hashes=[self._wire(value) for value in hashes],
            parent_block_hash=None if parent is None else self._wire(parent),
            token_ids=tokens,
            block_size=self._size,
            lora_id=None,
            medium="GPU",
            lora_name=None,
        )

    def _formed(self, tag: str, **fields: Any) -> Any:
        if self._deviation == "array":
            more = [None] if tag == "BlockStored" else []
            return [tag, *fields.values(), *more]
        if self._deviation == "x-key":
            fields["x-engine"] = 7
        return {"type": tag, **fields}
