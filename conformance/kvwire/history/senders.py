"""Counters that interleave on one endpoint: several publishers behind one address, or one that another took over."""

from __future__ import annotations

from collections import Counter

import msgspec

from kvwire.history.timeline import Arrival, Live, Timeline

FEW = 3
"""As many numbers that go up beside the counter make another one."""


class Senders(msgspec.Struct, frozen=True):
    """How many counters a stream has, from where to where the others go, and the first record of them."""

    count: int
    first: int
    last: int
    record: int

    @property
    def text(self) -> str:
        """In words."""
        if self.count == 2:
            return f"two senders: a second counter goes from {self.first} to {self.last} beside the first"
        return f"{self.count} senders: further counters go from {self.first} to {self.last} beside the first"


class _Beside:
    """The numbers that one witness heard beside the counter of one incarnation, and where among its messages."""

    def __init__(self, number: int, at: int, record: int, t_ns: int) -> None:
        self.first = self.last = number
        self.first_at = self.last_at = at
        self.record = record
        self.t_ns = t_ns
        self.count = self.distinct = self.row = self.most = 1
        self.rises = True

    def add(self, number: int, at: int) -> None:
        step = number - self.last
        self.rises = self.rises and step in (0, 1)
        self.distinct += step != 0
        self.row = self.row + 1 if step == 0 else 1
        self.most = max(self.most, self.row)
        self.count += 1
        self.last, self.last_at = number, at

    @property
    def is_another(self) -> bool:
        between = self.last_at - self.first_at + 1 - self.count
        return self.rises and self.distinct >= FEW and between >= FEW - 1


class Counters:
    """What witnesses heard beside the counter, where that goes up by itself; O(incarnations).

    Numbers that are used twice, or that were missing, without a disconnect, while the counter goes on: a single sender
    that repeats itself, fills holes or begins anew does not go through all of them in order.
    """

    def __init__(self) -> None:
        self._beside: dict[tuple[int, str], _Beside | None] = {}

    def heard(self, incarnation: int, source: str) -> None:
        """A witness heard of an incarnation."""
        self._beside.setdefault((incarnation, source), None)

    def add(self, live: Live, at: int, t_ns: int = 0) -> None:
        """A live message, ``at`` so many of its witness."""
        key = live.incarnation, live.source
        self.heard(*key)
        if live.arrival not in (Arrival.REUSED, Arrival.FILLED):
            return
        beside = self._beside[key]
        if beside is None:
            self._beside[key] = _Beside(live.number, at, live.record, t_ns)
        else:
            beside.add(live.number, at)

    @property
    def found(self) -> tuple[Senders, int] | None:
        """The counters beside the first, and when the first message of them came; None where there are none."""
        for one in self._beside.values():
            if one is not None and one.is_another:
                return Senders(one.most + 1, one.first, one.last, one.record), one.t_ns
        return None


def senders(timeline: Timeline) -> Senders | None:
    """What one witness heard beside the counter, in a whole timeline."""
    counters, positions = Counters(), Counter[str]()
    for live in timeline.live:
        positions[live.source] += 1
        counters.add(live, positions[live.source])
    return None if counters.found is None else counters.found[0]
