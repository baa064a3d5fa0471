"""From mutations of the cache to events: filter, announce once, cap, coalesce.

Most of what happens in a cache concerns no router: partial blocks, other layer groups, blocks that are known
already. It is told apart here, at the mutation, before anything is built. What remains obeys two rules that
let a consumer trust a stream: a block is announced only under a parent that stands announced, and only what
stands announced is removed.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

import msgspec

from kvwire_reference.hashing import Token
from kvwire_reference.radix import Block
from kvwire_reference.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event, TokenId, signed

MEDIUM = "GPU"


class EventForm(msgspec.Struct, frozen=True, kw_only=True):
    """How events look and which blocks get one.

    `target` is the id of the life cycle whose blocks are announced. `multimodal`: consumers decode digest
    tokens, so blocks with multimodal items are announced too, and every event carries `mm_keys`.
    `max_entries`: stored blocks per iteration. `hash_algo` and `v` are sent only when set, because one
    consumer drops a batch over any key it does not know.
    """

    block_size: int
    target: int
    multimodal: bool = False
    max_entries: int = 50_000
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


class Kind(Enum):
    """What happened to the blocks of a run."""

    STORED = "stored"
    REMOVED = "removed"
    CLEARED = "cleared"


@dataclass(slots=True)
class Run:
    """Blocks that make one event: consecutive removals, or stores of which each is the next one's parent."""

    kind: Kind
    blocks: list[Block] = field(default_factory=list)


class Announcer:
    """Collects the events of one iteration of the scheduler from the mutations it is told of."""

    def __init__(self, form: EventForm) -> None:
        self.form = form
        self.fates: Counter[Fate] = Counter()
        self._runs: list[Run] = []
        self._entries = 0

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
        runs, self._runs, self._entries = self._runs, [], 0
        return tuple(self._event(run) for run in runs)

    # Whether it is said

    def _fate_of_store(self, block: Block, life_cycle: int) -> Fate:
        if life_cycle != self.form.target:
            return Fate.OTHER_LIFE_CYCLE
        if block.announced:
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
        return Fate.REMOVED if block.announced else Fate.UNANNOUNCED

    def _is_full(self, block: Block) -> bool:
        return len(block.piece.tokens) == self.form.block_size

    def _is_covered(self, block: Block) -> bool:
        return block.pages.get(self.form.target, 0) == self.form.block_size

    def _is_decodable(self, block: Block) -> bool:
        return self.form.multimodal or not block.piece.mm_keys

    def _may_follow(self, block: Block) -> bool:
        """Whether its parent stands announced; a chain may always begin."""
        return block.parent is not None and (block.parent.is_root or block.parent.announced)

    def _has_room(self) -> bool:
        return self._entries < self.form.max_entries

    def _announce(self, block: Block) -> None:
        block.announced = True
        self._entries += 1
        last = self._runs[-1] if self._runs else None
        if last is not None and last.kind is Kind.STORED and last.blocks[-1] is block.parent:
            last.blocks.append(block)
        else:
            self._runs.append(Run(Kind.STORED, [block]))

    def _retract(self, block: Block) -> None:
        block.announced = False
        last = self._runs[-1] if self._runs else None
        if last is not None and last.kind is Kind.REMOVED:
            last.blocks.append(block)
        else:
            self._runs.append(Run(Kind.REMOVED, [block]))

    # How it is said

    def _event(self, run: Run) -> Event:
        match run.kind:
            case Kind.STORED:
                return self._stored_event(run.blocks)
            case Kind.REMOVED:
                return self._removed_event(run.blocks)
            case Kind.CLEARED:
                return AllBlocksCleared(v=self.form.v)

    def _stored_event(self, blocks: list[Block]) -> BlockStored:
        parent = blocks[0].parent
        return BlockStored(
            block_hashes=self._wire_hashes(blocks),
            parent_block_hash=None if parent is None or parent.is_root else signed(parent.hash),
            token_ids=tuple(map(self._wire_token, chain.from_iterable(block.piece.tokens for block in blocks))),
            block_size=self.form.block_size,
            lora_id=blocks[0].state.lora_id,
            medium=MEDIUM,
            lora_name=None,
            mm_keys=tuple(block.piece.mm_keys for block in blocks) if self.form.multimodal else None,
            hash_algo=self.form.hash_algo,
            v=self.form.v,
        )

    def _removed_event(self, blocks: list[Block]) -> BlockRemoved:
        return BlockRemoved(
            block_hashes=self._wire_hashes(blocks),
            medium=MEDIUM,
            hash_algo=self.form.hash_algo,
            v=self.form.v,
        )

    def _wire_hashes(self, blocks: list[Block]) -> tuple[int, ...]:
        return tuple(signed(block.hash) for block in blocks)

    def _wire_token(self, token: Token) -> TokenId:
        return token.hex() if isinstance(token, bytes) else token
