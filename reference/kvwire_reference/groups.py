"""Life cycles: the groups of layers that keep pages of one cache, each as far back and in blocks as large as it needs.

Kinds are the field's (`kv_cache_spec_kind`), and the list is open. Three shapes of need matter here. A group that
keeps whole prefixes (full attention, latent attention, attention with sinks) needs every page before a token. A
window needs the pages of the last tokens. A recurrent group (state spaces) needs one state, at the end of a block.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

WHOLE_KINDS = ("full_attention", "mla_attention", "sink_full_attention")
"""Kinds that keep whole prefixes."""
RECURRENT_KINDS = ("mamba",)
"""Kinds whose page is a state that stands for all tokens before it."""


class LifeCycle(msgspec.Struct, frozen=True):
    """An attention layer group, or another that keeps pages.

    `window` in tokens; None sees the whole sequence. `kind` by default follows from the window. `block_size` in
    tokens is a multiple of the engine's, which it is by default. `id` is what an announced group has as `group_idx`.
    """

    id: int
    window: int | None = None
    kind: str | None = None
    block_size: int | None = None

    @property
    def named_kind(self) -> str:
        """The kind, or what the window says of it."""
        return self.kind or ("full_attention" if self.window is None else "sliding_window")

    @property
    def is_whole(self) -> bool:
        """Whether it keeps whole prefixes."""
        return self.named_kind in WHOLE_KINDS

    @property
    def span(self) -> float:
        """The window as a number; 0 for a recurrent group, which sees nothing but its newest state."""
        if self.named_kind in RECURRENT_KINDS:
            return 0
        return math.inf if self.window is None else self.window


def target_of(life_cycles: Sequence[LifeCycle]) -> LifeCycle:
    """Return the life cycle whose blocks are announced: the largest window, the smallest id on a tie."""
    return max(life_cycles, key=lambda life_cycle: (life_cycle.span, -life_cycle.id))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A life cycle in an engine: blocks of `size` tokens, each made of `blocks` of the engine's.

    It keeps the blocks that end in the last `kept` tokens of a sequence, and goes on from where it holds the last
    `run` blocks in a row, or all there are.
    """

    life_cycle: LifeCycle
    size: int
    blocks: int
    kept: float
    run: float
    is_target: bool
    is_announced: bool

    @property
    def id(self) -> int:
        """The id of its life cycle."""
        return self.life_cycle.id


def groups_of(life_cycles: Sequence[LifeCycle], announced: Sequence[int], block_size: int) -> tuple[Group, ...]:
    """Return the groups of an engine with blocks of `block_size`; `announced` ids, or the target alone if none.

    Raises `ValueError` for life cycles that cannot be told apart or cut, and for an id that is none of theirs.
    """
    ids = [life_cycle.id for life_cycle in life_cycles]
    target = target_of(life_cycles)
    if len(set(ids)) != len(ids) or min(ids) < 0:
        raise ValueError(f"life cycles have the ids {ids}; each needs one of its own, 0 or more")
    if announced and target.id not in announced:
        raise ValueError(f"groups {list(announced)} leave out the target life cycle, {target.id}")
    if not set(announced) <= set(ids):
        raise ValueError(f"groups {list(announced)} are not all life cycles; those are {ids}")
    return tuple(_group(one, one is target, one.id in (announced or (target.id,)), block_size) for one in life_cycles)


def _group(life_cycle: LifeCycle, is_target: bool, is_announced: bool, block_size: int) -> Group:
    size = block_size if life_cycle.block_size is None else life_cycle.block_size
    if size < block_size or size % block_size:
        raise ValueError(f"blocks of {size} tokens are no multiple of the engine's {block_size}")
    if life_cycle.is_whole and life_cycle.window is not None:
        raise ValueError(f"life cycle {life_cycle.id} keeps whole prefixes and has a window; leave one of them out")
    kept = life_cycle.span or size  # of a recurrent group, the block in which its newest state is
    return Group(life_cycle, size, size // block_size, kept, kept / size, is_target, is_announced)
