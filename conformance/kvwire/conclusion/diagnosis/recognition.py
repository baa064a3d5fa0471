"""Which hash function a stream uses, told from its hashes alone: block by block, over every known function.

The wire names no seed and no salt. A first block gives a seed away that is easily guessed; a label need not be
believed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from kvwire.cache.chains import Window
from kvwire.hashes.functions import NO_SCOPE, TRUE, Block, Function, Scope, State, canonical, pickled
from kvwire.hashes.keys import extra_keys, readable
from kvwire.hashes.mistakes import MISTAKES
from kvwire.wire.events import TWO_64, Event

ENOUGH = 64
"""After so many blocks a function that gives none of them is given up, once another gives some."""
HURRIED = 8
"""After so many where time is short."""
SEARCH = 1_000_000
"""How many tokens are hashed at most in the search; then only what gave something goes on."""
GUESSED = 32
"""In so many first blocks seeds are looked for."""
SEEDS = ("42", *(str(n) for n in range(100) if n != 42), "123", "1234", "12345", "1337", "2023", "2024", "2025", "2026")
"""Values of PYTHONHASHSEED that are guessed beside those that are given."""
PARTS = (16, 1, 8, 32, 64, 128, 256, 4, 2, 512)
"""Sizes of smaller blocks that are tried, in tokens, the likeliest first."""
_SEEDED: dict[str, Callable[[Any], bytes]] = {"x-vllm-sha256-cbor": canonical, "x-vllm-sha256": pickled}
SEEDABLE = tuple(function for function in TRUE if function.label in _SEEDED)
"""The functions that a PYTHONHASHSEED enters."""


class Recognised(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A function that gives hashes of the stream: how many blocks of those whose inputs are known.

    ``seed`` is the PYTHONHASHSEED with which it does, ``finer`` the tokens of the smaller blocks that are hashed where
    a block is named by the last of its parts; ``mistake`` says what is wrong with a known wrong one.
    """

    function: str
    blocks: int
    tried: int
    seed: str | None = None
    finer: int | None = None
    mistake: str = ""


class _Candidate:
    def __init__(self, function: Function, seed: str | None = None, finer: int | None = None) -> None:
        self.function = function
        self.seed = seed
        self.finer = finer
        self.states: Window[int, State] = Window()
        self.tried = 0
        self.blocks = 0

    def step(self, state: State, block: Block) -> State:
        """The state behind a block, or behind its parts."""
        if self.finer is None:
            return self.function.step(state, block)
        parent = block.parent
        for at in range(0, len(block.tokens), self.finer):
            part = Block(block.tokens[at : at + self.finer], parent, extra=block.extra, adapted=block.adapted)
            state = self.function.step(state, part)
            parent = state.hash
        return state


def seeded(function: Function, seed: str) -> Function:
    """VLLM's function in a process with this PYTHONHASHSEED, which gives the key before every first block."""
    key = hashlib.sha256(_SEEDED[function.label](seed)).digest()
    return msgspec.structs.replace(function, root=lambda _: key)


class Recognition:
    """The functions of one stream. Memory: states of the most recently used hashes, for each candidate."""

    def __init__(self, seeds: Iterable[str] = (), *, hurried: bool = False) -> None:
        self._enough, self._guesses = (HURRIED, 2) if hurried else (ENOUGH, GUESSED)
        self._seeds = tuple(dict.fromkeys((*seeds, *SEEDS)))
        self._candidates = [_Candidate(function) for function in (*TRUE, *MISTAKES)]
        self._left = SEARCH
        self._guessed = 0
        self._narrowed = False
        self.blocks = 0
        """Blocks with tokens that were looked at."""

    def begin(self) -> None:
        """A new incarnation: chains begin anew."""
        for candidate in self._candidates:
            candidate.states.clear()

    def stored(self, payload: bytes, event: Event) -> None:
        """Look at the blocks of a store that is ``whole``."""
        if "mm_keys" in event.keys and not readable(event):
            return
        extras = extra_keys(payload, event)
        parent = event.parent
        scopes = _scopes(event)
        for index, value in enumerate(event.hashes):
            block = Block(
                event.block(index),
                parent,
                event.mm_keys[index] if event.mm_keys else (),
                msgspec.UNSET if extras is None else extras[index],
                adapted=event.lora_id is not None or event.lora_name is not None,
            )
            self.blocks += 1
            found = [self._try(candidate, block, value, scopes) for candidate in self._candidates]
            if parent is None and not any(found):
                self._widen(block, value, scopes)
                self._guess(block, value, scopes)
            parent = value
        if self.blocks >= self._enough or self._left <= 0:
            self._narrow()

    def _try(self, candidate: _Candidate, block: Block, value: int, scopes: Sequence[Scope]) -> bool:
        function = candidate.function
        if block.parent is None:
            starts = [function.start(scope) for scope in scopes]
        elif (above := candidate.states.get(block.parent)) is not None:
            starts = [above]
        else:
            starts = [function.join(scope) for scope in scopes]
        self._left -= len(block.tokens) * len(starts)
        states = [candidate.step(start, block) for start in starts if start is not None]
        if (hit := next((state for state in states if state.hash == value), None)) is not None:
            candidate.blocks += 1
            candidate.tried += 1
            candidate.states.put(value, hit)
            return True
        candidate.tried += any(state.hash is not None for state in states)
        return False

    def _guess(self, block: Block, value: int, scopes: Sequence[Scope]) -> None:
        """Look for a seed, or a size of smaller blocks, that gives the hash of a first block."""
        if self._guessed >= self._guesses:
            return
        self._guessed += 1
        known = {(candidate.function.name, candidate.seed) for candidate in self._candidates}
        size = len(block.tokens)
        for finer in (part for part in PARTS if part < size and size % part == 0 and not block.mm):
            for function in TRUE:
                candidate = _Candidate(function, finer=finer)
                if self._try(candidate, block, value, scopes):
                    self._candidates.append(candidate)
                    return
        for function in SEEDABLE:
            for seed in self._seeds:
                if (function.name, seed) in known:
                    continue
                candidate = _Candidate(seeded(function, seed), seed)
                if self._try(candidate, block, value, scopes):
                    self._candidates.append(candidate)
                    return

    def _widen(self, block: Block, value: int, scopes: Sequence[Scope]) -> None:
        """Look for another function where those that gave hashes do not give a first block: it may have changed."""
        if not self._narrowed or self._left <= 0:
            return
        known = {candidate.function.name for candidate in self._candidates}
        more = [_Candidate(function) for function in TRUE if function.name not in known]
        for candidate in more:
            candidate.tried = self.blocks - 1
        self._candidates += [candidate for candidate in more if self._try(candidate, block, value, scopes)]

    def _narrow(self) -> None:
        self._narrowed = True
        if any(candidate.blocks for candidate in self._candidates):
            self._candidates = [candidate for candidate in self._candidates if candidate.blocks]
        elif self._left <= 0:
            self._candidates = []

    def found(self) -> tuple[Recognised, ...]:
        """What gives hashes of the stream, the most first; a mistake only where no function gives as many."""
        best: dict[str, _Candidate] = {}
        for candidate in self._candidates:
            if candidate.blocks:
                key = candidate.function.label if candidate.function.truth is None else candidate.function.name
                held = best.get(key)
                if held is None or candidate.blocks > held.blocks:
                    best[key] = candidate
        most = Counter({key: c.blocks for key, c in best.items() if c.function.truth is None})
        top = max(most.values(), default=0)
        shown = [c for c in best.values() if c.function.truth is None or c.blocks > top]
        shown.sort(key=lambda c: (-c.blocks, c.tried, c.function.truth is not None))
        return tuple(
            Recognised(
                function=c.function.name,
                blocks=c.blocks,
                tried=c.tried,
                seed=c.seed,
                finer=c.finer,
                mistake=c.function.wrong,
            )
            for c in shown
        )


def _scopes(event: Event) -> tuple[Scope, ...]:
    """The reuse scopes that an event can be of, as far as it says."""
    if event.lora_id is None and event.lora_name is None and event.cache_salt is None:
        return (NO_SCOPE,)
    lora = None if event.lora_id is None else event.lora_id % TWO_64
    said = Scope(lora, event.lora_name, event.cache_salt)
    return (said, msgspec.structs.replace(said, lora=None)) if lora == 0 else (said,)
