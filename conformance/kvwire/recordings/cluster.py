"""Many recordings by the workers of a Dask cluster (``kvwire[cluster]``): each is a task, and the scheduler gives that
of a worker that died to another one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from kvwire.conclusion import provenance
from kvwire.conclusion.result import Recording
from kvwire.recordings.judging import Answer, Asked, answer, failed
from kvwire.recordings.units import Unit

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 10.0
"""How long the scheduler is waited for."""
WORKER_S = 30.0
"""How long its first worker is waited for: one that died begins anew."""
ALONE_S = 30.0
"""After so long without any worker, or without the scheduler, nothing more is waited for."""
LOOK_S = 0.2
"""How often it is looked how far the cluster is."""
CLOSE_S = 5.0
SCHEMES = ("tcp://", "tls://")
_one_at_a_time = threading.Lock()
"""In a worker: its threads would share what judges keep for the process, and judge no faster together."""


class ClusterError(Exception):
    """There is no cluster to judge with; the message says why, and what to do."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker gets: a recording under its absolute paths, the sizes of its files, and by which judges."""

    unit: Unit
    sizes: tuple[int, ...]
    asked: Asked
    judges: tuple[str, str]


def _judges() -> tuple[str, str]:
    return provenance.standard(), provenance.judges()


def judge(task: Task) -> Answer:
    """In a worker: judge one recording; whatever goes wrong is an answer too."""
    from distributed import get_worker

    unit, here = task.unit, get_worker().address
    if task.judges != _judges():
        return _refused(unit, f"worker {here} has another standard or other judges: install this kvwire there")
    for path, size in zip(unit.paths, task.sizes, strict=True):
        try:
            found = path.stat().st_size
            path.open("rb").close()
        except OSError as error:
            way_out = "each worker reads the recordings by itself, under this path"
            return _refused(unit, f"worker {here} cannot read {path} ({error.strerror}): {way_out}")
        if found != size:
            return _refused(unit, f"worker {here} has another file at {path}: {found} bytes, and here it has {size}")
    with _one_at_a_time:
        return answer(unit, task.asked)


def _refused(unit: Unit, why: str) -> Answer:
    return Answer(recording=Recording(name=unit.name, parts=len(unit.paths), error=why))


@contextlib.contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster whose scheduler is at ``address``, ``tcp://HOST:PORT``.

    Raises:
        ClusterError: when the extra is not installed, the address is none, or no scheduler or worker is there.
    """
    scheme = next((scheme for scheme in SCHEMES if address.startswith(scheme)), None)
    port = address.rpartition(":")[2]
    if scheme is None or not address[len(scheme) :].rpartition(":")[0] or not port.isdecimal():
        raise ClusterError(f"{address!r} is no address of a scheduler: tcp://HOST:8786")
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ClusterError(f"a cluster needs {error.name}: `python -m pip install distributed`") from None
    # What the engine says of lost connections comes besides what is said here.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except Exception as error:  # noqa: BLE001 - the engine has no type for it
        why = "" if isinstance(error, OSError) else f" ({error})"
        raise ClusterError(f"no scheduler answers at {address} within {CONNECT_S:g} s{why}") from None
    try:
        try:
            client.wait_for_workers(1, timeout=WORKER_S)
        except TimeoutError:
            raise ClusterError(f"the cluster has no worker: start some with `dask worker {address}`") from None
        yield Cluster(client, address)
    finally:
        with contextlib.suppress(Exception):  # what was judged is there, and the process ends
            client.close(timeout=CLOSE_S)


class Cluster:
    """A cluster that judges."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._alone_since: float | None = None

    def answers(
        self, units: Sequence[Unit], asked: Asked, tell: Callable[[int], None] = lambda _: None
    ) -> Generator[Answer, None, None]:
        """What came of each recording, in their order; ``tell`` is given how many are judged."""
        judges = _judges()
        futures = [self._submit(unit, asked, judges) for unit in units]
        try:
            for at, unit in enumerate(units):
                future = futures[at]
                while not (future is None or future.done() or self._is_lost):
                    self._look()
                    tell(at + sum(later is not None and later.done() for later in futures[at:]))
                yield answer(unit, asked) if future is None else self._answer(future, unit)
                tell(at + 1)
                futures[at] = None  # and the cluster forgets the result
        finally:
            left = [future for future in futures if future is not None]
            if left and not self._is_lost:
                self._client.cancel(left)

    def _submit(self, unit: Unit, asked: Asked, judges: tuple[str, str]) -> Future[Answer] | None:
        """Give a recording to the cluster; None when it cannot be read here either."""
        paths = tuple(path.absolute() for path in unit.paths)
        try:
            sizes = tuple(path.stat().st_size for path in paths)
        except OSError:
            return None
        if unit.error:
            return None
        task = Task(unit=msgspec.structs.replace(unit, paths=paths), sizes=sizes, asked=asked, judges=judges)
        return self._client.submit(judge, task, pure=False)

    def _look(self) -> None:
        """Wait a little, and see whether anybody is left to wait for."""
        time.sleep(LOOK_S)
        there = False
        if self._client.status == "running":
            with contextlib.suppress(OSError):  # it has gone since
                there = bool(self._client.nthreads())
        now = time.monotonic()
        self._alone_since = None if there else now if self._alone_since is None else self._alone_since

    @property
    def _is_lost(self) -> bool:
        return self._alone_since is not None and time.monotonic() - self._alone_since >= ALONE_S

    def _answer(self, future: Future[Answer], unit: Unit) -> Answer:
        from distributed import KilledWorker

        if not future.done():
            return failed(unit, f"the cluster at {self._address} has had no scheduler or no worker for {ALONE_S:g} s")
        try:
            found = future.result(timeout=CONNECT_S)
            assert isinstance(found, Answer)
        except KilledWorker as error:
            return failed(unit, f"the workers that judged it died, {error.allowed_failures + 1} one after the other")
        except Exception as error:  # noqa: BLE001 - the others are judged all the same
            return failed(unit, f"the cluster failed: {type(error).__name__}: {error}")
        return found
