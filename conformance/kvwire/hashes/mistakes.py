"""Known mistakes: functions that are wrong and that implementers arrive at, each with the sentence that helps them.

``v1_block_key/no-wrap`` was seen in a public port. The others are the ways in which spec/hashing.md can be misread:
width, byte order, truncation, what is mixed in and where. A mistake is never a function of a conformant stream; that a
block reproduces under it only lets the harness say what is wrong. Where a mistake gives what the truth gives by
construction (a missing salt where there is none), it says nothing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable

from kvwire.hashes.functions import (
    DYNAMO_SEED,
    TRUE,
    Block,
    Family,
    Function,
    Scope,
    State,
    canonical,
    chain_key,
    dynamo_root,
    dynamo_step,
    first,
    has_lora,
    has_salt,
    last,
    pickled,
    reversed_salt_id,
    root_key,
    sayable,
    sglang_root,
    sha_step,
    vllm_root,
    vllm_step,
)
from kvwire.hashes.v1_variants import V1_MISTAKES


def _has_scope(scope: Scope) -> bool:
    return sayable(scope) and not scope.bare


# --- v2 -----------------------------------------------------------------------------------------------------------


def _little(key: bytes) -> int:
    return int.from_bytes(key[:8], "little")


def _unmasked_root(scope: Scope) -> bytes:
    present = [value for value in (scope.lora, scope.salt_id) if value is not None]
    return hashlib.sha256(struct.pack(f"<{len(present)}Q", *present)).digest()


def _root_without_salt(scope: Scope) -> bytes:
    mask = (scope.lora is not None) | (scope.salt is not None) << 1
    present = [scope.lora] if scope.lora is not None else []
    return hashlib.sha256(struct.pack(f"<B{len(present)}Q", mask, *present)).digest()


def _big_endian_root(scope: Scope) -> bytes:
    present = [value for value in (scope.lora, scope.salt_id) if value is not None]
    mask = (scope.lora is not None) | (scope.salt is not None) << 1
    return hashlib.sha256(struct.pack(f">B{len(present)}Q", mask, *present)).digest()


def _reversed_salt_root(scope: Scope) -> bytes:
    salt = reversed_salt_id(scope)
    present = [value for value in (scope.lora, salt) if value is not None]
    mask = (scope.lora is not None) | (scope.salt is not None) << 1
    return hashlib.sha256(struct.pack(f"<B{len(present)}Q", mask, *present)).digest()


def _salted_step(width: int) -> Callable[[State, Block], State]:
    """The salt id hashed behind the parent's key of every later block."""

    def step(state: State, block: Block) -> State:
        if state.key is None:
            return state
        if block.parent is None:
            return State(state.scope, chain_key(state.key, block.tokens, width))
        salt = struct.pack("<Q", state.scope.salt_id)
        key = chain_key(state.key + salt, block.tokens, width)
        return State(state.scope, key, first(key))

    return step


def _short_parent_step(width: int) -> Callable[[State, Block], State]:
    """The parent's 64-bit hash hashed in place of its key."""

    def step(state: State, block: Block) -> State:
        if block.parent is None:
            return State(state.scope, state.key)  # a first block is what it should be
        key = chain_key(block.parent.to_bytes(8, "big"), block.tokens, width)
        return State(state.scope, key, first(key))

    return step


def _unchained_step(width: int) -> Callable[[State, Block], State]:
    """Every block hashed from the root key."""

    def step(state: State, block: Block) -> State:
        if block.parent is None or state.key is None:
            return State(state.scope, state.key)
        return State(state.scope, state.key, first(chain_key(state.key, block.tokens, width)))

    return step


def _hex_digest_step(width: int) -> Callable[[State, Block], State]:
    """Digest tokens hashed as their hexadecimal text."""

    def step(state: State, block: Block) -> State:
        if state.key is None:
            return state
        parts = (t.hex().encode() if isinstance(t, bytes) else t.to_bytes(width, "little") for t in block.tokens)
        key = hashlib.sha256(state.key + b"".join(parts)).digest()
        told = state.fallback or not block.text_only
        return State(state.scope, key, first(key) if told else None, fallback=told)

    return step


def _v2_mistakes(width: int) -> tuple[Function, ...]:
    truth = f"v2_sha256_64/u{width * 8}"
    plain = sha_step(width, first)

    def mistake(
        slug: str,
        wrong: str,
        root: Callable[[Scope], bytes],
        step: Callable[[State, Block], State] = plain,
        applies: Callable[[Scope], bool] = sayable,
        family: Family = "key-chain",
    ) -> Function:
        return Function(
            name=f"{truth}/{slug}",
            label=truth,
            family=family,
            root=lambda scope: root(scope) if applies(scope) else None,
            step=step,
            truth=truth,
            wrong=wrong,
        )

    found = [
        mistake(
            "big-endian-tokens",
            "tokens are written big-endian, not little-endian",
            root_key,
            sha_step(width, first, "big"),
        ),
        mistake(
            "little-endian-hash",
            "the first eight bytes of the key are read little-endian, not big-endian",
            root_key,
            sha_step(width, _little),
        ),
        mistake(
            "short-parent",
            "the parent enters as its 64-bit hash, not as its 32-byte key",
            root_key,
            _short_parent_step(width),
            family="claimed-parent",
        ),
        mistake(
            "no-parent",
            "every block is hashed from the root key, not from its parent's key",
            root_key,
            _unchained_step(width),
        ),
        mistake("no-mask", "the mask byte is missing from the root key", _unmasked_root),
        mistake(
            "no-lora",
            "the LoRA id is missing from the root key (an id of 0 is an id too)",
            lambda s: root_key(Scope(salt=s.salt)),
            applies=has_lora,
        ),
        mistake(
            "no-salt",
            "the salt id is missing from the root key",
            lambda s: root_key(Scope(lora=s.lora)),
            applies=has_salt,
        ),
        mistake(
            "salt-bit-alone",
            "the mask of the root key says that there is a salt, and the eight bytes of its id are left out",
            _root_without_salt,
            applies=has_salt,
        ),
        mistake(
            "salt-every-block",
            "the salt id enters every block, not the root key only",
            root_key,
            _salted_step(width),
            has_salt,
        ),
        mistake(
            "salt-big-endian",
            "the salt id is read big-endian, not little-endian",
            _reversed_salt_root,
            applies=has_salt,
        ),
        mistake(
            "big-endian-ids",
            "the ids in the root key are written big-endian, not little-endian",
            _big_endian_root,
            applies=_has_scope,
        ),
        mistake(
            "hex-digest",
            "digest tokens enter as hexadecimal text, not as their 32 bytes",
            root_key,
            _hex_digest_step(width),
        ),
    ]
    if width == 8:  # at four bytes this is x-sglang-sha256, a function of its own
        found.append(mistake("no-root-key", "the root key is missing before the first block", lambda _: b""))
    return tuple(found)


# --- foreign functions --------------------------------------------------------------------------------------------


def _mistaken(
    label: str,
    slug: str,
    wrong: str,
    root: Callable[[Scope], bytes | None],
    step: Callable[[State, Block], State],
    family: Family = "key-chain",
) -> Function:
    truth = next(function for function in TRUE if function.label == label)
    return Function(
        name=f"{label}/{slug}",
        label=label,
        family=family,
        root=root,
        step=step,
        inputs=truth.inputs,
        foreign=True,
        truth=truth.name,
        wrong=wrong,
    )


def _local_step(state: State, block: Block) -> State:
    """Dynamo's local hash, which a child must not be announced by; a first block's is right."""
    return State(state.scope, b"") if block.parent is None else dynamo_step(DYNAMO_SEED, chained=False)(state, block)


FOREIGN_MISTAKES: tuple[Function, ...] = (
    _mistaken(
        "x-vllm-sha256-cbor",
        "first-8",
        "the first eight bytes of the key are sent, not the last",
        vllm_root(canonical),
        vllm_step(canonical, first),
    ),
    _mistaken(
        "x-vllm-sha256",
        "first-8",
        "the first eight bytes of the key are sent, not the last",
        vllm_root(pickled),
        vllm_step(pickled, first),
    ),
    _mistaken(
        "x-sglang-sha256",
        "last-8",
        "the last eight bytes of the key are sent, not the first",
        sglang_root,
        sha_step(4, last),
    ),
    _mistaken(
        "x-dynamo-xxh3", "seed-0", "the seed of XXH3 is 0, not 1337", dynamo_root, dynamo_step(0), "claimed-parent"
    ),
    _mistaken(
        "x-dynamo-xxh3",
        "local",
        "the local hash of the block is sent, without its parent's",
        dynamo_root,
        _local_step,
        "claimed-parent",
    ),
)

MISTAKES: tuple[Function, ...] = (*V1_MISTAKES, *_v2_mistakes(4), *_v2_mistakes(8), *FOREIGN_MISTAKES)
"""Every known mistake."""

BY_NAME = {function.name: function for function in (*TRUE, *MISTAKES)}
"""Every function, true and mistaken, by name."""

_DIFFERENCES: tuple[tuple[str, str, str], ...] = (
    ("v2_sha256_64", "v2_sha256_low64", "the last eight bytes of the key are sent, not the first"),
    ("v2_sha256_low64", "v2_sha256_64", "the first eight bytes of the key are sent, not the last"),
    ("/u32", "/u64", "tokens are hashed as eight bytes each, not as four"),
    ("/u64", "/u32", "tokens are hashed as four bytes each, not as eight"),
)


def difference(wanted: str, found: str) -> str:
    """What separates the function that was announced from the one that reproduces the hash, in a sentence."""
    mistaken = BY_NAME[found]
    if mistaken.truth is not None:
        return mistaken.wrong
    if wanted.startswith("v2_sha256_64") and found == "x-sglang-sha256":
        return "the root key is missing before the first block"
    parts = [text for here, there, text in _DIFFERENCES if here in wanted and there in found]
    return "; ".join(parts) or f"the hash is that of {found}"
