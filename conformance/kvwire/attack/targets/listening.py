"""Publishers that are only reached: ``zmq:`` and conformance statements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from kvwire.attack.targets import endpoints
from kvwire.attack.targets.target import Opened, Options, TargetError
from kvwire.attack.witness import Recorder
from kvwire.standard import statement as statements
from kvwire.standard.statement import Implementation, Statement, StatementError, Stream

OPTIONS = ("replay", "topic", "ranks", "mode")
RANKS_MAX = 1024


@dataclass(frozen=True)
class ListenTarget:
    """Streams to subscribe to, and what is declared of them."""

    text: str
    statement: Statement

    def open(self, recorder: Recorder) -> Opened:
        """Set the witnesses on the streams; whether they hear anything is for the probes to wait for."""
        recorder.watch(self.statement.streams)
        return Opened(
            streams=self.statement.streams,
            statement=self.statement,
            implementation=_name(self.statement.implementation),
        )


def _name(implementation: Implementation | None) -> str:
    if implementation is None:
        return ""
    return f"{implementation.name} {implementation.version}".strip()


def endpoint(text: str) -> ListenTarget:
    """The target of ``zmq:ENDPOINT?replay=…&topic=…&ranks=N&mode=connect|bind``.

    Raises:
        TargetError: when a part cannot be used.
    """
    place, _, query = text.removeprefix("zmq:").partition("?")
    options = Options.read(text, query, OPTIONS)
    mode: Literal["connect", "bind"] = "bind" if options.one_of("mode", ("connect", "bind")) == "bind" else "connect"
    replay = options.values.get("replay")
    topic = options.values.get("topic")
    ranks = options.integer("ranks", low=1)
    if ranks is not None and ranks > RANKS_MAX:
        raise TargetError(f"{text!r}: {ranks} ranks; at most {RANKS_MAX} are watched at once")
    base = Stream(endpoint=place, replay=replay, topic=topic, mode=mode)
    if ranks is None:
        streams = [base]
    else:
        endpoints.check(place, text, binds=mode == "bind")
        if replay is not None:
            endpoints.check(replay, text)
        streams = [
            msgspec.structs.replace(
                base,
                endpoint=endpoints.of_rank(place, rank, text),
                replay=None if replay is None else endpoints.of_rank(replay, rank, text),
                rank=rank,
            )
            for rank in range(ranks)
        ]
    return ListenTarget(text, Statement(streams=_checked(streams, text)))


def declared(text: str, path: Path) -> ListenTarget:
    """The target of a conformance statement.

    Raises:
        TargetError: when the file is no statement or lists no stream.
    """
    try:
        statement = statements.read(path)
    except StatementError as error:
        raise TargetError(str(error)) from None
    if not statement.streams:
        raise TargetError(f'{path}: it lists no stream; add [[streams]] with endpoint = "tcp://HOST:PORT"')
    streams = _checked(list(statement.streams), str(path))
    return ListenTarget(text, msgspec.structs.replace(statement, streams=streams))


def _checked(streams: list[Stream], where: str) -> tuple[Stream, ...]:
    """The streams, each with a name; refused when an endpoint cannot be used or stands there twice."""
    if len(streams) > RANKS_MAX:
        raise TargetError(f"{where}: {len(streams)} streams; at most {RANKS_MAX} are watched at once")
    named: list[Stream] = []
    publishing = {stream.endpoint for stream in streams}
    for index, stream in enumerate(streams):
        endpoints.check(stream.endpoint, where, binds=stream.mode == "bind")
        if stream.replay is not None:
            endpoints.check(stream.replay, where)
            if stream.replay in publishing:
                raise TargetError(f"{where}: replay endpoint {stream.replay!r} is a publish endpoint too")
        default = f"rank-{stream.rank}" if stream.rank is not None else f"stream-{index}"
        named.append(msgspec.structs.replace(stream, name=stream.name or default))
    for what, values in (("name", [s.name for s in named]), ("endpoint", [s.endpoint for s in named])):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise TargetError(f"{where}: two streams have the {what} {twice[0]!r}")
    return tuple(named)
