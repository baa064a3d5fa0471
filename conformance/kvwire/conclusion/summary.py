"""The last line of a result: the aggregate, the exit code, and what the run may claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from kvwire.conclusion import result
from kvwire.conclusion.hearing import Hearing
from kvwire.conclusion.result import INCOMPLETE, NoClaim, Notice
from kvwire.conclusion.showing import Judged
from kvwire.judges import JUDGES
from kvwire.judges.verdict import Exit, Outcome, Reason, Verdict, aggregate, exit_code
from kvwire.standard.registry import ControlLevel, Profile, Registry
from kvwire.trace.planned import Left
from kvwire.trace.records import Header


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked of a run: a filter of ids or areas, and how strict the exit code is."""

    only: tuple[str, ...] = ()
    strict: bool = False
    allow_inconclusive: bool = False


BY_ADAPTER = frozenset({"envelope", "encoder"})
"""What a publisher is seldom without: who says that the adapter makes it takes most sentences away."""
SHOWN = 3
"""How many probes a headline names at most."""
_WORST = (Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_APPLICABLE)
"""What is counted of a sentence that has several streams."""


def summary(
    hearing: Hearing,
    judged: Sequence[Judged],
    outcomes: Sequence[Outcome],
    notices: Sequence[Notice],
    registry: Registry,
    profile: Profile,
    wanted: Wanted,
    only: frozenset[str] | None,
    *,
    troubled: bool,
) -> result.Summary:
    """What all outcomes come to."""
    level = _shown(hearing.header)
    needed = frozenset(profile.conclusive.get(level, ())) if only is None else only
    missing = sorted({o.requirement for o in outcomes if o.verdict is Verdict.INCONCLUSIVE and o.requirement in needed})
    claims = no_claim(hearing, notices, wanted)
    verdict = overall(
        [(o.requirement, o.verdict) for o in outcomes],
        missing,
        troubled=troubled,
        incomplete=not INCOMPLETE.isdisjoint(claims),
    )
    claimed = [r for r in registry.binding("publisher") if r.id in profile.ids and (only is None or r.id in only)]
    not_judged = {r.id: f"{r.status}: {r.pending or r.review or r.untestable}" for r in claimed if r.id not in JUDGES}
    return result.Summary(
        headline=headline(hearing, judged, outcomes, notices, claims, missing, verdict, profile, wanted),
        total=len(claimed),
        sentences=_counts(outcomes, {r.id for r in claimed}),
        not_judged=not_judged,
        conclusive_missing=missing,
        no_claim=claims,
        verdict=None if hearing.interrupted else verdict,
        exit=None if hearing.interrupted else int(exit_of(verdict, wanted)),
        interrupted=hearing.interrupted,
    )


def _counts(outcomes: Sequence[Outcome], claimed: Collection[str]) -> dict[str, int]:
    """Sentences of the profile by their worst verdict."""
    verdicts: dict[str, list[Verdict]] = {}
    for outcome in outcomes:
        if outcome.requirement in claimed:
            verdicts.setdefault(outcome.requirement, []).append(outcome.verdict)
    worst = (min(found, key=_WORST.index) for found in verdicts.values())
    return dict(sorted(Counter(map(str, worst)).items()))


def overall(
    verdicts: Sequence[tuple[str, Verdict]], missing: Collection[str], *, troubled: bool, incomplete: bool = False
) -> Verdict:
    """The aggregate of a run from ids and verdicts: what is INCONCLUSIVE counts only where it is ``missing``.

    ``incomplete``: the run could not do or hear all that it was meant to.
    """
    counted = [verdict for name, verdict in verdicts if verdict is not Verdict.INCONCLUSIVE or name in missing]
    verdict = aggregate([*counted, *[Verdict.ERROR] * troubled, *[Verdict.INCONCLUSIVE] * incomplete])
    return Verdict.INCONCLUSIVE if verdict is Verdict.NOT_APPLICABLE and verdicts else verdict


def exit_of(verdict: Verdict, wanted: Wanted) -> Exit:
    """The exit code of an aggregate, as strict as the user wants it."""
    code = exit_code(verdict, strict=wanted.strict)
    return Exit.CONFORMANT if code is Exit.INCONCLUSIVE and wanted.allow_inconclusive else code


def _shown(header: Header) -> ControlLevel:
    """The level whose conclusions a run owes: a quick one attacks nothing, whatever it could have driven."""
    if header.mode != "quick":
        return header.level
    return "replayable" if any(stream.replay for stream in header.streams) else "passive"


# --- what is claimed ---------------------------------------------------------------------------------------------


def no_claim(hearing: Hearing, notices: Sequence[Notice], wanted: Wanted) -> list[NoClaim]:
    """Why a run does not claim conformance; empty for a whole one."""
    left = {probe.left for probe in hearing.header.plan}
    found: list[NoClaim] = []
    if hearing.interrupted:
        found.append("interrupted")
    if any(notice.what == "connection-lost" for notice in notices):
        found.append("lost")
    if Left.TIME in left or hearing.cut:
        found.append("cut")
    if hearing.header.mode == "quick":
        found.append("quick")
    if wanted.only or Left.ONLY in left:
        found.append("only")
    return found


def _why_no_claim(claims: Sequence[NoClaim], hearing: Hearing, notices: Sequence[Notice], wanted: Wanted) -> str:
    """In a few words."""
    said: list[str] = []
    for claim in claims:
        match claim:
            case "lost":
                said += [notice.text for notice in notices if notice.what == "connection-lost"][:1]
            case "cut" if hearing.cut:
                said.append(hearing.cut)
            case "cut":
                missed = [probe.name for probe in hearing.header.plan if probe.left is Left.TIME]
                more = f" and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
                said.append(f"out of time before the end of {', '.join(missed[:SHOWN])}{more}")
            case "quick":
                said.append("quick run")
            case "only":
                said.append(f"only {', '.join(wanted.only)} asked for" if wanted.only else "run with --only")
            case "interrupted":
                pass  # has a headline of its own
    return "; ".join(said)


def headline(
    hearing: Hearing,
    judged: Sequence[Judged],
    outcomes: Sequence[Outcome],
    notices: Sequence[Notice],
    claims: Sequence[NoClaim],
    missing: Collection[str],
    verdict: Verdict,
    profile: Profile,
    wanted: Wanted,
) -> str:
    """The one line that says what the run comes to, and claims no more than it may."""
    scope = f"edition {hearing.header.edition}, profile {profile.profile}, {hearing.header.level}"
    if BY_ADAPTER & set(hearing.header.sets):
        count = len({o.requirement for o in outcomes if o.reason == Reason.OURS})
        said = ", ".join(hearing.header.sets)
        scope += f"; on the adapter's word ({said} are not the publisher's) {count} sentences were not judged"
    if hearing.interrupted:
        return f"interrupted: what was found so far, no verdict on the whole ({scope})"
    failed = sorted({o.requirement.removeprefix("KVW-") for o in outcomes if o.verdict is Verdict.FAIL})
    legacy = sorted({stream.form for stream in judged if stream.form.startswith("array")})
    if legacy:
        broken = (judge.requirement for judge in JUDGES.values() if judge.arrays == "break")
        # Arrays break it under a legacy profile too, which does not list it.
        failed = sorted({*failed, *(requirement.removeprefix("KVW-") for requirement in broken)})
        return f"legacy {', '.join(legacy)}; edition 1: not conformant ({', '.join(failed)})"
    if verdict is Verdict.FAIL:
        return f"not conformant ({', '.join(failed)}); {scope}"
    if verdict is Verdict.ERROR:
        return f"error: the run could not be carried out; {scope}"
    little = missing or not any(outcome.witnesses for outcome in outcomes)
    seen = "too little was seen" if little else "nothing broken was seen"
    if not little and (warned := {o.requirement for o in outcomes if o.verdict is Verdict.WARN}):
        seen = f"no MUST broken was seen, {len(warned)} warning{'s' if len(warned) > 1 else ''}"
    if wanted.only and not any(outcome.requirement in profile.ids for outcome in outcomes):
        seen = f"profile {profile.profile} has nothing of that (`kvwire explain ID` names those that do)"
    if claims:
        return f"no claim: {_why_no_claim(claims, hearing, notices, wanted)}; {seen}; {scope}"
    if verdict is Verdict.INCONCLUSIVE:
        nothing = [notice.text for notice in notices if notice.what == "nothing-came"]
        silent = nothing and not any(one.incarnations for one in judged)
        return f"inconclusive: {nothing[0] if silent else seen}; {scope}"
    return f"conformant as far as this level shows; {scope}"
