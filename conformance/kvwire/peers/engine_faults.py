"""Engines that break chains, hashes or residency: one small change each of the cache or of what it announces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import msgspec

from kvwire_reference.announcer import Announcer, Fate, Kind, Run
from kvwire_reference.cache import CacheConfig, CacheEngine, MmItem
from kvwire_reference.hashing import ALGORITHMS, ChainState, Token
from kvwire_reference.outlet import Outlet
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.radix import Block, Piece
from kvwire_reference.wire import Batch, BlockStored


class Unchecked(ZmqPublisher):
    """Encodes whatever it is given; no fault by itself."""

    def _encode(self, batch: Batch) -> bytes:
        return msgspec.msgpack.encode(batch)


class Announcing(CacheEngine):
    """An engine with another announcer, and with fields of its configuration replaced."""

    announcing: ClassVar[type[Announcer]] = Announcer
    config_fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, msgspec.structs.replace(config, **self.config_fields))
        self.announcer = self.announcing(self.announcer.form)


# --- which blocks are announced ----------------------------------------------------------------------------------


class _PartialToo(Announcer):
    def _is_full(self, block: Block) -> bool:
        return True

    def _is_covered(self, block: Block) -> bool:
        return True


class AnnouncesPartialBlocks(Announcing):
    """Announces blocks that are not full."""

    announcing = _PartialToo


class Capped(Announcing):
    """Announces four blocks per iteration at most; no fault by itself."""

    config_fields: ClassVar[dict[str, Any]] = {"max_entries": 4}


class _AnyParent(Announcer):
    def _may_follow(self, block: Block) -> bool:
        return True

    def touched(self, block: Block) -> None:
        """Announce nothing late."""


class AnnouncesChildrenOfCapped(Capped):
    """Announces, in the next iteration, children of blocks that its limit shed, as the model publisher does."""

    announcing = _AnyParent


class _RemovesAll(Announcer):
    def _fate_of_removal(self, block: Block, life_cycle: int) -> Fate:
        return Fate.REMOVED if life_cycle == self.form.target else Fate.OTHER_LIFE_CYCLE


class RemovesUnannounced(Announcing):
    """Announces the removal of partial blocks, which it never announced as stored."""

    announcing = _RemovesAll


class _Forgetful(Announcer):
    _turn = 0

    def _retract(self, block: Block) -> None:
        self._turn += 1
        if self._turn % 5:
            super()._retract(block)
        else:
            block.announced = False


class EvictsSilently(Announcing):
    """Says nothing of every fifth eviction."""

    announcing = _Forgetful


class _LeaksSalt(Announcer):
    salt: str | None = None

    def _stored_event(self, blocks: list[Block]) -> BlockStored:
        event = super()._stored_event(blocks)
        if self.salt is None:
            return event
        return msgspec.structs.replace(event, extra_keys=tuple((self.salt,) for _ in blocks))


class LeaksSalt(Announcing):
    """Puts the salt's text into ``extra_keys``, as vLLM does."""

    announcing = _LeaksSalt

    def insert(
        self,
        tokens: Sequence[Token],
        *,
        lora_id: int | None = None,
        salt: str | None = None,
        mm: Sequence[MmItem] = (),
        computed: int | None = None,
    ) -> int:
        assert isinstance(self.announcer, _LeaksSalt)
        self.announcer.salt = salt
        return super().insert(tokens, lora_id=lora_id, salt=salt, mm=mm, computed=computed)


# --- resets ------------------------------------------------------------------------------------------------------


class _NeverCleared(Announcer):
    def cleared(self) -> None:
        """Say nothing."""


class ResetsSilently(Announcing):
    """Says nothing of a reset."""

    announcing = _NeverCleared


class _WaitsWithClears(Announcer):
    def flush(self) -> Any:
        if all(run.kind is Kind.CLEARED for run in self._runs):
            return ()
        return super().flush()


class ResetsLate(Announcing):
    """Tells of a reset only with the next store, as vLLM does."""

    announcing = _WaitsWithClears


class ClearsWithoutReset(CacheEngine):
    """Sends ``AllBlocksCleared`` with every fifteenth prompt and keeps its cache."""

    _turn = 0

    def flush(self) -> Batch | None:
        self._turn += 1
        if self._turn % 15 == 0:
            self.announcer._runs.append(Run(Kind.CLEARED))  # noqa: SLF001 - a fault is made here
        return super().flush()


# --- hashes ------------------------------------------------------------------------------------------------------


class LastEightBytes(Announcing):
    """Takes the last eight bytes of the key instead of the first."""

    config_fields: ClassVar[dict[str, Any]] = {"algorithm": "v2_sha256_low64/u32"}


class EightByteTokens(Announcing):
    """Hashes tokens as eight bytes."""

    config_fields: ClassVar[dict[str, Any]] = {"algorithm": "v2_sha256_64/u64"}


class SwitchesWidth(CacheEngine):
    """Hashes tokens as four bytes at first, and as eight from its sixtieth block on."""

    _blocks = 0

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        self._blocks += 1
        algorithm = self.algorithm if self._blocks <= 60 else ALGORITHMS["v2_sha256_64/u64"]
        return algorithm.next(state, piece.tokens)


class IgnoresScope(CacheEngine):
    """Gives one reuse scope's hashes to every other, as SGLang does with LoRA adapters."""

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return replace(self.algorithm.root(None, None), lora_id=lora_id)


class IgnoresLastToken(CacheEngine):
    """Leaves the last token of a block out of its hash."""

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return self.algorithm.next(state, piece.tokens[:-1] or piece.tokens)


class HashesAnew(CacheEngine):
    """Hashes with a counter, so that a block that comes back has another hash."""

    _blocks = 0

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        self._blocks += 1
        return self.algorithm.next(state, (*piece.tokens, self._blocks))


def mix32_without_wrap(value: int, seed: int) -> int:
    """``mix32`` with its last addition in 64 bits: an early Python port of ``v1_block_key``."""
    v = value % 2**32
    v = ((v >> 16) ^ v) * 0x45D9F3B % 2**32
    v = ((v >> 16) ^ v) * 0x45D9F3B % 2**32
    v = ((v >> 16) ^ v) + 0x9E3779B9
    return seed ^ (v + (seed << 6) + (seed >> 2)) % 2**64


def mix64(value: int, seed: int) -> int:
    """``mix64`` of ``v1_block_key``, as it should be."""
    v = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB % 2**64
    v ^= v >> 31
    return seed ^ (v + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64


class NoWrap(CacheEngine):
    """Computes ``v1_block_key`` without the 32-bit wrap."""

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        honest = super()._next_state(state, piece)
        if honest.fallback:
            return honest
        seed = len(piece.tokens) ^ ((state.hash or 0) * 0xBF58476D1CE4E5B9 % 2**64)
        if state.hash is None and state.salt_id is not None:
            seed = mix64(state.salt_id, seed)
        for token in piece.tokens:
            assert isinstance(token, int)
            seed = mix32_without_wrap(token, seed)
        if state.lora_id is not None:
            seed = mix64(state.lora_id, seed)
        return replace(honest, hash=seed)
