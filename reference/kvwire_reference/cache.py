"""A small prefix cache that says what it holds: token sequences in, batches of events out.

`insert` stands for a request that was run: it reuses the blocks of the longest cached prefix and keeps the
rest. Several life cycles (layer groups, see `groups`) hold pages of the same blocks; a block lives as long as its
page in the *target* life cycle, the one with the largest window. Only that one is announced, unless others are named
as groups. Narrower life cycles keep pages for the last tokens of a sequence only. Behind the device there may be host
memory (see `tiers`). No keys, no values, no threads: one scheduler calls, once per iteration, `insert` any number of
times and then `flush`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from kvwire_reference.announcer import MEDIUM, Announcer, EventForm
from kvwire_reference.groups import Group, LifeCycle, groups_of, target_of
from kvwire_reference.hashing import ALGORITHMS, ChainState, Token, salt_id, scope_tag
from kvwire_reference.multimodal import MmItem, mm_keys, segment, with_items
from kvwire_reference.outlet import Outlet
from kvwire_reference.radix import Block, Piece, RadixTree
from kvwire_reference.tiers import HostConfig, HostTier
from kvwire_reference.wire import Batch

__all__ = ["CacheConfig", "CacheEngine", "HostConfig", "LifeCycle", "MmItem", "target_of"]


class CacheConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is built with.

    `block_size` in tokens, `capacity` in blocks; `algorithm` is a label of the hash registry. `id_offset` is
    the id below which all text tokens lie. The rest is as in `EventForm`; `announce_algorithm` and
    `announce_edition` add the keys `hash_algo` and `v` to events.

    `salt` says how events tell of salts: not at all (`none`), or by their scope tags (`tag`), made with `scope_key`
    if the deployment has one. The text of a salt is never sent.

    `groups` are the ids of the life cycles that are announced, the target's among them, each as a group with the keys
    that say so; empty, the target is announced without those keys. `host` is the memory behind the device, if any.
    `netting` is off by default: an engine that says all it does is the easier one to understand and to test.
    """

    block_size: int = 16
    capacity: int = 4096
    algorithm: str = "v2_sha256_64/u32"
    life_cycles: tuple[LifeCycle, ...] = (LifeCycle(0),)
    groups: tuple[int, ...] = ()
    host: HostConfig | None = None
    salt: Literal["none", "tag"] = "none"
    scope_key: bytes | None = None
    multimodal: bool = False
    id_offset: int = 262_144
    max_entries: int = 50_000
    netting: bool = False
    announce_algorithm: bool = False
    announce_edition: bool = False


class CacheEngine:
    """The prefix cache of one rank, and the events of what happens in it."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        self.config = config
        self._groups = groups_of(config.life_cycles, config.groups, config.block_size)
        (self._target,) = (group for group in self._groups if group.is_target)
        self.algorithm = ALGORITHMS[config.algorithm]
        self.announcer = Announcer(self._event_form(self._target, MEDIUM))
        self._others: dict[tuple[int, str], Announcer] = {}
        self._outlet = outlet
        self._tree = RadixTree(config.capacity, config.block_size, self._left)
        self._host = None if config.host is None else HostTier(config.host.capacity, self._left_host)
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
        """Run a sequence; return how many of its tokens were cached already, on the device or in host memory.

        They are whole blocks of every life cycle.
        `computed` says for how many tokens keys and values exist now (all, by default): the block in which
        they end is covered in part. When nothing more can be evicted, the rest of the sequence is not kept.
        Raises `RangeError` for a token or id out of range, before anything is changed.
        """
        pieces = self._cut(tokens, mm)
        scope = (lora_id, None if salt is None else salt_id(salt))
        root = self._scopes.get(scope) or Block.root(self._root_state(*scope), self._scope_tag(salt))
        path = self._tree.walk(root, pieces)
        missing = pieces[len(path) :]
        states = self._chain(path[-1] if path else root, missing)
        self._tree.use(path)
        promoted = self._promote(root, path, missing, states)
        cached = self._reusable(path)
        self._extend(root, path, missing[promoted:], states[promoted:])
        if path:
            self._scopes[scope] = root
        self._cover(path, len(tokens), len(tokens) if computed is None else computed)
        return cached * self.config.block_size

    def evict(self, count: int) -> int:
        """Free up to `count` blocks of the device, the longest unused first; return how many were freed."""
        return self._tree.evict(count)

    def evict_host(self, count: int) -> int:
        """Free up to `count` blocks of host memory, the longest unused first; return how many were freed."""
        return 0 if self._host is None else self._host.evict(count)

    def reset(self) -> None:
        """Forget everything; the next `flush`, which need not wait for a request, says so."""
        self._tree.clear()
        if self._host is not None:
            self._host.clear()
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
        """Unsigned hashes of the full, fully covered blocks on the device, announced or not."""
        return [block.hash for block in self._tree if self._holds(block, self._target)]

    def residents(self) -> Mapping[tuple[str, int], list[int]]:
        """Unsigned hashes of what is held, by medium and group, wherever blocks are announced at all.

        ("GPU", 0) is what `resident` returns, if no groups are announced.
        """
        found: dict[tuple[str, int], list[int]] = {}
        for group in self._groups:
            if not group.is_announced:
                continue
            idx = group.id if self.config.groups else 0
            found[MEDIUM, idx] = [block.hash for block in self._tree if self._holds(block, group)]
            if self._host is not None and self.config.host is not None and self.config.host.announced:
                held = [block.hash for block in self._host if group.id in block.hosted]
                found[self.config.host.medium, idx] = held
        return found

    def announced(self) -> list[int]:
        """Unsigned hashes of the blocks that stand announced; without suppression, `resident`."""
        return [block.hash for block in self._tree if block.announced]

    def __len__(self) -> int:
        """Blocks on the device, partial ones included."""
        return len(self._tree)

    # Hashes

    def _scope_tag(self, salt: str | None) -> str | None:
        return None if salt is None or self.config.salt == "none" else scope_tag(salt, self.config.scope_key)

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return self.algorithm.root(lora_id, salt_id)

    def _next_state(self, state: ChainState, piece: Piece) -> ChainState:
        return self.algorithm.next(state, piece.tokens, [segment(key) for key in piece.mm_keys])

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
        tokens = with_items(tokens, mm, self.config.id_offset)
        return [
            Piece(tuple(tokens[start : start + size]), mm_keys(mm, start, start + size))
            for start in range(0, len(tokens), size)
        ]

    def _extend(self, root: Block, path: list[Block], pieces: Sequence[Piece], states: Sequence[ChainState]) -> None:
        """Add blocks to the end of `path` until the pieces, or the room, are at an end."""
        for piece, state in zip(pieces, states, strict=True):
            # What host memory holds, but was not reached, is the same block.
            block = self._tree.add(path[-1] if path else root, piece, state, self._hosted(state))
            if block is None:
                break
            path.append(block)
        self._tree.use(path)

    # Pages

    def _holds(self, block: Block, group: Group) -> bool:
        return block.pages.get(group.id, 0) == group.size

    def _reusable(self, path: Sequence[Block]) -> int:
        """How many blocks of `path` can be reused: every group must still hold what its window sees.

        Where blocks differ in size, reuse ends where one of each does.
        """
        reusable = 0
        runs = dict.fromkeys(self._groups, 0)
        for depth, block in enumerate(path, start=1):
            fits = True
            for group in self._groups:
                if depth % group.blocks:
                    fits = False
                    continue
                runs[group] = run = runs[group] + 1 if self._holds(block, group) else 0
                fits = fits and run >= min(depth // group.blocks, group.run)
            if fits:
                reusable = depth
        return reusable

    def _cover(self, path: Sequence[Block], length: int, computed: int) -> None:
        """Give every group the pages that its window sees, and tell the announcers what changed.

        A group that is announced had a page of every block that was computed, if only for a while: so no block is
        announced under a parent that never was.
        """
        reused = self._reusable(path) if self.config.groups else len(path)
        for group in self._groups:
            passed = []
            for index, block in enumerate(path[group.blocks - 1 :: group.blocks]):
                start = index * group.size
                seen = group.is_target or start + group.size > length - group.kept
                if seen or (group.is_announced and index >= reused // group.blocks):
                    held = group.size - self.config.block_size + len(block.piece.tokens)
                    self._hold(block, group, min(held, max(0, computed - start)))
                if not seen:
                    passed.append(block)
            for block in passed:
                self._release(block, group)

    def _hold(self, block: Block, group: Group, covered: int) -> None:
        if covered > block.pages.get(group.id, 0):
            block.pages[group.id] = covered
            self._announcer(group).stored(block, group.id)
        elif group.is_announced:
            self._announcer(group).touched(block)

    def _release(self, block: Block, group: Group) -> None:
        if block.pages.pop(group.id, 0):
            self._announcer(group).removed(block, group.id)

    def _left(self, block: Block) -> None:
        """A block left the device: its pages go with it, and so does a scope that has no blocks left."""
        self._demote(block)
        for group in self._groups:
            self._release(block, group)
        if block.parent is not None and block.parent.is_root and block.parent.is_leaf:
            self._scopes.pop((block.state.lora_id, block.state.salt_id), None)

    # Host memory

    def _hosted(self, state: ChainState) -> Block | None:
        """The block of a chain that host memory holds and the device does not."""
        block = None if self._host is None else self._host.get(state.key)
        return None if block in self._tree else block

    def _demote(self, block: Block) -> None:
        """Keep a full block, with the pages that it has, in host memory."""
        if self._host is None or self.config.host is None or len(block.piece.tokens) < self.config.block_size:
            return
        due = [group for group in self._groups if block.depth % group.blocks == 0]
        held = [group for group in due if self._holds(block, group)]
        if due and not held:
            return
        block.hosted.update({group.id: group.size for group in held})
        self._host.put(block)
        for group in held:
            if group.is_announced and self.config.host.announced:
                self._announcer(group, self.config.host.medium).stored(block, group.id)

    def _promote(self, root: Block, path: list[Block], pieces: Sequence[Piece], states: Sequence[ChainState]) -> int:
        """Bring what follows `path` back from host memory; return how many blocks that were."""
        if self._host is None or self.config.host is None:
            return 0
        before = len(path)
        for piece, state in zip(pieces, states, strict=True):
            block = self._hosted(state)
            if block is None:
                break
            # Taken first: what leaves the device to make room must not push it out.
            self._host.take(block)
            if self._tree.add(path[-1] if path else root, piece, state, block) is None:
                self._host.put(block)
                break
            path.append(block)
            for group in self._groups:
                if group.id in block.hosted:
                    self._hold(block, group, block.hosted[group.id])
        for block in reversed(path[before:]):
            if self.config.host.keeps_copy:
                self._host.put(block)
            else:
                self._left_host(block)
        return len(path) - before

    def _left_host(self, block: Block) -> None:
        for group in self._groups:
            held = block.hosted.pop(group.id, 0)
            if held and group.is_announced and self.config.host is not None and self.config.host.announced:
                self._announcer(group, self.config.host.medium).removed(block, group.id)

    # The rest

    def _announcer(self, group: Group, medium: str = MEDIUM) -> Announcer:
        """The announcer of a place; what is not announced is told to the first, which ignores and counts it."""
        if medium == MEDIUM and (group.is_target or not group.is_announced):
            return self.announcer
        place = (group.id, medium)
        if place not in self._others:
            self._others[place] = self.announcer.beside(self._event_form(group, medium))
        return self._others[place]

    def _event_form(self, group: Group, medium: str) -> EventForm:
        keys = bool(self.config.groups)
        return EventForm(
            block_size=group.size,
            target=group.id,
            medium=medium,
            blocks=group.blocks,
            group_idx=group.id if keys else None,
            kind=group.life_cycle.named_kind if keys else None,
            window=group.life_cycle.window if keys else None,
            windowed=keys and not group.life_cycle.is_whole,
            multimodal=self.config.multimodal,
            max_entries=self.config.max_entries,
            netting=self.config.netting,
            hash_algo=self.config.algorithm if self.config.announce_algorithm else None,
            v=1 if self.config.announce_edition else None,
        )

    def _now(self) -> float:
        """Seconds since the epoch, standing still while the clock is set back [KVW-BAT-004]."""
        self._last_ts = max(self._last_ts, time.time())
        return self._last_ts
