"""One result stream, many faces: the same input gives the same bytes, and every face agrees with the exit code.

What is shown went through ``visible`` first, whichever face shows it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from rich.console import Console

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.report.console import render
from kvwire.report.evidence import courses, evidence, held_together
from kvwire.report.visible import ascii_json, safe
from kvwire.trace.records import Trace

if TYPE_CHECKING:
    from kvwire.report.html import Recorded

Format = Literal["console", "html", "junit", "markdown", "json", "github", "badge"]
FORMATS: tuple[Format, ...] = get_args(Format)
SINGLE: frozenset[Format] = frozenset({"json", "badge"})
"""Those that are of one result."""
COLUMNS = 140
"""How wide a report for people is that goes into a file."""


class FaceError(ValueError):
    """What cannot be shown so; the message says why and what to do."""


def face(reports: Sequence[Result], kind: Format, recordings: Sequence[Trace] = (), *, verbose: bool = False) -> bytes:
    """The bytes of one face, UTF-8.

    ``recordings`` belong to the results, one each, in their order; only ``html`` shows something of them.

    Raises:
        FaceError: when the face is of one result and there are several.
        evidence.Mismatch: when a recording is not that of its result.
    """
    if kind in SINGLE and len(reports) != 1:
        raise FaceError(f"--format {kind} is of one result, and there are {len(reports)}; give one at a time")
    if kind == "json":
        return ascii_json(result.dump(reports[0]))
    shown = [safe(report) for report in reports]
    match kind:
        case "console":
            out = io.StringIO()
            print_to(Console(file=out, width=COLUMNS, no_color=True), reports, verbose=verbose)
            return out.getvalue().encode()
        case "html":
            from kvwire.report.html import html

            return html(
                shown, [_recorded(*pair) for pair in zip(reports, recordings, strict=True)] if recordings else ()
            ).encode()
        case "junit":
            from kvwire.report.junit import junit

            return junit(shown).encode()
        case "markdown":
            from kvwire.report.markdown import markdown

            return markdown(shown).encode()
        case "github":
            from kvwire.report.github import github

            return github(shown).encode()
        case "badge":
            from kvwire.report.badge import badge

            return badge(shown[0]).encode()


def print_to(console: Console, reports: Sequence[Result], *, verbose: bool) -> None:
    """The face for people, on a console."""
    for at, report in enumerate(reports):
        if at:
            console.print()
        render(safe(report), console, verbose=verbose)


def _recorded(report: Result, trace: Trace) -> Recorded:
    from kvwire.report.html import Recorded

    held_together(report, trace)
    found = {}
    for at, outcome in enumerate(report.outcomes):
        for number, finding in enumerate(outcome.findings):
            if (seen := evidence(trace, finding.where)) is not None:
                found[at, number] = safe(seen)
    return Recorded(at=found, courses=tuple(map(safe, courses(trace))))
