"""A packet capture as a trace: its header, and its records one by one.

A capture is passive: nobody asked the publisher anything on our behalf. Replay requests of others, and what they were
answered, are judged where they were seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvwire.standard import reading
from kvwire.trace.captures.conversation import Told
from kvwire.trace.captures.packets import CaptureError, is_capture
from kvwire.trace.captures.records import Records
from kvwire.trace.captures.survey import Key, Pass, Survey, endpoint_of
from kvwire.trace.records import FORMAT, Header, Record, StreamInfo, Trace, held

__all__ = ["CaptureError", "Told", "is_capture", "open_capture", "read"]


def open_capture(path: Path, told: Told | None = None) -> tuple[Header, Iterator[Record]]:
    """The header of a capture, and its records.

    The file is read twice: to find out which connections are streams, and, while the records are taken, once more.
    What is held does not grow with it, but for a few numbers for each connection and stream.

    Raises:
        CaptureError: when the file is no capture or holds no stream; the message names the file and says why.
    """
    told = told or Told()
    survey = Survey(path, told)
    keys = [key for key in survey.keys if key not in survey.same]
    if not keys:
        raise CaptureError(f"{path}: {survey.nothing}")
    replays, left = _replays(keys, survey, told)
    if left:
        count = ", ".join(endpoint_of(key) for key in left)
        survey.notes.append(f"{count}: it is unknown whose replay socket that is; say so with --port PORT:REPLAYPORT")
    infos = tuple(
        StreamInfo(
            name=_name(key),
            endpoint=endpoint_of(key),
            replay=next((endpoint_of(replay) for replay, of in replays.items() if of == key), None),
            topic=told.topic,
        )
        for key in keys
    )
    header = Header(
        trace=FORMAT,
        edition="1",
        target=f"trace:{reading.named(path.name)}",
        level="passive",
        profile="replay" if replays else "core",
        clock_ns=0,
        streams=infos,
    )
    streams = {key: _name(survey.same.get(key, key)) for key in survey.keys}
    named = {replay: _name(of) for replay, of in replays.items()}
    return header, iter(Records(Pass(path, told), survey.links, streams, named, survey.notes))


def read(path: Path, told: Told | None = None) -> Trace:
    """A whole capture as a trace.

    Raises:
        CaptureError: as ``open_capture``.
    """
    header, records = open_capture(path, told)
    return Trace(header=header, records=tuple(held(records)))


def _name(key: Key) -> str:
    """The name of a stream: its endpoint without the scheme, and who dials it."""
    name = endpoint_of(key).removeprefix("tcp://")
    return name if not key[1] else f"{name}-{key[2]}"


def _replays(keys: Sequence[Key], survey: Survey, told: Told) -> tuple[dict[Key, Key], list[Key]]:
    """Maps replay endpoints to the publishers that they are of, and those of which that is not certain.

    The user says so; or the host has one of each, or as many of each at ports of one distance.
    """
    sockets = sorted({link.key for link in survey.links.values() if link.role == "replay"})
    found: dict[Key, Key] = {}
    for socket in sockets:
        address, port = socket[0]
        mine = [key for key in survey.keys if not key[1] and told.ports.get(key[0][1]) == port]
        beside = [key for key in mine if key[0][0] == address] or mine
        if len({survey.same.get(key, key) for key in beside}) == 1:
            found[socket] = survey.same.get(beside[0], beside[0])
    rest = [socket for socket in sockets if socket not in found]
    for address in {socket[0][0] for socket in rest}:
        here = [socket for socket in rest if socket[0][0] == address]
        beside = [key for key in survey.keys if key[0][0] == address and not key[1]]
        if len(here) == len(beside) and len({one[0][1] - of[0][1] for one, of in zip(here, beside, strict=True)}) == 1:
            found |= {one: survey.same.get(of, of) for one, of in zip(here, beside, strict=True)}
    rest = [socket for socket in sockets if socket not in found]
    if len(keys) == 1 and len({socket[0][1] for socket in sockets}) == 1:
        found |= dict.fromkeys(rest, keys[0])
        rest = []
    return found, rest
