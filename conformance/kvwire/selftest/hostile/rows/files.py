"""Files that nobody would send."""

from __future__ import annotations

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import Attack, Bench, Ran


def _zeros(bench: Bench) -> Ran:
    return bench.kvwire("judge", "/dev/zero")


ATTACKS = (
    Attack(
        name="judge-dev-zero",
        on="file",
        does="`judge /dev/zero`: bytes without end, and no line",
        run=_zeros,
        exits=(Exit.USAGE,),
        says="/dev/zero",
        seconds=15,
        quick=True,
    ),
)
