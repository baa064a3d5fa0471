"""What is broken, grouped by cause: a sentence that follows from another on every stream is told under it. And what is
open, by reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvwire.conclusion.result import Outcome, Result
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Verdict
from kvwire.report.words import closing, singular, worded

PROBLEMS = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence, on the streams that break it, and the sentences that are told under it."""

    outcomes: list[Outcome]
    under: list[list[Outcome]] = []

    @property
    def all(self) -> list[list[Outcome]]:
        """The sentence and those under it."""
        return [self.outcomes, *self.under]


def broken(report: Result) -> list[Broken]:
    """Failures first, then warnings, each sentence of a verdict once; what was expected is left out."""
    found: dict[tuple[Verdict, str], list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.verdict in PROBLEMS and not outcome.expected:
            found.setdefault((outcome.verdict, outcome.requirement), []).append(outcome)
    heads = {key: Broken(outcomes=outcomes, under=[]) for key, outcomes in found.items() if _cause(outcomes) is None}
    for (verdict, requirement), outcomes in found.items():
        cause = _cause(outcomes)
        if cause is None:
            continue
        above = next((heads[one, cause] for one in PROBLEMS if (one, cause) in heads), None)
        if above is None:
            heads[verdict, requirement] = Broken(outcomes=outcomes, under=[])
        else:
            above.under.append(outcomes)
    return sorted(heads.values(), key=lambda one: PROBLEMS.index(one.outcomes[0].verdict))


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """Why sentences are open and what would close them, and their outcomes by requirement."""

    reason: str
    closing: str
    outcomes: dict[str, list[Outcome]] = {}


def opened(report: Result) -> list[Open]:
    """What is open of the sentences that the profile has, in the order in which reasons come up."""
    found: dict[str, Open] = {}
    for outcome in report.outcomes:
        if outcome.verdict is Verdict.INCONCLUSIVE and not outcome.expected and outcome.why is not Why.PROFILE:
            why = outcome.why or Why.UNDECIDED
            reason = singular(outcome.reason) if why in (Why.UNDECIDED, Why.REFUSED) else worded(why, report.run.mode)
            way = closing(why, report.run.level, report.run.mode)
            group = found.setdefault(reason, Open(reason=reason, closing=way, outcomes={}))
            group.outcomes.setdefault(outcome.requirement, []).append(outcome)
    return list(found.values())


def _cause(outcomes: Sequence[Outcome]) -> str | None:
    """What a sentence follows from on every stream that breaks it; None when there is no such one."""
    causes = {outcome.follows for outcome in outcomes}
    return next(iter(causes)) or None if len(causes) == 1 else None


def occasions(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    """How many violations there were, of how many occasions."""
    return sum(one.violations for one in outcomes), sum(one.witnesses for one in outcomes)
