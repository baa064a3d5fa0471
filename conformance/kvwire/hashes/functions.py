"""Block hash functions that a stream may use: the wire registry, the named foreign functions, and the mistakes of both.

The functions follow spec/hashing.md. Two families: a *claimed-parent* function needs the parent's 64-bit hash, which
stands on the wire; a *key-chain* function needs the parent's full key, which does not, so that its chain is followed
from a root. A mistake names the true function that it is taken for, and says in one sentence what is wrong.

Every hash here is unsigned (mod 2^64).
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import struct
from collections.abc import Callable
from typing import Any, Literal

import cbor2
import msgspec
import xxhash

from kvwire.hashes.keys import kinded
from kvwire_reference import hashing

Token = int | bytes
Family = Literal["claimed-parent", "key-chain"]
Input = Literal["lora", "salt", "extra"]
"""What a function needs besides parent and tokens; ``extra`` are the extra keys of the event."""

BARE_KEYS, KINDED_KEYS = "/bare", "/kinds"
"""What a label of vLLM's functions can be qualified by: how extra keys enter."""
DYNAMO_SEED = 1337
SGLANG_SALT = b"sglang-cache-salt-v1\0"
VLLM_NONE = "vllm-none-hash"


class Scope(msgspec.Struct, frozen=True):
    """A reuse scope: LoRA id, LoRA name and salt text; None is absent, and an id of 0 is present."""

    lora: int | None = None
    lora_name: str | None = None
    salt: str | None = None

    @property
    def bare(self) -> bool:
        """Whether it is the scope without LoRA and salt."""
        return self.lora is None and self.lora_name is None and self.salt is None

    @property
    def salt_id(self) -> int | None:
        """The 64-bit id of the salt."""
        return None if self.salt is None else _salt_id(self.salt)

    @property
    def text(self) -> str:
        """The scope in a few words."""
        lora = self.lora if self.lora is not None else self.lora_name
        parts = [f"LoRA {lora}"] * (lora is not None) + [f"salt {self.salt!r}"] * (self.salt is not None)
        return ", ".join(parts) or "no LoRA, no salt"


NO_SCOPE = Scope()


class Block(msgspec.Struct, frozen=True):
    """One stored block as the wire gives it: tokens (32 bytes for a digest), the claimed parent's hash (None at a
    root), multimodal segments (digest, start offset), and extra keys (unset where the event has none). ``adapted``: the
    event names a LoRA adapter.
    """

    tokens: tuple[Token, ...]
    parent: int | None = None
    mm: tuple[tuple[bytes, int], ...] = ()
    extra: tuple[Any, ...] | msgspec.UnsetType | None = msgspec.UNSET
    adapted: bool = False

    @property
    def text_only(self) -> bool:
        """Whether it holds no digest token."""
        return bytes not in map(type, self.tokens)


class State(msgspec.Struct, frozen=True, gc=False):
    """Where a chain stands under one function: the last block's ``hash``, None where the function cannot or need not
    say one, and its full ``key``, None where it is not known. ``fallback``: a digest token stands above.
    """

    scope: Scope
    key: bytes | None = None
    hash: int | None = None
    fallback: bool = False


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One function, true or mistaken.

    ``label`` is its name on the wire; two functions may share one where the label leaves something open. ``root`` is
    the key before a chain's first block, None when the function does not say how this scope enters, or when a mistake
    cannot be told from the truth there. ``inputs`` must be known before a mismatch is one, ``later`` in a block that
    is not the first of its chain. ``truth`` is the name of the function that a mistake is taken for, and ``wrong`` says
    what is wrong with it.
    """

    name: str
    label: str
    family: Family
    root: Callable[[Scope], bytes | None]
    step: Callable[[State, Block], State]
    inputs: frozenset[Input] = frozenset({"lora", "salt"})
    later: frozenset[Input] = frozenset({"lora", "salt"})
    foreign: bool = False
    truth: str | None = None
    wrong: str = ""

    def start(self, scope: Scope) -> State | None:
        """The state before the first block of a chain in ``scope``; None when that is not defined."""
        key = self.root(scope)
        return None if key is None else State(scope, key)

    def join(self, scope: Scope) -> State | None:
        """The state of a chain entered in the middle, by the parent that the next block claims."""
        if self.family == "key-chain" or self.root(scope) is None:
            return None
        return State(scope)


@functools.lru_cache(maxsize=256)
def _salt_id(text: str) -> int:
    return hashing.salt_id(text)


def first(key: bytes) -> int:
    """First eight bytes of a key, big-endian."""
    return int.from_bytes(key[:8], "big")


def last(key: bytes) -> int:
    """Last eight bytes of a key, big-endian."""
    return int.from_bytes(key[-8:], "big")


def chain_key(
    parent: bytes, tokens: tuple[Token, ...], width: int, order: Literal["little", "big"] = "little"
) -> bytes:
    """SHA-256 of the parent's key and the tokens, each of ``width`` bytes, a digest as its 32; no range is checked."""
    try:
        code = f"{'<' if order == 'little' else '>'}{len(tokens)}{'I' if width == 4 else 'Q'}"
        encoded = struct.pack(code, *tokens)
    except struct.error:
        encoded = b"".join(t if isinstance(t, bytes) else t.to_bytes(width, order) for t in tokens)
    return hashlib.sha256(parent + encoded).digest()


def sayable(scope: Scope) -> bool:
    """Whether the registry's functions can take the scope: a LoRA enters by its id, and its name is not enough."""
    return scope.lora is not None or scope.lora_name is None


def has_lora(scope: Scope) -> bool:
    """Whether a LoRA id is present."""
    return scope.lora is not None


def has_salt(scope: Scope) -> bool:
    """Whether a salt is present."""
    return scope.salt is not None


def reversed_salt_id(scope: Scope) -> int | None:
    """The salt id with its bytes in the wrong order."""
    return None if scope.salt_id is None else int.from_bytes(scope.salt_id.to_bytes(8, "little"), "big")


def root_key(scope: Scope) -> bytes:
    """The root key of a reuse scope in the v2 family."""
    return hashing.root_key(scope.lora, scope.salt_id)


def _v2_root(scope: Scope) -> bytes | None:
    return root_key(scope) if sayable(scope) else None


_LORA: frozenset[Input] = frozenset({"lora"})


# --- the wire registry --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _v1_hash(block: Block, lora: int | None, salt: int | None) -> int:
    """Cached, because the two revisions of ``v1_block_key`` differ only behind a digest token."""
    return hashing.v1_block_hash(block.tokens, parent=block.parent or 0, lora_id=lora, salt_id=salt, mm_keys=block.mm)


def _v1(width: hashing.Width) -> Function:
    def step(state: State, block: Block) -> State:
        scope, key = state.scope, None
        if state.key is not None:
            key = chain_key(state.key, block.tokens, width)
        if state.fallback or not block.text_only:
            return State(scope, key, None if key is None else first(key), fallback=True)
        return State(scope, key, _v1_hash(block, scope.lora, scope.salt_id))

    name = "v1_block_key" if width == 4 else "v1_block_key (keys of eight-byte tokens behind a digest)"
    return Function(name=name, label="v1_block_key", family="claimed-parent", root=_v2_root, step=step, later=_LORA)


def _v2(label: str) -> Function:
    algorithm = hashing.ALGORITHMS[label]

    def step(state: State, block: Block) -> State:
        if state.key is None:
            return state
        try:
            key = hashing.block_key(state.key, block.tokens, algorithm.width)
        except hashing.RangeError:
            return State(state.scope)  # such an id has no hash under this function
        return State(state.scope, key, algorithm.truncate(key))

    return Function(name=label, label=label, family="key-chain", root=_v2_root, step=step)


# --- foreign functions --------------------------------------------------------------------------------------------


def pickled(value: Any) -> bytes:
    """Pickle protocol 5; nothing is ever read back."""
    return pickle.dumps(value, protocol=5)


def canonical(value: Any) -> bytes:
    """Canonical CBOR (RFC 8949)."""
    return cbor2.dumps(value, canonical=True)


Keys = Callable[[State, Block], tuple[Any, ...] | None]
"""The extra keys of a block as they enter its hash; raises LookupError where the wire does not tell them."""


def bare_keys(state: State, block: Block) -> tuple[Any, ...] | None:
    """As they stand in the event; where they do not, what the scope says."""
    if block.extra is not msgspec.UNSET:
        return block.extra or None
    name, salt = state.scope.lora_name, state.scope.salt if block.parent is None else None
    if name is None and state.scope.lora is not None:
        raise LookupError
    return tuple(part for part in (name, salt) if part is not None) or None


def kinded_keys(state: State, block: Block) -> tuple[Any, ...] | None:
    """Each with its kind before it, which the event leaves out; of an adapter the path, too, which is on no wire."""
    if block.adapted or state.scope.lora is not None or state.scope.lora_name is not None:
        raise LookupError
    return kinded(bare_keys(state, block) or (), first=block.parent is None) or None


@functools.lru_cache(maxsize=8)
def _vllm_key(encode: Callable[[Any], bytes], key: bytes, tokens: tuple[Token, ...], extra: Any) -> bytes:
    """Cached, because the two ways to write extra keys differ only where there are any."""
    return hashlib.sha256(encode((key, tokens, extra))).digest()


def vllm_step(
    encode: Callable[[Any], bytes], cut: Callable[[bytes], int], keys: Keys = bare_keys
) -> Callable[[State, Block], State]:
    """A step of vLLM's chain: SHA-256 of an encoding of parent key, tokens and extra keys."""

    def step(state: State, block: Block) -> State:
        if state.key is None or not block.text_only:
            return State(state.scope)
        try:
            extra = keys(state, block)
        except LookupError:
            return State(state.scope)
        key = _vllm_key(encode, state.key, tuple(block.tokens), extra)
        return State(state.scope, key, cut(key))

    return step


def vllm_root(encode: Callable[[Any], bytes]) -> Callable[[Scope], bytes]:
    """The parent key of a first block."""
    none = hashlib.sha256(encode(VLLM_NONE)).digest()
    return lambda _: none


def sglang_root(scope: Scope) -> bytes:
    """What stands before the first page: nothing, or the key of a salt. A LoRA does not enter."""
    return b"" if scope.salt is None else hashlib.sha256(SGLANG_SALT + scope.salt.encode()).digest()


def sha_step(
    width: int, cut: Callable[[bytes], int], order: Literal["little", "big"] = "little"
) -> Callable[[State, Block], State]:
    """A step of a chain of SHA-256 over parent key and tokens."""

    def step(state: State, block: Block) -> State:
        if state.key is None:
            return state
        key = chain_key(state.key, block.tokens, width, order)
        return State(state.scope, key, cut(key))

    return step


def _sglang_step(state: State, block: Block) -> State:
    if not block.text_only:
        return State(state.scope)
    return sha_step(4, first)(state, block)


def dynamo_step(seed: int, *, chained: bool = True) -> Callable[[State, Block], State]:
    """A step of Dynamo's chain: XXH3-64 of the tokens, then of the parent's hash and that."""

    def step(state: State, block: Block) -> State:
        if not block.text_only:
            return State(state.scope)
        value = xxhash.xxh3_64_intdigest(struct.pack(f"<{len(block.tokens)}I", *block.tokens), seed=seed)
        if block.parent is not None and chained:
            value = xxhash.xxh3_64_intdigest(struct.pack("<QQ", block.parent, value), seed=seed)
        return State(state.scope, b"", value)

    return step


def dynamo_root(scope: Scope) -> bytes | None:
    """Dynamo's namespaces for LoRA and salt are not described, so that only the bare scope is."""
    return b"" if scope.bare else None


def _foreign(
    label: str,
    family: Family,
    root: Callable[[Scope], bytes | None],
    step: Callable[[State, Block], State],
    inputs: frozenset[Input],
    which: str = "",
) -> Function:
    return Function(
        name=f"{label}{which}",
        label=label,
        family=family,
        root=root,
        step=step,
        inputs=inputs,
        later=inputs,
        foreign=True,
    )


def _vllm(label: str, encode: Callable[[Any], bytes]) -> tuple[Function, Function]:
    """Before vLLM 0.31, and since: the label can be qualified by either name, and means one of the two without."""
    root = vllm_root(encode)
    return (
        _foreign(label, "key-chain", root, vllm_step(encode, last), _EXTRA, BARE_KEYS),
        _foreign(label, "key-chain", root, vllm_step(encode, last, kinded_keys), _EXTRA, KINDED_KEYS),
    )


_EXTRA: frozenset[Input] = frozenset({"extra"})
TRUE: tuple[Function, ...] = (
    _v1(4),
    *map(_v2, ("v2_sha256_64/u32", "v2_sha256_64/u64", "v2_sha256_low64/u32", "v2_sha256_low64/u64")),
    *_vllm("x-vllm-sha256-cbor", canonical),
    *_vllm("x-vllm-sha256", pickled),
    _foreign("x-sglang-sha256", "key-chain", sglang_root, _sglang_step, frozenset({"salt"})),
    _foreign("x-dynamo-xxh3", "claimed-parent", dynamo_root, dynamo_step(DYNAMO_SEED), frozenset({"lora", "salt"})),
    _v1(8),
)
"""Every function that a conformant stream may use, the likeliest first."""

OPAQUE = "opaque"
BARE = "v2_sha256_64"
QUALIFIED = frozenset(function.name for function in TRUE if function.name.endswith((BARE_KEYS, KINDED_KEYS)))
LABELS = frozenset({function.label for function in TRUE} | QUALIFIED | {OPAQUE, BARE})
"""The labels of ``hash_algo`` and of the statement that edition 1 knows."""


def named(label: str | None) -> tuple[Function, ...]:
    """The functions that a label may mean: two for the bare ``v2_sha256_64``, for ``v1_block_key`` and for vLLM's
    without a qualifier, none for ``opaque`` and for labels that edition 1 does not know.
    """
    if label == BARE:
        return tuple(function for function in TRUE if function.label.startswith(f"{BARE}/"))
    return tuple(function for function in TRUE if label == (function.name if label in QUALIFIED else function.label))
