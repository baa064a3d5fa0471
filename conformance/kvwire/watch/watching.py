"""The loop of a watch: listen to every target, judge, ask for gaps, tell, show, until it is to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvwire.attack.curve import Curve
from kvwire.attack.recording import Reception
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.witness_process import Patience
from kvwire.conclusion.fleet import Member
from kvwire.conclusion.result import Result
from kvwire.conclusion.summary import Wanted
from kvwire.standard import registry
from kvwire.watch.beside import Beside, StreamState, Violations
from kvwire.watch.lines import Lines
from kvwire.watch.together import Together

TICK_S = 0.02
"""How long what comes is collected before it is judged."""
LOOK_S = 1.0
"""How often it is looked how things stand."""
ASK_S = 5.0
"""How often a replay socket is asked at most."""
PATIENCE = Patience(reconnect_max_ms=1000)
"""In a long outage a connection is tried once a second."""


class Ended(NamedTuple):
    """What the watch of one target comes to, None of one that never began, and what its streams show beside others."""

    target: str
    result: Result | None
    members: tuple[Member, ...]


Show = Callable[[float, Sequence[StreamState], Sequence[Violations]], None]


class Watch:
    """Several publishers that are watched by one process."""

    def __init__(
        self,
        targets: Sequence[ListenTarget],
        lines: Lines,
        *,
        profile: str | None = None,
        wanted: Wanted | None = None,
        replays: bool = False,
        silent_s: float | None = None,
        show: Show = lambda *_: None,
        curve: Curve | None = None,
    ) -> None:
        self._lines = lines
        self._show = show
        self._registry = registry.load()
        self._besides = [
            Beside(
                target.text,
                lines,
                profile,
                wanted or Wanted(),
                replays=replays,
                silent_s=silent_s,
                curve=curve is not None,
            )
            for target in targets
        ]
        self._receptions = [
            Reception(target, beside, replays=replays, patience=PATIENCE, curve=curve)
            for target, beside in zip(targets, self._besides, strict=True)
        ]
        self._together = Together(lines, self._besides)
        self._asked: dict[tuple[str, str], float] = {}

    def run(self, stopped: Callable[[], bool], seconds: float | None = None) -> list[str]:
        """Watch until it is ``stopped`` or so many ``seconds`` are over; why it ended before, target by target."""
        try:
            for reception in self._receptions:
                reception.begin()
            began = looked = time.monotonic()

            def over() -> bool:
                return stopped() or (seconds is not None and time.monotonic() - began >= seconds)

            while not (over() or any(reception.over for reception in self._receptions)):
                started = time.monotonic()
                for reception in self._receptions:
                    reception.turn(0)
                for reception, beside in zip(self._receptions, self._besides, strict=True):
                    self._ask(reception, beside, over)
                now = time.monotonic()
                if now - looked >= LOOK_S:
                    looked = now
                    self._look(now)
                time.sleep(max(0.0, TICK_S - (time.monotonic() - started)))
        finally:
            ends = [(reception.target.text, reception.end().failed) for reception in self._receptions]
            self._look(time.monotonic(), last=True)
        return [f"{name}: {why}" for name, why in ends if why is not None]

    def _ask(self, reception: Reception, beside: Beside, over: Callable[[], bool]) -> None:
        for name, start in beside.due():
            stream = next(one for one in reception.target.statement.streams if one.name == name)
            now = time.monotonic()
            if stream.replay is None or now - self._asked.get((beside.name, name), -ASK_S) < ASK_S:
                continue
            self._asked[beside.name, name] = now
            reception.ask(stream, start, over)

    def _look(self, now: float, *, last: bool = False) -> None:
        streams: list[StreamState] = []
        violations: list[Violations] = []
        for beside in self._besides:
            states, broken = beside.look(now)
            streams += states
            violations += [
                Violations(
                    target=beside.name,
                    stream=outcome.stream,
                    requirement=outcome.requirement,
                    level=self._registry[outcome.requirement].level,
                    count=outcome.violations,
                )
                for outcome in broken.values()
            ]
        self._together.look(now, streams, last=last)
        if last or self._lines.late(now):
            self._lines.counted(now, {(one.target, one.stream, one.requirement): one.count for one in violations})
        self._lines.push()
        self._show(now, streams, violations)

    def results(self) -> list[Ended]:
        """What the watch of each target comes to."""
        return [
            Ended(beside.name, beside.result(), tuple(one for name in beside.streams if (one := beside.member(name))))
            for beside in self._besides
        ]
