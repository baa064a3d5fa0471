"""One harness that judges 32 ranks while it hears them.

The ranks publish 2,000 batches a second together, four blocks of 16 tokens each; two witness processes subscribe to all
of them, and hand over what they hear to the harness, in which every passive judge judges it as it comes. Lost is what a
witness did not hand over, from the first batch that both have of a rank on. The shares are of one core, of each process
while it lasts; *at once* are as many batches as come in two seconds, published as fast as one process can.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.rows import Effort, Row
from benchmarks.sending import TOPIC, Fleet
from kvwire.attack.witness import Recorder
from kvwire.conclusion.watching import Watcher
from kvwire.judges.verdict import Verdict
from kvwire.report.faces import face
from kvwire.standard.statement import Stream
from kvwire.trace.records import FORMAT, LIVE, Header, Record, StreamInfo

RANKS = 32
RATE = 2000
SECONDS = 600.0
SCREEN = 60
"""Lines of a terminal."""
AT_ONCE_RATE = 1e9
CONNECTING_S = 30.0
QUIET_S = 1.0
ROOT = Path(__file__).parents[1]


class Heard(NamedTuple):
    """What became of a run: `lost` of `due` messages, seconds of CPU time over `seconds`, by process; how many times a
    sentence was broken, and the `lines` of the report.
    """

    due: int
    lost: int
    seconds: float
    harness: float
    witness: float
    broken: int = 0
    lines: int = 0


class Judging:
    """Judges records as they come, and keeps none (a ``Sink``)."""

    failed: str | None = None

    def __init__(self, streams: list[Stream]) -> None:
        infos = tuple(StreamInfo(name=one.name, endpoint=one.endpoint, topic=TOPIC) for one in streams)
        self.watcher = Watcher(
            Header(trace=FORMAT, edition="1", target="zmq:fleet", level="passive", streams=infos), digests=False
        )

    def begin(self, header: Header) -> None:
        """Its header is known."""

    def add(self, record: Record) -> None:
        """The next record."""
        self.watcher.take(record)

    def push(self) -> None:
        """Everything was judged as it came."""

    def end(self, *, interrupted: bool = False, header: Header | None = None) -> None:
        """The records are over."""


def rows(effort: Effort) -> Iterator[Row]:
    """Measure; a run at the pace takes ten minutes, so that there is one of it, and several at once."""
    seconds = 1.0 if effort.quick else SECONDS
    paced = hear(Fleet("", RANKS, RATE, seconds))
    about = f"{paced.due:,} messages, {seconds:g} s"
    yield Row(name="lost", against=about, values=(paced.lost,), unit="messages", at_most=0)
    yield Row(name="sentences broken", values=(paced.broken,), unit="occasions", at_most=0)
    yield Row(name="the report", values=(paced.lines,), unit="lines", at_most=SCREEN)
    yield Row(name="the harness", against="a core", values=(100 * paced.harness / paced.seconds,), unit="%")
    yield Row(name="a witness", against="a core", values=(100 * paced.witness / paced.seconds,), unit="%")
    burst = [hear(Fleet("", RANKS, AT_ONCE_RATE, 2 * RATE / AT_ONCE_RATE)) for _ in range(effort.repetitions)]
    yield Row(name="at once: lost", values=tuple(run.lost for run in burst), unit="messages", at_most=0)
    rates = tuple(run.due / len(LIVE) / run.seconds / RATE for run in burst)
    yield Row(name="at once: batches per second", against=f"{RATE:,}/s", values=rates, at_least=1)


def hear(fleet: Fleet) -> Heard:
    """Let a fleet publish, and record all of it."""
    with tempfile.TemporaryDirectory(prefix="kvwire-bench-") as room:
        fleet = msgspec.structs.replace(fleet, endpoint=f"ipc://{room}/rank")
        streams = [
            Stream(name=f"rank-{rank}", endpoint=fleet.endpoint + (f"_dp{rank}" if rank else ""))
            for rank in range(fleet.ranks)
        ]
        judging = Judging(streams)
        recorder = Recorder(sink=judging, keep=False)
        with _sending(fleet) as sender:
            assert sender.stdin is not None
            assert sender.stdout is not None
            try:
                recorder.watch(streams)
                _prime(recorder, streams, sender)
                heard = _recorded(recorder, streams, sender)
            finally:
                recorder.close()
        result = judging.watcher.result()
        broken = sum(one.violations for one in result.outcomes if one.verdict in (Verdict.FAIL, Verdict.WARN))
        return heard._replace(broken=broken, lines=face([result], "console").count(b"\n"))


def _prime(recorder: Recorder, streams: list[Stream], sender: subprocess.Popen[bytes]) -> None:
    """Publish until every witness hears every rank."""
    assert sender.stdin is not None
    deadline = time.monotonic() + CONNECTING_S

    def heard() -> bool:
        return all(recorder.live_count(stream.name, source) for stream in streams for source in LIVE)

    while not heard():
        if time.monotonic() > deadline:
            raise RuntimeError("the witnesses do not hear all ranks")
        sender.stdin.write(b"once\n")
        recorder.wait(heard, 0.1)
    recorder.wait(lambda: all(recorder.level(stream.name) for stream in streams), CONNECTING_S)


def _recorded(recorder: Recorder, streams: list[Stream], sender: subprocess.Popen[bytes]) -> Heard:
    assert sender.stdin is not None
    assert sender.stdout is not None
    first = {stream.name: (recorder.newest(stream.name) or 0) + 1 for stream in streams}
    before = {(stream.name, source): recorder.live_count(stream.name, source) for stream in streams for source in LIVE}
    pids = _witnesses()
    began, own, theirs = time.monotonic(), time.process_time(), sum(map(_cpu_s, pids))
    sender.stdin.write(b"go\n")
    os.set_blocking(sender.stdout.fileno(), False)
    said = b""
    while not said.endswith(b"\n"):
        recorder.pump(0.02)
        said += sender.stdout.read(65536) or b""
    offered = dict(zip((stream.name for stream in streams), msgspec.json.decode(said, type=list[int]), strict=True))

    def missing() -> int:
        counts = {key: recorder.live_count(*key) - count for key, count in before.items()}
        return sum(offered[name] - first[name] - count for (name, _), count in counts.items())

    last, ended = missing(), time.monotonic()
    while last and time.monotonic() - ended < QUIET_S:
        recorder.pump(0.02)
        if (now := missing()) != last:
            last, ended = now, time.monotonic()
    due = len(LIVE) * sum(offered[name] - first[name] for name in first)
    own, theirs = time.process_time() - own, (sum(map(_cpu_s, pids)) - theirs) / len(pids)
    return Heard(due, last, ended - began, own, theirs)


def _witnesses() -> list[int]:
    """The witness processes that are children of this one."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return [int(pid) for pid in pids if b"witness_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far, in seconds, from Linux's /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _sending(fleet: Fleet) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "benchmarks.sending", msgspec.json.encode(fleet).decode()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=ROOT) as sender:
        assert sender.stdout is not None
        try:
            if sender.stdout.readline() != b"ready\n":
                raise RuntimeError("the ranks did not start")
            yield sender
        finally:
            sender.kill()
