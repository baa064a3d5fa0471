"""Recording a publisher for as long as somebody wants: listening only, in constant memory, whatever happens to it."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from kvwire.attack.run import default_profile
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.targets.target import Opened
from kvwire.attack.witness import Recorder, WitnessError
from kvwire.trace.files import Sink
from kvwire.trace.marks import ProbeMark, Trouble, Unreachable
from kvwire.trace.records import FORMAT, Header

TICK_S = 0.2
"""How often it is asked whether to go on."""
LIVE = "live"
"""The probe that a recording is: it listens."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a recording: messages that were heard, by the witness that heard the most of each stream.

    ``failed`` says why it ended before its time; None where it did not.
    """

    batches: int
    connected: bool
    failed: str | None = None


def record(
    target: ListenTarget,
    sink: Sink,
    *,
    seconds: float | None = None,
    batches: int | None = None,
    stopped: Callable[[], bool],
    tell: Callable[[int], None] = lambda _: None,
) -> Recorded:
    """Write down what a publisher sends: until ``stopped``, for ``seconds``, or until so many ``batches`` in all.

    A connection that is lost is tried again for as long as it takes. The replay socket is not asked. ``tell`` is given
    the count of batches again and again.
    """
    recorder = Recorder(sink=sink, keep=False)
    began = time.monotonic()
    streams = target.statement.streams

    def heard() -> int:
        return sum(
            max((recorder.live_count(stream.name, source) for source in recorder.witnesses(stream.name)), default=0)
            for stream in streams
        )

    def over() -> bool:
        late = seconds is not None and time.monotonic() - began >= seconds
        return stopped() or late or (batches is not None and heard() >= batches)

    count, deaf = 0, False
    try:
        sink.begin(_header(target, target.open(recorder)))
        recorder.note(ProbeMark(name=LIVE, phase="begins"))
        while not (over() or recorder.deaf or sink.failed):
            recorder.pump(TICK_S)
            tell(heard())
        deaf = recorder.deaf
    except WitnessError as error:
        recorder.note(Trouble(text=str(error)))
        deaf = True
    finally:
        count = heard()
        reached = [any(recorder.handshakes(s.name, source) for source in recorder.witnesses(s.name)) for s in streams]
        lost = {s.name: tuple(source.value for source in recorder.witnesses(s.name)) for s in streams}
        recorder.close()
        for stream, done in zip(streams, reached, strict=True):
            if not done and not deaf:
                bound = round(time.monotonic() - began, 3)
                recorder.note(Unreachable(endpoint=stream.endpoint, of=lost[stream.name], bound_s=bound), stream.name)
        recorder.note(ProbeMark(name=LIVE, phase="ends"))
        sink.end()
    failed = sink.failed or ("the processes that listen have ended by themselves" if deaf else None)
    return Recorded(batches=count, connected=any(reached), failed=failed)


def _header(target: ListenTarget, opened: Opened) -> Header:
    """The header of a run that listens: what is declared, but no replay socket, as it is not asked."""
    infos = tuple(msgspec.structs.replace(stream, replay=None) for stream in opened.infos)
    silent = tuple(msgspec.structs.replace(stream, replay=None) for stream in opened.streams)
    return Header(
        trace=FORMAT,
        edition=opened.statement.edition,
        target=target.text,
        level="passive",
        profile=default_profile(opened.statement, silent),
        implementation=opened.implementation,
        probes=(LIVE,),
        statement=opened.statement,
        streams=infos,
    )
