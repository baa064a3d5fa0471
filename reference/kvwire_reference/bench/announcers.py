"""The ways of events through an engine, each an announcer: none at all, filtered at the mutation, and generic.

An engine of the reference has one tier. Here a host tier stands in front of each announcer, the silent one too: a full
page that leaves the device is copied to the host, and comes back when its block is stored again.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import chain
from typing import TypeAlias

import msgspec

from kvwire_reference.announcer import MEDIUM, Announcer, EventForm
from kvwire_reference.hashing import Token
from kvwire_reference.radix import Block
from kvwire_reference.wire import BlockRemoved, BlockStored, Event, signed

DEVICE, HOST = 0, 1


class Tiered(Announcer):
    """Filtered at the mutation, and nothing is built for a change of tier: the way of the reference."""

    def __init__(self, form: EventForm, host: int) -> None:
        super().__init__(form)
        self._host: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._room = host

    def stored(self, block: Block, life_cycle: int) -> None:
        """A page appeared on the device, or grew; a copy that the host has of it came back."""
        copy = block.hash, life_cycle
        if copy in self._host:
            del self._host[copy]
            self.moved(block, life_cycle, DEVICE)
        self.held(block, life_cycle)

    def removed(self, block: Block, life_cycle: int) -> None:
        """A page left the device; if it is full the host keeps it, and the longest kept one may have to go."""
        if len(block.piece.tokens) == self.form.block_size:
            self._host[block.hash, life_cycle] = None
            self.moved(block, life_cycle, HOST)
        self.left(block, life_cycle)
        if len(self._host) > self._room:
            (gone, of), _ = self._host.popitem(last=False)
            self.dropped(gone, of)

    def held(self, block: Block, life_cycle: int) -> None:
        """`block` has a page on the device."""
        super().stored(block, life_cycle)

    def left(self, block: Block, life_cycle: int) -> None:
        """`block` has no page on the device any more."""
        super().removed(block, life_cycle)

    def moved(self, block: Block, life_cycle: int, tier: int) -> None:
        """A page was copied to a tier."""

    def dropped(self, block_hash: int, life_cycle: int) -> None:
        """The host has no copy any more."""


class Silent(Tiered):
    """Events off: the tiers are kept, and nothing is looked at, collected or built."""

    def touched(self, block: Block) -> None:
        """Nothing."""

    def held(self, block: Block, life_cycle: int) -> None:
        """Nothing."""

    def left(self, block: Block, life_cycle: int) -> None:
        """Nothing."""

    def cleared(self) -> None:
        """Nothing."""

    def flush(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()


class Created(msgspec.Struct, frozen=True, tag=True):
    """A life cycle was given its pool."""

    number: int
    life_cycle: int


class Stored(msgspec.Struct, frozen=True, tag=True):
    """A page appeared on the device, or grew to `covered` tokens."""

    number: int
    life_cycle: int
    block_hash: int
    parent_hash: int | None
    tokens: tuple[Token, ...]
    covered: int
    lora_id: int | None


class Updated(msgspec.Struct, frozen=True, tag=True):
    """A page was copied to another tier."""

    number: int
    life_cycle: int
    block_hash: int
    old_tier: int
    new_tier: int


class Removed(msgspec.Struct, frozen=True, tag=True):
    """A page left a tier."""

    number: int
    life_cycle: int
    block_hash: int
    tier: int


GenericEvent: TypeAlias = Created | Stored | Updated | Removed


class Fate(Enum):
    """What became of a generic event: it reached the wire, or why it was thrown away."""

    STORED = "announced as stored"
    REMOVED = "announced as removed"
    CREATED = "a pool was created"
    TIER = "a change of tier"
    OTHER_LIFE_CYCLE = "not of the target life cycle"
    PARTIAL = "the block is partial"
    KNOWN = "the block stands announced"
    BEHIND = "its parent does not stand announced"
    UNANNOUNCED = "a removal of a block that does not stand announced"


class Run(msgspec.Struct):
    """What makes one event on the wire: stores of which each is the next one's parent, or consecutive removals."""

    stored: list[Stored] = []
    removed: list[Removed] = []


class Adapter:
    """From the generic events of one rank to what stands on the wire: the filter of the old path, at its end."""

    def __init__(self, form: EventForm) -> None:
        self.form = form
        self.fates: Counter[Fate] = Counter()
        self._announced: set[int] = set()

    def events(self, generic: Sequence[GenericEvent]) -> tuple[Event, ...]:
        """Filter the events of an iteration and coalesce what remains."""
        runs: list[Run] = []
        for event in generic:
            fate = self._fate(event)
            self.fates[fate] += 1
            last = runs[-1] if runs else None
            if fate is Fate.STORED and isinstance(event, Stored):
                self._announced.add(event.block_hash)
                if last is not None and last.stored and last.stored[-1].block_hash == event.parent_hash:
                    last.stored.append(event)
                else:
                    runs.append(Run(stored=[event]))
            elif fate is Fate.REMOVED and isinstance(event, Removed):
                self._announced.remove(event.block_hash)
                if last is not None and last.removed:
                    last.removed.append(event)
                else:
                    runs.append(Run(removed=[event]))
        return tuple(self._stored(run.stored) if run.stored else self._removed(run.removed) for run in runs)

    def _fate(self, event: GenericEvent) -> Fate:
        match event:
            case Created():
                return Fate.CREATED
            case Updated():
                return Fate.TIER
            case Removed(tier=tier) if tier != DEVICE:
                return Fate.TIER
        if event.life_cycle != self.form.target:
            return Fate.OTHER_LIFE_CYCLE
        known = event.block_hash in self._announced
        if isinstance(event, Removed):
            return Fate.REMOVED if known else Fate.UNANNOUNCED
        if known:
            return Fate.KNOWN
        if event.covered < self.form.block_size:
            return Fate.PARTIAL
        follows = event.parent_hash is None or event.parent_hash in self._announced
        return Fate.STORED if follows else Fate.BEHIND

    def _stored(self, run: Sequence[Stored]) -> BlockStored:
        first = run[0]
        tokens = chain.from_iterable(event.tokens for event in run)
        return BlockStored(
            block_hashes=tuple(signed(event.block_hash) for event in run),
            parent_block_hash=None if first.parent_hash is None else signed(first.parent_hash),
            token_ids=tuple(token.hex() if isinstance(token, bytes) else token for token in tokens),
            block_size=self.form.block_size,
            lora_id=first.lora_id,
            medium=MEDIUM,
            lora_name=None,
        )

    def _removed(self, run: Sequence[Removed]) -> BlockRemoved:
        return BlockRemoved(block_hashes=tuple(signed(event.block_hash) for event in run), medium=MEDIUM)


class Generic(Tiered):
    """Every mutation becomes an event, and waits until somebody takes it."""

    def __init__(self, form: EventForm, host: int, life_cycles: Iterable[int]) -> None:
        super().__init__(form, host)
        self.built = 0
        self._events: list[GenericEvent] = []
        for life_cycle in life_cycles:
            self._events.append(Created(self._number(), life_cycle))

    def touched(self, block: Block) -> None:
        """No page changed."""

    def held(self, block: Block, life_cycle: int) -> None:
        """Build a store."""
        parent = block.parent
        self._events.append(
            Stored(
                self._number(),
                life_cycle,
                block.hash,
                None if parent is None or parent.is_root else parent.hash,
                block.piece.tokens,
                block.pages[life_cycle],
                block.state.lora_id,
            )
        )

    def left(self, block: Block, life_cycle: int) -> None:
        """Build a removal."""
        self._events.append(Removed(self._number(), life_cycle, block.hash, DEVICE))

    def moved(self, block: Block, life_cycle: int, tier: int) -> None:
        """Build an update."""
        self._events.append(Updated(self._number(), life_cycle, block.hash, DEVICE + HOST - tier, tier))

    def dropped(self, block_hash: int, life_cycle: int) -> None:
        """Build a removal from the host."""
        self._events.append(Removed(self._number(), life_cycle, block_hash, HOST))

    def take(self) -> list[GenericEvent]:
        """Hand over what was built since the last time."""
        taken, self._events = self._events, []
        return taken

    def flush(self) -> tuple[Event, ...]:
        """Nothing goes to the wire from here."""
        return ()

    def _number(self) -> int:
        self.built += 1
        return self.built - 1


class FilteredLate(Generic):
    """Every mutation becomes an event, and an adapter filters them when the iteration ends."""

    def __init__(self, form: EventForm, host: int, life_cycles: Iterable[int]) -> None:
        super().__init__(form, host, life_cycles)
        self.adapter = Adapter(form)

    def flush(self) -> tuple[Event, ...]:
        """End the iteration: what passes the filter."""
        return self.adapter.events(self.take())
