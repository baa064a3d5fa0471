"""Numbers that no witness delivered, so that they can be asked for."""

from __future__ import annotations

from kvwire.trace.records import Record
from kvwire.wire.framing import END_NUMBER, split_live

GRACE_NS = 300_000_000
"""For so long another witness may still deliver what one lacks."""


class Holes:
    """The lowest missing number of one stream: an answer from there on holds all that is missing. O(1) memory.

    What was sent before the first message is nobody's hole; what a new life sent before it was heard is.
    """

    def __init__(self) -> None:
        self._newest: int | None = None
        self._last: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        """By witness: the number it delivered last, and how often one fell after it had lost its connection."""
        self._lost: set[str] = set()
        self._life = 0
        self._lowest: int | None = None
        self._above = 0
        """The number behind the hole."""
        self._since = 0

    def lost(self, source: str) -> None:
        """A witness lost its connection: a lower number of it begins a new life."""
        self._lost.add(source)

    def take(self, record: Record) -> None:
        """A live message."""
        parts = split_live(record.frames or ())
        if parts is None or parts[0] == END_NUMBER:
            return
        number, source = parts[0], record.source
        life = self._lives.get(source, 0)
        if source in self._lost:
            life += number < self._last.get(source, 0)
            self._lost.discard(source)
        self._last[source], self._lives[source] = number, life
        if life > self._life:
            self._life, self._lowest, self._newest = life, None, -1
        elif life < self._life:
            return
        if self._newest is None:
            self._newest = number
        elif number > self._newest:
            if number > self._newest + 1:
                self._missing(self._newest + 1, number, record.t_ns)
            self._newest = number
        elif number == self._lowest:
            self._lowest = None if number + 1 >= self._above else number + 1

    def _missing(self, first: int, above: int, at: int) -> None:
        if self._lowest is None:
            self._lowest, self._since = first, at
        self._above = above

    def due(self, now_ns: int) -> int | None:
        """From which number on to ask now; each hole is told once."""
        if self._lowest is None or now_ns - self._since < GRACE_NS:
            return None
        first, self._lowest = self._lowest, None
        return first
