"""What a run would have shown at a lower level of control."""

from __future__ import annotations

import msgspec

from kvwire.standard.registry import ControlLevel
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import IdleDone, ReplayBehind, ReplayDone, ReplayRequest, ReplayResumed, Unreachable
from kvwire.trace.records import LIVE, Record, Source, Trace

_ASKED = (ReplayRequest, ReplayBehind, ReplayResumed, ReplayDone, Unreachable)


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
        if record.is_live or record.source == Source.HARNESS or isinstance(record.detail, IdleDone):
            return True
        if isinstance(record.detail, SocketEvent):
            return level == "replayable" or record.detail.of in LIVE
        return level == "replayable" and (record.is_replay or isinstance(record.detail, _ASKED))

    return Trace(header=header, records=tuple(filter(kept, trace.records)), interrupted=trace.interrupted)
