"""What a probe is, and what it works with."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, get_args

import msgspec

from kvwire.attack.probes.kit.offers import Offers
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import Driver, Start, Stats, Unsupported
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.attempts import Wait, sure
from kvwire.trace.detail import Stimulus
from kvwire.trace.marks import ProbeMark, Trouble

MOST = 6
"""How often at most something is tried that does not come in time, those on a machine that stood still included."""
DEFAULT_BLOCK_SIZE = 16
"""Tokens of a block where neither the start nor the statement says."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a run, in seconds unless said. Each ends a wait for a condition; none is an oracle.

    ``listen_s`` is how long a run that cannot drive listens (``--for``). ``quiet_s`` without a message is taken for the
    end of what a stimulus caused, ``settle_s`` is the longest wait for it. ``replay_messages`` of one answer are read.
    A replay client that pauses does so for ``pause_s`` at least.
    """

    handshake_s: float = 5.0
    prime_s: float = 5.0
    listen_s: float = 10.0
    settle_s: float = 3.0
    quiet_s: float = 0.25
    replay_s: float = 10.0
    replay_messages: int = 500_000
    late_s: float = 0.1
    pause_s: float = 1.5
    prompts: int = 400
    batches: int = 120


class Controlled(Driver, Protocol):
    """A driver whose processes are the harness's own."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the adapter and the processes that it started, if they still run."""

    def wait_for(self, verb: str, bound_s: float) -> None:
        """Wait so long for an answer from now on; one that takes longer breaks the adapter."""


class Instance(NamedTuple):
    """Another instance of the publisher beside the one under test, not started yet.

    What is done to it, and what it sends, is recorded under a stream name of its own that no header declares, so that
    the judges of the run's streams do not take it for theirs.
    """

    name: str
    driver: Controlled


Fresh = Callable[[Sequence[str]], AbstractContextManager[Sequence[Instance]]]
"""Starts one adapter process for each name, all at once, and ends them afterwards."""


class Session:
    """One run against one target: the recorder, the driver if there is one, and what is known of the target.

    ``can`` is what the run can do: ``passive``, ``replayable`` if a stream has a replay endpoint, and the verbs of the
    adapter. ``start`` is what the publisher was started with. ``alive`` says whether a driven target still runs.
    ``deadline`` (of the monotonic clock) ends everything. ``fresh`` starts other instances of a driven target.
    """

    def __init__(
        self,
        *,
        recorder: Recorder,
        streams: Sequence[Stream],
        statement: Statement,
        driver: Driver | None = None,
        start: Start | None = None,
        alive: Callable[[], bool] = lambda: True,
        limits: Limits | None = None,
        deadline: float | None = None,
        seed: int = 1,
        fresh: Fresh | None = None,
    ) -> None:
        self.recorder = recorder
        self.streams = tuple(streams)
        self.statement = statement
        self.driver = driver
        self.start = Start() if start is None else start
        self.alive = alive
        self.limits = Limits() if limits is None else limits
        self.deadline = time.monotonic() + 3600 if deadline is None else deadline
        rank = self.streams[0].rank or 0
        self.offers = Offers(seed, statement.algorithm, self.block_size, rank)
        self.seed = seed
        self.unserved: frozenset[str] = frozenset()
        """What prompts can have besides tokens and the engine fails of."""
        self._clients = 0
        self._mute = False
        """Whether a wait for the first message of the driven stream has come to its bound."""
        self._fresh = fresh
        self._instances = 0

    @property
    def can(self) -> frozenset[str]:
        """What this run can do.

        ``fresh`` is to start other instances of the publisher, ``heartbeat`` to wait for what it declares.
        """
        able = {"passive"} if self.driver is None else {"passive", *self.driver.can}
        if self._fresh is not None:
            able.add("fresh")
        if any(stream.replay for stream in self.streams):
            able.add("replayable")
        if self.statement.bounds.heartbeat_s is not None:
            able.add("heartbeat")
        return frozenset(able)

    @property
    def driven(self) -> Stream:
        """The stream of the publisher that the driver drives."""
        return self.streams[0]

    @property
    def block_size(self) -> int:
        """Tokens of a block, as started or declared."""
        return self.start.block_size or self.statement.block_size or DEFAULT_BLOCK_SIZE

    def next_client(self) -> str:
        """The source name of the next replay client."""
        self._clients += 1
        return f"replay-{self._clients}"

    def fresh(self, count: int = 1) -> AbstractContextManager[Sequence[Instance]]:
        """Other adapter processes of the same command, each for a publisher of its own; ended at the end of the block.

        Raises:
            AdapterError: when one cannot be started or breaks the protocol.
        """
        assert self._fresh is not None
        first = self._instances + 1
        self._instances += count
        return self._fresh([f"instance-{number}" for number in range(first, first + count)])

    # time

    def attempts(self, stream: str = "") -> Iterator[int]:
        """Numbers of attempts to see something, until they prove that it does not come, or ``MOST`` are over.

        Who sees it leaves. ``stream`` is whose it is, by default the driven one.
        """
        waits: list[Wait] = []
        for number in range(MOST):
            began_ns = time.monotonic_ns()
            yield number
            waits.append(self.recorder.waited(began_ns, stream or self.driven.name))
            if sure(waits) or self.left() <= 0:
                return

    def left(self) -> float:
        """Seconds until everything ends; 0 when it is over, the trace full or the target dead."""
        if self.recorder.full or not self.alive():
            return 0.0
        return max(0.0, self.deadline - time.monotonic())

    def wait(self, condition: Callable[[], bool], bound_s: float) -> bool:
        """Pump until the condition holds; False at the bound, the deadline or the target's death."""
        over = False

        def met() -> bool:
            nonlocal over
            if condition():
                return True
            over = self.left() <= 0
            return over

        return self.recorder.wait(met, bound_s) and not over

    def seen_by_all(self, stream: Stream, more_than: dict[str, int]) -> bool:
        """Whether every witness of a stream has delivered more messages than ``more_than`` says."""
        recorder = self.recorder
        return all(
            recorder.live_count(stream.name, source) > more_than.get(source, 0)
            for source in recorder.witnesses(stream.name)
        )

    def counts(self, stream: Stream) -> dict[str, int]:
        """Messages that each witness of a stream has delivered so far."""
        return {
            source: self.recorder.live_count(stream.name, source) for source in self.recorder.witnesses(stream.name)
        }

    def settle(self) -> None:
        """Wait until what was caused so far has been seen.

        Either every witness has delivered the newest batch that the adapter counts, or nothing came for ``quiet_s``;
        at most ``settle_s``. Silence says nothing where the adapter counts more than was seen, and none as dropped.
        """
        stats = self.stats()
        recorder = self.recorder
        offered = 0 if stats is None else stats.offered or 0
        under_way = offered > 0 and stats is not None and stats.dropped == 0
        counts = {stream.name: self.counts(stream) for stream in self.streams}
        since = time.monotonic()

        def settled() -> bool:
            nonlocal counts, since
            now = {stream.name: self.counts(stream) for stream in self.streams}
            if now != counts:
                counts, since = now, time.monotonic()
            newest = recorder.newest(self.driven.name)
            if offered and newest is not None and newest + 1 >= offered and recorder.level(self.driven.name):
                return True
            return not under_way and time.monotonic() - since >= self.limits.quiet_s

        # Who has sent nothing at all is not waited for again and again.
        silent = not any(count for heard in counts.values() for count in heard.values())
        bound = self.limits.quiet_s if silent and self._mute else self.limits.settle_s
        if not self.wait(settled, bound) and silent:
            self._mute = True

    def stats(self) -> Stats | None:
        """The publisher's counters, or None where there are none."""
        if self.driver is None or "stats" not in self.driver.can:
            return None
        try:
            return self.driver.stats()
        except Unsupported:
            return None

    def trouble(self, text: str, stream: str = "") -> None:
        """Record trouble of our own."""
        self.recorder.note(Trouble(text=text), stream)

    def mark(self, mark: Stimulus, stream: str = "") -> None:
        """Record something that the harness did or awaited, or what it found."""
        self.recorder.note(mark, stream)


Mode = Literal["quick", "plain", "thorough"]
"""How much a run does: ``quick`` is passive and replay only, ``plain`` what fits half a minute, ``thorough`` all."""
MODES: tuple[Mode, ...] = get_args(Mode)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One attack: what it needs of the run (all of it), what its stimuli must be survived for, and its bounds in words.

    ``serves`` are the sentences that it aims at besides, ids in short and areas (``"SEQ-009 REP"``): who wants to
    know of one of them needs what it does. ``mode`` is the least mode of a run that takes it. ``run``
    raises what the driver raises.
    """

    name: str
    run: Callable[[Session], None]
    needs: frozenset[str]
    serves: str = ""
    must_survive: tuple[str, ...] = ()
    bounds: str = ""
    mode: Mode = "plain"

    def applies(self, session: Session, mode: Mode = "thorough") -> bool:
        """Whether the run can do what the probe needs, and is of a mode that takes it."""
        return self.needs <= session.can and MODES.index(self.mode) <= MODES.index(mode)

    def aims_at(self, wanted: Iterable[str]) -> bool:
        """Whether it serves one of these ids."""
        for requirement in wanted:
            short = requirement.removeprefix("KVW-")
            area, _, _ = short.partition("-")
            if requirement in self.must_survive or not {short, area}.isdisjoint(self.serves.split()):
                return True
        return False

    def __call__(self, session: Session) -> None:
        """Run it, between the marks in the trace that say so."""
        recorder = session.recorder
        recorder.note(ProbeMark(name=self.name, phase="begins"))
        try:
            with recorder.surviving(*self.must_survive):
                self.run(session)
        finally:
            recorder.pump()  # what is here by now came before the end
            recorder.note(ProbeMark(name=self.name, phase="ends"))
