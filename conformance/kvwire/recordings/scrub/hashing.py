"""The hashes of a recording, computed again from what its tokens, salts and names become.

A block whose hash some function gives, true or mistaken, has the hash that this function gives for the new values; any
other hash is opaque, and becomes another by a keyed bijection. So whoever judges the recording finds the same function,
or the same mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kvwire.hashes.functions import TRUE, Block, Function, Scope, State
from kvwire.hashes.keys import extra_keys, readable
from kvwire.hashes.mistakes import MISTAKES
from kvwire.recordings.scrub.payloads import token
from kvwire.recordings.scrub.secrets import Secrets
from kvwire.wire.events import TWO_64, Event

SEARCH = 4_000_000
"""How many tokens are hashed at most in search of a function, over all functions and scopes."""
SCOPES = 32
"""How many scopes are tried at most for one block."""


class _Match(msgspec.Struct, frozen=True, gc=False):
    """A function that gives a block's hash, and where the chain stands."""

    function: Function
    state: State


class Hashes:
    """Learns the hashes of a recording from its stored blocks, in passes over them, and says what each becomes.

    Three passes: ``seek`` until it finds nothing more, then ``settle`` once, then ``new`` answers.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._loras: dict[int | None, None] = {None: None}
        self._salts: dict[str | None, None] = {None: None}
        self._matches: dict[int, tuple[_Match, ...]] = {}
        self._counts: Counter[str] = Counter()
        self._left = SEARCH
        self._new: dict[int, int] = {}
        self._states: dict[int, State] = {}
        self._waiting: dict[int, list[tuple[int, Block]]] = {}

    @property
    def known(self) -> int:
        """How many hashes some function gives."""
        return len(self._matches)

    def scope(self, lora: int | None, salt: str | None) -> None:
        """Blocks can be of a scope that a prompt was run in."""
        self._loras.setdefault(lora)
        self._salts.setdefault(salt)

    def _scopes(self, event: Event) -> list[Scope]:
        own = None if event.lora_id is None else event.lora_id % TWO_64
        loras = dict.fromkeys((own, *self._loras))
        names = dict.fromkeys((event.lora_name, None))
        salts = dict.fromkeys((event.cache_salt, *self._salts))
        found = (Scope(lora, name, salt) for salt in salts for name in names for lora in loras)
        return [*found][:SCOPES]

    def _blocks(self, payload: bytes, event: Event) -> Iterator[tuple[int, Block]]:
        """The blocks of a whole event with their hashes."""
        if "mm_keys" in event.keys and not readable(event):
            return
        extras = extra_keys(payload, event)
        parent = event.parent
        for index, value in enumerate(event.hashes):
            yield (
                value,
                Block(
                    event.block(index),
                    parent,
                    event.mm_keys[index] if event.mm_keys else (),
                    msgspec.UNSET if extras is None else extras[index],
                    adapted=event.lora_id is not None or event.lora_name is not None,
                ),
            )
            parent = value

    # which function

    def seek(self, payload: bytes, event: Event) -> None:
        """Find the functions that give the hashes of an event's blocks."""
        for value, block in self._blocks(payload, event):
            if value in self._matches:
                continue
            front = [function for function in (*TRUE, *MISTAKES) if self._counts[function.name]]
            found = self._matching(front, event, value, block)
            if not found and self._left > 0:
                found = self._matching([*TRUE, *MISTAKES], event, value, block, search=True)
            if found:
                self._matches[value] = found
                self._counts.update(match.function.name for match in found)

    def _matching(
        self, functions: Iterable[Function], event: Event, value: int, block: Block, *, search: bool = False
    ) -> tuple[_Match, ...]:
        found: dict[str, _Match] = {}
        for function in functions:
            for start in self._starts(function, event, block):
                if search:
                    self._left -= len(block.tokens)
                state = function.step(start, block)
                if state.hash == value:
                    found[function.name] = _Match(function, state)
                    break
        return tuple(found.values())

    def _starts(self, function: Function, event: Event, block: Block) -> Iterator[State]:
        """Where the chain can stand before a block."""
        above = self._matches.get(block.parent, ()) if block.parent is not None else ()
        own = [match.state for match in above if match.function is function]
        if own:
            yield from own
            return
        if block.parent is not None and function.family == "key-chain":
            return
        for scope in self._scopes(event):
            start = function.start(scope) if block.parent is None else function.join(scope)
            if start is not None:
                yield start

    # what it gives for the new values

    def settle(self, payload: bytes, event: Event) -> None:
        """Compute the new hashes of an event's blocks, each behind its parent."""
        for value, block in self._blocks(payload, event):
            if value in self._new or value not in self._matches:
                continue
            parent = block.parent
            if parent is not None and parent in self._matches and parent not in self._new:
                self._waiting.setdefault(parent, []).append((value, block))
            else:
                self._settle(value, block)

    def _settle(self, value: int, block: Block) -> None:
        todo = [(value, block)]
        while todo:
            value, block = todo.pop()
            if value in self._new:
                continue
            match = max(self._matches[value], key=lambda match: self._counts[match.function.name])
            state = self._state(match, block)
            if state is not None and state.hash is not None:
                self._states[value] = state
                self._new[value] = state.hash
            else:
                self._new[value] = self._secrets.hash(value)
            todo += self._waiting.pop(value, ())

    def _state(self, match: _Match, block: Block) -> State | None:
        scope = self._scope(match.state.scope)
        function, start = match.function, None
        if block.parent is None:
            start = function.start(scope)
        elif function.family == "key-chain" or match.state.key is not None:
            start = self._states.get(block.parent)
        if start is None and block.parent is not None:
            start = function.join(scope)
        return None if start is None else function.step(start, self._block(block))

    def _scope(self, scope: Scope) -> Scope:
        name, salt = scope.lora_name, scope.salt
        return Scope(
            scope.lora,
            None if name is None else self._secrets.text(name),
            None if salt is None else self._secrets.text(salt),
        )

    def _block(self, block: Block) -> Block:
        extra = block.extra
        return Block(
            tuple(token(self._secrets, value) for value in block.tokens),
            None if block.parent is None else self.new(block.parent),
            tuple((self._secrets.digest(digest), offset) for digest, offset in block.mm),
            extra if extra is msgspec.UNSET or extra is None else tuple(map(self._plain, extra)),
            adapted=block.adapted,
        )

    def _plain(self, value: Any) -> Any:
        """Extra keys as their serialiser had them."""
        match value:
            case str():
                return self._secrets.text(value)
            case bytes():
                return self._secrets.blob(value)
            case tuple():
                return tuple(map(self._plain, value))
        return value

    def new(self, value: int) -> int:
        """What a hash becomes, both unsigned."""
        found = self._new.get(value)
        return self._secrets.hash(value) if found is None else found
