"""Prompts one at a time, the stream drained before and after each: then its word can be held against the engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Session
from kvwire.standard.protocol import Unsupported
from kvwire.trace.marks import Settled
from kvwire.trace.records import Source

OWN = 16
"""How many batches of its own a publisher may have sent since it was asked; numbers further off count nothing."""


class DrainedPrompts:
    """Runs prompts and waits. ``blind``: the stream could once not be drained, and nothing more can be concluded."""

    def __init__(self, session: Session) -> None:
        assert session.driver is not None
        self.session = session
        self.driver = session.driver
        self.blind = False

    @property
    def over(self) -> bool:
        """Whether there is no use in going on."""
        return self.blind or self.session.left() <= 0

    def drain(self) -> None:
        """Wait, ``settle_s`` at most, until every batch that the publisher counts was seen; record whether it was.

        Where it counts nothing, a prompt of new tokens tells: what it stores is announced after all that was before.
        """
        session = self.session
        stream = session.driven.name
        stats = session.stats()
        recorder = session.recorder

        def drained() -> bool:
            newest = recorder.newest(stream)
            last = -1 if newest is None else newest
            return stats is not None and stats.offered is not None and 0 <= last + 1 - stats.offered < OWN

        known = stats is not None and stats.offered is not None
        self.blind = not session.wait(drained if known else self._told(), session.limits.settle_s)
        session.mark(Settled(drained=not self.blind), stream)

    def _told(self) -> Callable[[], bool]:
        """Run a prompt of one new block; whether every witness has delivered a message that has its tokens."""
        recorder = self.session.recorder
        stream = self.session.driven.name
        tokens = self.session.offers.tokens(1)
        shown = b"".join(map(msgspec.msgpack.encode, tokens))
        waiting = set(recorder.witnesses(stream))
        at = len(recorder.records)
        self.driver.cache(tokens)

        def told() -> bool:
            nonlocal at
            for record in recorder.records[at:]:
                if record.stream == stream and record.is_live and record.frames and shown in record.frames[-1]:
                    waiting.discard(Source(record.source))
            at = len(recorder.records)
            return not waiting

        return told

    def prompt(self, tokens: Sequence[int]) -> None:
        """Run one prompt between two drained states of the stream."""
        if not self.over:
            self.driver.cache(tokens)
            self.drain()

    def ask(self) -> None:
        """Ask the engine what it holds, where it can say."""
        if not self.over and "resident" in self.driver.can:
            try:
                self.driver.resident()
            except Unsupported:
                return

    def begin(self) -> None:
        """Begin with an empty cache where that can be had: then everything is known."""
        self.drain()
        if "reset" in self.driver.can and not self.over:
            self.driver.reset()
            self.drain()

    def end(self) -> None:
        """Have the beginning replayed, which no subscriber sees."""
        stream = self.session.driven
        if stream.replay is not None and self.session.left() > 0:
            with ReplayClients(self.session) as replays:
                replays.ask(stream, 0)
