"""Engines that break chains, hashes or what is announced: one small change each of the cache or its announcer."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from kvwire.peers.mutant import LISTENED, OPAQUE, Session, mutant
from kvwire_reference.announcer import Announcer, EventForm, Fate, Kind
from kvwire_reference.cache import CacheConfig, CacheEngine, MmItem
from kvwire_reference.hashing import ALGORITHMS, ChainState, Token, v1_block_hash
from kvwire_reference.outlet import Outlet
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.radix import Block, Piece
from kvwire_reference.wire import Batch, BlockRemoved, BlockStored, Event


class Unchecked(ZmqPublisher):
    """Encodes whatever it is given; no fault by itself."""

    def _encode(self, batch: Batch) -> bytes:
        return msgspec.msgpack.encode(batch)


# --- which blocks are announced ----------------------------------------------------------------------------------


@mutant(
    "partial-blocks",
    breaks="EVT-013",
    change="blocks that are not full are announced",
    driven="BAT-003 RES-003",
    reason="the engine does not count partial blocks as held; whatever is offered is encoded, "
    "a ts that is no number too",
    reports="TensorRT-LLM#16869",
    make_publisher=Unchecked,
    session=LISTENED,
)
class AnnouncesPartialBlocks(Announcer):
    def _is_full(self, block: Block) -> bool:
        return True

    def _is_covered(self, block: Block) -> bool:
        return True


@mutant(
    "child-of-capped",
    breaks="CHN-003",
    change="children of blocks that the limit shed are announced",
    driven="CHN-002 RES-013",
    reason="what its own limit shed is not announced when it is reused, in a window group either",
    session=Session(probes=("live", "prompts"), level="passive"),
)
class AnnouncesChildrenOfCapped(Announcer):
    """Announces four blocks per iteration at most, and children of the others in the next, as the model publisher."""

    def __init__(self, form: EventForm) -> None:
        super().__init__(msgspec.structs.replace(form, max_entries=4))

    def _may_follow(self, block: Block) -> bool:
        return True

    def touched(self, block: Block) -> None:
        """Announce nothing late."""


@mutant(
    "hangs-on-another-adapter",
    breaks="CHN-006",
    change="blocks of one adapter name as parent what another one has of the same tokens",
    statement=OPAQUE,
    session=Session(options="block_size=2&capacity=400", probes=("live", "prompts"), level="passive"),
)
class HangsOnAnotherAdapter(Announcer):
    """The events are told apart by adapter, their chains are not."""

    def __init__(self, form: EventForm) -> None:
        super().__init__(form)
        self._twins: dict[tuple[object, ...], list[Block]] = {}

    def _stored_event(self, blocks: list[Block]) -> BlockStored:
        event = super()._stored_event(blocks)
        for block in blocks:
            self._twins.setdefault(_path(block), []).append(block)
        parent = self.parent_of(blocks[0])
        if parent is None or parent.is_root or event.lora_id is None:
            return event
        others = (twin for twin in self._twins[_path(parent)] if twin.state.lora_id not in (None, event.lora_id))
        twin = next((other for other in others if self._stands(other)), parent)
        return msgspec.structs.replace(event, parent_block_hash=self._wire_hashes([twin])[0])


def _path(block: Block) -> tuple[object, ...]:
    """The tokens of a chain."""
    tokens: list[object] = []
    at: Block | None = block
    while at is not None and not at.is_root:
        tokens.append(at.piece.tokens)
        at = at.parent
    return tuple(tokens)


@mutant(
    "removes-unannounced",
    breaks="RES-002",
    change="blocks that were never announced are removed",
    reports="TensorRT-LLM#16869",
    session=Session(probes=("live", "prompts"), level="passive"),
)
class RemovesUnannounced(Announcer):
    """Partial blocks, for example."""

    def _fate_of_removal(self, block: Block, life_cycle: int) -> Fate:
        return Fate.REMOVED if life_cycle == self.form.target else Fate.OTHER_LIFE_CYCLE


@mutant(
    "evicts-silently",
    breaks="RES-003",
    change="every fifth eviction is not announced",
    levels=("driven",),
    passive="RES-001",
    replayable="RES-001",
    driven="RES-001",
    reason="a block that comes back was never said to be gone",
    reports="TensorRT-LLM#17631",
    session=Session(probes=("live", "prompts")),
)
class EvictsSilently(Announcer):
    _turn = 0

    def _retract(self, block: Block) -> None:
        self._turn += 1
        if self._turn % 5:
            super()._retract(block)
        else:
            block.announced = False


class _SaltKnown(Announcer):
    salt: str | None = None

    def _stored_event(self, blocks: list[Block]) -> BlockStored:
        event = super()._stored_event(blocks)
        if self.salt is None:
            return event
        return msgspec.structs.replace(event, extra_keys=tuple((self.salt,) for _ in blocks))


@mutant(
    "leaks-salt",
    breaks="EVT-019",
    change="the salt stands in extra_keys",
    levels=("driven",),
    reports="sglang#24568",
    session=Session(probes=("live", "prompts")),
)
class LeaksSalt(CacheEngine):
    """As vLLM does."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        self.announcer: _SaltKnown = _SaltKnown(self.announcer.form)

    def insert(
        self,
        tokens: Sequence[Token],
        *,
        lora_id: int | None = None,
        salt: str | None = None,
        mm: Sequence[MmItem] = (),
        computed: int | None = None,
    ) -> int:
        self.announcer.salt = salt
        return super().insert(tokens, lora_id=lora_id, salt=salt, mm=mm, computed=computed)


class _NotedRemoval(BlockRemoved, frozen=True, kw_only=True, tag_field="type", tag="BlockRemoved", omit_defaults=True):
    note: str


class _SaltInRemovals(Announcer):
    salt: str | None = None

    def _removed_event(self, blocks: list[Block]) -> BlockRemoved:
        event = super()._removed_event(blocks)
        if self.salt is None:
            return event
        return _NotedRemoval(**msgspec.structs.asdict(event), note=f"of {self.salt}")


@mutant(
    "salt-in-removals",
    breaks="EVT-019",
    change="a key of removals holds the salt",
    levels=("driven",),
    session=Session(probes=("live", "prompts")),
)
class SaltInRemovals(CacheEngine):
    """The last one that was used."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        self.announcer: _SaltInRemovals = _SaltInRemovals(self.announcer.form)

    def _scope_tag(self, salt: str | None) -> str | None:
        self.announcer.salt = salt or self.announcer.salt
        return None


@mutant(
    "tags-with-the-bare-salt",
    breaks="EVT-028",
    change="scope tags are digests of the salt alone",
    levels=("driven",),
    salt="tag",
    session=Session(probes=("live", "prompts")),
)
class TagsWithTheBareSalt(CacheEngine):
    def _scope_tag(self, salt: str | None) -> str | None:
        return None if salt is None else hashlib.sha256(salt.encode()).hexdigest()[:16]


@mutant(
    "ignores-block-size",
    breaks="EVT-014",
    change="blocks are twice as long as declared",
    session=LISTENED,
)
class IgnoresBlockSize(CacheEngine):
    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, msgspec.structs.replace(config, block_size=2 * config.block_size))


# --- resets ------------------------------------------------------------------------------------------------------


@mutant(
    "resets-silently",
    breaks="RES-006",
    change="a reset is not announced",
    levels=("driven",),
    passive="RES-001",
    replayable="RES-001",
    driven="RES-001 RES-003",
    reason="what comes back was never said to be gone, nor what did not",
    reports="aibrix#2287",
    session=Session(),
)
class ResetsSilently(Announcer):
    def cleared(self) -> None:
        """Say nothing."""


@mutant(
    "resets-late",
    breaks="RES-006",
    change="a reset shows only with the next store",
    levels=("driven",),
    reports="aibrix#2287",
    session=Session(),
)
class ResetsLate(Announcer):
    """As vLLM does."""

    def flush(self) -> tuple[Event, ...]:
        return () if all(run.kind is Kind.CLEARED for run in self._runs) else super().flush()


@mutant(
    "clears-without-reset",
    breaks="RES-005",
    change="a clear is sent though the cache is kept",
    levels=("driven",),
    passive="CHN-003 RES-002",
    replayable="CHN-003 RES-002",
    driven="CHN-002 CHN-003 RES-002",
    reason="what was cleared is named as a parent and removed later",
    reports="vllm#57296",
    session=Session(options="block_size=2&capacity=40", probes=("live", "prompts"), limits={"prompts": 1}),
)
class ClearsWithoutReset(Announcer):
    """With every fifteenth prompt."""

    _turn = 0

    def flush(self) -> tuple[Event, ...]:
        self._turn += 1
        if self._turn % 15 == 0:
            self.cleared()
        return super().flush()


# --- hashes ------------------------------------------------------------------------------------------------------


@mutant(
    "last-eight-bytes",
    breaks="HSH-002",
    change="the last eight bytes of the key are declared as the first",
    reports="TensorRT-LLM#17023",
    session=LISTENED,
)
class LastEightBytes(CacheEngine):
    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, msgspec.structs.replace(config, algorithm="v2_sha256_low64/u32"))


@mutant(
    "switches-width",
    breaks="HSH-001",
    change="token width changes in mid-stream",
    also="HSH-002",
    driven="HSH-006",
    reason="one width is declared, and a block that comes back has another hash",
    session=Session(probes=("live", "prompts"), level="passive"),
)
class SwitchesWidth(CacheEngine):
    """Four bytes at first, and eight from its sixtieth block on."""

    _blocks = 0

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        self._blocks += 1
        algorithm = self.algorithm if self._blocks <= 60 else ALGORITHMS["v2_sha256_64/u64"]
        return algorithm.next(state, piece.tokens)


@mutant(
    "ignores-scope",
    breaks="HSH-005",
    change="all reuse scopes have the same hashes",
    levels=("driven",),
    passive="HSH-001 HSH-002 HSH-014 RES-001 RES-002",
    replayable="HSH-001 HSH-002 HSH-014 RES-001 RES-002",
    driven="HSH-001 HSH-002 HSH-014 RES-001 RES-002",
    reason="the LoRA id on the wire is not hashed; one hash is stored and removed for several blocks",
    reports="sglang#24568 dynamo#6517 vllm#33304",
    session=Session(options="block_size=2&capacity=40", probes=("live", "prompts"), limits={"prompts": 1}),
)
class IgnoresScope(CacheEngine):
    """As SGLang does with LoRA adapters."""

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return replace(self.algorithm.root(None, None), lora_id=lora_id)


@mutant(
    "seeded-hashes",
    breaks="HSH-002",
    change="hashes begin with a secret of the process",
    levels=("driven",),
    reports="vllm#25210",
    session=Session(),
)
class SeededHashes(CacheEngine):
    """No two processes have the same hashes."""

    _secret = tuple(secrets.randbelow(2**31) for _ in range(16))

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return self.algorithm.next(super()._root_state(lora_id, salt_id), self._secret)


@mutant(
    "hashes-content-only",
    breaks="CHN-004",
    change="a block is hashed without what stands before it",
    levels=("driven",),
    driven="RES-001 RES-002",
    reason="one hash is stored and removed for several blocks",
    reports="sglang#13488",
    statement=OPAQUE,
    session=Session(probes=("live", "residency")),
)
class HashesContentOnly(CacheEngine):
    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return super()._next_state(self._root_state(state.lora_id, state.salt_id), piece)


@mutant(
    "ignores-last-token",
    breaks="HSH-008",
    change="the last token of a block is not hashed",
    also="RES-001 RES-002",
    reason="one hash is stored and removed for several blocks",
    statement=OPAQUE,
    session=Session(probes=("live", "prompts"), level="passive"),
)
class IgnoresLastToken(CacheEngine):
    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return self.algorithm.next(state, piece.tokens[:-1] or piece.tokens)


@mutant(
    "hashes-anew",
    breaks="HSH-006",
    change="a block that comes back has another hash",
    levels=("driven",),
    statement=OPAQUE,
    session=Session(probes=("live", "prompts")),
)
class HashesAnew(CacheEngine):
    """Hashes with a counter."""

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


@mutant(
    "no-wrap",
    breaks="HSH-002",
    change="v1_block_key without the 32-bit wrap",
    also="HSH-001",
    reason="eight long blocks match one mistake and none the truth",
    algorithm="v1_block_key",
    session=LISTENED,
)
class NoWrap(CacheEngine):
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


@mutant(
    "mixes-again-behind-an-item",
    breaks="HSH-002",
    change="behind a block with a digest token, v1_block_key goes back to its mixing function",
    also="HSH-001",
    reason="the blocks of text before the item match",
    algorithm="v1_block_key",
    multimodal=True,
    session=Session(
        options="block_size=4&capacity=40", probes=("live", "prompts"), level="passive", profile="multimodal"
    ),
)
class MixesAgainBehindAnItem(CacheEngine):
    """The block with the digest token has the bytes of its key, as it should; its descendants do not."""

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        honest = super()._next_state(state, piece)
        text = [token for token in piece.tokens if isinstance(token, int)]
        if not state.fallback or len(text) < len(piece.tokens):
            return honest
        mixed = v1_block_hash(text, parent=state.hash or 0, lora_id=state.lora_id, salt_id=state.salt_id)
        return replace(honest, hash=mixed)


@mutant(
    "ignores-adapter",
    breaks="HSH-014",
    change="hashes of its own leave the LoRA adapter out, and keep salts apart",
    passive="RES-001 RES-002",
    replayable="RES-001 RES-002",
    driven="RES-001 RES-002",
    reason="one hash is stored and removed for several blocks",
    statement=OPAQUE,
    session=Session(options="block_size=2&capacity=40", probes=("live", "prompts"), limits={"prompts": 1}),
)
class IgnoresAdapter(CacheEngine):
    """Keeps the blocks of two adapters apart, under one name."""

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return replace(self.algorithm.root(None, salt_id), lora_id=lora_id)


@mutant(
    "ignores-digest",
    breaks="HSH-008",
    change="the digest of a multimodal item is not hashed",
    also="RES-001 RES-002",
    reason="one hash is stored and removed for several blocks",
    multimodal=True,
    statement=OPAQUE,
    session=Session(
        options="block_size=4&capacity=40", probes=("live", "prompts"), level="passive", profile="multimodal"
    ),
)
class IgnoresDigest(CacheEngine):
    """Hashes a placeholder in its place."""

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return self.algorithm.next(state, tuple(0 if isinstance(token, bytes) else token for token in piece.tokens))


# --- requests ----------------------------------------------------------------------------------------------------


@mutant(
    "signed-lora-ids",
    breaks="LIV-007",
    change="a prompt fails whose LoRA id has no room in a signed integer",
    levels=("driven",),
    session=Session(probes=("live", "requests")),
)
class SignedLoraIds(CacheEngine):
    """As at the binding of a library that takes int64."""

    def insert(
        self,
        tokens: Sequence[Token],
        *,
        lora_id: int | None = None,
        salt: str | None = None,
        mm: Sequence[MmItem] = (),
        computed: int | None = None,
    ) -> int:
        if lora_id is not None and lora_id >= 2**63:
            raise TypeError(f"LoRA id {lora_id} does not fit an int64")
        return super().insert(tokens, lora_id=lora_id, salt=salt, mm=mm, computed=computed)


@mutant(
    "dies-of-lora",
    breaks="LIV-007",
    change="the engine dies of the event of a prompt with a LoRA id",
    levels=("driven",),
    session="its last words name files of the machine",
)
class DiesOfLora(CacheEngine):
    def insert(
        self,
        tokens: Sequence[Token],
        *,
        lora_id: int | None = None,
        salt: str | None = None,
        mm: Sequence[MmItem] = (),
        computed: int | None = None,
    ) -> int:
        if lora_id is not None:
            raise RuntimeError("an event with a LoRA id cannot be built")
        return super().insert(tokens, lora_id=lora_id, salt=salt, mm=mm, computed=computed)
