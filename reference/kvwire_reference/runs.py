"""Runs of blocks that make one event: how mutations of one iteration coalesce, and what of them may be left out.

Netting: *a block that is stored and removed within one iteration needs no event, unless an event that remains names
it as parent*. Of the rest nothing changes, neither its order nor what any consumer holds after the batch: it never
heard of the block, and does not miss it. The reverse, a removal followed by a store, stays: a consumer that joined
late learns of the block by that store. What came before a clear in the same batch is as void as what is stored and
removed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kvwire_reference.radix import Block


class Kind(Enum):
    """What happened to the blocks of a run."""

    STORED = "stored"
    REMOVED = "removed"
    CLEARED = "cleared"


@dataclass(slots=True)
class Run:
    """Blocks that make one event of one place: removals in a row, or stores of which each is the next one's parent."""

    kind: Kind
    blocks: list[Block] = field(default_factory=list)
    place: int = 0


def add(runs: list[Run], kind: Kind, block: Block, place: int, parent: Block | None) -> None:
    """Add a block to the last run if it continues it, else begin a new one: the order of happening stays."""
    last = runs[-1] if runs else None
    continues = last is not None and last.kind is kind and last.place == place
    if last is not None and continues and (kind is Kind.REMOVED or last.blocks[-1] is parent):
        last.blocks.append(block)
    else:
        runs.append(Run(kind, [block], place))


@dataclass(slots=True)
class Netted:
    """What is left of the runs of an iteration, and what was left out: place and block of each, by kind."""

    runs: list[Run]
    stored: list[tuple[int, Block]]
    removed: list[tuple[int, Block]]


def net(runs: Sequence[Run], parent_of: Callable[[int, Block], Block | None], group_of: Callable[[int], int]) -> Netted:
    """Leave out what does not outlive the iteration.

    `parent_of` gives the parent of a block in a place, `group_of` the group that a place belongs to: a parent may
    stand in another medium of its group.
    """
    steps = list(_steps(runs))
    first = max((index for index, (kind, _, _) in enumerate(steps) if kind is Kind.CLEARED), default=0)
    dropped = set(range(first))
    stores: dict[tuple[int, Block | None], int] = {}
    pairs: dict[int, int] = {}
    for index, (kind, block, place) in enumerate(steps[first:], first):
        if kind is Kind.STORED:
            stores[place, block] = index
        elif kind is Kind.REMOVED and (place, block) in stores:
            pairs[stores.pop((place, block))] = index
    # From the end: whether a block is named as parent is known before the block itself is met.
    needed: set[tuple[int, Block]] = set()
    for index in range(len(steps) - 1, first - 1, -1):
        kind, block, place = steps[index]
        if kind is not Kind.STORED or block is None:
            continue
        if index in pairs and (group_of(place), block) not in needed:
            dropped |= {index, pairs[index]}
        elif (parent := parent_of(place, block)) is not None:
            needed.add((group_of(place), parent))
    result = Netted([], [], [])
    for index, (kind, block, place) in enumerate(steps):
        if block is None:
            if index not in dropped:
                result.runs.append(Run(kind))
        elif index not in dropped:
            add(result.runs, kind, block, place, parent_of(place, block))
        else:
            (result.stored if kind is Kind.STORED else result.removed).append((place, block))
    return result


def _steps(runs: Sequence[Run]) -> Iterator[tuple[Kind, Block | None, int]]:
    for run in runs:
        if run.kind is Kind.CLEARED:
            yield run.kind, None, run.place
        for block in run.blocks:
            yield run.kind, block, run.place
