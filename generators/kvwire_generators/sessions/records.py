"""Runs for ``session/``: small ones, against publishers of ours, stripped of all that tells of the machine.

``plans`` says what is run and what is kept of it. A recording is made once; ``index`` has it judged.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kvwire.attack.probes.kit.session import Limits
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TraceTarget, parse
from kvwire.standard.registry import UnknownNameError
from kvwire.trace import files, levels
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import Witnesses
from kvwire.trace.records import LIVE, Record, Trace
from kvwire.vectors import sessions
from kvwire_generators.sessions.index import Session, planned
from kvwire_generators.sessions.plans import AT_WORK, Plan, plans
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher

LIMITS = Limits(prompts=3, batches=12, replay_s=1.0, listen_s=1.0)
ATTEMPTS = 4
"""How often a run is tried: the first batches only show that subscriptions work, and their number moves the others."""
PACE_S = 0.1
"""Between two prompts."""
PLACE = "/run/publisher-{:05}"
"""Instead of a private directory; as long as those, because lengths of paths are judged."""


def record(name: str, plan: Plan, attempts: int = 1) -> Session:
    """Run what a plan says, at most so many times, and keep what it says of it.

    Raises:
        sessions.SessionError: when the run was in trouble, or does not show what it is for.
    """
    for _ in range(attempts - 1):
        with contextlib.suppress(sessions.SessionError):
            return _record(name, plan)
    return _record(name, plan)


def _record(name: str, plan: Plan) -> Session:
    with publishers(plan) as target:
        recording = _run(target, plan)
    if idle := sorted(set(plan.probes) - set(recording.header.probes)):
        raise sessions.SessionError(f"{name}: {', '.join(idle)} did not run")
    return planned(name, plan, kept(recording, plan))


def _run(target: str, plan: Plan) -> Trace:
    place = parse(target)
    assert not isinstance(place, TraceTarget)
    limits = msgspec.structs.replace(LIMITS, **plan.limits)
    return run(place, Settings(profile=plan.profile, probes=plan.probes, limits=limits))


# --- publishers that nobody drives --------------------------------------------------------------------------------


@contextmanager
def publishers(plan: Plan) -> Iterator[str]:
    """The target of a plan; where nobody drives its publishers, they work as long as the block lasts."""
    if plan.target != AT_WORK:
        yield f"{plan.target}?{plan.options}"
        return
    given = {key: int(value) for key, value in urllib.parse.parse_qsl(plan.options)}
    ranks = given.get("ranks", 1)
    with tempfile.TemporaryDirectory(prefix="kvwire-") as folder:
        places = f"ipc://{folder}/live", f"ipc://{folder}/replay"
        running = [_publisher(places, rank, ranks, given) for rank in range(ranks)]
        over = threading.Event()
        work = threading.Thread(target=_work, args=(running, over, given.get("burst", 1)))
        work.start()
        try:
            replay = "" if plan.level == "passive" else f"&replay={places[1]}"
            yield f"zmq:{places[0]}?topic=kv-events&ranks={ranks}{replay}"
        finally:
            over.set()
            work.join()
            for publisher in running:
                publisher.shutdown()


def _publisher(places: tuple[str, str], rank: int, ranks: int, given: Mapping[str, int]) -> ZmqPublisher:
    publisher = ZmqPublisher(
        PublisherConfig(
            endpoint=places[0],
            replay_endpoint=places[1],
            topic="kv-events",
            rank=rank,
            world_size=ranks,
            ranks_per_host=ranks,
            ring=given["ring"],
            max_queue=given["queue"],
        )
    )
    publisher.start()
    return publisher


def _work(running: list[ZmqPublisher], over: threading.Event, burst: int) -> None:
    """Prompts with common prefixes for each, at a slow pace; a burst of several at once is more than a queue holds."""
    engines = [CacheEngine(publisher, CacheConfig(block_size=2, capacity=12)) for publisher in running]
    turn = 0
    while not over.wait(PACE_S * burst):
        for _ in range(burst):
            turn += 1
            for rank, engine in enumerate(engines):
                engine.insert([7, 7, 7, 7, turn % 5, rank, turn, turn])
                engine.flush()


# --- what is kept -------------------------------------------------------------------------------------------------


def kept(recording: Trace, plan: Plan) -> Trace:
    """What is kept of a run: what its level would have shown, one witness if two say no more, nothing personal."""
    if plan.level != recording.header.level:
        recording = levels.lowered(recording, plan.level)
    if any(record.source == LIVE[1] for record in recording.records):
        alone = without_second_witness(recording)
        if _words(alone) == _words(recording):
            recording = alone
    return impersonal(recording)


def _words(recording: Trace) -> list[tuple[str, str, str]]:
    """Verdicts without counts: half of the witnesses are gone."""
    return [(said.stream, said.requirement, said.verdict) for said in sessions.judged(recording).outcomes]


def without_second_witness(recording: Trace) -> Trace:
    """The trace that a run with one live witness would have given."""

    def lone(record: Record) -> Record:
        if not isinstance(record.detail, Witnesses):
            return record
        of = tuple(source for source in record.detail.of if source != LIVE[1])
        return msgspec.structs.replace(record, detail=msgspec.structs.replace(record.detail, of=of))

    records = [
        lone(record)
        for record in recording.records
        if record.source != LIVE[1] and not (isinstance(record.detail, SocketEvent) and record.detail.of == LIVE[1])
    ]
    return msgspec.structs.replace(recording, records=tuple(records))


def impersonal(recording: Trace) -> Trace:
    """The trace without what tells of the machine: clocks begin at 0, private directories and programs are named."""
    first = min((record.t_ns for record in recording.records), default=0)
    places: dict[str, str] = {}
    directory = re.compile(re.escape(tempfile.gettempdir()) + r"/kvwire-[A-Za-z0-9_]{8}")

    def place(match: re.Match[str]) -> str:
        return places.setdefault(match[0], PLACE.format(len(places) + 1))

    def said(value: Any) -> Any:
        match value:
            case str():
                return directory.sub(place, value.replace(sys.executable, "python"))
            case list() | tuple():
                return [said(inner) for inner in value]
            case dict():
                return {key: said(inner) for key, inner in value.items()}
        return value

    told = files.parse(msgspec.json.encode(said(msgspec.json.decode(line))) for line in files.lines(recording))
    records = tuple(msgspec.structs.replace(record, t_ns=record.t_ns - first) for record in told.records)
    return msgspec.structs.replace(told, records=records)


def store(folder: Path, session: Session) -> Path:
    """Write the trace of a session into a folder of vectors."""
    path = folder / sessions.path_of(session.name)
    files.write(session.recording, path)
    return path


def wanted(names: tuple[str, ...]) -> dict[str, Plan]:
    """The plans of these names, or all that are to be recorded.

    Raises:
        UnknownNameError: for a name without a plan.
    """
    known = plans()
    for name in names:
        if name not in known:
            raise UnknownNameError(f"no session {name!r} is recorded; there are {', '.join(known)}")
    return {name: plan for name, plan in known.items() if not names or name in names}
