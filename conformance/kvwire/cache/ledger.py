"""What is resident on one stream, three-valued, for each (medium, group, hash).

Everything is ``unknown`` before the first number unless the stream is known from 0. A hole whose content was not
recovered makes everything unknown until an event about that key, a clear (which makes everything on the stream
absent, under holes too), or a new incarnation. Judges speak only of what is known; unknown is no witness.
Memory is O(resident), plus the keys touched since the last hole.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Literal, NamedTuple


class State(enum.Enum):
    """Whether a block is in the cache, as far as the stream tells."""

    RESIDENT = "resident"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Key(NamedTuple):
    """Where a block is: medium (None: *unspecified*, equal to no other), group, and unsigned hash."""

    medium: str | None
    group: int
    hash: int


class Count(NamedTuple):
    """How many stores without a removal a key has; ``exact`` is False when it was unknown when first stored."""

    value: int
    exact: bool


NONE, ONE, AT_LEAST_ONE = Count(0, exact=True), Count(1, exact=True), Count(1, exact=False)
"""What nearly all counts are, made once."""


REMEMBERED = 2**16
"""Of how many blocks at least it is remembered in which batch they were stored."""


class Stores:
    """In which batch each block was last stored, resident or not; the oldest are forgotten. Memory is O(1)."""

    def __init__(self) -> None:
        self._new: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def begin(self) -> None:
        """A new incarnation, whose numbers are others."""
        self._new, self._old = {}, {}

    def add(self, number: int, hashes: Sequence[int]) -> None:
        """Note what a batch stores."""
        self._new.update(dict.fromkeys(hashes, number))
        if len(self._new) >= REMEMBERED:
            self._new, self._old = {}, self._new

    def last(self, block: int) -> int | None:
        """The number of the batch that stored a block last, in whatever medium and group; None when not known."""
        return self._new.get(block, self._old.get(block))


class Ledger:
    """The residency of one stream.

    ``residency`` is ``set`` or ``refresh`` (a hash is in or out) or ``counted`` (stores and removes balance per hash).
    """

    def __init__(self, residency: Literal["set", "refresh", "counted"] = "set") -> None:
        self.counted = residency == "counted"
        self._default = State.UNKNOWN
        self._known: dict[Key, Count] = {}
        """Count 0 is known to be absent; kept only while the default is unknown."""
        self._places: dict[tuple[int, int], int] = {}
        """(group, hash) → how many media hold it, or did before a removal that may have meant another group."""
        self._groups: dict[tuple[str | None, int], tuple[int, ...]] = {}
        """(medium, hash) → the groups that hold it."""
        self._doubted: set[Key] = set()
        """Blocks that a removal may have meant which named another group."""
        self._alone: dict[int, tuple[int]] = {}
        """Group → itself alone, as nearly every block is held by one group only."""

    # what happens to the stream

    def begin(self, *, origin_known: bool) -> None:
        """A new incarnation: empty when its beginning was seen, else unknown."""
        self._forget(State.ABSENT if origin_known else State.UNKNOWN)

    def hole(self) -> None:
        """Batches are missing and were not recovered: nothing is certain any more."""
        self._forget(State.UNKNOWN)

    def clear(self) -> None:
        """``AllBlocksCleared``: everything on the stream is absent, under holes too."""
        self._forget(State.ABSENT)

    def _forget(self, default: State) -> None:
        self._default = default
        self._known.clear()
        self._places.clear()
        self._groups.clear()
        self._doubted.clear()

    def store(self, key: Key) -> State:
        """Note a store; the state before it."""
        before = self.state(key)
        count = self._known.get(key)
        if before is State.UNKNOWN:
            self._set(key, AT_LEAST_ONE)
        elif self.counted and count is not None:
            self._set(key, Count(count.value + 1, count.exact))
        else:
            self._set(key, ONE)
        return before

    def remove(self, key: Key) -> tuple[State, frozenset[int]]:
        """Note a removal; the state before it, and other groups that hold the block if this one is not known to.

        Then one of those was meant, and it is doubted in each whether the block is still there. As a parent it is not:
        a wrong group is one fault, and no second one of the chain.
        """
        before = self.state(key)
        elsewhere = self.groups_of(key.medium, key.hash) - {key.group}
        if before is State.RESIDENT or not elsewhere:
            self._remove(key, before)
            return before, frozenset()
        self._end_doubt(key)
        for group in elsewhere:
            doubted = key._replace(group=group)
            self._drop(doubted)
            self._hold(doubted)
            self._doubted.add(doubted)
        return before, elsewhere

    def _remove(self, key: Key, before: State) -> None:
        count = self._known.get(key)
        if self.counted and count is not None and count.value > 0:
            if not count.exact:
                self._drop(key)
            elif count.value > 1:
                self._set(key, Count(count.value - 1, exact=True))
            else:
                self._set(key, NONE)
        elif self.counted and before is State.UNKNOWN:
            self._drop(key)
        else:
            self._set(key, NONE)

    def _set(self, key: Key, count: Count) -> None:
        if not count.value:
            self._drop(key)
            if self._default is State.UNKNOWN:
                self._known[key] = count
            return
        before = self._known.get(key)
        self._known[key] = count
        if before is not None and before.value:
            return
        self._end_doubt(key)
        self._hold(key)
        medium = (key.medium, key.hash)
        alone = self._alone.setdefault(key.group, (key.group,))
        self._groups[medium] = self._groups[medium] + alone if medium in self._groups else alone

    def _drop(self, key: Key) -> None:
        before = self._known.pop(key, None)
        if before is None or not before.value:
            self._end_doubt(key)
            return
        self._release(key)
        medium = (key.medium, key.hash)
        groups = tuple(group for group in self._groups.pop(medium) if group != key.group)
        if groups:
            self._groups[medium] = groups

    def _hold(self, key: Key) -> None:
        place = (key.group, key.hash)
        self._places[place] = self._places.get(place, 0) + 1

    def _release(self, key: Key) -> None:
        media = self._places.pop((key.group, key.hash)) - 1
        if media:
            self._places[key.group, key.hash] = media

    def _end_doubt(self, key: Key) -> None:
        if key in self._doubted:
            self._doubted.discard(key)
            self._release(key)

    # what is known

    @property
    def complete(self) -> bool:
        """Whether every resident block is known: nothing before or between was missed."""
        return self._default is State.ABSENT

    def state(self, key: Key) -> State:
        """The state of a block in one medium and group."""
        count = self._known.get(key)
        if count is None:
            return self._default
        return State.RESIDENT if count.value else State.ABSENT

    def parent_state(self, group: int, block: int) -> State:
        """Whether any medium of the group holds the block; absent only when that is certain."""
        if self._places.get((group, block)):
            return State.RESIDENT
        return self._default

    def groups_of(self, medium: str | None, block: int) -> frozenset[int]:
        """The groups of a medium that hold the block."""
        return frozenset(self._groups.get((medium, block), ()))

    def resident(self) -> frozenset[Key]:
        """Every block that is known to be resident."""
        return frozenset(key for key, count in self._known.items() if count.value)
