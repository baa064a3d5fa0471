"""A stream that nobody drives, judged as a whole trace would be: what one pass over it must come to, too."""

from __future__ import annotations

from typing import Any

from kvwire.conclusion.judging import records_of
from kvwire.conclusion.passing import Passing
from kvwire.conclusion.showing import Showing, show
from kvwire.history.follower import HORIZON, Horizon
from kvwire.history.ranges import Ranges
from kvwire.judges import AREAS
from kvwire.judges.area import Context
from kvwire.judges.verdict import Tally
from kvwire.standard import registry
from kvwire.standard.registry import Profile
from kvwire.trace.records import StreamInfo, Trace

Told = dict[str, tuple[Any, ...]]


def told(tallies: dict[str, Tally]) -> Told:
    """What was counted and found, by requirement; what nobody asked for is left out."""
    found = {
        requirement: (
            tally.witnesses,
            tally.violations,
            tally.opened,
            tally.open_reason,
            tuple(tally.findings),
            tuple(tally.notes),
        )
        for requirement, tally in tallies.items()
    }
    return {requirement: said for requirement, said in found.items() if any(said)}


def _numbers(trace: Trace) -> dict[str, Ranges]:
    names = [stream.name for stream in trace.header.streams]
    return {name: Ranges.of(records_of(trace, name)) for name in names} if len(names) > 1 else {}


def whole(trace: Trace, stream: StreamInfo) -> Showing:
    """The stream, laid out as a whole and shown to every judge, batch by batch."""
    records = records_of(trace, stream.name)
    context = Context.of(trace.header, stream, records, registry.load(), numbers=_numbers(trace))
    return show(context, records, [area(context) for area in AREAS])


def passing(
    trace: Trace, stream: StreamInfo, profile: Profile, *, quick: bool = True, horizon: Horizon = HORIZON
) -> Passing:
    """Whoever judges the stream while it passes, before its first record."""
    found = Passing(trace.header, stream, registry.load(), profile, numbers=_numbers(trace), horizon=horizon)
    found.quick.able = found.quick.able and quick
    return found
