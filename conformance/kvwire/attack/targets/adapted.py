"""Publishers that run in a child process: ``exec:``, ``reference:``, ``mutant:`` and ``honest:``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kvwire.attack.probes.kit.session import Instance
from kvwire.attack.targets.endpoints import check, reachable
from kvwire.attack.targets.process import AdapterProcess
from kvwire.attack.targets.served import ServedTarget
from kvwire.attack.targets.target import Opened, Options, TargetError
from kvwire.attack.witness import Recorder
from kvwire.standard import statement as statements
from kvwire.standard.protocol import AdapterError, Bound, Hello, Refused, Start, declared
from kvwire.standard.statement import Statement, StatementError, Stream

if TYPE_CHECKING:
    from kvwire.peers.honest.mark import Honest

START_TEXTS = ("endpoint", "replay", "topic")
START_INTEGERS = ("rank", "world", "ranks_per_host", "queue", "hwm", "ring", "cap", "block_size", "capacity")
PEER_OPTIONS = ("algorithm", "role", "multimodal", "salt", "heartbeat")
ROLES = ("cache", "publish")
MODULES = {"reference": "reference", "mutant": "mutants", "honest": "honest"}
"""What serves each kind of peer of ours."""
CAPACITY = 256
"""Blocks in the cache of a peer of ours unless asked otherwise: few, so that a short run evicts."""
RING = 600
"""Batches that a peer of ours retains for replay unless asked otherwise: few, so that a short run evicts."""
TOPIC = "kv-events"
"""The topic of a peer of ours unless asked otherwise: an empty one would hide where it belongs."""


@dataclass(frozen=True)
class AdapterTarget:
    """A command that speaks the adapter protocol, and what its publisher is started with."""

    text: str
    command: tuple[str, ...]
    start: Start = field(default_factory=Start)
    env: Mapping[str, str] = field(default_factory=dict)

    def open(self, recorder: Recorder) -> Opened:
        """Start the adapter, let it start its publisher, and set the witnesses on the stream."""
        name = f"rank-{self.start.rank or 0}"
        process = AdapterProcess(self.command, recorder, name, env=self.env)
        try:
            hello = process.hello()
            statement = self._statement(hello)
            bound = self._bound(process)
            stream = Stream(
                name=name,
                endpoint=_usable(bound.endpoint, binds=bound.mode == "bind"),
                replay=None if bound.replay is None else _usable(bound.replay),
                topic=bound.topic,
                rank=bound.rank,
                mode=bound.mode,
            )
            recorder.watch([stream])
        except BaseException:
            process.close()
            raise
        return Opened(
            streams=(stream,),
            statement=msgspec.structs.replace(statement, streams=(stream,)),
            driver=process,
            can=tuple(hello.can),
            sets=tuple(hello.sets),
            implementation=f"{hello.implementation} {hello.version}".strip(),
            life_from_start=True,
            start=self.start,
            alive=lambda: process.alive,
            fresh=lambda names: self._fresh(recorder, names),
            close=process.close,
        )

    @contextmanager
    def _fresh(self, recorder: Recorder, names: Sequence[str]) -> Iterator[Sequence[Instance]]:
        """Other processes of the same command; started at once, as each takes its time to import its peer."""
        with ExitStack() as stack:
            processes = []
            for name in names:
                process = AdapterProcess(self.command, recorder, name, env=self.env)
                stack.callback(process.close)
                processes.append(process)
            for process in processes:
                process.hello()
            yield [Instance(process.stream, process) for process in processes]

    def _bound(self, process: AdapterProcess) -> Bound:
        try:
            return process.start(self.start)
        except Refused as refusal:
            raise AdapterError(f"it refused to start its publisher: {refusal}") from None

    def _statement(self, hello: Hello) -> Statement:
        """What the publisher declares, with what it was started with instead of its defaults."""
        try:
            statement = statements.convert(hello.statement, "the statement in its answer to `hello`")
        except StatementError as error:
            raise AdapterError(str(error)) from None
        start = self.start
        return statement.started(
            ring=start.ring, queue=start.queue, block_size=start.block_size, groups=declared(start.groups)
        )


def _usable(endpoint: str, *, binds: bool = False) -> str:
    """Where a client reaches what an adapter says that it is bound to; or where the harness ``binds``.

    Raises:
        AdapterError: when no client can.
    """
    place = endpoint if binds else reachable(endpoint)
    try:
        check(place, "its answer to `start`", binds=binds)
    except TargetError as error:
        raise AdapterError(str(error)) from None
    return place


def command(text: str) -> AdapterTarget:
    """The target of ``exec:COMMAND``, split as a shell would and run without one.

    Raises:
        TargetError: when there is no program of that name.
    """
    try:
        words = tuple(shlex.split(text.removeprefix("exec:")))
    except ValueError as error:
        raise TargetError(f"{text!r}: the command cannot be split: {error}") from None
    if not words:
        raise TargetError(f"{text!r} names no command; write exec:'python my_adapter.py'")
    if shutil.which(words[0]) is None:
        raise TargetError(f"{text!r}: there is no program {words[0]!r} to run")
    return AdapterTarget(text, words)


def peer(text: str) -> AdapterTarget | ServedTarget:
    """The target of ``reference:?OPTIONS``, ``mutant:NAME?OPTIONS`` or ``honest:NAME?OPTIONS``.

    Raises:
        TargetError: for an unknown name or option.
    """
    kind, _, rest = text.partition(":")
    name, _, query = rest.partition("?")
    options = Options.read(text, query, (*PEER_OPTIONS, *START_TEXTS, *START_INTEGERS))
    arguments = ["-P", "-m", f"kvwire.peers.{MODULES[kind]}"]
    own: dict[str, Any] = {}
    if kind == "mutant":
        arguments.append(_known_mutant(text, name))
    elif kind == "honest":
        honest = _known_honest(text, name)
        arguments.append(name)
        if honest.api:
            return ServedTarget(text, (sys.executable, *arguments), _paths())
        own = _started(honest)
    elif name:
        raise TargetError(f"{text!r}: {name!r} says nothing here; options follow a question mark: reference:?ring=100")
    if (algorithm := options.one_of("algorithm", _algorithms())) is not None:
        arguments += ["--algorithm", algorithm]
    if (role := options.one_of("role", ROLES)) is not None:
        arguments += ["--role", role]
    if options.one_of("multimodal", ("true", "false")) == "true":
        arguments.append("--multimodal")
    if (salt := options.one_of("salt", ("none", "tag"))) is not None:
        arguments += ["--salt", salt]
    if (heartbeat := options.positive("heartbeat")) is not None:
        arguments += ["--heartbeat", str(heartbeat)]
    values = {key: value for key, value in options.values.items() if key in START_TEXTS}
    numbers = {key: options.integer(key, low=0 if key == "rank" else 1) for key in START_INTEGERS}
    chosen = {
        "capacity": CAPACITY,
        "ring": RING,
        "topic": TOPIC,
        **own,
        **values,
        **{k: n for k, n in numbers.items() if n is not None},
    }
    return AdapterTarget(text, (sys.executable, *arguments), msgspec.convert(chosen, Start), _paths())


def _known_mutant(text: str, name: str) -> str:
    from kvwire.peers.mutants import MUTANTS

    if name not in MUTANTS:
        raise TargetError(f"{text!r}: there is no mutant {name!r}; there are {', '.join(MUTANTS)}")
    return name


def _known_honest(text: str, name: str) -> Honest:
    from kvwire.peers.honest.catalog import HONEST

    if name not in HONEST:
        raise TargetError(f"{text!r}: there is no honest peer {name!r}; there are {', '.join(HONEST)}")
    return HONEST[name]


def _started(peer: Honest) -> dict[str, Any]:
    """What an honest peer is started with."""
    return {field: value for field in Start.__struct_fields__ if (value := getattr(peer.start, field)) is not None}


def _algorithms() -> tuple[str, ...]:
    from kvwire_reference.hashing import ALGORITHMS

    return tuple(ALGORITHMS)


def _paths() -> dict[str, str]:
    """Where a child of ours finds the packages that this process uses."""
    import kvwire_reference

    roots = [str(Path(__file__).parents[2]), str(Path(str(kvwire_reference.__file__)).parents[1])]
    return {"PYTHONPATH": os.pathsep.join([*roots, *filter(None, [os.environ.get("PYTHONPATH")])])}
