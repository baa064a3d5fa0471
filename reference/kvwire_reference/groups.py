"""Life cycles: the groups of layers that keep pages of one cache, each as far back and in blocks as large as it needs.

Kinds are the field's (`kv_cache_spec_kind`), and the list is open. Three shapes of need matter here. A group that
keeps whole prefixes (full attention, latent attention, attention with sinks) needs every page before a token. A
window needs the pages of the last tokens. A recurrent group (state spaces) needs one state, at the end of a block.
"""

import math
from collections.abc import Sequence

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

    def blocks(self, block_size: int) -> int:
        """How many blocks of the engine make one of this group."""
        return 1 if self.block_size is None else self.block_size // block_size


def target_of(life_cycles: Sequence[LifeCycle]) -> LifeCycle:
    """Return the life cycle whose blocks are announced: the largest window, the smallest id on a tie."""
    return max(life_cycles, key=lambda life_cycle: (life_cycle.span, -life_cycle.id))


def check_groups(life_cycles: Sequence[LifeCycle], groups: Sequence[int], block_size: int) -> None:
    """Raise `ValueError` for life cycles that cannot be told apart or cut, or a group that is none of them."""
    ids = [life_cycle.id for life_cycle in life_cycles]
    if len(set(ids)) != len(ids) or min(ids) < 0:
        raise ValueError(f"life cycles have the ids {ids}; each needs one of its own, 0 or more")
    if groups and target_of(life_cycles).id not in groups:
        raise ValueError(f"groups {list(groups)} leave out the target life cycle, {target_of(life_cycles).id}")
    if not set(groups) <= set(ids):
        raise ValueError(f"groups {list(groups)} are not all life cycles; those are {ids}")
    for life_cycle in life_cycles:
        if (life_cycle.block_size or block_size) % block_size or life_cycle.blocks(block_size) < 1:
            raise ValueError(f"blocks of {life_cycle.block_size} tokens are no multiple of the engine's {block_size}")
        if life_cycle.is_whole and life_cycle.window is not None:
            raise ValueError(f"life cycle {life_cycle.id} keeps whole prefixes and has a window; leave one of them out")


def seen_from(life_cycle: LifeCycle, length: int, size: int) -> float:
    """Return the token behind which, of `length`, blocks of `size` tokens must end for the group to keep them."""
    return length - max(life_cycle.span, size if life_cycle.span == 0 else 0)


def needed_run(life_cycle: LifeCycle, depth: int, size: int) -> float:
    """Return how many blocks of `size` in a row, up to the one at `depth`, the group must hold to go on from there."""
    return min(depth, 1 if life_cycle.span == 0 else life_cycle.span / size)
