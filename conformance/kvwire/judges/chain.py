"""Chain: parents (spec/chain.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvwire.cache.chains import Window
from kvwire.cache.ledger import ALL, State
from kvwire.cache.lineage import declared
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import FEW_TOKENS, Area, Context, Say, at_batch, judge, unless, unused
from kvwire.judges.facts import cleared_by
from kvwire.judges.step import Step
from kvwire.wire.events import Event, GroupKind

Blocks = set[tuple[int | bytes, ...]]
"""Tokens of blocks."""
EXCEEDED = "the memory for window groups was exceeded: what was forgotten is not judged"
SCOPES = 4
"""How many scopes of one block are remembered: two are a fault of its hash already, and of so many nothing is said."""


class _Scope(NamedTuple):
    """What a store says of its reuse scope; None: nothing."""

    name: str | None
    adapter: int | None
    tag: str | None


def _compare(one: _Scope, other: _Scope) -> bool | None:
    """Whether two scopes agree; None when they say nothing that can be compared."""
    pairs: list[tuple[str | int | None, str | int | None]] = [(one.name, other.name), (one.tag, other.tag)]
    if one.name is None and other.name is None:
        pairs.append((one.adapter, other.adapter))
    told = [a == b for a, b in pairs if a is not None and b is not None]
    return all(told) if told else None


def _words(scope: _Scope) -> str:
    told = zip(("lora_name", "lora_id", "scope"), scope, strict=True)
    return ", ".join(f"{name} {value}" for name, value in told if value is not None)


class Chain(Area):
    """Follows the stores of a stream, and who was named as parent."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.scopes: Window[tuple[int, int], frozenset[_Scope]] = Window()
        """(group, hash) → what its stores said of their scopes."""
        self.cut: dict[int, tuple[Blocks, Blocks]] = {}
        """Block size → first blocks of our prompts, and the blocks behind them."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.facts.kinds.begin()
        self._forget(complete=incarnation.origin_known)

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self.facts.kinds.begin()
        self._forget(complete=False)

    def _forget(self, *, complete: bool) -> None:
        self.scopes.clear()
        self.facts.lineage.forget()
        self.facts.windows.begin(complete=complete)

    def on_step(self, step: Step) -> None:
        self.window_parent.saw(step.window_parents)
        self.resident_parent.saw(step.resident_parents)
        self.no_repeat.saw(step.chained)
        if step.exceeded:
            self.window_parent.note(EXCEEDED)

    def on_event(self, batch: Batch, event: Event) -> None:
        if not event.sound:
            return
        if event.kind == "cleared":
            if cleared_by(event) == ALL:
                self._forget(complete=True)
            else:
                self._gone((key.location.group, key.hash) for key in self.facts.cleared)
        elif event.kind == "removed":
            self._gone((event.group, value) for value in event.hashes)
        elif event.hashes:
            self._stored(batch, event)

    def _gone(self, blocks: Iterable[tuple[int, int]]) -> None:
        """Blocks left a location: what no location of their group holds has no parent any more."""
        for group, value in blocks:
            if self.facts.ledger.parent_state(group, value) is not State.RESIDENT:
                self.facts.lineage.of(group).parents.pop(value, None)

    def _stored(self, batch: Batch, event: Event) -> None:
        kind = self.facts.kinds.of(event)
        if not self.facts.location:
            self._linked(batch, event, kind)
        if self.facts.windows.add(event.group, event.hashes, windowed=kind == "window"):
            self.window_parent.note(EXCEEDED)

    def _linked(self, batch: Batch, event: Event, kind: GroupKind) -> None:
        """A store that says where its blocks hang."""
        if event.whole and "parent_block_hash" in event.keys:
            self.nil_at_the_start(batch, event)
        scope = _Scope(event.lora_name, event.lora_id or None, event.scope)
        if event.parent is not None:
            if kind == "window" and self.facts.partial is False:
                self.window_parent(batch, event, event.parent)
            elif kind == "dense" and self.facts.partial is False:
                self.resident_parent(batch, event, event.parent)
            self.same_scope(batch, event, event.parent, scope)
        if event.parent is not None or len(event.hashes) > 1:
            self.no_repeat(batch, event)
        self.facts.lineage.of(event.group).store(event.hashes, event.parent)
        if any(part is not None for part in scope):
            for value in event.hashes:
                self._keep((event.group, value), scope)

    def _keep(self, block: tuple[int, int], scope: _Scope) -> None:
        before = self.scopes.get(block) or frozenset()
        if scope not in before and len(before) < SCOPES:
            self.scopes.put(block, before | {scope})

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

    def _generated(self, event: Event, parent: int) -> bool:
        """Whether a block of few tokens stands behind the end of a prompt, or behind what was missed."""
        if (event.block_size or 1) >= FEW_TOKENS:
            return False
        above = self.facts.identity.chains.get(parent)
        if above is None or above.chain is None:
            return not self.facts.ledger.complete
        return bool(above.ended)

    @judge("KVW-CHN-001", memory="O(window)")
    def nil_at_the_start(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-CHN-001: A publisher MUST send nil as `parent_block_hash` if, and only if, the event begins with the
        first block of a chain.

        Decided only for blocks whose tokens stand in a prompt of ours, at its head or behind it, not at both, and
        not for one that an engine can have generated.
        """
        heads, bodies = self._blocks(event.block_size or 1)
        first = event.block(0)
        head, body = first in heads, first in bodies
        if head == body or (head and event.parent is not None and self._generated(event, event.parent)):
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
        "KVW-CHN-002",
        unclaimed=unless(lambda _, statement: "window" in map(declared, statement.groups)),
        declares="groups.window",
        memory="O(window)",
    )
    def window_parent(self, say: Say, batch: Batch, event: Event, parent: int) -> None:
        """KVW-CHN-002: A publisher MUST name as parent, in a window group, only a block that was stored in that group
        since the last clear of the incarnation, partial entries excepted.

        A window may have freed the parent: that it was stored is enough, residency is not asked for.
        """
        held = self.facts.windows.holds(event.group, parent)
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
        """KVW-CHN-003: A publisher MUST name as parent, in a dense group, only a block that is resident at that moment
        in at least one location of that group on the same stream, partial entries excepted.

        Unknown parents (a late join, a hole) are no witness; absent ones are absent from every location.
        """
        state = self.facts.parent
        if state is State.RESIDENT:
            say.saw()
        elif state is State.ABSENT:
            say.broke(
                f"a parent that is resident in group {event.group}",
                f"parent {parent} of block {event.hashes[0]} is resident in none of its locations"
                + self.facts.ended_in(parent),
                at_batch(batch, event=event, stored=self.facts.stored_in(parent)),
            )

    @judge("KVW-CHN-006", unclaimed=unused, memory="O(window)")
    def same_scope(self, say: Say, batch: Batch, event: Event, parent: int, scope: _Scope) -> None:
        """KVW-CHN-006: A publisher MUST NOT name as parent a block of another reuse scope.

        Decided where both events name an adapter or carry a scope tag: nil, or an id of 0, is no knowledge. A block
        that was stored in several scopes is of each of them.
        """
        known = self.scopes.get((event.group, parent)) or frozenset()
        told = {_compare(scope, other) for other in known}
        if None in told or not told or len(known) == SCOPES:
            return
        if True in told:
            say.saw()
            return
        say.broke(
            f"a parent of the scope of the event, {_words(scope)}",
            f"parent {parent}, which was stored in group {event.group} with {_words(min(known, key=_words))}",
            at_batch(batch, event=event, stored=self.facts.stored_in(parent)),
        )

    @judge("KVW-CHN-004", memory="O(resident)")
    def no_repeat(self, say: Say, batch: Batch, event: Event) -> None:
        """KVW-CHN-004: A publisher MUST NOT let a hash occur twice in one chain, a block that names itself as parent
        included.
        """
        repeated = self.facts.lineage.of(event.group).repeated(event.hashes, event.parent)
        if repeated is None:
            say.saw()
            return
        say.broke(
            "hashes that occur once in a chain",
            f"hash {repeated} is its own ancestor",
            at_batch(batch, event=event, stored=self.facts.stored_in(repeated)),
        )
