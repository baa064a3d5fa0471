"""How a sentence speaks that a time decides: of what did not come in several attempts, on a machine that went on."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kvwire.judges.area import Say
from kvwire.judges.verdict import Where
from kvwire.trace.attempts import PAUSE_S, Wait, sure


class _Miss(NamedTuple):
    about: Hashable
    wait: Wait
    expected: str
    seen: str
    where: Where


class Patience:
    """What one sentence awaited in vain so far (``kvwire.trace.attempts``).

    Attempts ``about`` the same thing are made one after the other, and one occasion: what came in a later one was late,
    and no more is said of it than that. ``lasting_s`` is how long attempts have to last together.
    """

    def __init__(self, say: Say, lasting_s: float = PAUSE_S) -> None:
        self._say = say
        self._lasting_s = lasting_s
        self._misses: list[_Miss] = []

    def missed(self, about: Hashable, wait: Wait, expected: str, seen: str, where: Where) -> None:
        """It did not come in this attempt."""
        self._misses.append(_Miss(about, wait, expected, seen, where))

    def came(self, about: Hashable) -> None:
        """It came, if late; unless it had failed to for sure."""
        mine = [miss for miss in self._misses if miss.about == about]
        if mine and not sure([miss.wait for miss in mine], self._lasting_s):
            self._misses = [miss for miss in self._misses if miss.about != about]
            self._say.note(f"late on a busy machine: {mine[0].expected}; seen {mine[0].seen}")

    def decide(self) -> None:
        """Say what is certain at the end, and leave open what is not."""
        if sure([miss.wait for miss in self._misses], self._lasting_s):
            calm = [miss for miss in self._misses if miss.wait.calm]
            for first in {miss.about: miss for miss in reversed(calm)}.values():
                self._say.broke(first.expected, first.seen, first.where)
        elif self._misses:
            first = self._misses[0]
            why = "too few attempts could be made to be sure"
            if not all(miss.wait.calm for miss in self._misses):
                why = "something that takes part in the run was held up meanwhile"
            self._say.open(f"{first.seen} (expected: {first.expected}), and {why}")
