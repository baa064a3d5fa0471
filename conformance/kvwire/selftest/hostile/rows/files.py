"""Files that nobody would send: recordings, captures, statements, results, expectations."""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import Attack, Bench, On, Ran

HEADER = {
    "trace": "kvwire-trace-1",
    "edition": "1",
    "target": "zmq:tcp://127.0.0.1:1",
    "level": "passive",
    "profile": "core",
    "streams": [{"name": "s", "endpoint": "tcp://127.0.0.1:1"}],
}
OPEN = (Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE, Exit.USAGE)
Made = Callable[[Path], None]


def _line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _record(number: int, payload: bytes) -> bytes:
    frames = [b"k".hex(), struct.pack(">Q", number).hex(), payload.hex()]
    return _line(t_ns=number, source="live-a", stream="s", connection=1, frames=frames)


def _zeros(path: Path) -> None:
    path.write_bytes(_line(**HEADER)[:-1])
    os.truncate(path, 2 * 10**9)


def _packed_zeros(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(_line(**HEADER))
        for _ in range(400):
            file.write(bytes(1_000_000))


def _packed_records(path: Path) -> None:
    lines = b"".join(_record(number, b"\x93\xc0\x90\x00") for number in range(1000))
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(_line(**HEADER))
        for _ in range(100):
            file.write(lines)


def _driven(path: Path) -> None:
    with path.open("wb") as file:
        file.write(_line(**HEADER, can=["publish"]))
        for number in range(300):
            file.write(_record(number, struct.pack(">Q", number) * 125_000))


def _deep(path: Path) -> None:
    path.write_bytes(_line(**HEADER) + b'{"t_ns":' + b"[" * 1_000_000 + b"\n")


def _container(length: int, content: bytes = b"") -> Made:
    return lambda path: _written(path, b"\x89MCAP0\r\n\x06" + struct.pack("<Q", length) + content)


def _bomb(path: Path) -> None:
    import zstandard

    packed = zstandard.compress(bytes(3 * 10**8))
    chunk = struct.pack("<QQQII", 0, 0, 1000, 0, 4) + b"zstd" + struct.pack("<Q", len(packed)) + packed
    head = json.dumps(HEADER).encode()
    pair = struct.pack("<I", 4) + b"json" + struct.pack("<I", len(head)) + head
    meta = struct.pack("<I", 13) + b"kvwire.header" + struct.pack("<I", len(pair)) + pair
    records = b"\x0c" + struct.pack("<Q", len(meta)) + meta + b"\x06" + struct.pack("<Q", len(chunk)) + chunk
    _written(path, b"\x89MCAP0\r\n" + records)


def _capture(path: Path) -> None:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    _written(path, head + struct.pack("<IIII", 0, 0, 2**32 - 1, 2**32 - 1) + bytes(1000))


def _written(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _long(text: str) -> Made:
    return lambda path: _written(path, text.encode() * (70_000_000 // len(text)))


def _nested(path: Path) -> None:
    path.write_text("x = " + "[" * 100_000 + "]" * 100_000, encoding="utf-8")


def _keys(path: Path) -> None:
    path.write_text("".join(f"[a{'.b' * 200}{number}]\n" for number in range(2_000)), encoding="utf-8")


def _sparse(folder: Path) -> Path:
    manifest = folder / "MANIFEST.json"
    manifest.touch()
    os.truncate(manifest, 20 * 10**9)
    return folder


def _of(name: str, make: Made, *before: str) -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        path = bench.folder / name
        make(path)
        return bench.kvwire(*before, path)

    return run


def _plain(*arguments: str) -> Callable[[Bench], Ran]:
    return lambda bench: bench.kvwire(*arguments)


def _attack(
    name: str,
    does: str,
    says: str,
    run: Callable[[Bench], Ran],
    *,
    exits: tuple[int, ...] = (Exit.USAGE,),
    on: On = "file",
    quick: bool = False,
    seconds: float = 30,
) -> Attack:
    return Attack(name=name, on=on, does=does, run=run, exits=exits, says=says, seconds=seconds, quick=quick)


SPECIAL = "no regular file"
LONG = ("--tokens", ",".join(["7"] * 60_000))
ATTACKS = (
    _attack("judge-dev-zero", "`judge /dev/zero`", SPECIAL, _plain("judge", "/dev/zero"), quick=True),
    _attack("judge-fifo", "a FIFO that never speaks", SPECIAL, _of("f.kvtrace", os.mkfifo, "judge"), quick=True),
    _attack("judge-line", "a line of 2 GB", "longer than", _of("z.kvtrace", _zeros, "judge")),
    _attack(
        "judge-bomb", "400 MB of zeros in a gzip of 2 MB", "longer than", _of("z.kvtrace.gz", _packed_zeros, "judge")
    ),
    _attack(
        "judge-records",
        "100,000 records in a gzip of 1 MB",
        "",
        _of("r.kvtrace.gz", _packed_records, "judge"),
        exits=OPEN,
        seconds=120,
    ),
    _attack("judge-driven", "a driven run of 300 MB", "--memory", _of("d.kvtrace", _driven, "judge"), seconds=60),
    _attack("judge-deep", "a million brackets", "not a record", _of("d.kvtrace", _deep, "judge"), quick=True),
    _attack("judge-mcap-length", "a chunk of 4 EiB", "damaged", _of("c.mcap", _container(2**62), "judge")),
    _attack(
        "judge-mcap-bomb",
        "300 MB of zeros in a chunk of 1,000 bytes",
        "two sizes of itself",
        _of("b.mcap", _bomb, "judge"),
    ),
    _attack("judge-pcap", "a packet of 4 GB", "damaged", _of("c.pcap", _capture, "judge")),
    _attack("report-zero", "`report /dev/zero`", SPECIAL, _plain("report", "/dev/zero"), quick=True),
    _attack("report-fifo", "a result that never comes", SPECIAL, _of("f.json", os.mkfifo, "report")),
    _attack("report-long", "a result of 70 MB", "longer than", _of("r.json", _long('{"kind":"x"}\n'), "report")),
    _attack(
        "lookup-zero", "`lookup --tokens @/dev/zero`", SPECIAL, _plain("lookup", "/dev/null", "--tokens", "@/dev/zero")
    ),
    _attack(
        "hash-long",
        "60,000 tokens, a block each",
        "",
        _plain("hash", "v1_block_key", *LONG, "--block-size", "1"),
        exits=(Exit.CONFORMANT,),
        on="argument",
    ),
    _attack(
        "hash-explain",
        "`hash --explain` of 60,000 tokens",
        "",
        _plain("hash", "--explain", "9", *LONG),
        exits=(Exit.NOT_CONFORMANT,),
        on="argument",
        seconds=90,
    ),
    _attack(
        "vectors-sparse",
        "vectors whose manifest is 20 GB of zeros",
        "longer than",
        lambda bench: bench.kvwire("vectors", "verify", "--vectors", _sparse(bench.folder), "--", "cat"),
        exits=(Exit.USAGE, Exit.ERROR),
    ),
    _attack(
        "statement-zero",
        "`check` of a link to /dev/zero",
        SPECIAL,
        _of("s.toml", lambda p: p.symlink_to("/dev/zero"), "check"),
        on="statement",
    ),
    _attack(
        "statement-fifo", "one that never comes", SPECIAL, _of("f.toml", os.mkfifo, "check"), on="statement", quick=True
    ),
    _attack("statement-long", "one of 70 MB", "longer than", _of("l.toml", _long("# x\n"), "check"), on="statement"),
    _attack("statement-deep", "100,000 brackets", "", _of("d.toml", _nested, "check"), on="statement"),
    _attack("statement-keys", "2,000 tables, each 200 deep", "", _of("k.toml", _keys, "check"), on="statement"),
    _attack(
        "expected-zero",
        "`--expected-failures /dev/zero`",
        SPECIAL,
        _plain("check", "reference:", "--expected-failures", "/dev/zero"),
        on="statement",
    ),
)
