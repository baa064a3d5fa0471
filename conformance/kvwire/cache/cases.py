"""One stored block with all that is known about it, what a function gives for it, and what comes of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kvwire.cache.chains import Link
from kvwire.hashes.functions import Block, Function, Input, Scope, State
from kvwire.history.timeline import Batch
from kvwire.wire.events import Event

EXAMPLES = 3
"""How many blocks of a sort are kept for the record."""


class Match(msgspec.Struct, frozen=True):
    """The block recomputes, under each of these functions."""

    functions: tuple[str, ...]


class Mismatch(msgspec.Struct, frozen=True):
    """All inputs are known, and the function gives another hash; ``nearest`` is the mistake that gives this one."""

    nearest: str | None = None


class Unknown(msgspec.Struct, frozen=True):
    """Nothing can be said, for the reason given."""

    why: str


Result = Match | Mismatch | Unknown


class Example(msgspec.Struct, frozen=True):
    """A block for the record: where it is, the functions or mistakes that give its hash, the function or label that it
    is ``held`` against, and the hash that this gives, where it is known; or the block ``behind`` which this gives it.
    """

    batch: Batch
    event: Event
    index: int
    names: tuple[str, ...]
    held: str
    wanted: int | None = None
    behind: int | None = None

    @property
    def parent(self) -> int | None:
        """The parent that the event names for it."""
        return self.event.hashes[self.index - 1] if self.index else self.event.parent

    @property
    def hash(self) -> int:
        """The hash on the wire, unsigned."""
        return self.event.hashes[self.index]


class Examples:
    """A count with its first examples."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Example] = []

    def add(self, example: Example) -> None:
        """Count one block."""
        self.count += 1
        if len(self.first) < EXAMPLES:
            self.first.append(example)


class Attempt(msgspec.Struct, frozen=True):
    """A function tried on a block: the state that gave its hash, else the only one there can be; where it gave any."""

    function: Function
    hit: State | None
    state: State | None
    known: bool
    shown: tuple[Scope, ...]


Place = tuple[str | None, int, int | None]
"""Medium, group and block size."""


class Case(msgspec.Struct, frozen=True):
    """One block with all that is known about it."""

    block: Block
    value: int
    link: Link
    above: dict[str, State] | None
    scopes: tuple[Scope, ...]
    knowledge: frozenset[Input]
    batch: Batch
    event: Event
    index: int
    veiled: bool = False
    """An item begins in the block, and its digest is not among the tokens: what was hashed there is not known."""
    coarse: bool = False
    """Other groups have, or may have, smaller blocks: which of its parts the hash is made of is not known."""
    cut: int = 0
    """Tokens of those parts, as far as that can be told; 0: it is tried as a whole only."""
    behind: int | None = None
    """The block behind which the function of the stream gives its hash, where it is not the parent that is named."""

    @property
    def ours(self) -> bool:
        """Whether it is known what the block was made of: a prompt of the harness explains it."""
        return bool(self.link.scopes)

    @property
    def clear_salt(self) -> bool:
        """Whether its extra keys hold a text that is no adapter's name: a salt in clear."""
        extra = self.block.extra
        return isinstance(extra, tuple) and any(isinstance(key, str) and key != self.event.lora_name for key in extra)

    @property
    def tells_salt(self) -> bool:
        """Whether it is known with what salt it is hashed, if with any: a salt is hashed and left out of extra keys."""
        return "salt" in self.knowledge or self.clear_salt

    @property
    def keyed(self) -> list[Case]:
        """The block with its extra keys as they stand, and with each salt that it can have behind them."""
        extra = self.block.extra if isinstance(self.block.extra, tuple) else ()
        salts = dict.fromkeys(scope.salt for scope in self.scopes if scope.salt not in (None, *extra))
        blocks = [msgspec.structs.replace(self.block, extra=(*extra, salt)) for salt in salts]
        return [self, *(msgspec.structs.replace(self, block=block) for block in blocks)]

    @property
    def place(self) -> Place:
        """Where a foreign function has to have matched before its mismatches count."""
        return self.event.medium, self.event.group, self.event.block_size

    def example(
        self, hits: Sequence[Attempt], states: Mapping[str, State], held: str, functions: Iterable[Function] = ()
    ) -> Example:
        """The block for the record; the first of ``functions``, or the one held against, gives the hash wanted."""
        known = (states[name] for name in (*(f.name for f in functions), held) if name in states)
        names = tuple(attempt.function.name for attempt in hits)
        wanted = None if self.behind is not None else next((state.hash for state in known), None)
        return Example(self.batch, self.event, self.index, names, held, wanted, self.behind)


def step(function: Function, state: State, case: Case) -> State:
    """The state behind a block, or behind its parts where these give its hash: a coarse block is named by the last."""
    whole = function.step(state, case.block)
    if not case.cut or whole.hash == case.value:
        return whole
    return by_parts(function, state, case, case.cut) or whole


def by_parts(function: Function, state: State, case: Case, cut: int) -> State | None:
    """The state behind the parts of a block, of so many tokens each; None where these do not give its hash."""
    block, parent = case.block, case.block.parent
    for at in range(0, len(block.tokens), cut):
        part = Block(block.tokens[at : at + cut], parent, extra=block.extra, adapted=block.adapted)
        state = function.step(state, part)
        parent = state.hash
    return state if state.hash == case.value else None
