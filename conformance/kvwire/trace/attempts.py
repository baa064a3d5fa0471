"""What was awaited in vain, and whether the machine explains it: the guard of every sentence that a time decides.

A time alone proves nothing. What does not come within its bound counts when it did so in several attempts, apart from
each other, while nothing that takes part was held up for long. Whoever stands still for ``PAUSE_S`` breaks nothing.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

import msgspec

from kvwire.trace.calls import OFFERING
from kvwire.trace.detail import Detail
from kvwire.trace.marks import Stalled, StrainBegins, StrainDone
from kvwire.trace.records import Kind, Record, Records
from kvwire.trace.stimuli import offers

ATTEMPTS = 3
"""In how many attempts a thing has to fail."""
PAUSE_S = 3.0
"""How long attempts have to last together: then one pause of a machine that nobody noticed does not explain them."""
NS = 1_000_000_000
ROUNDED_NS = 2_000_000
"""By how much the begin of a wait can be wrong: marks give milliseconds."""


class Wait(msgspec.Struct, frozen=True):
    """One attempt: from when to when, in nanoseconds, and for how long of that something was held up."""

    began_ns: int
    ended_ns: int
    held_ns: int = 0

    @property
    def calm(self) -> bool:
        """Whether nothing that takes part was held up for half of the time."""
        return 2 * self.held_ns < self.ended_ns - self.began_ns


def sure(waits: Iterable[Wait], lasting_s: float = PAUSE_S) -> bool:
    """Whether waits in vain prove something: calm ones, ``ATTEMPTS`` apart from each other, so long in all."""
    apart = lasted = over = 0
    for wait in sorted((wait for wait in waits if wait.calm), key=lambda wait: wait.ended_ns):
        if not apart or wait.began_ns >= over - ROUNDED_NS:
            apart += 1
            lasted += wait.ended_ns - wait.began_ns
            over = wait.ended_ns
    return apart >= ATTEMPTS and lasted >= lasting_s * NS


class Stalls:
    """When the harness, a witness or a publisher was held up, by what they noted."""

    def __init__(self, records: Records) -> None:
        self._spans: list[tuple[int, int]] = []
        for _, record in records:
            if isinstance(record.detail, Stalled):
                self.add(record.t_ns - round(record.detail.ms * 1e6), record.t_ns)

    def add(self, began_ns: int, ended_ns: int) -> None:
        """One more."""
        bisect.insort(self._spans, (began_ns, ended_ns))

    def beside(self, other: Stalls) -> Stalls:
        """Those of both."""
        both = Stalls(())
        both._spans = sorted([*self._spans, *other._spans])
        return both

    def held_ns(self, began_ns: int, ended_ns: int) -> int:
        """How long something was held up that touches this time: all of it, as what waits behind it comes late."""
        touching = [span for span in self._spans if span[0] < ended_ns and span[1] > began_ns]
        held, over = 0, touching[0][0] if touching else 0
        for first, last in touching:
            held += max(0, last - max(first, over))
            over = max(over, last)
        return held

    def wait(self, ended: Record, after_s: float) -> Wait:
        """The wait of so many seconds that was over with a record."""
        began_ns = ended.t_ns - round(after_s * NS)
        return Wait(began_ns, ended.t_ns, self.held_ns(began_ns, ended.t_ns))

    def waits(self, records: Iterable[tuple[int, Record]], *kinds: type[Kind]) -> Iterator[tuple[int, Kind, Wait]]:
        """What marks of some kinds tell of a wait, as long as they say."""
        for index, record in records:
            if isinstance(record.detail, kinds):
                yield index, record.detail, self.wait(record, lasted_s(record.detail))


def lasted_s(mark: Detail) -> float:
    """How long a mark says that something was awaited, else for how long at most; 0 where it tells of no wait."""
    after_s: float | None = getattr(mark, "after_s", None)
    return getattr(mark, "bound_s", 0.0) if after_s is None else after_s


NEVER = Stalls(())
"""Nothing was held up."""


class Strain(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to make ``publish`` wait: its record, the calls in it, the longest of them in ms."""

    record: int
    situation: str
    calls: int
    longest_ms: float
    held_ms: float


def strains(records: Records, stalls: Stalls) -> Iterator[Strain]:
    """Every attempt of one stream that was carried to its end, in order."""
    begun: tuple[int, Record] | None = None
    offering: list[tuple[int, Record]] = []
    for index, record in records:
        match record.detail:
            case StrainBegins():
                begun, offering = (index, record), []
            case StrainDone() as done if begun is not None:
                times = [offer.blocked_us for offer in offers(offering) if offer.blocked_us is not None]
                yield Strain(
                    record=begun[0],
                    situation=done.situation,
                    calls=len(times),
                    longest_ms=max(times, default=0) / 1000,
                    held_ms=stalls.held_ns(begun[1].t_ns, record.t_ns) / 1e6,
                )
                begun = None
            case detail if isinstance(detail, OFFERING):
                offering.append((index, record))
