"""From mutations of the cache to events: filter, announce once, cap, coalesce.

Most of what happens in a cache concerns no router: partial blocks, other layer groups, blocks that are known
already. It is told apart here, at the mutation, before anything is built. What remains obeys two rules that
let a consumer trust a stream: a block is announced only under a parent that stands announced, and only what
stands announced is removed.
"""

from collections import Counter
from enum import Enum
from itertools import chain

import msgspec

from kvwire_reference.hashing import Token
from kvwire_reference.radix import Block
from kvwire_reference.runs import Kind, Run, add, net
from kvwire_reference.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event, MmKey, TokenId, signed

__all__ = ["MEDIUM", "Announcer", "EventForm", "Fate", "Kind", "Run"]

MEDIUM = "GPU"
"""The medium in which the engine computes."""


class EventForm(msgspec.Struct, frozen=True, kw_only=True):
    """How the events of one place look, and which blocks get one.

    A place is a life cycle (`target`, by its id) in a medium. `blocks` of the cache make one block of it, of
    `block_size` tokens, which has the hash of the last of them. `group_idx`, `kind` and `window` (tokens) are sent
    only when set. `windowed`: a parent need only have been announced once, since its page leaves before those of its
    descendants; otherwise it has to stand announced in some medium of the group.

    `multimodal`: consumers decode digest tokens, so blocks with multimodal items are announced too, and every event
    carries `mm_keys`. `max_entries`: stored blocks per iteration, in all places together. `netting`: what does not
    outlive an iteration is left out. `hash_algo` and `v` are sent only when set, because one consumer drops a batch
    over any key it does not know.
    """

    block_size: int
    target: int
    medium: str = MEDIUM
    blocks: int = 1
    group_idx: int | None = None
    kind: str | None = None
    window: int | None = None
    windowed: bool = False
    multimodal: bool = False
    max_entries: int = 50_000
    netting: bool = False
    hash_algo: str | None = None
    v: int | None = None


class Fate(Enum):
    """What became of a mutation of the cache: it reached an event, or why it did not."""

    STORED = "announced as stored"
    REMOVED = "announced as removed"
    OTHER_LIFE_CYCLE = "not of the target life cycle"
    KNOWN = "the block stands announced"
    PARTIAL = "the block has fewer tokens than a block holds"
    PARTLY_COVERED = "its page covers only part of its tokens"
    MULTIMODAL = "nobody would decode its multimodal tokens"
    BEHIND = "its parent does not stand announced"
    CAPPED = "the limit of the iteration is reached"
    UNANNOUNCED = "a removal of a block that does not stand announced"
    NETTED = "stored and removed within the iteration"


class Announcer:
    """Collects the events of one iteration of the scheduler from the mutations of one place that it is told of.

    The announcers of an engine share the iteration: `beside` makes one for another place, and `flush` of the first
    ends the iteration for all.
    """

    def __init__(self, form: EventForm) -> None:
        self.form = form
        self.fates: Counter[Fate] = Counter()
        self.index = 0
        self.places: list[Announcer] = [self]
        self.entries = 0
        self._runs: list[Run] = []
        self._fresh: set[tuple[int, Block]] = set()

    def beside(self, form: EventForm) -> "Announcer":
        """Make the announcer of another place of the same engine."""
        other = type(self)(form)
        other.index, other.places, other.fates = len(self.places), self.places, self.fates
        self.places.append(other)
        return other

    # What the cache reports

    def stored(self, block: Block, life_cycle: int) -> None:
        """The page of `block` in `life_cycle` appeared, or covers more of its tokens than before."""
        fate = self._fate_of_store(block, life_cycle)
        self.fates[fate] += 1
        if fate is Fate.STORED:
            self._announce(block)

    def touched(self, block: Block) -> None:
        """`block` was reused: the occasion to announce one that was held back when it was stored."""
        if self._fate_of_store(block, self.form.target) is Fate.STORED:
            self.fates[Fate.STORED] += 1
            self._announce(block)

    def removed(self, block: Block, life_cycle: int) -> None:
        """The page of `block` in `life_cycle` is gone. Never limited: a removal held back leaves a ghost."""
        fate = self._fate_of_removal(block, life_cycle)
        self.fates[fate] += 1
        if fate is Fate.REMOVED:
            self._retract(block)

    def cleared(self) -> None:
        """The whole cache was reset."""
        self._runs.append(Run(Kind.CLEARED))

    def flush(self) -> tuple[Event, ...]:
        """End the iteration: return its events in the order of happening, none if nothing happened."""
        runs, self._runs, self.entries = self._runs, [], 0
        if self.form.netting:
            runs = self._net(runs)
        self._fresh.clear()
        return tuple(self.places[run.place].event(run) for run in runs)

    # What the announcers of an engine share, in the first of them

    def record(self, kind: Kind, block: Block, place: int) -> None:
        """Note what is said of a block in a place, in the order of happening."""
        if kind is Kind.STORED:
            self.entries += 1
            if place not in block.standing:
                self._fresh.add((place, block))
        block.standing[place] = kind is Kind.STORED
        add(self._runs, kind, block, place, self.places[place].parent_of(block))

    # Whether it is said

    def _fate_of_store(self, block: Block, life_cycle: int) -> Fate:
        if life_cycle != self.form.target:
            return Fate.OTHER_LIFE_CYCLE
        if self._stands(block):
            return Fate.KNOWN
        if not self._is_full(block):
            return Fate.PARTIAL
        if not self._is_covered(block):
            return Fate.PARTLY_COVERED
        if not self._is_decodable(block):
            return Fate.MULTIMODAL
        if not self._may_follow(block):
            return Fate.BEHIND
        return Fate.STORED if self._has_room() else Fate.CAPPED

    def _fate_of_removal(self, block: Block, life_cycle: int) -> Fate:
        if life_cycle != self.form.target:
            return Fate.OTHER_LIFE_CYCLE
        return Fate.REMOVED if self._stands(block) else Fate.UNANNOUNCED

    def _stands(self, block: Block) -> bool:
        return block.standing.get(self.index, False)

    def _is_full(self, block: Block) -> bool:
        return len(block.piece.tokens) * self.form.blocks == self.form.block_size

    def _is_covered(self, block: Block) -> bool:
        return block.pages.get(self.form.target, 0) == self.form.block_size

    def _is_decodable(self, block: Block) -> bool:
        return self.form.multimodal or not any(part.piece.mm_keys for part in self._parts(block))

    def _may_follow(self, block: Block) -> bool:
        """Whether its parent stands announced in a medium of the group [KVW-CHN-003]; a chain may always begin."""
        parent = self.parent_of(block)
        if parent is None or parent.is_root:
            return parent is not None
        group = [place.index for place in self.places if place.form.target == self.form.target]
        if self.form.windowed:
            return any(index in parent.standing for index in group)  # [KVW-CHN-002]
        return any(parent.standing.get(index, False) for index in group)

    def _has_room(self) -> bool:
        return self.places[0].entries < self.form.max_entries

    def _announce(self, block: Block) -> None:
        self.places[0].record(Kind.STORED, block, self.index)

    def _retract(self, block: Block) -> None:
        self.places[0].record(Kind.REMOVED, block, self.index)

    def _net(self, runs: list[Run]) -> list[Run]:
        """Leave out what does not outlive the iteration, as if it had never been announced."""
        netted = net(
            runs,
            lambda place, block: self.places[place].parent_of(block),
            lambda place: self.places[place].form.target,
        )
        self.fates[Fate.STORED] -= len(netted.stored)
        self.fates[Fate.REMOVED] -= len(netted.removed)
        self.fates[Fate.NETTED] += len(netted.stored) + len(netted.removed)
        said = {(run.place, block) for run in netted.runs for block in run.blocks}
        for place, block in self._fresh.difference(said):
            del block.standing[place]
        return netted.runs

    # What a block of this place is made of

    def _parts(self, block: Block) -> list[Block]:
        """The blocks of the cache that make the one which ends here, in order."""
        parts = [block]
        while len(parts) < self.form.blocks and parts[-1].parent is not None:
            parts.append(parts[-1].parent)
        return parts[::-1]

    def parent_of(self, block: Block) -> Block | None:
        """The block before it in this place: the root of its scope, if it begins a chain."""
        return block.above(self.form.blocks)

    # How it is said

    def event(self, run: Run) -> Event:
        """Write a run of this place as an event."""
        match run.kind:
            case Kind.STORED:
                return self._stored_event(run.blocks)
            case Kind.REMOVED:
                return self._removed_event(run.blocks)
            case Kind.CLEARED:
                return AllBlocksCleared(v=self.form.v)

    def _stored_event(self, blocks: list[Block]) -> BlockStored:
        parent = self.parent_of(blocks[0])
        parts = [self._parts(block) for block in blocks]
        return BlockStored(
            block_hashes=self._wire_hashes(blocks),
            parent_block_hash=None if parent is None or parent.is_root else signed(parent.hash),
            token_ids=tuple(map(self._wire_token, chain.from_iterable(p.piece.tokens for p in chain(*parts)))),
            block_size=self.form.block_size,
            lora_id=blocks[0].state.lora_id,
            medium=self.form.medium,
            lora_name=None,
            group_idx=self.form.group_idx,
            kv_cache_spec_kind=self.form.kind,
            kv_cache_spec_sliding_window=self.form.window,
            scope=blocks[0].scope,
            mm_keys=tuple(map(_mm_keys, parts)) if self.form.multimodal else None,
            hash_algo=self.form.hash_algo,
            v=self.form.v,
        )

    def _removed_event(self, blocks: list[Block]) -> BlockRemoved:
        return BlockRemoved(
            block_hashes=self._wire_hashes(blocks),
            medium=self.form.medium,
            group_idx=self.form.group_idx,
            hash_algo=self.form.hash_algo,
            v=self.form.v,
        )

    def _wire_hashes(self, blocks: list[Block]) -> tuple[int, ...]:
        return tuple(signed(block.hash) for block in blocks)

    def _wire_token(self, token: Token) -> TokenId:
        return token.hex() if isinstance(token, bytes) else token


def _mm_keys(parts: list[Block]) -> tuple[MmKey, ...]:
    """Keys of a block that is made of several: of an item that goes through them the first, where it begins."""
    if len(parts) == 1:
        return parts[0].piece.mm_keys
    keys: dict[str, MmKey] = {}
    for key in chain.from_iterable(part.piece.mm_keys for part in parts):
        keys.setdefault(key.hash, key)
    return tuple(keys.values())
