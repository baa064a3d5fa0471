"""The result stream: one NDJSON line per fact of a run (spec/schemas/result.schema.json). Every report is a function
of it, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvwire.judges.verdict import Finding, Verdict
from kvwire.standard.registry import ControlLevel

FORMAT = "kvwire-result-1"


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="run"):
    """The first line: what was run against what. ``reproduce`` is the command that runs it again."""

    format: str
    edition: str
    target: str
    implementation: str
    level: ControlLevel
    profile: str
    streams: list[str]
    sets: list[str]
    mode: str
    probes: list[str]
    left_out: list[str]
    statement_sha256: str
    reproduce: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="outcome"):
    """The verdict on one requirement and stream."""

    requirement: str
    stream: str
    verdict: Verdict
    level: str
    sentence: str
    witnesses: int = 0
    violations: int = 0
    reason: str = ""
    findings: list[Finding] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


class Hole(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="hole"):
    """Numbers that no source delivered, or not to every witness, and who lost them.

    They are reported, and a failure only where a sentence says so.
    """

    stream: str
    incarnation: int
    first: str
    last: str
    attribution: str
    why: str


class Stream(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="stream"):
    """What a stream looked like: its form, batches, events, incarnations, and what was recognised."""

    name: str
    form: str
    batches: int
    events: dict[str, int]
    incarnations: int
    notes: list[str] = msgspec.field(default_factory=list)


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="trouble"):
    """The harness's own trouble, or a target that could not be reached: never counted against the target."""

    text: str


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="summary"):
    """The last line: the aggregate and the exit code; both absent from an interrupted run.

    ``judged`` of ``total`` publisher sentences of the profile got a verdict; ``not_judged`` gives the reason of each
    other one. ``conclusive_missing`` are the ids that the profile wants conclusive at this level and that were not.
    """

    headline: str
    judged: int
    total: int
    counts: dict[str, int]
    not_judged: dict[str, str]
    conclusive_missing: list[str]
    verdict: Verdict | None = None
    exit: int | None = None
    interrupted: bool = False


Line = Run | Outcome | Hole | Stream | Trouble | Summary


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A whole result stream."""

    run: Run
    outcomes: tuple[Outcome, ...]
    holes: tuple[Hole, ...]
    streams: tuple[Stream, ...]
    troubles: tuple[Trouble, ...]
    summary: Summary

    def lines(self) -> Iterator[Line]:
        """Every line, in the order of the stream."""
        yield self.run
        yield from self.streams
        yield from self.holes
        yield from self.troubles
        yield from self.outcomes
        yield self.summary


def dump(result: Result) -> bytes:
    """The NDJSON bytes of a result; equal results give equal bytes."""
    encoder = msgspec.json.Encoder(order="deterministic")
    return b"".join(encoder.encode(line) + b"\n" for line in result.lines())
