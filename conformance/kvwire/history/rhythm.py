"""A stream's own rhythm, and which of several streams stopped while their peers went on.

On the wire an idle rank, one that hangs and one that lost its publisher look the same, so that none of this is a
verdict (Note in spec/ranks.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

TIMES = 5
"""A stream may pause for so many times its longest pause."""
LEAST_S = 2.0
"""A shorter silence at the end of a recording is not worth a word."""

K = TypeVar("K")


def allowed_s(longest_s: float, least_s: float = LEAST_S) -> float:
    """For how long a stream may be silent whose longest pause is known, in seconds."""
    return max(least_s, TIMES * longest_s)


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """When one stream was heard, in nanoseconds of one clock: from when on somebody listened, the first message and the
    last, the longest time between two, and until when somebody listened.
    """

    began_ns: int
    first_ns: int
    last_ns: int
    longest_ns: int
    ended_ns: int

    @property
    def allowed_ns(self) -> int:
        """For how long it may be silent; before its first message its rhythm shows too."""
        return int(allowed_s(max(self.longest_ns, self.first_ns - self.began_ns) / 1e9) * 1e9)

    def meets(self, other: Heard) -> bool:
        """Whether both were heard at one time."""
        return self.first_ns <= other.last_ns and other.first_ns <= self.last_ns

    def shifted(self, by_ns: int) -> Heard:
        """The same by another clock."""
        return Heard(
            began_ns=self.began_ns + by_ns,
            first_ns=self.first_ns + by_ns,
            last_ns=self.last_ns + by_ns,
            longest_ns=self.longest_ns,
            ended_ns=self.ended_ns + by_ns,
        )


def stopped(streams: Mapping[K, Heard]) -> list[K]:
    """Those that were silent for longer than their own rhythm allows while peers went on, in order.

    ``streams`` are by one clock. A silence lasts until nobody listens to the stream any more, or no peer is heard.
    """
    newest = max((heard.last_ns for heard in streams.values()), default=0)
    return [name for name, heard in streams.items() if min(heard.ended_ns, newest) - heard.last_ns >= heard.allowed_ns]
