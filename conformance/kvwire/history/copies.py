"""Which live messages are copies of what another witness had delivered before: one occasion, and no second."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

Frames = tuple[bytes, ...]
ODD = 256
"""Of how many messages without a number it is remembered who delivered them."""


class Copies:
    """Counts, by message, how often each witness delivered it. ``room``: of how many numbers; None is all."""

    def __init__(self, room: int | None = None) -> None:
        self._room = room
        self._seen: dict[bytes, list[tuple[Frames, dict[str, int]]]] = {}

    def add(self, source: str, frames: Frames) -> bool:
        """Take the next message of a witness; whether another one had delivered it as often before."""
        number = frames[1] if len(frames) > 1 else b""
        variants = self._seen.get(number)
        if variants is None:
            self._seen[number] = [(frames, {source: 1})]
            if self._room is not None and len(self._seen) > 2 * self._room:
                self._seen = dict(islice(self._seen.items(), self._room, None))
            return False
        for seen, counts in variants:
            if seen == frames:
                counts[source] = own = counts.get(source, 0) + 1
                return any(own <= count for other, count in counts.items() if other != source)
        variants.append((frames, {source: 1}))
        if self._room is not None and len(variants) > ODD:
            del variants[0]
        return False

    def know(self, frames: Frames, sources: Iterable[str]) -> None:
        """Each of these delivered it once, unless more is known of its number."""
        self._seen.setdefault(frames[1], [(frames, dict.fromkeys(sources, 1))])

    def settle(self, number: bytes, payload: bytes) -> bytes | None:
        """The topic of a message; what is known of its number is forgotten if everybody delivered it once at most."""
        variants = self._seen.get(number, ())
        if len(variants) == 1 and set(variants[0][1].values()) == {1}:
            del self._seen[number]
        return next((frames[0] for frames, _ in variants if len(frames) == 3 and frames[2] == payload), None)
