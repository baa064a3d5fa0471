"""What is told while a watch goes on: a line for what is new, and not one for each time it comes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from kvwire.conclusion.fleet import listed
from kvwire.report.visible import ascii_json, visible

FIRST = 3
"""So many of a sort are told one by one."""
HOUR_S = 3600.0
"""After so long the rest of them is told as a count."""

What = Literal[
    "finding",
    "more-findings",
    "connected",
    "connection-lost",
    "new-life",
    "gap",
    "silent",
    "stopped",
    "heard-again",
    "one-rank",
    "hashes-differ",
    "replay-asked",
    "trouble",
    "more",
    "ended",
]
"""What a line is about: the closed list."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line, in JSON as it stands here; ``at`` is the time of day in UTC.

    A ``finding`` has the requirement, its verdict (FAIL, WARN), what was ``expected`` and ``seen``, and the number of
    the batch where there is one. ``more-findings`` and ``more`` (``of`` says of what) have a ``count`` since the line
    before, ``ended`` the exit code. What several streams have together is one line: ``streams`` names them, and
    ``target`` too where it is not the same of all; ``stream`` is empty.
    """

    at: str
    what: What
    target: str
    stream: str = ""
    streams: list[str] = []
    requirement: str = ""
    verdict: str = ""
    number: str = ""
    expected: str = ""
    seen: str = ""
    of: str = ""
    count: int = 0
    total: int = 0
    text: str = ""
    exit: int | None = None

    @property
    def words(self) -> str:
        """The line for people, whatever strangers wrote into it."""
        place = " ".join(part for part in (self.target, self.stream or listed(self.streams)) if part)
        match self.what:
            case "finding":
                at = f" (number {self.number})" if self.number else ""
                said = f"{self.verdict} {self.requirement} {place}: {self.seen}; expected {self.expected}{at}"
            case "more-findings":
                said = f"{self.verdict} {self.requirement} {place}: {self.count} more, {self.total} in all"
            case "more":
                said = f"{self.of} {place}: {self.count} more"
            case _:
                said = f"{self.what}{' ' * bool(place)}{place}: {self.text}"
        return visible(f"{self.at} {said}")

    @property
    def json(self) -> str:
        """The line for programs."""
        return ascii_json(msgspec.json.encode(self)).decode()


def wall() -> str:
    """The time of day."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Lines:
    """Tells lines: of each sort the first ones of an hour, then how many more there were. O(sorts) memory.

    What happens waits until it is pushed, so that what several streams have together is one line.
    """

    def __init__(self, write: Callable[[Line], None], now: float, hour_s: float = HOUR_S) -> None:
        self._write = write
        self._hour_s = hour_s
        self._until = now + hour_s
        self._told: dict[tuple[What, str, str], int] = {}
        self._findings: dict[tuple[str, str, str], tuple[int, str]] = {}
        """By target, stream and requirement: how many were told, and the verdict."""
        self._waiting: dict[tuple[str, str, int], list[Line]] = {}
        """By what it is, what is said or which sentence was broken, and how many of it the stream had before."""

    def tell(self, what: What, target: str, stream: str, text: str) -> None:
        """Something happened."""
        count = self._told[what, target, stream] = self._told.get((what, target, stream), 0) + 1
        if count <= FIRST:
            line = Line(at=wall(), what=what, target=target, stream=stream, text=text)
            self._waiting.setdefault((what, text, count), []).append(line)

    def finding(self, line: Line) -> None:
        """A finding that is new; there are three of a sentence and stream at most."""
        key = line.target, line.stream, line.requirement
        count = self._findings.get(key, (0, ""))[0]
        self._findings[key] = count + 1, line.verdict
        self._waiting.setdefault((line.what, line.requirement, count), []).append(line)

    def push(self) -> None:
        """Tell what waits."""
        waiting, self._waiting = self._waiting, {}
        for lines in waiting.values():
            self._write(_together(lines))

    def ended(self, target: str, text: str, code: int | None) -> None:
        """A watch is over."""
        self.push()
        self._write(Line(at=wall(), what="ended", target=target, text=text, exit=code))

    def late(self, now: float) -> bool:
        """Whether the hour is over."""
        return now >= self._until

    def counted(self, now: float, violations: dict[tuple[str, str, str], int]) -> None:
        """The hour is over: tell what came besides, by target, stream and requirement."""
        self._until = now + self._hour_s
        self.push()
        for line in self._more(violations):
            self._write(line)
        self._told.clear()

    def _more(self, violations: dict[tuple[str, str, str], int]) -> Iterator[Line]:
        for key, total in violations.items():
            told, verdict = self._findings.get(key, (0, ""))
            if told and total > told:
                target, stream, requirement = key
                self._findings[key] = total, verdict
                yield Line(
                    at=wall(),
                    what="more-findings",
                    target=target,
                    stream=stream,
                    requirement=requirement,
                    verdict=verdict,
                    count=total - told,
                    total=total,
                )
        for (what, target, stream), count in self._told.items():
            if count > FIRST:
                yield Line(at=wall(), what="more", of=what, target=target, stream=stream, count=count - FIRST)


def _together(lines: list[Line]) -> Line:
    """One line for what several streams have together; the rest of it is the first one's."""
    first = lines[0]
    named = dict.fromkeys((line.target, line.stream) for line in lines)
    if len(named) == 1:
        return first
    targets = {target for target, _ in named}
    if len(targets) == 1:
        return msgspec.structs.replace(first, stream="", streams=[stream for _, stream in named])
    return msgspec.structs.replace(first, target="", stream="", streams=[" ".join(name) for name in named])
