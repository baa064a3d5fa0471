"""Engines whose word about what they hold is not true, or not complete: one small change each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kvwire.peers.mutant import Session, mutant
from kvwire_reference.announcer import Announcer, EventForm, Kind, Run
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.groups import Group
from kvwire_reference.hashing import ChainState
from kvwire_reference.outlet import Outlet
from kvwire_reference.radix import Block, Piece
from kvwire_reference.wire import Event

RESIDENCY = Session(probes=("live", "residency"))
"""A small cache of another instance is filled, hit, split, evicted and reset."""


@mutant(
    "caps-removals",
    breaks="RES-007",
    change="the entry limit sheds removals too",
    levels=("driven",),
    driven="RES-003",
    reason="what is gone was not said to be",
    reports="TensorRT-LLM#17631",
    session=Session(probes=("live", "cap")),
)
class CapsRemovals(Announcer):
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


@mutant(
    "never-announces-late",
    breaks="RES-008",
    change="what the entry limit shed is never announced",
    levels=("driven",),
    session=Session(probes=("live", "cap")),
)
class NeverAnnouncesLate(Announcer):
    def touched(self, block: Block) -> None:
        """Say nothing of what was held back."""


@mutant(
    "recomputes-silently",
    breaks="RES-013",
    change="a block that was evicted and computed again is not announced again",
    levels=("driven",),
    reports="sglang#32537 vllm-rbln#922",
    session=RESIDENCY,
)
class RecomputesSilently(Announcer):
    def __init__(self, form: EventForm) -> None:
        super().__init__(form)
        self._gone: set[int] = set()

    def _retract(self, block: Block) -> None:
        self._gone.add(block.hash)
        super()._retract(block)

    def _may_follow(self, block: Block) -> bool:
        return block.hash not in self._gone and super()._may_follow(block)


@mutant(
    "removes-first-copy",
    breaks="RES-012",
    change="a block that is still there is said to be gone",
    levels=("driven",),
    driven="EVT-017 RES-002",
    reason="in a window group the block can have left by itself, and is removed again",
    reports="vllm#55092",
    session=RESIDENCY,
)
class RemovesFirstCopy(Announcer):
    """The block announced last, now and then when another one is evicted, as if that were a copy of it."""

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


@mutant(
    "removes-on-split",
    breaks="RES-012",
    change="what two prompts share is said to be gone where they part",
    levels=("driven",),
    passive="CHN-003 RES-002",
    replayable="CHN-003 RES-002",
    driven="CHN-003 RES-002 RES-013",
    reason="what was removed is named as a parent, removed again later, and not announced when it is reused",
    reports="sglang#14934",
    session=RESIDENCY,
)
class RemovesOnSplit(CacheEngine):
    """It is kept all the same."""

    _shared: Sequence[Block] = ()

    def _extend(self, root: Block, path: list[Block], pieces: Sequence[Piece], states: Sequence[ChainState]) -> None:
        self._shared = tuple(path) if path and pieces and not path[-1].is_leaf else ()
        super()._extend(root, path, pieces, states)

    def _cover(self, path: Sequence[Block], length: int, computed: int) -> None:
        super()._cover(path, length, computed)
        gone = [block for block in reversed(self._shared) if block.announced]
        if gone:
            self.announcer._runs.append(Run(Kind.REMOVED, gone))  # noqa: SLF001 - a fault is made here


@mutant(
    "removes-late",
    breaks="RES-002",
    change="removals come an iteration late, after the stores that took their room",
    driven="RES-001 RES-003",
    reason="after a clear there is nothing to remove; until then what is gone was not said to be, and comes back",
    reports="TensorRT-LLM#11883",
    session="whether the iteration before a reset has removals hangs on the whole run",
)
class RemovesLate(Announcer):
    def __init__(self, form: EventForm) -> None:
        super().__init__(form)
        self._held: list[Run] = []

    def flush(self) -> tuple[Event, ...]:
        removals = [run for run in self._runs if run.kind is Kind.REMOVED]
        self._runs = [run for run in self._runs if run.kind is not Kind.REMOVED] + self._held
        self._held = removals
        return super().flush()


@mutant(
    "says-device-while-hosted",
    breaks="RES-003",
    change="a block that went to host memory is still announced on the device",
    levels=("driven",),
    session=Session(probes=("live", "tiers")),
)
class SaysDeviceWhileHosted(CacheEngine):
    """It is removed when it leaves the host too."""

    def _left(self, block: Block) -> None:
        self._demote(block)
        for group in self._groups:
            if group.id in block.hosted and not (self.config.host is not None and self.config.host.announced):
                block.pages.pop(group.id, 0)
            else:
                self._release(block, group)

    def _left_host(self, block: Block) -> None:
        for group in self._groups:
            if block.hosted.get(group.id) and group.id not in block.pages:
                self._announcer(group).removed(block, group.id)
        super()._left_host(block)


@mutant(
    "forgets-what-it-kept",
    breaks="RES-013",
    change="an engine that outlives its publisher does not announce its blocks to the new one",
    levels=("driven",),
    session=Session(probes=("live", "residency")),
)
class ForgetsWhatItKept(CacheEngine):
    """It holds back what they and their descendants have to say."""

    _kept: ClassVar[list[CacheEngine]] = []

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        for before in self._kept:
            self._tree, self._scopes = before._tree, before._scopes  # noqa: SLF001 - a fault is made here
            self._tree._removed = self._left  # noqa: SLF001
            for block in self._tree:
                block.standing.clear()
        self._kept[:] = [self]
        self._old = set(self._tree)

    def _hold(self, block: Block, group: Group, covered: int) -> None:
        if block in self._old or (block.parent is not None and block.parent in self._old):
            self._old.add(block)
            block.pages[group.id] = covered
        else:
            super()._hold(block, group, covered)
