"""The JSON of an endpoint badge, as shields.io and its kin read it."""

from __future__ import annotations

import msgspec

from kvwire.conclusion.result import Result
from kvwire.judges.verdict import Exit, Verdict


class Badge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What such a badge is made of."""

    schema_version: int = 1
    label: str = "kvwire"
    message: str
    color: str
    is_error: bool = False


def badge(report: Result) -> str:
    """Green says conformant, at which level, and never of a run that claims nothing."""
    run, summary = report.run, report.summary
    scope = f"edition {run.edition}, {run.profile}, {run.level}"
    if summary.exit is None:
        made = Badge(message="interrupted", color="lightgrey")
    elif summary.exit == Exit.NOT_CONFORMANT:
        failed = len({o.requirement for o in report.outcomes if o.verdict is Verdict.FAIL and not o.expected})
        said = f"not conformant: {failed} broken" if failed else "not as expected"
        made = Badge(message=said, color="red", is_error=True)
    elif summary.exit == Exit.ERROR:
        made = Badge(message="error", color="lightgrey", is_error=True)
    elif summary.no_claim or summary.verdict is Verdict.INCONCLUSIVE:
        made = Badge(message="inconclusive", color="lightgrey")
    elif summary.expected:
        made = Badge(message=f"as expected ({summary.expected} known), {scope}", color="yellowgreen")
    else:
        made = Badge(message=f"conformant, {scope}", color="green")
    return msgspec.json.encode(made).decode() + "\n"
