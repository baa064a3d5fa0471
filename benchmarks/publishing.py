"""One publisher with one subscriber, in a process of its own: `python -m benchmarks.publishing` with a `Task` as JSON.

Prints a `Seen`. The publisher is the reference, or a class of somebody else as the adapter of its folder in
`implementations/` loads it.
"""

import importlib
import importlib.util
import random
import select
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch, BlockStored

IMPLEMENTATIONS = Path(__file__).parents[1] / "implementations"
BLOCK_SIZE = 128
RING = 10_000
SEND_MARK = 100_000
SHORT = 200
"""A payload that is shorter comes from the time when the subscriber connected, and does not count."""
CONNECTING_S = 30.0
SILENT_S = 5.0
"""A subscriber that has heard nothing for so long has heard all that comes."""
PACED_S = 0.0005


class Task(msgspec.Struct, frozen=True):
    """What to run: a publisher by name, its files where it has any, and how many batches; `paced` ones after them."""

    publisher: str
    folder: str
    batches: int
    paced: int


class Seen(msgspec.Struct, frozen=True):
    """What was seen: nanoseconds of each call of the burst and of the paced calls; batches heard, and per second.

    `cpu` is what the publisher's process took for a batch of the burst, its caller included, in microseconds.
    """

    calls: list[int]
    paced: list[int]
    heard: int
    rate: float
    cpu: float


class Publisher(NamedTuple):
    """How to drive one: `publish` what `batch` makes of a block hash, its parent and tokens, `wake` a subscriber."""

    publish: Callable[[Any], object]
    batch: Callable[[int, int | None, Sequence[int]], Any]
    wake: Callable[[], object]
    close: Callable[[], object]


def main() -> None:
    """Measure and print."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    with tempfile.TemporaryDirectory(prefix="kvwire-bench-") as room:
        publisher = PUBLISHERS[task.publisher](Path(task.folder), f"ipc://{room}/live", f"ipc://{room}/replay")
        try:
            seen = measure(publisher, f"ipc://{room}/live", task)
        finally:
            publisher.close()
    sys.stdout.buffer.write(msgspec.json.encode(seen))


def measure(publisher: Publisher, endpoint: str, task: Task) -> Seen:
    """Publish everything at once, wait until it is heard, then one batch after the other at a pace."""
    burst, paced = _batches(publisher, task.batches), _batches(publisher, task.paced)
    with _subscribed(publisher, endpoint, len(burst)) as hears:
        begin, cpu = time.monotonic_ns(), time.process_time_ns()
        calls = _timed(publisher.publish, burst)
        heard, last = map(int, hears().split())
        cpu = time.process_time_ns() - cpu
    slow = []
    for batch in paced:
        slow += _timed(publisher.publish, [batch])
        time.sleep(PACED_S)
    return Seen(calls, slow, heard, heard * 1e9 / (last - begin), cpu / len(burst) / 1000)


def _timed(publish: Callable[[Any], object], batches: Sequence[object]) -> list[int]:
    clock = time.perf_counter_ns
    took = array("q", [-1] * len(batches))  # no memory of the benchmark's own is asked for between calls
    for index, batch in enumerate(batches):
        before = clock()
        publish(batch)
        took[index] = clock() - before
    return took.tolist()


def _batches(publisher: Publisher, count: int) -> list[object]:
    """A chain of blocks of random tokens, a batch each."""
    chance = random.Random(count)
    hashes = [chance.getrandbits(63) for _ in range(count)]
    tokens = (chance.choices(range(100_000), k=BLOCK_SIZE) for _ in range(count))
    return [publisher.batch(*block) for block in zip(hashes, [None, *hashes], tokens, strict=False)]


def subscriber(silent_s: float) -> str:
    """The program of the subscriber; it ends when it has heard as many batches as it was told, or nothing for long."""
    return f"""
import sys, time, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.set(zmq.RCVHWM, 0)
socket.subscribe(b"")
socket.connect(sys.argv[1])
socket.recv_multipart()
print("hears", flush=True)
socket.set(zmq.RCVTIMEO, {int(silent_s * 1000)})
heard, wanted, last = 0, int(sys.argv[2]), time.monotonic_ns()
try:
    while heard < wanted:
        socket.recv(), socket.recv()
        heard += len(socket.recv()) > {SHORT}
    last = time.monotonic_ns()
except zmq.Again:
    last = time.monotonic_ns() - {int(silent_s * 1e9)}
print(heard, last, flush=True)
"""


@contextmanager
def _subscribed(publisher: Publisher, endpoint: str, count: int) -> Iterator[Callable[[], bytes]]:
    """A process that hears the publisher; inside, what is yielded waits for what it says when it has heard all."""
    command = [sys.executable, "-c", subscriber(SILENT_S), endpoint, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout is not None
        try:
            deadline = time.monotonic() + CONNECTING_S
            while not select.select([child.stdout], [], [], 0.01)[0]:
                if time.monotonic() > deadline:
                    raise RuntimeError("the subscriber hears nothing")
                publisher.wake()
            child.stdout.readline()
            time.sleep(0.1)  # what was sent to wake it has arrived, and nothing of it is measured
            yield child.stdout.readline
        finally:
            child.kill()


# --- the publishers ---------------------------------------------------------------------------------------


def _reference(_: Path, live: str, replay: str) -> Publisher:
    config = PublisherConfig(endpoint=live, replay_endpoint=replay, ring=RING, send_mark=SEND_MARK)
    publisher = ZmqPublisher(config)
    publisher.start()

    def batch(block_hash: int, parent: int | None, tokens: Sequence[int]) -> Batch:
        stored = BlockStored(
            block_hashes=(block_hash,),
            parent_block_hash=parent,
            token_ids=tuple(tokens),
            block_size=BLOCK_SIZE,
            lora_id=None,
            medium="GPU",
            lora_name=None,
        )
        return Batch(time.time(), (stored,), 0)

    return Publisher(publisher.publish, batch, lambda: publisher.publish(Batch(time.time(), (), 0)), publisher.shutdown)


def _vllm(folder: Path, live: str, replay: str) -> Publisher:
    peer = _adapter("vllm").load(folder)
    return _of_factory(peer, peer.ZmqEventPublisher(0, live, replay, RING, SEND_MARK))


def _sglang(folder: Path, live: str, replay: str) -> Publisher:
    peer = _adapter("sglang").load(folder)
    return _of_factory(peer, peer.ZmqEventPublisher(0, live, replay, RING, SEND_MARK))


def _of_factory(peer: Any, publisher: Any) -> Publisher:
    """The class of vLLM, and that of SGLang, which was made from it."""

    def batch(block_hash: int, parent: int | None, tokens: Sequence[int]) -> object:
        fields = {"lora_id": None, "medium": "GPU", "lora_name": None}
        known = {name: value for name, value in fields.items() if name in peer.BlockStored.__struct_fields__}
        stored = peer.BlockStored(
            block_hashes=[block_hash], parent_block_hash=parent, token_ids=list(tokens), block_size=BLOCK_SIZE, **known
        )
        return peer.KVEventBatch(ts=time.time(), events=[stored])

    return Publisher(
        publisher.publish,
        batch,
        lambda: publisher.publish(peer.KVEventBatch(ts=time.time(), events=[])),
        publisher.shutdown,
    )


def _dynamo(_: Path, live: str, __: str) -> Publisher:
    """Builds its events in the call, and sends in it; it has no replay."""
    publisher = importlib.import_module("dynamo.trtllm.publisher").ZmqKvEventPublisher(live, BLOCK_SIZE)

    def batch(block_hash: int, parent: int | None, tokens: Sequence[int]) -> tuple[object, ...]:
        return list(tokens), [BLOCK_SIZE], [block_hash], parent

    def close() -> None:
        publisher.ctx.destroy(linger=0)  # its own shutdown lingers for ever

    return Publisher(
        lambda arguments: publisher.publish_stored(*arguments), batch, lambda: publisher.publish_removed([1]), close
    )


def _adapter(name: str) -> Any:
    """The module of an adapter, which knows how to load the publisher without its engine."""
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", IMPLEMENTATIONS / name / "adapter.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLISHERS = {"reference": _reference, "vllm": _vllm, "sglang": _sglang, "dynamo-trtllm": _dynamo}

if __name__ == "__main__":
    main()
