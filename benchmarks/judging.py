"""Judging a stream that nobody drives: every judge on every batch, one process.

Batches of three shapes: one block of 128 tokens, sixteen such blocks, four blocks of 16 tokens (as vLLM sends them);
three in ten with a removal; hashed by the two functions of the wire registry. The time is that of the processor, from
records in memory to tallies, behind the first batches, in which the hash function of a stream is looked for. It is
compared with a bare typed decode of the same payloads (msgspec) in the same repetition, and that of a stream with one
constant deviation with the same stream without it. Memory is that of a process that judges a recording record by
record.
"""

import gc
import hashlib
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from benchmarks.rows import Effort, Row, in_turn, ratios
from benchmarks.streams import LABELS, Deviation, Function, Shape, Stream
from kvwire.conclusion.conclude import Listening
from kvwire.standard import registry
from kvwire.standard.statement import Statement
from kvwire.trace.files import record_line
from kvwire.trace.records import FORMAT, LIVE, Header, Record, StreamInfo
from kvwire_reference import hashing

NAMES: dict[Shape, str] = {"a": "1 × 128", "b": "16 × 128", "c": "4 × 16"}
AT_MOST: dict[Shape, float] = {"a": 5, "b": 4, "c": 8}
AT_LEAST: dict[Shape, float | None] = {"a": 5, "b": None, "c": 2}
"""Millions of tokens a second."""
BATCHES: dict[Shape, int] = {"a": 4000, "b": 500, "c": 8000}
FIRST = 100
"""So many batches are judged before the clock runs."""
DEVIATIONS: tuple[Deviation, ...] = ("unsigned", "array", "x-key")
DECODE = "a typed decode of the payloads"
BATCHES_OF_A_RECORDING = 200_000
MEMORY = "import sys; from benchmarks.judging import judge_long; judge_long(int(sys.argv[1]))"


class _Stored(msgspec.Struct, tag="BlockStored", tag_field="type", gc=False):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[Annotated[int, Meta(ge=0, lt=2**32)]]
    block_size: Annotated[int, Meta(ge=1)]
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class _Removed(msgspec.Struct, tag="BlockRemoved", tag_field="type", gc=False):
    block_hashes: list[int]
    medium: str | None


class _Cleared(msgspec.Struct, tag="AllBlocksCleared", tag_field="type", gc=False):
    pass


class _Batch(msgspec.Struct, array_like=True, gc=False):
    ts: Annotated[float, Meta(ge=0, lt=1e11)]
    events: list[_Stored | _Removed | _Cleared]
    data_parallel_rank: Annotated[int, Meta(ge=0, lt=2**31)]


_decode = msgspec.msgpack.Decoder(_Batch).decode


def header(function: Function) -> Header:
    """That of a run that listens."""
    stream = StreamInfo(name="rank-0", endpoint="tcp://127.0.0.1:5557", topic="kv-events")
    return Header(
        trace=FORMAT,
        edition="1",
        target=f"zmq:{stream.endpoint}",
        level="passive",
        statement=Statement(algorithm=LABELS[function]),
        streams=(stream,),
    )


def record(number: int, payload: bytes, source: str = LIVE[0]) -> Record:
    """A batch as a witness received it."""
    frames = (b"kv-events", number.to_bytes(8, "big"), payload)
    return Record(t_ns=12_300_000 * number, source=source, stream="rank-0", connection=1, frames=frames)


def _judged(function: Function, payloads: Sequence[bytes]) -> Callable[[], float]:
    records = [record(number, payload) for number, payload in enumerate(payloads)]

    def run() -> float:
        listening = Listening(header(function), registry.load(), registry.profile("core"))
        for one in records[:FIRST]:
            listening.take(one)
        gc.collect()
        begin = time.process_time()
        for one in records[FIRST:]:
            listening.take(one)
        for stream in listening.streams.values():
            stream.flush()
        return time.process_time() - begin

    return run


def _decoded(payloads: Sequence[bytes]) -> Callable[[], float]:
    def run() -> float:
        gc.collect()
        begin = time.process_time()
        for payload in payloads[FIRST:]:
            _decode(payload)
        return time.process_time() - begin

    return run


def rows(effort: Effort) -> Iterator[Row]:
    """Each shape and function, clean and with each deviation; the hash functions alone; memory."""
    for shape, name in NAMES.items():
        for function in LABELS:
            yield from _stream(effort, shape, name, function)
    yield from _hashes(effort)
    yield from _memory(effort)


def _stream(effort: Effort, shape: Shape, name: str, function: Function) -> Iterator[Row]:
    batches = max(2 * FIRST, BATCHES[shape] // (8 if effort.quick else 1))
    clean = Stream(shape, function, batches)
    payloads = list(clean.payloads)
    ways = {"decode": _decoded(payloads), "clean": _judged(function, payloads)}
    for deviation in DEVIATIONS:
        ways[deviation] = _judged(function, list(Stream(shape, function, batches, deviation).payloads))
    took = in_turn(ways, effort.repetitions)
    tokens = clean.tokens * (batches - FIRST) / batches
    speed = tuple(tokens / seconds / 1e6 for seconds in took["clean"])
    label = f"{name}, {LABELS[function]}"
    yield Row(name=label, values=ratios(took["clean"], took["decode"]), against=DECODE, at_most=AT_MOST[shape])
    yield Row(name=label, values=speed, unit="M tokens/s", at_least=AT_LEAST[shape])
    for deviation in DEVIATIONS:
        values = ratios(took[deviation], took["clean"])
        yield Row(name=f"{label}, {deviation} in every batch", values=values, against="without it", at_most=2)


# --- hash functions ----------------------------------------------------------------------------------------------


def _timed(run: Callable[[], object]) -> Callable[[], float]:
    def timed() -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    return timed


def _hashes(effort: Effort) -> Iterator[Row]:
    import numpy as np

    from kvwire.hashes.columns import ROWS, Columns
    from kvwire.judges.quick import block_keys

    size, few = 128, 64
    ids = [(number * 2_654_435_761) % 128_000 for number in range(ROWS * size)]
    data = struct.pack(f"<{len(ids)}I", *ids)
    columns, parents = Columns(size), np.arange(ROWS, dtype=np.uint64)
    blocks = [ids[at : at + size] for at in range(0, few * size, size)]
    beside = _timed(lambda: columns.hashes(data, parents))
    plain = _timed(lambda: [hashing.v1_block_hash(block, parent=at) for at, block in enumerate(blocks)])
    took = in_turn({"plain": plain, "columns": beside}, effort.repetitions)
    values = tuple(one / few / (many / ROWS) for one, many in zip(took["plain"], took["columns"], strict=True))
    yield Row(
        name=f"v1_block_key, {ROWS} blocks of {size} side by side, how many times as fast",
        values=values,
        against="the plain function of the reference",
        at_least=50,
    )
    width, chained = 4 * size, data[: 4 * size * few]
    key = hashlib.sha256(b"root").digest()
    own = _chain(key, chained, width)

    ways = {
        "bare": _timed(lambda: [_chain(key, chained, width) for _ in range(50)]),
        "checked": _timed(lambda: [block_keys(own, key, chained, width, low=False) for _ in range(50)]),
    }
    took = in_turn(ways, effort.repetitions)
    yield Row(
        name=f"v2_sha256_64, a chain of {few} blocks of {size}",
        values=ratios(took["checked"], took["bare"]),
        against="a bare loop of hashlib",
        at_most=1.2,
    )


def _chain(key: bytes, data: bytes, width: int) -> tuple[int, ...]:
    found: list[int] = []
    for at in range(0, len(data), width):
        key = hashlib.sha256(key + data[at : at + width]).digest()
        found.append(int.from_bytes(key[:8], "big"))
    return tuple(found)


# --- memory ------------------------------------------------------------------------------------------------------


def judge_long(batches: int) -> None:
    """Judge a recording of so many batches and two witnesses, and print its bytes as lines, and resident memory in kB:
    before it, after a quarter of it and at its end.
    """
    listening = Listening(header("v2"), registry.load(), registry.profile("core"))
    before, quarter, size = _resident(), 0, 0
    for number, payload in enumerate(Stream("a", "v2", batches, capacity=20_000).payloads):
        lines = [record(number, payload, source) for source in LIVE]
        for one in lines:
            listening.take(one)
        size += len(LIVE) * (len(record_line(lines[0])) + 1) if number % 64 == 0 else 0
        if number == batches // 4:
            quarter = _resident()
    print(size * 64, before, quarter, _resident())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def _memory(effort: Effort) -> Iterator[Row]:
    if not sys.platform.startswith("linux"):
        yield Row(name="memory", left_out="resident memory is read from /proc")
        return
    batches = 4000 if effort.quick else BATCHES_OF_A_RECORDING
    asked = subprocess.run([sys.executable, "-c", MEMORY, str(batches)], capture_output=True, text=True, check=True)
    size, before, quarter, end = map(int, asked.stdout.split())
    name = f"a recording of {size / 1e6:.0f} MB as lines"
    yield Row(name=f"{name}, resident at its end", values=(end / 1024,), unit="MiB", at_most=300)
    yield Row(
        name=f"{name}, resident, beyond what it was at a quarter of it", values=((end - quarter) / 1024,), unit="MiB"
    )
    yield Row(name=f"{name}, memory by byte", values=((end - before) * 1024 / size,), unit="bytes a byte")
