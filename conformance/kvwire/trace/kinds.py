"""Every kind of detail, and how it is read: by the source and the event of its record."""

from __future__ import annotations

import msgspec

from kvwire.trace import calls, marks
from kvwire.trace.detail import Detail, SocketEvent, UnknownDetail

KINDS: tuple[type[Detail], ...] = (
    calls.HelloCall,
    calls.StartCall,
    calls.PublishCall,
    calls.BurstCall,
    calls.CacheCall,
    calls.ResidentCall,
    calls.ResetCall,
    calls.FaultCall,
    calls.StatsCall,
    calls.RestartCall,
    calls.StopCall,
    marks.ResetDone,
    marks.TailDone,
    marks.LiveAwaited,
    marks.IdleDone,
    marks.Primed,
    marks.Settled,
    marks.Unreachable,
    marks.ReplayRequest,
    marks.ReplayBehind,
    marks.ReplayDone,
    marks.ReplayResumed,
    marks.ReplayKilled,
    marks.ReplayLoad,
    marks.Joined,
    marks.AttackBegins,
    marks.StrainBegins,
    marks.StrainDone,
    marks.BurstBegins,
    marks.Ranks,
    marks.Reach,
    marks.Looked,
    marks.Ports,
    marks.Freed,
    marks.EndpointSeen,
    marks.Trouble,
    marks.ProbeMark,
    marks.Witnesses,
    marks.ProcessStart,
    marks.ProcessExit,
    marks.Noise,
)
"""The kinds of known event; monitors have words of their own."""


class _Monitored(msgspec.Struct, frozen=True):
    of: str = "live-a"


_decoders = {(kind.SOURCE, kind.EVENT): msgspec.json.Decoder(kind) for kind in KINDS}
_monitored = msgspec.json.Decoder(_Monitored)
_raw = msgspec.json.Decoder(dict[str, object])
_encode = msgspec.json.Encoder(order="sorted").encode


def read(source: str, event: str, fields: bytes) -> Detail:
    """The detail of a record, from the JSON object that stands in its file. Fields that a kind does not know are left.

    Raises:
        msgspec.ValidationError: when a field of a known kind is missing or of a wrong type; the message names it.
    """
    if source == SocketEvent.SOURCE:
        return SocketEvent(event=event, of=_monitored.decode(fields).of)
    decoder = _decoders.get((source, event))
    return UnknownDetail(event=event, raw=_raw.decode(fields)) if decoder is None else decoder.decode(fields)


def written(detail: Detail) -> bytes:
    """A detail as it stands in the file: a JSON object, its keys sorted."""
    return _encode(detail.fields)
