"""Listening to a publisher for as long as somebody wants, in constant memory, whatever happens to it."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from kvwire.attack.curve import Curve
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.run import default_profile
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.targets.target import Opened
from kvwire.attack.witness import Recorder, Sink, WitnessError
from kvwire.attack.witness_process import PATIENCE, Patience
from kvwire.standard.statement import Stream
from kvwire.trace.marks import ProbeMark, Trouble, Unreachable
from kvwire.trace.records import FORMAT, Header

TICK_S = 0.2
"""How often it is asked whether to go on."""
ANSWER_S = 10.0
"""How long an answer to a question for what was missed is heard at most: what is missing comes first in it."""
DEAF = "the processes that listen have ended by themselves"
LIVE = "live"
"""The probe that a recording is: it listens."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a recording: messages that were heard, by the witness that heard the most of each stream.

    ``failed`` says why it ended before its time; None where it did not. ``refused`` is why a handshake failed.
    """

    batches: int
    connected: bool
    refused: str = ""
    failed: str | None = None


class Reception:
    """A publisher that is listened to: what comes goes into the sink, and nothing is kept.

    A connection that is lost is tried again for as long as it takes. The replay socket is asked by ``ask`` only, and
    stands in the header only if that may happen (``replays``).
    """

    def __init__(
        self,
        target: ListenTarget,
        sink: Sink,
        *,
        replays: bool = False,
        patience: Patience = PATIENCE,
        curve: Curve | None = None,
    ) -> None:
        self.target = target
        self.sink = sink
        self.recorder = Recorder(sink=sink, keep=False, patience=patience, curve=curve)
        self._streams = target.statement.streams
        self._replays = replays
        self._opened: Opened | None = None
        self._clients: ReplayClients | None = None
        self._began = time.monotonic()
        self._trouble = ""

    def begin(self) -> None:
        """Set the witnesses on the streams."""
        try:
            self._opened = self.target.open(self.recorder)
            self.sink.begin(_header(self.target, self._opened, replays=self._replays))
            self.recorder.note(ProbeMark(name=LIVE, phase="begins"))
        except WitnessError as error:
            self._trouble = str(error)
            self.recorder.note(Trouble(text=self._trouble))

    @property
    def over(self) -> bool:
        """Whether it cannot go on: the processes that listen have ended, or the sink takes no more."""
        return bool(self._trouble) or self.recorder.deaf or self.sink.failed is not None

    @property
    def heard(self) -> int:
        """Messages so far, by the witness that heard the most of each stream."""
        recorder = self.recorder
        return sum(
            max((recorder.live_count(stream.name, source) for source in recorder.witnesses(stream.name)), default=0)
            for stream in self._streams
        )

    def turn(self, timeout_s: float) -> int:
        """Hand on what has come, or wait for it so long; how many records."""
        return self.recorder.pump(timeout_s)

    def ask(self, stream: Stream, start: int, stopped: Callable[[], bool] = lambda: False) -> None:
        """Ask the replay socket of a stream for what was missed from a number on, and hand on the answer.

        It is heard until its end marker, until nothing more comes, for ``ANSWER_S`` at most, or until ``stopped``.
        """
        if self._clients is None:
            assert self._opened is not None
            self._clients = ReplayClients(self._opened.session(self.recorder))
        clients = self._clients
        clients.session.deadline = time.monotonic() + ANSWER_S
        clients.session.alive = lambda: not stopped()
        client = clients.connect(stream)
        clients.request(client, start)
        clients.await_answers([client])
        clients.vanish([client])

    def end(self) -> Recorded:
        """Take what is still there, say what was never reached, and close everything."""
        recorder, streams = self.recorder, self._streams
        trouble = self._trouble or (DEAF if self._opened is not None and recorder.deaf else "")
        of = {stream.name: recorder.witnesses(stream.name) for stream in streams}
        reached = [any(recorder.handshakes(name, source) for source in of[name]) for name in of]
        refused = next(filter(None, (recorder.refusal(name, source) for name in of for source in of[name])), "")
        batches = self.heard
        if self._clients is not None:
            self._clients.__exit__(None, None, None)
        recorder.close()
        for stream, done in zip(streams, reached, strict=True):
            if not done and not trouble:
                bound, names = round(time.monotonic() - self._began, 3), tuple(map(str, of[stream.name]))
                recorder.note(Unreachable(endpoint=stream.endpoint, of=names, bound_s=bound), stream.name)
        recorder.note(ProbeMark(name=LIVE, phase="ends"))
        self.sink.end()
        return Recorded(
            batches=batches, connected=any(reached), refused=refused, failed=self.sink.failed or trouble or None
        )


def record(
    target: ListenTarget,
    sink: Sink,
    *,
    seconds: float | None = None,
    batches: int | None = None,
    stopped: Callable[[], bool],
    tell: Callable[[int], None] = lambda _: None,
    curve: Curve | None = None,
) -> Recorded:
    """Write down what a publisher sends: until ``stopped``, for ``seconds``, or until so many ``batches`` in all.

    ``tell`` is given the count of batches again and again.
    """
    reception = Reception(target, sink, curve=curve)
    began = time.monotonic()

    def over() -> bool:
        late = seconds is not None and time.monotonic() - began >= seconds
        return stopped() or late or (batches is not None and reception.heard >= batches)

    try:
        reception.begin()
        while not (over() or reception.over):
            reception.turn(TICK_S)
            tell(reception.heard)
    finally:
        recorded = reception.end()
    return recorded


def _header(target: ListenTarget, opened: Opened, *, replays: bool) -> Header:
    """The header of a run that listens: what is declared, but no replay socket where it is not asked.

    One that is asked for gaps only owes no verdict about replay, so that the level stays ``passive``.
    """
    streams, infos = opened.streams, opened.infos
    if not replays:
        streams = tuple(msgspec.structs.replace(stream, replay=None) for stream in streams)
        infos = tuple(msgspec.structs.replace(stream, replay=None) for stream in infos)
    return Header(
        trace=FORMAT,
        edition=opened.statement.edition,
        target=target.text,
        level="passive",
        profile=default_profile(opened.statement, streams),
        implementation=opened.implementation,
        probes=(LIVE,),
        clock_ns=time.time_ns() - time.monotonic_ns(),
        statement=opened.statement,
        streams=infos,
    )
