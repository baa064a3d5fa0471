"""What became of each probe of a run: carried out, or why not."""

from __future__ import annotations

import enum

import msgspec


class Left(enum.StrEnum):
    """Why a probe was not carried out, or not to its end: the closed list."""

    MODE = "mode"
    ONLY = "only"
    TIME = "time"
    FULL = "trace-full"
    INTERRUPTED = "interrupted"
    ENDED = "target-ended"
    REFUSED = "refused"
    VERB = "verb"
    REPLAY = "replay-socket"
    DECLARATION = "declaration"


CUT = frozenset({Left.TIME, Left.FULL, Left.INTERRUPTED, Left.ENDED})
"""What ends a whole run before its end."""


class Planned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One probe: the ids in short and the areas that it ``serves``, and why it was ``left``, None when it was not.

    ``lacks`` is what the run could not do of what it needs, ``said`` how it was refused.
    """

    name: str
    serves: str = ""
    left: Left | None = None
    lacks: tuple[str, ...] = ()
    said: str = ""

    def aims_at(self, requirement: str) -> bool:
        """Whether it serves this id."""
        short = requirement.removeprefix("KVW-")
        return not {short, short.partition("-")[0]}.isdisjoint(self.serves.split())
