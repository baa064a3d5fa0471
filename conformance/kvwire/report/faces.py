"""One result stream, many faces: the same input gives the same bytes, and every face agrees with the exit code.

What is shown went through ``visible`` first, whichever face shows it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal, get_args

from rich.console import Console

from kvwire.conclusion import result
from kvwire.conclusion.result import Result
from kvwire.report.console import render
from kvwire.report.evidence import Seen
from kvwire.report.visible import ascii_json, safe

Format = Literal["console", "html", "junit", "markdown", "json", "github", "badge"]
FORMATS: tuple[Format, ...] = get_args(Format)
SINGLE: frozenset[Format] = frozenset({"json", "badge"})
"""Those that are of one result."""
COLUMNS = 140
"""How wide a report for people is that goes into a file."""


class FaceError(ValueError):
    """What cannot be shown so; the message says why and what to do."""


def face(reports: Sequence[Result], kind: Format, recordings: Sequence[Seen] = (), *, verbose: bool = False) -> bytes:
    """The bytes of one face, UTF-8.

    ``recordings`` is what those of the results show, one each, in their order; only ``html`` shows it.

    Raises:
        FaceError: when the face is of one result and there are several.
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

            return html(shown, [_safe(seen) for seen in recordings]).encode()
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


def _safe(seen: Seen) -> Seen:
    return Seen(at={key: safe(shown) for key, shown in seen.at.items()}, courses=tuple(map(safe, seen.courses)))
