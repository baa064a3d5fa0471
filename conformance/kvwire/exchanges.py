"""Replay exchanges as a client saw them, and what an answer should have held."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvwire.stimuli import WELL_FORMED
from kvwire.timeline import END_SEQUENCE, Answer


class Item(msgspec.Struct, frozen=True):
    """One message of an answer, of either form; ``topic`` is None in form ``replay-bare``."""

    record: int
    frames: tuple[bytes, ...]
    topic: bytes | None
    sequence: bytes
    payload: bytes

    @property
    def is_end(self) -> bool:
        """Whether it is an end marker."""
        return self.sequence == END_SEQUENCE

    @property
    def is_range(self) -> bool:
        """Whether the payload is the msgpack array of two numbers, the oldest and the newest retained."""
        try:
            oldest, newest = msgspec.msgpack.decode(self.payload, type=tuple[int, int])
        except msgspec.MsgspecError:
            return False
        return 0 <= oldest <= newest


class Exchange:
    """One request and all that came back on its socket.

    ``odd`` holds messages of no known form; ``outcome`` is None while nobody said that the exchange is over, ``done``
    the record that did.
    """

    def __init__(self, client: str, request: int, start: int | None, kind: str) -> None:
        self.client = client
        self.request = request
        self.start = start
        self.kind = kind
        self.followed = False
        """Whether another request was sent behind it: an end marker shows that it was read."""
        self.items: list[Item] = []
        self.odd: list[tuple[int, tuple[bytes, ...]]] = []
        self.outcome: str | None = None
        self.done: int | None = None

    @property
    def well_formed(self) -> bool:
        """Whether the request was."""
        return self.kind == WELL_FORMED

    @property
    def oddities(self) -> str:
        """What to add to a finding about messages of no known form; empty without them."""
        if not self.odd:
            return ""
        return f"; {len(self.odd)} messages of another shape, the first of {len(self.odd[0][1])} frames"

    @property
    def data(self) -> list[Item]:
        """The batches."""
        return [item for item in self.items if not item.is_end]

    @property
    def ends(self) -> list[Item]:
        """The end markers."""
        return [item for item in self.items if item.is_end]


class Sent:
    """What an answer should hold: the batches of its incarnation that were heard before it was asked for.

    ``floor`` to ``newest`` are the numbers that it should hold, as far as they were sent; ``asked`` those that were
    heard, ``missing`` those of them that it lacks.

    ``sent`` maps the numbers of that incarnation to their first live records. What stands before a seam may be of
    another one.
    """

    def __init__(
        self, sent: Mapping[int, int], answer: Answer, done: int, ring: int | None, seams: frozenset[int]
    ) -> None:
        assert answer.newest_live is not None
        self.answer = answer
        self.done = done
        self.newest = answer.newest_live
        start = answer.start or 0
        reached = max([*sent, *answer.numbers])
        self._room = None if ring is None else reached - ring
        """The highest number that a full ring can have evicted by the end of the trace."""
        oldest = answer.numbers[0] if answer.numbers else self.newest
        known = oldest if self._room is None else max(start, min(oldest, self._room + 1))
        self.floor = max([known, *(seam for seam in seams if seam <= oldest)])
        self.asked = sorted(
            number for number, record in sent.items() if self.floor <= number <= self.newest and record < answer.request
        )
        held = set(answer.numbers)
        self.missing = [number for number in self.asked if number not in held]
        during = (number for number, record in sent.items() if answer.request < record < done)
        self._quiet = max([*during, *answer.numbers], default=0) <= self.newest

    def unevicted(self, number: int) -> bool:
        """Whether a batch cannot have been evicted before the answer came to it.

        The declared ring has room for it; or nothing was published meanwhile, and the answer holds an older one or
        nothing at all, not even the newest.
        """
        if self._room is not None and number > self._room:
            return True
        return self._quiet and number >= self.floor
