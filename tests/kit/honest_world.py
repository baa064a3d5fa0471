"""An honest publisher, two lossy and lagging witnesses, restarts and replays, at random.

What kind of engine it is is drawn too (``Parts``): groups and their block sizes, media, residency, scopes, how late its
events leave, whether its cache outlives it, how coarse its clock is, and whether it loses its first batches.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from tests.kit.stories import END_MARKER, Event, Story, block, cleared, payload

from kvwire.history.timeline import DISCONNECTED
from kvwire.standard.statement import Group, Residency, Statement
from kvwire.trace.calls import Place as Held
from kvwire.trace.calls import ResidentCall
from kvwire.trace.marks import Settled

WITNESSES = "ab"
HANDSHAKE = "HANDSHAKE_SUCCEEDED"
DEVICE = "GPU"
UNIT = 4
"""Tokens of the finest block."""

DENSE = Group(idx=0, kind="full_attention")
GROUPS: tuple[tuple[Group, ...], ...] = (
    (),
    (DENSE, Group(idx=1, kind="sliding_window", window=8)),
    (DENSE, Group(idx=1, kind="mla_attention")),
    (DENSE, Group(idx=3, kind="mamba")),
    (
        msgspec.structs.replace(DENSE, block_size=UNIT),
        Group(idx=1, kind="sliding_window", window=32, block_size=2 * UNIT),
        Group(idx=2, kind="mamba", block_size=4 * UNIT),
    ),
)
"""What groups there are; without any, one that events do not name. Sizes are the finest and multiples of it."""
MEDIA = ((DEVICE,), (DEVICE, "CPU"), (DEVICE, "CPU", "DISK"), (None,))
SCOPES: tuple[tuple[dict[str, Any], ...], ...] = (
    ({},),
    ({}, {"lora_id": 7}),
    ({}, {"lora_name": "seven"}, {"lora_name": "eight"}),
    ({}, {"scope": "0123456789abcdef"}, {"scope": "fedcba9876543210", "lora_id": 0}),
)
"""What stores say of the scopes that there are."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """What kind of engine and publisher it is.

    ``late``: of its iterations, those whose events leave with a later one. ``keeps``: the cache outlives the publisher.
    ``tick_s``: the resolution of ``ts``; one that is coarse names its lives. ``lost``: how many of its first batches it
    loses.
    """

    groups: tuple[Group, ...] = ()
    media: tuple[str | None, ...] = (DEVICE, "CPU")
    residency: Residency = "set"
    scopes: tuple[dict[str, Any], ...] = ({},)
    late: float = 0.0
    keeps: bool = False
    tick_s: float = 0.0
    lost: int = 0

    @classmethod
    def drawn(cls, rng: random.Random) -> Parts:
        """Some parts."""
        return cls(
            groups=rng.choice(GROUPS),
            media=rng.choice(MEDIA),
            residency=rng.choice(("set", "set", "refresh", "counted")),
            scopes=rng.choice(SCOPES),
            late=rng.choice((0.0, 0.0, 0.5)),
            keeps=rng.random() < 0.3,
            tick_s=rng.choice((0.0, 0.0, 60.0, 1e6)),
            lost=rng.choice((0, 0, 0, 1, 3)),
        )

    @property
    def statement(self) -> dict[str, Any]:
        """What it declares."""
        tags = any("scope" in scope for scope in self.scopes)
        return {"groups": self.groups, "residency": self.residency, "salt": "tag" if tags else "none"}


class Node(NamedTuple):
    """The end of a chain of finest blocks: its name, its parent's, its tokens, its scope, and how long the chain is."""

    name: str
    parent: str | None
    tokens: tuple[int, ...]
    scope: int
    depth: int


class Place(NamedTuple):
    """A group and a medium, the group as it is declared."""

    group: Group
    medium: str | None

    @property
    def blocks(self) -> int:
        """Finest blocks to one of this group."""
        return (self.group.block_size or UNIT) // UNIT

    @property
    def dense(self) -> bool:
        """Whether a block needs all that come before it."""
        return self.group.kind in ("full_attention", "mla_attention")


class Cache:
    """What an engine holds, and what it says of each change."""

    def __init__(self, rng: random.Random, parts: Parts) -> None:
        self.rng = rng
        self.parts = parts
        self.places = [Place(group, medium) for group in parts.groups or (DENSE,) for medium in parts.media]
        self.nodes: dict[str, Node] = {}
        self.known: dict[tuple[str | None, tuple[int, ...], int], str] = {}
        self.held: Counter[tuple[str, Place]] = Counter()
        self.announced: set[tuple[str, int]] = set()
        """What was ever stored in a group, in this life of the publisher."""
        self.waiting: list[Event] = []
        """What happened and has not left yet."""

    # what it does

    def events(self) -> list[Event]:
        """One iteration: what leaves with it."""
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            if (event := self._one()) is not None:
                self.waiting.append(event)
        return [] if self.rng.random() < self.parts.late else self.leave()

    def leave(self) -> list[Event]:
        """All that has not left yet."""
        gone, self.waiting = self.waiting, []
        return gone

    def survive(self) -> list[Event]:
        """What a new life of the publisher says of the cache that outlived the old one, parents first."""
        self.waiting.clear()
        self.announced.clear()
        before = sorted(self.held.elements(), key=lambda held: self.nodes[held[0]].depth)
        self.held.clear()
        return [self._stored(name, place) for name, place in before if self._may_hold(name, place)]

    def _one(self) -> Event | None:
        kind = self.rng.random()
        if kind < 0.03:
            self.held.clear()
            self.announced.clear()
            return cleared()
        if kind < 0.35:
            loose = [held for held in sorted(self.held, key=str) if self._may_go(*held)]
            return self._removed(*self.rng.choice(loose)) if loose else None
        place = self.rng.choice(self.places)
        fits = [name for name in sorted(self.nodes) if self._may_store(name, place)]
        name = self.rng.choice(fits) if fits and kind < 0.6 else self._grown().name
        return self._stored(name, place) if self._may_store(name, place) else None

    def _grown(self) -> Node:
        """A chain that goes on by a block, or a new one; of two scopes some chains have the same tokens."""
        rng = self.rng
        above = self.nodes[rng.choice(sorted(self.nodes))] if self.nodes and rng.random() < 0.8 else None
        scope = above.scope if above is not None else rng.randrange(len(self.parts.scopes))
        parent = None if above is None else above.name
        twins = [node.tokens for node in self.nodes.values() if node.parent is None] if above is None else []
        tokens = (
            rng.choice(twins) if twins and rng.random() < 0.5 else tuple(rng.randrange(50_000) for _ in range(UNIT))
        )
        known = self.known.setdefault((parent, tokens, scope), f"n{len(self.nodes)}")
        depth = 1 if above is None else above.depth + 1
        return self.nodes.setdefault(known, Node(known, parent, tokens, scope, depth))

    # what may be

    def _above(self, name: str, place: Place) -> str | None:
        """The block before it in its group."""
        *_, first = self._parts(name, place)
        return first.parent

    def _parts(self, name: str, place: Place) -> Iterator[Node]:
        """The finest blocks that it is made of, the last one first."""
        at: str | None = name
        for _ in range(place.blocks):
            assert at is not None
            yield self.nodes[at]
            at = self.nodes[at].parent

    def _in_group(self, name: str, place: Place) -> bool:
        return any(self.held[name, other] for other in self.places if other.group == place.group)

    def _may_hold(self, name: str, place: Place) -> bool:
        if self.nodes[name].depth % place.blocks:
            return False
        above = self._above(name, place)
        if above is None:
            return True
        return self._in_group(above, place) if place.dense else (above, place.group.idx) in self.announced

    def _may_store(self, name: str, place: Place) -> bool:
        again = self.parts.residency != "set" or not self.held[name, place]
        return again and self._may_hold(name, place)

    def _may_go(self, name: str, place: Place) -> bool:
        """A block that others of its group need stays, in one medium at least."""
        if not place.dense or self.held[name, place] > 1:
            return True
        if sum(self.held[name, other] > 0 for other in self.places if other.group == place.group) > 1:
            return True
        return not any(other.group == place.group and self._above(child, other) == name for child, other in self.held)

    # what it says

    def _stored(self, name: str, place: Place) -> Event:
        parts = [*self._parts(name, place)][::-1]
        above = parts[0].parent
        self.held[name, place] = self.held[name, place] + 1 if self.parts.residency == "counted" else 1
        self.announced.add((name, place.group.idx))
        return {
            "type": "BlockStored",
            "block_hashes": [block(name)],
            "parent_block_hash": None if above is None else block(above),
            "token_ids": [token for part in parts for token in part.tokens],
            "block_size": place.blocks * UNIT,
            "lora_id": None,
            "medium": place.medium,
            "lora_name": None,
            **self._keys(place),
            **self.parts.scopes[parts[0].scope],
        }

    def _removed(self, name: str, place: Place) -> Event:
        self.held[name, place] -= 1
        self.held += Counter()  # drops what is held no more
        keys = {"group_idx": place.group.idx} if self.parts.groups else {}
        return {"type": "BlockRemoved", "block_hashes": [block(name)], "medium": place.medium, **keys}

    def _keys(self, place: Place) -> dict[str, Any]:
        if not self.parts.groups:
            return {}
        group = place.group
        window = {} if group.window is None else {"kv_cache_spec_sliding_window": group.window}
        return {"group_idx": group.idx, "kv_cache_spec_kind": group.kind, **window}


class World:
    """The publisher, the ways to the witnesses, and the harness."""

    def __init__(self, seed: int, *, loss: float = 0.1, parts: Parts | None = None) -> None:
        self.rng = random.Random(seed)
        self.loss = loss
        self.parts = Parts.drawn(self.rng) if parts is None else parts
        self.lives = 0
        ring = self.rng.choice((1, 4, 12, 1000))
        declared = self.rng.choice((ring, None))
        self.story = Story(ring=ring, statement=Statement(ring=declared, **self.parts.statement))
        self.ways: dict[str, deque[tuple[int, bytes] | str]] = {witness: deque() for witness in WITNESSES}
        self.cache = Cache(self.rng, self.parts)
        for witness in WITNESSES:
            self.ways[witness].append(HANDSHAKE)
        self.deaf = {witness: self.rng.choice((0, 0, 3)) for witness in WITNESSES}
        self._begin([])

    # the publisher

    def _begin(self, survivors: Sequence[Event]) -> None:
        """A life begins with a clear, and with what outlived the life before; the first batches can be lost."""
        first = cleared()
        if self.parts.tick_s:
            first["epoch"] = f"life {self.lives}"
        for number, events in enumerate(([first], *([event] for event in survivors))):
            if number < self.parts.lost:
                self.story.drop()
            else:
                self.publish(events)

    def publish(self, events: Sequence[Event]) -> None:
        """Number a batch, retain it, and put it on its ways; some lose it."""
        tick = self.parts.tick_s
        ts = self.story.tick()
        ts = math.floor(ts / tick) * tick if tick else ts
        number, content = self.story.make(content=payload(*events, ts=ts))
        for witness in WITNESSES:
            if self.deaf[witness]:
                self.deaf[witness] -= 1
            elif self.rng.random() >= self.loss:
                self.ways[witness].append((number, content))
                if self.rng.random() < 0.03:
                    self.ways[witness].append((number, content))

    def restart(self) -> None:
        """A new life; old messages may still be under way, behind the word of the disconnect.

        What the witnesses heard comes sooner than a publisher can restart twice.
        """
        if any(DISCONNECTED in way for way in self.ways.values()):
            self.drain()
        self.story.die()
        self.lives += 1
        if self.parts.keeps:
            survivors = self.cache.survive()
        else:
            survivors, self.cache = [], Cache(self.rng, self.parts)
        self.reconnect(self.rng.choice((0, 1, 2, 5, 12)))
        self._begin(survivors)

    def reconnect(self, deaf: int, witnesses: str = WITNESSES) -> None:
        """The connections end and come back; so many batches are missed until the subscriptions take effect."""
        for witness in witnesses:
            way = self.ways[witness]
            told = next((at for at in range(len(way), 0, -1) if isinstance(way[at - 1], str)), 0)
            way.insert(self.rng.randint(max(told, len(way) - 3), len(way)), DISCONNECTED)
            way.append(HANDSHAKE)
            self.deaf[witness] = max(0, deaf + self.rng.choice((0, 0, 1, -1)))

    # the harness

    def hear(self, most: int) -> None:
        """The witnesses hand over some of what they have."""
        for witness in self.rng.sample(WITNESSES, 2):
            for _ in range(self.rng.randint(0, most)):
                if not self.ways[witness]:
                    break
                item = self.ways[witness].popleft()
                if isinstance(item, str):
                    self.story.monitor(item, by=witness)
                else:
                    self.story.live(*item, by=witness)

    def drain(self) -> None:
        """Hear everything."""
        while any(self.ways.values()):
            self.hear(50)

    def ask(self) -> None:
        """A replay, answered from what is retained, while the publisher may go on."""
        story = self.story
        start = self.rng.choice((0, 0, max(0, story.next - 3), story.next + 50))
        client = story.ask(start)
        at = start
        while True:
            left = {n: c for n, c in story.retained.items() if n >= at}
            if not left:
                break
            number = min(left)
            story.answer_batches(client, {number: left[number]})
            at = number + 1
            if self.rng.random() < 0.1:
                self.publish(self.cache.events())
            if self.rng.random() < 0.2:
                self.hear(2)
        story.answer(client, *END_MARKER)
        story.done(client)

    def snapshot(self) -> None:
        """When everything was heard, ask the engine what it holds: one that is idle has nothing left to say."""
        idle = self.rng.random() < 0.5
        if idle and self.cache.waiting:
            self.publish(self.cache.leave())
        newest = self.story.next - 1
        self.drain()
        if any(self.deaf.values()) or self.cache.waiting:
            return
        if idle and self._heard(newest):
            self.story.note(Settled(drained=True, idle=True))
        held = {place: [name for name, other in self.cache.held if other == place] for place in self.cache.places}
        places = tuple(
            Held(medium=place.medium, group=place.group.idx, hashes=tuple(str(block(name)) for name in names))
            for place, names in held.items()
        )
        hashes = tuple(str(block(name)) for name in sorted({name for name, _ in self.cache.held}))
        self.story.note(ResidentCall(hashes=hashes, places=places if self.rng.random() < 0.8 else None))

    def _heard(self, newest: int) -> bool:
        """Whether a witness has the newest batch, as the harness waits for."""
        lived = self.story.timeline().incarnations
        return bool(lived) and bool(lived[-1].batches) and lived[-1].batches[-1].number == newest

    def step(self) -> None:
        """Something happens."""
        kind = self.rng.random()
        if kind < 0.5:
            self.publish(self.cache.events())
        elif kind < 0.53:
            self.story.drop()
        elif kind < 0.55:
            self.restart()
        elif kind < 0.57:
            self.reconnect(self.rng.choice((0, 1, 4)), self.rng.choice(("a", "b", "ab")))
        elif kind < 0.62:
            self.ask()
        elif kind < 0.65:
            self.drain()
        elif kind < 0.68:
            self.snapshot()
        else:
            self.hear(3)


def lived(seed: int, steps: int, loss: float = 0.1, parts: Parts | None = None) -> World:
    """A world after so many steps, everything heard."""
    world = World(seed, loss=loss, parts=parts)
    for _ in range(steps):
        world.step()
    world.drain()
    return world
