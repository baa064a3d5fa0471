"""Messages that somebody has received, judged without a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Result
from kvwire.standard import registry
from kvwire.standard.statement import Statement
from kvwire.trace.records import FORMAT, Header, Record, Source, StreamInfo, Trace

STREAM = "stream"


def judge_messages(
    messages: Iterable[Sequence[bytes]], *, profile: str = "core", statement: Statement | None = None
) -> Result:
    """Judge messages of one stream, in the order in which one subscriber received them.

    Raises:
        registry.UnknownNameError: when there is no such profile.
    """
    declared = statement or Statement()
    records = tuple(
        Record(t_ns=index, source=Source.LIVE_A, stream=STREAM, frames=tuple(bytes(frame) for frame in message))
        for index, message in enumerate(messages)
    )
    header = Header(
        trace=FORMAT,
        edition=declared.edition,
        target="messages",
        level="passive",
        profile=profile,
        statement=declared,
        streams=(StreamInfo(name=STREAM, endpoint=""),),
    )
    return conclude(Trace(header=header, records=records), registry.load(), registry.profile(profile))
