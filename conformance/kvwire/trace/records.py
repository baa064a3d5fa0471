"""What was seen and done, record by record, and its file format (spec/schemas/trace.schema.json).

Every run is a trace, and every verdict is a function of one: judges read no clock and open no socket. The order of
the records is the order in which the harness received them; ``t_ns`` informs and decides nothing.

The file is newline-delimited JSON: a header, then one record a line, then ``{"end": …}``. Frames are hex strings.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from kvwire.standard.registry import ControlLevel
from kvwire.standard.statement import Statement
from kvwire.trace.detail import Detail
from kvwire.trace.planned import Planned

FORMAT = "kvwire-trace-1"
"""The first value of every trace file."""


class TraceError(ValueError):
    """The file is not a usable trace; the message names the line and what is wrong with it."""


class Source(enum.StrEnum):
    """Where a record comes from. Replay clients are ``replay-1``, ``replay-2`` …, one per request."""

    LIVE_A = "live-a"
    LIVE_B = "live-b"
    MONITOR = "monitor"
    STIMULUS = "stimulus"
    PROCESS = "process"
    HARNESS = "harness"


LIVE = (Source.LIVE_A, Source.LIVE_B)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One thing seen or done on one stream.

    A ``stream`` that the header does not declare is another instance of the publisher, which the harness started beside
    the one under test. ``frames`` for what a socket received, ``detail`` for the rest: what a monitor said, a stimulus,
    a process event, or what the harness says of itself: its trouble, and which probe is at work. ``connection`` counts
    the handshakes of the recorder so far; ``life`` is the adapter's count of starts.
    """

    t_ns: int
    source: str
    stream: str = ""
    connection: int | None = None
    life: int | None = None
    frames: tuple[bytes, ...] | None = None
    detail: Detail | None = None

    @property
    def event(self) -> str | None:
        """The name of the event, where it is one."""
        return None if self.detail is None else self.detail.event

    @property
    def is_live(self) -> bool:
        """Whether a live witness received it."""
        return self.source in LIVE

    @property
    def is_replay(self) -> bool:
        """Whether it is part of a replay answer."""
        return self.source.startswith("replay-")


Kind = TypeVar("Kind", bound=Detail)
Records = Sequence[tuple[int, Record]]
"""Records of one stream with their indices in the trace."""


def told(records: Iterable[tuple[int, Record]], *kinds: type[Kind]) -> Iterator[tuple[int, Kind]]:
    """What records of some kinds tell, in order."""
    for index, record in records:
        if isinstance(record.detail, kinds):
            yield index, record.detail


HELD_BYTES = 192 * 2**20
"""How much of a recording is held in memory, where all of it has to be: the ``weight`` of its records."""
RECORD_BYTES, FRAME_BYTES = 640, 64
"""What a record, and each frame of it, costs beside the bytes of its frames."""


def weight(frames: Sequence[bytes]) -> int:
    """What a message costs in memory, in bytes, about: its own a quarter more than they are, for what is under way."""
    return RECORD_BYTES + FRAME_BYTES * len(frames) + sum(map(len, frames)) * 5 // 4


class HeldFrames:
    """Frames in memory, equal ones once: two witnesses and every replay read the same ones."""

    def __init__(self) -> None:
        self._frames: dict[bytes, bytes] = {}

    def weight(self, frames: Sequence[bytes]) -> int:
        """What a message would cost beside those that are held."""
        return weight([frame for frame in frames if frame not in self._frames])

    def hold(self, frames: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The frames, or those that are equal and were held before."""
        return tuple([self._frames.setdefault(frame, frame) for frame in frames])


def held(records: Iterable[Record], most: int = HELD_BYTES) -> Iterator[Record]:
    """The records of what is judged as a whole.

    Raises:
        TraceError: when they are more than may be held.
    """
    left, frames = most, HeldFrames()
    for record in records:
        left -= frames.weight(record.frames or ())
        if left < 0:
            raise TraceError(f"its records take more than {most} bytes of memory; `kvwire judge --memory` takes more")
        yield record if record.frames is None else msgspec.structs.replace(record, frames=frames.hold(record.frames))


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A declared stream of a run: its name and what was declared of it."""

    name: str
    endpoint: str
    replay: str | None = None
    topic: str | None = None
    rank: int | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which file of a recording that was written to several: ``of`` names the recording, ``number`` counts from 1.

    The first ``repeats`` records stand in an earlier part too: what must be known to judge this one alone.
    """

    of: str
    number: int
    repeats: int = 0


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be known to judge a trace: target, level of control, who chose what, statement, streams.

    ``drive`` is what drove a target that cannot be driven by itself (``--drive``).
    ``probes`` names what was run, ``left_out`` what would have applied and was not run; ``plan`` tells of each probe
    what it serves, and why it was not carried out (empty where probes were chosen by name, and in older traces).
    ``life_from_start`` says that the harness started the publisher itself, so that its
    first life began on this trace. ``clock_ns`` is what turns the times of records into nanoseconds since 1970, by the
    clock of the host that recorded: held against other recordings only. ``part`` stands in a file that holds a part of
    a recording.
    """

    trace: str
    edition: str
    target: str
    drive: str = ""
    level: ControlLevel
    can: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    profile: str = "core"
    implementation: str = ""
    mode: str = "plain"
    probes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    plan: tuple[Planned, ...] = ()
    life_from_start: bool = False
    clock_ns: int | None = None
    statement: Statement = Statement()
    streams: tuple[StreamInfo, ...] = ()
    part: Part | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A header and its records; ``interrupted`` when the run was ended by the user.

    ``cut`` says where a recording breaks off that has no end: its writer was killed, say, or its disk full.
    """

    header: Header
    records: tuple[Record, ...]
    interrupted: bool = False
    cut: str = ""
