"""Whether a stream is heard within its own rhythm."""

from __future__ import annotations

from collections import deque

from kvwire.history.rhythm import TIMES, allowed_s

FLOOR_S = 10.0
"""A shorter silence is never worth a word."""
HOUR_S = 3600.0
HOURS = 24


class Pauses:
    """How long one stream pauses, in the last day; O(hours). Times are seconds of one clock.

    A pause in which the connection was lost is no pause of the stream. One that is longer than the bound is half
    believed: the bound doubles at most, so that an outage does not make it blind.
    """

    def __init__(self, began: float, fixed: float | None = None) -> None:
        self.last: float | None = None
        self._since = began
        self._fixed = fixed
        self._lost = False
        self._longest: deque[tuple[int, float]] = deque()
        """By hour, the newest last."""

    @property
    def bound(self) -> float:
        """How long it may be silent."""
        if self._fixed is not None:
            return self._fixed
        return allowed_s(max((pause for _, pause in self._longest), default=0.0), FLOOR_S)

    def heard(self, at: float) -> None:
        """A message came."""
        if self.last is not None and not self._lost:
            self._pause(at, at - self.last)
        self.last, self._lost = at, False

    def _pause(self, at: float, pause: float) -> None:
        hour, kept = int(at // HOUR_S), self._longest
        if kept and kept[-1][0] == hour and pause <= kept[-1][1]:
            return
        if pause > (bound := self.bound):
            pause = 2 * bound / TIMES
        while kept and kept[0][0] <= hour - HOURS:
            kept.popleft()
        if kept and kept[-1][0] == hour:
            kept[-1] = hour, max(pause, kept[-1][1])
        else:
            kept.append((hour, pause))

    def lost(self) -> None:
        """The connection was lost."""
        self._lost = True

    def silence(self, now: float) -> float:
        """For how long nothing came."""
        return now - (self._since if self.last is None else self.last)
