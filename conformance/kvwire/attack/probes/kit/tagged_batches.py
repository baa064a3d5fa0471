"""Batches that can be told apart by every one of their events, for attacks that lose some."""

from __future__ import annotations

import math
import time
from typing import Any

from kvwire.attack.probes.kit.session import Session
from kvwire.standard.protocol import Refused
from kvwire.trace.marks import TailDone
from kvwire.trace.records import Record
from kvwire.wire.dialect import read
from kvwire.wire.framing import split_live

TAIL_S = 5.0
"""How long the batch that was offered last is waited for."""
FULL_S = 0.02
"""How long a full queue gets before another batch is offered."""
AGAIN_S = 1.0
"""How long the last batch gets before another one is offered: it may be lost on the way."""


class TaggedBatches:
    """Makes batches of several stores, each of blocks that no other store holds, and offers them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.events = 2
        """Events of a batch; one where the publisher takes no several."""
        self.blocked_us: list[int] = []
        """How long each call took, as the adapter measured it."""

    def batch(self, blocks: int = 1) -> dict[str, Any]:
        """One batch, with so many blocks in each store."""
        offers = self.session.offers
        return offers.batch(*[offers.root(blocks) for _ in range(self.events)])

    def one(self, blocks: int = 1) -> bool:
        """Offer one batch; whether it was accepted.

        Raises:
            Refused: when the adapter takes neither several events nor one.
        """
        try:
            return self._offer(self.batch(blocks))
        except Refused:
            if self.events == 1:
                raise
            self.events = 1
            return self._offer(self.batch(blocks))

    def _offer(self, batch: dict[str, Any]) -> bool:
        driver = self.session.driver
        assert driver is not None
        answer = driver.publish(batch)
        self.blocked_us.append(answer.blocked_us)
        return answer.accepted

    def burst(self, batches: list[dict[str, Any]]) -> None:
        """Offer batches at once where the adapter can, else one after the other."""
        driver = self.session.driver
        assert driver is not None
        if "burst" in driver.can:
            self.blocked_us += driver.burst(batches).blocked_us
            return
        for batch in batches:
            self._offer(batch)


def tail(session: Session, tagged: TaggedBatches) -> bool:
    """Offer one more batch and wait until it is seen, or one after it: then what came before is decided.

    Again where none comes, until it is certain that none will.
    """
    attempts = session.attempts()
    return any(tail_once(session, tagged, AGAIN_S if attempt else TAIL_S) for attempt in attempts)


def tail_once(session: Session, tagged: TaggedBatches, bound_s: float = TAIL_S) -> bool:
    """One such wait. Another batch is offered while none is accepted, and now and then while none comes."""
    stream = session.driven
    recorder = session.recorder
    began = time.monotonic()
    read_to = len(recorder.records)
    stamp = math.inf

    def seen() -> bool:
        nonlocal read_to
        new, read_to = recorder.records[read_to:], len(recorder.records)
        return any(_stamp(record) >= stamp for record in new if record.stream == stream.name and record.is_live)

    came = False
    while not came and session.left() > 0 and time.monotonic() - began < bound_s:
        accepted = tagged.one()
        if accepted:
            stamp = min(stamp, session.offers.stamp)
        came = session.wait(seen, AGAIN_S if accepted else FULL_S)
    after = round(time.monotonic() - began, 3)
    session.mark(TailDone(outcome="seen" if came else "bound", after_s=after, bound_s=bound_s), stream.name)
    return came


def _stamp(record: Record) -> float:
    """The ``ts`` of a live message; below every other where it has none."""
    parts = None if record.frames is None else split_live(record.frames)
    ts = None if parts is None else read(parts[1]).ts
    return -math.inf if ts is None else ts
