"""Where the data comes from that is damaged: vectors, stored sessions, and small files of each sort."""

from __future__ import annotations

import functools
import gzip
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kvwire.conclusion import result
from kvwire.conclusion.conclude import conclude
from kvwire.standard import registry, resources
from kvwire.trace import files
from kvwire.trace.detail import SocketEvent
from kvwire.trace.records import Trace

LARGEST = 5_000
"""Files above so many bytes are no seeds: one of them takes as long as many others."""
SOME = 12
"""How many seeds there are of a sort that takes long to make or to read."""


@functools.cache
def sessions() -> list[bytes]:
    """Traces of whole runs, as lines."""
    paths = sorted((resources.vectors() / "session").glob("*.kvtrace"))
    return [path.read_bytes() for path in paths if path.stat().st_size < LARGEST]


def _traces() -> list[Trace]:
    return [files.parse(raw.splitlines()) for raw in sessions()[:: max(1, len(sessions()) // SOME)]]


def payloads() -> list[bytes]:
    """Payloads of those runs."""
    found: dict[bytes, None] = {}
    for raw in sessions():
        for record in files.parse(raw.splitlines()).records:
            if record.frames:
                found[record.frames[-1]] = None
    return list(found)


def stored(form: str) -> list[bytes]:
    """Recordings in a form, by its ending."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for at, trace in enumerate(_traces()):
            path = Path(folder) / f"{at}{form}"
            files.write(trace, path)
            found.append(path.read_bytes())
    return found


def results() -> list[bytes]:
    """Result streams."""
    profile, known = registry.profile("core"), registry.load()
    return [result.dump(conclude(trace, known, profile)) for trace in _traces()]


def exchanges() -> list[bytes]:
    """What a replay client receives: a line of frames in hex for each message."""
    found = []
    for raw in sessions():
        trace = files.parse(raw.splitlines())
        answers = [[frame.hex() for frame in record.frames or ()] for record in trace.records if record.is_replay]
        if 2 < len(answers) < 60:
            found.append(b"\n".join(msgspec.json.encode(frames) for frames in answers))
    return found


def answers() -> list[bytes]:
    """Answers of an adapter, a verb and what it said in each line."""
    found = []
    for raw in sessions():
        lines = []
        for record in files.parse(raw.splitlines()).records:
            if record.source == "stimulus" and record.event in ANSWERED and record.detail is not None:
                ok = msgspec.json.decode(msgspec.json.encode(record.detail.fields))
                ok = ok.get("bound", ok)
                lines.append(msgspec.json.encode([record.event, {"id": 1, "ok": ok}]))
        if lines:
            found.append(b"\n".join(lines[:40]))
    return found


ANSWERED = ("hello", "start", "publish", "burst", "cache", "resident", "stats", "restart")


def vectors() -> list[bytes]:
    """Files of tests."""
    paths = sorted(path for kind in ("hash", "replay", "wire") for path in (resources.vectors() / kind).glob("*.json"))
    return [raw for path in paths if len(raw := path.read_bytes()) < 12 * LARGEST]


# --- packet captures ----------------------------------------------------------------------------------------------


def captures() -> list[bytes]:
    """Packet captures: what a subscriber and a replay client were sent, as raw IP packets in a file."""
    found = [
        _capture(trace) for trace in _traces() if not any(isinstance(r.detail, SocketEvent) for r in trace.records)
    ]
    found += [_capture(trace) for trace in _traces()[:SOME]]
    return found + [gzip.compress(raw) for raw in found[:2]]


def _capture(trace: Trace) -> bytes:
    live = [record.frames for record in trace.records if record.source == "live-a" and record.frames][:20]
    asked = [record.frames for record in trace.records if record.is_replay and record.frames][:20]
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 101)]
    for port, kinds, messages in ((5557, (b"SUB", b"PUB"), live), (5657, (b"DEALER", b"ROUTER"), asked)):
        up = [_greeting(), _ready(kinds[0]), b"\x04\x0a\x09SUBSCRIBE" if port == 5557 else _message((b"", bytes(8)))]
        down = [_greeting(), _ready(kinds[1]), *map(_message, messages)]
        sent = [1000, 2000]
        packets = [(0, 2, b""), (1, 18, b""), (0, 16, b"")]
        packets += [(0, 24, data) for data in up] + [(1, 24, data) for data in down] + [(1, 17, b"")]
        for way, flags, data in packets:
            ends = (40000, port) if way == 0 else (port, 40000)
            segment = struct.pack(">HHIIBBHHH", *ends, sent[way], sent[1 - way], 5 << 4, flags, 65535, 0, 0) + data
            sent[way] += len(data) + bool(flags & 3)
            hosts = (bytes((10, 0, 0, 9)), bytes((10, 0, 0, 5)))
            packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, 6, 0)
            packet += hosts[way] + hosts[1 - way] + segment
            out.append(struct.pack("<IIII", 1_735_689_600, len(out), len(packet), len(packet)) + packet)
    return b"".join(out)


def _greeting() -> bytes:
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


def _ready(kind: bytes) -> bytes:
    body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return bytes((4, len(body))) + body


def _message(frames: Sequence[bytes]) -> bytes:
    more = [1] * (len(frames) - 1) + [0]
    parts = []
    for flag, frame in zip(more, frames, strict=True):
        head = bytes((flag, len(frame))) if len(frame) < 256 else bytes((flag | 2,)) + struct.pack(">Q", len(frame))
        parts.append(head + frame)
    return b"".join(parts)


# --- what users write ---------------------------------------------------------------------------------------------

STATEMENT = b"""edition = "1"
profile = "replay"
form = "map"
algorithm = "v2_sha256_64/u32"
block_size = 16
ring = 100
queue = 10
salt = "tag"
residency = "set"
extensions = ["location_updates"]
[implementation]
name = "x"
[bounds]
reset_visible_s = 1.0
heartbeat_s = 2.5
replay_clients = 3
[[groups]]
idx = 1
kind = "sliding_window"
window = 128
[[media]]
medium = "CPU"
residency = "counted"
[[streams]]
endpoint = "tcp://127.0.0.1:5557"
replay = "tcp://127.0.0.1:5657"
topic = "kv"
rank = 0
"""
EXPECTED = b"""[[expected]]
id = "KVW-REP-006"
reason = "known"
verdict = "WARN"
message = "no batch for *"
expires = 2027-01-31
unsteady = true
"""
ROUTER = b"""block_size = 16
topic = "kv"
ranks = 8
algorithm = "v2_sha256_64"
kinds = ["full_attention"]
media = ["GPU"]
form = "map"
hash_seed = "0"
"""
PLACES = (b"zmq:tcp://127.0.0.1:5557?replay=tcp://127.0.0.1:5657&topic=kv&ranks=4&mode=connect", b"reference:?ring=5",
          b"mutant:x", b"honest:x?block_size=4", b"exec:python x.py", b"trace:x.kvtrace", b"zmq:ipc:///run/x?ranks=3",
          b"zmq:tcp://[::1]:5557?replay=tcp://[::1]:65535&ranks=9")  # fmt: skip
