"""From tallies to outcomes: of one requirement on one stream, and of all of them."""

from __future__ import annotations

from collections.abc import Mapping

from kvwire.judges import JUDGES
from kvwire.judges.verdict import Outcome, Reason, Tally, Verdict
from kvwire.standard.registry import Profile, Registry, Requirement
from kvwire.trace.records import Header, StreamInfo
from kvwire.wire.events import Form

NOTHING = "nothing was seen that could have broken it"
"""The reason of a sentence that had no occasion."""


def applicable(requirement: Requirement, stream: StreamInfo, header: Header) -> bool:
    """Whether this run has the control over the stream that the sentence needs."""
    have = {"passive", *header.can}
    if stream.replay is not None:
        have.add("replayable")
    return set(requirement.needs) <= have


def outcome(
    requirement: Requirement, stream: StreamInfo, tally: Tally, header: Header, form: Form, profile: Profile
) -> Outcome:
    """The verdict of one tally: no witness is INCONCLUSIVE, never PASS.

    What the adapter writes itself (``envelope``, ``encoder``) is never the publisher's. Of events, ``ts`` and rank the
    tally holds only what was not the harness's choice, so that a violation among them counts.
    """

    def verdict(value: Verdict, reason: str = "") -> Outcome:
        return Outcome(
            requirement=requirement.id,
            stream=stream.name,
            verdict=value,
            witnesses=tally.witnesses,
            violations=tally.violations,
            reason=reason,
            findings=tally.findings,
            notes=tally.notes,
        )

    if requirement.id not in profile.ids:
        return Outcome(
            requirement=requirement.id, stream=stream.name, verdict=Verdict.NOT_APPLICABLE, reason=Reason.NOT_CLAIMED
        )
    if not applicable(requirement, stream, header):
        return Outcome(
            requirement=requirement.id, stream=stream.name, verdict=Verdict.NOT_APPLICABLE, reason=Reason.BEYOND
        )
    if requirement.decided_by in header.sets and requirement.decided_by in ("envelope", "encoder"):
        return Outcome(
            requirement=requirement.id, stream=stream.name, verdict=Verdict.NOT_APPLICABLE, reason=Reason.OURS
        )
    if tally.violations:
        return verdict(Verdict.FAIL if requirement.mandatory else Verdict.WARN)
    if form in ("array", "array-v", "array-s") and JUDGES[requirement.id].arrays == "exempt":
        return verdict(Verdict.NOT_APPLICABLE, Reason.LEGACY)
    if tally.opened:
        return verdict(Verdict.INCONCLUSIVE, tally.open_reason)
    if tally.witnesses:
        return verdict(Verdict.PASS)
    if requirement.decided_by in header.sets:
        return verdict(Verdict.NOT_APPLICABLE, Reason.OURS)
    if requirement.level == "MAY":
        return verdict(Verdict.NOT_APPLICABLE, Reason.NOT_USED)
    if (reason := JUDGES[requirement.id].unclaimed(stream, header.statement.of_stream(stream.name))) is not None:
        return verdict(Verdict.NOT_APPLICABLE, reason)
    return verdict(Verdict.INCONCLUSIVE, NOTHING)


def outcomes(
    stream: StreamInfo,
    tallies: Mapping[str, Tally],
    header: Header,
    form: Form,
    registry: Registry,
    profile: Profile,
    only: frozenset[str] | None,
) -> tuple[Outcome, ...]:
    """The outcome of every sentence that binds a publisher and has a judge, ``only`` those if there are some."""
    return tuple(
        outcome(requirement, stream, tallies.get(requirement.id, Tally()), header, form, profile)
        for requirement in registry.binding("publisher")
        if requirement.id in JUDGES and (only is None or requirement.id in only)
    )
