"""Chain: parents (spec/chain.md)."""

from __future__ import annotations

from collections import OrderedDict

from kvwire.cache.ledger import State
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_batch, judge, unless
from kvwire.standard.statement import Group
from kvwire.wire.events import FULL_KINDS, Event

Blocks = set[tuple[int | bytes, ...]]
"""Tokens of blocks."""


def _is_window(group: Group) -> bool:
    """Whether a group is declared as one that keeps a window of blocks."""
    return group.window is not None or group.kind not in FULL_KINDS


class _Windows:
    """What was stored in window groups since the last clear, bounded: the oldest is forgotten first.

    ``complete``: nothing was missed or forgotten, in any group. A group is one by declaration or by its stores.
    """

    def __init__(self, size: int, groups: dict[int, bool]) -> None:
        self.size = size
        self.complete = False
        self._windowed = groups
        self._stored: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._others: set[int] = set()
        """Groups with stores that were not remembered, since nothing said that a window is there."""

    def begin(self, *, complete: bool) -> None:
        """Nothing is known to be stored; ``complete``: nothing is."""
        self._stored.clear()
        self._others.clear()
        self.complete = complete

    def is_window(self, event: Event) -> bool:
        """Whether the group of a store is a window group, by this store or what is known of it."""
        if not event.full_attention:
            self._windowed[event.group] = True
        elif event.spec_kind is not None:
            self._windowed[event.group] = False
        return self._windowed.get(event.group, False)

    def add(self, event: Event, *, windowed: bool) -> bool:
        """Remember a store; whether another one was forgotten for it."""
        if not windowed:
            self._others.add(event.group)
            return False
        for value in event.hashes:
            self._stored[event.group, value] = None
            self._stored.move_to_end((event.group, value))
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


class Chain(Area):
    """Follows the stores of a stream, and who was named as parent."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.parents: dict[tuple[int, int], int | None] = {}
        """(group, hash) → parent, of what is resident in some medium of the group."""
        self.named: set[tuple[int, int]] = set()
        """Parents that were named and are not resident, as far as known."""
        groups = {group.idx: _is_window(group) for group in context.statement.groups}
        self.windows = _Windows(context.statement.window_memory, groups)
        self.cut: dict[int, tuple[Blocks, Blocks]] = {}
        """Block size → first blocks of our prompts, and the blocks behind them."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self._forget(complete=incarnation.origin_known)

    def on_gap(self, gap: Gap) -> None:
        self._forget(complete=False)

    def _forget(self, *, complete: bool) -> None:
        self.parents.clear()
        self.named.clear()
        self.windows.begin(complete=complete)

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if event.kind == "cleared":
            self._forget(complete=True)
        elif event.kind == "removed":
            for value in event.hashes:
                if self.facts.ledger.parent_state(event.group, value) is not State.RESIDENT:
                    self.parents.pop((event.group, value), None)
        elif event.hashes:
            self._stored(batch, event)

    def _stored(self, batch: Batch, event: Event) -> None:
        windowed = self.windows.is_window(event)
        if self.facts.location:
            self.windows.add(event, windowed=windowed)
            return
        if event.whole and "parent_block_hash" in event.keys:
            self.nil_at_the_start(batch, event)
        if event.parent is not None and self.facts.partial is False:
            if windowed:
                self.window_parent(batch, event, event.parent)
            else:
                self.resident_parent(batch, event, event.parent)
        if event.parent is not None or len(event.hashes) > 1:
            self.no_repeat(batch, event)
        parent = event.parent
        if parent is not None and (event.group, parent) not in self.parents:
            self.named.add((event.group, parent))
        for value in event.hashes:
            if value != parent:
                self.parents[event.group, value] = parent
            parent = value
        if self.windows.add(event, windowed=windowed):
            self.window_parent.note("the memory for window groups was exceeded: what was forgotten is not judged")

    def _blocks(self, size: int) -> tuple[Blocks, Blocks]:
        """The first blocks of our prompts, and the blocks behind them, for one block size."""
        if size not in self.cut:
            heads: Blocks = {prompt.tokens[:size] for prompt in self.facts.prompts}
            bodies: Blocks = {
                prompt.tokens[at : at + size]
                for prompt in self.facts.prompts
                for at in range(size, len(prompt.tokens) - size + 1, size)
            }
            self.cut[size] = heads, bodies
        return self.cut[size]

    @judge("KVW-CHN-001", memory="O(window)")
    def nil_at_the_start(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-CHN-001: A publisher MUST send nil as `parent_block_hash` if, and only if, the event begins with the
        first block of a chain.

        Decided only for blocks whose tokens stand in a prompt of ours, at its head or behind it, not at both.
        """
        heads, bodies = self._blocks(event.block_size or 1)
        first = event.block(0)
        head, body = first in heads, first in bodies
        if head == body:
            return
        if (event.parent is None) == head:
            say.saw()
        else:
            say.broke(
                "nil for the first block of a prompt" if head else "a parent for a block behind the first",
                "nil" if event.parent is None else f"parent {event.parent}",
                at_batch(batch, event=event),
            )

    @judge(
        "KVW-CHN-002", unclaimed=unless(lambda _, statement: any(map(_is_window, statement.groups))), memory="O(window)"
    )
    def window_parent(self, say: Say, batch: Batch, event: Event, parent: int) -> None:
        """KVW-CHN-002: A publisher MUST name as parent, in a window group, only a block that was stored in that group
        since the last clear of the incarnation.

        A window may have freed the parent: that it was stored is enough, residency is not asked for.
        """
        held = self.windows.holds(event.group, parent)
        if held:
            say.saw()
        elif held is False:
            say.broke(
                f"a parent that was stored in group {event.group} since the last clear",
                f"parent {parent}, never stored there",
                at_batch(batch, event=event, stored=self.facts.stored_in(parent)),
            )

    @judge("KVW-CHN-003", memory="O(resident)")
    def resident_parent(self, say: Say, batch: Batch, event: Event, parent: int) -> None:
        """KVW-CHN-003: A publisher MUST name as parent, in a full-attention group, only a block that is resident at
        that moment in at least one medium of that group on the same stream.

        Unknown parents (a late join, a hole) are no witness; absent ones are absent from every medium.
        """
        state = self.facts.parent
        if state is State.RESIDENT:
            say.saw()
        elif state is State.ABSENT:
            say.broke(
                f"a parent that is resident in group {event.group}",
                f"parent {parent} of block {event.hashes[0]} is resident in no medium",
                at_batch(batch, event=event, stored=self.facts.stored_in(parent)),
            )

    @judge("KVW-CHN-004", memory="O(resident)")
    def no_repeat(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-CHN-004: A publisher MUST NOT let a hash occur twice in one chain, a block that names itself as parent
        included.
        """
        repeated = self._repeated(event)
        if repeated is None:
            say.saw()
            return
        say.broke(
            "hashes that occur once in a chain",
            f"hash {repeated} is its own ancestor",
            at_batch(batch, event=event, stored=self.facts.stored_in(repeated)),
        )

    def _repeated(self, event: Event) -> int | None:
        """The first hash of an event that stands above itself.

        The ancestors are walked only if a block gets another parent than it had, or was named as a parent before it
        was stored: nothing else can close a circle.
        """
        own: set[int] = {event.parent} if event.parent is not None else set()
        parent, bends = event.parent, False
        for value in event.hashes:
            if value in own:
                return value
            own.add(value)
            key = (event.group, value)
            bends = bends or key in self.named or self.parents.get(key, parent) != parent
            parent = value
        if not bends:
            return None
        hashes = set(event.hashes)
        above: set[int] = set()
        at = event.parent
        while at is not None and at not in above:
            if at in hashes:
                return at
            above.add(at)
            at = self.parents.get((event.group, at))
        return None
