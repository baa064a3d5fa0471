"""Why a sentence got no verdict: one closed list, for what is INCONCLUSIVE and what is NOT-APPLICABLE.

A function of the header's plan and of what was heard of the stream; a trace without a plan says less.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import msgspec

from kvwire.conclusion.outcome import NOTHING
from kvwire.judges.verdict import Outcome, Reason
from kvwire.standard.registry import Profile, Requirement
from kvwire.trace.planned import CUT, Left, Planned


class Why(enum.StrEnum):
    """The closed list. The first ones are those of probes (``Left``)."""

    MODE = "mode"
    ONLY = "only"
    TIME = "time"
    FULL = "trace-full"
    INTERRUPTED = "interrupted"
    ENDED = "target-ended"
    REFUSED = "refused"
    VERB = "verb"
    REPLAY = "replay-socket"
    DECLARATION = "declaration"
    ADAPTER = "adapter"
    PROFILE = "profile"
    OURS = "decided-by-us"
    LEGACY = "legacy-form"
    UNUSED = "not-used"
    UNREACHABLE = "unreachable"
    LOST = "connection-lost"
    SILENT = "silent"
    UNDECIDED = "undecided"
    NOT_SHOWN = "not-shown"


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a stream as a whole: the first of these that holds, and a few words about it.

    ``why`` is None, UNREACHABLE, LOST or SILENT.
    """

    why: Why | None = None
    said: str = ""


TEMPORARY = (*CUT, Left.REFUSED, Left.MODE, Left.ONLY)
"""What another run would not be held up by, the most telling first."""
_OF_REASON = {Reason.LEGACY: Why.LEGACY, Reason.OURS: Why.OURS, Reason.NOT_USED: Why.UNUSED}
_WORDS = {
    Left.ONLY: "left out by --only: {}",
    Left.TIME: "no time was left for {}",
    Left.FULL: "the trace was full before the end of {}",
    Left.INTERRUPTED: "interrupted before the end of {}",
    Left.ENDED: "the target had ended, or failed, before the end of {}",
    Left.REFUSED: "{} was refused",
    Left.REPLAY: "there is no replay socket for {}",
    Left.DECLARATION: "no `bounds.heartbeat_s` is declared, for which {} could wait",
}


def not_applicable(outcome: Outcome, profile: Profile, lacks: Sequence[str], *, driven: bool) -> Why:
    """Why a sentence does not apply; ``lacks`` is what the run could not do of what the sentence needs."""
    if outcome.requirement not in profile.ids:
        return Why.PROFILE
    if outcome.reason == Reason.BEYOND:
        return Why.REPLAY if "replayable" in lacks else Why.VERB if driven else Why.ADAPTER
    return next((why for reason, why in _OF_REASON.items() if outcome.reason == reason), Why.DECLARATION)


def inconclusive(outcome: Outcome, plan: Sequence[Planned], mode: str, heard: Heard) -> tuple[Why, str]:
    """Why a sentence is open, and in words."""
    if outcome.reason != NOTHING:
        return Why.UNDECIDED, outcome.reason
    serving = [probe for probe in plan if probe.aims_at(outcome.requirement)]
    tried = not serving or any(probe.left is None for probe in serving)
    untried = list(_untried(serving, mode, TEMPORARY))
    if untried and not tried:
        return untried[0]
    if heard.why is not None and tried:
        return heard.why, f"{NOTHING}: {heard.said}"
    if untried:
        return untried[0]
    if not tried:
        return next(_untried(serving, mode, tuple(Left)))
    return Why.NOT_SHOWN, NOTHING


def _untried(probes: Sequence[Planned], mode: str, reasons: Sequence[Left]) -> Iterator[tuple[Why, str]]:
    for left in reasons:
        if mine := [probe for probe in probes if probe.left is left]:
            yield Why(left), f"{NOTHING}: {_words(left, mine, mode)}"


def _words(left: Left, probes: Sequence[Planned], mode: str) -> str:
    names = f"probe{'s' if len(probes) > 1 else ''} {', '.join(probe.name for probe in probes)}"
    if left is Left.MODE:
        return f"left out by {'--quick' if mode == 'quick' else 'a run without --thorough'}: {names}"
    if left is Left.VERB:
        lacks = sorted({f"`{need}`" for probe in probes for need in probe.lacks})
        return f"{names} would need {', '.join(lacks)}"
    said = f": {probes[0].said}" if left is Left.REFUSED and probes[0].said else ""
    return _WORDS[left].format(names) + said


def lacking(requirement: Requirement, can: Sequence[str], *, replay: bool) -> list[str]:
    """What the run could not do of what the judge of a sentence needs: verbs, and ``replayable``."""
    have = {"passive", *can, *(("replayable",) if replay else ())}
    return sorted(set(requirement.needs) - have)
