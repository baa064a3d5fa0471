"""What a target is, before and after it is opened."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from kvwire.attack.probes.kit.session import Fresh, Limits, Session
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import Driver, Start
from kvwire.standard.registry import ControlLevel
from kvwire.standard.statement import MOST, Statement, Stream
from kvwire.trace.records import StreamInfo


class TargetError(ValueError):
    """The text names no target that can be used: the message says which part, and the way out (usage: exit 2)."""


def _nothing() -> None:
    """A target that was listened to needs no closing."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A target that is reached: watched by the witnesses, and driven if it has an adapter.

    ``drive`` is what the user wrote to drive it by. ``can`` lists the adapter's verbs, ``sets`` what it or the harness
    decides. ``life_from_start``: the harness started the publisher itself. ``start`` is how it was started, as far as
    known; its engine knows the token ids of ``vocabulary``, or of None those that the harness takes otherwise.
    ``alive`` says whether a driven target still runs. ``fresh`` starts other instances of it. ``close`` stops what was
    started, in bounded time; the recorder is closed by its owner, afterwards.
    """

    streams: tuple[Stream, ...]
    statement: Statement
    driver: Driver | None = None
    drive: str = ""
    can: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    implementation: str = ""
    life_from_start: bool = False
    start: Start | None = None
    vocabulary: range | None = None
    alive: Callable[[], bool] = lambda: True
    fresh: Fresh | None = None
    close: Callable[[], None] = _nothing

    @property
    def level(self) -> ControlLevel:
        """The level of control."""
        if self.driver is not None:
            return "driven"
        return "replayable" if any(stream.replay for stream in self.streams) else "passive"

    @property
    def infos(self) -> tuple[StreamInfo, ...]:
        """The streams as they stand in the header of a trace."""
        return tuple(
            StreamInfo(name=s.name, endpoint=s.endpoint, replay=s.replay, topic=s.topic, rank=s.rank)
            for s in self.streams
        )

    def session(
        self, recorder: Recorder, *, limits: Limits | None = None, deadline: float | None = None, seed: int = 1
    ) -> Session:
        """A session of probes against it."""
        session = Session(
            recorder=recorder,
            streams=self.streams,
            statement=self.statement,
            driver=self.driver,
            start=self.start,
            alive=self.alive,
            limits=limits,
            deadline=deadline,
            seed=seed,
            fresh=self.fresh,
        )
        session.offers.vocabulary = self.vocabulary or session.offers.vocabulary
        return session


class LiveTarget(Protocol):
    """A publisher that can be reached."""

    @property
    def text(self) -> str:
        """What the user wrote."""

    def open(self, recorder: Recorder) -> Opened:
        """Start or reach it, and set the witnesses of ``recorder`` on its streams.

        Raises:
            AdapterError: when an adapter cannot be started, breaks the protocol or refuses to start its publisher.
            WitnessError: when the harness's own witnesses do not get ready.
        """


@dataclass(frozen=True)
class TraceTarget:
    """A recorded run, to be judged again."""

    text: str
    path: Path


Target = LiveTarget | TraceTarget


@dataclass(frozen=True)
class Options:
    """What stands behind the ``?`` of a target: each option once, percent-encoding undone."""

    text: str
    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, query: str, known: tuple[str, ...]) -> Options:
        """Read ``a=1&b=2``.

        Raises:
            TargetError: for an option that is unknown, given twice, or has no value.
        """
        values: dict[str, str] = {}
        for part in filter(None, query.split("&")):
            name, equals, value = part.partition("=")
            if name not in known:
                raise TargetError(f"{text!r}: unknown option {name!r}; there are {', '.join(known)}")
            if not equals:
                raise TargetError(f"{text!r}: option {name!r} has no value; write {name}=…")
            if name in values:
                raise TargetError(f"{text!r}: option {name!r} is given twice")
            values[name] = unquote(value)
        return cls(text, values)

    def integer(self, name: str, low: int = 0) -> int | None:
        """The value of an option as an integer of at least ``low``; None when it is not given."""
        value = self.values.get(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,10}", value) or not low <= int(value) <= MOST:
            raise TargetError(f"{self.text!r}: option {name!r} is an integer from {low} to {MOST}, not {value!r}")
        return int(value)

    def positive(self, name: str) -> float | None:
        """The value of an option as a number above 0; None when it is not given."""
        text = self.values.get(name)
        if text is None:
            return None
        value = float(text) if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}", text) else 0.0
        if not 0 < value < math.inf:
            raise TargetError(f"{self.text!r}: option {name!r} is a number above 0, not {text!r}")
        return value

    def one_of(self, name: str, choices: tuple[str, ...]) -> str | None:
        """The value of an option out of a few."""
        value = self.values.get(name)
        if value is not None and value not in choices:
            raise TargetError(f"{self.text!r}: option {name!r} is one of {', '.join(choices)}, not {value!r}")
        return value
