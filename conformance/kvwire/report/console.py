"""The report for people: what the run comes to, then each failure with its sentence, place, and a way to see it again,
then what is open, and at last what holds, folded by area.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Finding, Verdict
from kvwire.report.grouping import PROBLEMS, broken, occasions, opened
from kvwire.report.profile import STREAMS, brief, causes, labelled, pointed, shown
from kvwire.report.standing import told
from kvwire.report.words import WHY, counted, short, singular, worded

STYLES = {
    Verdict.PASS: "green",
    Verdict.WARN: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.INCONCLUSIVE: "magenta",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.ERROR: "bold red",
}
MARKS = {
    Verdict.PASS: "✓",
    Verdict.WARN: "warn",
    Verdict.FAIL: "✗",
    Verdict.ERROR: "error",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_APPLICABLE: "–",
}
"""How verdicts are counted in the line of an area; where a sentence has several streams, the first of these counts."""
WORST = (Verdict.ERROR, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_APPLICABLE)
SHOWN = 12
"""How many holes, and how many open sentences with reasons of their own, are listed at most."""


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
        return singular(outcome.findings[0].seen)
    lacks = ", ".join(outcome.lacks)
    if outcome.why is Why.DECLARATION:
        return f"{outcome.reason}: no {lacks} is declared"
    return outcome.reason + (f": needs {lacks}" if lacks else "")


def claimed(report: Result) -> list[result.Outcome]:
    """The outcomes of the sentences that the profile has."""
    return [outcome for outcome in report.outcomes if outcome.why is not Why.PROFILE]


def verdicts(report: Result) -> Table:
    """One row per requirement of the profile and stream, in the order of the areas."""
    several = len(report.run.streams) > 1
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("sentence", no_wrap=True)
    if several:
        table.add_column("stream", no_wrap=True)
    table.add_column("level", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what was seen", overflow="fold")
    for outcome in claimed(report):
        row: list[Text | str] = [outcome.requirement]
        if several:
            row.append(outcome.stream)
        remark = Text(_remark(outcome), style="" if outcome.findings or outcome.notes else "dim")
        table.add_row(*row, outcome.level, _cell(outcome), remark)
    return table


# --- failures ----------------------------------------------------------------------------------------------------


def place(finding: Finding) -> str:
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
    if where.before is not None:
        parts.append(f"after {where.before}")
    return ", ".join(parts) or "the run as a whole"


def failure(console: Console, outcomes: Sequence[result.Outcome], report: Result, *, verbose: bool = False) -> None:
    """One broken sentence in full: its words, expected, seen and where.

    Of a sentence that several streams break the first of them is shown, with one finding. Further findings are a line
    each, unless ``verbose``.
    """
    outcome = outcomes[0]
    violations, of = occasions(outcomes)
    console.print()
    console.print(
        f"[{STYLES[outcome.verdict]}]{outcome.verdict}[/] [bold]{outcome.requirement}[/]{escape(_on(outcomes, report))}"
        f"  {violations} of {counted(of, 'occasions')}"
    )
    _indented(console, Text(outcome.sentence + "."))
    for at, finding in enumerate(outcome.findings[: 1 if len(outcomes) > 1 else None]):
        where = finding.where
        if at and not verbose:
            said = finding.seen if finding.expected == outcome.findings[0].expected else told(finding)
            number = f"number {where.number}, " if where.number is not None else ""
            record = f" ({number}record {where.record})" if where.record is not None else ""
            _indented(console, Text(singular(said) + record), "also")
            continue
        _indented(console, Text(singular(finding.expected)), "expected")
        _indented(console, Text(singular(finding.seen)), "seen")
        if where.event is not None:
            _indented(console, Text(where.event), "in")
        _indented(console, Text(place(finding)), "where")
    for note in outcome.notes:
        _indented(console, Text(singular(note), style="dim"))


def _on(outcomes: Sequence[result.Outcome], report: Result) -> str:
    """On which streams, where the run has several."""
    stream = f" on {outcomes[0].stream}" if len(report.run.streams) > 1 else ""
    if len(outcomes) > 1:
        stream += f" and {len(outcomes) - 1} more stream{'s' if len(outcomes) > 2 else ''}"
    return stream


def _under(console: Console, outcomes: Sequence[result.Outcome], report: Result) -> None:
    """A sentence that is broken with another: its verdict, id and counts, and what was seen first."""
    outcome = outcomes[0]
    violations, of = occasions(outcomes)
    head = f"{outcome.verdict} {short(outcome.requirement)}{_on(outcomes, report)}, {violations} of {of}"
    _indented(console, Text(f"{head}: {told(outcome.findings[0])}"), "with it")


def _indented(console: Console, text: Text, label: str = "") -> None:
    """A paragraph of a failure, or what stands beside a label, without blanks at the ends of its lines."""
    column = len("expected") + 1 if label else 0
    for at, line in enumerate(text.wrap(console, console.width - 2 - column, overflow="fold")):
        line.rstrip()
        lead = Text("  ") + Text((label if at == 0 else "").ljust(column), style="dim")
        console.print(lead + line, no_wrap=True, overflow="ignore", crop=False)


def _problems(report: Result, console: Console, *, verbose: bool) -> None:
    """Failures first, then warnings, each sentence once, under the one that it follows from."""
    base = report.run.reproduce.split(" --only ")[0]
    for one in broken(report):
        failure(console, one.outcomes, report, verbose=verbose)
        for outcomes in one.under:
            if verbose:
                failure(console, outcomes, report, verbose=True)
            else:
                _under(console, outcomes, report)
        ids = " ".join(f"--only {short(outcomes[0].requirement)}" for outcomes in one.all)
        _indented(console, Text(f"again: {base} {ids}", style="dim"))


# --- the whole ---------------------------------------------------------------------------------------------------


def render(report: Result, console: Console, *, verbose: bool = False) -> None:
    """The whole report; ``verbose``: with a row for each sentence and stream."""
    run = report.run
    who = f" ({run.implementation})" if run.implementation else ""
    console.print(
        Text(f"{run.target}{who}: edition {run.edition}, profile {run.profile}, level {run.level}", style="bold")
    )
    _headline(report, console)
    for trouble in report.troubles:
        console.print(Text("ERROR ", style="bold red") + Text(trouble.text, style=""))
    said = [report.summary.headline, *(trouble.text for trouble in report.troubles)]
    for notice in report.notices:
        if not any(notice.text in line for line in said):
            console.print(Text(notice.text, style="yellow"))
    _streams(report, console)
    _problems(report, console, verbose=verbose)
    _expected(report, console)
    _holes(report, console)
    if verbose:
        console.print()
        console.print(verdicts(report))
    _open(report, console, verbose=verbose)
    _areas(report, console)
    _not_judged(report, console, verbose=verbose)
    _summary(report, console, verbose=verbose)


def _headline(report: Result, console: Console) -> None:
    summary = report.summary
    style = "magenta" if summary.verdict is None or summary.no_claim else STYLES[summary.verdict]
    if summary.verdict in (Verdict.FAIL, Verdict.ERROR):
        style = STYLES[summary.verdict]
    console.print(Text(summary.headline, style=style if style.startswith("bold") else f"bold {style}"))


def _streams(report: Result, console: Console) -> None:
    """What came of each stream, or of all of them when they are many; and what was not run."""
    if len(report.streams) > STREAMS:
        events: Counter[str] = Counter()
        for stream in report.streams:
            events.update(stream.events)
        forms = ", ".join(sorted({stream.form for stream in report.streams}))
        batches = sum(stream.batches for stream in report.streams)
        said = f"{len(report.streams)} streams: {_told(batches, events)}, form {forms}"
        console.print(Text(said))
        notes = Counter(note for stream in report.streams for note in stream.notes)
        for note, count in notes.most_common(STREAMS):
            console.print(Text(f"  {note} ({counted(count, 'streams')})", style="dim"))
    profiles = {profile.name: profile for profile in shown(report)}
    for stream in report.streams if len(report.streams) <= STREAMS else ():
        lives = f", {stream.incarnations} incarnations" if stream.incarnations != 1 else ""
        console.print(Text(f"{stream.name}: {_told(stream.batches, stream.events)}, form {stream.form}{lives}"))
        for note in stream.notes:
            console.print(Text(f"  {singular(note)}", style="dim"))
        if (profile := profiles.get(stream.name)) is not None:
            for label, text in brief(profile):
                labelled(console, label, text)
    for text in causes(report)[:SHOWN]:
        pointed(console, "•", "bold yellow", text)
    by_why: dict[str, list[str]] = {}
    for probe in report.run.left_out:
        left = report.run.not_run.get(probe)
        by_why.setdefault(worded(Why.MODE if left is None else Why(left), report.run.mode), []).append(probe)
    for why, names in by_why.items():
        console.print(Text(f"not run, {why}: {', '.join(names)}", style="dim"))


def _told(batches: int, events: dict[str, int]) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in events.items()) or "no events"
    return f"{counted(batches, 'batches')}, {counts}"


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
    alike: dict[str, list[str]] = {}
    for hole in report.holes:
        numbers = hole.first if hole.first == hole.last else f"{hole.first}…{hole.last}"
        alike.setdefault(f"hole {numbers} on {{}}: {hole.attribution} ({hole.why})", []).append(hole.stream)
    for said, streams in list(alike.items())[:SHOWN]:
        console.print(Text(said.replace("{}", _some(streams), 1), style="dim"))
    if len(alike) > SHOWN:
        more = len(alike) - SHOWN
        console.print(Text(f"… and {more} more hole{'s' if more > 1 else ''}", style="dim"))


def _open(report: Result, console: Console, *, verbose: bool) -> None:
    """The sentences that are open, by reason; those that do not apply are counted by reason."""
    groups = opened(report)
    streams = len(report.run.streams)
    apart: Counter[str] = Counter()
    declared: list[str] = []
    seen: set[str] = set()
    for outcome in claimed(report):
        if outcome.verdict is Verdict.NOT_APPLICABLE and outcome.requirement not in seen and outcome.why is not None:
            seen.add(outcome.requirement)
            verbs = f" (`{'`, `'.join(outcome.lacks)}`)" if outcome.why is Why.VERB and outcome.lacks else ""
            apart[WHY[outcome.why] + verbs] += 1
            declared += outcome.lacks if outcome.why is Why.DECLARATION else []
    console.print()
    everything = {WHY[Why.SILENT], WHY[Why.UNREACHABLE]}
    for group in groups[:SHOWN]:
        named = [
            short(name) if len(on) == streams else f"{short(name)} on {_some([one.stream for one in on])}"
            for name, on in group.outcomes.items()
        ]
        said = counted(len(named), "sentences") if group.reason in everything and not verbose else _ids(named)
        pointed(console, "open, ", "magenta", f"{group.reason}: {said}")
        if group.closing:
            pointed(console, "  to close it: ", "dim", group.closing)
    if len(groups) > SHOWN:
        rest = [short(name) for group in groups[SHOWN:] for name in group.outcomes]
        console.print(Text("open, ", style="magenta") + Text(f"for other reasons (-v): {', '.join(rest)}", style=""))
    if apart:
        said = ", ".join(f"{why} {count}" for why, count in apart.most_common())
        console.print(Text(f"not applicable: {said}", style="dim"))
    if declared:
        console.print(Text(f"not declared: {', '.join(dict.fromkeys(declared))}", style="dim"))


def _ids(names: Sequence[str]) -> str:
    """Sentences of a list, those of an area in a row together where they are many: ``REP-001…004 008``."""
    if len(names) <= SHOWN or any(" " in name for name in names):
        return ", ".join(names)
    areas: dict[str, list[tuple[int, int]]] = {}
    for name in names:
        area, _, number = name.partition("-")
        runs = areas.setdefault(area, [])
        if runs and runs[-1][1] == int(number) - 1:
            runs[-1] = (runs[-1][0], int(number))
        else:
            runs.append((int(number), int(number)))
    return ", ".join(f"{area}-{' '.join(map(_run, runs))}" for area, runs in areas.items())


def _run(run: tuple[int, int]) -> str:
    first, last = run
    between = "…" if last > first + 1 else " "
    return f"{first:03}" if first == last else f"{first:03}{between}{last:03}"


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} streams"


def _areas(report: Result, console: Console) -> None:
    """How the sentences of each area came out, on a line: ``ENV 6 ✓ · SEQ 8 ✓ 1 –``."""
    worst: dict[str, Verdict] = {}
    for outcome in claimed(report):
        before = worst.setdefault(outcome.requirement, outcome.verdict)
        worst[outcome.requirement] = min(before, outcome.verdict, key=WORST.index)
    areas: dict[str, Counter[Verdict]] = {}
    for requirement, verdict in worst.items():
        areas.setdefault(short(requirement).partition("-")[0], Counter())[verdict] += 1
    line = Text()
    for area, counts in areas.items():
        told = Text(area).append_text(_marks(counts))
        if line and line.cell_len + 3 + told.cell_len > console.width:
            console.print(line)
            line = Text()
        line = line.append(" · ").append_text(told) if line else told
    if line:
        console.print(line)


def _marks(counts: Counter[Verdict]) -> Text:
    text = Text()
    for verdict, mark in MARKS.items():
        if counts[verdict]:
            text.append(f" {counts[verdict]} {mark}", style=STYLES[verdict])
    return text


def _not_judged(report: Result, console: Console, *, verbose: bool) -> None:
    """Sentences without a judge, with the reason where there is room; what is not judged on the adapter's word."""
    if ours := list(dict.fromkeys(short(one.requirement) for one in claimed(report) if one.why is Why.OURS)):
        said = f"as the adapter says that the harness or itself decides it ({', '.join(report.run.sets)})"
        console.print(Text(f"not judged, {said}: {', '.join(ours)}", style="dim"))
    by_reason: dict[str, list[str]] = {}
    for requirement, reason in report.summary.not_judged.items():
        by_reason.setdefault(reason, []).append(short(requirement))
    if by_reason and not verbose:
        ids = ", ".join(short(requirement) for requirement in report.summary.not_judged)
        console.print(Text(f"not judged (`kvwire explain` says why): {ids}", style="dim"))
        return
    for reason, names in by_reason.items():
        console.print(Text(f"not judged, {reason}: {', '.join(names)}", style="dim"))


def _sentences(summary: result.Summary) -> Iterator[str]:
    for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE):
        if count := summary.sentences.get(str(verdict), 0):
            yield f"{count} {verdict}"
    if summary.not_judged:
        yield f"{len(summary.not_judged)} not judged"


def _summary(report: Result, console: Console, *, verbose: bool) -> None:
    """How many sentences came out how; and the headline once more where failures have carried it off the screen."""
    summary = report.summary
    if summary.conclusive_missing:
        level = "" if report.run.mode == "quick" else f" at level {report.run.level}"
        wants = f"profile {report.run.profile} wants conclusive{level}"
        if "only" in summary.no_claim:
            wants = "asked for by --only, and not shown"
        missing = summary.conclusive_missing
        which = ", ".join(map(short, missing)) if len(missing) <= SHOWN or verbose else f"{len(missing)} of those"
        console.print(Text(f"{wants}: {which}", style="magenta"))
    expected = f"; {summary.expected} as expected" if summary.expected else ""
    total = counted(summary.total, "sentences")
    more = "" if verbose else "; -v shows each"
    if summary.total:
        console.print(Text(f"{total}: {', '.join(_sentences(summary))}{expected}{more}"))
    if any(outcome.verdict in PROBLEMS for outcome in report.outcomes):
        _headline(report, console)
