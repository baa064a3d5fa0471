"""What a consumer knows to be resident on one stream, and how far a prompt is covered by it.

One table per function and location (medium, group, locality, ownership): hashes of different functions never meet
[KVW-HSH-012], an unknown medium is never taken for another [KVW-EVT-027], and a removal touches the location that it
names [KVW-RES-010]. Hashes are kept modulo 2^64 [KVW-HSH-010].
"""

import contextlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from kvwire_reference import hashing, wire


class Place(NamedTuple):
    """A table. `algorithm` is a wire label or `None`; the medium `None` is *unspecified*, equal to no other.

    The locality `None` is not told, the ownership `None` is the engine.
    """

    algorithm: str | None
    medium: str | None
    group: int
    locality: str | None = None
    ownership: str | None = None


class Residents:
    """The tables of one stream.

    `algorithm` is the label that the publisher declares; an announced `hash_algo` takes its place, as long as the
    incarnation lasts. `counted` says that it declares counted residency: a block is then resident until it was removed
    as often as it was stored. Otherwise a store of a resident block changes nothing, as under refresh residency.
    `complete` says whether a block that is in no table is known to be absent; otherwise nothing is known about it.

    `reproduced`, `mismatched` and `unexplained` count the root blocks of this incarnation whose tokens give their
    hash by the function of the stream, which are seen not to be hashed by it, and of which neither can be said: a
    salt is not on the wire, and a block of a salted scope is reproduced by nothing.
    """

    def __init__(self, algorithm: str | None = None, *, counted: bool = False) -> None:
        self.algorithm = algorithm
        self.counted = counted
        self.complete = False
        self.reproduced = 0
        self.mismatched = 0
        self.unexplained = 0
        self._declared = algorithm
        self._tables: dict[Place, dict[int, str | None]] = {}  # of each hash the scope tag of its store
        self._copies: Counter[tuple[Place, int]] = Counter()  # beyond the first, under counted residency
        self._functions: dict[str, tuple[hashing.Algorithm, ...]] = {}
        self._block_sizes: dict[int, int] = {}
        self._adapters: dict[str, int | None] = {}

    def begin(self) -> None:
        """Note that the stream is known from its first batch on, before which nothing was resident."""
        self._drop()
        self.complete = True

    def forget(self) -> None:
        """Drop all blocks: what was held is no longer certain."""
        self._drop()
        self.complete = False

    def restart(self) -> None:
        """Drop all that was learnt of an incarnation: the next one may hash by another function [KVW-HSH-013]."""
        self.forget()
        self.algorithm = self._declared
        self.reproduced = self.mismatched = self.unexplained = 0
        self._functions.clear()
        self._block_sizes.clear()
        self._adapters.clear()

    def apply(self, batch: wire.Batch) -> None:
        """Take in the events of a batch, in their order."""
        for event in batch.events:
            if isinstance(event, wire.AllBlocksCleared):
                self._clear(event)
                continue
            self.algorithm = event.hash_algo or self.algorithm
            place = Place(self.algorithm, event.medium, event.group_idx or 0, event.locality, event.ownership)
            if isinstance(event, wire.BlockRemoved):
                self._remove(place, event)
            else:
                self._store(place, event)
                self._settle(event)

    def _store(self, place: Place, event: wire.BlockStored) -> None:
        """Take in new blocks. What a location update or a partial entry stores says nothing about its group."""
        table = self._tables.setdefault(place, {})
        for value in map(wire.unsigned, event.block_hashes):
            if self.counted and value in table:
                self._copies[place, value] += 1
            table.setdefault(value, event.scope)
        if event.block_size > self._block_sizes.get(place.group, 0):
            self._block_sizes[place.group] = event.block_size
        if event.lora_name is not None:
            self._adapters[event.lora_name] = event.lora_id

    def _remove(self, place: Place, event: wire.BlockRemoved) -> None:
        """End residency in one location; a hash that is not held there is ignored [KVW-RES-014]."""
        table = self._tables.get(place, {})
        for value in map(wire.unsigned, event.block_hashes):
            if self._copies[place, value]:
                self._copies[place, value] -= 1
            else:
                table.pop(value, None)
                del self._copies[place, value]

    def _clear(self, event: wire.AllBlocksCleared) -> None:
        """End residency in the locations that a clear names [KVW-RES-011]."""
        if event.names_all:
            self.begin()  # nothing is resident, whatever was known before
            return
        for place in list(self._tables):
            if event.medium in (msgspec.UNSET, place.medium) and event.ownership in (msgspec.UNSET, place.ownership):
                for value in self._tables.pop(place):
                    del self._copies[place, value]

    def _drop(self) -> None:
        self._tables.clear()
        self._copies.clear()

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
        locality: str | None = None,
        ownership: str | None = None,
        lora_id: int | None = None,
        lora_name: str | None = None,
        salt: str | None = None,
        salt_id: int | None = None,
        scope: str | None = None,
    ) -> int:
        """Count the leading full blocks of a prompt, of the size of the group, that are resident in a location.

        An adapter is given by its name, or by the id that it has on this stream: equal ids of two streams are not one
        adapter [KVW-EVT-035]. A salt is given as text, of which `salt_id` and the scope tag (without a deployment key)
        are made, or as `salt_id` and `scope`. A block whose tag is another than the one given is of another scope.

        0 as well if the stream's function is unknown or opaque. A 64-bit hash locates blocks; it proves
        nothing across tenants.
        """
        table = self._tables.get(Place(self.algorithm, medium, group, locality, ownership))
        if not table or group not in self._block_sizes:
            return 0
        if lora_name is not None:
            if lora_name not in self._adapters:
                return 0
            lora_id = self._adapters[lora_name]
        if salt is not None:
            salt_id = hashing.salt_id(salt)
            scope = hashing.scope_tag(salt) if scope is None else scope
        blocks, _ = hashing.split_blocks(tokens, self._unit())
        step = self._block_sizes[group] // self._unit()
        return max((_covered(f, blocks, step, table, scope, lora_id, salt_id) for f in self.functions()), default=0)

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
        if event.block_size != self._block_sizes[event.group_idx or 0]:
            return  # a partial entry: its hash is made at a boundary that nothing tells
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


_ABSENT: Final = ""
_EVERY: Final = tuple(function for label in hashing.ALGORITHMS for function in hashing.candidates(label))


def _covered(
    function: hashing.Algorithm,
    blocks: Sequence[Sequence[hashing.Token]],
    step: int,
    table: Mapping[int, str | None],
    scope: str | None,
    lora_id: int | None,
    salt_id: int | None,
) -> int:
    count = 0
    with contextlib.suppress(hashing.RangeError):  # a token that this function does not take ends the prefix
        states = hashing.hash_chain(function, blocks, lora_id=lora_id, salt_id=salt_id)
        for state in islice(states, step - 1, None, step):
            if state.hash is None or table.get(state.hash, _ABSENT) not in (None, scope):
                break
            count += 1
    return count


def _is_checkable(event: wire.BlockStored) -> bool:
    """Whether it begins at a root and holds the tokens of its blocks, and nothing else that enters a hash."""
    return (
        event.parent_block_hash is None
        and event.scope is None
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
