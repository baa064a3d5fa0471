"""Who was named as parent of what is resident, what the groups are, and what was stored in window groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from kvwire.standard.statement import Group
from kvwire.wire.events import Event, GroupKind, group_kind


class Line:
    """The parents of one group: ``parents`` of what is resident in some medium of it; ``named`` those that were named
    and are not resident, as far as known.
    """

    __slots__ = ("named", "parents")

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.named: set[int] = set()

    def store(self, hashes: Sequence[int], parent: int | None) -> None:
        """Note where blocks hang: the first one under ``parent``, each other one under the one before it."""
        parents = self.parents
        if parent is not None and parent not in parents:
            self.named.add(parent)
        for value in hashes:
            if value != parent:
                parents[value] = parent
            parent = value

    def repeated(self, hashes: Sequence[int], parent: int | None) -> int | None:
        """The first hash of a store that stands above itself.

        The ancestors are walked only if a block gets another parent than it had, or was named as a parent before it
        was stored: nothing else can close a circle.
        """
        own: set[int] = {parent} if parent is not None else set()
        before, bends = parent, False
        for value in hashes:
            if value in own:
                return value
            own.add(value)
            bends = bends or value in self.named or self.parents.get(value, before) != before
            before = value
        if not bends:
            return None
        stored = set(hashes)
        above: set[int] = set()
        at = parent
        while at is not None and at not in above:
            if at in stored:
                return at
            above.add(at)
            at = self.parents.get(at)
        return None


class Lineage:
    """The parents of one stream, group by group; O(resident)."""

    def __init__(self) -> None:
        self._lines: dict[int, Line] = {}

    def of(self, group: int) -> Line:
        """The parents of a group."""
        line = self._lines.get(group)
        if line is None:
            line = self._lines[group] = Line()
        return line

    def forget(self) -> None:
        """Nothing is known to be resident."""
        for line in self._lines.values():
            line.parents.clear()
            line.named.clear()


class Kinds:
    """What the groups of a stream are: as their stores say, else as is declared."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._declared = {group.idx: kind for group in groups if (kind := declared(group)) is not None}
        self._known = dict(self._declared)

    def begin(self) -> None:
        """A new incarnation, whose groups can be others."""
        self._known = dict(self._declared)

    def of(self, event: Event) -> GroupKind:
        """What the group of a store is."""
        return self.told(event.group, event.spec_kind, event.window)

    def told(self, group: int, spec_kind: str | None, window: int | None) -> GroupKind:
        """What a group is, after a store that names kind and window, or neither."""
        if spec_kind is not None or window is not None or group not in self._known:
            kind = group_kind(group, spec_kind, window)
            if spec_kind is None and window is None:
                return kind
            self._known[group] = kind
        return self._known[group]


def declared(group: Group) -> GroupKind | None:
    """What a declared group is; None where nothing is said of its kind."""
    if group.kind is None and group.window is None:
        return None
    return group_kind(group.idx, group.kind, group.window)


class Windows:
    """What was stored in window groups since the last clear, bounded: the oldest is forgotten first.

    ``complete``: nothing was missed or forgotten, in any group.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.complete = False
        self._stored: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._others: set[int] = set()
        """Groups with stores that were not remembered, since nothing said that a window is there."""

    def begin(self, *, complete: bool) -> None:
        """Nothing is known to be stored; ``complete``: nothing is."""
        self._stored.clear()
        self._others.clear()
        self.complete = complete

    def add(self, group: int, hashes: Iterable[int], *, windowed: bool) -> bool:
        """Remember a store; whether another one was forgotten for it."""
        if not windowed:
            self._others.add(group)
            return False
        for value in hashes:
            self._stored[group, value] = None
            self._stored.move_to_end((group, value))
        full = len(self._stored) > self.size
        while len(self._stored) > self.size:
            self._stored.popitem(last=False)
            self.complete = False
        return full

    def holds(self, group: int, value: int) -> bool | None:
        """Whether a block was stored in a group; None when that is not known."""
        if (group, value) in self._stored:
            return True
        return False if self.complete and group not in self._others else None
