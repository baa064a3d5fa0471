"""Batch: an array of three, its timestamp, its events (spec/batch.md)."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_element, judge, unused
from kvwire.judges.step import Step
from kvwire.wire.events import Flaw

MILLISECONDS = 10**11
"""Seconds since the epoch stay below this until the year 5138; milliseconds passed it in 1973."""


FINE_US = 1000
COARSE_US = 10_000
SHARED = 16
"""So many batches have to share the stamp of the one before, over more than two stamps, to show a coarse clock."""
STILL = 256
"""An engine that makes so many batches of its own does not make them within one tick of a fine clock."""


class Ticks:
    """The stamps of a stream: the largest tick that all of them are whole multiples of, in microseconds."""

    def __init__(self) -> None:
        self.us = 0
        self.batches = 0
        self.distinct = 0
        self._shared = 0
        self._last: int | None = None

    def add(self, ts: float) -> None:
        """Take the next stamp."""
        stamp = round(ts * 1e6)
        self.batches += 1
        self.us = math.gcd(self.us, stamp)
        self._shared += stamp == self._last
        self.distinct += stamp != self._last
        self._last = stamp

    def extend(self, stamps: Sequence[float]) -> None:
        """Take several."""
        if not stamps:
            return
        whole = [round(ts * 1e6) for ts in stamps]
        shared = sum(map(operator.eq, whole, [self._last, *whole]))
        self.batches += len(whole)
        self.us = math.gcd(self.us, *whole)
        self._shared += shared
        self.distinct += len(whole) - shared
        self._last = whole[-1]

    @property
    def coarse(self) -> bool:
        """Whether they can only come from a coarse clock, or from one that stands still."""
        if self.distinct == 1:
            return self.batches >= STILL
        return self.us >= COARSE_US and self.distinct > 2 and self._shared >= SHARED


class BatchArea(Area):
    """Reads the distinct batches of the timeline."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.ticks = Ticks()
        self.coarse_at: Batch | None = None
        self.epoch = False
        """Whether an incarnation was named, so that no clock has to tell lives apart."""
        self.begun = False
        """Whether the first batch of an incarnation was seen, which would name it."""

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.facts.newest = None

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self.facts.newest = None

    def on_step(self, step: Step) -> None:
        for judged in (self.three_elements, self.float64, self.seconds, self.events_array):
            judged.saw(step.batches)
        self.rising.saw(step.batches)
        if self.facts.stamps:
            self.coarse_at = step.last
        self._unshown()

    def on_batch(self, batch: Batch) -> None:
        flaws = {flaw.code: flaw for flaw in batch.reading.flaws}
        if "msgpack" in flaws or "limit" in flaws:
            return
        self.three_elements(batch, flaws.get("batch"))
        if "batch" in flaws:
            return
        self.float64(batch, flaws.get("ts-type"))
        if "ts-type" not in flaws:
            self.seconds(batch, flaws.get("ts-finite"))
            self.rising(batch, flaws.get("ts-finite"))
            self._tick(batch)
        self.events_array(batch, flaws.get("events"))

    def _tick(self, batch: Batch) -> None:
        """Take the stamp of a batch that the publisher made, and sent live."""
        self.epoch = self.epoch or any(event.epoch is not None for event in batch.reading.events)
        self.begun = self.begun or batch.number == 0
        ts = batch.reading.ts
        if ts is None or not 0 <= ts < MILLISECONDS or "ts" in self.muted or batch.live is None:
            return
        self._unshown()
        self.ticks.add(ts)
        self.coarse_at = batch

    def _unshown(self) -> None:
        """Take the stamps of batches that were not shown, in their place."""
        self.ticks.extend(self.facts.stamps)
        self.facts.stamps.clear()

    def finish(self) -> None:
        if not self.epoch and self.coarse_at is not None:
            self.fine_stamps(self.coarse_at)

    @judge("KVW-BAT-001")
    def three_elements(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-BAT-001: A publisher MUST send as batch a msgpack array of exactly three elements: `ts`, `events`,
        rank.
        """
        say.weigh(batch, flaw)

    @judge("KVW-BAT-002")
    def float64(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-BAT-002: A publisher MUST send `ts` as a msgpack float64 (first byte `cb`)."""
        say.weigh(batch, flaw)

    @judge("KVW-BAT-003")
    def seconds(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-BAT-003: A publisher MUST send as `ts` a finite number of seconds since the Unix epoch (at least 0 and
        below 10^11, so that milliseconds are told apart).
        """
        ts = batch.reading.ts
        if flaw is None and ts is not None and not 0 <= ts < MILLISECONDS:
            expected = "seconds since the Unix epoch, at least 0 and below 10^11"
            say.broke(expected, f"{ts!r}", at_element(batch, 0))
            return
        say.weigh(batch, flaw)

    @judge("KVW-BAT-004")
    def rising(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-BAT-004: A publisher SHOULD keep `ts` non-decreasing from batch to batch within an incarnation of a
        stream.

        A clock of the harness is not compared with one of the publisher, and what only a replay showed may have been
        stamped anew there, which is KVW-REP-001's.
        """
        ts = batch.reading.ts
        if flaw is not None or ts is None or "ts" in self.muted or batch.live is None:
            return
        if self.facts.newest is not None:
            newest, number = self.facts.newest
            if ts < newest:
                say.broke(
                    f"a `ts` of at least {newest!r}, that of number {number}",
                    f"{ts!r}, {newest - ts:.6f} s earlier",
                    at_element(batch, 0),
                )
                return
            say.saw()
        self.facts.newest = (ts, batch.number)

    @judge("KVW-BAT-005")
    def events_array(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-BAT-005: A publisher MUST send `events` as a msgpack array, which may be empty."""
        say.weigh(batch, flaw)

    @judge("KVW-BAT-007", unclaimed=unused)
    def fine_stamps(self, say: Say, batch: Batch) -> None:
        """KVW-BAT-007: A publisher that sends no `epoch` SHOULD stamp `ts` with a resolution of one millisecond or
        finer.

        Stamps of which one is no multiple of more than a millisecond show it. A coarse clock is one whose every stamp
        is a whole number of ticks of ten milliseconds or more, though batches share ticks and more than two of these
        were seen; a clock that never moves is one too. What comes at regular times tells nothing, and neither does a
        stream of which no beginning was seen: a life is named there.
        """
        ticks = self.ticks
        if 0 < ticks.us <= FINE_US:
            say.saw()
        elif ticks.coarse and not self.begun:
            say.open("the clock is coarse; the first batch of a life, which can name it, was not seen")
        elif ticks.coarse:
            seen = f"{ticks.batches} stamps, all of them " + (
                f"whole multiples of {ticks.us / 1e6:g} s" if ticks.distinct > 1 else f"{batch.reading.ts!r}"
            )
            say.broke("stamps of one millisecond or finer", seen, at_element(batch, 0))
        else:
            say.open(f"{ticks.batches} stamps, too few or too regular to tell how fine the clock is")
