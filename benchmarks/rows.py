"""What a benchmark hands over: named ratios, one value per repetition, and what is wanted of their median.

A module of benchmarks has a docstring, which the page prints, and `rows(effort)`. What is compared is run in turn in
every repetition (`in_turn`), in another order each time, so that a machine that drifts drifts for all of it.
"""

import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

T = TypeVar("T")

RATIO = "×"


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure: `repetitions` of everything; `quick` is a small workload whose figures claim nothing."""

    repetitions: int = 7
    quick: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: `values` in `unit`, one per repetition, and the bound on their median that is wanted, if any.

    A ratio names in `against` what it was divided by. A row that was `left_out` has the reason there, and no values.
    """

    name: str
    values: tuple[float, ...] = ()
    unit: str = RATIO
    against: str = ""
    at_most: float | None = None
    at_least: float | None = None
    left_out: str = ""

    @property
    def median(self) -> float:
        """Of at least one value."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median is as wanted; None where nothing is wanted or measured."""
        if not self.values or (self.at_most is None and self.at_least is None):
            return None
        low, high = self.at_least, self.at_most
        return (low is None or self.median >= low) and (high is None or self.median <= high)


class Module(Protocol):
    """A module of benchmarks, as the registry holds it."""

    __name__: str
    __doc__: str | None

    @property
    def rows(self) -> Callable[[Effort], Iterable[Row]]:
        """Measure."""


def in_turn(ways: Mapping[str, Callable[[], T]], repetitions: int, warm_up: bool = True) -> dict[str, list[T]]:
    """Run every way `repetitions` times, in another order each time, after one time that does not count."""
    results: dict[str, list[T]] = {name: [] for name in ways}
    if warm_up:
        for run in ways.values():
            run()
    for number in range(repetitions):
        for name in random.Random(number).sample(list(ways), len(ways)):
            results[name].append(ways[name]())
    return results


def ratios(values: Sequence[float], base: Sequence[float]) -> tuple[float, ...]:
    """The ratio of each repetition to that of the base in the same repetition."""
    return tuple(value / below for value, below in zip(values, base, strict=True))
