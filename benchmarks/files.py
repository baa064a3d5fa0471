"""Recordings as files: what writing and reading costs, and how large they are.

Two witnesses hear every batch. Its tokens are drawn at random from 128,000, a few prefixes of them again and again, as
prompts share them: real streams repeat more. Three shapes of a batch: one block of 128 tokens, sixteen such blocks,
four blocks of 16 tokens. A time is compared with a bare typed decode of the payloads (msgspec) of the same messages in
the same repetition. A size is that of the file by millions of tokens in distinct batches.
"""

import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.rows import Effort, Row, in_turn, ratios
from kvwire.recordings.scrub import scrub
from kvwire.trace import files
from kvwire.trace.files import Sink
from kvwire.trace.records import FORMAT, LIVE, Header, Record, StreamInfo

SHAPES = {"1 × 128": (1, 128), "16 × 128": (16, 128), "4 × 16": (4, 16)}
"""Blocks of a batch and tokens of a block."""
TOKENS, QUICK_TOKENS = 1_000_000, 20_000
"""How many tokens the distinct batches of a recording have."""
VOCABULARY = 128_000
PREFIXES = 64
SHARED = 0.5
"""The share of batches that repeat the tokens of one of the prefixes."""
FORMS = {"MCAP": ".mcap", "lines": ".kvtrace", "lines, compressed": ".kvtrace.gz"}
DECODE = "a typed decode of the payloads"
PER_MILLION = "MB a million tokens"


class _Stored(msgspec.Struct, tag="BlockStored", frozen=True, gc=False):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None


class _Batch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    ts: float
    events: list[_Stored]
    data_parallel_rank: int


_decode = msgspec.msgpack.Decoder(_Batch).decode
_encode = msgspec.msgpack.Encoder().encode


def header() -> Header:
    """That of a run that listens."""
    stream = StreamInfo(name="rank-0", endpoint="tcp://127.0.0.1:5557")
    return Header(trace=FORMAT, edition="1", target=f"zmq:{stream.endpoint}", level="passive", streams=(stream,))


def records(blocks: int, size: int, tokens: int) -> Iterator[Record]:
    """What two witnesses hear of batches that hold so many tokens together."""
    chance = random.Random(1)
    prefixes = [[chance.randrange(VOCABULARY) for _ in range(blocks * size)] for _ in range(PREFIXES)]
    parent: int | None = None
    for number in range(-(-tokens // (blocks * size))):
        ids = [chance.randrange(VOCABULARY) for _ in range(blocks * size)]
        if chance.random() < SHARED:
            ids = chance.choice(prefixes)
        hashes = [chance.getrandbits(64) - (1 << 63) for _ in range(blocks)]
        stored = _Stored(hashes, parent, ids, size, None, "GPU", None)
        payload = _encode(_Batch(1.8e9 + number / 100, [stored], 0))
        parent = hashes[-1]
        frames = (b"kv-events", number.to_bytes(8, "big"), payload)
        for at, source in enumerate(LIVE):
            yield Record(t_ns=10_000_000 * number + at, source=source, stream="rank-0", connection=1, frames=frames)


def rows(effort: Effort) -> Iterator[Row]:
    """Size, writing and reading of each form and shape; then scrubbing."""
    tokens = QUICK_TOKENS if effort.quick else TOKENS
    with tempfile.TemporaryDirectory(prefix="kvwire-") as room:
        for shape, (blocks, size) in SHAPES.items():
            heard = list(records(blocks, size, tokens))
            yield from _shape(shape, heard, tokens, Path(room), effort)
        yield _scrubbed(list(records(1, 128, tokens // 5)), Path(room), effort)


def _shape(shape: str, heard: Sequence[Record], tokens: int, room: Path, effort: Effort) -> Iterator[Row]:
    ways: dict[str, Callable[[], float]] = {DECODE: lambda: _timed(lambda: _decoded(heard))}
    paths = {form: room / f"run{ending}" for form, ending in FORMS.items()}
    for form, path in paths.items():
        ways[f"{form}: write"] = lambda path=path: _timed(lambda: _written(heard, path))  # type: ignore[misc]
        ways[f"{form}: read"] = lambda path=path: _timed(lambda: _read(path))  # type: ignore[misc]
    for path in paths.values():
        _written(heard, path)
    seconds = in_turn(ways, effort.repetitions)
    for form, path in paths.items():
        megabytes = path.stat().st_size / (tokens / 1e6) / 1e6
        yield Row(name=f"{shape}: {form}: size", values=(megabytes,), unit=PER_MILLION)
        for what in ("write", "read"):
            found = ratios(seconds[f"{form}: {what}"], seconds[DECODE])
            yield Row(name=f"{shape}: {form}: {what}", values=found, against=DECODE)


def _scrubbed(heard: Sequence[Record], room: Path, effort: Effort) -> Row:
    path, into = room / "scrub.mcap", room / "scrubbed.mcap"
    _written(heard, path)
    ways = {
        DECODE: lambda: _timed(lambda: _decoded(heard)),
        "scrub": lambda: _timed(lambda: scrub([path], into, b"a key of many bytes")),
    }
    seconds = in_turn(ways, effort.repetitions)
    return Row(name="1 × 128: scrub", values=ratios(seconds["scrub"], seconds[DECODE]), against=DECODE)


def _timed(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def _decoded(heard: Sequence[Record]) -> None:
    for record in heard:
        assert record.frames is not None
        _decode(record.frames[2])


def _written(heard: Sequence[Record], path: Path) -> None:
    sink = Sink(path)
    sink.begin(header())
    for record in heard:
        sink.add(record)
    sink.end()


def _read(path: Path) -> None:
    with files.open_recording(path) as recording:
        deque(recording, 0)
