"""Hash functions of other engines, from spec/hashing.md alone: the harness computes them by code of its own."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import cbor2
import msgspec
import xxhash

from kvwire_reference import hashing

Step = Callable[[bytes, "Scope", Sequence[int], bool], bytes]


class Scope(NamedTuple):
    """A reuse scope: LoRA id and text of the salt."""

    lora: int | None = None
    salt: str | None = None

    @property
    def lora_name(self) -> str | None:
        """What the adapter of that id is called."""
        return None if self.lora is None else f"lora-{self.lora}"


class Hasher(msgspec.Struct, frozen=True, kw_only=True):
    """A chained function: ``root`` gives the key before a chain, ``step`` that of a block from the key before it.

    ``step`` takes the key, the scope, the tokens of the block, and whether it begins its chain. ``cut`` makes 64 bits
    of a key. ``loras`` and ``salts`` say whether it keeps scopes apart; where not, prompts that have one are refused.
    """

    root: Callable[[Scope], bytes]
    step: Step
    cut: Callable[[bytes], int]
    loras: bool = True
    salts: bool = True

    def chain(self, scope: Scope, blocks: Sequence[Sequence[int]]) -> list[int]:
        """Unsigned hashes of the blocks of a chain.

        Raises:
            ValueError: for a scope that the function does not know.
        """
        if scope.lora is not None and not self.loras:
            raise ValueError("this engine serves no LoRA adapter")
        if scope.salt is not None and not self.salts:
            raise ValueError("this engine knows no salts")
        key, hashes = self.root(scope), []
        for index, tokens in enumerate(blocks):
            key = self.step(key, scope, tokens, index == 0)
            hashes.append(self.cut(key))
        return hashes


def first(key: bytes) -> int:
    """The first eight bytes of a key."""
    return int.from_bytes(key[:8], "big")


def last(key: bytes) -> int:
    """The last eight."""
    return int.from_bytes(key[-8:], "big")


def _u32(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def registry(label: str) -> Hasher:
    """A function of the wire registry that chains keys."""
    algorithm = hashing.ALGORITHMS[label]
    return Hasher(
        root=lambda scope: hashing.root_key(scope.lora, None if scope.salt is None else hashing.salt_id(scope.salt)),
        step=lambda key, _, tokens, __: hashing.block_key(key, tokens, algorithm.width),
        cut=algorithm.truncate,
    )


def vllm(seed: str = "vllm-none-hash") -> Hasher:
    """vLLM's: SHA-256 over CBOR of parent, tokens and extra keys; a ``seed`` takes the place of its text."""

    def step(key: bytes, scope: Scope, tokens: Sequence[int], begins: bool) -> bytes:
        extra = [part for part in (scope.lora_name, scope.salt if begins else None) if part is not None]
        return hashlib.sha256(cbor2.dumps([key, list(tokens), extra or None], canonical=True)).digest()

    none = hashlib.sha256(cbor2.dumps(seed, canonical=True)).digest()
    return Hasher(root=lambda _: none, step=step, cut=last)


def sglang() -> Hasher:
    """SGLang's: SHA-256 over the key before and the tokens; a salt makes the first key, and an adapter none."""

    def root(scope: Scope) -> bytes:
        return b"" if scope.salt is None else hashlib.sha256(b"sglang-cache-salt-v1\0" + scope.salt.encode()).digest()

    return Hasher(
        root=root, step=lambda key, _, tokens, __: hashlib.sha256(key + _u32(tokens)).digest(), cut=first, loras=False
    )


def dynamo(seed: int = 1337) -> Hasher:
    """Dynamo's: XXH3 of the tokens, and then of the parent's hash and that; only the bare scope is described."""

    def step(key: bytes, _: Scope, tokens: Sequence[int], begins: bool) -> bytes:
        local = xxhash.xxh3_64_intdigest(_u32(tokens), seed=seed)
        if not begins:
            local = xxhash.xxh3_64_intdigest(struct.pack("<QQ", first(key), local), seed=seed)
        return local.to_bytes(8, "big")

    return Hasher(root=lambda _: b"", step=step, cut=first, loras=False, salts=False)


def opaque() -> Hasher:
    """Nobody's: a secret of this process goes into every key."""
    secret = secrets.token_bytes(32)
    return Hasher(
        root=lambda scope: hmac.digest(secret, repr(scope).encode(), "sha256"),
        step=lambda key, _, tokens, __: hmac.digest(secret, key + _u32(tokens), "sha256"),
        cut=first,
    )
