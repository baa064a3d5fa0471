"""Verdicts, what they are made of, and what becomes of several of them.

A verdict is given per requirement and stream. A PASS needs a witness: an occasion on which the sentence could have
been broken. A judge that saw nothing is INCONCLUSIVE, never PASS.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

EXAMPLES = 3
"""How many examples a tally keeps of each sort."""


class Verdict(enum.StrEnum):
    """What is said of one requirement on one stream."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    WARN = "WARN"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_APPLICABLE = "NOT-APPLICABLE"
    ERROR = "ERROR"


ORDER = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.INCONCLUSIVE,
    Verdict.WARN,
    Verdict.PASS,
    Verdict.NOT_APPLICABLE,
)
"""From worst to best: the aggregate is the first that occurs."""


class Exit(enum.IntEnum):
    """The exit codes of every command."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ERROR = 4
    INTERRUPTED = 130


class Reason(enum.StrEnum):
    """The closed list of reasons for NOT-APPLICABLE."""

    NOT_CLAIMED = "not claimed"
    BEYOND = "beyond this level of control"
    LEGACY = "legacy form"
    OURS = "decided by us"
    NOT_USED = "not used"


class Where(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A place in the trace: record index, sequence number, frame, byte offset in the frame, and the bytes in hex.

    ``stored`` is the number of the batch that last stored the block of which a finding speaks, where that is known.
    ``probe`` is the probe during which the record was made, and ``event`` what stands at this place: its type, medium,
    group, kind and adapter, and ``before`` what had last been done to the publisher; the conclusion adds these, where
    the trace tells.
    """

    record: int | None = None
    number: str | None = None
    frame: str | None = None
    offset: int | None = None
    hex: str | None = None
    stored: str | None = None
    probe: str | None = None
    event: str | None = None
    before: str | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One occasion on which a sentence was broken: what it asks for, what was seen, and where."""

    expected: str
    seen: str
    where: Where


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The verdict on one requirement and stream, with its witness count and up to three findings."""

    requirement: str
    stream: str
    verdict: Verdict
    witnesses: int = 0
    violations: int = 0
    reason: str = ""
    findings: list[Finding] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class Tally:
    """What one judge found for one requirement on one stream, counted; O(1) memory."""

    __slots__ = ("findings", "notes", "open_reason", "opened", "violations", "witnesses")

    def __init__(self) -> None:
        self.witnesses = 0
        self.violations = 0
        self.opened = 0
        self.open_reason = ""
        self.findings: list[Finding] = []
        self.notes: list[str] = []

    def saw(self, count: int = 1) -> None:
        """Count occasions on which the sentence could have been broken and was not."""
        self.witnesses += count

    def broke(self, finding: Finding) -> None:
        """Count a violation, which is an occasion too."""
        self.witnesses += 1
        self.violations += 1
        if len(self.findings) < EXAMPLES:
            self.findings.append(finding)

    def open(self, reason: str) -> None:
        """Count an occasion that could not be decided, and keep the first reason."""
        self.opened += 1
        self.open_reason = self.open_reason or reason

    def note(self, text: str) -> None:
        """Keep a remark that the report shows beside the verdict, each once."""
        if text not in self.notes and len(self.notes) < 2 * EXAMPLES:
            self.notes.append(text)


def aggregate(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts: FAIL > ERROR > INCONCLUSIVE > WARN > PASS > NOT-APPLICABLE."""
    return min(verdicts, key=ORDER.index, default=Verdict.NOT_APPLICABLE)


def exit_code(verdict: Verdict, *, strict: bool = False) -> Exit:
    """The exit code of an aggregate; ``strict`` promotes WARN."""
    match verdict:
        case Verdict.FAIL:
            return Exit.NOT_CONFORMANT
        case Verdict.ERROR:
            return Exit.ERROR
        case Verdict.INCONCLUSIVE:
            return Exit.INCONCLUSIVE
        case Verdict.WARN if strict:
            return Exit.NOT_CONFORMANT
        case _:
            return Exit.CONFORMANT
