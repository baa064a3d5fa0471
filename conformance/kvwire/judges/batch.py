"""Batch: an array of three, its timestamp, its events (spec/batch.md)."""

from __future__ import annotations

from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context, Say, at_element, judge
from kvwire.wire.events import Flaw

MILLISECONDS = 10**11
"""Seconds since the epoch stay below this until the year 5138; milliseconds passed it in 1973."""


class BatchArea(Area):
    """Reads the distinct batches of the timeline."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.newest: tuple[float, int] | None = None

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.newest = None

    def on_gap(self, gap: Gap) -> None:
        if gap.maybe_restart:
            self.newest = None

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
        self.events_array(batch, flaws.get("events"))

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
        if self.newest is not None:
            newest, number = self.newest
            if ts < newest:
                say.broke(
                    f"a `ts` of at least {newest!r}, that of number {number}",
                    f"{ts!r}, {newest - ts:.6f} s earlier",
                    at_element(batch, 0),
                )
                return
            say.saw()
        self.newest = (ts, batch.number)

    @judge("KVW-BAT-005")
    def events_array(self, say: Say, batch: Batch, flaw: Flaw | None) -> None:
        """KVW-BAT-005: A publisher MUST send `events` as a msgpack array, which may be empty."""
        say.weigh(batch, flaw)
