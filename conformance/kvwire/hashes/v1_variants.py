"""The known mistakes of ``v1_block_key``: the function rebuilt with places where it can go wrong.

``no-wrap`` was seen in a public port; the others are the ways in which spec/hashing.md can be misread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Literal

import msgspec

from kvwire.hashes.functions import (
    Block,
    Function,
    Scope,
    State,
    chain_key,
    has_lora,
    has_salt,
    reversed_salt_id,
    root_key,
    sayable,
)

_U32 = 2**32 - 1
_U64 = 2**64 - 1
_GOLDEN = 0x9E3779B9
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


class Mixer(msgspec.Struct, frozen=True, kw_only=True):
    """``v1_block_key`` with its places for mistakes; without any of them it is the function itself.

    ``wrap``: sums wrap at 32 bits. ``logical``: right shifts are logical. ``golden``: the constant of the mixing
    steps. ``wide``: tokens are mixed by the 64-bit step. ``length`` enters. ``parent`` is multiplied, entered as it
    is, or absent. ``lora`` enters every block, the first or none; ``salt`` the first, every or none. ``mm`` words are
    read little-endian, big-endian, or left out.
    """

    wrap: bool = True
    logical: bool = True
    golden: int = _GOLDEN
    wide: bool = False
    length: bool = True
    parent: Literal["mixed", "plain", "absent"] = "mixed"
    lora: Literal["every", "first", "none"] = "every"
    lora_first: bool = False
    salt: Literal["first", "every", "none", "reversed"] = "first"
    mm: Literal["little", "big", "none"] = "little"

    def _meet(self, value: int, seed: int) -> int:
        shifted = seed >> 2 if self.logical or seed < 2**63 else ((seed - 2**64) >> 2) & _U64
        return seed ^ ((value + (seed << 6) + shifted) & _U64)

    def mix32(self, value: int, seed: int) -> int:
        """Mix in a 32-bit value."""
        v = ((value >> 16) ^ value) * 0x45D9F3B & _U32
        v = ((v >> 16) ^ v) * 0x45D9F3B & _U32
        v = ((v >> 16) ^ v) + self.golden
        return self._meet(v & _U32 if self.wrap else v, seed)

    def mix64(self, value: int, seed: int) -> int:
        """Mix in a 64-bit value."""
        v = (value ^ (value >> 30)) * _FIRST & _U64
        v = (v ^ (v >> 27)) * _SECOND & _U64
        return self._meet((v ^ (v >> 31)) + self.golden, seed)

    def hash(self, block: Block, scope: Scope) -> int:
        """The hash of a block of text tokens."""
        parent = block.parent or 0
        seed = len(block.tokens) if self.length else 0
        seed ^= {"mixed": parent * _FIRST & _U64, "plain": parent, "absent": 0}[self.parent]
        salt = reversed_salt_id(scope) if self.salt == "reversed" else scope.salt_id
        if salt is not None and (self.salt == "every" or (parent == 0 and self.salt != "none")):
            seed = self.mix64(salt, seed)
        lora = scope.lora if self.lora == "every" or (self.lora == "first" and parent == 0) else None
        if lora is not None and self.lora_first:
            seed = self.mix64(lora, seed)
        mix = self.mix64 if self.wide else self.mix32
        for token in block.tokens:
            assert isinstance(token, int)
            seed = mix(token, seed)
        if lora is not None and not self.lora_first:
            seed = self.mix64(lora, seed)
        for digest, offset in block.mm if self.mm != "none" else ():
            for word in struct.unpack("<8I" if self.mm == "little" else ">8I", digest):
                seed = self.mix32(word, seed)
            seed = self.mix64(offset, seed)
        return seed


Where = Literal["always", "roots", "children", "multimodal", "fallback"]
"""The blocks on which a mistake shows."""


def _shows(where: Where, state: State, block: Block) -> bool:
    match where:
        case "roots":
            return block.parent is None
        case "children":
            return block.parent is not None
        case "multimodal":
            return bool(block.mm)
        case "fallback":
            return state.fallback
        case _:
            return True


def v1_mistake(
    slug: str, wrong: str, mixer: Mixer, applies: Callable[[Scope], bool] = sayable, where: Where = "always"
) -> Function:
    """A mistake of ``v1_block_key``, for text blocks."""

    def step(state: State, block: Block) -> State:
        key = None if state.key is None else chain_key(state.key, block.tokens, 4)
        digest = not block.text_only
        shows = not digest and _shows(where, state, block) and (where == "fallback" or not state.fallback)
        value = mixer.hash(block, state.scope) if shows else None
        return State(state.scope, key, value, fallback=state.fallback or digest)

    return Function(
        name=f"v1_block_key/{slug}",
        label="v1_block_key",
        family="claimed-parent",
        root=lambda scope: root_key(scope) if applies(scope) else None,
        step=step,
        truth="v1_block_key",
        wrong=wrong,
    )


V1_MISTAKES: tuple[Function, ...] = (
    v1_mistake(
        "no-wrap",
        "32-bit wrap missing: the sum with 0x9e3779b9 must wrap at 32 bits before it meets 64-bit terms",
        Mixer(wrap=False),
    ),
    v1_mistake("no-length", "the number of tokens does not enter the first value", Mixer(length=False)),
    v1_mistake(
        "signed-shift",
        "a 64-bit value is shifted right as a signed number: `>> 2` is a logical shift",
        Mixer(logical=False),
    ),
    v1_mistake(
        "wide-constant",
        "the constant added is 0x9e3779b97f4a7c15, not 0x9e3779b9",
        Mixer(golden=0x9E3779B97F4A7C15, wrap=False),
    ),
    v1_mistake("wide-tokens", "tokens are mixed in by the 64-bit step, not by the 32-bit one", Mixer(wide=True)),
    v1_mistake("no-parent", "the parent's hash does not enter", Mixer(parent="absent"), where="children"),
    v1_mistake(
        "plain-parent",
        "the parent's hash enters without its factor 0xbf58476d1ce4e5b9",
        Mixer(parent="plain"),
        where="children",
    ),
    v1_mistake("no-lora", "the LoRA id does not enter (an id of 0 is an id too)", Mixer(lora="none"), has_lora),
    v1_mistake(
        "lora-first-block",
        "the LoRA id enters the first block only, not every block",
        Mixer(lora="first"),
        has_lora,
        "children",
    ),
    v1_mistake(
        "lora-before-tokens", "the LoRA id enters before the tokens, not after them", Mixer(lora_first=True), has_lora
    ),
    v1_mistake("no-salt", "the salt id does not enter the first block", Mixer(salt="none"), has_salt, "roots"),
    v1_mistake(
        "salt-every-block",
        "the salt id enters every block, not the first only",
        Mixer(salt="every"),
        has_salt,
        "children",
    ),
    v1_mistake(
        "salt-big-endian",
        "the salt id is read big-endian, not little-endian",
        Mixer(salt="reversed"),
        has_salt,
        "roots",
    ),
    v1_mistake("no-mm-keys", "the multimodal keys do not enter", Mixer(mm="none"), where="multimodal"),
    v1_mistake(
        "mm-keys-big-endian",
        "the words of the multimodal digest are read big-endian",
        Mixer(mm="big"),
        where="multimodal",
    ),
    v1_mistake(
        "no-fallback",
        "a text block behind a digest token is mixed as text, instead of taking its hash from its v2 key",
        Mixer(),
        where="fallback",
    ),
)
