"""From records to outcomes: every judge on every stream, and what becomes of its tallies.

A stream that nobody drives is judged while it passes (``Passing``): what is settled is shown to the judges and
forgotten. Where the harness did something to the publisher, what it did is held against the whole trace (``show``). A
function of the records and the registry only, so that a live run and its recording get the same verdicts to the byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from kvwire.conclusion.description import Appearance, remarks
from kvwire.conclusion.extra_instances import attacked, count
from kvwire.conclusion.hearing import of_stream
from kvwire.conclusion.muting import Muting
from kvwire.conclusion.outcome import outcome
from kvwire.history.follower import HORIZON, Entry, Follower, Horizon
from kvwire.history.losses import Loss, losses
from kvwire.history.progress import END, Place
from kvwire.history.ranges import Ranges
from kvwire.history.timeline import Attribution, Batch, Gap, Incarnation, Live
from kvwire.judges import AREAS, JUDGES
from kvwire.judges.area import Area, Context
from kvwire.judges.hashing import Hashing
from kvwire.judges.step import Step
from kvwire.judges.verdict import Outcome, Tally
from kvwire.standard.registry import Profile, Registry
from kvwire.trace.records import Header, Record, Records, StreamInfo, Trace
from kvwire.wire.events import Form
from kvwire.wire.framing import number_of


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, judged. ``kept`` are the messages in which findings were made, by record."""

    stream: StreamInfo
    appearance: Appearance
    incarnations: int
    gaps: tuple[tuple[int, Gap], ...]
    losses: tuple[Loss, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    kept: Mapping[int, Record]

    @property
    def form(self) -> Form:
        """The form of its events."""
        return self.appearance.form


def records_of(trace: Trace, stream: str) -> Records:
    """The records of one stream, with their indices in the trace."""
    return of_stream(enumerate(trace.records), stream)


def _others(trace: Trace, stream: str) -> tuple[dict[str, Ranges], dict[str, Records]]:
    """The numbers of declared streams, where there are several, and the records of others: of other instances."""
    declared = {info.name for info in trace.header.streams}
    found: dict[str, list[tuple[int, Record]]] = {}
    for index, record in enumerate(trace.records):
        if record.stream:
            found.setdefault(record.stream, []).append((index, record))
    several = found.keys() & declared - {stream}
    return (
        {name: Ranges.of(records) for name, records in found.items() if name in declared} if several else {},
        {name: records for name, records in found.items() if name not in declared},
    )


def show(context: Context, records: Records, areas: Iterable[Area]) -> Showing:
    """Show everything to the judges, in the documented order.

    What could not be read is a gap for those who follow the stream: a batch as a whole, or an event in its place.
    """
    showing = Showing(context, areas)
    for index, record in records:
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
        self.facts.on_gap()
        for area in self.areas:
            area.on_gap(gap)

    def _hidden(self, batch: Batch) -> None:
        number = batch.number
        self._gap(Gap(first=number, last=number, attribution=Attribution.PUBLISHER, why="it cannot be read"))

    def batch(self, batch: Batch) -> None:
        """The next batch."""
        self._reach((self._life, batch.number))
        self.appearance.add(batch.reading)
        stamped = self.muting.batch(batch)
        self._mute(stamped)
        for area in self.areas:
            area.on_batch(batch)
        if batch.reading.opaque:
            self._hidden(batch)
        for event in batch.reading.events:
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


# --- streams that pass -------------------------------------------------------------------------------------------


def passes(header: Header) -> bool:
    """Whether nothing is done to the publisher of a run, so that its streams are judged while they pass."""
    return not header.can


class Passing:
    """One stream that nobody drives, judged while it passes."""

    def __init__(
        self,
        header: Header,
        stream: StreamInfo,
        registry: Registry,
        profile: Profile,
        *,
        numbers: Mapping[str, Ranges] | None = None,
        replays: bool | None = None,
        horizon: Horizon = HORIZON,
    ) -> None:
        self.stream = stream
        self.registry = registry
        self.profile = profile
        self.header = stated(header, profile)
        self._numbers = {} if numbers is None else numbers
        context = Context.passing(self.header, stream, registry, numbers=self._numbers)
        self.facts = context.facts
        self.showing = Showing(context, [area(context) for area in AREAS])
        self._listeners = [area for area in self.showing.areas if type(area).on_record is not Area.on_record]
        self.follower = Follower(
            self, replay=stream.replay is not None if replays is None else replays, horizon=horizon
        )
        self._horizon = horizon
        self.step = Step()
        self.last_t_ns: int | None = None
        """When the last live message came."""
        self._last: bytes | None = None
        """The frame of its number."""
        self._records: list[tuple[int, Record]] = []
        """What is told beside messages, and the messages of replays."""
        self._bytes = 0

    def take(self, index: int, record: Record) -> None:
        """Take the next record of the stream."""
        frames = record.frames
        if frames is None:
            self._records.append((index, record))
            self.follower.take(index, record)
            return
        facts = self.facts
        copies = facts.copies
        assert isinstance(copies, set)
        copies.clear()
        if not record.is_live:
            if record.is_replay:
                self._records.append((index, record))
            facts.recent[index] = record
            self.follower.take(index, record)
            self._show(index, record)
            return
        self.last_t_ns = record.t_ns
        self._last = frames[1] if len(frames) > 1 else None
        if self.follower.is_copy(index, record):
            copies.add(index)
            self.follower.take(index, record)
        else:
            facts.recent[index] = record
            self.follower.take(index, record)
        self._show(index, record)

    def _show(self, index: int, record: Record) -> None:
        self._bytes += len(record.frames[-1]) if record.frames else 0
        if self._bytes > self._horizon.bytes or len(self.facts.recent) > 2 * self._horizon.batches:
            self._forget()
        for area in self._listeners:
            area.on_record(index, record)

    def _forget(self) -> None:
        """Forget the oldest half of the messages, and of replays what is older than the rest."""
        recent = self.facts.recent
        for index in list(islice(recent, len(recent) - len(recent) // 2)):
            del recent[index]
        self._bytes = sum(len(record.frames[-1]) for record in recent.values() if record.frames)
        size = sum(len(record.frames[-1]) for _, record in self._records if record.frames)
        if size > self._horizon.bytes:
            oldest = next(iter(recent), 0)
            kept = [(index, record) for index, record in self._records if record.frames is None or index >= oldest]
            self.follower.beyond["messages of replays that are older"] += len(self._records) - len(kept)
            self._records = kept

    @property
    def last_number(self) -> int | None:
        """The number of the last live message."""
        return None if self._last is None else number_of(self._last)

    @property
    def function(self) -> str | None:
        """The hash function that enough blocks show."""
        hashing = next(area for area in self.showing.areas if isinstance(area, Hashing))
        main = hashing.parity.main
        return None if main is None else main.name

    # what is settled

    def begins(self, incarnation: Incarnation) -> None:
        """An incarnation."""
        self.showing.begins(incarnation)

    def entry(self, number: int, entry: Entry) -> None:
        """The next batch, which came live and ascending."""
        self.showing.batch(
            Batch(number=number, payload=entry.payload, record=entry.first, live=entry.first, seen_by=entry.seen_by)
        )

    def batch(self, batch: Batch) -> None:
        """The next batch."""
        self.showing.batch(batch)

    def gap(self, gap: Gap) -> None:
        """The next gap."""
        self.showing.gap(gap)

    def in_order(self) -> None:
        """A live message under a number that rises."""
        self.step.in_order += 1

    def live(self, live: Live) -> None:
        """A live message that was classified."""
        self.showing.live(live)

    def flush(self) -> None:
        """Tell the areas what was counted in bulk."""
        step, self.step = self.step, Step()
        for area in self.showing.areas:
            area.on_step(step)

    # the end

    def judged(self, only: frozenset[str] | None = None) -> Judged:
        """The stream is over."""
        timeline = self.follower.finish()
        self.flush()
        self.facts.complete(self._records, timeline)
        self.showing.finish()
        lived = self.follower.lived
        return Judged(
            stream=self.stream,
            appearance=self.showing.appearance,
            incarnations=len(lived),
            gaps=tuple((one.index, gap) for one in lived for gap in one.gaps),
            losses=tuple(self.follower.losses),
            outcomes=self.outcomes(only),
            notes=(
                *remarks(self.showing.appearance, self.showing.muting, self._records),
                *self.follower.notes(),
            ),
            kept=self.facts.kept,
        )

    def outcomes(self, only: frozenset[str] | None = None) -> tuple[Outcome, ...]:
        """The outcomes of what was judged so far."""
        self.flush()
        return _outcomes(
            self.stream,
            self.showing.tallies,
            self.header,
            self.showing.appearance.form,
            self.registry,
            self.profile,
            only,
        )


def _outcomes(
    stream: StreamInfo,
    tallies: Mapping[str, Tally],
    header: Header,
    form: Form,
    registry: Registry,
    profile: Profile,
    only: frozenset[str] | None,
) -> tuple[Outcome, ...]:
    return tuple(
        outcome(requirement, stream, tallies.get(requirement.id, Tally()), header, form, profile)
        for requirement in registry.binding("publisher")
        if requirement.id in JUDGES and (only is None or requirement.id in only)
    )


# --- streams that were driven ------------------------------------------------------------------------------------


def judge_stream(
    trace: Trace, stream: StreamInfo, registry: Registry, profile: Profile, only: frozenset[str] | None = None
) -> Judged:
    """Judge one stream of a trace by every publisher-binding sentence that has a judge."""
    numbers, instances = _others(trace, stream.name)
    if passes(trace.header):
        passing = Passing(trace.header, stream, registry, profile, numbers=numbers)
        for index, record in records_of(trace, stream.name):
            passing.take(index, record)
        return passing.judged(only)
    header, records = stated(trace.header, profile), records_of(trace, stream.name)
    context = Context.of(header, stream, records, registry, numbers=numbers, instances=instances)
    showing = show(context, records, [area(context) for area in AREAS])
    tallies = showing.tallies
    if stream == header.streams[0]:
        for other in attacked(header, instances):
            beside = instances[other.stream.name]
            apart = Context.of(other.header, other.stream, beside, registry)
            for requirement, tally in show(apart, beside, [area(apart) for area in AREAS]).tallies.items():
                count(tallies.setdefault(requirement, Tally()), tally, other.where)
    lives = context.timeline.incarnations
    return Judged(
        stream=stream,
        appearance=showing.appearance,
        incarnations=len(lives),
        gaps=tuple((life.index, gap) for life in lives for gap in life.gaps),
        losses=tuple(losses(context.timeline)),
        outcomes=_outcomes(stream, tallies, header, showing.appearance.form, registry, profile, only),
        notes=remarks(showing.appearance, showing.muting, records),
        kept={},
    )
