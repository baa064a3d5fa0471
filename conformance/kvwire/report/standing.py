"""How each line of a result stands for a machine: what fails a build, and why, the same in every face.

A run fails a build exactly when its exit code is not 0: then at least one case here failed or is an error.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Exit, Finding, Verdict
from kvwire.report.words import WHY, singular, worded


class Standing(enum.StrEnum):
    """What a machine makes of a case."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence on one stream, or what is said of the run as a whole (``outcome`` is None, ``name`` says it)."""

    name: str
    standing: Standing
    message: str = ""
    outcome: result.Outcome | None = None


RUN = "the run as a whole"


def told(finding: Finding) -> str:
    """A finding on a line, as files of expected failures match it."""
    return singular(f"{finding.expected}; seen {finding.seen}")


def message(outcome: result.Outcome, mode: str) -> str:
    """Why an outcome is what it is, on a line; empty for what passed without a word."""
    if outcome.findings:
        return told(outcome.findings[0])
    if outcome.verdict is Verdict.PASS:
        return "; ".join(outcome.notes)
    why = outcome.reason or ("" if outcome.why is None else worded(outcome.why, mode))
    lacks = f": needs {', '.join(outcome.lacks)}" if outcome.lacks else ""
    if outcome.why is not None and WHY[outcome.why] not in why and outcome.verdict is Verdict.NOT_APPLICABLE:
        why = worded(outcome.why, mode)
    return singular("; ".join([why + lacks, *outcome.notes]).strip("; "))


def standing(report: Result, outcome: result.Outcome) -> Standing:
    """What a machine makes of one outcome, given how strict the run was."""
    summary = report.summary
    match outcome.verdict:
        case Verdict.PASS:
            return Standing.PASSED
        case Verdict.NOT_APPLICABLE:
            return Standing.SKIPPED
        case _ if outcome.expected:
            return Standing.SKIPPED
        case Verdict.FAIL:
            return Standing.FAILED
        case Verdict.WARN:
            strict = summary.exit == Exit.NOT_CONFORMANT and summary.verdict is Verdict.WARN
            return Standing.FAILED if strict else Standing.PASSED
        case Verdict.INCONCLUSIVE:
            wanted = outcome.requirement in summary.conclusive_missing and not report.run.allow_inconclusive
            return Standing.ERROR if wanted else Standing.SKIPPED
        case Verdict.ERROR:
            return Standing.ERROR


def cases(report: Result) -> Iterator[Case]:
    """Every sentence of the profile on every stream, and before them what is said of the run as a whole."""
    summary = report.summary
    outcomes = [
        Case(name=one.requirement, standing=standing(report, one), message=message(one, report.run.mode), outcome=one)
        for one in report.outcomes
        if one.why is not Why.PROFILE
    ]
    yield from (Case(name=RUN, standing=Standing.FAILED, message=f"not as expected: {s}") for s in summary.unexpected)
    yield from (Case(name=RUN, standing=Standing.ERROR, message=trouble.text) for trouble in report.troubles)
    said = bool(summary.unexpected or report.troubles)
    if (
        not said
        and summary.exit != Exit.CONFORMANT
        and not any(case.standing in (Standing.FAILED, Standing.ERROR) for case in outcomes)
    ):
        yield Case(name=RUN, standing=Standing.ERROR, message=summary.headline)
    elif not said:
        yield Case(name=RUN, standing=Standing.PASSED, message=summary.headline)
    yield from outcomes
