"""Live traffic while something else is under way: batches of one size, and whether they are seen in time."""

from __future__ import annotations

import time

from kvwire.attack.probes.kit.session import Session
from kvwire.standard.protocol import Refused
from kvwire.trace.marks import During, LiveAwaited

TOKENS = 128
"""Tokens of one batch: with its hashes some 600 bytes, so that a thousand batches fill what a socket buffers."""
AGAIN_S = 0.25
"""How long a batch that should be seen may take before another is offered: the first may be lost."""
GRACE_S = 0.5
"""What the way through the harness may add to a declared bound."""


class Traffic:
    """Causes batches on the driven stream, one at a time, by whatever the adapter can do."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._blocks = max(1, TOKENS // session.block_size)

    @property
    def able(self) -> bool:
        """Whether the adapter can cause any."""
        return bool({"cache", "publish"} & self.session.can)

    def one(self) -> None:
        """Cause one batch: a prompt for an engine, else a store.

        Raises:
            Refused: when the adapter does not take it.
        """
        session = self.session
        assert session.driver is not None
        if "cache" in session.can:
            session.driver.cache(session.offers.tokens(self._blocks))
        else:
            session.driver.publish(session.offers.batch(session.offers.passing(self._blocks)))

    def many(self, count: int) -> None:
        """Cause so many, at once where the adapter takes several batches.

        Raises:
            Refused: when the adapter does not take them.
        """
        session = self.session
        if count == 1 or session.driver is None or "burst" not in session.can:
            for _ in range(count):
                self.one()
            return
        session.driver.burst([session.offers.batch(session.offers.passing(self._blocks)) for _ in range(count)])

    def until(self, number: int, most: int) -> None:
        """Cause batches until the newest one has that number; at most so many."""
        recorder, stream = self.session.recorder, self.session.driven.name
        for _ in range(most):
            newest = recorder.newest(stream)
            if (newest is not None and newest >= number) or self.session.left() <= 0:
                return
            self.one()
            recorder.pump()

    def awaited(self, during: During, at_once: int = 1) -> bool:
        """Cause so many batches, and another now and then, until so many more were seen; record whether in time.

        What was caused before must have been seen. ``during`` says what the publisher is doing meanwhile. The bound is
        the declared ``live_delay_s``, and the grace for the harness's own way. A batch that is numbered so much higher
        than the last before shows that those between are not under way any more.
        """
        session = self.session
        stream, recorder = session.driven, session.recorder
        before, newest = session.counts(stream), recorder.newest(stream.name)
        bound = session.statement.bounds.live_delay_s
        began = time.monotonic()
        end = began + bound + GRACE_S
        offered = 0

        def heard() -> int:
            return max((count - before[source] for source, count in session.counts(stream).items()), default=0)

        def seen() -> bool:
            last = recorder.newest(stream.name)
            return heard() >= at_once or (newest is not None and last is not None and last >= newest + at_once)

        while time.monotonic() < end and session.left() > 0:
            try:
                self.many(1 if offered else at_once)
            except Refused as refusal:
                session.trouble(f"a batch under replay was refused: {refusal}", stream.name)
                return False
            offered += 1 if offered else at_once
            if session.wait(seen, min(AGAIN_S, end - time.monotonic())):
                break
        session.mark(
            LiveAwaited(
                during=during,
                outcome="seen" if seen() else "bound",
                after_s=round(time.monotonic() - began, 3),
                bound_s=bound,
                offered=offered,
                heard=heard(),
            ),
            stream.name,
        )
        return seen()
