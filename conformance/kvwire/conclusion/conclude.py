"""From a trace to a whole result: the outcomes of every stream, holes, troubles, the aggregate and the exit code."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import msgspec

from kvwire.conclusion import result
from kvwire.conclusion.judging import Judged, judge_stream
from kvwire.conclusion.result import Result
from kvwire.history.losses import losses
from kvwire.history.timeline import Attribution
from kvwire.judges import JUDGES
from kvwire.judges.verdict import Exit, Finding, Outcome, Reason, Verdict, Where, aggregate, exit_code
from kvwire.standard.registry import ControlLevel, Profile, Registry, UnknownNameError
from kvwire.trace.calls import Call
from kvwire.trace.detail import Detail, Stimulus
from kvwire.trace.marks import AttackBegins, ProcessExit, Trouble, Unreachable
from kvwire.trace.probing import probes
from kvwire.trace.records import Header, Source, Trace

BY_ADAPTER = frozenset({"envelope", "encoder"})
"""What a publisher is seldom without: who says that the adapter makes it takes most sentences away."""


class FilterError(ValueError):
    """A filter that matches nothing; the message names it."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked of a run: a filter of ids or areas, and how strict the exit code is."""

    only: tuple[str, ...] = ()
    strict: bool = False
    allow_inconclusive: bool = False


def select(only: tuple[str, ...], registry: Registry) -> frozenset[str] | None:
    """The judged ids that a filter names, as ``Registry.select`` reads it; None when there is no filter.

    Raises:
        FilterError: when a part of it matches no id that has a judge.
    """
    if not only:
        return None
    chosen: set[str] = set()
    for part in only:
        try:
            named = registry.select((part,))
        except UnknownNameError as error:
            raise FilterError(f"--only {part} matches no judged sentence: {error}") from None
        chosen |= named & JUDGES.keys()
        if named.isdisjoint(JUDGES):
            first = registry[min(named)]
            hint = f"{first.id} binds a {first.binds} and is {first.status}"
            raise FilterError(f"--only {part} matches no judged sentence: {hint}; `kvwire list` shows them all")
    return frozenset(chosen)


def conclude(trace: Trace, registry: Registry, profile: Profile, wanted: Wanted | None = None) -> Result:
    """Judge a trace and draw the conclusion.

    A function of its arguments only: a live run and its recording give the same bytes.
    """
    wanted = wanted or Wanted()
    only = select(wanted.only, registry)
    judged = [judge_stream(trace, stream, registry, profile, only) for stream in trace.header.streams]
    troubles = [result.Trouble(text=text) for text in _troubles(trace)]
    outcomes = [outcome for stream in judged for outcome in stream.outcomes]
    outcomes, died = _deaths(trace, outcomes, only)
    troubles += [result.Trouble(text=text) for text in died]
    probe_of = probes(trace.records)
    return Result(
        run=_run(trace, profile, wanted),
        streams=tuple(_stream(stream) for stream in judged),
        holes=tuple(hole for stream in judged for hole in _holes(stream)),
        troubles=tuple(troubles),
        outcomes=tuple(_line(outcome, registry, probe_of) for outcome in outcomes),
        summary=_summary(trace, judged, outcomes, troubles, registry, profile, wanted, only),
    )


# --- trouble and deaths ------------------------------------------------------------------------------------------


def _troubles(trace: Trace) -> list[str]:
    """Our own trouble, and endpoints that were never reached."""
    texts = [record.detail.text for record in trace.records if isinstance(record.detail, Trouble)]
    texts += [
        f"stream {record.stream}: no ZeroMQ handshake on {record.detail.endpoint} within "
        f"{record.detail.bound_s:g} s: is a publisher there, and may this client connect?"
        for record in trace.records
        if isinstance(record.detail, Unreachable)
    ]
    return list(dict.fromkeys(texts))


def _deaths(trace: Trace, outcomes: list[Outcome], only: frozenset[str] | None) -> tuple[list[Outcome], list[str]]:
    """A target that died: a failure of what it had to survive, else trouble.

    Other instances that the harness started are the target where they were attacked, each by itself; how others end is
    for those who started them.
    """
    texts: list[str] = []
    own = {"", *(stream.name for stream in trace.header.streams)}
    attacked = {record.stream for record in trace.records if isinstance(record.detail, AttackBegins)}
    for index, record in enumerate(trace.records):
        end = record.detail
        if not isinstance(end, ProcessExit) or end.expected is not False:
            continue
        if record.stream not in own | attacked:
            continue
        same = own if record.stream in own else {record.stream}
        before = (r for r in reversed(trace.records[:index]) if r.stream in same)
        stimulus = next((r.detail for r in before if r.source == Source.STIMULUS), None)
        survive = set(stimulus.must_survive) if isinstance(stimulus, Stimulus) else set()
        if only is not None:
            survive &= only
        how = f"the adapter's process ended by itself ({end.how})"
        if stimulus is None or not survive:
            said = " | ".join((end.stderr or ())[-3:])
            texts.append(f"{how}{_in_flight(stimulus)}{'; its standard error ends: ' + said if said else ''}")
            continue
        finding = Finding(
            expected=f"a publisher that goes on after `{stimulus.event}`", seen=how, where=Where(record=index)
        )
        outcomes = [_failed(outcome, finding) if outcome.requirement in survive else outcome for outcome in outcomes]
    return outcomes, texts


def _in_flight(stimulus: Detail | None) -> str:
    """What was asked for when a process ended, or last before that."""
    if not isinstance(stimulus, Call):
        return ""
    return f" when asked for {stimulus.asked_for}" if stimulus.error else f", after it had answered `{stimulus.event}`"


def _failed(outcome: Outcome, finding: Finding) -> Outcome:
    return msgspec.structs.replace(
        outcome,
        verdict=Verdict.FAIL,
        witnesses=outcome.witnesses + 1,
        violations=outcome.violations + 1,
        findings=[*outcome.findings, finding],
    )


# --- lines -------------------------------------------------------------------------------------------------------


def _run(trace: Trace, profile: Profile, wanted: Wanted) -> result.Run:
    header = trace.header
    driven = ["--drive", header.drive] if header.drive else []
    words = ["kvwire", "check", header.target, *driven, "--profile", profile.profile]
    if header.mode != "plain":
        words.append(f"--{header.mode}")
    for part in wanted.only:
        words += ["--only", part]
    return result.Run(
        format=result.FORMAT,
        edition=header.edition,
        target=header.target,
        implementation=header.implementation,
        level=header.level,
        profile=profile.profile,
        streams=[stream.name for stream in header.streams],
        sets=list(header.sets),
        mode=header.mode,
        probes=list(header.probes),
        left_out=list(header.left_out),
        only=list(wanted.only),
        statement_sha256=header.statement.digest,
        reproduce=shlex.join(words),
    )


def _probed(finding: Finding, probe_of: Callable[[int], str | None]) -> Finding:
    """The finding with the probe during which its record was made."""
    where = finding.where
    if where.record is None:
        return finding
    return msgspec.structs.replace(finding, where=msgspec.structs.replace(where, probe=probe_of(where.record)))


def _line(outcome: Outcome, registry: Registry, probe_of: Callable[[int], str | None]) -> result.Outcome:
    requirement = registry[outcome.requirement]
    return result.Outcome(
        requirement=outcome.requirement,
        stream=outcome.stream,
        verdict=outcome.verdict,
        level=requirement.level,
        sentence=requirement.sentence,
        witnesses=outcome.witnesses,
        violations=outcome.violations,
        reason=outcome.reason,
        findings=[_probed(finding, probe_of) for finding in outcome.findings],
        notes=outcome.notes,
    )


def _stream(judged: Judged) -> result.Stream:
    return result.Stream(
        name=judged.stream.name,
        form=judged.form,
        batches=sum(len(incarnation.batches) for incarnation in judged.timeline.incarnations),
        events=judged.events,
        incarnations=len(judged.timeline.incarnations),
        notes=list(judged.notes),
    )


def _holes(judged: Judged) -> list[result.Hole]:
    return [
        result.Hole(
            stream=judged.stream.name,
            incarnation=incarnation.index,
            first=str(gap.first),
            last=str(gap.last),
            attribution=gap.attribution,
            why=gap.why,
        )
        for incarnation in judged.timeline.incarnations
        for gap in incarnation.gaps
    ] + [
        result.Hole(
            stream=judged.stream.name,
            incarnation=loss.incarnation,
            first=str(loss.first),
            last=str(loss.last),
            attribution=Attribution.TRANSPORT,
            why=f"{loss.source} lacks {loss.count} of them, which {loss.delivered_by} delivered",
        )
        for loss in losses(judged.timeline)
    ]


# --- the summary -------------------------------------------------------------------------------------------------


def _summary(
    trace: Trace,
    judged: list[Judged],
    outcomes: list[Outcome],
    troubles: list[result.Trouble],
    registry: Registry,
    profile: Profile,
    wanted: Wanted,
    only: frozenset[str] | None,
) -> result.Summary:
    level = _shown(trace.header)
    needed = frozenset(profile.conclusive.get(level, ())) if only is None else only
    missing = sorted({o.requirement for o in outcomes if o.verdict is Verdict.INCONCLUSIVE and o.requirement in needed})
    verdict = overall([(o.requirement, o.verdict) for o in outcomes], missing, troubled=bool(troubles))
    claimed = [r for r in registry.binding("publisher") if r.id in profile.ids and (only is None or r.id in only)]
    not_judged = {r.id: f"{r.status}: {r.pending or r.review or r.untestable}" for r in claimed if r.id not in JUDGES}
    return result.Summary(
        headline=_headline(trace, judged, outcomes, verdict, profile),
        judged=len(claimed) - len(not_judged),
        total=len(claimed),
        counts=dict(sorted(Counter(str(outcome.verdict) for outcome in outcomes).items())),
        not_judged=not_judged,
        conclusive_missing=missing,
        verdict=None if trace.interrupted else verdict,
        exit=None if trace.interrupted else int(exit_of(verdict, wanted)),
        interrupted=trace.interrupted,
    )


def overall(verdicts: Sequence[tuple[str, Verdict]], missing: Collection[str], *, troubled: bool) -> Verdict:
    """The aggregate of a run from ids and verdicts: what is INCONCLUSIVE counts only where it is ``missing``."""
    counted = [verdict for name, verdict in verdicts if verdict is not Verdict.INCONCLUSIVE or name in missing]
    verdict = aggregate([*counted, Verdict.ERROR] if troubled else counted)
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


def _headline(trace: Trace, judged: list[Judged], outcomes: list[Outcome], verdict: Verdict, profile: Profile) -> str:
    scope = f"edition {trace.header.edition}, profile {profile.profile}, {trace.header.level}"
    if BY_ADAPTER & set(trace.header.sets):
        count = len({o.requirement for o in outcomes if o.reason == Reason.OURS})
        said = ", ".join(trace.header.sets)
        scope += f"; on the adapter's word ({said} are not the publisher's) {count} sentences were not judged"
    if trace.interrupted:
        return f"interrupted: what was found so far, no verdict on the whole ({scope})"
    failed = sorted({o.requirement.removeprefix("KVW-") for o in outcomes if o.verdict is Verdict.FAIL})
    legacy = sorted({stream.form for stream in judged if stream.form.startswith("array")})
    if legacy:
        broken = (judge.requirement for judge in JUDGES.values() if judge.arrays == "break")
        # Arrays break it under a legacy profile too, which does not list it.
        failed = sorted({*failed, *(requirement.removeprefix("KVW-") for requirement in broken)})
        return f"legacy {', '.join(legacy)}; edition 1: not conformant ({', '.join(failed)})"
    match verdict:
        case Verdict.FAIL:
            return f"not conformant ({', '.join(failed)}); {scope}"
        case Verdict.ERROR:
            return f"error: the run could not be carried out; {scope}"
        case Verdict.INCONCLUSIVE:
            return f"inconclusive: too little was seen; {scope}"
        case _:
            return f"conformant as far as this level shows; {scope}"
