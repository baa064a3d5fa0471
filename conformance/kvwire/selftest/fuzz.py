"""Input that nobody meant: stored data, mutated, through everything that reads what strangers wrote.

Whatever a stranger hands in ends with a clear error or with a verdict, never with a traceback, and within a bound. Each
target knows its seeds (vectors, stored traces, examples), how they are mutated, what it does with them, and which
errors are clear ones. A seed and a number give the same input again.
"""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kvwire.conclusion import expected_failures, result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.diagnosis import expectation
from kvwire.conclusion.doctor import diagnose
from kvwire.report.faces import FORMATS, face
from kvwire.standard import registry, resources, statement
from kvwire.trace import files
from kvwire.trace.records import Trace, TraceError
from kvwire.vectors import access
from kvwire.wire import dialect
from kvwire.wire.plain import read_quickly

SLOW_S = 20.0
"""Longer than so many seconds (of the process) for one input is a finding."""
LARGEST = 60_000
"""Stored traces above so many bytes are no seeds: one of them takes as long as a hundred others."""

Run = Callable[[bytes], None]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An input that was not met as it should be: what happened, in which line of ours, and the input."""

    target: str
    seed: int
    number: int
    what: str
    where: str
    content: bytes


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One way into kvwire. ``clear``: errors that a user is meant to see; ``structured``: seeds are lines of JSON."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    run: Run
    clear: tuple[type[Exception], ...]
    structured: bool = False


# --- mutation ----------------------------------------------------------------------------------------------------

_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 255, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**64), 10**30,
    0.0, -0.0, 1.5, 1e308, -1e308, "", " ", "0", "x", "\x00", "\x1b[31m", "\u202e", "é" * 3, "9" * 40,
    "18013317135)90605405", "DISCONNECTED", "live-a", "replay-1", "a" * 10_000, [], {}, [[]], [None], {"": None},
    {"type": "BlockStored"},
)  # fmt: skip


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:50]):
            yield from _places(item, (*at, index))


def mutated_json(raw: bytes, chance: random.Random) -> bytes:
    """One value of one line replaced, dropped or repeated; now and then the lines are, or the bytes are."""
    lines = raw.splitlines()
    kind = chance.randrange(10)
    if not lines or kind == 0:
        return mutated_bytes(raw, chance)
    at = chance.randrange(len(lines))
    if kind == 1:
        del lines[at]
    elif kind == 2:
        lines.insert(chance.randrange(len(lines)), lines[at])
    elif kind == 3:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        for _ in range(chance.randrange(1, 4)):
            try:
                lines[at] = _value_replaced(json.loads(lines[at]), chance)
            except ValueError:
                break
    return b"\n".join(lines) + b"\n"


def _value_replaced(value: Any, chance: random.Random) -> bytes:
    place = chance.choice(list(_places(value)))
    new: Any = _nested(500) if chance.randrange(40) == 0 else chance.choice(_ODD)
    if not place:
        return json.dumps(new).encode()
    holder = value
    for part in place[:-1]:
        holder = holder[part]
    if chance.randrange(6) == 0:
        del holder[place[-1]]
    elif isinstance(holder, dict) and chance.randrange(8) == 0:
        holder[str(new)[:50]] = holder.pop(place[-1])
    else:
        holder[place[-1]] = new
    return json.dumps(value).encode()


_HEADS = (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc1", b"\xd9\xff", b"\xcf")
"""Heads of msgpack values that promise what does not follow."""


def mutated_bytes(raw: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, dropped, repeated, inserted or cut."""
    data = bytearray(raw)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if data:
                data[at % len(data)] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                data[at:at] = data[max(0, at - 8) : at]
            case 4:
                data[at:at] = chance.choice(
                    (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc1", b"\xd9\xff", b"\xcf")
                )
            case _:
                del data[at:]
    return bytes(data)


# --- targets -----------------------------------------------------------------------------------------------------


def _sessions() -> list[bytes]:
    paths = sorted((resources.vectors() / "session").glob("*.kvtrace"))
    return [path.read_bytes() for path in paths if path.stat().st_size < LARGEST]


def _payloads() -> list[bytes]:
    found: dict[bytes, None] = {}
    for raw in _sessions():
        for record in files.parse(raw.splitlines()).records:
            if record.frames:
                found[record.frames[-1]] = None
    return list(found)


def _payload(raw: bytes) -> None:
    slowly, quickly = dialect.read_slowly(raw), read_quickly(raw)
    if quickly is not None and (slowly.flaws or any(event.flaws for event in slowly.events)):
        raise AssertionError("the quick way lets a payload pass of which the walker speaks")


def _trace(raw: bytes) -> None:
    trace = files.parse(raw.splitlines())
    _judged(trace)


def _judged(trace: Trace) -> None:
    known = registry.load()
    try:
        profile = registry.profile(trace.header.profile)
    except registry.UnknownNameError:
        profile = registry.profile("core")
    concluded = conclude(trace, known, profile)
    result.parse(result.dump(concluded))
    for kind in ("console", "junit", "github"):
        face([concluded], kind)
    face([concluded], "html", [trace])
    diagnose([("t", trace)])


def _result(raw: bytes) -> None:
    found = result.parse(raw)
    for kind in FORMATS:
        face([found], kind)


def _results() -> list[bytes]:
    profile, known = registry.profile("core"), registry.load()
    return [result.dump(conclude(files.parse(raw.splitlines()), known, profile)) for raw in _sessions()[:12]]


def _file(read: Callable[[Path], object]) -> Run:
    def run(raw: bytes) -> None:
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".toml") as file:
            file.write(raw)
            file.flush()
            read(Path(file.name))

    return run


_STATEMENT = b"""edition = "1"
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
_EXPECTED = b"""[[expected]]
id = "KVW-REP-006"
reason = "known"
verdict = "WARN"
message = "no batch for *"
expires = 2027-01-31
unsteady = true
"""
_ROUTER = b"""block_size = 16
topic = "kv"
ranks = 8
algorithm = "v2_sha256_64"
kinds = ["full_attention"]
media = ["GPU"]
form = "map"
"""


def _vectors() -> list[bytes]:
    paths = sorted(path for kind in ("hash", "replay") for path in (resources.vectors() / kind).glob("*.json"))
    return [raw for path in paths if len(raw := path.read_bytes()) < LARGEST]


TARGETS: tuple[Target, ...] = (
    Target(name="payload", seeds=_payloads, run=_payload, clear=()),
    Target(name="trace", seeds=_sessions, run=_trace, clear=(TraceError,), structured=True),
    Target(name="result", seeds=_results, run=_result, clear=(result.ResultError,), structured=True),
    Target(
        name="statement",
        seeds=lambda: [_STATEMENT],
        run=_file(statement.read),
        clear=(statement.StatementError,),
    ),
    Target(
        name="expected-failures",
        seeds=lambda: [_EXPECTED],
        run=_file(lambda path: expected_failures.read(path, registry.load())),
        clear=(expected_failures.ExpectedFailuresError,),
    ),
    Target(
        name="expectation",
        seeds=lambda: [_ROUTER],
        run=_file(expectation.read),
        clear=(expectation.ExpectationError,),
    ),
    Target(
        name="vectors",
        seeds=_vectors,
        run=lambda raw: void(access.decode(raw)),
        clear=(msgspec.MsgspecError, registry.UnknownNameError),
    ),
)


def void(_: object) -> None:
    """What is read is not looked at."""


def fuzz(target: Target, seed: int, seconds: float, *, at_most: int | None = None) -> Iterator[Finding | int]:
    """Run a target for so many seconds: findings as they come, at last the number of inputs. Equal faults come once."""
    seeds = target.seeds()
    until, seen, number = time.monotonic() + seconds, set[str](), 0
    while time.monotonic() < until and (at_most is None or number < at_most):
        chance = random.Random(f"{target.name}-{seed}-{number}")
        raw = chance.choice(seeds)
        content = mutated_json(raw, chance) if target.structured else mutated_bytes(raw, chance)
        before = time.process_time()
        what = where = ""
        try:
            target.run(content)
        except target.clear:
            pass
        except Exception as error:  # noqa: BLE001 - every other one is what is looked for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            called = [f for f in traceback.extract_tb(error.__traceback__) if "/kvwire/" in f.filename]
            frame = called[-1] if called else frame
            what = f"{type(error).__name__}: {str(error)[:200]}"
            where = f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        spent = time.process_time() - before
        if not what and spent > SLOW_S:
            what, where = f"took {spent:.0f} s", target.name
        if what and f"{type(what)}{where}" not in seen:
            seen.add(f"{type(what)}{where}")
            yield Finding(target=target.name, seed=seed, number=number, what=what, where=where, content=content)
        number += 1
    yield number
