"""From a trace to a whole result: the outcomes of every stream, holes, troubles, the aggregate and the exit code."""

from __future__ import annotations

import bisect
import shlex
from collections.abc import Sequence

import msgspec

from kvwire.conclusion import provenance, result
from kvwire.conclusion.causes import followed
from kvwire.conclusion.description import event_at, in_words
from kvwire.conclusion.diagnosis.beginning import Beginning, Told
from kvwire.conclusion.fleet import Member
from kvwire.conclusion.hearing import Hearing
from kvwire.conclusion.judging import judge_stream
from kvwire.conclusion.notices import death, members, notices
from kvwire.conclusion.passing import Passing, passes
from kvwire.conclusion.result import Result
from kvwire.conclusion.showing import Judged
from kvwire.conclusion.summary import Wanted, summary
from kvwire.conclusion.untried import Heard, Why, inconclusive, lacking, not_applicable
from kvwire.history.follower import HORIZON, Horizon
from kvwire.history.ranges import Ranges
from kvwire.history.timeline import Attribution
from kvwire.judges import JUDGES
from kvwire.judges.verdict import Finding, Outcome, Reason, Verdict, Where
from kvwire.standard.registry import Profile, Registry, Requirement, UnknownNameError
from kvwire.trace.calls import ASKING, Call, RestartCall
from kvwire.trace.detail import Detail, SocketEvent, Stimulus
from kvwire.trace.handshakes import refusal
from kvwire.trace.marks import AttackBegins, ProcessExit, Trouble, Unreachable, Witnesses
from kvwire.trace.packed import Digest, digest, timed
from kvwire.trace.probing import probes_at
from kvwire.trace.records import LIVE, Header, Record, Source, Trace
from kvwire.wire.endpoint_rules import connectable
from kvwire.wire.events import Event

LIVE_SOURCES = frozenset(source.value for source in LIVE)


class FilterError(ValueError):
    """A filter that matches nothing; the message names it."""


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
    if passes(trace.header):
        run = Listening(trace.header, registry, profile, wanted)
        for record in trace.records:
            run.take(record)
        return run.result(interrupted=trace.interrupted, cut=trace.cut, recorded=digest(trace))
    only = select(wanted.only, registry)
    judged = [judge_stream(trace, stream, registry, profile, only) for stream in trace.header.streams]
    beginning = Beginning(trace.header.streams)
    for record in trace.records:
        beginning.take(record)
    return concluded(Hearing.of(trace), judged, registry, profile, wanted, beginning.told())


class Listening:
    """A run in which nothing is done to the publisher, judged while its records come.

    Nothing that was judged is kept but how each stream began: O(resident), the horizon, and what no message is
    (connections, requests).
    ``digests``: it makes the digest of the recording itself.
    """

    def __init__(
        self,
        header: Header,
        registry: Registry,
        profile: Profile,
        wanted: Wanted | None = None,
        *,
        replays: bool | None = None,
        horizon: Horizon = HORIZON,
        digests: bool = False,
    ) -> None:
        self._digest = Digest() if digests else None
        self.registry = registry
        self.profile = profile
        self.wanted = wanted or Wanted()
        self.only = select(self.wanted.only, registry)
        self.hearing = Hearing(header)
        self.beginning = Beginning(header.streams)
        numbers = {stream.name: Ranges() for stream in header.streams} if len(header.streams) > 1 else {}
        self._numbers = numbers
        self._judged: Sequence[Judged] = ()
        self.streams = {
            stream.name: Passing(header, stream, registry, profile, numbers=numbers, replays=replays, horizon=horizon)
            for stream in header.streams
        }

    def take(self, record: Record) -> None:
        """Take the next record."""
        if self._digest is not None:
            self._digest.add([timed(record)])
        index = self.hearing.take(record)
        if self.beginning.open:
            self.beginning.take(record)
        if (stream := self.streams.get(record.stream)) is not None:
            if self._numbers:
                self._numbers[record.stream].take(index, record)
            stream.take(index, record)
        elif not record.stream:
            for stream in self.streams.values():
                stream.take(index, record)

    def result(
        self, *, interrupted: bool = False, cut: str = "", header: Header | None = None, recorded: str = ""
    ) -> Result:
        """The run is over: its conclusion.

        ``cut`` and ``header`` are as they are known at the end, with what became of the probes; ``recorded`` is the
        digest of the recording, where somebody else has it.
        """
        hearing = self.hearing
        hearing.interrupted, hearing.cut, hearing.header = interrupted, cut, header or hearing.header
        hearing.digest = recorded
        if self._digest is not None:
            hearing.digest = self._digest.end(hearing.header, interrupted=interrupted, cut=bool(cut))
        judged = self._judged = [stream.judged(self.only) for stream in self.streams.values()]
        self.hearing.kept = {index: record for one in judged for index, record in one.kept.items()}
        told = self.beginning.told()
        return concluded(self.hearing, judged, self.registry, self.profile, self.wanted, told)

    def members(self) -> tuple[Member, ...]:
        """What the streams show that those of others are held against, when the run is over."""
        return members(self.hearing, self._judged, prefixes=True)


def concluded(
    hearing: Hearing,
    judged: Sequence[Judged],
    registry: Registry,
    profile: Profile,
    wanted: Wanted,
    beginning: Told,
) -> Result:
    """The conclusion from what was heard and how its streams were judged."""
    only = select(wanted.only, registry)
    header = hearing.header
    troubles = [result.Trouble(text=text) for text in _troubles(hearing)]
    outcomes = [outcome for stream in judged for outcome in stream.outcomes]
    outcomes, died = _deaths(hearing, outcomes, only)
    troubles += [result.Trouble(text=text) for text in died]
    said = notices(hearing, judged)
    heard = {
        (one.stream.name, asked): _heard(hearing, one.stream.name, said, asked=asked)
        for one in judged
        for asked in (False, True)
    }
    place = _Places(hearing)
    return Result(
        run=_run(hearing, profile, wanted),
        streams=tuple(_stream(stream) for stream in judged),
        profiles=beginning.profiles,
        agreements=beginning.agreements,
        holes=tuple(hole for stream in judged for hole in _holes(stream)),
        troubles=tuple(troubles),
        notices=said,
        outcomes=followed(
            [
                _line(
                    outcome,
                    requirement := registry[outcome.requirement],
                    profile,
                    header,
                    heard[outcome.stream, "replayable" in requirement.needs],
                    place,
                )
                for outcome in outcomes
            ],
            place.begins,
        ),
        summary=summary(hearing, judged, outcomes, said, registry, profile, wanted, only, troubled=bool(troubles)),
    )


# --- trouble and deaths ------------------------------------------------------------------------------------------


def _troubles(hearing: Hearing) -> list[str]:
    """Our own trouble, and endpoints that were never reached."""
    texts = [record.detail.text for _, record in hearing.details if isinstance(record.detail, Trouble)]
    texts += [
        f"stream {record.stream}: no ZeroMQ handshake on {record.detail.endpoint} within {record.detail.bound_s:g} s: "
        + (
            _moved(hearing, at)
            or _refused(hearing, record, record.detail)
            or "is a publisher there, and may this client connect?"
        )
        for at, (_, record) in enumerate(hearing.details)
        if isinstance(record.detail, Unreachable)
    ]
    return list(dict.fromkeys(texts))


def _refused(hearing: Hearing, missed: Record, detail: Unreachable) -> str:
    """How a handshake of these witnesses or clients on that stream failed; empty where none did."""
    told = [record.detail for _, record in hearing.details if record.stream == missed.stream]
    curve = any(one.curve for one in told if isinstance(one, Witnesses))
    said = (refusal(one.event, curve=curve) for one in told if isinstance(one, SocketEvent) and one.of in detail.of)
    return next(filter(None, said), "")


def _moved(hearing: Hearing, unreached: int) -> str:
    """Where a restart bound instead of the endpoint that is not reached any more; empty where it did not move."""
    _, missed = hearing.details[unreached]
    assert isinstance(missed.detail, Unreachable)
    for _, record in reversed(hearing.details[:unreached]):
        call = record.detail
        if record.stream != missed.stream or not isinstance(call, RestartCall) or call.bound is None:
            continue
        bound = [connectable(place) or place for place in (call.bound.endpoint, call.bound.replay) if place is not None]
        if missed.detail.endpoint in bound:
            return ""
        return f"`restart` answered {' and '.join(bound)}, and a new life is asked for on the same endpoints"
    return ""


def _deaths(hearing: Hearing, outcomes: list[Outcome], only: frozenset[str] | None) -> tuple[list[Outcome], list[str]]:
    """A target that died: a failure of what it had to survive, else trouble.

    Other instances that the harness started are the target where they were attacked, each by itself; how others end is
    for those who started them.
    """
    texts: list[str] = []
    own = {"", *(stream.name for stream in hearing.header.streams)}
    attacked = {record.stream for _, record in hearing.details if isinstance(record.detail, AttackBegins)}
    for at, (index, record) in enumerate(hearing.details):
        end = record.detail
        if not isinstance(end, ProcessExit) or end.expected is not False:
            continue
        if record.stream not in own | attacked:
            continue
        same = own if record.stream in own else {record.stream}
        before = (r for _, r in reversed(hearing.details[:at]) if r.stream in same)
        stimulus = next((r.detail for r in before if r.source == Source.STIMULUS), None)
        survive = set(stimulus.must_survive) if isinstance(stimulus, Stimulus) else set()
        if only is not None:
            survive &= only
        how = death(end.how, hearing.at(record))
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


def _run(hearing: Hearing, profile: Profile, wanted: Wanted) -> result.Run:
    header = hearing.header
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
        allow_inconclusive=wanted.allow_inconclusive,
        not_run={probe.name: probe.left for probe in header.plan if probe.left is not None},
        statement_sha256=header.statement.digest,
        standard_sha256=provenance.standard(),
        judges_sha256=provenance.judges(),
        recording_sha256=hearing.digest,
        strict=wanted.strict,
        reproduce=shlex.join(words),
    )


def _heard(hearing: Hearing, stream: str, notices: Sequence[result.Notice], *, asked: bool) -> Heard:
    """What became of a stream as a whole; ``asked``: of its replay socket, where that was another thing."""
    for record in hearing.details_of(stream):
        if isinstance(record.detail, Unreachable):
            live = not LIVE_SOURCES.isdisjoint(record.detail.of)
            if live or asked:
                return Heard(why=Why.UNREACHABLE, said=f"no ZeroMQ handshake on {record.detail.endpoint}")
    ends = {"connection-lost": Why.LOST, "nothing-came": Why.SILENT}
    for notice in notices:
        if notice.what in ends and stream in notice.streams:
            return Heard(why=ends[notice.what], said=notice.text)
    return Heard()


class _Places:
    """What the trace tells of the place of a finding."""

    def __init__(self, hearing: Hearing) -> None:
        self._kept = hearing.kept
        self._probe_of = probes_at(hearing.details)
        self._calls: dict[str, list[tuple[int, Call]]] = {}
        for index, record in hearing.details:
            if isinstance(record.detail, Call) and not isinstance(record.detail, ASKING):
                self._calls.setdefault(record.stream, []).append((index, record.detail))

    def _event(self, where: Where) -> Event | None:
        if where.record is None or where.frame != "payload" or where.offset is None or where.record not in self._kept:
            return None
        return event_at(self._kept[where.record], where.offset)

    def begins(self, where: Where) -> int | None:
        """Where in its frame the event at a place begins; the place itself where there is none."""
        event = self._event(where)
        return where.offset if event is None else event.start

    def __call__(self, finding: Finding) -> Finding:
        """The finding with the probe during which its record was made, the event that stands at its place, and what
        had been done last.
        """
        where = finding.where
        if where.record is None:
            return finding
        event = self._event(where)
        added = msgspec.structs.replace(
            where,
            probe=self._probe_of(where.record),
            event=None if event is None else in_words(event),
            before=self._before(where.record),
        )
        return msgspec.structs.replace(finding, where=added)

    def _before(self, record: int) -> str | None:
        """What had been asked of the publisher when a message came, or in the record itself."""
        message = self._kept.get(record)
        streams = self._calls if message is None else [message.stream]
        for calls in (self._calls.get(stream, []) for stream in streams):
            at = bisect.bisect_right(calls, record, key=lambda call: call[0])
            if at and (message is not None or calls[at - 1][0] == record):
                return f"{calls[at - 1][1].asked_for} in record {calls[at - 1][0]}"
        return None


def _line(
    outcome: Outcome, requirement: Requirement, profile: Profile, header: Header, heard: Heard, place: _Places
) -> result.Outcome:
    why, reason, lacks = None, outcome.reason, list[str]()
    if outcome.verdict is Verdict.INCONCLUSIVE:
        why, reason = inconclusive(outcome, header.plan, header.mode, heard)
    elif outcome.verdict is Verdict.NOT_APPLICABLE:
        replay = any(stream.name == outcome.stream and stream.replay is not None for stream in header.streams)
        lacks = lacking(requirement, header.can, replay=replay) if outcome.reason == Reason.BEYOND else []
        why = not_applicable(outcome, profile, lacks, driven=header.level == "driven")
        if why is Why.DECLARATION:
            lacks = [JUDGES[outcome.requirement].declares]
    return result.Outcome(
        requirement=outcome.requirement,
        stream=outcome.stream,
        verdict=outcome.verdict,
        level=requirement.level,
        sentence=requirement.sentence,
        witnesses=outcome.witnesses,
        violations=outcome.violations,
        reason=reason,
        why=why,
        lacks=lacks,
        findings=[place(finding) for finding in outcome.findings],
        notes=outcome.notes,
    )


def _stream(judged: Judged) -> result.Stream:
    return result.Stream(
        name=judged.stream.name,
        form=judged.form,
        batches=judged.appearance.batches,
        events=judged.appearance.events,
        incarnations=judged.incarnations,
        notes=list(judged.notes),
    )


def _holes(judged: Judged) -> list[result.Hole]:
    return [
        result.Hole(
            stream=judged.stream.name,
            incarnation=index,
            first=str(gap.first),
            last=str(gap.last),
            attribution=gap.attribution,
            why=gap.why,
        )
        for index, gap in judged.gaps
    ] + [
        result.Hole(
            stream=judged.stream.name,
            incarnation=loss.incarnation,
            first=str(loss.first),
            last=str(loss.last),
            attribution=Attribution.TRANSPORT,
            why=f"{loss.source} lacks {loss.count} of them, which {loss.delivered_by} delivered",
        )
        for loss in judged.losses
    ]
