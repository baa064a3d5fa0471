"""Counters that interleave on one endpoint: several publishers behind one address, or one that another took over."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

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


def senders(timeline: Timeline) -> Senders | None:
    """What one witness heard beside the counter, where that goes up by itself; None where nothing does.

    Numbers that are used twice, or that were missing, without a disconnect, while the counter goes on: a single sender
    that repeats itself, fills holes or begins anew does not go through all of them in order.
    """
    heard: defaultdict[tuple[int, str], list[Live]] = defaultdict(list)
    for live in timeline.live:
        heard[live.incarnation, live.source].append(live)
    for messages in heard.values():
        beside = [at for at, live in enumerate(messages) if live.arrival in (Arrival.REUSED, Arrival.FILLED)]
        numbers = [messages[at].number for at in beside]
        steps = {later - earlier for earlier, later in itertools.pairwise(numbers)}
        if not steps <= {0, 1} or len(set(numbers)) < FEW:
            continue
        between = beside[-1] - beside[0] + 1 - len(beside)
        if between >= FEW - 1:
            most = max(Counter(numbers).values())
            return Senders(most + 1, numbers[0], numbers[-1], messages[beside[0]].record)
    return None
