"""Engines whose word about what they hold is not true, or not complete: one small change each."""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.peers.engine_faults import Announcing
from kvwire_reference.announcer import Announcer, EventForm, Kind, Run
from kvwire_reference.cache import CacheEngine
from kvwire_reference.hashing import ChainState
from kvwire_reference.radix import Block, Piece
from kvwire_reference.wire import Event


class _CapsAll(Announcer):
    _removals = 0

    def _retract(self, block: Block) -> None:
        self._removals += 1
        if self._removals <= self.form.max_entries:
            super()._retract(block)
        else:
            block.announced = False

    def flush(self) -> tuple[Event, ...]:
        self._removals = 0
        return super().flush()


class CapsRemovals(Announcing):
    """Lets the entry limit shed removals too."""

    announcing = _CapsAll


class _NeverLate(Announcer):
    def touched(self, block: Block) -> None:
        """Say nothing of what was held back."""


class NeverAnnouncesLate(Announcing):
    """Announces a block when it is stored, or never."""

    announcing = _NeverLate


class _Once(Announcer):
    def __init__(self, form: EventForm) -> None:
        super().__init__(form)
        self._gone: set[int] = set()

    def _retract(self, block: Block) -> None:
        self._gone.add(block.hash)
        super()._retract(block)

    def _may_follow(self, block: Block) -> bool:
        return block.hash not in self._gone and super()._may_follow(block)


class RecomputesSilently(Announcing):
    """Does not announce a block again that was evicted and computed anew."""

    announcing = _Once


class _CountsCopies(Announcer):
    _turn = 0
    _newest: Block | None = None

    def _announce(self, block: Block) -> None:
        super()._announce(block)
        self._newest = block

    def _retract(self, block: Block) -> None:
        super()._retract(block)
        self._turn += 1
        newest = self._newest
        if self._turn % 3 == 0 and newest is not None and newest.announced:
            super()._retract(newest)


class RemovesFirstCopy(Announcing):
    """Announces that the block announced last is gone now and then when another one is evicted, as of its copy."""

    announcing = _CountsCopies


class RemovesOnSplit(CacheEngine):
    """Announces that the blocks that two prompts share are gone when their ways part, and keeps them."""

    _shared: Sequence[Block] = ()

    def _extend(self, root: Block, path: list[Block], pieces: Sequence[Piece], states: Sequence[ChainState]) -> None:
        self._shared = tuple(path) if path and pieces and not path[-1].is_leaf else ()
        super()._extend(root, path, pieces, states)

    def _cover(self, path: Sequence[Block], length: int, computed: int) -> None:
        super()._cover(path, length, computed)
        gone = [block for block in reversed(self._shared) if block.announced]
        if gone:
            self.announcer._runs.append(Run(Kind.REMOVED, gone))  # noqa: SLF001 - a fault is made here


class HashesContentOnly(CacheEngine):
    """Hashes a block's tokens without what stands before them."""

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return super()._next_state(self._root_state(state.lora_id, state.salt_id), piece)


class _Buffers(Announcer):
    def __init__(self, form: EventForm) -> None:
        super().__init__(form)
        self._held: list[Run] = []

    def flush(self) -> tuple[Event, ...]:
        removals = [run for run in self._runs if run.kind is Kind.REMOVED]
        self._runs = [run for run in self._runs if run.kind is not Kind.REMOVED] + self._held
        self._held = removals
        return super().flush()


class RemovesLate(Announcing):
    """Announces removals an iteration late, after the stores that took their room."""

    announcing = _Buffers
