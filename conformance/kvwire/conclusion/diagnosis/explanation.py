"""Where a hash comes from: which function, known mistake, seed, block size and inputs give this number for a prompt."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kvwire.conclusion.diagnosis.recognition import SEEDABLE, SEEDS, seeded
from kvwire.hashes.functions import TRUE, Block, Function, Scope, State, Token
from kvwire.hashes.mistakes import BY_NAME, MISTAKES
from kvwire.wire.events import TWO_63, TWO_64

SIZES = (16, 32, 64, 128, 256, 1, 2, 4, 8, 512)
"""Block sizes that are tried where none is given, in tokens, the likeliest first; and the prompt as one block."""
LONGEST = 4096
"""So many tokens of a prompt are hashed at most."""
SHOWN = 8


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "big"), "little")


def _rounded(value: int) -> int:
    return int(struct.unpack("<d", struct.pack("<d", value))[0]) % TWO_64


def _rounded_signed(value: int) -> int:
    own = value - TWO_64 if value >= TWO_63 else value
    return int(float(own)) % TWO_64


FORMS: tuple[tuple[str, Callable[[int], int]], ...] = (
    ("", lambda value: value),
    ("its bytes in the wrong order", _swapped),
    ("without its highest bit", lambda value: value % TWO_63),
    ("its lower 32 bits alone", lambda value: value % 2**32),
    ("its upper 32 bits alone", lambda value: value >> 32),
    ("rounded to a double, as JavaScript reads integers", _rounded),
    ("as a negative number, rounded to a double", _rounded_signed),
)
"""What becomes of a hash on its way: nothing, or a way in which 64 bits are lost; the first that fits is told."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a prompt: its tokens, and what else may enter its hashes.

    ``size`` in tokens, None: the usual ones are tried. ``parent`` is the hash before its first block, ``parent_key``
    the full key there, where the tokens do not begin the chain. ``extra`` are vLLM's extra keys and ``mm`` the
    multimodal keys (digest, offset), by block; blocks beyond have none.
    """

    tokens: tuple[Token, ...]
    size: int | None = None
    parent: int | None = None
    parent_key: bytes | None = None
    scope: Scope = Scope()
    extra: tuple[tuple[Any, ...] | None, ...] | None = None
    mm: tuple[tuple[tuple[bytes, int], ...], ...] = ()
    seeds: tuple[str, ...] = ()


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to the number: ``block`` (from 0) of ``size`` tokens by ``function``.

    ``left_out`` are inputs that were given and did not enter, ``form`` what became of the hash on its way, ``mistake``
    what is wrong with a known wrong function.
    """

    function: str
    block: int
    size: int
    seed: str | None = None
    left_out: list[str] = []
    form: str = ""
    mistake: str = ""

    @property
    def said(self) -> str:
        """In a line."""
        tokens = f"tokens {self.block * self.size} to {(self.block + 1) * self.size - 1}"
        text = f"block {self.block} of {self.size} tokens ({tokens}) by {self.function}"
        text += "" if self.seed is None else f" with PYTHONHASHSEED={self.seed}"
        text += f", without {' and '.join(self.left_out)}" if self.left_out else ""
        text += f", {self.form}" if self.form else ""
        return text + (f": a known mistake: {self.mistake}" if self.mistake else "")


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What gives the number, the likeliest first, and how much was tried: functions, mistakes, sizes and hashes."""

    ways: list[Explained]
    functions: int
    mistakes: int
    seeds: int
    sizes: list[int]
    hashes: int


def explain(value: int, asked: Asked) -> Explanation:
    """Every way to a 64-bit number, signed or not; a mistake only where no function gives it with the same inputs."""
    search = _Search(value % TWO_64, asked)
    for size in search.sizes:
        for scope, extra, mm, left in search.inputs():
            found = [search.follow(function, size, scope, extra, mm, left) for function in TRUE]
            if not any(found):
                for function in MISTAKES:
                    search.follow(function, size, scope, extra, mm, left)
            if not search.ways:
                for seed in search.seeds:
                    for function in SEEDABLE:
                        search.follow(seeded(function, seed), size, scope, extra, mm, left, seed)
    return Explanation(
        ways=sorted(search.ways, key=lambda way: (bool(way.mistake), bool(way.form), len(way.left_out)))[:SHOWN],
        functions=len(TRUE),
        mistakes=len(MISTAKES),
        seeds=len(search.seeds),
        sizes=list(search.sizes),
        hashes=search.hashes,
    )


Inputs = tuple[Scope, tuple[tuple[Any, ...] | None, ...] | None, tuple[tuple[tuple[bytes, int], ...], ...], list[str]]


class _Search:
    def __init__(self, value: int, asked: Asked) -> None:
        self.value = value
        self.asked = asked
        self.tokens = asked.tokens[:LONGEST]
        whole = len(self.tokens)
        sizes = (asked.size,) if asked.size is not None else (*SIZES, whole)
        self.sizes = tuple(dict.fromkeys(size for size in sizes if size <= whole))
        self.seeds = tuple(dict.fromkeys((*asked.seeds, *SEEDS)))
        self.ways: list[Explained] = []
        self.hashes = 0

    def inputs(self) -> Iterator[Inputs]:
        """What was given, and less and less of it."""
        asked, scope = self.asked, self.asked.scope
        given = {
            "the LoRA adapter": scope.lora is not None or scope.lora_name is not None,
            "the salt": scope.salt is not None,
            "the extra keys": asked.extra is not None,
            "the multimodal keys": bool(asked.mm),
        }
        names = [name for name, there in given.items() if there]
        for count in range(len(names) + 1):
            for left in itertools.combinations(names, count):
                adapter = "the LoRA adapter" in left
                yield (
                    Scope(
                        None if adapter else scope.lora,
                        None if adapter else scope.lora_name,
                        None if "the salt" in left else scope.salt,
                    ),
                    None if "the extra keys" in left else asked.extra,
                    () if "the multimodal keys" in left else asked.mm,
                    list(left),
                )

    def _start(self, function: Function, scope: Scope) -> State | None:
        asked = self.asked
        if asked.parent_key is not None:
            return State(scope, asked.parent_key) if function.family == "key-chain" else None
        if asked.parent is not None:
            return function.join(scope)
        return function.start(scope)

    def follow(
        self,
        function: Function,
        size: int,
        scope: Scope,
        extra: tuple[tuple[Any, ...] | None, ...] | None,
        mm: tuple[tuple[tuple[bytes, int], ...], ...],
        left: list[str],
        seed: str | None = None,
    ) -> bool:
        """Hash the prompt by one function, and note each block that has the number."""
        state = self._start(function, scope)
        truth = BY_NAME[function.truth] if function.truth is not None else function
        right = self._start(truth, scope)
        parent, found = self.asked.parent, False
        for at in range(len(self.tokens) // size if state is not None and right is not None else 0):
            assert state is not None
            assert right is not None
            keys = msgspec.UNSET if extra is None else extra[at] if at < len(extra) else None
            block = Block(
                self.tokens[at * size : (at + 1) * size],
                parent,
                mm[at] if at < len(mm) else (),
                keys,
                adapted=scope.lora is not None or scope.lora_name is not None,
            )
            state, right = function.step(state, block), truth.step(right, block)
            self.hashes += 1
            if state.hash is None:  # a mistake says nothing where it gives what the truth gives
                parent = right.hash
                continue
            parent = state.hash
            form = next((text for text, made in FORMS if made(state.hash) == self.value), None)
            if form is not None and (not form or self.value not in (0, state.hash)):
                way = Explained(
                    function=function.name,
                    block=at,
                    size=size,
                    seed=seed,
                    left_out=left,
                    form=form,
                    mistake=function.wrong,
                )
                self._note(way)
                found = True
        return found

    def _note(self, way: Explained) -> None:
        """Keep a way; not the same again with less, nor by another function of the same label."""
        label = BY_NAME[way.function].label
        for other in self.ways:
            same = (other.block, other.size, other.seed, other.form) == (way.block, way.size, way.seed, way.form)
            if same and BY_NAME[other.function].label == label and bool(other.mistake) == bool(way.mistake):
                return
        self.ways.append(way)


def none_of(explanation: Explanation, asked: Asked) -> Sequence[str]:
    """What was tried in vain, and what would widen the search."""
    sizes = ", ".join(map(str, explanation.sizes)) or "no size that the tokens fill"
    known = f"{explanation.functions} functions, {explanation.mistakes} known mistakes and {explanation.seeds} seeds"
    said = [f"none of {known} gives it (blocks of {sizes} tokens, {explanation.hashes} hashes)"]
    if asked.parent is not None:
        said.append(
            "a function that chains keys cannot go on from a 64-bit hash: give all tokens from the first block on, or "
            "--parent-key"
        )
    if asked.scope.bare and asked.extra is None:
        said.append("if the prompt had a salt, an adapter or extra keys, give them: --salt, --lora-name, --extra-keys")
    said.append("if the engine runs with a PYTHONHASHSEED, give it: --seed")
    return said
