"""The hash functions rebuilt with places where they can go wrong, to say what each known mistake gives.

The true values of the vectors come from ``kvwire_reference.hashing``; a variant without any mistake has to equal them,
which the build asserts. Names and sentences of mistakes that ``kvwire.hashes.mistakes`` knows are taken from there.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Literal

import msgspec

from kvwire.hashes.functions import first, last
from kvwire.hashes.mistakes import BY_NAME
from kvwire.hashes.v1_variants import Mixer
from kvwire.vectors.inputs import Chain, Piece, Token

U64 = 2**64 - 1
SEAM = 4096
"""Bytes of tokens that implementations gather before they hash."""

Answer = tuple[int, bytes | None]
"""Hash of a block, and its key where the function has one."""


def floating(value: int) -> int:
    """A 64-bit integer that was read as a floating-point number."""
    return int(float(value)) & U64


class V2(msgspec.Struct, frozen=True, kw_only=True):
    """Chained SHA-256 with its places for mistakes; without any it is ``v2_sha256`` of this token width.

    ``order`` of token bytes; ``cut``, the 64 bits of the key that are sent; ``parent`` enters as its key, as its
    64-bit hash, or the root key in its place; ``root`` is the root key as it should be, or without its mask byte, with
    big-endian or four-byte ids, with the ids or the bits of the mask exchanged, or left out; ``lora`` and ``salt``
    enter or not, the salt with its bytes reversed or into every block; a ``digest`` enters raw, as text or not at
    all; ``limit`` is the number of bytes after which tokens are lost; ``extend`` sign-extends tokens of 2^31 and above;
    ``exact`` keeps 64-bit ids out of floating point.
    """

    width: int
    order: Literal["little", "big"] = "little"
    cut: Literal["first", "last", "little"] = "first"
    parent: Literal["key", "hash", "root"] = "key"
    root: Literal["right", "no-mask", "big-endian", "four-byte", "swapped-ids", "swapped-mask", "no-salt", "none"] = (
        "right"
    )
    lora: bool = True
    salt: Literal["root", "none", "reversed", "every"] = "root"
    digest: Literal["raw", "hex", "none"] = "raw"
    limit: int | None = None
    extend: bool = False
    exact: bool = True

    def root_key(self, chain: Chain) -> bytes:
        """What stands before the first block."""
        if self.root == "none":
            return b""
        lora = chain.lora if self.lora else None
        salt = None if self.salt == "none" else chain.salt
        if salt is not None and self.salt == "reversed":
            salt = int.from_bytes(salt.to_bytes(8, "little"), "big")
        bits = (lora is not None, salt is not None)
        ids = [value for value in (lora, salt) if value is not None]
        if self.root == "no-salt":
            ids = [] if lora is None else [lora]
        if not self.exact:
            ids = [floating(value) for value in ids]
        if self.root == "swapped-ids":
            ids.reverse()
        mask = bits[1] | bits[0] << 1 if self.root == "swapped-mask" else bits[0] | bits[1] << 1
        order: Literal["little", "big"] = "big" if self.root == "big-endian" else "little"
        size = 4 if self.root == "four-byte" else 8
        body = b"".join((value % (1 << 8 * size)).to_bytes(size, order) for value in ids)
        return hashlib.sha256(body if self.root == "no-mask" else bytes([mask]) + body).digest()

    def _token(self, token: Token) -> bytes:
        if isinstance(token, bytes):
            if self.digest == "none":
                return b""
            return token if self.digest == "raw" else token.hex().encode()
        if self.extend and token >= 2**31:
            token += (1 << 8 * self.width) - 2**32
        return (token % (1 << 8 * self.width)).to_bytes(self.width, self.order)

    def _encode(self, tokens: tuple[Token, ...]) -> bytes:
        return b"".join(map(self._token, tokens))[: self.limit]

    def block_key(self, before: bytes, tokens: tuple[Token, ...]) -> bytes:
        """The key of a block behind these bytes; no range is checked."""
        return hashlib.sha256(before + self._encode(tokens)).digest()

    def hash(self, key: bytes) -> int:
        """The 64 bits of a key that are sent."""
        if self.cut == "little":
            return int.from_bytes(key[:8], "little")
        return first(key) if self.cut == "first" else last(key)

    def chain(self, chain: Chain) -> Iterator[Answer]:
        """Hash and key of each block."""
        root = self.root_key(chain)
        key = root if chain.parent_key is None else chain.parent_key
        started = chain.parent_key is not None
        for block in chain.blocks:
            before = key
            if started and self.parent == "hash":
                before = self.hash(key).to_bytes(8, "big")
            elif self.parent == "root":
                before = root
            if started and self.salt == "every" and chain.salt is not None:
                before += struct.pack("<Q", chain.salt)
            key = self.block_key(before, block.tokens)
            started = True
            yield self.hash(key), key


class V1(Mixer, frozen=True, kw_only=True):
    """``v1_block_key`` with its places for mistakes, beyond those of ``Mixer``.

    ``keys`` is the chain that blocks fall back to from a digest token on; ``fallback`` says whether text blocks behind
    one do. ``extra`` ids enter by the 64-bit step, by the 32-bit step or not; the ``offset`` of a multimodal key too,
    as 0, or not. ``signed_parent``: a parent of 2^63 and above counts as none where the salt is concerned. ``exact``
    keeps given 64-bit values out of floating point.
    """

    keys: V2 = V2(width=4)
    fallback: bool = True
    extra: Literal["mixed", "narrow", "none"] = "mixed"
    offset: Literal["mixed", "zero", "none"] = "mixed"
    signed_parent: bool = False
    exact: bool = True

    def _given(self, value: int | None) -> int | None:
        return value if value is None or self.exact else floating(value)

    def _begin(self, block: Piece, parent: int, salt: int | None) -> int:
        seed = len(block.tokens) if self.length else 0
        seed ^= {"mixed": parent * 0xBF58476D1CE4E5B9 & U64, "plain": parent, "absent": 0}[self.parent]
        is_first = parent == 0 or (self.signed_parent and parent >= 2**63)
        if salt is None or self.salt == "none" or not (is_first or self.salt == "every"):
            return seed
        if self.salt == "reversed":
            salt = int.from_bytes(salt.to_bytes(8, "little"), "big")
        return self.mix64(salt, seed)

    def block(self, block: Piece, parent: int, lora: int | None, salt: int | None) -> int:
        """The hash of a block of text tokens."""
        seed = self._begin(block, parent, salt)
        if self.lora == "none" or (self.lora == "first" and parent):
            lora = None
        if lora is not None and self.lora_first:
            seed = self.mix64(lora, seed)
        mix = self.mix64 if self.wide else self.mix32
        for index, token in enumerate(block.tokens):
            assert isinstance(token, int)
            seed = mix(token % 2**32, seed)
            if block.extra is not None and self.extra != "none":
                extra = self._given(block.extra[index]) or 0
                seed = self.mix64(extra, seed) if self.extra == "mixed" else self.mix32(extra % 2**32, seed)
        if lora is not None and not self.lora_first:
            seed = self.mix64(lora, seed)
        for digest, offset in block.mm if self.mm != "none" else ():
            for word in struct.unpack("<8I" if self.mm == "little" else ">8I", digest):
                seed = self.mix32(word, seed)
            if self.offset != "none":
                seed = self.mix64(offset if self.offset == "mixed" else 0, seed)
        return seed

    def chain(self, chain: Chain) -> Iterator[Answer]:
        """Hash and key of each block; the key is unknown behind a given parent."""
        parent = self._given(chain.parent) or 0
        lora, salt = self._given(chain.lora), self._given(chain.salt)
        behind = False
        keys = [None] * len(chain.blocks) if chain.parent is not None else [key for _, key in self.keys.chain(chain)]
        for block, key in zip(chain.blocks, keys, strict=True):
            digest = bytes in map(type, block.tokens)
            behind = behind or digest
            if key is not None and (digest or (behind and self.fallback)):
                parent = self.keys.hash(key)
            else:
                parent = self.block(block, parent, lora, salt)
            yield parent, key


_LAST = "the last eight bytes of the key are sent, not the first"
_WIDE = "tokens are hashed as eight bytes each, not as four"
_NARROW = "tokens are hashed as four bytes each, not as eight"
_ROUNDED = "64-bit inputs are rounded to 53 bits: they were read as floating-point numbers"

ROUNDED_HASH = "rounded-hash"
WRONG = {
    ROUNDED_HASH: "the hash is rounded to 53 bits: it went through a floating-point number",
    "rounded-inputs": _ROUNDED,
    "last-8": _LAST,
    "first-8": "the first eight bytes of the key are sent, not the last",
    "eight-byte-tokens": _WIDE,
    "four-byte-tokens": _NARROW,
    "no-root-key": BY_NAME["v2_sha256_64/u64/no-root-key"].wrong,
    "no-digest": "digest tokens are left out",
    "four-byte-ids": "the ids in the root key are written as four bytes, not as eight",
    "swapped-ids": "the salt id stands before the LoRA id in the root key",
    "swapped-mask": "the bits of the mask are exchanged: LoRA is bit 0, salt is bit 1",
    "first-4-kib": "only the first 4 KiB of tokens enter: a buffer is hashed once and the rest is lost",
    "sign-extended": "token ids of 2^31 and above are sign-extended to eight bytes",
    "signed-parent": "a parent of 2^63 and above, negative when it is signed, is taken for none, and the salt enters",
    "no-extra-ids": "the extra ids do not enter",
    "narrow-extra-ids": "the extra ids are mixed in by the 32-bit step, not by the 64-bit one",
    "mm-offset-zero": "the start offset of a multimodal key is taken as 0, not as the index within the item",
    "no-mm-offset": "the start offset of a multimodal key does not enter",
    "fallback-last-8": "behind a digest token the last eight bytes of the v2 key are taken, not the first",
}
"""What is wrong, for the mistakes that ``kvwire.hashes.mistakes`` does not know under the same name."""


def wrong(algorithm: str, slug: str) -> str:
    """What is wrong with a mistake, in a sentence."""
    known = BY_NAME.get(f"{algorithm}/{slug}")
    return known.wrong if known is not None and known.truth is not None else WRONG[slug]


V1_VARIANTS: dict[str, V1] = {
    "no-wrap": V1(wrap=False),
    "no-length": V1(length=False),
    "signed-shift": V1(logical=False),
    "wide-constant": V1(golden=0x9E3779B97F4A7C15, wrap=False),
    "wide-tokens": V1(wide=True),
    "no-parent": V1(parent="absent"),
    "plain-parent": V1(parent="plain"),
    "signed-parent": V1(signed_parent=True),
    "no-lora": V1(lora="none", keys=V2(width=4, lora=False)),
    "lora-first-block": V1(lora="first"),
    "lora-before-tokens": V1(lora_first=True),
    "no-salt": V1(salt="none", keys=V2(width=4, salt="none")),
    "salt-every-block": V1(salt="every"),
    "salt-big-endian": V1(salt="reversed", keys=V2(width=4, salt="reversed")),
    "no-extra-ids": V1(extra="none"),
    "narrow-extra-ids": V1(extra="narrow"),
    "no-mm-keys": V1(mm="none"),
    "mm-keys-big-endian": V1(mm="big"),
    "mm-offset-zero": V1(offset="zero"),
    "no-mm-offset": V1(offset="none"),
    "rounded-inputs": V1(exact=False, keys=V2(width=4, exact=False)),
    "no-fallback": V1(fallback=False),
    "fallback-last-8": V1(keys=V2(width=4, cut="last")),
}
"""The mistakes of ``v1_block_key`` with four-byte keys."""


def v1_variants(width: int) -> dict[str, V1]:
    """The mistakes of ``v1_block_key``, its keys made of tokens of this width."""
    replace = msgspec.structs.replace
    found = {slug: replace(v1, keys=replace(v1.keys, width=width)) for slug, v1 in V1_VARIANTS.items()}
    other = "eight-byte-tokens" if width == 4 else "four-byte-tokens"
    return found | {other: V1(keys=V2(width=12 - width))}


def v2_variants(width: int, cut: Literal["first", "last"] = "first") -> dict[str, V2]:
    """The mistakes of chained SHA-256 over tokens of this width, of which these eight bytes are sent."""
    right = V2(width=width, cut=cut)
    changes: dict[str, dict[str, object]] = {
        "big-endian-tokens": {"order": "big"},
        "little-endian-hash": {"cut": "little"},
        "last-8": {"cut": "last"},
        "first-8": {"cut": "first"},
        "eight-byte-tokens": {"width": 8},
        "four-byte-tokens": {"width": 4},
        "short-parent": {"parent": "hash"},
        "no-parent": {"parent": "root"},
        "no-mask": {"root": "no-mask"},
        "no-root-key": {"root": "none"},
        "big-endian-ids": {"root": "big-endian"},
        "four-byte-ids": {"root": "four-byte"},
        "swapped-ids": {"root": "swapped-ids"},
        "swapped-mask": {"root": "swapped-mask"},
        "no-lora": {"lora": False},
        "no-salt": {"salt": "none"},
        "salt-bit-alone": {"root": "no-salt"},
        "salt-every-block": {"salt": "every"},
        "salt-big-endian": {"salt": "reversed"},
        "hex-digest": {"digest": "hex"},
        "no-digest": {"digest": "none"},
        "first-4-kib": {"limit": SEAM},
        "sign-extended": {"extend": True},
        "rounded-inputs": {"exact": False},
    }
    variants = {slug: msgspec.structs.replace(right, **change) for slug, change in changes.items()}
    return {slug: variant for slug, variant in variants.items() if variant != right}
