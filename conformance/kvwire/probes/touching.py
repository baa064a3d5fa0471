"""Prompts one at a time, the stream drained before and after each: then its word can be held against the engine's."""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.probes.asking import Asker
from kvwire.probes.session import Session
from kvwire.protocol import Unsupported


class Touching:
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
        """Wait, ``settle_s`` at most, until every batch that the publisher counts was seen; record whether it was."""
        session = self.session
        stream = session.driven.name
        stats = session.stats()
        recorder = session.recorder

        def drained() -> bool:
            newest = recorder.newest(stream)
            last = -1 if newest is None else newest
            return stats is not None and stats.offered is not None and last + 1 >= stats.offered

        known = stats is not None and stats.offered is not None
        self.blind = not (known and session.wait(drained, session.limits.settle_s))
        session.mark("settled", stream, drained=not self.blind)

    def touch(self, tokens: Sequence[int]) -> None:
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
            with Asker(self.session) as asker:
                asker.ask(stream, 0)
