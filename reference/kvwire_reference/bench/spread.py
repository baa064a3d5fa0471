"""Medians with their spread, and what may be said of two of them."""

import statistics
from collections.abc import Sequence
from enum import Enum

import msgspec

ENOUGH = 5
"""Repetitions below which quartiles carry nothing."""


class Spread(msgspec.Struct, frozen=True):
    """Median, quartiles and extremes of `count` values."""

    median: float
    lower: float
    upper: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        lower, upper = min(values), max(values)
        if len(values) > 1:
            lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
        return cls(statistics.median(values), lower, upper, min(values), max(values), len(values))


class Finding(Enum):
    """What two spreads carry."""

    MORE = "more"
    LESS = "less"
    NONE = "no difference beyond the spread"
    FEW = "too few repetitions to say"


def compare(one: Spread, other: Spread) -> Finding:
    """Say how `one` differs from `other`: it does where the ranges between their quartiles do not meet."""
    if min(one.count, other.count) < ENOUGH:
        return Finding.FEW
    if one.lower > other.upper:
        return Finding.MORE
    if one.upper < other.lower:
        return Finding.LESS
    return Finding.NONE
