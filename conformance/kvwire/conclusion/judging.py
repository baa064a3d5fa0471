"""From a trace to outcomes: every judge on every stream, and what becomes of its tallies.

A function of the trace and the registry only, so that a live run and its recording get the same verdicts to the byte.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kvwire.conclusion.extra_instances import Attacked, attacked, count
from kvwire.history import timeline as timelines
from kvwire.history.timeline import Attribution, Batch, Gap, Timeline
from kvwire.judges import AREAS, TABLE
from kvwire.judges.area import Area, Context
from kvwire.judges.verdict import Outcome, Reason, Tally, Verdict
from kvwire.standard.registry import Profile, Registry, Requirement
from kvwire.standard.statement import Statement
from kvwire.trace.instances import fell_silent
from kvwire.trace.marks import Joined
from kvwire.trace.records import Header, Record, Records, StreamInfo, Trace, told
from kvwire.trace.stimuli import Offer, offers, same_event
from kvwire.wire.events import FULL_KINDS, TWO_64, Event, Form

LEGACY_EXEMPT = frozenset({"KVW-EVT-002", "KVW-EVT-003", "KVW-EVT-005", "KVW-EVT-006", "KVW-EVT-018", "KVW-HSH-009"})
"""Sentences about map keys, which array events cannot break."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, judged."""

    stream: StreamInfo
    timeline: Timeline
    form: Form
    events: dict[str, int]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]


class _Offered:
    """Tells which batches and events on the wire are what the harness offered.

    An event is, as often as it was offered before it was seen. A rank is the harness's only where the adapter says
    that it passes one on.
    """

    def __init__(self, offered: Sequence[Offer], sets: Iterable[str]) -> None:
        self._stamps = {offer.ts for offer in offered}
        self._ranks = {offer.rank for offer in offered if "rank" in sets}
        self._events: dict[tuple[Any, ...], list[tuple[int, Mapping[str, Any]]]] = {}
        for offer in offered:
            for event in offer.events:
                self._events.setdefault(self._key(event), []).append((offer.record, event))
        self.any = bool(offered)
        self.ours = 0
        self.theirs = 0

    @staticmethod
    def _key(event: Mapping[str, Any]) -> tuple[Any, ...]:
        hashes = event.get("block_hashes") or ()
        return event.get("type"), tuple(value % TWO_64 for value in hashes if isinstance(value, int))

    def batch(self, batch: Batch) -> frozenset[str]:
        """``ts`` when the harness stamped the batch, ``rank`` when it is the one that the harness passed."""
        ours: set[str] = set()
        ts = batch.reading.ts
        if ts is not None and struct.pack(">d", ts) in self._stamps:
            ours.add("ts")
        if batch.reading.rank in self._ranks:
            ours.add("rank")
        return frozenset(ours)

    def event(self, batch: Batch, event: Event) -> frozenset[str]:
        """``engine`` when the event is what was offered; anything else is the publisher's own."""
        if not self.any:
            return frozenset()
        candidates = self._events.get((event.tag, event.hashes), [])
        for at, (record, offered) in enumerate(candidates):
            if record < batch.record and same_event(offered, event):
                del candidates[at]
                self.ours += 1
                return frozenset({"engine"})
        self.theirs += 1
        return frozenset()


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


def run_areas(areas: Iterable[Area], context: Context, records: Sequence[tuple[int, Record]]) -> _Offered:
    """Show everything to the judges, in the documented order.

    What could not be read is a gap for those who follow the stream: a batch as a whole, or an event in its place.
    """
    areas = list(areas)
    for index, record in records:
        for area in areas:
            area.on_record(index, record)
    offered = _Offered(offers(records), context.header.sets)
    for incarnation in context.timeline.incarnations:
        for area in areas:
            area.muted = frozenset()
            area.on_incarnation(incarnation)
        for step in incarnation.steps():
            if isinstance(step, Gap):
                _skip(areas, step)
                continue
            stamped = offered.batch(step)
            for area in areas:
                area.muted = stamped
                area.on_batch(step)
            if step.reading.opaque:
                _hide(areas, step)
            for event in step.reading.events:
                if event.opaque:
                    _hide(areas, step)
                muted = stamped | offered.event(step, event)
                for area in areas:
                    area.muted = muted
                    area.on_event(step, event)
    for area in areas:
        area.muted = frozenset()
        area.finish()
    return offered


def _hide(areas: Iterable[Area], batch: Batch) -> None:
    number = batch.number
    hidden = Gap(first=number, last=number, attribution=Attribution.PUBLISHER, why="it cannot be read")
    _skip(areas, hidden)


def _skip(areas: Iterable[Area], gap: Gap) -> None:
    for area in areas:
        area.muted = frozenset()
        area.on_gap(gap)


def judge_stream(
    trace: Trace, stream: StreamInfo, registry: Registry, profile: Profile, only: frozenset[str] | None = None
) -> Judged:
    """Judge one stream of a trace by every publisher-binding sentence that has a judge."""
    records = records_of(trace, stream.name)
    timeline = timelines.build(records)
    siblings, instances = _others(trace, stream.name)
    context = Context(
        header=trace.header,
        stream=stream,
        registry=registry,
        timeline=timeline,
        siblings=siblings,
        instances=instances,
    )
    tallies, offered = _judged(context, records)
    if stream == trace.header.streams[0]:
        for other in attacked(trace.header, instances):
            for requirement, tally in _judged_beside(other, instances[other.stream.name], registry).items():
                count(tallies.setdefault(requirement, Tally()), tally, other.where)
    form = _form(timeline)
    outcomes = tuple(
        outcome(requirement, stream, tallies.get(requirement.id, Tally()), trace.header, form, profile)
        for requirement in registry.binding("publisher")
        if requirement.id in TABLE and (only is None or requirement.id in only)
    )
    return Judged(
        stream=stream,
        timeline=timeline,
        form=form,
        events=_count(timeline),
        outcomes=outcomes,
        notes=_notes(context, offered, records),
    )


def _judged(context: Context, records: Records) -> tuple[dict[str, Tally], _Offered]:
    areas = [area(context) for area in AREAS]
    offered = run_areas(areas, context, records)
    tallies: dict[str, Tally] = {}
    for area in areas:
        tallies.update(area.tallies)
    return tallies, offered


def _judged_beside(other: Attacked, records: Records, registry: Registry) -> dict[str, Tally]:
    """What the judges say of an instance that was attacked beside the one under test."""
    timeline = timelines.build(records)
    context = Context(header=other.header, stream=other.stream, registry=registry, timeline=timeline)
    tallies, _ = _judged(context, records)
    return tallies


def _count(timeline: Timeline) -> dict[str, int]:
    return dict(sorted(Counter(event.tag or "(untagged)" for _, _, event in timelines.events(timeline)).items()))


def _form(timeline: Timeline) -> Form:
    forms = {
        batch.reading.form
        for incarnation in timeline.incarnations
        for batch in incarnation.batches
        if batch.reading.events
    }
    if not forms:
        return "none"
    if len(forms) == 1:
        return forms.pop()
    for legacy in ("array-v", "array-s"):
        if forms <= {"array", legacy}:
            return legacy
    return "mixed"


def _notes(context: Context, offered: _Offered, records: Records) -> tuple[str, ...]:
    notes: list[str] = []
    name, timeline = context.stream.name, context.timeline
    if context.siblings and (said := fell_silent({name: records, **context.siblings}).get(name)) is not None:
        notes.append(said)
    if offered.any:
        notes.append(f"{offered.ours} events are what was offered, {offered.theirs} are the publisher's own")
    unknown = sorted({event.tag for _, _, event in timelines.events(timeline) if event.kind == "unknown" and event.tag})
    if unknown:
        notes.append(f"event types that edition 1 does not know: {', '.join(unknown)}")
    joined = [joiner for _, joiner in told(records, Joined)]
    if joined:
        same = sum(j.settled and j.complete and not j.missing and not j.extra for j in joined)
        notes.append(f"{same} of {len(joined)} late joiners rebuilt what one knew that had joined before them")
    return tuple(notes)


def applicable(requirement: Requirement, stream: StreamInfo, header: Header) -> bool:
    """Whether this run has the control over the stream that the sentence needs."""
    have = {"passive", *header.can}
    if stream.replay is not None:
        have.add("replayable")
    return set(requirement.needs) <= have


WHEN_ANNOUNCED = frozenset({"KVW-HSH-003", "KVW-HSH-004", "KVW-HSH-007"})
"""Sentences about what is announced in ``hash_algo``, for streams that announce anything."""


def unclaimed(requirement: str, stream: StreamInfo, statement: Statement) -> Reason | None:
    """Why a sentence without a witness does not speak of this stream; None when it does.

    A sentence with a condition applies where the condition is declared, or seen (and then it has a witness).
    """
    match requirement:
        case "KVW-ENV-003" if stream.topic is None:
            return Reason.NOT_CLAIMED
        case "KVW-RNK-003" if stream.rank is None:
            return Reason.NOT_CLAIMED
        case "KVW-SEQ-010" | "KVW-RES-007" | "KVW-RES-008":
            return Reason.NOT_USED
        case "KVW-LIV-002" if statement.bounds.heartbeat_s is None:
            return Reason.NOT_CLAIMED
        case "KVW-RES-001" | "KVW-RES-002" if statement.residency == "counted":
            return Reason.NOT_CLAIMED
        case "KVW-RES-004" if statement.residency == "set":
            return Reason.NOT_CLAIMED
        case "KVW-CHN-002" if not any(
            group.window is not None or group.kind not in FULL_KINDS for group in statement.groups
        ):
            return Reason.NOT_CLAIMED
        case "KVW-HSH-001" | "KVW-HSH-002" if statement.algorithm == "opaque":
            return Reason.NOT_CLAIMED
        case "KVW-HSH-002" if statement.algorithm is None:
            return Reason.NOT_USED
        case "KVW-REP-014" if "end_payload" in statement.extensions:
            return Reason.NOT_CLAIMED
        case "KVW-END-014" | "KVW-EXP-002":  # no ephemeral port was given; nothing is reachable more widely
            return Reason.NOT_USED
        case _ if requirement in WHEN_ANNOUNCED:
            return Reason.NOT_USED
        case _:
            return None


def outcome(
    requirement: Requirement, stream: StreamInfo, tally: Tally, header: Header, form: Form, profile: Profile
) -> Outcome:
    """The verdict of one tally: no witness is INCONCLUSIVE, never PASS.

    What the adapter writes itself (``envelope``, ``encoder``) is never the publisher's. Of events, ``ts`` and rank the
    tally holds only what was not the harness's choice, so that a violation among them counts.
    """

    def verdict(value: Verdict, reason: str = "") -> Outcome:
        return Outcome(
            requirement=requirement.id,
            stream=stream.name,
            verdict=value,
            witnesses=tally.witnesses,
            violations=tally.violations,
            reason=reason,
            findings=tally.findings,
            notes=tally.notes,
        )

    if requirement.id not in profile.ids:
        return Outcome(
            requirement=requirement.id, stream=stream.name, verdict=Verdict.NOT_APPLICABLE, reason=Reason.NOT_CLAIMED
        )
    if not applicable(requirement, stream, header):
        return Outcome(
            requirement=requirement.id, stream=stream.name, verdict=Verdict.NOT_APPLICABLE, reason=Reason.BEYOND
        )
    if requirement.decided_by in header.sets and requirement.decided_by in ("envelope", "encoder"):
        return Outcome(
            requirement=requirement.id, stream=stream.name, verdict=Verdict.NOT_APPLICABLE, reason=Reason.OURS
        )
    if tally.violations:
        return verdict(Verdict.FAIL if requirement.mandatory else Verdict.WARN)
    if form in ("array", "array-v", "array-s") and requirement.id in LEGACY_EXEMPT:
        return verdict(Verdict.NOT_APPLICABLE, Reason.LEGACY)
    if tally.opened:
        return verdict(Verdict.INCONCLUSIVE, tally.open_reason)
    if tally.witnesses:
        return verdict(Verdict.PASS)
    if requirement.decided_by in header.sets:
        return verdict(Verdict.NOT_APPLICABLE, Reason.OURS)
    if requirement.level == "MAY":
        return verdict(Verdict.NOT_APPLICABLE, Reason.NOT_USED)
    if (reason := unclaimed(requirement.id, stream, header.statement)) is not None:
        return verdict(Verdict.NOT_APPLICABLE, reason)
    return verdict(Verdict.INCONCLUSIVE, "nothing was seen that could have broken it")
