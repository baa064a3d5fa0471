"""The report for people: a table of verdicts, then each failure with its sentence, place, and a way to see it again."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Finding, Reason, Verdict

STYLES = {
    Verdict.PASS: "green",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.ERROR: "bold red",
}
PROBLEMS = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)
SHOWN = 12
"""How many holes, and how many ids of one reason, are listed at most."""


def _cell(outcome: result.Outcome) -> Text:
    text = Text(str(outcome.verdict), style=STYLES[outcome.verdict])
    if outcome.verdict is Verdict.PASS:
        text.append(f" ×{outcome.witnesses}", style="dim")
    elif outcome.violations:
        text.append(f" {outcome.violations} of {outcome.witnesses}", style="dim")
    if outcome.expected:
        text.append(" expected", style="dim")
    return text


def _remark(outcome: result.Outcome) -> str:
    if outcome.notes:
        return "; ".join(outcome.notes)
    if outcome.findings:
        return outcome.findings[0].seen
    return outcome.reason


def verdicts(report: Result) -> Table:
    """One row per requirement and stream, in the order of the areas."""
    several = len(report.run.streams) > 1
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("sentence", no_wrap=True)
    if several:
        table.add_column("stream", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what was seen", overflow="fold")
    for outcome in report.outcomes:
        row: list[Text | str] = [outcome.requirement]
        if several:
            row.append(outcome.stream)
        remark = Text(_remark(outcome), style="" if outcome.findings or outcome.notes else "dim")
        table.add_row(*row, outcome.level, _cell(outcome), remark)
    return table


def _place(finding: Finding) -> str:
    where = finding.where
    parts = []
    if where.number is not None:
        parts.append(f"number {where.number}")
    if where.record is not None:
        parts.append(f"record {where.record}")
    if where.frame is not None:
        parts.append(f"{where.frame} frame" if where.frame != "message" else "whole message")
    if where.offset is not None:
        parts.append(f"byte {where.offset}")
    if where.hex:
        parts.append(f"hex {where.hex}")
    if where.stored is not None:
        parts.append(f"the block last stored in number {where.stored}")
    if where.probe is not None:
        parts.append(f"during probe {where.probe}")
    return ", ".join(parts) or "the run as a whole"


def failure(console: Console, outcome: result.Outcome, report: Result) -> None:
    """One failure or warning in full: the sentence, expected, seen, where, and one line to reproduce."""
    stream = f" on {outcome.stream}" if len(report.run.streams) > 1 else ""
    console.print()
    console.print(
        f"[{STYLES[outcome.verdict]}]{outcome.verdict}[/] [bold]{outcome.requirement}[/]{escape(stream)}"
        f"  {outcome.violations} of {outcome.witnesses} occasions"
    )
    console.print(Padding(Text(outcome.sentence + "."), (0, 0, 0, 2)))
    for finding in outcome.findings:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("expected", Text(finding.expected))
        table.add_row("seen", Text(finding.seen))
        table.add_row("where", Text(_place(finding)))
        console.print(Padding(table, (0, 0, 0, 2)))
    base = report.run.reproduce.split(" --only ")[0]
    console.print(Padding(Text(f"again: {base} --only {outcome.requirement}", style="dim"), (0, 0, 0, 2)))


def render(report: Result, console: Console) -> None:
    """The whole report."""
    run = report.run
    who = f" ({run.implementation})" if run.implementation else ""
    console.print(
        Text(f"{run.target}{who}: edition {run.edition}, profile {run.profile}, level {run.level}", style="bold")
    )
    if run.left_out:
        console.print(Text(f"mode {run.mode}; left out: {', '.join(run.left_out)}", style="dim"))
    for stream in report.streams:
        counts = ", ".join(f"{count} {name}" for name, count in stream.events.items()) or "no events"
        lives = f", {stream.incarnations} incarnations" if stream.incarnations != 1 else ""
        console.print(Text(f"{stream.name}: {stream.batches} batches, {counts}, form {stream.form}{lives}"))
        for note in stream.notes:
            console.print(Text(f"  {note}", style="dim"))
    console.print()
    console.print(verdicts(report))
    for verdict in PROBLEMS:
        for outcome in report.outcomes:
            if outcome.verdict is verdict and not outcome.expected:
                failure(console, outcome, report)
    _expected(report, console)
    _holes(report, console)
    for trouble in report.troubles:
        console.print(Text("ERROR ", style="bold red") + Text(trouble.text, style=""))
    _not_judged(report, console)
    _summary(report, console)


def _expected(report: Result, console: Console) -> None:
    """What was expected, with its reason, and what did not come true."""
    if report.summary.expected or report.summary.unexpected:
        console.print()
    for outcome in report.outcomes:
        if outcome.expected:
            stream = f" on {outcome.stream}" if len(report.run.streams) > 1 else ""
            line = f"expected {outcome.verdict} {outcome.requirement}{stream}: {outcome.expected}"
            console.print(Text(line, style="dim"))
    for line in report.summary.unexpected:
        console.print(Text("not as expected ", style="bold red") + Text(line, style=""))


def _holes(report: Result, console: Console) -> None:
    if not report.holes:
        return
    console.print()
    for hole in report.holes[:SHOWN]:
        numbers = hole.first if hole.first == hole.last else f"{hole.first}…{hole.last}"
        console.print(Text(f"hole {numbers} on {hole.stream}: {hole.attribution} ({hole.why})", style="dim"))
    if len(report.holes) > SHOWN:
        console.print(Text(f"… and {len(report.holes) - SHOWN} more holes", style="dim"))


def _not_judged(report: Result, console: Console) -> None:
    by_reason: dict[str, list[str]] = {}
    for requirement, reason in report.summary.not_judged.items():
        by_reason.setdefault(reason, []).append(requirement.removeprefix("KVW-"))
    ours = {line.requirement.removeprefix("KVW-"): None for line in report.outcomes if line.reason == Reason.OURS}
    if ours:
        sets = ", ".join(report.run.sets)
        by_reason[f"as the adapter says that the harness or itself decides it ({sets})"] = list(ours)
    if by_reason:
        console.print()
    for reason, ids in by_reason.items():
        console.print(Text(f"not judged, {reason}: {', '.join(ids)}", style="dim"))


def _summary(report: Result, console: Console) -> None:
    summary = report.summary
    counts = ", ".join(f"{count} {name}" for name, count in summary.counts.items())
    console.print()
    if summary.conclusive_missing:
        wanted = f"profile {report.run.profile} wants these conclusive at level {report.run.level}"
        console.print(Text(f"{wanted}: {', '.join(summary.conclusive_missing)}", style="magenta"))
    style = "magenta" if summary.verdict is None else STYLES[summary.verdict]
    expected = f"; {summary.expected} as expected" if summary.expected else ""
    console.print(Text(f"{summary.judged} of {summary.total} judged: {counts or 'nothing'}{expected}"))
    console.print(Text(summary.headline, style=f"bold {style}" if not style.startswith("bold") else style))
