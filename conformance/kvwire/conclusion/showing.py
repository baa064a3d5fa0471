"""Every judge along one stream, in the documented order, and what comes of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from kvwire.cache.identity import Identity
from kvwire.conclusion.allowance import LOOKED_BYTES, RESIDENT, SHOWN_ALL, TOO_MANY, Allowance
from kvwire.conclusion.description import Appearance
from kvwire.conclusion.muting import Muting
from kvwire.history.losses import Loss
from kvwire.history.progress import END, Place
from kvwire.history.senders import Senders
from kvwire.history.timeline import Attribution, Batch, Gap, Incarnation, Live
from kvwire.judges.area import Area, Context
from kvwire.judges.verdict import Outcome, Tally
from kvwire.standard.registry import Profile
from kvwire.trace.records import Header, Record, Records, StreamInfo
from kvwire.wire.events import Event, Form


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, judged. ``senders``: what other counters it has, and since when (``t_ns``). ``kept`` are the messages
    in which findings were made, by record, ``identity`` what its hashes stand for, where nobody drove it.
    """

    stream: StreamInfo
    appearance: Appearance
    incarnations: int
    gaps: tuple[tuple[int, Gap], ...]
    losses: tuple[Loss, ...]
    senders: tuple[Senders, int] | None
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    kept: Mapping[int, Record]
    identity: Identity | None = None

    @property
    def form(self) -> Form:
        """The form of its events."""
        return self.appearance.form

    @property
    def events(self) -> dict[str, int]:
        """How many events of each type there are."""
        return self.appearance.events


def show(context: Context, records: Records, areas: Iterable[Area]) -> Showing:
    """Show everything to the judges, in the documented order.

    What could not be read is a gap for those who follow the stream: a batch as a whole, or an event in its place.
    """
    showing = Showing(context, areas)
    for index, record in records:
        showing.allowance.now_ns = record.t_ns
        if record.frames is not None:
            showing.record(index, record)
    for incarnation in context.timeline.incarnations:
        showing.begins(incarnation)
        for step in incarnation.steps():
            if isinstance(step, Gap):
                showing.gap(step)
            else:
                showing.batch(step)
    for live in context.timeline.live:
        if live.record not in context.facts.copies:
            showing.live(live)
    showing.finish()
    return showing


class Showing:
    """Facts and judges that go along one stream, the facts first."""

    def __init__(self, context: Context, areas: Iterable[Area]) -> None:
        self.areas = tuple(areas)
        self.facts = context.facts
        self.muting = Muting(self.facts.offers, context.header.sets)
        self.appearance = Appearance()
        self.allowance = Allowance()
        self.forgotten = 0
        """How often what is resident was forgotten, for there was too much of it."""
        self._unlooked = 0
        self._moments = deque(self.facts.moments)
        self._life = -1

    def record(self, index: int, record: Record) -> None:
        """A message, as received."""
        for area in self.areas:
            area.on_record(index, record)

    def _mute(self, muted: frozenset[str]) -> None:
        for area in self.areas:
            area.muted = muted

    def _reach(self, place: Place) -> None:
        """What was done when the stream had not come to this place yet."""
        self._mute(frozenset())
        while self._moments and self._moments[0].place < place:
            moment = self._moments.popleft()
            for area in self.areas:
                area.on_stimulus(moment)

    def begins(self, incarnation: Incarnation) -> None:
        """An incarnation."""
        self._life = incarnation.index
        self._reach((incarnation.index, -1))
        self.facts.on_incarnation(incarnation)
        for area in self.areas:
            area.on_incarnation(incarnation)

    def gap(self, gap: Gap) -> None:
        """The next gap."""
        self._reach((self._life, gap.first))
        self._gap(gap)

    def _gap(self, gap: Gap) -> None:
        self._mute(frozenset())
        self.facts.on_gap(gap)
        for area in self.areas:
            area.on_gap(gap)

    def _hidden(self, batch: Batch) -> None:
        number = batch.number
        self._gap(Gap(first=number, last=number, attribution=Attribution.PUBLISHER, why="it cannot be read"))

    def batch(self, batch: Batch) -> None:
        """The next batch."""
        self._reach((self._life, batch.number))
        if self.full(len(batch.payload)):
            self.forget(batch.number)
        self.allowance.read(batch)
        self.appearance.add(batch.reading)
        stamped = self.muting.batch(batch)
        self._mute(stamped)
        for area in self.areas:
            area.on_batch(batch)
        foreign = self.facts.of_another(batch)
        if batch.reading.opaque or foreign:
            self._hidden(batch)
        self._events(batch, batch.reading.events, stamped)
        if foreign:
            self._hidden(batch)

    def full(self, size: int) -> bool:
        """Whether more is known to be resident than is followed, before a batch of so many bytes."""
        self._unlooked += size
        if self._unlooked <= LOOKED_BYTES:
            return False
        self._unlooked = 0
        return self.facts.ledger.known > RESIDENT

    def forget(self, number: int) -> None:
        """Nothing is known any more of what is resident before a batch."""
        self._gap(Gap(first=number, last=number - 1, attribution=Attribution.HARNESS, why=TOO_MANY))
        self.forgotten += 1

    @property
    def bounds(self) -> tuple[str, ...]:
        """What this harness left out for its own bounds."""
        beyond, forgotten = self.allowance.beyond, self.forgotten
        return (
            *([f"{beyond} batches with faults were not read: {SHOWN_ALL}"] if beyond else ()),
            *([f"what is resident was forgotten {forgotten} times: {TOO_MANY}"] if forgotten else ()),
        )

    def rest(self, batch: Batch, first: int) -> None:
        """The events of a batch from one on; those before it, and the batch itself, were taken another way."""
        self.allowance.read(batch, first)
        if batch.reading.opaque:
            self._hidden(batch)
        self.appearance.rest(batch.reading, first)
        self._events(batch, batch.reading.events[first:], frozenset())

    def _events(self, batch: Batch, events: Iterable[Event], stamped: frozenset[str]) -> None:
        for event in events:
            if event.opaque:
                self._hidden(batch)
            self.facts.on_event(event)
            self._mute(stamped | self.muting.event(batch, event))
            for area in self.areas:
                area.on_event(batch, event)
            self.facts.after_event(batch, event)

    def live(self, live: Live) -> None:
        """A live message, classified."""
        for area in self.areas:
            area.on_live(live)

    def finish(self) -> None:
        """The end of the trace."""
        self._reach(END)
        for area in self.areas:
            area.finish()

    @property
    def tallies(self) -> dict[str, Tally]:
        """What was counted so far, by requirement."""
        return {requirement: tally for area in self.areas for requirement, tally in area.tallies.items()}


def stated(header: Header, profile: Profile) -> Header:
    """The header under the form of a profile that has one."""
    if profile.form is None:
        return header
    return msgspec.structs.replace(header, statement=msgspec.structs.replace(header.statement, form=profile.form))
