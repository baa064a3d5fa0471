"""Prompts one at a time, the stream drained before and after each: then its word can be held against the engine's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from kvwire.attack.probes.kit.announced import Announced
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Session
from kvwire.standard.protocol import Unsupported
from kvwire.trace.attempts import NS
from kvwire.trace.marks import Settled
from kvwire.trace.records import Source
from kvwire.wire.events import TWO_64

OWN = 16
"""How many batches of its own a publisher may have sent since it was asked; numbers further off count nothing."""


POLL_S = 0.05
"""How often a publisher is asked for its counters while it is watched for being idle."""
IDLE_WAITS = 2
"""How often at most an instance is waited for until it is idle, because its word and its stream differ."""


class DrainedPrompts:
    """Runs prompts and waits. ``blind``: the stream could once not be drained, and nothing more can be concluded."""

    def __init__(self, session: Session) -> None:
        assert session.driver is not None
        self.session = session
        self.driver = session.driver
        self.announced = Announced(session)
        self.blind = False
        self.waits = 0

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

    def ask(self, *, complete: bool = True, last: bool = False) -> None:
        """Ask the engine what it holds, where it can say; once more when it is idle, if its stream says otherwise.

        ``complete``: all that it holds should stand announced. ``last``: it is waited for however often it was before.
        """
        if self._differs(complete=complete) and (last or self.waits < IDLE_WAITS):
            self.waits += 1
            if self.idle():
                self._differs(complete=complete)

    def _differs(self, *, complete: bool) -> bool:
        """Ask, and whether the answer is another one than the stream's."""
        if self.over or "resident" not in self.driver.can:
            return False
        try:
            answer = self.driver.resident()
        except Unsupported:
            return False
        announced = self.announced.follow()
        if answer.places is not None:
            given = [((place.medium, place.group), place.hashes) for place in answer.places]
        elif len(announced.places) == 1:
            given = [(place, answer.hashes) for place in announced.places]
        else:
            return False
        held = {(place, int(value) % TWO_64) for place, hashes in given for value in hashes}
        asked = {place for place, _ in given}
        told = {key for key in announced.held if key[0] in asked}
        return told != held if complete else not told <= held or bool(held & announced.ended)

    def idle(self) -> bool:
        """Wait until the publisher is idle (spec/README.md, Terms), and record whether it is."""
        session = self.session
        bound = session.statement.bounds.reset_visible_s
        stream = session.driven
        before: object = None
        since = asked = time.monotonic_ns()

        def still() -> bool:
            nonlocal before, since, asked
            now = time.monotonic_ns()
            if before is not None and now - asked < POLL_S * NS:
                return False
            asked = now
            stats = session.stats()
            counted = (None if stats is None else stats.offered, session.counts(stream))
            if counted != before:
                before, since = counted, now
            return now - since - session.recorder.waited(since, stream.name).held_ns >= bound * NS

        idle = session.wait(still, bound + session.limits.settle_s)
        idle_s = round((time.monotonic_ns() - since) / NS, 3)
        stats = session.stats() if idle else None
        newest = session.recorder.newest(stream.name)
        offered = None if stats is None else stats.offered
        drained = idle and (offered is None or (newest is not None and newest + 1 >= offered))
        session.mark(Settled(drained=drained, idle=drained, idle_s=idle_s if drained else None), stream.name)
        return drained

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
