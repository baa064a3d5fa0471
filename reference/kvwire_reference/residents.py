"""What a consumer knows to be resident on one stream, and how far a prompt is covered by it.

One table per (algorithm, medium, group): hashes of different functions never meet [KVW-HSH-012], an unknown medium
is never taken for another [KVW-EVT-027], and a removal touches the medium and group that it names [KVW-RES-010].
Hashes are kept modulo 2^64 [KVW-HSH-010].
"""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from kvwire_reference import hashing, wire


class Place(NamedTuple):
    """A table. `algorithm` is a wire label or `None`; the medium `None` is *unspecified*, equal to no other."""

    algorithm: str | None
    medium: str | None
    group: int


class Residents:
    """The tables of one stream.

    `algorithm` is the label that the publisher declares; an announced `hash_algo` takes its place. `complete`
    says whether a block that is in no table is known to be absent; otherwise nothing is known about it.
    """

    def __init__(self, algorithm: str | None = None) -> None:
        self.algorithm = algorithm
        self.complete = False
        self._tables: dict[Place, set[int]] = {}
        self._functions: dict[str, tuple[hashing.Algorithm, ...]] = {}
        self._block_sizes: dict[int, int] = {}

    def begin(self) -> None:
        """Note that the stream is known from its first batch on, before which nothing was resident."""
        self._tables.clear()
        self.complete = True

    def forget(self) -> None:
        """Drop everything: what was held is no longer certain."""
        self._tables.clear()
        self.complete = False

    def apply(self, batch: wire.Batch) -> None:
        """Take in the events of a batch, in their order."""
        for event in batch.events:
            if isinstance(event, wire.AllBlocksCleared):
                self.begin()  # nothing is resident, whatever was known before [KVW-RES-011]
                continue
            self.algorithm = event.hash_algo or self.algorithm
            table = self._tables.setdefault(Place(self.algorithm, event.medium, event.group_idx or 0), set())
            hashes = map(wire.unsigned, event.block_hashes)
            if isinstance(event, wire.BlockRemoved):
                table.difference_update(hashes)
            else:
                table.update(hashes)
                if event.block_size > 0:
                    self._block_sizes[event.group_idx or 0] = event.block_size
                self._settle(event)

    def tables(self) -> dict[Place, frozenset[int]]:
        """Return the non-empty tables: unsigned hashes by place."""
        return {place: frozenset(table) for place, table in self._tables.items() if table}

    def functions(self) -> tuple[hashing.Algorithm, ...]:
        """Return what the current label may still mean; empty if nothing here can recompute its hashes."""
        if self.algorithm is None:
            return ()
        return self._functions.get(self.algorithm) or hashing.candidates(self.algorithm)

    def prefix(
        self,
        tokens: Sequence[hashing.Token],
        medium: str | None,
        *,
        group: int = 0,
        lora_id: int | None = None,
        salt_id: int | None = None,
    ) -> int:
        """Count the leading full blocks of a prompt that are resident in a medium.

        0 as well if the stream's function is unknown or opaque. A 64-bit hash locates blocks; it proves
        nothing across tenants.
        """
        table = self._tables.get(Place(self.algorithm, medium, group))
        if not table or group not in self._block_sizes:
            return 0
        blocks, _ = hashing.split_blocks(tokens, self._block_sizes[group])
        return max((_covered(f, blocks, table, lora_id, salt_id) for f in self.functions()), default=0)

    def _settle(self, event: wire.BlockStored) -> None:
        """Narrow what the label may mean to what reproduces this root block, if anything does [KVW-HSH-013].

        A root block in a salted scope reproduces under nothing, for the salt is not on the wire.
        """
        functions = self.functions()
        if len(functions) < 2 or event.parent_block_hash is not None or not event.block_hashes:
            return
        kept = tuple(function for function in functions if _reproduces(function, event))
        if kept and self.algorithm is not None:
            self._functions[self.algorithm] = kept


def _covered(
    function: hashing.Algorithm,
    blocks: Sequence[Sequence[hashing.Token]],
    table: set[int],
    lora_id: int | None,
    salt_id: int | None,
) -> int:
    count = 0
    with contextlib.suppress(hashing.RangeError):  # a token that this function does not take ends the prefix
        for state in hashing.hash_chain(function, blocks, lora_id=lora_id, salt_id=salt_id):
            if state.hash not in table:
                break
            count += 1
    return count


def _reproduces(function: hashing.Algorithm, event: wire.BlockStored) -> bool:
    tokens = event.token_ids[: event.block_size]
    try:
        block = [bytes.fromhex(token) if isinstance(token, str) else token for token in tokens]
        return function.next(function.root(event.lora_id), block).hash == wire.unsigned(event.block_hashes[0])
    except ValueError:
        return False  # no digest, or a value that this function does not take
