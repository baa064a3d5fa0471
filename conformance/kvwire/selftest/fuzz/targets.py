"""The ways in: each knows its seeds, how they are mutated, what is done with them, and which errors are clear ones."""

from __future__ import annotations

import functools
import random
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import zmq

from kvwire.attack.probes.kit.replay_client import Client, ReplayClients, Request
from kvwire.attack.probes.kit.session import Limits, Session
from kvwire.attack.targets import TargetError, parse
from kvwire.attack.targets.answers import answer_in, said, shaped, unreadable
from kvwire.attack.witness import Recorder
from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.diagnosis import expectation
from kvwire.conclusion.diagnosis.lookup import lookup
from kvwire.conclusion.doctor import diagnose
from kvwire.recordings import scrub as scrubbing
from kvwire.report.evidence import look
from kvwire.report.faces import FORMATS, Format, face
from kvwire.selftest.fuzz import seeds
from kvwire.selftest.fuzz.mutation import Mutate, any_bytes, json_lines, toml
from kvwire.standard import protocol, registry, statement
from kvwire.standard.statement import Statement, Stream
from kvwire.trace import calls, files
from kvwire.trace.captures import capture
from kvwire.trace.records import Record, Trace, TraceError
from kvwire.vectors import access
from kvwire.wire import dialect
from kvwire.wire.plain import read_quickly
from kvwire_reference import wire
from kvwire_reference.replay import Entry, ReplayLimits, ReplayServer, Ring
from kvwire_reference.residents import Residents
from kvwire_reference.stream import Stream as Followed

Run = Callable[[bytes], None]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One way in. ``clear``: errors that a user is meant to see."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    run: Run
    clear: tuple[type[Exception], ...]
    mutate: Mutate = any_bytes


def _payload(raw: bytes) -> None:
    slowly, quickly = dialect.read_slowly(raw), read_quickly(raw)
    if quickly is not None and (slowly.flaws or any(event.flaws for event in slowly.events)):
        raise AssertionError("the quick way lets a payload pass of which the walker speaks")
    try:
        batch = wire.decode_lenient(raw)
    except msgspec.DecodeError:
        return
    Residents().apply(batch)


def _trace(raw: bytes) -> None:
    _judged(files.parse(raw.splitlines()))


FACES: tuple[Format, ...] = ("console", "junit", "github", "html", "markdown", "badge", "json")
SHOWN = len(FACES) + 7
"""By which of so many things: what was recorded says it, so that an input that is given again does the same."""


def _judged(trace: Trace) -> None:
    """Judge it, read what is written, and do one thing more: show it, say what is on it, or look a prompt up."""
    known = registry.load()
    try:
        profile = registry.profile(trace.header.profile)
    except registry.UnknownNameError:
        profile = registry.profile("core")
    concluded = conclude(trace, known, profile)
    result.parse(result.dump(concluded))
    chosen = zlib.crc32(repr(trace.records[-1:]).encode(errors="replace")) + len(trace.records)
    if (at := chosen % SHOWN) < len(FACES):
        face([concluded], FACES[at], [look(concluded, trace.header, trace.records)] if FACES[at] == "html" else ())
    elif at < SHOWN - 2:
        diagnose([("t", trace)])
    else:
        for stream in trace.header.streams:
            lookup(trace, stream, [1, 2, 3, 4, 5, 6, 7, 8])


def _result(raw: bytes) -> None:
    found = result.parse(raw)
    for kind in FORMATS:
        face([found], kind)


def _file(read: Callable[[Path], object], ending: str = ".toml") -> Run:
    """What reads a file of that ending."""

    def run(raw: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=ending) as file:
            file.write(raw)
            file.flush()
            read(Path(file.name))

    return run


def _recording(path: Path) -> None:
    with files.open_recording(path) as recording:
        for _ in recording:
            pass
        _ = recording.ended


def _scrub(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other.kvtrace"
        scrubbing.scrub((path,), other, bytes(32))
        files.read(other)


def _capture(path: Path) -> None:
    _judged(capture.read(path))


def _vectors(raw: bytes) -> None:
    access.decode(raw)


# --- talking ------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[type[msgspec.Struct], type[calls.Call]]] = {
    "hello": (protocol.Hello, calls.HelloCall),
    "start": (protocol.Bound, calls.StartCall),
    "publish": (protocol.Accepted, calls.PublishCall),
    "burst": (protocol.Burst, calls.BurstCall),
    "cache": (protocol.Cached, calls.CacheCall),
    "resident": (protocol.Resident, calls.ResidentCall),
    "stats": (protocol.Stats, calls.StatsCall),
    "restart": (protocol.Bound, calls.RestartCall),
}


def _answers(raw: bytes) -> None:
    """Answers are read as those of an adapter, recorded, and the recording is read again."""
    for line in raw.splitlines():
        verb = next((verb for verb in SHAPES if line.startswith(b'["%s",' % verb.encode())), "")
        text = line[len(verb) + 4 : -1] if verb else line
        shape, call = SHAPES[verb or "stats"]
        answer = answer_in(text)
        if answer is None:
            unreadable(text, 1)
            continue
        try:
            content = said(verb, answer)
            made = shaped(verb, content, shape)
            if isinstance(made, protocol.Hello):
                statement.convert(made.statement, "hello")
        except (protocol.AdapterError, protocol.Refused, protocol.Unsupported, statement.StatementError):
            continue
        fields = {"bound": content} if shape is protocol.Bound else content
        known = {name: value for name, value in fields.items() if name in {*shape.__struct_fields__, "bound"}}
        begun = calls.CacheCall(tokens=()) if call is calls.CacheCall else call()
        try:
            written = files.record_line(Record(t_ns=0, source="stimulus", detail=begun.answered(known)))
        except msgspec.ValidationError:
            if call not in (calls.CacheCall, calls.BurstCall):  # whose requests stand beside
                raise
            continue
        files.parse([_HEADER, written + b"\n", b'{"end":1,"interrupted":false}\n'])


_HEADER = b'{"trace":"kvwire-trace-1","edition":"1","target":"x","level":"passive"}\n'


def _frames(raw: bytes) -> list[tuple[bytes, ...]]:
    """Messages of a replay client: of each line the frames."""
    found = []
    for line in raw.splitlines():
        try:
            found.append(tuple(map(bytes.fromhex, msgspec.json.decode(line, type=list[str]))))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            found.append((line,))
    return found


@functools.cache
def _clients() -> tuple[ReplayClients, Client]:
    """A replay client whose publisher is not there: what it is sent is made up."""
    stream = Stream(endpoint="ipc:///nonexistent/live", replay="ipc:///nonexistent/replay", name="s")
    limits = Limits(handshake_s=0.01)
    session = Session(recorder=Recorder(keep=False), streams=[stream], statement=Statement(ring=8), limits=limits)
    clients = ReplayClients(session)
    return clients, clients.connect(stream)


def _replay_client(raw: bytes) -> None:
    clients, client = _clients()
    client.begin([Request("replay-1", 0), Request("replay-2", 3), Request("replay-3", None)])
    for frames in _frames(raw):
        clients.take_in(client, frames)
    for request in client.requests:
        _ = request.holes, client.overtaken(request), client.idle, client.last


def _consumer(raw: bytes) -> None:
    """What arrived in a run, fed to the consumer of the reference."""
    followed = Followed(Residents("v2_sha256_64/u32"))
    for record in files.parse(raw.splitlines()).records:
        frames = record.frames or ()
        try:
            if record.is_live:
                message = wire.parse_live(frames)
                followed.live(message.sequence, message.payload)
            elif record.is_replay:
                answer = wire.parse_replay_answer(frames)
                followed.ask()
                if answer is None:
                    followed.ended()
                else:
                    followed.replayed(answer.sequence, answer.payload)
        except wire.WireError:
            followed.unanswered()
        if record.event == "DISCONNECTED":
            followed.disconnected()
    followed.residents.prefix([1, 2, 3, 4, 5, 6, 7, 8], "GPU")


class _Router:
    """The replay server of the reference, and a client that asks for what it likes."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        router, self.dealer = self._context.socket(zmq.ROUTER), self._context.socket(zmq.DEALER)
        ring = Ring(4)
        for number in range(6):
            ring.append(Entry(number, wire.live_frames(b"kv", number, b"\x90")))
        limits = ReplayLimits()
        ReplayServer.prepare(router, limits)
        self.dealer.set(zmq.LINGER, 0)
        router.bind("inproc://replay")
        self.dealer.connect("inproc://replay")
        self.server = ReplayServer(router, ring, limits)

    def ask(self, frames: Sequence[bytes]) -> list[list[bytes]]:
        """What comes back."""
        self.dealer.send_multipart(frames, zmq.DONTWAIT)
        heard = []
        while self.server.turn() or self.server.busy:
            heard += self._heard()
        return heard + self._heard()

    def _heard(self) -> list[list[bytes]]:
        found = []
        while self.dealer.poll(0):
            found.append(self.dealer.recv_multipart(zmq.DONTWAIT))
        return found


_router = functools.cache(_Router)


def _request(raw: bytes) -> None:
    router = _router()
    for frames in _frames(raw):
        try:
            asks = len(wire.parse_replay_request(frames).to_bytes(8, "big")) == 8
        except wire.WireError:
            asks = list(map(len, frames)) == [0, 8]  # the number of the end marker asks for nothing, and is answered
        heard = router.ask(frames or (b"",))
        if heard[-1:] != ([wire.replay_end_frames()] if asks else []):
            raise AssertionError(f"a {'well-formed' if asks else 'malformed'} request was answered by {heard!r}"[:200])


_REQUESTS = (
    b'["","0000000000000000"]\n["","00000000000000ff"]\n["00","0000000000000000"]\n["0000000000000000"]\n'
    b'["","","0000000000000000"]\n["",""]\n["","ffffffffffffffff"]\n'
)

# --- what users write ---------------------------------------------------------------------------------------------


def _place(raw: bytes) -> None:
    parse(raw.decode(errors="surrogateescape"))


def _text(raw: bytes, chance: random.Random) -> bytes:
    return any_bytes(raw, chance).replace(b"\0", b"")


TARGETS: tuple[Target, ...] = (
    Target(name="payload", seeds=seeds.payloads, run=_payload, clear=()),
    Target(name="trace", seeds=seeds.sessions, run=_trace, clear=(TraceError,), mutate=json_lines),
    Target(name="container", seeds=lambda: seeds.stored(".mcap"), run=_file(_recording, ".mcap"), clear=(TraceError,)),
    Target(
        name="compressed",
        seeds=lambda: seeds.stored(".kvtrace.gz"),
        run=_file(_recording, ".kvtrace.gz"),
        clear=(TraceError,),
    ),
    Target(name="capture", seeds=seeds.captures, run=_file(_capture, ".pcap"), clear=(TraceError,)),
    Target(name="scrub", seeds=seeds.sessions, run=_file(_scrub, ".kvtrace"), clear=(TraceError,), mutate=json_lines),
    Target(name="result", seeds=seeds.results, run=_result, clear=(result.ResultError,), mutate=json_lines),
    Target(
        name="statement",
        seeds=lambda: [seeds.STATEMENT],
        run=_file(statement.read),
        clear=(statement.StatementError,),
        mutate=toml,
    ),
    Target(
        name="expected-failures",
        seeds=lambda: [seeds.EXPECTED],
        run=_file(lambda path: expected_failures.read(path, registry.load())),
        clear=(expected_failures.ExpectedFailuresError,),
        mutate=toml,
    ),
    Target(
        name="expectation",
        seeds=lambda: [seeds.ROUTER],
        run=_file(expectation.read),
        clear=(expectation.ExpectationError,),
        mutate=toml,
    ),
    Target(
        name="vectors",
        seeds=seeds.vectors,
        run=_vectors,
        clear=(msgspec.MsgspecError, registry.UnknownNameError),
        mutate=json_lines,
    ),
    Target(name="answers", seeds=seeds.answers, run=_answers, clear=(), mutate=json_lines),
    Target(name="replay-client", seeds=seeds.exchanges, run=_replay_client, clear=(), mutate=json_lines),
    Target(name="consumer", seeds=seeds.sessions, run=_consumer, clear=(TraceError,), mutate=json_lines),
    Target(name="router", seeds=lambda: [_REQUESTS], run=_request, clear=(), mutate=json_lines),
    Target(name="target", seeds=lambda: list(seeds.PLACES), run=_place, clear=(TargetError,), mutate=_text),
)
