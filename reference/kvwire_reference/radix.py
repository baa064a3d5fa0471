"""A radix tree of cache blocks with a bound; the blocks longest unused leave first.

One edge is one block: up to `block_size` tokens. Only a full block has children. The tree knows nothing of
events; whoever builds it says what is to happen when a block leaves.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from kvwire_reference.hashing import ChainState, Token
from kvwire_reference.wire import MmKey


class Piece(msgspec.Struct, frozen=True):
    """What one block holds: its tokens, and the multimodal items that reach into it, in order."""

    tokens: tuple[Token, ...]
    mm_keys: tuple[MmKey, ...] = ()


@dataclass(eq=False, slots=True)
class Block:
    """A node of the tree.

    Siblings differ by their tokens, as their hashes do. `depth` counts the blocks of its chain up to it. `pages`
    maps a life cycle's id to the number of tokens whose keys and values that layer group holds for this block, on the
    device, `hosted` the same in host memory. A life cycle with larger blocks has a page where one of them ends, for
    all of its tokens. A root stands for a reuse scope: it has no parent and no tokens, and is where chains begin.

    `scope` is the tag that stores of the chain carry, if any.

    `standing` maps a place (a medium and a group, by its index) to whether the block stands announced there; a place
    in which it was never announced is missing.
    """

    parent: "Block | None"
    piece: Piece
    state: ChainState
    children: dict[tuple[Token, ...], "Block"] = field(default_factory=dict)
    partials: dict[tuple[Token, ...], "Block"] = field(default_factory=dict)
    pages: dict[int, int] = field(default_factory=dict)
    hosted: dict[int, int] = field(default_factory=dict)
    standing: dict[int, bool] = field(default_factory=dict)
    depth: int = 0
    scope: str | None = None

    @classmethod
    def root(cls, state: ChainState, scope: str | None = None) -> "Block":
        """Begin a reuse scope."""
        return cls(None, Piece(()), state, scope=scope)

    @property
    def is_root(self) -> bool:
        """Whether this is the root of a scope and no block of the cache."""
        return self.parent is None

    @property
    def is_leaf(self) -> bool:
        """Whether nothing hangs below this block."""
        return not self.children and not self.partials

    @property
    def announced(self) -> bool:
        """Whether it stands announced in the first place: the target life cycle, on the device."""
        return self.standing.get(0, False)

    @announced.setter
    def announced(self, value: bool) -> None:
        self.standing[0] = value

    def above(self, blocks: int) -> "Block | None":
        """Return the block so many steps towards the root; None above the root."""
        block: Block | None = self
        for _ in range(blocks):
            if block is None:
                break
            block = block.parent
        return block

    @property
    def hash(self) -> int:
        """The block's hash, unsigned; a root has none and raises `ValueError`."""
        if self.state.hash is None:
            raise ValueError("a root has no hash")
        return self.state.hash


class RadixTree:
    """At most `capacity` blocks of at most `block_size` tokens, under any number of roots.

    `removed` is called with each block that leaves by eviction, a leaf before its parent.
    """

    def __init__(self, capacity: int, block_size: int, removed: Callable[[Block], None]) -> None:
        if capacity < 1 or block_size < 1:
            raise ValueError(f"capacity {capacity} and block size {block_size} must be at least 1")
        self.capacity = capacity
        self.block_size = block_size
        self._removed = removed
        # Oldest use first. A path is marked from its end to its root, so a parent is always younger than its
        # children, and the oldest block of all is always a leaf.
        self._by_use: OrderedDict[Block, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_use)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._by_use)

    def __contains__(self, block: object) -> bool:
        return block in self._by_use

    def walk(self, root: Block, pieces: Sequence[Piece]) -> list[Block]:
        """Return the blocks that hold the first of `pieces`, from the root down."""
        path: list[Block] = []
        node = root
        for piece in pieces:
            found = node.children.get(piece.tokens) or node.partials.get(piece.tokens)
            if found is None:
                break
            path.append(found)
            node = found
        return path

    def use(self, path: Sequence[Block]) -> None:
        """Mark a path as just used."""
        for block in reversed(path):
            self._by_use.move_to_end(block)

    def add(self, parent: Block, piece: Piece, state: ChainState, known: Block | None = None) -> Block | None:
        """Hang a block under `parent`: a new one, a partial one that `piece` continues, or one `known` from before.

        `parent` ends the path that is being extended and was just used, so nothing on that path may leave to
        make room. None when nothing else can.
        """
        block = self._unfinished(parent, piece)
        if block is not None and known is not None:
            self._remove(block)
            block = None
        if block is not None:
            self._unlink(block)
            block.piece, block.state = piece, state
        elif len(self) < self.capacity or self._evict_oldest(spare=parent):
            block = known or Block(parent, piece, state, scope=parent.scope)
            block.parent, block.depth = parent, parent.depth + 1
        else:
            return None
        self._link(block)
        self._by_use[block] = None
        self._by_use.move_to_end(block)
        return block

    def evict(self, count: int) -> int:
        """Remove the `count` blocks longest unused, leaves first; return how many there were to remove."""
        return sum(self._evict_oldest() for _ in range(count))

    def clear(self) -> None:
        """Forget every block at once, without calling `removed`."""
        self._by_use.clear()

    def _evict_oldest(self, spare: Block | None = None) -> bool:
        oldest = next(iter(self._by_use), None)
        # While a path is being extended its blocks may be the oldest left; all but its end have children.
        if oldest is None or oldest is spare or not oldest.is_leaf:
            return False
        self._remove(oldest)
        return True

    def _remove(self, leaf: Block) -> None:
        del self._by_use[leaf]
        self._unlink(leaf)
        self._removed(leaf)

    @staticmethod
    def _unfinished(parent: Block, piece: Piece) -> Block | None:
        """Find a partial block under `parent` whose tokens are the first of `piece`."""
        for tokens, block in parent.partials.items():
            if piece.tokens[: len(tokens)] == tokens:
                return block
        return None

    def _siblings(self, block: Block) -> dict[tuple[Token, ...], Block]:
        if block.parent is None:
            raise ValueError("a root has no siblings")
        full = len(block.piece.tokens) == self.block_size
        return block.parent.children if full else block.parent.partials

    def _link(self, block: Block) -> None:
        self._siblings(block)[block.piece.tokens] = block

    def _unlink(self, block: Block) -> None:
        del self._siblings(block)[block.piece.tokens]
