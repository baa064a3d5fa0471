"""The table of endpoints (spec/endpoint.md), tried on other instances of the publisher, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from kvwire.attack.probes.kit.deployment import elsewhere
from kvwire.attack.probes.kit.lifecycle import Lifecycle
from kvwire.attack.probes.kit.sandbox import Sandbox, ports, who_can_come
from kvwire.attack.probes.kit.session import Instance, Probe, Session
from kvwire.attack.probes.kit.subscribers import Subscribers
from kvwire.standard.protocol import AdapterError, Start
from kvwire.wire.endpoint_rules import IPC_BYTES, NO_REPLAY, PORT_MAX

PROCESSES = 4
"""How many adapter processes may break before the rest of the table is left out."""
RANK = 3
WORLD = 4

Make = Callable[[Sandbox], Start | None]
"""Makes one ``start`` when its turn comes; None when this machine cannot offer what it takes."""


def tcp(port: int | str, host: str = "127.0.0.1") -> str:
    """A tcp endpoint of loopback."""
    return f"tcp://{host}:{port}"


def only(endpoint: str, **more: int | bool) -> Start:
    """A publish endpoint and no replay."""
    return msgspec.convert({"endpoint": endpoint, "replay": NO_REPLAY, **more}, Start)


def _pair(apart: int, **more: int) -> Make:
    """Publish and replay ports so far apart, on this rank's ports."""

    def make(_: Sandbox) -> Start | None:
        rank = more.get("rank", 0)
        first = ports(rank, abs(apart) + rank)
        if first is None:
            return None
        low, high = first, first + abs(apart)
        publish, replay = (low, high) if apart >= 0 else (high, low)
        return msgspec.convert({"endpoint": tcp(publish), "replay": tcp(replay), **more}, Start)

    return make


def _of_port(text: Callable[[int], str], **more: int | bool) -> Make:
    """An endpoint made from a free port."""

    def make(_: Sandbox) -> Start | None:
        port = ports()
        return None if port is None else only(text(port), **more)

    return make


def _of_rank(_: Sandbox) -> Start | None:
    """A tcp endpoint whose port for the rank is free."""
    port = ports(RANK)
    return None if port is None else only(tcp(port), rank=RANK, world=WORLD)


def _of_world(beyond: int) -> Make:
    """As many ranks as there are ports from a free one on, and some beyond."""

    def make(_: Sandbox) -> Start | None:
        port = ports()
        return None if port is None else only(tcp(port), rank=0, world=PORT_MAX - port + 1 + beyond)

    return make


def _ipv6(_: Sandbox) -> Start | None:
    port = ports(family="tcp6")
    return None if port is None else only(tcp(port, "[::1]"))


def _never(endpoint: str, **more: int | bool) -> Make:
    return lambda _: only(endpoint, **more)


def _in_room(publish: str, replay: str, **more: int) -> Make:
    """Names in the private directory, or endpoints as they are."""

    def make(sandbox: Sandbox) -> Start:
        first, second = (sandbox.ipc(name) if name and ":" not in name else name for name in (publish, replay))
        return msgspec.convert({"endpoint": first, "replay": second, **more}, Start)

    return make


def _ranked(sandbox: Sandbox) -> Start:
    return Start(endpoint=sandbox.ipc("ranked"), replay=sandbox.ipc("asked"), rank=RANK, world=WORLD)


def _long(length: int, **more: int) -> Make:
    return lambda sandbox: only(sandbox.ipc_of_length(length), **more)


TABLE: tuple[Make, ...] = (
    # what can be served
    _pair(1, ranks_per_host=1),
    _pair(WORLD, rank=RANK, world=WORLD, ranks_per_host=WORLD),
    _pair(WORLD // 2, rank=RANK, world=WORLD, ranks_per_host=WORLD // 2),
    _of_rank,
    _of_port(tcp, rank=0, world=8, ranks_per_host=8),
    _of_world(0),
    _ipv6,
    _in_room("events", "replay"),
    _in_room("tcp-events", "inproc-replay", rank=RANK, world=WORLD),
    _ranked,
    lambda sandbox: only(sandbox.ipc("alone"), rank=RANK, world=WORLD),
    _long(IPC_BYTES),
    lambda _: only(tcp(0), ephemeral=True),
    # what cannot, for one reason each
    _never("tcp://127.0.0.1"),
    _never("tcp://127.0.0.1:"),
    _never(tcp("http")),
    _never(tcp(0)),
    _never(tcp(PORT_MAX + 1)),
    _never(tcp(70_000)),
    _of_world(1),
    _never(tcp(PORT_MAX), rank=1, world=2),
    _of_port(lambda port: f"udp://127.0.0.1:{port}"),
    _of_port(lambda port: f"127.0.0.1:{port}"),
    _never(""),
    _never("tcp://"),
    _never("ipc://"),
    _of_port(lambda port: f"tcp://:{port}"),
    _of_port(lambda port: f"tcp://[::1:{port}"),
    _of_port(tcp, rank=-1, world=2),
    _of_port(tcp, rank=2, world=2),
    _pair(3, world=4, ranks_per_host=4),
    _pair(-3, world=8, ranks_per_host=8),
    _pair(1, world=2, ranks_per_host=2),
    _pair(-1, world=2, ranks_per_host=2),
    _pair(0),
    lambda _: Start(endpoint="inproc://kvwire-same", replay="inproc://kvwire-same"),
    _in_room("same", "same"),
    _in_room("near", "near_dp1", world=2, ranks_per_host=2),
    _long(IPC_BYTES, rank=1, world=2),
    _long(IPC_BYTES, rank=0, world=2),
    _long(IPC_BYTES + 1),
    # one of two that cannot: nothing is opened for the other
    _in_room("kept", "tcp://127.0.0.1"),
    _in_room("kept", "udp://127.0.0.1:5557"),
    _in_room("udp://127.0.0.1:5557", "kept"),
    _in_room("kept", "tcp://:5557"),
    _in_room("kept", ""),
    lambda sandbox: Start(endpoint=sandbox.ipc("kept"), replay=sandbox.ipc_of_length(IPC_BYTES + 1)),
    # where a block would lie in pieces, and where it would not
    lambda _: Start(tp=2),
    lambda _: Start(pp=2),
    lambda _: Start(tp=2, cp=2),
    # what the standard leaves open, but for the report of the port
    _never(tcp("*")),
)


def run(session: Session) -> None:
    """Try the table; an adapter that broke is replaced by another process of the same command."""
    left = deque(TABLE)
    with Sandbox() as sandbox, Subscribers(session) as subscribers:
        lifecycle = Lifecycle(session, sandbox, subscribers)
        for _ in range(PROCESSES):
            if not left or session.left() <= 0:
                return
            with session.fresh() as (instance,):
                while left and session.left() > 0 and _try(session, lifecycle, instance, left.popleft()):
                    pass


def _try(session: Session, lifecycle: Lifecycle, instance: Instance, make: Make) -> bool:
    """Try one entry; False when the adapter is of no more use."""
    chosen = make(lifecycle.sandbox)
    if chosen is None:
        return True
    given = {name: value for name, value in msgspec.to_builtins(chosen).items() if value is not None}
    start = msgspec.structs.replace(elsewhere(session.start), **given)
    try:
        bound = lifecycle.begin(instance, start)
        if bound is not None:
            lifecycle.end(instance, bound)
    except AdapterError:  # it stands in the record of the call
        return _goes_on(instance)
    return True


def _goes_on(instance: Instance) -> bool:
    """Whether the adapter can be asked again after a failure, with nothing running."""
    try:
        instance.driver.stop()
    except AdapterError:
        return False
    return True


def look(session: Session) -> None:
    """Record who can come to the streams under test, and to the default endpoint that is declared."""
    for stream in session.streams:
        served = (stream.endpoint if stream.mode == "connect" else None, stream.replay)
        for endpoint in filter(None, served):
            session.recorder.note(who_can_come(endpoint), stream.name)
    default = session.statement.default_endpoint
    if default is not None:
        seen = msgspec.structs.replace(who_can_come(default), default=True)
        session.recorder.note(seen, session.streams[0].name)


PLACES = Probe(
    name="places",
    mode="quick",
    run=look,
    needs=frozenset({"passive"}),
    serves="EXP",
    bounds="nothing is awaited",
)
PROBE = Probe(
    name="endpoints",
    run=run,
    needs=frozenset({"start", "stop", "fresh"}),
    serves="END EXP-002 EXP-003 LIV-005 RNK-006",
    bounds="starts and stops as the driver bounds them, a handshake within handshake_s, a port free within stop_s and "
    "a second",
)
