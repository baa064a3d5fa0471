"""Which failures are one: a sentence that is broken in the events in which another is, or by the blocks that they
stored, is told under that one.

It changes no verdict and no count. One broken parent, say, is a chain that does not hold, hashes that nobody can
recompute and blocks that are stored twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from kvwire.conclusion.result import Outcome
from kvwire.judges.verdict import Finding, Verdict, Where

ORDER = ("ENV", "SEQ", "RNK", "BAT", "EVT", "CHN", "HSH", "RES", "EXP", "REP", "END", "LIV")
"""Causes before what follows from them: frames, numbers, ranks, batches, events, chains, hashes, residency."""
BROKEN = (Verdict.FAIL, Verdict.WARN)
_ENDED = re.compile(r"(?:clear was|removed|cleared) in number (\d+)")
Event = tuple[int, str | None, int | None]
"""A record, the frame, and where in it the event begins."""


def followed(outcomes: Sequence[Outcome], begins: Callable[[Where], int | None]) -> tuple[Outcome, ...]:
    """The outcomes, each that follows from another with its id; ``begins`` is where in its frame an event begins."""
    heads: dict[tuple[str, str], str] = {}
    by_stream: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.verdict in BROKEN and outcome.findings and not outcome.expected:
            by_stream.setdefault(outcome.stream, []).append(outcome)
    for stream, broken in by_stream.items():
        earlier: list[tuple[Outcome, frozenset[Event]]] = []
        for outcome in sorted(broken, key=_order):
            places = _places(outcome.findings, begins)
            cause = next((one for one, theirs in earlier if _follows(outcome, places, one, theirs)), None)
            if cause is None:
                earlier.append((outcome, places))
            else:
                heads[stream, outcome.requirement] = cause.requirement
    return tuple(
        msgspec.structs.replace(outcome, follows=heads.get((outcome.stream, outcome.requirement), ""))
        for outcome in outcomes
    )


def _order(outcome: Outcome) -> tuple[int, str]:
    area = outcome.requirement.split("-")[1]
    return (ORDER.index(area) if area in ORDER else len(ORDER), outcome.requirement)


def _places(findings: Iterable[Finding], begins: Callable[[Where], int | None]) -> frozenset[Event]:
    return frozenset(
        (finding.where.record, finding.where.frame, begins(finding.where))
        for finding in findings
        if finding.where.record is not None and finding.where.frame is not None
    )


def _follows(outcome: Outcome, places: frozenset[Event], cause: Outcome, theirs: frozenset[Event]) -> bool:
    """Whether half or more of what is shown of an outcome stands where the cause does, or is about blocks that were
    stored there, or in the batches of whose blocks the cause speaks, or that were ended in those.
    """
    if cause.verdict is Verdict.WARN and outcome.verdict is Verdict.FAIL:
        return False  # who reads only what failed would not find it
    about = [finding.where.stored for finding in outcome.findings if finding.where.stored is not None]
    broken = {finding.where.number for finding in cause.findings}
    spoken = {finding.where.stored for finding in cause.findings}
    blamed = set().union(*map(_blamed, cause.findings))
    return (
        2 * len(places & theirs) >= max(1, len(places))
        or 2 * sum(number in broken for number in about) >= len(outcome.findings)
        or 2 * sum(number in spoken for number in about) >= len(outcome.findings)
        or 2 * sum(not blamed.isdisjoint(_blamed(finding)) for finding in outcome.findings) >= len(outcome.findings)
    )


def _blamed(finding: Finding) -> set[str]:
    """The batches in which the block of a finding was removed or cleared, as it says."""
    return set(_ENDED.findall(finding.seen))
