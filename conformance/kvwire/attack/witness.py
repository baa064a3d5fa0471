"""What was seen and done, as it comes in: the recorder of a run, and the two live witnesses that report to it.

The recorder is the only writer of a trace. Witness processes receive by themselves; ``pump`` moves what they sent
into the trace, in the order in which it arrives here, and nothing else does. Thus a probe that acts and then pumps
has its stimulus before its effects.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kvwire.attack.curve import Curve
from kvwire.attack.endings import Endings
from kvwire.attack.stalls import Stall, StallWatch
from kvwire.attack.witness_process import (
    DRAIN_S,
    LENGTH_BYTES,
    MAXMSGSIZE,
    PATIENCE,
    READY,
    RECONNECT_MS,
    STALLED,
    TROUBLE,
    Config,
    Item,
    Patience,
    Place,
)
from kvwire.standard.protocol import AdapterError, Refused, Unsupported
from kvwire.standard.statement import Stream
from kvwire.trace.attempts import Stalls, Wait
from kvwire.trace.calls import Call
from kvwire.trace.detail import Detail, SocketEvent, Stimulus
from kvwire.trace.handshakes import refusal
from kvwire.trace.marks import Stalled, Trouble, Witnesses
from kvwire.trace.records import HELD_BYTES, LIVE, Header, HeldFrames, Record, Source
from kvwire.wire.framing import END_NUMBER, number_of

READ_BYTES, READS = 1 << 18, 4
"""How much is read of a witness before the others, and whoever looks at the clock, get their turn."""
TICK_S = 0.02
"""How often a waiting condition is asked at least."""
END_S = 2.0
"""How long each step of ending a child may take."""


class WitnessError(Exception):
    """A witness process could not do its work: the harness's own trouble."""


class Sink(Protocol):
    """What takes the records of a run as they come: a file that grows (``trace.files``), or a judge beside the run.

    ``add`` comes before ``begin`` too, while the target is opened; ``push`` after each lot of records. ``failed`` says
    why it takes no more.
    """

    @property
    def failed(self) -> str | None:
        """Why; None while it does."""

    def begin(self, header: Header) -> None:
        """The header, as far as it is known before the run."""

    def add(self, record: Record) -> None:
        """The next record."""

    def push(self) -> None:
        """For now nothing more comes."""

    def end(self, *, interrupted: bool = False, header: Header | None = None) -> None:
        """The run is over; ``header`` is the final one, where it differs."""


class Witness:
    """One child process that subscribes to everything on every stream of a run."""

    def __init__(
        self, source: Source, streams: Sequence[Stream], patience: Patience, curve: Curve | None = None
    ) -> None:
        self.source = source
        self.streams = tuple(stream.name for stream in streams)
        self.ready = False
        self.closing = False
        self._buffer = bytearray()
        self._decode = msgspec.msgpack.Decoder(list[Item]).decode
        places = tuple(Place(stream.name, stream.endpoint, stream.mode) for stream in streams)
        config = Config(places, patience, curve)
        package = str(Path(__file__).parents[1])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kvwire.attack.witness_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            process_group=0,  # out of reach of the terminal's interrupt, from the first moment
        )
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        left = memoryview(msgspec.json.encode(config) + b"\n")
        with suppress(BrokenPipeError):  # it has ended already, which is seen where it is read
            while left:
                left = left[self.process.stdin.write(left) :]
        self.fd = self.process.stdout.fileno()
        os.set_blocking(self.fd, False)

    def read(self) -> list[Item] | None:
        """What has arrived; None at the end of the child."""
        ended = False
        for _ in range(READS):
            try:
                chunk = os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                ended = True
                break
            self._buffer += chunk
        items = self._items()
        return None if ended and not items else items

    def _items(self) -> list[Item]:
        items: list[Item] = []
        start = 0
        with memoryview(self._buffer) as view:
            while start + LENGTH_BYTES <= len(view):
                end = start + LENGTH_BYTES + int.from_bytes(view[start : start + LENGTH_BYTES], "big")
                if end > len(view):
                    break
                items += self._decode(view[start + LENGTH_BYTES : end])
                start = end
        del self._buffer[:start]
        return items

    def signal(self, number: signal.Signals) -> None:
        """Send the child a signal, if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def tell_to_end(self) -> None:
        """Ask the child to hand over what it has and end."""
        self.closing = True
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        """See to it that the child is gone, in bounded time."""
        self.tell_to_end()
        for step in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(END_S)
                break
            except subprocess.TimeoutExpired:
                step()
        self.process.wait(END_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def whole() -> Iterator[None]:
    """Put interrupts off to the end: what was read is written, once, or the trace would have a hole of our making."""
    with Endings() as endings:
        endings.hold()
        yield
    for number in endings.told:
        signal.raise_signal(number)


class _Sight:
    """What one source has shown of one stream, counted."""

    __slots__ = ("disconnects", "handshakes", "last", "live", "payload", "refusal")

    def __init__(self) -> None:
        self.live = 0
        self.last: int | None = None
        self.payload = b""
        self.handshakes = 0
        self.disconnects = 0
        self.refusal = ""


class Recorder:
    """Writes the trace of a run, and knows cheaply what is in it.

    ``ways`` gives, by live witness, the endpoint that it connects to instead of a stream's: that of a relay, say.
    Of messages ``trace_bytes`` are held, by their weight; beyond that it says so and records no more of them.
    ``sink`` is written to besides, as records come; without ``keep`` to nothing else, and with no bound.
    """

    def __init__(
        self,
        trace_bytes: int = HELD_BYTES,
        ways: Mapping[Source, Callable[[str], str]] | None = None,
        sink: Sink | None = None,
        *,
        keep: bool = True,
        patience: Patience = PATIENCE,
        curve: Curve | None = None,
    ) -> None:
        self._ways = {} if ways is None else ways
        self.sink = sink
        self._keep = keep
        self._patience = patience
        self.curve = curve
        """Who every client of ours is, where the publisher asks."""
        self.records: list[Record] = []
        self.full = False
        """Whether the bound on recorded bytes was reached: the run should end."""
        self.lives: dict[str, int] = {}
        """The adapter's count of starts per stream; stamped on stimulus and process records."""
        self.stalls = StallWatch()
        """Of this process and of those of publishers; nothing is watched until it is started."""
        self._held: dict[str, Stalls] = {}
        self._witnesses: dict[Source, Witness] = {}
        self._within: dict[str, tuple[int, Callable[[], None]]] = {}
        """Streams that are heard by a socket of this process: its descriptor, and what takes from it."""
        self._sights: dict[tuple[str, str], _Sight] = {}
        self._newest: dict[str, int | None] = {}
        self._left = trace_bytes
        self._frames = HeldFrames()
        self._left_out = 0
        """Messages that came when the trace was full."""
        self._must_survive: tuple[str, ...] = ()

    # writing

    def add(
        self,
        *,
        source: str,
        stream: str = "",
        frames: tuple[bytes, ...],
        connection: int | None = None,
        t_ns: int | None = None,
    ) -> Record:
        """Write down what a socket received, unless the trace is full; ``t_ns`` is now unless given."""
        room = self._room(frames)
        held = room and self._keep
        record = Record(
            t_ns=time.monotonic_ns() if t_ns is None else t_ns,
            source=source,
            stream=stream,
            connection=connection,
            frames=self._frames.hold(frames) if held else frames,
        )
        return self._add(record) if room else record

    def note(
        self, detail: Detail, stream: str = "", *, connection: int | None = None, t_ns: int | None = None
    ) -> Record:
        """Write down anything else; ``t_ns`` is now unless given. A stimulus carries what it must be survived for."""
        if isinstance(detail, Stimulus) and self._must_survive:
            detail = msgspec.structs.replace(detail, must_survive=self._must_survive)
        return self._add(
            Record(
                t_ns=time.monotonic_ns() if t_ns is None else t_ns,
                source=detail.SOURCE,
                stream=stream,
                connection=connection,
                life=self.lives.get(stream) if detail.SOURCE in (Source.STIMULUS, Source.PROCESS) else None,
                detail=detail,
            )
        )

    def _add(self, record: Record) -> Record:
        if self._keep:
            self.records.append(record)
        if self.sink is not None:
            self.sink.add(record)
        self._count(record)
        return record

    @contextmanager
    def calling(self, call: Call, stream: str) -> Iterator[dict[str, Any]]:
        """Inside, a publisher is asked for something; the fields of its answer are put into what is yielded.

        The record has the time of the question, and how the call failed, if it raised what a driver raises.
        """
        self.pump()  # what came before the stimulus stands before it
        asked_ns = time.monotonic_ns()
        answer: dict[str, Any] = {}
        told = call
        try:
            yield answer
            told = call.answered(answer)
        except Refused as refusal:
            told = call.answered({"refused": str(refusal)})
            raise
        except Unsupported:
            told = call.answered({"unsupported": call.event})
            raise
        except AdapterError as error:
            told = call.answered({"error": str(error)})
            raise
        except msgspec.ValidationError as error:
            said = f"its answer to `{call.event}` does not fit what was asked: {error}"
            told = call.answered({"error": said})
            raise AdapterError(said) from None
        except KeyboardInterrupt:
            told = call.answered({"error": "interrupted"})
            raise
        finally:
            self.note(told, stream, t_ns=asked_ns)

    @contextmanager
    def surviving(self, *requirements: str) -> Iterator[None]:
        """Inside, every stimulus is one that the target must survive, for these requirements."""
        before = self._must_survive
        self._must_survive = requirements
        try:
            yield
        finally:
            self._must_survive = before

    # watching

    def watch(self, streams: Sequence[Stream], bound_s: float = 10.0) -> None:
        """Start the two live witnesses on these streams and wait until their sockets are open.

        Of a stream on which the harness binds only one witness can see: an endpoint is bound once. That is recorded.

        Raises:
            WitnessError: when a witness does not get ready in time.
        """
        for source in LIVE:
            if mine := [stream for stream in streams if source is LIVE[0] or stream.mode == "connect"]:
                self._witnesses[source] = Witness(
                    source, [self._on_its_way(source, s) for s in mine], self._patience, self.curve
                )
        for stream in streams:
            of = tuple(source.value for source in self.witnesses(stream.name))
            options = Witnesses(
                of=of,
                rcvhwm=self._patience.rcvhwm,
                maxmsgsize=MAXMSGSIZE,
                reconnect_ms=RECONNECT_MS,
                curve=self.curve is not None or None,
            )
            self.note(options, stream.name)
        witnesses = self._witnesses.values()
        if not self.wait(lambda: all(w.ready for w in witnesses), bound_s):
            late = [w.source.value for w in witnesses if not w.ready]
            raise WitnessError(f"{', '.join(late)}: the witness process was not ready within {bound_s:g} s")

    def _on_its_way(self, source: Source, stream: Stream) -> Stream:
        way = self._ways.get(source)
        if way is None or stream.mode == "bind":
            return stream
        return msgspec.structs.replace(stream, endpoint=way(stream.endpoint))

    @contextmanager
    def hearing(self, stream: str, fd: int, take: Callable[[], None]) -> Iterator[None]:
        """Inside, ``take`` is called with every pump, at once when ``fd`` has something.

        It records what a socket of this process hears of a stream, whose one live witness, ``live-a``, that is.
        """
        self._within[stream] = (fd, take)
        try:
            yield
        finally:
            del self._within[stream]

    @property
    def processes(self) -> tuple[Witness, ...]:
        """The witness processes that run."""
        return tuple(witness for witness in self._witnesses.values() if not witness.closing)

    def witnesses(self, stream: str) -> tuple[Source, ...]:
        """The live witnesses of a stream: two, or one where the harness binds or hears by itself."""
        if stream in self._within:
            return (LIVE[0],)
        return tuple(source for source, witness in self._witnesses.items() if stream in witness.streams)

    def pump(self, timeout_s: float = 0.0) -> int:
        """Move what the witnesses sent into the trace; wait for it up to ``timeout_s``. Return the count of records.

        Those of sockets of this process are not counted.
        """
        poll = select.poll()
        by_fd = {witness.fd: witness for witness in self._witnesses.values() if not witness.closing}
        for fd in [*by_fd, *(fd for fd, _ in self._within.values())]:
            poll.register(fd, select.POLLIN)
        moved = 0
        for witness in [by_fd[fd] for fd, _ in poll.poll(timeout_s * 1000) if fd in by_fd]:
            with whole():
                moved += self._take(witness)
        for _, take in self._within.values():
            with whole():
                take()
        while not self.stalls.found.empty():
            self._stall(self.stalls.found.get())
        if self.sink is not None:
            self.sink.push()
        return moved

    def _stall(self, stall: Stall) -> None:
        if self._keep:
            held = self._held.setdefault(stall.stream, Stalls(()))
            held.add(stall.ended_ns - round(stall.ms * 1e6), stall.ended_ns)
        self.note(Stalled(of=stall.of, ms=round(stall.ms, 1)), stall.stream, t_ns=stall.ended_ns)

    def waited(self, began_ns: int, stream: str) -> Wait:
        """What was awaited of a stream since then, by the monotonic clock, and how long something was held up for."""
        self.pump()
        ended_ns = time.monotonic_ns()
        held = sum(self._held[of].held_ns(began_ns, ended_ns) for of in ("", stream) if of in self._held)
        return Wait(began_ns, ended_ns, held)

    def _take(self, witness: Witness) -> int:
        items = witness.read()
        if items is None:
            code = witness.process.wait(END_S)
            if not witness.closing:
                witness.closing = True
                self.note(Trouble(text=f"the witness {witness.source.value} ended by itself", code=code))
            return 0
        for item in items:
            self._write(witness, item)
        return len(items)

    def _write(self, witness: Witness, item: Item) -> None:
        if item.event == READY:
            witness.ready = True
            return
        if item.event == STALLED:
            self._stall(Stall(witness.source.value, "", item.t_ns, float(item.text)))
            return
        stream = witness.streams[item.stream]
        if item.frames is not None:
            self.add(
                source=witness.source,
                stream=stream,
                frames=item.frames,
                connection=item.connection,
                t_ns=item.t_ns,
            )
        elif item.event == TROUBLE:
            self.note(Trouble(text=item.text, of=witness.source.value), stream)
        else:
            said = SocketEvent(event=item.event, of=witness.source.value)
            self.note(said, stream, connection=item.connection, t_ns=item.t_ns)

    def _room(self, frames: tuple[bytes, ...]) -> bool:
        if not self._keep:
            return True
        self._left -= self._frames.weight(frames)
        if self._left < 0 and not self.full:
            self.full = True
            self.note(Trouble(text="the trace is full: what came later is not in it"))
        self._left_out += self.full
        return not self.full

    def wait(self, condition: Callable[[], bool], bound_s: float) -> bool:
        """Pump until the condition holds or the bound is over; return whether it holds."""
        deadline = time.monotonic() + bound_s
        self.pump()
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.pump(min(left, TICK_S))
        return True

    # knowing

    def _sight(self, stream: str, source: str) -> _Sight:
        return self._sights.setdefault((stream, source), _Sight())

    def _count(self, record: Record) -> None:
        if record.frames is not None and record.is_live:
            sight = self._sight(record.stream, record.source)
            sight.live += 1
            sight.payload = record.frames[-1] if record.frames else b""
            if len(record.frames) == 3 and (number := number_of(record.frames[1])) is not None:
                sight.last = number
                if number != END_NUMBER:
                    self._newest[record.stream] = number
        elif isinstance(record.detail, SocketEvent):
            sight = self._sight(record.stream, record.detail.of)
            sight.handshakes += record.event == "HANDSHAKE_SUCCEEDED"
            sight.disconnects += record.event == "DISCONNECTED"
            sight.refusal = refusal(record.detail.event, curve=self.curve is not None) or sight.refusal

    def live_count(self, stream: str, source: str) -> int:
        """Messages that a witness has delivered of a stream, malformed ones included."""
        return self._sight(stream, source).live

    def last_number(self, stream: str, source: str) -> int | None:
        """The number of the last well-formed message of a witness; None before the first."""
        return self._sight(stream, source).last

    def handshakes(self, stream: str, source: str) -> int:
        """Handshakes of a witness, or of a replay client, on a stream."""
        return self._sight(stream, source).handshakes

    def refusal(self, stream: str, source: str) -> str:
        """Why a handshake of a source on a stream failed, in words; empty where none did."""
        return self._sight(stream, source).refusal

    def disconnects(self, stream: str, source: str) -> int:
        """Completed connections of a witness on a stream that have ended."""
        return self._sight(stream, source).disconnects

    def newest(self, stream: str) -> int | None:
        """The number of the last recorded live message of a stream, by whatever witness; None before the first."""
        return self._newest.get(stream)

    def level(self, stream: str) -> bool:
        """Whether every witness of a stream has seen the same message last."""
        sights = [self._sight(stream, source) for source in self.witnesses(stream)]
        return all((sight.last, sight.payload) == (sights[0].last, sights[0].payload) for sight in sights)

    @property
    def deaf(self) -> bool:
        """Whether every witness has ended by itself."""
        return all(witness.closing for witness in self._witnesses.values())

    # ending

    def close(self) -> None:
        """End the witnesses, take what they still hand over, and see to it that the processes are gone."""
        witnesses = [witness for witness in self._witnesses.values() if not witness.closing]
        for witness in witnesses:
            witness.tell_to_end()
        deadline = time.monotonic() + DRAIN_S + END_S
        for witness in witnesses:
            self._drain(witness, deadline)
        for witness in self._witnesses.values():
            witness.end()
        self._witnesses.clear()
        self.stalls.end()
        self.pump()
        if self._left_out:
            self.note(Trouble(text=f"{self._left_out} messages came when the trace was full"))

    def _drain(self, witness: Witness, deadline: float) -> None:
        poll = select.poll()
        poll.register(witness.fd, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            if poll.poll(left * 1000):
                with whole():
                    items = witness.read()
                    for item in items or ():
                        self._write(witness, item)
                if items is None:
                    return
