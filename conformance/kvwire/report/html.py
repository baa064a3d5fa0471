"""One self-contained page: what holds, what does not, and what is not proven and why, with the evidence behind it.

It loads nothing from anywhere. Without script all of it is there; script only filters.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Exit, Finding, Verdict
from kvwire.report.console import MARKS, WORST, place
from kvwire.report.course import Course
from kvwire.report.evidence import Evidence, Seen
from kvwire.report.grouping import broken, opened
from kvwire.report.profile import causes, lines, shown
from kvwire.report.standing import RUN, Standing, cases, message, standing
from kvwire.report.words import NO_CLAIM, counted, short, singular
from kvwire.standard.registry import AREAS, area_of

WIDTH, HEIGHT, MARGIN = 960, 180, 8
"""Size of the picture of a stream's course, in units of its view box."""
SHOWN = 12
"""Streams of one sentence that are listed with their own verdicts; the rest are counted."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and what the recording shows of it, where there is one."""

    expected: str
    seen: str
    where: str
    event: str
    evidence: Evidence | None


class One(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence on one stream."""

    stream: str
    verdict: Verdict
    count: str
    message: str
    findings: tuple[Shown, ...]
    notes: tuple[str, ...]
    expected: str


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence on all streams: the worst verdict counts."""

    id: str
    short: str
    area: str
    level: str
    sentence: str
    verdict: Verdict
    expected: bool
    fails: bool
    message: str
    streams: tuple[One, ...]
    more: int


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why sentences are open, and what would close them; ``wanted``: the profile wants at least one of them shown."""

    reason: str
    closing: str
    ids: tuple[str, ...]
    wanted: bool


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of a picture: a polyline for each incarnation, and what the upper end stands for."""

    points: tuple[str, ...]
    top: int


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The course of a stream, drawn: numbers and resident blocks over seconds, restarts and gaps."""

    stream: str
    numbers: Line
    resident: Line
    restarts: tuple[float, ...]
    gaps: tuple[float, ...]
    said: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page says of one result."""

    key: str
    report: Result
    tone: str
    said: tuple[str, ...]
    causes: tuple[str, ...]
    profiles: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    counts: tuple[tuple[Verdict, int], ...]
    open: tuple[Reason, ...]
    sentences: tuple[Sentence, ...]
    problems: tuple[tuple[Sentence, ...], ...]
    pictures: tuple[Picture, ...]


NOTHING = Seen(at={})


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def html(reports: Sequence[Result], recorded: Sequence[Seen] = ()) -> str:
    """The page of one result, or of several with a matrix in front; equal input gives equal bytes.

    ``recorded`` has for each result what its recording shows; ``at`` is keyed by (outcome, finding) of the result.
    """
    beside = list(recorded) or [NOTHING] * len(reports)
    pages = [_page(f"r{at}", *pair) for at, pair in enumerate(zip(reports, beside, strict=True), 1)]
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            pages=pages,
            matrix=_matrix(pages) if len(pages) > 1 else (),
            verdicts=WORST,
            no_claim=NO_CLAIM,
            width=WIDTH,
            height=HEIGHT,
        )
    )


def _page(key: str, report: Result, recorded: Seen) -> Page:
    summary = report.summary
    sentences = tuple(_sentences(report, recorded))
    counts = Counter(sentence.verdict for sentence in sentences)
    by_id = {sentence.id: sentence for sentence in sentences}
    problems = [tuple(by_id[outcomes[0].requirement] for outcomes in one.all) for one in broken(report)]
    return Page(
        key=key,
        report=report,
        tone=_tone(report),
        said=tuple(
            case.message
            for case in cases(report)
            if case.name == RUN and case.standing is not Standing.PASSED and case.message != summary.headline
        ),
        causes=tuple(causes(report)),
        profiles=tuple((one.name, tuple(lines(one))) for one in shown(report)[:SHOWN]),
        counts=tuple((verdict, counts[verdict]) for verdict in MARKS if counts[verdict]),
        open=tuple(_open(report)),
        sentences=sentences,
        problems=tuple({group[0].id: group for group in reversed(problems)}.values())[::-1],
        pictures=tuple(map(_picture, recorded.courses)),
    )


def _tone(report: Result) -> str:
    """Which colour the headline has: what claims nothing is never green."""
    summary = report.summary
    if summary.exit in (Exit.NOT_CONFORMANT, Exit.ERROR):
        return "bad"
    return "open" if summary.exit != Exit.CONFORMANT or summary.no_claim or summary.conclusive_missing else "good"


def _sentences(report: Result, recorded: Seen) -> Iterator[Sentence]:
    grouped: dict[str, list[tuple[int, result.Outcome]]] = {}
    for at, outcome in enumerate(report.outcomes):
        if outcome.why is not Why.PROFILE:
            grouped.setdefault(outcome.requirement, []).append((at, outcome))
    for requirement, found in grouped.items():
        ordered = sorted(found, key=lambda pair: (bool(pair[1].expected), WORST.index(pair[1].verdict)))
        first = ordered[0][1]
        yield Sentence(
            id=requirement,
            short=short(requirement),
            area=short(requirement).partition("-")[0],
            level=first.level,
            sentence=first.sentence,
            verdict=first.verdict,
            expected=bool(first.expected),
            fails=standing(report, first) in (Standing.FAILED, Standing.ERROR),
            message=message(first, report.run.mode),
            streams=tuple(_one(at, outcome, report, recorded) for at, outcome in ordered[:SHOWN]),
            more=max(0, len(ordered) - SHOWN),
        )


def _one(at: int, outcome: result.Outcome, report: Result, recorded: Seen) -> One:
    count = f"×{outcome.witnesses}" if outcome.verdict is Verdict.PASS else ""
    if outcome.violations:
        count = f"{outcome.violations} of {counted(outcome.witnesses, 'occasions')}"
    return One(
        stream=outcome.stream,
        verdict=outcome.verdict,
        count=count,
        message=message(outcome, report.run.mode),
        findings=tuple(
            _shown(finding, recorded.at.get((at, number))) for number, finding in enumerate(outcome.findings)
        ),
        notes=tuple(map(singular, outcome.notes)),
        expected=outcome.expected,
    )


def _shown(finding: Finding, evidence: Evidence | None) -> Shown:
    return Shown(
        expected=singular(finding.expected),
        seen=singular(finding.seen),
        where=place(finding),
        event=finding.where.event or "",
        evidence=evidence,
    )


def _open(report: Result) -> Iterator[Reason]:
    missing = set(report.summary.conclusive_missing)
    for wanted in (True, False):
        for group in opened(report):
            if ids := tuple(name for name in group.outcomes if (name in missing) == wanted):
                yield Reason(reason=group.reason, closing=group.closing, ids=ids, wanted=wanted)


# --- several results ---------------------------------------------------------------------------------------------


def _matrix(pages: Sequence[Page]) -> list[tuple[str, str, list[Sentence | None]]]:
    """A row for each sentence that any of the results has: id, sentence, and what each result says of it."""
    rows: dict[str, str] = {}
    for page in pages:
        for sentence in page.sentences:
            rows.setdefault(sentence.id, sentence.sentence)
    by_id = [{sentence.id: sentence for sentence in page.sentences} for page in pages]
    ordered = sorted(rows.items(), key=lambda row: (AREAS.index(area_of(row[0])), row[0]))
    return [(name, said, [found.get(name) for found in by_id]) for name, said in ordered]


# --- pictures ----------------------------------------------------------------------------------------------------


def _picture(course: Course) -> Picture:
    points = course.points
    begin, end = points[0].after_s, points[-1].after_s
    span = max(end - begin, 1e-9)

    def across(after_s: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * min(1.0, max(0.0, (after_s - begin) / span)), 1)

    def line(values: Sequence[int]) -> Line:
        top = max(1, *values)
        drawn: dict[int, list[str]] = {}
        for point, value in zip(points, values, strict=True):
            place = f"{across(point.after_s)},{round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * value / top, 1)}"
            drawn.setdefault(point.life, []).append(place)
        return Line(points=tuple(map(" ".join, drawn.values())), top=max(values))

    residents = [point.resident for point in points]
    return Picture(
        stream=course.stream,
        numbers=line([point.number for point in points]),
        resident=line(residents),
        restarts=tuple(map(across, course.restarts)),
        gaps=tuple(map(across, course.gaps)),
        said=f"{counted(len(course.restarts), 'restarts')}, {counted(len(course.gaps), 'gaps')}, at most "
        f"{counted(max(residents), 'blocks')} resident, over {_span(end - begin)}",
    )


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
