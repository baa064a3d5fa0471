"""Which hash a prefix of a prompt has on the wire, by the tokens that its blocks were announced with."""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.cache.chains import ROOT, Window, extend
from kvwire.hashes.functions import Token
from kvwire.trace.stimuli import Prompt
from kvwire.wire.events import Event


def chains_of(tokens: Sequence[Token], size: int) -> tuple[bytes, ...]:
    """The identity of each prefix of a prompt that ends with a full block."""
    found: list[bytes] = []
    chain = ROOT
    for start in range(0, len(tokens) - size + 1, size):
        chain = extend(chain, tokens[start : start + size])
        found.append(chain)
    return tuple(found)


class Prefixes:
    """The announced blocks of one incarnation; O(window) and the prompts.

    ``strayed``: a block was announced in a chain that no prompt of the harness explains, so that it is not known which
    prefix it is, and which ones were not announced. An engine may go on by itself after the end of a prompt.
    """

    def __init__(self, size: int | None) -> None:
        self.size = size or 0
        """Tokens of a block; 0 until it is known."""
        self.strayed = False
        self.prompts: tuple[Prompt, ...] = ()
        self._chains: Window[int, bytes] = Window()
        self._hashes: Window[bytes, set[int]] = Window()
        self._prefixes: set[bytes] = set()
        self._ends: set[bytes] = set()
        self._known_size = 0

    def begin(self) -> None:
        """A new incarnation."""
        self.strayed = False
        self._chains.clear()
        self._hashes.clear()

    def of(self, prompt: Prompt) -> tuple[bytes, ...]:
        """The prefixes of a prompt; none while the size of a block is not known."""
        return chains_of(prompt.tokens, self.size) if self.size else ()

    def stored(self, event: Event) -> list[bytes]:
        """Follow a store; the identities of its blocks, as far as they can be told."""
        if event.tokenless:
            known = [self._chains.get(value) for value in event.hashes]
            self.strayed = self.strayed or None in known
            return [chain for chain in known if chain is not None]
        if not event.whole:
            self.strayed = True
            return []
        self.size = self.size or event.block_size or 0
        self._know()
        above = ROOT if event.parent is None else self._chains.get(event.parent)
        found: list[bytes] = []
        for index, value in enumerate(event.hashes):
            if above is None:
                self.strayed = True
                break
            chain = self._extend(above, event.block(index))
            if chain not in self._prefixes and above in self._ends:
                self._ends.add(chain)
            elif chain not in self._prefixes:
                self.strayed = True
            above = chain
            held = self._hashes.get(chain)
            self._chains.put(value, chain)
            self._hashes.put(chain, {value} if held is None else held | {value})
            found.append(chain)
        return found

    def _extend(self, above: bytes, tokens: Sequence[Token]) -> bytes:
        """The identity of a prefix, a block longer: blocks of a coarse group are cut as the prompts are."""
        step = self.size if len(tokens) % self.size == 0 else len(tokens)
        for start in range(0, len(tokens), step):
            above = extend(above, tokens[start : start + step])
        return above

    def _know(self) -> None:
        if self._known_size != self.size:
            self._known_size = self.size
            chains = [self.of(prompt) for prompt in self.prompts]
            self._prefixes = {chain for own in chains for chain in own}
            self._ends = {own[-1] for own in chains if own}

    def chain_of(self, value: int) -> bytes | None:
        """The prefix that a hash was announced for."""
        return self._chains.get(value)

    def hash_of(self, chain: bytes) -> int | None:
        """The hash of a prefix; None when it was not announced, or with several hashes, as in several reuse scopes."""
        held = self._hashes.get(chain)
        return next(iter(held)) if held is not None and len(held) == 1 else None

    def several(self, chain: bytes) -> bool:
        """Whether a prefix has several hashes."""
        held = self._hashes.get(chain)
        return held is not None and len(held) > 1
