"""Honest peers, from real runs: whether anybody spoke of one, and whether it passed what it must.

A whole run is judged at every level of control, and from its stored trace; a small one on bad days too (``bad_days``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict
from kvwire.peers.honest.catalog import HONEST
from kvwire.peers.honest.mark import Honest
from kvwire.selftest import matrix
from kvwire.selftest.bad_days import BAD_DAYS
from kvwire.standard.registry import LEVELS, ControlLevel
from kvwire.trace import files
from kvwire.trace.records import Trace

LIMITS = msgspec.structs.replace(matrix.LIMITS, prompts=60, batches=40)
"""Less work than for mutants: of a stream of which nobody may speak, more of the same shows nothing."""
BROKEN = "should be heard for what it breaks, and is not"


class Quiet(msgspec.Struct, frozen=True, kw_only=True):
    """One honest peer: who spoke, by the occasion (level of control, run, bad day), where anybody did.

    ``unpassed`` is what it did not pass in its small run and had to, by level. ``left`` are sentences of the profile's
    ``conclusive`` list that were left open in the whole run and must not be. ``amiss`` is what else is wrong.
    """

    peer: str
    spoken: Mapping[str, list[str]]
    unpassed: Mapping[ControlLevel, list[str]]
    left: list[str]
    troubles: list[str]
    amiss: list[str]
    seconds: float
    runs: int = 1

    @property
    def name(self) -> str:
        """The peer's."""
        return self.peer

    @property
    def exact(self) -> bool:
        """Whether nobody spoke, and everything passed that must."""
        return not self.said

    @property
    def said(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        return (
            *(f"{occasion}: {' '.join(ids)} spoke" for occasion, ids in self.spoken.items()),
            *(f"{level}: {' '.join(ids)} did not pass" for level, ids in self.unpassed.items()),
            *(f"{' '.join(self.left)} left open" for _ in self.left[:1]),
            *self.troubles,
            *self.amiss,
        )


def spoken(peer: Honest, told: Result) -> list[str]:
    """Who spoke and had no right to."""
    return sorted({outcome.requirement for outcome in told.outcomes if outcome.verdict in matrix.SPEAKS} - peer.breaks)


def unpassed(peer: Honest, level: ControlLevel, told: Result) -> list[str]:
    """What it had to pass at a level and did not."""
    passed = {outcome.requirement for outcome in told.outcomes if outcome.verdict is Verdict.PASS}
    return sorted(peer.passes[level] - passed)


def small(peer: Honest) -> Trace:
    """The small run of one: its probes alone."""
    return matrix.recorded(peer.target, LIMITS, probes=peer.probes)


def on_bad_days(peer: Honest, recording: Trace) -> dict[str, list[str]]:
    """Who speaks of it on a bad day, by day and level, where anybody does."""
    found: dict[str, list[str]] = {}
    for name, day in BAD_DAYS.items():
        found |= _of(matrix.at_levels(day.change(recording), peer.profile, day.levels), peer, f"{name}, ")
    return found


def _of(results: Mapping[ControlLevel, Result], peer: Honest, prefix: str = "") -> dict[str, list[str]]:
    return {f"{prefix}{level}": said for level, told in results.items() if (said := spoken(peer, told))}


def measure(name: str, keep: Path | None = None) -> Quiet:
    """Run one honest peer, whole and small, and judge it; the traces of one that is not exact are kept, if asked."""
    began = time.monotonic()
    peer = HONEST[name]
    whole, part = matrix.recorded(peer.target, LIMITS), small(peer)
    results, few = matrix.at_levels(whole, peer.profile), matrix.at_levels(part, peer.profile)
    driven = results["driven"]
    heard = {outcome.requirement for outcome in driven.outcomes if outcome.verdict in matrix.SPEAKS}
    row = Quiet(
        peer=name,
        spoken=_of(results, peer) | _of(few, peer, "small run, ") | on_bad_days(peer, part),
        unpassed={level: left for level in LEVELS if (left := unpassed(peer, level, few[level]))},
        left=sorted(set(driven.summary.conclusive_missing) - peer.open - peer.breaks),
        troubles=[trouble.text for trouble in driven.troubles],
        amiss=matrix.amiss(whole, "", driven, peer.profile) + [f"{i} {BROKEN}" for i in sorted(peer.breaks - heard)],
        seconds=round(time.monotonic() - began, 2),
    )
    if keep is not None and not row.exact:
        keep.mkdir(parents=True, exist_ok=True)
        files.write(whole, keep / f"{name}.kvtrace")
        files.write(part, keep / f"{name}-small.kvtrace")
    return row


def measured(
    names: Sequence[str],
    processes: int,
    progress: Callable[[Quiet], None] = lambda _: None,
    keep: Path | None = None,
    again: int = 0,
) -> tuple[list[Quiet], bool]:
    """Run honest peers, as ``matrix.rows_of`` does."""
    return matrix.rows_of(names, partial(measure, keep=keep), processes, progress, again)
