"""One publisher that is watched: its records are judged as they come, and none is kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from kvwire.conclusion.fleet import Member
from kvwire.conclusion.result import Result
from kvwire.conclusion.summary import Wanted
from kvwire.conclusion.watching import StreamFacts, Watcher
from kvwire.judges.verdict import Outcome, Verdict
from kvwire.standard import registry
from kvwire.trace.detail import SocketEvent
from kvwire.trace.handshakes import refusal
from kvwire.trace.marks import Stalled, Trouble
from kvwire.trace.records import Header, Record
from kvwire.watch.holes import Holes
from kvwire.watch.lines import Line, Lines, wall
from kvwire.watch.pauses import Pauses

FAILED_HANDSHAKES = 16
"""So many in a row of one witness are recorded: more of them, several a second for weeks, tell nothing more."""
HEARD = "HANDSHAKE_SUCCEEDED"
LOST = "DISCONNECTED"


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """How one stream stands, as it is shown to others. Times are in nanoseconds of the monotonic clock, lag in seconds.

    ``unwell`` says in words why it is not heard as it should be; empty while it is. ``silent``: for longer than its own
    rhythm allows.
    """

    target: str
    stream: str
    facts: StreamFacts
    connected: bool
    lag_s: float
    asked: int
    unwell: str
    silent: bool = False


class Violations(msgspec.Struct, frozen=True, kw_only=True):
    """How often one sentence was broken on one stream."""

    target: str
    stream: str
    requirement: str
    level: str
    count: int


class _Ear:
    """What is known of one stream beside its judges."""

    def __init__(self, began: float, silent_s: float | None) -> None:
        self.up: Counter[str] = Counter()
        """Connections by witness; one that binds can have several."""
        self.pauses = Pauses(began, silent_s)
        self.holes = Holes()
        self.failed: dict[str, int] = {}
        self.lag_ns = 0
        self.asked = 0
        self.connects = 0
        self.lives = 0
        self.gaps = 0


class Beside:
    """Takes the records of one publisher (a ``Sink``), judges them, and says what is new in them."""

    failed: str | None = None

    def __init__(
        self,
        name: str,
        lines: Lines,
        profile: str | None,
        wanted: Wanted,
        *,
        replays: bool,
        silent_s: float | None,
        curve: bool = False,
    ) -> None:
        self.name = name
        self._lines = lines
        self._profile = profile
        self._wanted = wanted
        self._replays = replays
        self._silent_s = silent_s
        self._curve = curve
        self._before: list[Record] = []
        self._ears: dict[str, _Ear] = {}
        self._watcher: Watcher | None = None
        self._said = 0
        self._broken: dict[tuple[str, str], Outcome] = {}
        self._total = -1

    # what is taken

    def begin(self, header: Header) -> None:
        """The header."""
        profile = None if self._profile is None else registry.profile(self._profile)
        # An answer that was asked for comes at once: nothing has to wait until the horizon for what is lost.
        self._watcher = Watcher(header, profile, self._wanted, replays=False, digests=False)
        now = time.monotonic()
        self._ears = {stream.name: _Ear(now, self._silent_s) for stream in header.streams}
        before, self._before = self._before, []
        for record in before:
            self.add(record)

    def add(self, record: Record) -> None:
        """The next record."""
        watcher = self._watcher
        if watcher is None:
            self._before.append(record)
            return
        if isinstance(record.detail, Stalled):
            return  # it excuses what was done and awaited; here nothing is
        if isinstance(record.detail, Trouble):
            self._lines.tell("trouble", self.name, record.stream, record.detail.text)
        ear = self._ears.get(record.stream)
        if ear is not None:
            if record.frames is None:
                if not self._told(ear, record):
                    return
            elif record.is_live:
                ear.pauses.heard(record.t_ns / 1e9)
                if self._replays:
                    ear.holes.take(record)
        watcher.take(record)
        if ear is not None and record.frames is not None:
            ear.lag_ns = time.monotonic_ns() - record.t_ns

    def _told(self, ear: _Ear, record: Record) -> bool:
        """What is told of a connection; whether it is worth a record."""
        detail, stream = record.detail, record.stream
        if not isinstance(detail, SocketEvent) or not detail.of.startswith("live-"):
            return True
        if detail.event == HEARD:
            ear.failed.pop(detail.of, None)
            if not ear.up.total():
                ear.connects += 1
                self._lines.tell("connected", self.name, stream, "again" if ear.connects > 1 else "for the first time")
            ear.up[detail.of] += 1
        elif detail.event == LOST:
            ear.holes.lost(detail.of)
            ear.up[detail.of] = max(0, ear.up[detail.of] - 1)
            if not ear.up.total():
                ear.pauses.lost()
                self._lines.tell("connection-lost", self.name, stream, "it is tried again for as long as it takes")
        else:
            count = ear.failed[detail.of] = ear.failed.get(detail.of, 0) + 1
            if sum(ear.failed.values()) == 1 and (why := refusal(detail.event, curve=self._curve)):
                self._lines.tell("trouble", self.name, stream, why)
            return count <= FAILED_HANDSHAKES
        return True

    def push(self) -> None:
        """Everything was judged as it came."""

    def end(self, *, interrupted: bool = False, header: Header | None = None) -> None:
        """The records are over."""

    # what is asked

    def due(self) -> list[tuple[str, int]]:
        """Streams whose replay socket is to be asked now, and from which number on."""
        if not self._replays:
            return []
        now = time.monotonic_ns()
        found = [(name, start) for name, ear in self._ears.items() if (start := ear.holes.due(now)) is not None]
        for name, start in found:
            self._ears[name].asked += 1
            self._lines.tell("replay-asked", self.name, name, f"from number {start} on")
        return found

    # what is said

    def look(self, now: float) -> tuple[Sequence[StreamState], Mapping[tuple[str, str], Outcome]]:
        """Tell what is new, and show how things stand: every stream, and every sentence that was broken."""
        watcher = self._watcher
        if watcher is None:
            return (), {}
        facts = watcher.facts
        total = sum(tally.violations for tally in watcher.tallies().values())
        if total != self._total:
            self._total = total
            self._broken = {
                (outcome.stream, outcome.requirement): outcome
                for outcome in watcher.outcomes()
                if outcome.violations and outcome.verdict in (Verdict.FAIL, Verdict.WARN)
            }
        self._findings(watcher)
        return tuple(self._state(name, facts[name], now) for name in self._ears), self._broken

    def _findings(self, watcher: Watcher) -> None:
        said = watcher.findings_since(self._said)
        self._said += len(said)
        for one in said:
            outcome = self._broken.get((one.stream, one.requirement))
            if outcome is None:
                continue  # of a sentence that the profile does not have
            self._lines.finding(
                Line(
                    at=wall(),
                    what="finding",
                    target=self.name,
                    stream=one.stream,
                    requirement=one.requirement,
                    verdict=str(outcome.verdict),
                    number=one.finding.where.number or "",
                    expected=one.finding.expected,
                    seen=one.finding.seen,
                )
            )

    def _state(self, name: str, facts: StreamFacts, now: float) -> StreamState:
        ear = self._ears[name]
        if facts.incarnations > max(ear.lives, 1):
            self._lines.tell("new-life", self.name, name, f"the publisher has begun anew, {facts.incarnations} lives")
        ear.lives = facts.incarnations
        if facts.gaps > ear.gaps:
            said = f"{facts.gaps} gaps so far, {facts.missing} numbers that nobody delivered"
            self._lines.tell("gap", self.name, name, said)
        ear.gaps = facts.gaps
        unwell = self._unwell(ear, now)
        return StreamState(
            target=self.name,
            stream=name,
            facts=facts,
            connected=ear.up.total() > 0,
            lag_s=ear.lag_ns / 1e9,
            asked=ear.asked,
            unwell=unwell,
            silent=bool(unwell) and ear.pauses.silence(now) > ear.pauses.bound,
        )

    def _unwell(self, ear: _Ear, now: float) -> str:
        pauses = ear.pauses
        silence, bound = pauses.silence(now), pauses.bound
        if pauses.last is not None and silence <= bound:
            return ""
        where = "connected" if ear.up.total() else "no connection"
        if pauses.last is None:
            return f"{where}, and nothing has come yet"
        return f"{where}, and nothing came for {silence:.0f} s; it may pause for {bound:.0f} s"

    @property
    def streams(self) -> Sequence[str]:
        """The names of its streams."""
        return tuple(self._ears)

    def member(self, name: str) -> Member | None:
        """What one of them shows that others are held against; None before it began."""
        return None if self._watcher is None else self._watcher.member(name)

    def result(self) -> Result | None:
        """What the watch comes to; None if it never began."""
        return None if self._watcher is None else self._watcher.result()
