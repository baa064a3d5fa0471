"""An honest publisher, two lossy and lagging witnesses, restarts and replays, at random: no judge may ever speak."""

from __future__ import annotations

import random
from collections import deque

import pytest
from tests.kit.stories import END_MARKER, Event, Story, block, cleared, payload, removed, stored

from kvwire.history.timeline import DISCONNECTED
from kvwire.standard.statement import Statement
from kvwire.trace.calls import ResidentCall

SEEDS = range(50)
WITNESSES = "ab"
HANDSHAKE = "HANDSHAKE_SUCCEEDED"


class Cache:
    """A prefix tree of blocks in two media: what an engine holds, and what it says of each change."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: dict[str, str | None] = {}
        self.held: set[tuple[str, str]] = set()
        self.made = 0

    def events(self) -> list[Event]:
        """One iteration."""
        return [self._one() for _ in range(self.rng.choice((0, 1, 1, 2, 3)))]

    def _one(self) -> Event:
        resident = sorted({name for name, _ in self.held})
        kind = self.rng.random()
        if kind < 0.03:
            self.held.clear()
            return cleared()
        if kind < 0.35 and self.held:
            leaves = [(n, m) for n, m in sorted(self.held) if not any(self.names[o] == n for o in resident)]
            name, medium = self.rng.choice(leaves)
            self.held.discard((name, medium))
            return removed([name], medium)
        medium = self.rng.choice(("GPU", "GPU", "CPU"))
        known = [n for n, parent in sorted(self.names.items()) if (n, medium) not in self.held]
        known = [n for n in known if self.names[n] is None or self.names[n] in resident]
        if known and kind < 0.6:
            name = self.rng.choice(known)
        else:
            self.made += 1
            name = f"n{self.made}"
            self.names[name] = self.rng.choice([None, *resident])
        self.held.add((name, medium))
        return stored([name], self.names[name], medium=medium)


class World:
    """The publisher, the ways to the witnesses, and the harness."""

    def __init__(self, seed: int, *, loss: float = 0.1) -> None:
        self.rng = random.Random(seed)
        self.loss = loss
        ring = self.rng.choice((4, 12, 1000))
        self.story = Story(ring=ring, statement=Statement(ring=self.rng.choice((ring, None))))
        self.ways: dict[str, deque[tuple[int, bytes] | str]] = {witness: deque() for witness in WITNESSES}
        self.deaf = dict.fromkeys(WITNESSES, 0)
        self.cache = Cache(self.rng)
        for witness in WITNESSES:
            self.ways[witness].append(HANDSHAKE)
        self.deaf = {witness: self.rng.choice((0, 0, 3)) for witness in WITNESSES}
        self.publish([cleared()])

    # the publisher

    def publish(self, events: list[Event]) -> None:
        """Number a batch, retain it, and put it on its ways; some lose it."""
        number, content = self.story.make(*events)
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
        self.cache = Cache(self.rng)
        self.reconnect(self.rng.choice((0, 1, 2, 5, 12)))
        self.publish([cleared()])

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
        """When everything was heard, ask the engine what it holds."""
        self.drain()
        if not any(self.deaf.values()):
            self.story.note(ResidentCall(hashes=tuple(str(block(name)) for name in {n for n, _ in self.cache.held})))

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
        else:
            self.hear(3)


def lived(seed: int, steps: int, loss: float = 0.1) -> World:
    """A world after so many steps, everything heard."""
    world = World(seed, loss=loss)
    for _ in range(steps):
        world.step()
    world.drain()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_no_judge_speaks(seed: int) -> None:
    assert lived(seed, 150).story.spoken() == {}


def test_and_it_shows_what_it_should() -> None:
    """Most sentences that a listener with replay can see have witnesses in a world without much loss."""
    story = lived(1, 300, loss=0.01).story
    names = ("SEQ-003", "SEQ-004", "CHN-003", "CHN-004", "RES-001", "RES-002", "REP-001", "REP-008", "REP-013")
    assert set(names) <= story.witnessed()


def test_a_payload_of_another_is_no_story_of_ours() -> None:
    """The worlds above are honest because of what they hold, not because nobody looks: one foreign batch is heard."""
    world = lived(2, 60, loss=0.0)
    number = max(world.story.retained)
    world.story.live(number, payload(ts=1.0), by="a")
    assert "SEQ-004" in world.story.spoken() or world.story.arrivals()[-1][1] == "restart"
