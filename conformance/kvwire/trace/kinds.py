"""Every kind of detail, and how it is read: by the source and the event of its record."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvwire.standard import reading
from kvwire.trace import calls, marks  # noqa: F401 - kinds are known once they are defined
from kvwire.trace.detail import Detail, SocketEvent, UnknownDetail


def _known(base: type[Detail]) -> Iterator[type[Detail]]:
    for kind in base.__subclasses__():
        if kind.EVENT:
            yield kind
        yield from _known(kind)


KINDS = tuple(_known(Detail))
"""Those of one event each; monitors have words of their own."""

_decoders = {(kind.SOURCE, kind.EVENT): msgspec.json.Decoder(kind) for kind in KINDS}
_raw = msgspec.json.Decoder(dict[str, object])
_encode = msgspec.json.Encoder(order="sorted").encode
_OPEN = frozenset(kind.EVENT for kind in (calls.HelloCall, calls.StartCall, calls.CacheCall))
"""Those that hold objects of whatever form; what was offered is tried as batches."""


def read(source: str, event: str, fields: bytes) -> Detail:
    """The detail of a record, from the JSON object that stands in its file. Fields that a kind does not know are left.

    Raises:
        msgspec.MsgspecError: when a field of a known kind is missing or of a wrong type, which the message names; or
            when one is nested more deeply than anything that is written.
    """
    if source == SocketEvent.SOURCE:
        return msgspec.convert(reading.json(_raw.decode, fields) | {"event": event}, SocketEvent)
    decoder = _decoders.get((source, event))
    if decoder is not None and event not in _OPEN:
        return reading.json(decoder.decode, fields)
    raw = reading.json(_raw.decode, fields)
    if reading.is_deep(raw):
        raise msgspec.ValidationError(reading.TOO_DEEP)
    return UnknownDetail(event=event, raw=raw) if decoder is None else decoder.decode(fields)


def written(detail: Detail) -> bytes:
    """A detail as it stands in the file: a JSON object, its keys sorted."""
    return _encode(detail.fields)
