"""Adapters that are none, or mean harm."""

from __future__ import annotations

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import Attack, Bench, Ran


def _yes(bench: Bench) -> Ran:
    return bench.kvwire("check", "exec:yes", "--quick")


ATTACKS = (
    Attack(
        name="adapter-yes",
        on="adapter",
        does="`check exec:yes`: lines without end that are no answer",
        run=_yes,
        exits=(Exit.ERROR, Exit.INCONCLUSIVE),
        says="not JSON on its standard output",
        quick=True,
    ),
)
