"""What is resident on one stream, three-valued, for each location and hash.

Everything is ``unknown`` before the first number unless the stream is known from 0. A hole whose content was not
recovered makes everything unknown until an event about that key, a clear (which makes everything in the locations that
it names absent, under holes too), or a new incarnation. Judges speak only of what is known; unknown is no witness.
Memory is O(resident), plus the keys touched and the kinds of clears seen since the last hole.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple


class State(enum.Enum):
    """Whether a block is in the cache, as far as the stream tells."""

    RESIDENT = "resident"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Location(NamedTuple):
    """Where a copy of a block is: medium (None: *unspecified*, equal to no other), group, locality and owner."""

    medium: str | None
    group: int
    locality: str | None = None
    ownership: str | None = None

    @property
    def own(self) -> bool:
        """Whether it is the engine's, on its own host: who else keeps copies has not to be asked."""
        return self.locality is None and self.ownership is None

    def __str__(self) -> str:
        text = f"medium {self.medium}, group {self.group}"
        text += "" if self.locality is None else f", locality {self.locality}"
        return text if self.ownership is None else f"{text}, ownership {self.ownership}"


class Key(NamedTuple):
    """A block in a location, by its unsigned hash."""

    location: Location
    hash: int


Named = str | None | Literal[False]
"""A medium or an owner that a clear names, nil among them; False: all."""


class Cleared(NamedTuple):
    """What a clear names: the locations of a medium, of an owner, of both, or all."""

    medium: Named = False
    ownership: Named = False

    def names(self, location: Location) -> bool:
        """Whether a location is among them."""
        return self.medium in (False, location.medium) and self.ownership in (False, location.ownership)


ALL = Cleared()


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

    ``counted`` tells of a medium and group whether stores and removals balance there; otherwise a hash is in or out.
    """

    def __init__(self, counted: Callable[[str | None, int], bool]) -> None:
        self._counted = counted
        self._counts: dict[tuple[str | None, int], bool] = {}
        self._default = State.UNKNOWN
        self._emptied: set[Cleared] = set()
        """Clears of some locations while the rest is unknown."""
        self._known: dict[Key, Count] = {}
        """Count 0 is known to be absent; kept only while the default is unknown."""
        self._held: dict[tuple[int, int], int] = {}
        """(group, hash) → how many locations hold it, or did before a removal that may have meant another group."""
        self._groups: dict[tuple[str | None, str | None, str | None, int], tuple[int, ...]] = {}
        """Block in any group of its medium, locality and owner → the groups that hold it."""
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

    def clear(self, cleared: Cleared = ALL) -> None:
        """``AllBlocksCleared``: everything in the locations that it names is absent, under holes too."""
        if cleared == ALL:
            self._forget(State.ABSENT)
            return
        for key in [key for key in self._doubted if cleared.names(key.location)]:
            self._end_doubt(key)
        for key in [key for key in self._known if cleared.names(key.location)]:
            self._drop(key)
        if self._default is State.UNKNOWN:
            self._emptied.add(cleared)

    def _forget(self, default: State) -> None:
        self._default = default
        self._emptied.clear()
        self._known.clear()
        self._held.clear()
        self._groups.clear()
        self._doubted.clear()

    def store(self, key: Key) -> State:
        """Note a store; the state before it."""
        before = self.state(key)
        count = self._known.get(key)
        if before is State.UNKNOWN:
            self._set(key, AT_LEAST_ONE)
        elif count is not None and self.counted(key.location):
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
        elsewhere = frozenset(self._groups.get(_anywhere(key), ())) - {key.location.group}
        if before is State.RESIDENT or not elsewhere:
            self._remove(key, before)
            return before, frozenset()
        self._end_doubt(key)
        for group in elsewhere:
            doubted = Key(key.location._replace(group=group), key.hash)
            self._drop(doubted)
            self._hold(doubted)
            self._doubted.add(doubted)
        return before, elsewhere

    def _remove(self, key: Key, before: State) -> None:
        count = self._known.get(key)
        counted = self.counted(key.location)
        if counted and count is not None and count.value > 0:
            if not count.exact:
                self._drop(key)
            elif count.value > 1:
                self._set(key, Count(count.value - 1, exact=True))
            else:
                self._set(key, NONE)
        elif counted and before is State.UNKNOWN:
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
        anywhere, group = _anywhere(key), key.location.group
        alone = self._alone.setdefault(group, (group,))
        self._groups[anywhere] = self._groups[anywhere] + alone if anywhere in self._groups else alone

    def _drop(self, key: Key) -> None:
        before = self._known.pop(key, None)
        if before is None or not before.value:
            self._end_doubt(key)
            return
        self._release(key)
        anywhere = _anywhere(key)
        groups = tuple(group for group in self._groups.pop(anywhere) if group != key.location.group)
        if groups:
            self._groups[anywhere] = groups

    def _hold(self, key: Key) -> None:
        place = (key.location.group, key.hash)
        self._held[place] = self._held.get(place, 0) + 1

    def _release(self, key: Key) -> None:
        place = (key.location.group, key.hash)
        locations = self._held.pop(place) - 1
        if locations:
            self._held[place] = locations

    def _end_doubt(self, key: Key) -> None:
        if key in self._doubted:
            self._doubted.discard(key)
            self._release(key)

    # what is known

    @property
    def complete(self) -> bool:
        """Whether every resident block is known: nothing before or between was missed."""
        return self._default is State.ABSENT

    def counted(self, location: Location) -> bool:
        """Whether stores and removals are counted in a location."""
        place = (location.medium, location.group)
        if place not in self._counts:
            self._counts[place] = self._counted(*place)
        return self._counts[place]

    def state(self, key: Key) -> State:
        """The state of a block in one location."""
        count = self._known.get(key)
        if count is not None:
            return State.RESIDENT if count.value else State.ABSENT
        if self._emptied and any(cleared.names(key.location) for cleared in self._emptied):
            return State.ABSENT
        return self._default

    def parent_state(self, group: int, block: int) -> State:
        """Whether any location of the group holds the block; absent only when that is certain."""
        if self._held.get((group, block)):
            return State.RESIDENT
        return self._default

    def resident(self) -> frozenset[Key]:
        """Every block that is known to be resident."""
        return frozenset(key for key, count in self._known.items() if count.value)


def _anywhere(key: Key) -> tuple[str | None, str | None, str | None, int]:
    """The block in any group of its medium, locality and owner."""
    medium, _, locality, ownership = key.location
    return medium, locality, ownership, key.hash
