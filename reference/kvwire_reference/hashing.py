"""The block hash functions of the registry, as pure functions over integers and bytes.

Standard library only, no state, no I/O: this file is meant to be copied, and to be an oracle. All 64-bit
hashes here are *unsigned* (0…2^64−1); `signed` gives the form that the wire prefers. A token is an `int`
(text, or the later tokens of a multimodal item) or 32 `bytes` (the digest that stands for the first token of
a multimodal item).

Two families:

* `v1_block_key` mixes each token into a 64-bit seed that begins with the parent's hash.
* `v2_sha256` chains SHA-256 over the parent's 32-byte key and the tokens; the wire carries 64 bits of the key.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Token: TypeAlias = int | bytes
Width: TypeAlias = Literal[4, 8]
MmSegment: TypeAlias = tuple[bytes, int]
"""A multimodal key of one block: the item's 32-byte hash, and the index *within the item* of the first of
its tokens that the block holds."""

U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
I64_MIN: Final = -(2**63)
KEY_BYTES: Final = 32
BATCH_BYTES: Final = 4096

V2_TOKEN_MAX: Final[Mapping[Width, int]] = MappingProxyType({4: 2**31 - 1, 8: U32_MAX})
"""The largest token id that each width of the V2 family takes."""

_PACK_CODE: Final[Mapping[Width, str]] = MappingProxyType({4: "I", 8: "Q"})
_MIX_A: Final = 0xBF58476D1CE4E5B9
_MIX_B: Final = 0x94D049BB133111EB
_GOLDEN: Final = 0x9E3779B9


class RangeError(ValueError):
    """A value outside the range of its argument; the message names argument, value and range."""


def _check(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {value!r} is not an integer")
    if not low <= value <= high:
        raise RangeError(f"{name}: {value} is outside {low}…{high}")


def _check_bytes(name: str, value: bytes) -> None:
    if not isinstance(value, bytes):
        raise TypeError(f"{name}: {value!r} is not bytes")
    if len(value) != KEY_BYTES:
        raise RangeError(f"{name}: {len(value)} bytes given, a key or digest has {KEY_BYTES}")


def signed(value: int) -> int:
    """Re-read an unsigned 64-bit value (0…2^64−1) as two's complement (−2^63…2^63−1)."""
    _check("value", value, 0, U64_MAX)
    return value - 2**64 if value >= 2**63 else value


def unsigned(value: int) -> int:
    """Reduce a hash as found on the wire (−2^63…2^64−1) modulo 2^64: the form to compare by."""
    _check("value", value, I64_MIN, U64_MAX)
    return value % 2**64


# --- v1_block_key -----------------------------------------------------------------------------------------


def _mix32(value: int, seed: int) -> int:
    v = ((value >> 16) ^ value) * 0x45D9F3B & U32_MAX
    v = ((v >> 16) ^ v) * 0x45D9F3B & U32_MAX
    v = ((v >> 16) ^ v) + _GOLDEN & U32_MAX  # this sum wraps in 32 bits, before it meets 64-bit terms
    return seed ^ (v + (seed << 6) + (seed >> 2) & U64_MAX)


def _mix64(value: int, seed: int) -> int:
    v = (value ^ (value >> 30)) * _MIX_A & U64_MAX
    v = (v ^ (v >> 27)) * _MIX_B & U64_MAX
    v ^= v >> 31
    return seed ^ (v + _GOLDEN + (seed << 6) + (seed >> 2) & U64_MAX)


def v1_block_hash(
    tokens: Sequence[Token],
    *,
    parent: int = 0,
    lora_id: int | None = None,
    salt_id: int | None = None,
    extra_ids: Sequence[int] | None = None,
    mm_keys: Iterable[MmSegment] = (),
) -> int:
    """Hash one block by `v1_block_key`.

    `parent` is the hash of the preceding block, 0 for the first block of a chain (so a real parent whose hash
    happens to be 0 looks like none). `lora_id` is mixed into every block, `salt_id` into the first only; both
    are 0…2^64−1. `extra_ids`, if given, holds one id (0…2^64−1) per token. `mm_keys` are the multimodal
    segments that overlap the block, in order.

    Raises `RangeError` for a value out of range, `TypeError` for a digest among the tokens (`Algorithm`
    handles those) or anything else that is not an integer.
    """
    _check_scope(lora_id, salt_id)
    _check("parent", parent, 0, U64_MAX)
    if extra_ids is not None and len(extra_ids) != len(tokens):
        raise RangeError(f"extra_ids: {len(extra_ids)} ids given for {len(tokens)} tokens")

    seed = len(tokens) ^ (parent * _MIX_A & U64_MAX)
    if parent == 0 and salt_id is not None:
        seed = _mix64(salt_id, seed)
    for index, token in enumerate(_text(tokens)):
        seed = _mix32(token, seed)
        if extra_ids is not None:
            _check(f"extra_ids[{index}]", extra_ids[index], 0, U64_MAX)
            seed = _mix64(extra_ids[index], seed)
    if lora_id is not None:
        seed = _mix64(lora_id, seed)
    for index, (item, start_offset) in enumerate(mm_keys):
        _check_bytes(f"mm_keys[{index}].hash", item)
        _check(f"mm_keys[{index}].start_offset", start_offset, 0, U64_MAX)
        for word in struct.unpack("<8I", item):
            seed = _mix32(word, seed)
        seed = _mix64(start_offset, seed)
    return seed


def v1_chain(blocks: Iterable[Sequence[Token]], *, lora_id: int | None = None, salt_id: int | None = None) -> list[int]:
    """Hash a chain of text blocks by `v1_block_key`, from its first block."""
    hashes: list[int] = []
    for tokens in blocks:
        parent = hashes[-1] if hashes else 0
        hashes.append(v1_block_hash(tokens, parent=parent, lora_id=lora_id, salt_id=salt_id))
    return hashes


# --- v2_sha256 --------------------------------------------------------------------------------------------


def salt_id(text: str) -> int:
    """Derive the salt id of a salt string: the first 8 bytes of its SHA-256, little-endian."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def scope_tag(salt: str, key: bytes | None = None) -> str:
    """Tag of a salt for the key `scope`: 16 lower-case hex digits, by SHA-256, or by HMAC under a deployment `key`.

    Whoever holds the salt can test for it; the text cannot be read from it, but a salt that is guessed can be
    confirmed where there is no key.
    """
    message = b"kvwire-scope-1\0" + salt.encode()
    digest = hashlib.sha256(message) if key is None else hmac.new(key, message, hashlib.sha256)
    return digest.hexdigest()[:16]


def root_key(lora_id: int | None = None, salt_id: int | None = None) -> bytes:
    """Key of a reuse scope: the 32-byte parent of the first block of every chain in it.

    Both ids are 0…2^64−1; an id of 0 is present, unlike `None`.
    """
    _check_scope(lora_id, salt_id)
    present = [value for value in (lora_id, salt_id) if value is not None]
    mask = (lora_id is not None) | (salt_id is not None) << 1
    return hashlib.sha256(struct.pack(f"<B{len(present)}Q", mask, *present)).digest()


def block_key(parent_key: bytes, tokens: Sequence[Token], width: Width) -> bytes:
    """Key (32 bytes) of a block: SHA-256 of its parent's key and its tokens.

    A text token is written as `width` bytes, unsigned little-endian; a digest as its 32 bytes. Tokens are
    handed to SHA-256 in batches of 4 KiB (counted as text), which changes nothing but the speed:
    `block_key_tokenwise` says the same in the shortest way. Raises `RangeError` for a token outside
    0…2^31−1 (width 4) or 0…2^32−1 (width 8), or a key or digest that is not 32 bytes.
    """
    return _block_key(parent_key, tokens, width, V2_TOKEN_MAX[width])


def block_key_tokenwise(parent_key: bytes, tokens: Sequence[Token], width: Width) -> bytes:
    """`block_key`, one token at a time: the definition."""
    _check_bytes("parent_key", parent_key)
    _check_tokens(tokens, V2_TOKEN_MAX[width])
    sha = hashlib.sha256(parent_key)
    for token in tokens:
        sha.update(token if isinstance(token, bytes) else token.to_bytes(width, "little"))
    return sha.digest()


def v2_chain(
    blocks: Iterable[Sequence[Token]],
    *,
    width: Width,
    lora_id: int | None = None,
    salt_id: int | None = None,
) -> list[bytes]:
    """Keys of a chain of blocks, from its first block. As 64 lower-case hex digits they are `v2_sha256`."""
    keys: list[bytes] = []
    key = root_key(lora_id, salt_id)
    for tokens in blocks:
        key = block_key(key, tokens, width)
        keys.append(key)
    return keys


def truncate_first(key: bytes) -> int:
    """First 8 bytes of a key, big-endian: `v2_sha256_64`."""
    _check_bytes("key", key)
    return int.from_bytes(key[:8], "big")


def truncate_last(key: bytes) -> int:
    """Last 8 bytes of a key, big-endian: `v2_sha256_low64`, the truncation of early drafts."""
    _check_bytes("key", key)
    return int.from_bytes(key[-8:], "big")


def _block_key(parent_key: bytes, tokens: Sequence[Token], width: Width, token_max: int) -> bytes:
    _check_bytes("parent_key", parent_key)
    sha = hashlib.sha256(parent_key)
    batch = BATCH_BYTES // width
    for start in range(0, len(tokens), batch):
        sha.update(_encode(tokens[start : start + batch], width, start, token_max))
    return sha.digest()


def _encode(tokens: Sequence[Token], width: Width, start: int, token_max: int) -> bytes:
    code = _PACK_CODE[width]
    try:
        if max(tokens) <= token_max:  # type: ignore[operator]
            return struct.pack(f"<{len(tokens)}{code}", *tokens)
    except (TypeError, struct.error):
        pass  # a digest among them, or a fault that the slow way names
    _check_tokens(tokens, token_max, start)
    return b"".join(token if isinstance(token, bytes) else token.to_bytes(width, "little") for token in tokens)


def _check_tokens(tokens: Sequence[Token], token_max: int, start: int = 0) -> None:
    for index, token in enumerate(tokens, start):
        if isinstance(token, bytes):
            _check_bytes(f"tokens[{index}]", token)
        else:
            _check(f"tokens[{index}]", token, 0, token_max)


def _text(tokens: Sequence[Token]) -> list[int]:
    text = [token for token in tokens if isinstance(token, int) and 0 <= token <= U32_MAX]
    if len(text) != len(tokens):
        for index, token in enumerate(tokens):
            _check(f"tokens[{index}]", token, 0, U32_MAX)
    return text


def _check_scope(lora_id: int | None, salt_id: int | None) -> None:
    if lora_id is not None:
        _check("lora_id", lora_id, 0, U64_MAX)
    if salt_id is not None:
        _check("salt_id", salt_id, 0, U64_MAX)


# --- chains, block by block -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChainState:
    """Where a chain stands after some block, with all that the next block needs.

    `hash` is the block's 64-bit hash, unsigned; `None` at the root, and where it cannot be known (see
    `join`). `key` is its 32-byte V2 key; `None` where it cannot be known. `fallback` says that a digest token
    has been met, after which `v1_block_key` takes its hashes from the V2 keys.
    """

    hash: int | None
    key: bytes | None
    fallback: bool = False
    lora_id: int | None = None
    salt_id: int | None = None


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A function of the registry, hashing a chain block by block: `root` first, then `next` per block.

    `label` is its name on the wire, `width` the bytes per text token in its V2 keys, `truncate` the way from
    a key to 64 bits. With `mixes` it is `v1_block_key`: text blocks hash by `v1_block_hash`, but a block that
    holds a digest token, and every descendant of it, takes its hash from its V2 key, which is therefore
    carried from the root on and makes the width count.
    """

    label: str
    width: Width
    truncate: Callable[[bytes], int]
    mixes: bool = False

    def root(self, lora_id: int | None = None, salt_id: int | None = None) -> ChainState:
        """State before the first block of a chain in this reuse scope."""
        return ChainState(None, root_key(lora_id, salt_id), False, lora_id, salt_id)

    def next(self, state: ChainState, tokens: Sequence[Token], mm_keys: Iterable[MmSegment] = ()) -> ChainState:
        """State after the block `tokens`; its `hash` is `None` if `state` does not determine it.

        `mm_keys` are mixed into the text blocks of `v1_block_key`; elsewhere the digest token says it all.
        """
        limit = U32_MAX if self.mixes else V2_TOKEN_MAX[self.width]
        key = None if state.key is None else _block_key(state.key, tokens, self.width, limit)
        fallback = state.fallback or bytes in map(type, tokens)
        lora_id, salt_id = state.lora_id, state.salt_id
        value = None if key is None else self.truncate(key)
        if self.mixes and not fallback:
            parent = state.hash or 0
            value = v1_block_hash(tokens, parent=parent, lora_id=lora_id, salt_id=salt_id, mm_keys=mm_keys)
        return ChainState(value, key, fallback, lora_id, salt_id)


def join(parent_hash: int, lora_id: int | None = None) -> ChainState:
    """State of a chain entered in the middle, from the hash (−2^63…2^64−1) that a parent claims.

    Enough for `v1_block_key` on text, *if* no block above holds a digest token; never enough for V2.
    """
    return ChainState(unsigned(parent_hash), None, False, lora_id, None)


ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {
        algorithm.label: algorithm
        for algorithm in (
            Algorithm("v1_block_key", 4, truncate_first, mixes=True),
            Algorithm("v2_sha256_64/u32", 4, truncate_first),
            Algorithm("v2_sha256_64/u64", 8, truncate_first),
            Algorithm("v2_sha256_low64/u32", 4, truncate_last),
            Algorithm("v2_sha256_low64/u64", 8, truncate_last),
        )
    }
)
"""The functions of the registry by their wire label. `v1_block_key` stands here with width 4."""


def candidates(label: str) -> tuple[Algorithm, ...]:
    """Functions that an announced label may mean, newest first; none if it is opaque or not of the registry.

    The bare label `v2_sha256_64` covers both token widths, and so does `v1_block_key` after a digest token.
    """
    if label == "v1_block_key":
        return ALGORITHMS[label], replace(ALGORITHMS[label], width=8)
    if label == "v2_sha256_64":
        return ALGORITHMS["v2_sha256_64/u32"], ALGORITHMS["v2_sha256_64/u64"]
    return (ALGORITHMS[label],) if label in ALGORITHMS else ()


def hash_chain(
    algorithm: Algorithm,
    blocks: Iterable[Sequence[Token]],
    *,
    lora_id: int | None = None,
    salt_id: int | None = None,
) -> Iterator[ChainState]:
    """Yield the state after each block of a chain, from its first block."""
    state = algorithm.root(lora_id, salt_id)
    for tokens in blocks:
        state = algorithm.next(state, tokens)
        yield state


# --- tokens -----------------------------------------------------------------------------------------------


def digest_tokens(digest: bytes, n: int, id_offset: int) -> list[Token]:
    """Tokens of a multimodal item of `n` tokens: its digest, then the ids `id_offset + k` for k = 1…n−1.

    `id_offset` is usually the size of the vocabulary, so that these ids are no text.
    """
    _check_bytes("digest", digest)
    _check("n", n, 1, U32_MAX)
    _check("id_offset", id_offset, 0, U32_MAX - n + 1)
    return [digest, *range(id_offset + 1, id_offset + n)]


def split_blocks(tokens: Sequence[Token], block_size: int) -> tuple[list[Sequence[Token]], Sequence[Token]]:
    """Full blocks of `block_size` tokens, and the trailing partial block (possibly empty)."""
    _check("block_size", block_size, 1, U32_MAX)
    end = len(tokens) - len(tokens) % block_size
    return [tokens[start : start + block_size] for start in range(0, end, block_size)], tokens[end:]
