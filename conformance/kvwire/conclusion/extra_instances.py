"""Other instances of the publisher that the harness attacked and listened to, as streams of their own to be judged.

What they show counts for the stream that is driven: it is the same publisher. What they leave open counts only where
nothing else was seen, and what they do not show says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kvwire.judges.verdict import Finding, Tally
from kvwire.standard.protocol import declared
from kvwire.trace.calls import BoundAt, StartCall
from kvwire.trace.marks import AttackBegins
from kvwire.trace.records import Header, Records, StreamInfo, told

SHOWN = ("queue", "hwm", "ring", "cap", "block_size", "capacity")
"""The options of ``start`` that a finding names."""


class Attacked(msgspec.Struct, frozen=True, kw_only=True):
    """One such instance: the stream it is judged as, the header with what it was started with, and what that was."""

    stream: StreamInfo
    header: Header
    where: str


def attacked(header: Header, instances: Mapping[str, Records]) -> Iterator[Attacked]:
    """Those of the other instances that were listened to, from their records by name."""
    for name, records in instances.items():
        starts = (start for _, start in told(records, StartCall) if start.succeeded)
        if any(told(records, AttackBegins)) and (start := next(starts, None)) is not None and start.bound is not None:
            yield _attacked(header, name, start, start.bound)


def _attacked(header: Header, name: str, start: StartCall, bound: BoundAt) -> Attacked:
    stream = StreamInfo(
        name=name,
        endpoint=bound.endpoint,
        replay=bound.replay,
        topic=bound.topic or "",
        rank=bound.rank or 0,
    )
    statement = header.statement.started(
        ring=start.ring, queue=start.queue, block_size=start.block_size, groups=declared(start.groups)
    )
    given = ((option, getattr(start, option)) for option in SHOWN)
    options = ", ".join([f"{option} {value}" for option, value in given if value is not None] + list(_engine(start)))
    return Attacked(
        stream=stream,
        header=msgspec.structs.replace(header, statement=statement, streams=(stream,)),
        where=f"{name}, started with {options}" if options else name,
    )


def _engine(start: StartCall) -> Iterator[str]:
    """Groups and tiers in words."""
    for group in start.groups or ():
        kind = group.kind or ("full_attention" if group.window is None else f"window of {group.window}")
        yield f"group {group.idx} ({kind}{'' if group.announced else ', not announced'})"
    for tier in start.tiers or ():
        yield f"{tier.capacity} blocks in {tier.medium}{'' if tier.announced else ', not announced'}"


def count(tally: Tally, other: Tally, where: str) -> None:
    """Let what an instance showed count for a tally of the driven stream."""
    tally.saw(other.witnesses - other.violations)
    for finding in other.findings:
        seen = f"{finding.seen} ({where})"
        tally.broke(Finding(expected=finding.expected, seen=seen, where=finding.where))
    missing = other.violations - len(other.findings)
    tally.violations += missing
    tally.witnesses += missing
    for note in other.notes:
        tally.note(note)
    if other.opened and not tally.witnesses:
        tally.open(f"{other.open_reason} ({where})")
