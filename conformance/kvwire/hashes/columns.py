"""``v1_block_key`` of many blocks side by side: the wire gives every claimed parent, so that none waits for another.

The plain function is ``kvwire_reference.hashing.v1_block_hash``; this one is for text without LoRA, salt or extra ids.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

GOLDEN: Final = 0x9E3779B9
MIX: Final = 0x45D9F3B
MIX_PARENT: Final = 0xBF58476D1CE4E5B9
TILE: Final = 16
"""So many tokens of each block are mixed at a time: what they need stays in the cache of a core."""
ROWS: Final = 4096
"""So many blocks at a time."""

Hashes = NDArray[np.uint64]
Ids = NDArray[np.uint32]


class Columns:
    """Room for the work on blocks of one size, kept from one time to the next."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._ids: Ids = np.empty((TILE, ROWS), np.uint32)
        self._shifted: Ids = np.empty((TILE, ROWS), np.uint32)
        self._wide: Hashes = np.empty(ROWS, np.uint64)
        self._seed: Hashes = np.empty(ROWS, np.uint64)
        self._sum: Hashes = np.empty(ROWS, np.uint64)

    def hashes(self, data: bytes, parents: Hashes) -> Hashes:
        """The hashes of blocks, from their tokens, four bytes each, one block behind the other, and claimed parents."""
        tokens: Ids = np.frombuffer(data, "<u4").reshape(-1, self.size)
        return np.concatenate(
            [self._some(tokens[at : at + ROWS], parents[at : at + ROWS]) for at in range(0, len(tokens), ROWS)]
        )

    def _some(self, tokens: Ids, parents: Hashes) -> Hashes:
        count = len(tokens)
        seed, added, wide = self._seed[:count], self._sum[:count], self._wide[:count]
        np.multiply(parents, np.uint64(MIX_PARENT), out=seed)
        np.bitwise_xor(seed, np.uint64(self.size), out=seed)
        for first in range(0, self.size, TILE):
            columns = min(TILE, self.size - first)
            ids, shifted = self._ids[:columns, :count], self._shifted[:columns, :count]
            ids[...] = tokens[:, first : first + columns].T
            for _ in range(2):
                np.right_shift(ids, np.uint32(16), out=shifted)
                np.bitwise_xor(ids, shifted, out=ids)
                np.multiply(ids, np.uint32(MIX), out=ids)
            np.right_shift(ids, np.uint32(16), out=shifted)
            np.bitwise_xor(ids, shifted, out=ids)
            np.add(ids, np.uint32(GOLDEN), out=ids)
            for row in ids:
                np.left_shift(seed, np.uint64(6), out=added)
                np.add(added, row, out=added)
                np.right_shift(seed, np.uint64(2), out=wide)
                np.add(added, wide, out=added)
                np.bitwise_xor(seed, added, out=seed)
        return seed.copy()
