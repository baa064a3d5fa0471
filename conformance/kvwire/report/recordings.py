"""The report on several recordings: a line each, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from kvwire.conclusion.result import Recording, Result, Total
from kvwire.judges.verdict import Verdict
from kvwire.report.console import STYLES
from kvwire.report.words import counted, short

NAMED = 6
"""How many broken sentences a line names at most."""


def row(recording: Recording, result: Result | None) -> Text:
    """One recording in a line: verdict, name, how much of it there is, what it breaks, and why it claims nothing."""
    if result is None:
        return _verdict(Verdict.ERROR) + Text(f"{recording.name}: {recording.error}", style="")
    verdict = result.summary.verdict or Verdict.INCONCLUSIVE
    batches = sum(stream.batches for stream in result.streams)
    parts = f" in {recording.parts} parts" if recording.parts > 1 else ""
    ended = "" if recording.ended == "whole" else ", cut short" if recording.ended == "cut" else ", interrupted"
    line = _verdict(verdict) + Text(f"{recording.name}: {counted(batches, 'batches')}{parts}{ended}", style="")
    for worst in (Verdict.FAIL, Verdict.WARN):
        broken = {short(one.requirement): None for one in result.outcomes if one.verdict is worst and not one.expected}
        if broken:
            more = f" and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
            line.append(f"; {'breaks' if worst is Verdict.FAIL else 'warned of'} {', '.join([*broken][:NAMED])}{more}")
    if result.summary.no_claim:
        line.append(f"; no claim ({', '.join(result.summary.no_claim)})")
    return line


def totals(total: Total, of: int) -> Iterator[Text]:
    """What recordings show together, and the last line: how many of them came out how."""
    for notice in total.notices:
        yield Text(notice.text, style="yellow")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in total.verdicts.items())
    ended = f", interrupted after {total.recordings}" if total.interrupted else ""
    yield Text(f"{counted(of, 'recordings')}{ended}: {counts or 'none judged'}", style="bold")


def _verdict(verdict: Verdict) -> Text:
    return Text(str(verdict).ljust(len(Verdict.INCONCLUSIVE) + 2), style=STYLES[verdict])
