"""Publishers of several ranks that have no stream for each, or let one wait for another: one small change each.

Ranks of one deployment find each other by files beside their ipc endpoints.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kvwire.peers.mutant import Session, mutant
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.outlet import Outlet
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import Frames
from kvwire_reference.topology import Topology
from kvwire_reference.wire import Batch

RANKS = Session(probes=("live", "ranks"), profile="ranks")
OUTAGES = Session(probes=("live", "rank-outages"), profile="ranks")
POLL_S = 0.002
BEAT_S = 0.02


def _beside(config: PublisherConfig, name: str) -> Path | None:
    """A file that all ranks of a deployment see; None for a publisher that has no others."""
    scheme, _, path = config.endpoint.partition("://")
    return Path(f"{path}.{name}") if scheme == "ipc" and config.world_size > 1 else None


class _Collective:
    """Counts how often each rank came, and waits until all came as often."""

    def __init__(self, config: PublisherConfig) -> None:
        self.config = config
        self.times = 0

    def meet(self, over: threading.Event) -> None:
        """Come, and wait for the others, unless it is over."""
        own = _beside(self.config, f"met{self.config.rank}")
        if own is None:
            return
        self.times += 1
        own.write_text(str(self.times))
        while not over.wait(POLL_S):
            files = [_beside(self.config, f"met{rank}") for rank in range(self.config.world_size)]
            if all(file is not None and file.exists() and int(file.read_text() or 0) >= self.times for file in files):
                return


@mutant(
    "only-rank-zero",
    breaks="RNK-004",
    change="ranks above 0 bind and stay silent",
    levels=("driven",),
    reports="sglang#16030",
    session=RANKS,
)
class OnlyRankZero(ZmqPublisher):
    """As SGLang did."""

    def _send_live(self, frames: Frames) -> None:
        if self.config.rank == 0:
            super()._send_live(frames)


@mutant(
    "always-rank-zero",
    breaks="RNK-003",
    change="every rank says that it is rank 0",
    levels=("driven",),
    reports="llm-d-inference-sim#575",
    session=Session(probes=("live", "ranks")),
)
class AlwaysRankZero(ZmqPublisher):
    def _encode(self, batch: Batch) -> bytes:
        return super()._encode(replace(batch, data_parallel_rank=0))


@mutant(
    "shares-counter",
    breaks="SEQ-005",
    change="the ranks of a host share one counter",
    levels=("driven",),
    reports="llm-d-inference-sim#575",
    session=RANKS,
)
class SharesCounter(ZmqPublisher):
    """It lies in a file beside their ipc endpoints."""

    def _reserve(self) -> int:
        if self.config.world_size == 1 or not self.config.endpoint.startswith("ipc://"):
            return super()._reserve()
        path = Path(self.config.endpoint.removeprefix("ipc://") + ".counter")
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            number = int(file.read() or 0)
            file.seek(0)
            file.write(str(number + 1))
        self._next_number = number + 1
        return number


@mutant(
    "gathers-on-rank-zero",
    breaks="RNK-004",
    change="rank 0 sends the batches of all ranks on its stream, each with its rank",
    levels=("driven",),
    driven="RNK-002 RNK-003",
    reason="the ranks of other streams stand on that one",
    session=replace(RANKS, limits={"prime_s": 0.5}),
)
class GathersOnRankZero(ZmqPublisher):
    """As the model did before each rank had a stream; what the others have goes out with the next batch of rank 0."""

    _taken = 0

    def publish(self, batch: Batch) -> bool:
        box = _beside(self.config, "box")
        if box is None or self.config.rank == 0:
            accepted = super().publish(batch)
            self._forward(box)
            return accepted
        content = msgspec.msgpack.encode(batch)
        with box.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(len(content).to_bytes(4, "big") + content)
        return True

    def _forward(self, box: Path | None) -> None:
        if box is None or not box.exists():
            return
        content = box.read_bytes()[self._taken :]
        while len(content) >= 4 and len(content) >= (end := 4 + int.from_bytes(content[:4], "big")):
            batch = msgspec.msgpack.decode(content[4:end], type=Batch)
            self.rank = batch.data_parallel_rank
            super().publish(batch)
            self.rank = self.config.rank
            content = content[end:]
            self._taken += end


@mutant(
    "gathers-before-it-sends",
    breaks="RNK-005",
    change="a rank sends its next batch once every rank has as many",
    levels=("driven",),
    session=OUTAGES,
)
class GathersBeforeItSends(ZmqPublisher):
    """In its own thread; the engine goes on."""

    def __init__(self, config: PublisherConfig) -> None:
        self._collective = _Collective(config)
        self._over = threading.Event()
        super().__init__(config)

    def _send_live(self, frames: Frames) -> None:
        self._collective.meet(self._over)
        super()._send_live(frames)

    def shutdown(self, timeout: float = 1.0) -> None:
        self._over.set()
        super().shutdown(timeout)


@mutant(
    "flushes-together",
    breaks="RNK-005",
    change="the flush of the engine is a collective operation of all ranks",
    levels=("driven",),
    session="its calls hang, which takes longer than a small run",
)
class FlushesTogether(CacheEngine):
    """Which ranks without work do not reach."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        assert isinstance(outlet, ZmqPublisher)
        self._collective = _Collective(outlet.config)

    def flush(self) -> Batch | None:
        self._collective.meet(threading.Event())
        return super().flush()


@mutant(
    "waits-for-a-sign-of-life",
    breaks="RNK-005",
    change="before each batch a rank waits for a sign of life of every other one that was started",
    levels=("driven",),
    session=OUTAGES,
)
class WaitsForASignOfLife(ZmqPublisher):
    """Idle ranks give it; those that stand still or died without a word do not."""

    def __init__(self, config: PublisherConfig) -> None:
        self._over = threading.Event()
        super().__init__(config)

    def start(self) -> None:
        super().start()
        if (own := _beside(self.config, f"alive{self.config.rank}")) is not None:
            own.touch()
            threading.Thread(target=self._beats, args=(own,), daemon=True).start()

    def _beats(self, own: Path) -> None:
        while not self._over.wait(BEAT_S):
            own.touch()
        own.unlink(missing_ok=True)

    def _send_live(self, frames: Frames) -> None:
        since = time.time()
        others = [rank for rank in range(self.config.world_size) if rank != self.config.rank]
        while any(self._behind(rank, since) for rank in others) and not self._over.wait(POLL_S):
            pass
        super()._send_live(frames)

    def _behind(self, rank: int, since: float) -> bool:
        file = _beside(self.config, f"alive{rank}")
        try:
            return file is not None and file.stat().st_mtime < since
        except FileNotFoundError:
            return False

    def shutdown(self, timeout: float = 1.0) -> None:
        self._over.set()
        super().shutdown(timeout)


@mutant(
    "streams-pieces",
    breaks="RNK-006",
    change="pipeline and context parallelism are accepted",
    levels=("driven",),
    session=Session(probes=("live", "endpoints"), profile="ranks"),
)
class StreamsPieces(ZmqPublisher):
    def __init__(self, config: PublisherConfig) -> None:
        super().__init__(replace(config, topology=Topology(tensor=config.topology.tensor)))
