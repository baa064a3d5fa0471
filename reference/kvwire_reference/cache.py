"""A small prefix cache that says what it holds: token sequences in, batches of events out.

`insert` stands for a request that was run: it reuses the blocks of the longest cached prefix and keeps the
rest. Several life cycles (attention layer groups with a window each) hold pages of the same blocks; a block
lives as long as its page in the *target* life cycle, the one with the largest window, and only that one is
announced. Narrower life cycles keep pages for the last tokens of a sequence only. No keys, no values, no
threads: one scheduler calls, once per iteration, `insert` any number of times and then `flush`.
"""

import math
import time
from collections.abc import Sequence

import msgspec

from kvwire_reference.announcer import Announcer, EventForm
from kvwire_reference.hashing import ALGORITHMS, ChainState, MmSegment, Token, digest_tokens, salt_id
from kvwire_reference.outlet import Outlet
from kvwire_reference.radix import Block, Piece, RadixTree
from kvwire_reference.wire import Batch, MmKey


class LifeCycle(msgspec.Struct, frozen=True):
    """An attention layer group. `window` in tokens; None sees the whole sequence."""

    id: int
    window: int | None = None

    @property
    def span(self) -> float:
        """The window as a number."""
        return math.inf if self.window is None else self.window


def target_of(life_cycles: Sequence[LifeCycle]) -> LifeCycle:
    """Return the life cycle whose blocks are announced: the largest window, the smallest id on a tie."""
    return max(life_cycles, key=lambda life_cycle: (life_cycle.span, -life_cycle.id))


class MmItem(msgspec.Struct, frozen=True):
    """A multimodal item in a prompt.

    `runs` are the `(position, length)` in tokens that it takes, in order; what the prompt holds there is
    replaced by the item's digest token and the ids that follow it. `uuid` is the user's name for it, if any.
    """

    digest: bytes
    runs: tuple[tuple[int, int], ...]
    uuid: str | None = None


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is built with.

    `block_size` in tokens, `capacity` in blocks; `algorithm` is a label of the hash registry. `id_offset` is
    the id below which all text tokens lie. The rest is as in `EventForm`; `announce_algorithm` and
    `announce_edition` add the keys `hash_algo` and `v` to events.
    """

    block_size: int = 16
    capacity: int = 4096
    algorithm: str = "v2_sha256_64/u32"
    life_cycles: tuple[LifeCycle, ...] = (LifeCycle(0),)
    multimodal: bool = False
    id_offset: int = 262_144
    max_entries: int = 50_000
    announce_algorithm: bool = False
    announce_edition: bool = False


class CacheEngine:
    """The prefix cache of one rank, and the events of what happens in it."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        self.config = config
        self.target = target_of(config.life_cycles)
        self.algorithm = ALGORITHMS[config.algorithm]
        self.announcer = Announcer(self._event_form())
        self._outlet = outlet
        self._tree = RadixTree(config.capacity, config.block_size, self._left)
        self._scopes: dict[tuple[int | None, int | None], Block] = {}
        self._last_ts = 0.0

    # What a scheduler calls

    def insert(
        self,
        tokens: Sequence[Token],
        *,
        lora_id: int | None = None,
        salt: str | None = None,
        mm: Sequence[MmItem] = (),
        computed: int | None = None,
    ) -> int:
        """Run a sequence; return how many of its tokens were cached already, in whole blocks.

        `computed` says for how many tokens keys and values exist now (all, by default): the block in which
        they end is covered in part. When nothing more can be evicted, the rest of the sequence is not kept.
        Raises `RangeError` for a token or id out of range, before anything is changed.
        """
        pieces = self._cut(tokens, mm)
        scope = (lora_id, None if salt is None else salt_id(salt))
        root = self._scopes.get(scope) or Block.root(self._root_state(*scope))
        path = self._tree.walk(root, pieces)
        cached = self._reusable(path)
        missing = pieces[len(path) :]
        states = self._chain(path[-1] if path else root, missing)
        self._tree.use(path)
        self._extend(root, path, missing, states)
        if path:
            self._scopes[scope] = root
        self._cover(path, len(tokens), len(tokens) if computed is None else computed)
        return cached * self.config.block_size

    def evict(self, count: int) -> int:
        """Free up to `count` blocks, the longest unused first; return how many were freed."""
        return self._tree.evict(count)

    def reset(self) -> None:
        """Forget everything; the next `flush`, which need not wait for a request, says so."""
        self._tree.clear()
        self._scopes.clear()
        self.announcer.cleared()

    def flush(self) -> Batch | None:
        """End an iteration: publish what happened in it as one batch; None, and no batch, if nothing did."""
        events = self.announcer.flush()
        if not events:
            return None
        batch = Batch(self._now(), events, self._outlet.rank)
        self._outlet.publish(batch)
        return batch

    # What it holds

    def resident(self) -> list[int]:
        """Unsigned hashes of the full, fully covered blocks in the cache, announced or not."""
        return [block.hash for block in self._tree if self._holds(block, self.target)]

    def announced(self) -> list[int]:
        """Unsigned hashes of the blocks that stand announced; without suppression, `resident`."""
        return [block.hash for block in self._tree if block.announced]

    def __len__(self) -> int:
        """Blocks in the cache, partial ones included."""
        return len(self._tree)

    # Hashes

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return self.algorithm.root(lora_id, salt_id)

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return self.algorithm.next(state, piece.tokens, [_segment(key) for key in piece.mm_keys])

    def _chain(self, parent: Block, pieces: Sequence[Piece]) -> list[ChainState]:
        """States of the blocks to be: one hash each, kept with the block, never computed again."""
        states: list[ChainState] = []
        state = parent.state
        for piece in pieces:
            state = self._next_state(state, piece)
            states.append(state)
        return states

    # Blocks

    def _cut(self, tokens: Sequence[Token], mm: Sequence[MmItem]) -> list[Piece]:
        """Cut a prompt into pieces of `block_size` tokens; the last one may be partial."""
        size = self.config.block_size
        tokens = _with_items(tokens, mm, self.config.id_offset)
        return [
            Piece(tuple(tokens[start : start + size]), _mm_keys(mm, start, start + size))
            for start in range(0, len(tokens), size)
        ]

    def _extend(self, root: Block, path: list[Block], pieces: Sequence[Piece], states: Sequence[ChainState]) -> None:
        """Add blocks to the end of `path` until the pieces, or the room, are at an end."""
        for piece, state in zip(pieces, states, strict=True):
            block = self._tree.add(path[-1] if path else root, piece, state)
            if block is None:
                break
            path.append(block)
        self._tree.use(path)

    # Pages

    def _holds(self, block: Block, life_cycle: LifeCycle) -> bool:
        return block.pages.get(life_cycle.id, 0) == self.config.block_size

    def _reusable(self, path: Sequence[Block]) -> int:
        """How many blocks of `path` can be reused: every life cycle must still hold what its window sees."""
        reusable = 0
        held = dict.fromkeys(self.config.life_cycles, 0)
        for depth, block in enumerate(path, start=1):
            for life_cycle in held:
                held[life_cycle] = held[life_cycle] + 1 if self._holds(block, life_cycle) else 0
            if all(run >= min(depth, one.span / self.config.block_size) for one, run in held.items()):
                reusable = depth
        return reusable

    def _cover(self, path: Sequence[Block], length: int, computed: int) -> None:
        """Give every life cycle the pages that its window sees, and tell the announcer what changed."""
        for index, block in enumerate(path):
            start = index * self.config.block_size
            covered = min(len(block.piece.tokens), max(0, computed - start))
            for life_cycle in self.config.life_cycles:
                seen = start + self.config.block_size > length - life_cycle.span
                if seen or life_cycle is self.target:
                    self._hold(block, life_cycle, covered)
                else:
                    self._release(block, life_cycle)

    def _hold(self, block: Block, life_cycle: LifeCycle, covered: int) -> None:
        if covered > block.pages.get(life_cycle.id, 0):
            block.pages[life_cycle.id] = covered
            self.announcer.stored(block, life_cycle.id)
        elif life_cycle is self.target:
            self.announcer.touched(block)

    def _release(self, block: Block, life_cycle: LifeCycle) -> None:
        if block.pages.pop(life_cycle.id, 0):
            self.announcer.removed(block, life_cycle.id)

    def _left(self, block: Block) -> None:
        """A block was evicted: its pages go with it, and so does a scope that has no blocks left."""
        for life_cycle in self.config.life_cycles:
            self._release(block, life_cycle)
        if block.parent is not None and block.parent.is_root and block.parent.is_leaf:
            self._scopes.pop((block.state.lora_id, block.state.salt_id), None)

    # The rest

    def _event_form(self) -> EventForm:
        return EventForm(
            block_size=self.config.block_size,
            target=self.target.id,
            multimodal=self.config.multimodal,
            max_entries=self.config.max_entries,
            hash_algo=self.config.algorithm if self.config.announce_algorithm else None,
            v=1 if self.config.announce_edition else None,
        )

    def _now(self) -> float:
        """Seconds since the epoch, standing still while the clock is set back [KVW-BAT-004]."""
        self._last_ts = max(self._last_ts, time.time())
        return self._last_ts


def _segment(key: MmKey) -> MmSegment:
    return bytes.fromhex(key.hash), key.start_offset


def _with_items(tokens: Sequence[Token], mm: Sequence[MmItem], id_offset: int) -> Sequence[Token]:
    """Replace the tokens of multimodal items by digest tokens and the ids that follow them."""
    if not mm:
        return tokens
    replaced = list(tokens)
    for item in mm:
        stand_ins = digest_tokens(item.digest, sum(length for _, length in item.runs), id_offset)
        for position, length in item.runs:
            if position < 0 or length < 1 or position + length > len(replaced):
                raise ValueError(f"an item takes {length} tokens at {position} of a prompt of {len(replaced)}")
            replaced[position : position + length] = stand_ins[:length]
            del stand_ins[:length]
    return replaced


def _mm_keys(mm: Sequence[MmItem], start: int, end: int) -> tuple[MmKey, ...]:
    """Keys of the items that reach into the tokens `start`…`end`−1, in the order of their tokens.

    A key's `start_offset` counts the tokens of the item, in earlier runs too, before its first one here.
    """
    found: list[tuple[int, MmKey]] = []
    for item in mm:
        before = 0
        for position, length in item.runs:
            first = max(start, position)
            if first < min(end, position + length):
                found.append((first, MmKey(item.digest.hex(), before + first - position, item.uuid)))
            before += length
    return tuple(key for _, key in sorted(found, key=lambda pair: pair[0]))
