"""Markdown, for the summary of a CI job or a comment: what the run comes to, what failed, what is open and why."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Verdict
from kvwire.report.console import MARKS, place
from kvwire.report.grouping import broken, opened
from kvwire.report.profile import causes, lines, shown
from kvwire.report.standing import RUN, Standing, cases, standing
from kvwire.report.words import counted, short, singular

_SPECIAL = re.compile(r"([\\`*_\[\]|~#!])")
SHOWN = 50
"""How many rows a table has at most; a comment has a bound."""
_ICONS = {Verdict.PASS: "✅", Verdict.WARN: "⚠️", Verdict.INCONCLUSIVE: "❔", Verdict.NOT_APPLICABLE: "➖"}


def literal(text: str) -> str:
    """The text as Markdown that shows it: nothing in it is mark-up or HTML."""
    return _SPECIAL.sub(r"\\\1", html.escape(text, quote=False))


def icon(report: Result) -> str:
    """A sign for the whole: what failed a build is a cross."""
    summary = report.summary
    if summary.exit != 0:
        return "❌" if summary.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN) or summary.unexpected else "❔"
    return "✅" if not summary.no_claim and summary.verdict is not Verdict.INCONCLUSIVE else "❔"


def markdown(reports: Sequence[Result]) -> str:
    """One document for one run or several; several begin with a table of them."""
    made: list[str] = []
    if len(reports) > 1:
        made += ["| | target | profile | level | outcome |", "|---|---|---|---|---|"]
        for report in reports:
            run = report.run
            cells = (icon(report), run.target, run.profile, run.level, report.summary.headline)
            made.append("| " + " | ".join(map(literal, cells)) + " |")
        made.append("")
    for report in reports:
        made += _one(report)
    return "\n".join(made).rstrip() + "\n"


def _one(report: Result) -> Iterator[str]:
    run, summary = report.run, report.summary
    who = f" ({run.implementation})" if run.implementation else ""
    yield f"### {icon(report)} {literal(run.target)}{literal(who)}"
    yield ""
    yield f"**{literal(summary.headline)}**"
    yield ""
    said = [case for case in cases(report) if case.name == RUN and case.standing is not Standing.PASSED]
    for case in said:
        yield f"- {literal(case.message)}"
    for notice in report.notices:
        yield f"- {literal(notice.text)}"
    found = causes(report)
    for text in found:
        yield f"- {literal(text)}"
    if said or report.notices or found:
        yield ""
    problems = [row for one in broken(report) for at, outcomes in enumerate(one.all) for row in _rows(outcomes, at)]
    if problems:
        yield "| verdict | sentence | stream | expected; seen | where |"
        yield "|---|---|---|---|---|"
        yield from problems[:SHOWN]
        yield ""
        yield from _more(len(problems) - SHOWN, "sentences")
    expected = [outcome for outcome in report.outcomes if outcome.expected]
    if expected:
        yield f"<details><summary>{counted(len(expected), 'sentences')} as expected</summary>"
        yield ""
        for outcome in expected:
            yield f"- {outcome.verdict} `{outcome.requirement}`: {literal(outcome.expected)}"
        yield ""
        yield "</details>"
        yield ""
    yield from _open(report)
    yield from _profiles(report)
    counts = Counter(outcome.verdict for outcome in report.outcomes if outcome.why is not Why.PROFILE)
    told = " · ".join(f"{counts[verdict]} {MARKS[verdict]}" for verdict in MARKS if counts[verdict])
    yield f"{told} · edition {literal(run.edition)}, profile {literal(run.profile)}, level {run.level}"
    if run.reproduce:
        yield ""
        yield "```console"
        yield f"$ {run.reproduce.replace('```', '` ` `')}"
        yield "```"
    yield ""


def _rows(outcomes: Sequence[result.Outcome], under: int) -> Iterator[str]:
    return (_row(outcome, "↳ " if under else "") for outcome in outcomes)


def _row(outcome: result.Outcome, lead: str) -> str:
    finding = outcome.findings[0] if outcome.findings else None
    seen = "" if finding is None else singular(f"{finding.expected}; seen {finding.seen}")
    count = f"{outcome.violations} of {outcome.witnesses}"
    cells = (
        f"{lead}**{outcome.verdict}** {count}",
        f"`{outcome.requirement}` {literal(outcome.sentence)}",
        literal(outcome.stream),
        literal(seen),
        literal("" if finding is None else place(finding)),
    )
    return "| " + " | ".join(cells) + " |"


def _open(report: Result) -> Iterator[str]:
    groups = opened(report)
    if not groups:
        return
    number = sum(len(group.outcomes) for group in groups)
    yield f"<details><summary>{counted(number, 'sentences')} not proven</summary>"
    yield ""
    for group in groups:
        names = []
        for requirement, outcomes in group.outcomes.items():
            wanted = "**" if any(standing(report, outcome) is Standing.ERROR for outcome in outcomes) else ""
            names.append(f"{wanted}{short(requirement)}{wanted}")
        way = f" (to close it: {literal(group.closing)})" if group.closing else ""
        yield f"- {literal(group.reason)}: {', '.join(names)}{way}"
    yield ""
    yield "</details>"
    yield ""


def _profiles(report: Result) -> Iterator[str]:
    profiles = shown(report)
    if not profiles:
        return
    yield f"<details><summary>what is on {counted(len(profiles), 'streams')}</summary>"
    yield ""
    for profile in profiles[:SHOWN]:
        yield f"- **{literal(profile.name)}**"
        for label, text in lines(profile):
            yield f"  - {label}: {literal(text)}"
    yield ""
    yield "</details>"
    yield ""


def _more(number: int, noun: str) -> Iterator[str]:
    if number > 0:
        yield f"… and {counted(number, f'more {noun}')}"
        yield ""
