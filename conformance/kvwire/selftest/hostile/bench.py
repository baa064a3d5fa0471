"""One attack: what it is, what it may cost, and the bench on which the real command line meets it."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

import msgspec

from kvwire.selftest.hostile import measure

On = Literal["publisher", "replay", "adapter", "file", "statement", "argument", "signal", "output", "client"]
MB = 1_000_000
MEMORY_MB = 512
"""What the processes of one command may hold together, unless an attack argues for more."""
KILLED_BYTES = 2_000 * MB
"""A command that holds more is killed."""
OUTPUT_BYTES = 4 * MB
"""How much of the output of a command is looked at, from its end."""
END_S = 5.0
GONE_S = 3.0
"""How long what a command started may outlive it."""
KVWIRE = (sys.executable, "-P", "-m", "kvwire")
PACKAGE = "kvwire.selftest.hostile.peers"


STARVED = 8.0
"""How many times its bound a command may take on a machine that has more to do than it can."""


def starved() -> bool:
    """Whether the machine has had more to do in the last minute than it has processors."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))


def _cpu() -> float:
    """Seconds of processors that children took which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Broken(Exception):
    """The attack found more than a bound that broke; the message says what."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command under attack.

    ``exit`` is None where it had to be killed when its time was over; ``seconds`` by the wall clock, ``cpu`` of
    processors, ``peak`` in bytes, each of the whole tree; ``left`` is what it left behind: processes, and files in its
    temporary folder.
    """

    exit: int | None
    seconds: float
    cpu: float
    peak: int
    output: str
    left: tuple[str, ...] = ()


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """One attack, and what it may cost.

    ``does`` says in a line what is done; ``seconds`` and ``megabytes`` (10^6 bytes) bound the command and all that it
    starts; ``says`` is in its output; ``quick`` ones run in the tests; ``argued`` is why a bound is above the usual.
    """

    name: str
    on: On
    does: str
    run: Callable[[Bench], Ran]
    exits: tuple[int, ...]
    says: str = ""
    seconds: float = 60.0
    megabytes: int = MEMORY_MB
    quick: bool = False
    argued: str = ""


class Running:
    """A command of the bench that runs."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def output(self) -> str:
        """What it said so far, of much the end."""
        with self._output.open("rb") as file:
            file.seek(max(0, self._output.stat().st_size - OUTPUT_BYTES))
            return file.read().decode(errors="replace")

    def await_output(self, text: str, bound_s: float = 30.0) -> None:
        """Wait until it has said this.

        Raises:
            Broken: when it does not in time.
        """
        deadline = time.monotonic() + bound_s
        while text not in self.output:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Broken(f"it never said {text!r}")
            time.sleep(0.02)

    def await_child(self, word: str, bound_s: float = 30.0) -> None:
        """Wait until it has a descendant with this word in its command line.

        Raises:
            Broken: when it has none in time.
        """
        deadline = time.monotonic() + bound_s
        while not any(word in _command(pid) for pid in measure.tree(self.process.pid)[1:]):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Broken(f"it never started {word!r}")
            time.sleep(0.02)

    def signal(self, number: signal.Signals, times: int = 1, apart_s: float = 0.05) -> None:
        """Send it a signal, so many times."""
        for _ in range(times):
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            time.sleep(apart_s)


During = Callable[[Running], None]


class Bench:
    """A folder and peers for one attack; all of it is gone when the attack is over."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.seconds = seconds
        self._peers: list[subprocess.Popen[bytes]] = []

    # who attacks

    def peer(self, name: str, *arguments: object, ready: str = "ready") -> str:
        """Start ``peers/NAME.py`` beside the command, not measured, and wait for its line that begins with ``ready``.

        Returns the rest of the line: its endpoints, say.

        Raises:
            Broken: when it does not get ready.
        """
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{PACKAGE}.{name}", *map(str, arguments)], stdout=subprocess.PIPE
        )
        self._peers.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.decode().startswith(ready):
                return line.decode().removeprefix(ready).strip()
        raise Broken(f"the attacker {name} did not start")

    def adapter(self, *arguments: object) -> str:
        """The target that is the adapter ``peers/adapter.py``."""
        return " ".join(["exec:" + sys.executable, "-P", "-m", f"{PACKAGE}.adapter", *map(str, arguments)])

    def port(self) -> int:
        """A tcp port of loopback that is free now."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    # who is attacked

    def kvwire(
        self,
        *arguments: object,
        env: Mapping[str, str | None] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        during: During | None = None,
    ) -> Ran:
        """``kvwire ARGUMENT…`` to its end, or killed once the bound of the attack is over by half.

        ``env`` changes its environment (None takes a variable away); ``stdout`` goes where the rest of its output goes,
        unless it is given; ``during`` is done while it runs.
        """
        return self.run([*KVWIRE, *map(str, arguments)], env=env, stdin=stdin, stdout=stdout, during=during)

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        during: During | None = None,
    ) -> Ran:
        """Any command, as ``kvwire`` does."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background: a child would ignore it too
            signal.signal(signal.SIGINT, signal.default_int_handler)
        token = secrets.token_hex(8)
        changed = {"TMPDIR": str(self.temporary), measure.VARIABLE: token, **(env or {})}
        whole = {**os.environ, **{name: value for name, value in changed.items() if value is not None}}
        for name in [name for name, value in changed.items() if value is None]:
            whole.pop(name, None)
        said = self.folder / f"output-{token}"
        began, before = time.monotonic(), _cpu()
        patience = STARVED if starved() else 1.5
        with said.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=out if stdout is None else stdout, stderr=out, env=whole, cwd=self.folder
            )
            running = Running(process, said)
            sampler = measure.Sampler(process.pid, KILLED_BYTES)
            code: int | None = None
            try:
                if during is not None:
                    during(running)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(max(0.1, began + self.seconds * patience - time.monotonic()))
            finally:
                seconds, peak = time.monotonic() - began, sampler.end()
                left: list[str] = []
                if code is not None:
                    left = [*self._left(token), *(path.name for path in sorted(self.temporary.iterdir()))]
                measure.kill([process.pid, *measure.marked(token)] if code is None else measure.marked(token))
                process.wait(END_S)
        cpu = _cpu() - before
        return Ran(exit=code, seconds=seconds, cpu=cpu, peak=peak, output=running.output, left=tuple(left))

    def _left(self, token: str) -> list[str]:
        deadline = time.monotonic() + GONE_S
        while (pids := measure.marked(token)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return [f"process {_command(pid)}" for pid in pids]

    def end(self) -> None:
        """End the attackers."""
        for peer in self._peers:
            peer.kill()
            peer.wait(END_S)
            assert peer.stdout is not None
            peer.stdout.close()


@contextlib.contextmanager
def bench(seconds: float) -> Iterator[Bench]:
    """A bench for one attack."""
    folder = Path(tempfile.mkdtemp(prefix="kvh-"))
    made = Bench(folder, seconds)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def _command(pid: int) -> str:
    try:
        return (measure.PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
