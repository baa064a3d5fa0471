"""The result stream: one NDJSON line per fact of a run (spec/schemas/result.schema.json). Every report is a function
of it, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Literal, TypeVar

import msgspec

from kvwire.conclusion.diagnosis.agreement import Agreement
from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.conclusion.untried import Why
from kvwire.judges.verdict import Finding, Verdict
from kvwire.standard import reading
from kvwire.standard.registry import ControlLevel
from kvwire.standard.statement import EDITIONS
from kvwire.trace.planned import Left

FORMAT = "kvwire-result-1"


class ResultError(ValueError):
    """Bytes that are no result stream; the message says why."""


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="run"):
    """The first line: what was run against what. ``only`` are the ids and areas that it was restricted to,
    ``allow_inconclusive`` whether what was to be shown and was not counts for nothing, ``reproduce`` is the command
    that runs it again. ``not_run`` says of each probe that was not carried out to its end why, where the trace tells.

    The digests are what the result follows from, so that anybody can derive it again (``kvwire verify``): of the
    standard, of the source of the judges, and of what was recorded, whatever the form of its file. So are how strict
    the exit code is, and the file of expected failures with the day on which it was held against the run.
    """

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
    standard_sha256: str = ""
    judges_sha256: str = ""
    recording_sha256: str = ""
    strict: bool = False
    expected_sha256: str = ""
    expected_on: str = ""
    only: list[str] = msgspec.field(default_factory=list)
    allow_inconclusive: bool = False
    not_run: dict[str, Left] = msgspec.field(default_factory=dict)
    reproduce: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="outcome"):
    """The verdict on one requirement and stream; ``expected`` is the reason why it is no surprise.

    ``follows`` is the requirement that is broken in the same events, or by the blocks that they stored, where this one
    is told under it.

    ``why`` of what is INCONCLUSIVE or NOT-APPLICABLE is one of a closed list, and ``reason`` says it in words.
    ``lacks`` is what the run could not do of what the sentence needs: verbs of the adapter, ``replayable``; or what
    would have to be declared: a field of the statement, and its value.
    """

    requirement: str
    stream: str
    verdict: Verdict
    level: str
    sentence: str
    witnesses: int = 0
    violations: int = 0
    reason: str = ""
    why: Why | None = None
    lacks: list[str] = msgspec.field(default_factory=list)
    findings: list[Finding] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    expected: str = ""
    follows: str = ""


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


What = Literal[
    "died",
    "connection-lost",
    "connection-back",
    "silent",
    "nothing-came",
    "stopped",
    "one-rank",
    "hashes-differ",
    "clocks",
    "several-senders",
    "refused",
    "capture",
    "cut-short",
]
"""What a notice is about: the closed list."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="notice"):
    """What no sentence speaks of and a reader must know, in one line; ``after_s`` is when, in seconds of the run."""

    what: What
    text: str
    streams: list[str] = msgspec.field(default_factory=list)
    after_s: float | None = None


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="trouble"):
    """The harness's own trouble, or a target that could not be reached: never counted against the target."""

    text: str


Ended = Literal["whole", "interrupted", "cut"]
"""How a recording ended: as its writer wanted, by the user, or not at all."""
NoClaim = Literal["quick", "only", "interrupted", "cut", "lost"]
"""Why a run makes no claim of conformance: the closed list."""
INCOMPLETE: frozenset[NoClaim] = frozenset({"cut", "lost"})
"""Those that leave a run inconclusive that found nothing broken: it was meant to be whole."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="summary"):
    """The last line: the aggregate and the exit code; both absent from an interrupted run.

    ``sentences`` counts those of the profile by verdict, the worst over all streams; with those that are
    ``not_judged``, for the reasons there, they are ``total``. ``conclusive_missing`` are the ids that the profile wants
    conclusive at this level and that were not. ``no_claim``: why the run claims no conformance, whatever the verdict on
    what it saw.
    ``expected`` outcomes do not count for the exit code; ``unexpected`` has a line for each expectation that failed.
    """

    headline: str
    total: int
    sentences: dict[str, int]
    not_judged: dict[str, str]
    conclusive_missing: list[str]
    no_claim: list[NoClaim] = msgspec.field(default_factory=list)
    verdict: Verdict | None = None
    exit: int | None = None
    interrupted: bool = False
    expected: int = 0
    unexpected: list[str] = msgspec.field(default_factory=list)


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="recording"):
    """In a stream of several recordings, what the lines behind it are about, up to the next; ``error``: why none are.

    ``name`` is that of its file, or of the first of its ``parts`` and the last one's number.
    """

    name: str
    parts: int = 1
    records: int = 0
    ended: Ended | None = None
    error: str = ""


class Total(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="total"):
    """The last line of a stream of several recordings: how many there are, by verdict, and the exit code.

    ``notices`` are what their streams show only when they are held against each other. ``verdict`` and ``exit`` are
    absent when it was interrupted.
    """

    recordings: int
    verdicts: dict[str, int]
    notices: list[Notice] = msgspec.field(default_factory=list)
    verdict: Verdict | None = None
    exit: int | None = None
    interrupted: bool = False


Line = Run | Outcome | Hole | Stream | StreamProfile | Agreement | Notice | Trouble | Summary
Kind = TypeVar("Kind", Run, Outcome, Hole, Stream, StreamProfile, Agreement, Notice, Trouble, Summary)
KINDS = frozenset(
    {"run", "stream", "profile", "agreement", "hole", "notice", "trouble", "outcome", "summary", "recording", "total"}
)
"""The kinds of lines."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A whole result stream."""

    run: Run
    outcomes: tuple[Outcome, ...]
    holes: tuple[Hole, ...]
    streams: tuple[Stream, ...]
    troubles: tuple[Trouble, ...]
    summary: Summary
    notices: tuple[Notice, ...] = ()
    profiles: tuple[StreamProfile, ...] = ()
    agreements: tuple[Agreement, ...] = ()

    def lines(self) -> Iterator[Line]:
        """Every line, in the order of the stream."""
        yield self.run
        yield from self.streams
        yield from self.profiles
        yield from self.agreements
        yield from self.holes
        yield from self.notices
        yield from self.troubles
        yield from self.outcomes
        yield self.summary


def dump(result: Result) -> bytes:
    """The NDJSON bytes of a result; equal results give equal bytes."""
    encoder = msgspec.json.Encoder(order="deterministic")
    return b"".join(encoder.encode(line) + b"\n" for line in result.lines())


class _Any(msgspec.Struct):
    kind: str


def _is_of_another_kind(text: bytes) -> bool:
    try:
        kind = reading.json(msgspec.json.Decoder(_Any).decode, text).kind
    except msgspec.MsgspecError:
        return False
    return kind not in KINDS


def parse(raw: bytes) -> Result:
    """The result of a stream; lines of kinds that this version does not know are skipped.

    Raises:
        ResultError: when a line is none of a result stream, there is not one run and one summary, or it is of another
            format or an unknown edition.
    """
    if raw.startswith(b'{"kind":"recording"'):
        raise ResultError("a result stream of several recordings or targets; one of a single one is wanted")
    decoder = msgspec.json.Decoder(Line)
    lines: list[Line] = []
    for number, text in enumerate(BytesIO(raw), 1):
        try:
            lines.append(reading.json(decoder.decode, text))
        except msgspec.MsgspecError as error:
            if _is_of_another_kind(text):
                continue
            raise ResultError(f"line {number}: not of a result stream ({error}); write one with `--json`") from None
        if isinstance(lines[-1], Run):
            _known(lines[-1], number)

    def of(kind: type[Kind]) -> tuple[Kind, ...]:
        return tuple(line for line in lines if isinstance(line, kind))

    runs, summaries = of(Run), of(Summary)
    if len(runs) != 1 or len(summaries) > 1:
        raise ResultError(f"{len(runs)} lines `run` and {len(summaries)} lines `summary`; a result stream has one each")
    if not summaries or lines[-1] is not summaries[0]:
        raise ResultError("the last line is no `summary`: the result is not whole")
    return Result(
        run=runs[0],
        outcomes=of(Outcome),
        holes=of(Hole),
        streams=of(Stream),
        profiles=of(StreamProfile),
        agreements=of(Agreement),
        notices=of(Notice),
        troubles=of(Trouble),
        summary=summaries[0],
    )


def _known(run: Run, number: int) -> None:
    if run.format != FORMAT:
        raise ResultError(f"line {number}: format {reading.shown(run.format)}, this harness reads {FORMAT!r}")
    if run.edition not in EDITIONS:
        known = ", ".join(map(repr, EDITIONS))
        raise ResultError(
            f"line {number}: edition {reading.shown(run.edition)} is unknown; this harness knows edition {known}"
        )
