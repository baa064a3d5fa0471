"""Stores whose hashes need the claimed parent only, recomputed many at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kvwire.cache.cases import Place
from kvwire.cache.chains import Strand

if TYPE_CHECKING:
    from kvwire.hashes.columns import Columns

MOST = 2048
"""So many blocks wait at most."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """One store that waits: its blocks, where they are, and what is needed to show it to whoever decides on cases.

    ``number``, ``record`` and ``payload`` are those of its batch, ``index`` its place in it.
    """

    strand: Strand
    place: Place
    number: int
    record: int
    payload: bytes
    index: int


class Deferred:
    """Stores of one stream that wait to be recomputed.

    ``matched`` is told of those that all have the hashes which the function gives; otherwise each of them is a
    ``case``, in order.
    """

    def __init__(self, matched: Callable[[Place, int, int], None], case: Callable[[Waiting], None]) -> None:
        self._matched = matched
        self._case = case
        self._waiting: list[Waiting] = []
        self._blocks = 0
        self._columns: dict[int, Columns] = {}

    def add(self, waiting: Waiting) -> None:
        """Another store."""
        self._waiting.append(waiting)
        self._blocks += len(waiting.strand.hashes)
        if self._blocks >= MOST:
            self.flush()

    def flush(self) -> None:
        """Recompute them now."""
        if not self._waiting:
            return
        waiting, self._waiting, self._blocks = self._waiting, [], 0
        by_size: dict[int, list[Waiting]] = {}
        for one in waiting:
            by_size.setdefault(one.strand.size, []).append(one)
        if not all(self._right(size, some) for size, some in by_size.items()):
            for one in waiting:
                self._case(one)
            return
        counts: dict[Place, tuple[int, int]] = {}
        for one in waiting:
            blocks, roots = counts.get(one.place, (0, 0))
            counts[one.place] = blocks + len(one.strand.hashes), roots + (one.strand.parent is None)
        for place, (blocks, roots) in counts.items():
            self._matched(place, blocks, roots)

    def _right(self, size: int, waiting: Sequence[Waiting]) -> bool:
        import numpy as np

        from kvwire.hashes.columns import Columns

        columns = self._columns.get(size)
        if columns is None:
            columns = self._columns[size] = Columns(size)
        hashes: list[int] = []
        parents: list[int] = []
        for one in waiting:
            strand = one.strand
            hashes += strand.hashes
            parents.append(strand.parent or 0)
            parents += strand.hashes[:-1]
        found = columns.hashes(b"".join([one.strand.data for one in waiting]), np.array(parents, np.uint64))
        return found.tobytes() == struct.pack(f"={len(hashes)}Q", *hashes)
