"""Many recordings: by this process or by several, with one result stream whatever their number."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from kvwire.conclusion.fleet import Fleet
from kvwire.conclusion.result import Total
from kvwire.judges.verdict import Exit, Verdict, aggregate
from kvwire.recordings.judging import Answer, Asked, answer, failed
from kvwire.recordings.units import Unit

END_S = 2.0
"""How long each step of ending a worker may take."""
WORST = (Exit.NOT_CONFORMANT, Exit.ERROR, Exit.INCONCLUSIVE, Exit.CONFORMANT)
"""Of several recordings the first of these that one has is the exit code."""


def answers(
    units: Sequence[Unit], asked: Asked, workers: int, tell: Callable[[int], None] = lambda _: None
) -> Generator[Answer, None, None]:
    """What came of each recording, in their order, from so many processes; ``tell`` is given how many are judged.

    A worker that dies is the answer of the recording that it had, and another takes its place.
    """
    if workers <= 1 or len(units) <= 1:
        for count, unit in enumerate(units, 1):
            found = answer(unit, asked)
            tell(count)
            yield found
        return
    pool = _Pool(asked, min(workers, len(units)))
    try:
        waiting = deque(enumerate(units))
        done: dict[int, Answer] = {}
        for next_ in range(len(units)):
            while next_ not in done:
                pool.fill(waiting)
                done.update(pool.take())
                tell(next_ + len(done))
            yield done.pop(next_)
    finally:
        pool.close()


class _Worker:
    """One process and the recording that it has."""

    def __init__(self, asked: Asked) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=work, args=(theirs, asked))
        self.process.start()
        theirs.close()
        self.has: tuple[int, Unit] | None = None


class _Pool:
    def __init__(self, asked: Asked, count: int) -> None:
        self._asked = asked
        self._workers = [_Worker(asked) for _ in range(count)]

    def fill(self, waiting: deque[tuple[int, Unit]]) -> None:
        """Give each idle worker a recording."""
        for at, worker in enumerate(self._workers):
            if worker.has is None and waiting:
                if not worker.process.is_alive():
                    worker = self._workers[at] = self._anew(worker)
                worker.has = waiting.popleft()
                with contextlib.suppress(OSError):  # it has died: that is seen when its answer is awaited
                    worker.connection.send(worker.has[1])

    def _anew(self, worker: _Worker) -> _Worker:
        worker.connection.close()
        worker.process.join(END_S)
        return _Worker(self._asked)

    def take(self) -> Iterator[tuple[int, Answer]]:
        """Wait for answers."""
        busy = {worker.connection: worker for worker in self._workers if worker.has is not None}
        for connection in wait(list(busy)):
            assert isinstance(connection, Connection)
            worker = busy[connection]
            assert worker.has is not None
            (number, unit), worker.has = worker.has, None
            try:
                found = connection.recv()
                assert isinstance(found, Answer)
                yield number, found
            except (EOFError, OSError):
                worker.process.join(END_S)
                yield number, failed(unit, f"the worker that judged it died ({_how(worker.process.exitcode)})")

    def close(self) -> None:
        """End the workers, in bounded time."""
        for worker in self._workers:
            worker.connection.close()
            if worker.has is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(END_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join(END_S)


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    return f"signal {signal.Signals(-code).name}"


def work(connection: Connection, asked: Asked) -> None:
    """A worker: judge what is sent until nothing more is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's interrupt is for the parent
    while True:
        try:
            unit = connection.recv()
            assert isinstance(unit, Unit)
            connection.send(answer(unit, asked))
        except (EOFError, OSError):
            return


# --- all of them -------------------------------------------------------------------------------------------------


class Tally:
    """What many recordings come to."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._codes: set[int] = set()
        self._worst: list[Verdict] = []
        self._fleet = Fleet()

    def add(self, found: Answer) -> None:
        """The next recording."""
        verdict, code = Verdict.ERROR, int(Exit.ERROR)
        if found.result is not None:
            summary = found.result.summary
            verdict = summary.verdict or Verdict.INCONCLUSIVE
            code = int(Exit.INCONCLUSIVE) if summary.exit is None else summary.exit
        self._verdicts[str(verdict)] += 1
        self._worst.append(verdict)
        self._codes.add(code)
        self._fleet.add(found.members, found.recording.name)

    def total(self, *, interrupted: bool = False) -> Total:
        """The last line of the stream; of one that was interrupted, without a verdict."""
        code = next((code for code in WORST if code in self._codes), Exit.INCONCLUSIVE)
        return Total(
            recordings=self._verdicts.total(),
            verdicts=dict(sorted(self._verdicts.items())),
            notices=list(self._fleet.notices()),
            verdict=None if interrupted else aggregate(self._worst),
            exit=None if interrupted else int(code),
            interrupted=interrupted,
        )


def default_workers() -> int:
    """As many as there are processors for this process."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
