"""From records to outcomes: every judge on every stream, and what becomes of its tallies.

A stream that nobody drives is judged while it passes (``passing``). Where the harness did something to the publisher,
what it did is held against the whole trace (``showing``). A function of the records and the registry only, so that a
live run and its recording get the same verdicts to the byte.
"""

from __future__ import annotations

from kvwire.conclusion.description import remarks
from kvwire.conclusion.extra_instances import attacked, count
from kvwire.conclusion.hearing import of_stream
from kvwire.conclusion.outcome import outcomes
from kvwire.conclusion.passing import Passing, passes
from kvwire.conclusion.showing import Judged, show, stated
from kvwire.history.losses import losses
from kvwire.history.ranges import Ranges
from kvwire.judges import AREAS
from kvwire.judges.area import Context
from kvwire.judges.verdict import Tally
from kvwire.standard.registry import Profile, Registry
from kvwire.trace.records import Record, Records, StreamInfo, Trace


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
        {name: Ranges.of(found.get(name, ())) for name in sorted(declared)} if several else {},
        {name: records for name, records in found.items() if name not in declared},
    )


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
    lives, found = context.timeline.incarnations, context.facts.senders
    return Judged(
        stream=stream,
        appearance=showing.appearance,
        incarnations=len(lives),
        gaps=tuple((life.index, gap) for life in lives for gap in life.gaps),
        losses=tuple(losses(context.timeline)),
        senders=None if found is None else (found, trace.records[found.record].t_ns),
        outcomes=outcomes(stream, tallies, header, showing.appearance.form, registry, profile, only),
        notes=(*remarks(showing.appearance, showing.muting, records), *showing.bounds),
        kept={},
    )
