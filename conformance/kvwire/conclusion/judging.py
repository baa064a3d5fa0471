"""From a trace to outcomes: every judge on every stream, and what becomes of its tallies.

A function of the trace and the registry only, so that a live run and its recording get the same verdicts to the byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from kvwire.conclusion.description import count_events, form_of, remarks
from kvwire.conclusion.extra_instances import attacked, count
from kvwire.conclusion.muting import Muting
from kvwire.conclusion.outcome import outcome
from kvwire.history.progress import END, Place
from kvwire.history.timeline import Attribution, Batch, Gap, Incarnation, Timeline
from kvwire.judges import AREAS, JUDGES
from kvwire.judges.area import Area, Context
from kvwire.judges.verdict import Outcome, Tally
from kvwire.standard.registry import Profile, Registry
from kvwire.trace.records import Record, Records, StreamInfo, Trace
from kvwire.wire.events import Form


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, judged."""

    stream: StreamInfo
    timeline: Timeline
    form: Form
    events: dict[str, int]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]


def records_of(trace: Trace, stream: str) -> list[tuple[int, Record]]:
    """The records of one stream, with their indices in the trace; those of no stream belong to every one."""
    return [(index, record) for index, record in enumerate(trace.records) if record.stream in ("", stream)]


def _others(trace: Trace, stream: str) -> tuple[dict[str, Records], dict[str, Records]]:
    """The records of the other declared streams, and those of streams that are not declared: other instances."""
    declared = {info.name for info in trace.header.streams}
    found: dict[str, list[tuple[int, Record]]] = {}
    for index, record in enumerate(trace.records):
        if record.stream not in ("", stream):
            found.setdefault(record.stream, []).append((index, record))
    return (
        {name: records for name, records in found.items() if name in declared},
        {name: records for name, records in found.items() if name not in declared},
    )


def show(context: Context, records: Records, areas: Iterable[Area]) -> Muting:
    """Show everything to the judges, in the documented order.

    What could not be read is a gap for those who follow the stream: a batch as a whole, or an event in its place.
    """
    showing = _Showing(context, areas)
    for index, record in records:
        for area in showing.areas:
            area.on_record(index, record)
    for incarnation in context.timeline.incarnations:
        showing.incarnation(incarnation)
    showing.finish()
    return showing.muting


class _Showing:
    """Facts and judges that go along one stream, the facts first."""

    def __init__(self, context: Context, areas: Iterable[Area]) -> None:
        self.areas = tuple(areas)
        self.facts = context.facts
        self.muting = Muting(self.facts.offers, context.header.sets)
        self._moments = deque(self.facts.moments)

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

    def incarnation(self, incarnation: Incarnation) -> None:
        self._reach((incarnation.index, -1))
        self.facts.on_incarnation(incarnation)
        for area in self.areas:
            area.on_incarnation(incarnation)
        for step in incarnation.steps():
            if isinstance(step, Gap):
                self._reach((incarnation.index, step.first))
                self._gap(step)
            else:
                self._reach((incarnation.index, step.number))
                self._batch(step)

    def _gap(self, gap: Gap) -> None:
        self._mute(frozenset())
        self.facts.on_gap()
        for area in self.areas:
            area.on_gap(gap)

    def _hidden(self, batch: Batch) -> None:
        number = batch.number
        self._gap(Gap(first=number, last=number, attribution=Attribution.PUBLISHER, why="it cannot be read"))

    def _batch(self, batch: Batch) -> None:
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

    def finish(self) -> None:
        self._reach(END)
        for area in self.areas:
            area.finish()


def judge_stream(
    trace: Trace, stream: StreamInfo, registry: Registry, profile: Profile, only: frozenset[str] | None = None
) -> Judged:
    """Judge one stream of a trace by every publisher-binding sentence that has a judge."""
    header, records = trace.header, records_of(trace, stream.name)
    if profile.form is not None:
        statement = msgspec.structs.replace(header.statement, form=profile.form)
        header = msgspec.structs.replace(header, statement=statement)
    siblings, instances = _others(trace, stream.name)
    context = Context.of(header, stream, records, registry, siblings=siblings, instances=instances)
    tallies, muting = _tallied(context, records)
    if stream == header.streams[0]:
        for other in attacked(header, instances):
            beside = instances[other.stream.name]
            shown, _ = _tallied(Context.of(other.header, other.stream, beside, registry), beside)
            for requirement, tally in shown.items():
                count(tallies.setdefault(requirement, Tally()), tally, other.where)
    form = form_of(context.timeline)
    return Judged(
        stream=stream,
        timeline=context.timeline,
        form=form,
        events=count_events(context.timeline),
        outcomes=tuple(
            outcome(requirement, stream, tallies.get(requirement.id, Tally()), header, form, profile)
            for requirement in registry.binding("publisher")
            if requirement.id in JUDGES and (only is None or requirement.id in only)
        ),
        notes=remarks(context, muting, records),
    )


def _tallied(context: Context, records: Records) -> tuple[dict[str, Tally], Muting]:
    areas = [area(context) for area in AREAS]
    muting = show(context, records, areas)
    return {requirement: tally for area in areas for requirement, tally in area.tallies.items()}, muting
