"""What a consumer knows to be resident on one stream, and how far a prompt is covered by it.

One table per (algorithm, medium, group): hashes of different functions never meet [KVW-HSH-012], an unknown medium
is never taken for another [KVW-EVT-027], and a removal touches the medium and group that it names [KVW-RES-010].
Hashes are kept modulo 2^64 [KVW-HSH-010].
"""

import contextlib
import math
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from kvwire_reference import hashing, wire


class Place(NamedTuple):
    """A table. `algorithm` is a wire label or `None`; the medium `None` is *unspecified*, equal to no other."""

    algorithm: str | None
    medium: str | None
    group: int


class Residents:
    """The tables of one stream.

    `algorithm` is the label that the publisher declares; an announced `hash_algo` takes its place, as long as the
    incarnation lasts. `complete` says whether a block that is in no table is known to be absent; otherwise nothing
    is known about it.

    `reproduced`, `mismatched` and `unexplained` count the root blocks of this incarnation whose tokens give their
    hash by the function of the stream, which are seen not to be hashed by it, and of which neither can be said: a
    salt is not on the wire, and a block of a salted scope is reproduced by nothing.
    """

    def __init__(self, algorithm: str | None = None) -> None:
        self.algorithm = algorithm
        self.complete = False
        self.reproduced = 0
        self.mismatched = 0
        self.unexplained = 0
        self._declared = algorithm
        self._tables: dict[Place, set[int]] = {}
        self._functions: dict[str, tuple[hashing.Algorithm, ...]] = {}
        self._block_sizes: dict[int, int] = {}

    def begin(self) -> None:
        """Note that the stream is known from its first batch on, before which nothing was resident."""
        self._tables.clear()
        self.complete = True

    def forget(self) -> None:
        """Drop all blocks: what was held is no longer certain."""
        self._tables.clear()
        self.complete = False

    def restart(self) -> None:
        """Drop all that was learnt of an incarnation: the next one may hash by another function [KVW-HSH-013]."""
        self.forget()
        self.algorithm = self._declared
        self.reproduced = self.mismatched = self.unexplained = 0
        self._functions.clear()
        self._block_sizes.clear()

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
        """Count the leading full blocks of a prompt, of the size of the group, that are resident in a medium.

        0 as well if the stream's function is unknown or opaque. A 64-bit hash locates blocks; it proves
        nothing across tenants.
        """
        table = self._tables.get(Place(self.algorithm, medium, group))
        if not table or group not in self._block_sizes:
            return 0
        blocks, _ = hashing.split_blocks(tokens, self._unit())
        step = self._block_sizes[group] // self._unit()
        return max((_covered(f, blocks, step, table, lora_id, salt_id) for f in self.functions()), default=0)

    def _unit(self) -> int:
        """Tokens to a hash: a group with larger blocks names each by the hash of its last part."""
        return math.gcd(*self._block_sizes.values())

    @property
    def reproduces(self) -> bool | None:
        """Whether the function that is announced or declared makes the hashes of this stream.

        False once a hash was met that it does not make: no prompt can then be relied on to be found. None as long
        as no block could be checked.
        """
        if self.mismatched:
            return False
        return True if self.reproduced else None

    def _settle(self, event: wire.BlockStored) -> None:
        """Hold a root block against the functions that the label may mean, and keep those that reproduce it.

        One that none of them reproduces is of a salted scope, or they do not make this stream's hashes: certain
        if another function of the registry does reproduce it, or if they reproduce it and not its descendants.
        """
        functions = self.functions()
        if not functions or self.algorithm is None or not _is_checkable(event):
            return
        unit = self._unit()
        counts = {function: _reproduced(function, event, unit) for function in functions}
        most = max(counts.values())
        if most:
            self._functions[self.algorithm] = tuple(function for function in functions if counts[function] == most)
            whole = most == len(event.block_hashes)
            self.reproduced += whole
            self.mismatched += not whole
        elif any(_reproduced(function, event, unit) for function in _EVERY if function not in functions):
            self.mismatched += 1
        else:
            self.unexplained += 1


_EVERY: Final = tuple(function for label in hashing.ALGORITHMS for function in hashing.candidates(label))


def _covered(
    function: hashing.Algorithm,
    blocks: Sequence[Sequence[hashing.Token]],
    step: int,
    table: set[int],
    lora_id: int | None,
    salt_id: int | None,
) -> int:
    count = 0
    with contextlib.suppress(hashing.RangeError):  # a token that this function does not take ends the prefix
        states = hashing.hash_chain(function, blocks, lora_id=lora_id, salt_id=salt_id)
        for state in islice(states, step - 1, None, step):
            if state.hash not in table:
                break
            count += 1
    return count


def _is_checkable(event: wire.BlockStored) -> bool:
    """Whether it begins at a root and holds the tokens of its blocks, and nothing else that enters a hash."""
    return (
        event.parent_block_hash is None
        and event.block_size > 0
        and 0 < len(event.block_hashes) * event.block_size == len(event.token_ids)
        and not any(event.extra_keys or ())
        and (str in map(type, event.token_ids) or not any(event.mm_keys or ()))
    )


def _reproduced(function: hashing.Algorithm, event: wire.BlockStored, unit: int) -> int:
    """Count the leading blocks of a root event whose hash the function gives, in the scope that the wire shows."""
    count = 0
    with contextlib.suppress(ValueError):  # no digest, or a value that this function does not take
        tokens = [bytes.fromhex(token) if isinstance(token, str) else token for token in event.token_ids]
        blocks, _ = hashing.split_blocks(tokens, unit)
        step = event.block_size // unit
        states = hashing.hash_chain(function, blocks, lora_id=event.lora_id)
        for state, value in zip(islice(states, step - 1, None, step), event.block_hashes, strict=True):
            if state.hash != wire.unsigned(value):
                break
            count += 1
    return count
