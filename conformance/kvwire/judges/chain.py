"""Chain: parents (spec/chain.md)."""

from __future__ import annotations

from collections import OrderedDict

from kvwire.events import Event
from kvwire.judges.area import Area, Context, at_batch, judge
from kvwire.ledger import Key, Ledger, State
from kvwire.stimuli import Prompt, prompts
from kvwire.timeline import Batch, Gap, Incarnation
from kvwire.trace import Record

WALK = 4096
"""How many ancestors are looked at; a longer chain is looked at in part."""


class Chain(Area):
    """Follows the stores of a stream with a ledger of its own."""

    name = "chain"
    memory = "O(resident)"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.ledger = Ledger(context.statement.residency)
        self.parents: dict[tuple[int, int], int | None] = {}
        self.windows: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.window_complete = False
        self.stimuli: list[tuple[int, Record]] = []
        self.heads: set[tuple[int | bytes, ...]] = set()
        self.bodies: set[tuple[int | bytes, ...]] = set()
        self.prompts: tuple[Prompt, ...] | None = None
        self.window_groups: dict[int, bool] = {
            group.idx: group.window is not None for group in context.statement.groups
        }

    def on_record(self, index: int, record: Record) -> None:
        if record.event == "cache":
            self.stimuli.append((index, record))

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.ledger.begin(origin_known=incarnation.origin_known)
        self._forget(complete=incarnation.origin_known)

    def on_gap(self, gap: Gap) -> None:
        self.ledger.hole()
        self._forget(complete=False)

    def _forget(self, *, complete: bool) -> None:
        self.parents.clear()
        self.windows.clear()
        self.window_complete = complete

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if event.kind == "cleared":
            self.ledger.clear()
            self._forget(complete=True)
        elif event.kind == "removed":
            for value in event.hashes:
                self.ledger.remove(Key(event.medium, event.group, value))
        elif event.hashes:
            self._stored(batch, event)

    def _windowed(self, event: Event) -> bool:
        if not event.full_attention:
            self.window_groups[event.group] = True
        elif event.spec_kind is not None:
            self.window_groups[event.group] = False
        return self.window_groups.get(event.group, False)

    def _stored(self, batch: Batch, event: Event) -> None:
        windowed = self._windowed(event)
        if event.whole:
            self.nil_at_the_start(batch, event)
        if event.parent is not None:
            if windowed:
                self.window_parent(batch, event, event.parent)
            else:
                self.resident_parent(batch, event, event.parent)
        self.no_repeat(batch, event)
        parent = event.parent
        for value in event.hashes:
            self.ledger.store(Key(event.medium, event.group, value))
            if value != parent:
                self.parents[event.group, value] = parent
            if windowed:
                self.windows[event.group, value] = None
                self.windows.move_to_end((event.group, value))
            parent = value
        while len(self.windows) > self.context.statement.window_memory:
            self.windows.popitem(last=False)
            self.window_complete = False
            self.note("KVW-CHN-002", "the memory for window groups was exceeded: what was forgotten is not judged")

    @judge("KVW-CHN-001")
    def nil_at_the_start(self, batch: Batch, event: Event) -> None:
        """KVW-CHN-001: A publisher MUST send nil as `parent_block_hash` if, and only if, the event begins with the
        first block of a chain.

        Decided only for blocks whose tokens stand in a prompt of ours, at its head or behind it, not at both.
        """
        if self.prompts is None:
            self.prompts = prompts(self.stimuli)
        size = event.block_size or 1
        if not self.heads:
            for prompt in self.prompts:
                self.heads.add(prompt.tokens[:size])
                self.bodies.update(
                    prompt.tokens[at : at + size] for at in range(size, len(prompt.tokens) - size + 1, size)
                )
        first = event.block(0)
        head, body = first in self.heads, first in self.bodies
        if head == body:
            return
        if (event.parent is None) == head:
            self.saw("KVW-CHN-001")
        else:
            self.broke(
                "KVW-CHN-001",
                "nil for the first block of a prompt" if head else "a parent for a block behind the first",
                "nil" if event.parent is None else f"parent {event.parent}",
                at_batch(batch, event=event),
            )

    @judge("KVW-CHN-002")
    def window_parent(self, batch: Batch, event: Event, parent: int) -> None:
        """KVW-CHN-002: A publisher MUST name as parent, in a window group, only a block that was stored in that group
        since the last clear of the incarnation.

        A window may have freed the parent: that it was stored is enough, residency is not asked for.
        """
        if (event.group, parent) in self.windows:
            self.saw("KVW-CHN-002")
        elif self.window_complete:
            self.broke(
                "KVW-CHN-002",
                f"a parent that was stored in group {event.group} since the last clear",
                f"parent {parent}, never stored there",
                at_batch(batch, event=event),
            )

    @judge("KVW-CHN-003")
    def resident_parent(self, batch: Batch, event: Event, parent: int) -> None:
        """KVW-CHN-003: A publisher MUST name as parent, in a full-attention group, only a block that is resident at
        that moment in at least one medium of that group on the same stream.

        Unknown parents (a late join, a hole) are no witness; absent ones are absent from every medium.
        """
        state = self.ledger.parent_state(event.group, parent)
        if state is State.RESIDENT:
            self.saw("KVW-CHN-003")
        elif state is State.ABSENT:
            self.broke(
                "KVW-CHN-003",
                f"a parent that is resident in group {event.group}",
                f"parent {parent} of block {event.hashes[0]} is resident in no medium",
                at_batch(batch, event=event),
            )

    @judge("KVW-CHN-004")
    def no_repeat(self, batch: Batch, event: Event) -> None:
        """KVW-CHN-004: A publisher MUST NOT let a hash occur twice in one chain, a block that names itself as parent
        included.
        """
        above: set[int] = set()
        at = event.parent
        while at is not None and at not in above and len(above) < WALK:
            above.add(at)
            at = self.parents.get((event.group, at))
        if not above and len(event.hashes) < 2:
            return
        for value in event.hashes:
            if value in above:
                self.broke(
                    "KVW-CHN-004",
                    "hashes that occur once in a chain",
                    f"hash {value} is its own ancestor",
                    at_batch(batch, event=event),
                )
                return
            above.add(value)
        self.saw("KVW-CHN-004")
