"""What a run would have shown at a lower level of control."""

from __future__ import annotations

import msgspec

from kvwire.standard.registry import ControlLevel
from kvwire.trace.records import LIVE, Record, Source, Trace

_WAITED = frozenset({"idle-done"})
"""What takes nothing but to listen."""
_ASKED = frozenset({"replay-request", "replay-behind", "replay-resumed", "replay-done", "unreachable"})


def lowered(trace: Trace, level: ControlLevel) -> Trace:
    """What the same run would have shown at a lower level of control: the records that need more are left out.

    ``passive`` keeps live messages and their monitors, ``replayable`` replay requests and answers too. What the
    publisher declares is kept, and what the harness says of itself. Other instances need an adapter.
    """
    if level == "driven":
        return trace
    declared = {"", *(stream.name for stream in trace.header.streams)}
    header = msgspec.structs.replace(trace.header, level=level, can=(), sets=(), life_from_start=False)
    if level == "passive":
        streams = tuple(msgspec.structs.replace(stream, replay=None) for stream in header.streams)
        header = msgspec.structs.replace(header, streams=streams)

    def kept(record: Record) -> bool:
        if record.stream not in declared:
            return False
        if record.is_live or record.source == Source.HARNESS or record.event in _WAITED:
            return True
        if record.source == Source.MONITOR:
            return level == "replayable" or record.detail.get("of") in LIVE
        return level == "replayable" and (record.is_replay or record.event in _ASKED)

    return Trace(header=header, records=tuple(filter(kept, trace.records)), interrupted=trace.interrupted)
