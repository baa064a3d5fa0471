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


Blocks = dict[int, int]
"""Hash → how many stores without a removal it has in one location: ``MANY`` where the number is not known, 0 where it
is known to be absent."""
MANY = -1


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
        self._places: dict[Location, Blocks] = {}
        """Zeros are kept only while the default is unknown."""
        self._groups: dict[int, list[tuple[Location, Blocks]]] = {}
        """The same, by group."""
        self._doubted: set[Key] = set()
        """Blocks that a removal may have meant which named another group."""

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
        self._doubted = {key for key in self._doubted if not cleared.names(key.location)}
        for location, blocks in self._places.items():
            if cleared.names(location):
                blocks.clear()
        if self._default is State.UNKNOWN:
            self._emptied.add(cleared)

    def _forget(self, default: State) -> None:
        self._default = default
        self._emptied.clear()
        self._doubted.clear()
        for blocks in self._places.values():
            blocks.clear()

    def store(self, key: Key) -> State:
        """Note a store; the state before it."""
        before = self.state(key)
        blocks = self.blocks(key.location)
        count = blocks.get(key.hash)
        if before is State.UNKNOWN:
            count = MANY
        elif count is not None and self.counted(key.location):
            count = MANY if count == MANY else count + 1
        else:
            count = 1
        if not blocks.get(key.hash):
            self._doubted.discard(key)
        blocks[key.hash] = count
        return before

    def remove(self, key: Key) -> tuple[State, frozenset[int]]:
        """Note a removal; the state before it, and other groups that hold the block if this one is not known to.

        Then one of those was meant, and it is doubted in each whether the block is still there. As a parent it is not:
        a wrong group is one fault, and no second one of the chain.
        """
        before = self.state(key)
        elsewhere = frozenset[int]() if before is State.RESIDENT else self._elsewhere(key)
        if not elsewhere:
            self._remove(key, before)
            return before, elsewhere
        self._doubted.discard(key)
        for group in elsewhere:
            doubted = Key(key.location._replace(group=group), key.hash)
            del self._places[doubted.location][key.hash]
            self._doubted.add(doubted)
        return before, elsewhere

    def _elsewhere(self, key: Key) -> frozenset[int]:
        """Other groups that hold a block in the medium, locality and owner of its location."""
        own = key.location
        return frozenset(
            place.group
            for place, blocks in self._places.items()
            if place != own and place._replace(group=own.group) == own and blocks.get(key.hash)
        )

    def _remove(self, key: Key, before: State) -> None:
        blocks = self.blocks(key.location)
        count = blocks.get(key.hash)
        counted = self.counted(key.location)
        if counted and count:
            if count == MANY:
                del blocks[key.hash]
            elif count > 1:
                blocks[key.hash] = count - 1
            else:
                self._end(key, blocks)
        elif counted and before is State.UNKNOWN:
            self._doubted.discard(key)
        else:
            self._end(key, blocks)

    def _end(self, key: Key, blocks: Blocks) -> None:
        """A block is absent from now on."""
        if not blocks.pop(key.hash, 0):
            self._doubted.discard(key)
        if self._default is State.UNKNOWN:
            blocks[key.hash] = 0

    # what is known

    @property
    def complete(self) -> bool:
        """Whether every resident block is known: nothing before or between was missed."""
        return self._default is State.ABSENT

    @property
    def unsure(self) -> bool:
        """Whether what is known of a location is not all that is known of its blocks."""
        return bool(self._doubted or self._emptied)

    @property
    def several_groups(self) -> bool:
        """Whether blocks were stored in more than one group."""
        return len(self._groups) > 1

    @property
    def held(self) -> int:
        """How many blocks are known to be resident, over all locations."""
        return sum(
            len(blocks) - (sum(not count for count in blocks.values()) if not self.complete else 0)
            for blocks in self._places.values()
        )

    def blocks(self, location: Location) -> Blocks:
        """What is known of one location."""
        blocks = self._places.get(location)
        if blocks is None:
            blocks = self._places[location] = {}
            self._groups.setdefault(location.group, []).append((location, blocks))
        return blocks

    @property
    def known(self) -> int:
        """Of how many blocks something is known, over all locations."""
        return sum(map(len, self._places.values()))

    @property
    def locations(self) -> int:
        """How many locations were looked at."""
        return len(self._places)

    def named(self, cleared: Cleared) -> frozenset[Key]:
        """Every block that is known to be resident where a clear names."""
        return frozenset(
            Key(location, value)
            for location, blocks in self._places.items()
            if cleared.names(location)
            for value, count in blocks.items()
            if count
        )

    def knows(self, location: Location) -> bool:
        """Whether blocks of a location were looked at before."""
        return location in self._places

    def of_group(self, group: int) -> list[tuple[Location, Blocks]]:
        """What is known of every location of a group."""
        return self._groups.setdefault(group, [])

    def counted(self, location: Location) -> bool:
        """Whether stores and removals are counted in a location."""
        place = (location.medium, location.group)
        if place not in self._counts:
            self._counts[place] = self._counted(*place)
        return self._counts[place]

    def state(self, key: Key) -> State:
        """The state of a block in one location."""
        blocks = self._places.get(key.location)
        count = None if blocks is None else blocks.get(key.hash)
        if count is not None:
            return State.RESIDENT if count else State.ABSENT
        if self._emptied and any(cleared.names(key.location) for cleared in self._emptied):
            return State.ABSENT
        return self._default

    def parent_state(self, group: int, block: int) -> State:
        """Whether any location of the group holds the block; absent only when that is certain."""
        for location, blocks in self._groups.get(group, ()):
            if blocks.get(block) or (self._doubted and Key(location, block) in self._doubted):
                return State.RESIDENT
        return self._default

    def resident(self) -> frozenset[Key]:
        """Every block that is known to be resident."""
        return frozenset(
            Key(location, value)
            for location, blocks in self._places.items()
            for value, count in blocks.items()
            if count
        )
