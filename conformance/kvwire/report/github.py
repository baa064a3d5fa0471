"""Annotations of GitHub's workflow commands: a line for each case that fails a build, and for each warning."""

from __future__ import annotations

from collections.abc import Sequence

from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Verdict
from kvwire.report.profile import causes
from kvwire.report.standing import Case, Standing, cases
from kvwire.report.words import counted

SHOWN = 10
"""How many of each kind GitHub shows for one step; the last line counts the rest."""
CAUSES = 4


def github(reports: Sequence[Result]) -> str:
    """Workflow commands on standard output; errors are what fails a build, whatever the verdict is called."""
    lines: list[str] = []
    for report in reports:
        errors, warnings = [], []
        for case in cases(report):
            if case.standing in (Standing.FAILED, Standing.ERROR):
                errors.append(case)
            elif case.outcome is not None and case.outcome.verdict is Verdict.WARN and not case.outcome.expected:
                warnings.append(case)
        for level, found in (("error", errors), ("warning", warnings)):
            lines += [_annotation(level, case, report) for case in found[:SHOWN]]
            if len(found) > SHOWN:
                more = f"and {counted(len(found) - SHOWN, f'more {level}s')} on {report.run.target}"
                lines.append(f"::{level} title=kvwire::{_value(more)}")
        lines += [f"::notice title=what is on the stream::{_value(text)}" for text in causes(report)[:CAUSES]]
        lines.append(f"::notice title=kvwire {_property(report.run.target)}::{_value(report.summary.headline)}")
    return "\n".join(lines) + "\n"


def _annotation(level: str, case: Case, report: Result) -> str:
    stream = "" if case.outcome is None or len(report.run.streams) == 1 else f" on {case.outcome.stream}"
    title = _property(f"{case.name}{stream}")
    sentence = "" if case.outcome is None else f" ({case.outcome.sentence})"
    return f"::{level} title={title}::{_value(case.message + sentence)}"


def _value(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _value(text).replace(":", "%3A").replace(",", "%2C")
