"""One run after another as two lives of one publisher: nothing of the first is anything of the second."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec

from kvwire.history.segments import DISCONNECTED, HANDSHAKE
from kvwire.trace.detail import Detail, SocketEvent
from kvwire.trace.records import LIVE, Record, Source, Trace
from kvwire.wire.framing import stamp_of

LATER_S = 1000.0
"""So much later the second life has its batches."""
AGAIN = "000"
"""What makes other replay clients of those of the first life."""


def two_lives(recording: Trace, cut: int) -> Trace:
    """The first records of a run; then, behind an end of every connection, the whole run once more, and later."""
    first = recording.records[:cut]
    t_ns = first[-1].t_ns
    between: list[Record] = []
    for stream in recording.header.streams:
        for event in (DISCONNECTED, HANDSHAKE):
            for witness in LIVE:
                t_ns += 1_000_000
                detail = SocketEvent(event=event, of=witness)
                between.append(Record(t_ns=t_ns, source=Source.MONITOR, stream=stream.name, detail=detail))
    later = t_ns + 1_000_000 - recording.records[0].t_ns
    second = (_again(record, later) for record in recording.records)
    return msgspec.structs.replace(recording, records=(*first, *between, *second))


def _again(record: Record, later: int) -> Record:
    changed: dict[str, Any] = {"t_ns": record.t_ns + later}
    if record.is_replay:
        changed["source"] = record.source + AGAIN
    if record.frames is not None:
        changed["frames"] = _stamped(record.frames)
    if record.detail is not None:
        changed["detail"] = _renamed(record.detail)
    return msgspec.structs.replace(record, **changed)


def _stamped(frames: Sequence[bytes]) -> tuple[bytes, ...]:
    *others, payload = frames
    stamp = stamp_of(payload)
    if stamp is None:
        return tuple(frames)
    (seconds,) = struct.unpack(">d", stamp)
    return (*others, payload[:2] + struct.pack(">d", seconds + LATER_S) + payload[10:])


def _renamed(detail: Detail) -> Detail:
    names = {name: getattr(detail, name, None) for name in ("client", "connection", "of")}
    clients = {name: said for name, said in names.items() if isinstance(said, str) and said.startswith("replay-")}
    return msgspec.structs.replace(detail, **{name: said + AGAIN for name, said in clients.items()})
