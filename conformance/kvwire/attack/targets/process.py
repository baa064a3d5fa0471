"""An adapter in a child process: the driver of every publisher that is not merely listened to."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, TypeVar

import msgspec

from kvwire.attack.targets.answers import SHOWN, answer_in, is_of, said, shaped, short, unreadable
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import (
    MINOR,
    PROTOCOL,
    SETS,
    VERBS,
    Accepted,
    AdapterError,
    Bound,
    Burst,
    Cached,
    Failed,
    Hello,
    Refused,
    Resident,
    Start,
    Stats,
    Unsupported,
    minor_of,
)
from kvwire.trace.calls import (
    BurstCall,
    CacheCall,
    Call,
    FaultCall,
    HelloCall,
    PublishCall,
    ResetCall,
    ResidentCall,
    RestartCall,
    StartCall,
    StatsCall,
    StopCall,
)
from kvwire.trace.marks import Noise, ProcessExit, ProcessStart, Trouble

ANSWER_S: Mapping[str, float] = {
    "hello": 10.0,
    "start": 30.0,
    "publish": 10.0,
    "burst": 30.0,
    "cache": 30.0,
    "resident": 10.0,
    "reset": 10.0,
    "fault": 10.0,
    "stats": 5.0,
    "restart": 30.0,
    "stop": 10.0,
}
"""How long each answer may take, in seconds. Before its first one an adapter imports its peer: see ``FIRST_S``."""
FIRST_S = 60.0
CHECK_S = 10.0
"""How long the answer to a verb that nobody knows may take."""
END_S = 2.0
"""How long an adapter has to end after each of: the end of its input, SIGTERM, SIGKILL."""
LINE_BYTES = 8 * 1024 * 1024
"""The longest answer that is read."""
UNREAD_BYTES = 2 * LINE_BYTES
"""How much may wait that was not asked for yet; beyond it nothing more is read."""
QUEUED_BYTES = 128
"""What a line that waits takes beside its bytes."""
NOISE_LINES = 5
"""How many lines that are no answer are kept."""
NOISE_BYTES = 16 * 1024 * 1024
"""How much is read that is no answer, before the adapter is given up."""
CHUNK = 65536
LAST_BYTES = 8192
WAIT_S = 0.01
LAST_LINES = 20
"""How much of the end of its standard error is kept."""

_Shape = TypeVar("_Shape", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


class _Miscount(AdapterError):
    """Its counters cannot be right."""


class _Nothing(msgspec.Struct, frozen=True):
    """An answer without content."""


class AdapterProcess:
    """A child process that speaks the adapter protocol; implements ``kvwire.standard.protocol.Driver``.

    Every call is recorded on ``stream``: its arguments and the answer; in the answers of ``start`` and ``restart``
    under ``bound``, a refusal under ``refused``, a failure under ``error``.
    """

    def __init__(
        self,
        command: Sequence[str],
        recorder: Recorder,
        stream: str,
        *,
        env: Mapping[str, str] | None = None,
        answer_s: Mapping[str, float] = ANSWER_S,
        first_s: float = FIRST_S,
        end_s: float = END_S,
    ) -> None:
        """Start the child.

        Raises:
            AdapterError: when it cannot be started.
        """
        self.command = tuple(command)
        self.stream = stream
        self.broken: str | None = None
        """Why it can be asked nothing more: it ended, timed out or broke the protocol."""
        self.noise: list[str] = []
        """Lines on its standard output that are no answer, the first few."""
        self._recorder = recorder
        self._answer_s: dict[str, float] = {**ANSWER_S, **answer_s}
        self._first_s = first_s
        self._end_s = end_s
        self._can: frozenset[str] = frozenset()
        self._last_id = 0
        self._given_up: set[int] = set()
        self._running = False
        self._exited = False
        self._said = b""
        self._accepted = 0
        self._counted = Stats()
        self._miscounts = False
        self._killed = False
        """Whether we killed it."""
        self._lines: queue.SimpleQueue[bytes | str | None] = queue.SimpleQueue()
        """What it said: lines, why no more is read, and None at the end."""
        self._put = self._got = 0
        """Bytes of lines that the reader put there, and that were taken: each is counted by one thread."""
        self._noise_lines = 0
        self._noise_bytes = 0
        self._over = threading.Event()
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if env is None else {**os.environ, **env},
                process_group=0,  # the terminal's interrupt is for the harness, which then stops it in good order
            )
        except OSError as error:
            raise AdapterError(f"cannot start the adapter {self.command[0]!r}: {error.strerror}") from None
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        os.set_blocking(stdin.fileno(), False)
        # Both pipes are read all the time: a peer that fills one must not stand still.
        self._readers = (
            threading.Thread(target=self._read_answers, args=(stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(stderr,), daemon=True),
        )
        for reader in self._readers:
            reader.start()
        recorder.stalls.watch(self._process.pid, stream)
        recorder.note(ProcessStart(command=tuple(self.command)), stream)

    def _read_answers(self, stdout: IO[bytes]) -> None:
        pending = bytearray()
        while chunk := os.read(stdout.fileno(), CHUNK):
            if self._over.is_set():
                continue  # nobody asks any more, and it may say without end why it does not end
            pending += chunk
            if b"\n" in chunk:
                *lines, rest = bytes(pending).split(b"\n")
                pending = bytearray(rest)
                for line in lines:
                    self._take(line)
            if len(pending) > LINE_BYTES:
                self._lines.put(f"its standard output has a line of more than {LINE_BYTES} bytes")
                return
            if self._noise_bytes > NOISE_BYTES:
                self._lines.put(self._too_noisy())
                return
            while self._put - self._got > UNREAD_BYTES and not self._over.wait(WAIT_S):
                pass
        if pending:
            self._take(bytes(pending))
        self._lines.put(None)

    def _take(self, line: bytes) -> None:
        """A line; what can be no answer is counted, and handed on as long as few are."""
        if not line.lstrip().startswith(b"{"):
            self._noise_bytes += len(line) + 1
            self._noise_lines += 1
            if self._noise_lines > NOISE_LINES:
                return
            line = line[:LAST_BYTES]
        self._put += len(line) + QUEUED_BYTES
        self._lines.put(line)

    def _too_noisy(self) -> str:
        return f"its standard output brought {self._noise_bytes} bytes in {self._noise_lines} lines that are no answer"

    def _read_errors(self, stderr: IO[bytes]) -> None:
        assert isinstance(stderr, io.BufferedReader)
        while chunk := stderr.read1(LAST_BYTES):
            self._said = (self._said + chunk)[-LAST_BYTES:]

    def _last_words(self) -> tuple[str, ...]:
        """The last lines of its standard error, of long ones the end."""
        lines = self._said.decode(errors="replace").splitlines()[-LAST_LINES:]
        return tuple(line if len(line) <= SHOWN else "…" + line[1 - SHOWN :] for line in map(str.rstrip, lines))

    # the protocol

    @property
    def can(self) -> frozenset[str]:
        """The verbs that it answers, as it said in ``hello``."""
        return self._can

    @property
    def alive(self) -> bool:
        """Whether the child still runs; the first look after its end records that."""
        if self._process.poll() is None:
            return True
        self._record_exit(expected=self._killed)
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send the child and what it started a signal, if it still runs."""
        if self._process.poll() is None:
            self._killed = self._killed or number == signal.SIGKILL
            os.killpg(self._process.pid, number)

    def wait_for(self, verb: str, bound_s: float) -> None:
        """Wait so long for an answer from now on."""
        self._answer_s[verb] = bound_s

    def hello(self) -> Hello:
        """Ask who the adapter is; after that, whether it keeps to the protocol for a verb that nobody knows.

        Names in its ``can`` and ``sets`` that nobody knows are an error, and left out where it is of a newer version.
        """
        hello = self._call(HelloCall(), Hello)
        minor = minor_of(hello.protocol)
        if minor is None:
            raise self._break(f"it speaks {hello.protocol!r}, this harness speaks '{PROTOCOL}.{MINOR}'")
        for field, names, known in (("can", hello.can, VERBS), ("sets", hello.sets, SETS)):
            if minor <= MINOR and (unknown := sorted(set(names) - set(known))):
                listed = ", ".join(map(short, unknown))
                raise self._break(f"its `{field}` names {listed}, which nobody knows; there are {', '.join(known)}")
        hello = msgspec.structs.replace(
            hello, can=[verb for verb in hello.can if verb in VERBS], sets=[name for name in hello.sets if name in SETS]
        )
        self._ask_unknown()
        self._can = frozenset(hello.can)
        return hello

    def _ask_unknown(self) -> None:
        verb = f"x-{secrets.token_hex(4)}"
        try:
            answer = self._request(verb, {}, CHECK_S)
        except Unsupported:
            return
        except Refused as refusal:
            seen = f"refused: {refusal}"
        except Failed as error:
            seen = str(error)
        else:
            seen = short(answer)
        raise self._break(f"to the unknown verb {verb!r} it answered {seen} instead of `unsupported`")

    def start(self, options: Start) -> Bound:
        """Start the publisher."""
        bound = self._call(StartCall.of(options), Bound)
        self._running = True
        self._begin_counting()
        return bound

    def publish(self, batch: Mapping[str, Any]) -> Accepted:
        """Offer one batch, given as its JSON projection."""
        answer = self._call(PublishCall(batch=batch), Accepted)
        self._accepted += answer.accepted
        return answer

    def burst(self, batches: Sequence[Mapping[str, Any]]) -> Burst:
        """Offer several batches one right after the other."""
        answer = self._call(BurstCall(batches=tuple(batches)), Burst)
        if not len(answer.accepted) == len(answer.blocked_us) == len(batches):
            raise AdapterError(f"its answer to `burst` does not speak of each of the {len(batches)} batches")
        self._accepted += sum(answer.accepted)
        return answer

    def cache(
        self,
        tokens: Sequence[int | str],
        *,
        lora: str | None = None,
        salt: str | None = None,
        mm: Sequence[Mapping[str, Any]] = (),
    ) -> Cached:
        """Run one prompt through the engine."""
        return self._call(CacheCall(tokens=tuple(tokens), lora=lora, salt=salt, mm=tuple(mm) or None), Cached)

    def resident(self) -> Resident:
        """Ask what the engine holds."""
        return self._call(ResidentCall(), Resident)

    def reset(self) -> None:
        """Reset the whole cache."""
        self._call(ResetCall(), _Nothing)

    def fault(self, kind: str) -> None:
        """Cause a named fault."""
        self._call(FaultCall(kind=kind), _Nothing)

    def stats(self) -> Stats:
        """Ask for the publisher's counters; none where they cannot be right, which is recorded."""
        try:
            return self._call(StatsCall(), Stats)
        except _Miscount as error:
            if not self._miscounts:
                self._miscounts = True
                self._recorder.note(Trouble(text=str(error)), self.stream)
            return Stats()

    def _begin_counting(self) -> None:
        self._accepted = 0
        self._counted = Stats()

    def _hold(self, stats: Stats) -> None:
        """Hold counters against what was accepted, and against those before in the same life of the publisher."""
        if stats.offered is not None and stats.offered < self._accepted:
            raise _Miscount(
                f"the adapter's counter `offered` says {stats.offered}, when {self._accepted} batches had been accepted"
            )
        for name in ("offered", "sent", "dropped"):
            before, now = getattr(self._counted, name), getattr(stats, name)
            if before is not None and now is not None and now < before:
                raise _Miscount(f"the adapter's counter `{name}` fell from {before} to {now} without a new start")
        self._counted = stats

    def restart(self) -> Bound:
        """End the publisher and start a new life of it on the same endpoints."""
        bound = self._call(RestartCall(), Bound)
        self._begin_counting()
        return bound

    def stop(self) -> None:
        """Stop the publisher in good order."""
        self._running = False
        self._call(StopCall(), _Nothing)

    # one call

    def _call(self, call: Call, shape: type[_Shape]) -> _Shape:
        verb = call.event
        try:
            with self._recorder.calling(call, self.stream) as told:
                answer = self._request(verb, call.arguments, self._answer_s[verb] if self._last_id else self._first_s)
                result = shaped(verb, answer, shape)
                if isinstance(result, Stats):
                    self._hold(result)
                if isinstance(result, Bound):
                    self._recorder.lives[self.stream] = self._recorder.lives.get(self.stream, 0) + 1
                    told["bound"] = answer
                else:
                    told |= {name: answer[name] for name in shape.__struct_fields__ if name in answer}
        except KeyboardInterrupt:
            self._given_up.add(self._last_id)
            _ = self.alive
            raise
        except AdapterError:
            _ = self.alive  # its end, if it ended, stands after the stimulus
            raise
        return result

    def _request(self, verb: str, arguments: Mapping[str, Any], bound_s: float) -> dict[str, Any]:
        if self.broken is not None:
            raise AdapterError(f"`{verb}` was not asked: {self.broken}")
        deadline = time.monotonic() + bound_s
        self._last_id += 1
        self._send(verb, _encode({"id": self._last_id, "verb": verb, **arguments}) + b"\n", deadline)
        return said(verb, self._await(verb, deadline, bound_s))

    def _send(self, verb: str, line: bytes, deadline: float) -> None:
        rest = memoryview(line)
        while rest:
            _, writable, _ = select.select([], [self._stdin], [], max(0.0, deadline - time.monotonic()))
            if not writable:
                raise self._break(f"it did not read its input while asked for `{verb}`")
            try:
                rest = rest[os.write(self._stdin.fileno(), rest) :]
            except BrokenPipeError:
                raise self._break(self._ending(verb)) from None

    def _await(self, verb: str, deadline: float, bound_s: float) -> dict[str, Any]:
        """The answer with the id of the last request; other lines are kept as noise."""
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._break(f"no answer to `{verb}` within {bound_s:g} s{self._context()}") from None
            if line is None:
                raise self._break(self._ending(verb))
            if isinstance(line, str):
                raise self._break(f"{line}{self._context()}")
            self._got += len(line) + QUEUED_BYTES
            answer = self._read(line)
            if answer is None and (why := unreadable(line, self._last_id)):
                raise self._break(f"its answer to `{verb}` cannot be read: {why}: {short(line[:SHOWN])}")
            if self._noise_bytes > NOISE_BYTES:
                raise self._break(f"{self._too_noisy()}{self._context()}")
            if answer is None:
                continue
            if any(is_of(answer, number) for number in self._given_up):
                continue
            if not is_of(answer, self._last_id):
                other = short(answer["id"])
                raise self._break(f"it answered request {other} when {self._last_id} (`{verb}`) was asked")
            return answer

    def _read(self, line: bytes) -> dict[str, Any] | None:
        """The answer in a line; None when it is noise, of which the first few lines are kept."""
        if (answer := answer_in(line)) is not None:
            return answer
        if line.lstrip().startswith(b"{"):  # other noise was counted when it came
            self._noise_bytes += len(line)
            self._noise_lines += 1
        if len(self.noise) < NOISE_LINES:
            text = line.decode(errors="replace").rstrip()[:SHOWN]
            self.noise.append(text)
            self._recorder.note(Noise(line=text), self.stream)
        return None

    # trouble

    def _break(self, why: str) -> AdapterError:
        self.broken = why
        return AdapterError(why)

    def _ending(self, verb: str) -> str:
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return f"it closed its output before it answered `{verb}`, and still runs{self._context()}"
        for reader in self._readers:
            reader.join(END_S)
        while not self._lines.empty():
            if isinstance(line := self._lines.get(), bytes):
                self._read(line)
        return f"it ended ({_how(code)}) before it answered `{verb}`{self._context()}"

    def _context(self) -> str:
        parts = []
        if self.noise:
            parts.append(f"; not JSON on its standard output: {self.noise[0]!r}")
        if said := self._last_words():
            parts.append("; its standard error ends: " + " | ".join(said[-5:]))
        return "".join(parts)

    def _record_exit(self, *, expected: bool) -> None:
        if self._exited:
            return
        self._exited = True
        code = self._process.wait(END_S)
        self.broken = self.broken or f"it ended ({_how(code)})"
        self._readers[1].join(END_S)
        stderr = None if expected else self._last_words()
        self._recorder.note(ProcessExit(code=code, how=_how(code), expected=expected, stderr=stderr), self.stream)

    # the end

    def close(self) -> None:
        """Stop the publisher if it runs, then end the child: by the end of its input, SIGTERM, SIGKILL; bounded."""
        died = not self.alive
        try:
            if self._running and self.broken is None:
                self.stop()
        except (AdapterError, Refused, Unsupported):
            pass  # it stands in the record of the call
        finally:
            self._end()
            self._record_exit(expected=not died)

    def _end(self) -> None:
        self._stdin.close()
        self._over.set()
        for step in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(self._end_s)
                break
            except subprocess.TimeoutExpired:
                step()
        self._process.wait(END_S)
        self._end_others()
        for reader, pipe in zip(self._readers, (self._stdout, self._stderr), strict=True):
            reader.join(END_S)
            if not reader.is_alive():  # a grandchild that lives on may hold the other end
                pipe.close()

    def _end_others(self) -> None:
        """What it started and left behind has as long to end by itself."""
        deadline = time.monotonic() + END_S
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                with contextlib.suppress(ChildProcessError):  # of those that this process adopted
                    os.waitpid(-self._process.pid, os.WNOHANG)
                os.killpg(self._process.pid, 0)
                time.sleep(WAIT_S)
            os.killpg(self._process.pid, signal.SIGKILL)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
