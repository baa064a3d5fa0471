"""What the harness writes beside calls and frames: what it did by itself, awaited, looked at and found wrong.

Times are in seconds where their name says ``_s``; ``after_s`` is how long something took, ``bound_s`` for how long at
most it was awaited.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from kvwire.trace.detail import Detail, Stimulus
from kvwire.wire.framing import SEND_MARK, SYSTEM_BUFFER

WELL_FORMED = "well-formed"
"""The kind of a replay request in which nothing is wrong."""

During = Literal["nothing", "replay", "vanished"]
"""What a publisher does while live batches are awaited."""

# --- waits --------------------------------------------------------------------------------------------------------


class Awaited(Stimulus, frozen=True, kw_only=True):
    """A wait for one thing: it was ``seen``, or the ``bound`` was over."""

    outcome: Literal["seen", "bound"]
    after_s: float | None = None
    bound_s: float


class ResetDone(Awaited, frozen=True, kw_only=True):
    """A wait for a reset of the cache to show on the stream is over."""

    EVENT: ClassVar[str] = "reset-done"


class TailDone(Awaited, frozen=True, kw_only=True):
    """A wait for the batch that was offered last is over."""

    EVENT: ClassVar[str] = "tail-done"


class LiveAwaited(Awaited, frozen=True, kw_only=True):
    """A wait for live batches is over: while nothing else went on, during replay, or after replay clients ``vanished``.

    So many were ``offered`` meanwhile and ``heard``.
    """

    EVENT: ClassVar[str] = "live-awaited"
    during: During
    offered: int
    heard: int | None = None


class IdleDone(Stimulus, frozen=True, kw_only=True):
    """A wait for an empty batch on an idle stream is over; ``busy``: others caused something there."""

    EVENT: ClassVar[str] = "idle-done"
    outcome: Literal["seen", "bound", "busy"]
    after_s: float
    bound_s: float


class Primed(Stimulus, frozen=True, kw_only=True):
    """Batches that mean nothing were sent until every witness had ``seen`` one, or the bound was over."""

    EVENT: ClassVar[str] = "primed"
    seen: bool
    bound_s: float


class Settled(Stimulus, frozen=True, kw_only=True):
    """Whether everything that the publisher counts was heard in time: then the stream is ``drained``.

    ``idle``: it was asked nothing, counted no more and sent nothing for ``reset_visible_s`` before, and for ``idle_s``
    with the times for which something was held up.
    """

    EVENT: ClassVar[str] = "settled"
    drained: bool
    idle: bool = False
    idle_s: float | None = None


class Unreachable(Stimulus, frozen=True, kw_only=True):
    """No handshake came about at an endpoint within the bound, for the sources in ``of``."""

    EVENT: ClassVar[str] = "unreachable"
    endpoint: str
    of: tuple[str, ...] = ()
    bound_s: float


# --- replay -------------------------------------------------------------------------------------------------------


class ReplayRequest(Stimulus, frozen=True, kw_only=True):
    """A replay request of ``client``, the source of its answer; ``start`` in decimal, where it has one, frames in hex.

    One under pressure says its ``situation``: ``together`` with others, ``paused`` on a connection that does not read
    for a while, ``beyond`` the requests that may wait there, ``behind`` them when it reads again, ``beside`` a client
    that does not read, on one that will be ``vanishing``, ``after`` that, or ``req`` from a REQ socket. ``connection``
    names the first request of its connection, ``rcvhwm`` is its receive high-water mark in messages where that is low.
    ``again``: it asks for what the answer before left out.
    """

    EVENT: ClassVar[str] = "replay-request"
    client: str
    kind: str | None = None
    start: str | None = None
    frames: tuple[str, ...] | None = None
    situation: str = ""
    connection: str = ""
    rcvhwm: int | None = None
    again: bool = False

    @property
    def number(self) -> int | None:
        """The number at which the answer is to begin."""
        return None if self.start is None else int(self.start)


class ReplayBehind(Stimulus, frozen=True, kw_only=True):
    """A well-formed request behind a malformed one on its connection: its end marker shows that the first was read."""

    EVENT: ClassVar[str] = "replay-behind"
    client: str
    start: str | None = None


class ReplayDone(Stimulus, frozen=True, kw_only=True):
    """A request is over, with so many messages of an answer.

    By its end ``marker``, after more messages than the harness takes (``count``), after the ``first`` where only one is
    read, ``overtaken`` by a later answer, ``disconnected``, with the run (``over``), after ``after_s`` of silence
    (``timeout``), because the client ``vanished``, or as it was ``unreachable``.
    """

    EVENT: ClassVar[str] = "replay-done"
    client: str
    outcome: str
    after_s: float | None = None
    messages: int | None = None


class ReplayResumed(Stimulus, frozen=True, kw_only=True):
    """A connection reads again after a pause; it has so many requests, for each of which so many batches are retained.

    ``rcvhwm`` is its receive high-water mark in messages.
    """

    EVENT: ClassVar[str] = "replay-resumed"
    connection: str
    paused_s: float
    rcvhwm: int
    requests: int
    retained: int

    @property
    def overflows(self) -> bool:
        """Whether the answers are more than the pipes of a ROUTER without options and of the client take."""
        return self.requests * self.retained >= SEND_MARK + self.rcvhwm + SYSTEM_BUFFER


class ReplayKilled(Stimulus, frozen=True, kw_only=True):
    """A client was killed, and whether it was being answered."""

    EVENT: ClassVar[str] = "replay-killed"
    answered: bool


class ReplayLoad(Stimulus, frozen=True, kw_only=True):
    """The publisher's resident memory before and under requests that nobody reads; bytes and batches of an answer."""

    EVENT: ClassVar[str] = "replay-load"
    phase: Literal["before", "under"]
    rss: int
    answer_bytes: int
    batches: int


class Joined(Stimulus, frozen=True, kw_only=True):
    """What a consumer that joined late knows, compared with what one knows that joined before it.

    ``at``: the newest number when it joined, in decimal. ``settled``: both have applied the same; ``complete``: both
    know everything. Of ``blocks`` of the early one ``missing`` are unknown to the late one, which has ``extra`` ones.
    """

    EVENT: ClassVar[str] = "joined"
    at: str | None
    settled: bool
    complete: bool
    blocks: int
    missing: int
    extra: int


# --- pressure and attacks -----------------------------------------------------------------------------------------


class AttackBegins(Stimulus, frozen=True, kw_only=True):
    """What follows on the stream of another instance is an attack of that name."""

    EVENT: ClassVar[str] = "attack"
    attack: str


class StrainBegins(Stimulus, frozen=True, kw_only=True):
    """An attempt to make ``publish`` wait begins: what is offered until ``strain-done`` belongs to it."""

    EVENT: ClassVar[str] = "strain"
    situation: str


class StrainDone(Stimulus, frozen=True, kw_only=True):
    """An attempt is over."""

    EVENT: ClassVar[str] = "strain-done"
    situation: str


class BurstBegins(Stimulus, frozen=True, kw_only=True):
    """What is accepted from here on is accepted just before a stop."""

    EVENT: ClassVar[str] = "burst-begins"


class Ranks(Stimulus, frozen=True, kw_only=True):
    """Which instances are ranks of one deployment, by name; on the stream under test. None could be started: empty."""

    EVENT: ClassVar[str] = "ranks"
    members: dict[str, int]


class RankWait(Stimulus, frozen=True, kw_only=True):
    """One rank was given work, and its stream awaited, while the others were in some state; on the stream under test.

    ``peers``: there were ``none`` or they were ``busy`` too (the controls), they were ``idle``, their processes
    ``stopped`` or ``killed``.
    ``outcome``: a batch was ``heard``, none until the ``bound``, or the call that gave the work did not return: it
    ``hung``, or its process ``ended``.
    """

    EVENT: ClassVar[str] = "rank-wait"
    instance: str
    rank: int
    peers: Literal["none", "busy", "idle", "stopped", "killed"]
    outcome: Literal["heard", "bound", "hung", "ended"]
    after_s: float
    bound_s: float
    why: str = ""


class FaultDone(Awaited, frozen=True, kw_only=True):
    """After a batch that came to grief others were offered, until one was heard or the bound was over."""

    EVENT: ClassVar[str] = "fault-done"
    kind: str


# --- what was looked at after a start or a stop of an instance ----------------------------------------------------


class Reach(Stimulus, frozen=True, kw_only=True):
    """A client of ours knocked at an endpoint: whether a handshake came about within the bound."""

    EVENT: ClassVar[str] = "reach"
    endpoint: str
    socket: Literal["SUB", "DEALER"]
    outcome: Literal["handshake", "none"]
    bound_s: float

    @property
    def done(self) -> bool:
        """Whether it did."""
        return self.outcome == "handshake"


class Looked(Stimulus, frozen=True, kw_only=True):
    """Whether a directory that only the endpoints lie in was changed by the ``start`` before."""

    EVENT: ClassVar[str] = "looked"
    changed: bool


class Ports(Stimulus, frozen=True, kw_only=True):
    """Whether the harness could bind the ports itself after a refusal."""

    EVENT: ClassVar[str] = "ports"
    free: bool


class Freed(Stimulus, frozen=True, kw_only=True):
    """Whether an endpoint can be bound anew after a stop: ``held`` if somebody answers there, else ``taken``."""

    EVENT: ClassVar[str] = "freed"
    endpoint: str
    outcome: Literal["free", "held", "taken"]
    after_s: float
    bound_s: float


# --- the harness and its children ---------------------------------------------------------------------------------


class EndpointSeen(Detail, frozen=True, kw_only=True):
    """Who can come to an endpoint, as far as the machine shows it.

    ``listening``: the local addresses of TCP sockets that listen on its port here; ``addresses``: those that its host
    stands for; ``private``, for ipc: whether only its user can enter the directory. ``default``: it is declared, and
    not bound in this run.
    """

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "place"
    endpoint: str
    listening: tuple[str, ...] | None = None
    addresses: tuple[str, ...] | None = None
    private: bool | None = None
    default: bool = False


class Trouble(Detail, frozen=True, kw_only=True):
    """Trouble of our own, which never counts against the target; of a witness, and with what exit code, where it is."""

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "trouble"
    text: str
    of: str | None = None
    code: int | None = None


class CaptureGap(Detail, frozen=True, kw_only=True):
    """Packets are missing in the capture that the trace was made from: bytes of what the witness ``of`` was sent.

    ``exact``: they lay in one message, which alone is missing; else nothing tells how many messages are.
    """

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "capture-gap"
    of: str
    bytes: int
    exact: bool


class CaptureNote(Detail, frozen=True, kw_only=True):
    """What a reader must know of the capture that the trace was made from."""

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "capture-note"
    text: str


class Stalled(Detail, frozen=True, kw_only=True):
    """Something that takes part in a run was held up for so many milliseconds, until the time of the record.

    ``of``: a thread of the ``harness``, a live witness, or, on its stream, the ``publisher``, whose process was
    stopped.
    """

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "stalled"
    of: str
    ms: float


class ProbeMark(Detail, frozen=True, kw_only=True):
    """A probe begins or ends; what stands between the two was recorded during it, on whatever stream."""

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "probe"

    name: str
    phase: Literal["begins", "ends"]


class Witnesses(Detail, frozen=True, kw_only=True):
    """The live witnesses of a stream, and the options of their sockets; ``curve``: they bring CURVE keys."""

    SOURCE: ClassVar[str] = "harness"
    EVENT: ClassVar[str] = "witnesses"
    of: tuple[str, ...]
    rcvhwm: int
    maxmsgsize: int
    reconnect_ms: int
    curve: bool | None = None


class ProcessStart(Detail, frozen=True, kw_only=True):
    """The process of an adapter began."""

    SOURCE: ClassVar[str] = "process"
    EVENT: ClassVar[str] = "start"
    command: tuple[str, ...]


class ProcessExit(Detail, frozen=True, kw_only=True):
    """The process of an adapter ended, ``how`` in words; unless ``expected``, with the end of its standard error."""

    SOURCE: ClassVar[str] = "process"
    EVENT: ClassVar[str] = "exit"
    how: str
    code: int | None = None
    expected: bool | None = None
    stderr: tuple[str, ...] | None = None


class Noise(Detail, frozen=True, kw_only=True):
    """A line on the standard output of an adapter that is no answer."""

    SOURCE: ClassVar[str] = "process"
    EVENT: ClassVar[str] = "noise"
    line: str
