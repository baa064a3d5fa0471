"""An implementation as a filter: questions in on its standard input, a JSON line per answer out.

Questions are written at once and answers read as they come, so that a filter may buffer its output. What goes wrong is
kept with the id of the question that was waited for, and never hides the other answers.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Literal

import msgspec

from kvwire.standard import reading
from kvwire.vectors.asking import Graded, Question, grade

LINE_BYTES = 8 * 1024 * 1024
"""The longest line that is read."""
TROUBLES = 10_000
"""After so many a filter is given up."""
END_S = 2.0
"""How long a filter has to end after its last answer, and after SIGTERM."""
CHUNK = 65536
SHOWN = 120

TroubleKind = Literal["garbage", "order", "unknown", "twice", "died", "silent", "exit", "flood"]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a filter did besides answering; ``id`` is the question that was waited for."""

    kind: TroubleKind
    id: str
    text: str


class Outcome(msgspec.Struct, kw_only=True):
    """Everything that came of asking: graded answers, troubles, and the questions without an answer."""

    graded: list[Graded]
    troubles: list[Trouble]
    unanswered: list[Question]


class _Silence(Exception):
    """Nothing came within the bound."""


class _Flood(Exception):
    """A line is longer than what is read, or nothing but trouble comes; the message says which."""


class Filter:
    """A child process in a session of its own, its standard error passed through."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it.

        Raises:
            OSError: when there is no such command.
        """
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def write(self, lines: Sequence[bytes]) -> threading.Thread:
        """Begin to write these lines, and then the end of the input."""
        assert self._process.stdin is not None
        writer = threading.Thread(target=_write, args=(self._process.stdin, lines), daemon=True)
        writer.start()
        return writer

    def read(self, silence_s: float) -> Iterator[bytes]:
        """Its lines up to the end of its output.

        Raises:
            _Silence: when nothing comes for ``silence_s`` seconds.
            _Flood: when a line does not end.
        """
        assert self._process.stdout is not None
        pending = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(silence_s):
                    raise _Silence
                chunk = os.read(self._process.stdout.fileno(), CHUNK)
                if not chunk:
                    break
                pending += chunk
                if b"\n" in chunk:
                    *lines, rest = bytes(pending).split(b"\n")
                    pending = bytearray(rest)
                    yield from lines
                if len(pending) > LINE_BYTES:
                    raise _Flood(f"a line of more than {LINE_BYTES} bytes")
        if pending:
            yield bytes(pending)

    def end(self) -> int:
        """Wait for its end, bring it about where it does not come, and return its code (−N: signal N)."""
        for means in (None, signal.SIGTERM, signal.SIGKILL):
            if means is not None:
                self._signal(means)
            try:
                return self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                continue
        return self._process.wait()

    def kill(self) -> None:
        """End it now, with what it started, and close its output."""
        assert self._process.stdout is not None
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def _signal(self, means: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, means)


def _write(pipe: IO[bytes], lines: Sequence[bytes]) -> None:
    try:
        with pipe:
            pipe.writelines(lines)
    except BrokenPipeError:
        pass  # it ended early, which its output tells


class _Matcher:
    """Matches lines to questions by id."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.waiting = {question.id: question for question in questions}
        self.known = dict(self.waiting)
        self.graded: list[Graded] = []
        self.troubles: list[Trouble] = []

    @property
    def awaited(self) -> str:
        return next(iter(self.waiting), "")

    def trouble(self, kind: TroubleKind, text: str) -> None:
        self.troubles.append(Trouble(kind=kind, id=self.awaited, text=text))

    def take(self, line: bytes) -> None:
        if not line.strip():
            return
        if len(self.troubles) >= TROUBLES:
            raise _Flood(f"{TROUBLES} lines that were no answers, and no end of them: it was given up")
        try:
            answer = reading.json(msgspec.json.decode, line)
        except msgspec.MsgspecError:
            answer = None
        name = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or not isinstance(name, str):
            shown = line[:SHOWN].decode(errors="replace")
            self.trouble("garbage", f"not a JSON object with an `id`: {shown!r}")
        elif name not in self.known:
            self.trouble("unknown", f"an answer to {name!r}, which was not asked")
        elif name not in self.waiting:
            self.trouble("twice", f"a second answer to {name}")
        else:
            if name != self.awaited:
                self.trouble("order", f"an answer to {name}")
            self.graded.append(grade(self.waiting.pop(name), answer))


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def ask(command: Sequence[str], questions: Sequence[Question], silence_s: float) -> Outcome:
    """Ask a filter all questions.

    Raises:
        OSError: when there is no such command.
    """
    matcher = _Matcher(questions)
    child = Filter(command)
    try:
        writer = child.write([question.line for question in questions])
        try:
            for line in child.read(silence_s):
                matcher.take(line)
            code = child.end()
            if matcher.waiting:
                matcher.trouble("died", f"it ended with {_code(code)} before it answered")
            elif code:
                matcher.trouble("exit", f"it ended with {_code(code)} after its last answer")
        except _Silence:
            matcher.trouble("silent", f"no output for {silence_s:g} s")
        except _Flood as flood:
            matcher.troubles.append(Trouble(kind="flood", id=matcher.awaited, text=str(flood)))
    finally:
        child.kill()
    writer.join(END_S)
    return Outcome(graded=matcher.graded, troubles=matcher.troubles, unanswered=list(matcher.waiting.values()))
