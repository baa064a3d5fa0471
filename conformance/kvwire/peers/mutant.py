"""What a mutant is: the reference with one small named change, and the verdicts that it must get, exactly.

The change is a subclass of one part of the reference: its publisher, its replay server, its cache engine or its
announcer. ``@mutant(...)`` on that class says all there is to say of it; a class that serves several mutants bears
several marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import msgspec

from kvwire.peers.adapter import Engine, MakePublisher
from kvwire.standard.registry import LEVELS, ControlLevel
from kvwire_reference.announcer import Announcer
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.outlet import Outlet
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.replay import ReplayServer

OPAQUE = {"algorithm": "opaque"}
"""The statement of a mutant whose change makes hashes that no function gives: parity does not apply to it."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A small run: its target's ``options``, its probes and their ``limits``; a vector keeps what ``level`` shows."""

    options: str = "block_size=2&capacity=12"
    probes: tuple[str, ...] = ("live", "reset")
    level: ControlLevel = "driven"
    profile: str = "replay"
    limits: Mapping[str, int | float] = {}


LISTENED = Session(level="passive")
"""What a subscriber hears of prompts and a reset."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the reference, and who must speak of it: ``expected`` holds the ids per level of control.

    ``primary`` is the sentence that it is made to break, ``levels`` those at which that speaks, ``reason`` why others
    speak too. ``reports`` are the public reports of that fault, each ``repository#number``. ``session`` is the small
    run that shows it, or why there is none. ``peer`` are the fields of ``kvwire.peers.adapter.Peer`` that it sets;
    ``module`` is where its class stands.
    """

    name: str
    primary: str
    change: str
    expected: Mapping[ControlLevel, frozenset[str]]
    levels: tuple[ControlLevel, ...]
    reason: str
    reports: tuple[str, ...]
    session: Session | str
    peer: Mapping[str, Any]
    module: str


class MutantError(ValueError):
    """What is said of a mutant is not complete, or is of nothing; the message names it."""


class PeerFields(TypedDict, total=False):
    """The fields of a ``Peer`` that a mutant may set beside its class."""

    algorithm: str
    multimodal: bool
    salt: Literal["none", "tag"]
    heartbeat: float
    statement: Mapping[str, Any]
    make_publisher: MakePublisher


class Serving(ZmqPublisher):
    """The publisher with another replay server."""

    def __init__(self, server: type[ReplayServer], config: PublisherConfig) -> None:
        self._server = server
        super().__init__(config)

    def _open_replay(self) -> ReplayServer:
        return self._server(super()._open_replay().router, self._ring, self.config.replay_limits)


class Announcing(CacheEngine):
    """The engine with another announcer."""

    def __init__(self, announcer: type[Announcer], outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        self.announcer = announcer(self.announcer.form)


Part = TypeVar("Part", bound=type[ZmqPublisher] | type[ReplayServer] | type[CacheEngine] | type[Announcer])

declared: dict[str, Mutant] = {}
"""By name, every mutant whose module was imported."""


def mutant(
    name: str,
    *,
    breaks: str = "",
    change: str = "",
    session: Session | str = "",
    also: str = "",
    passive: str = "",
    replayable: str = "",
    driven: str = "",
    levels: tuple[ControlLevel, ...] = LEVELS,
    reason: str = "",
    reports: str = "",
    **peer: Unpack[PeerFields],
) -> Callable[[Part], Part]:
    """Mark the class that is changed. Ids are written without ``KVW-``; ids and reports are divided by spaces.

    ``breaks`` is the primary sentence; ``also`` speaks wherever it does, ``passive``, ``replayable`` and ``driven``
    add ids at one level of control. At any other place nobody may speak.

    Raises:
        MutantError: when a part is missing or unknown, or the name is taken.
    """
    extra = {"passive": passive, "replayable": replayable, "driven": driven}
    faults = [f"{part} is missing" for part, given in (("breaks", breaks), ("change", change)) if not given]
    if not session:
        faults.append("session is missing, and so is the reason why there is none")
    used = (*levels, session.level) if isinstance(session, Session) else levels
    faults += [f"there is no level {level!r}" for level in used if level not in LEVELS]
    faults += [f"a mutant sets no {field!r}" for field in peer if field not in PeerFields.__annotations__]
    if name in declared:
        faults.append(f"{declared[name].module} has one of that name")
    if faults:
        raise MutantError(f"mutant {name!r}: {'; '.join(faults)}")

    def mark(part: Part) -> Part:
        speaks = _ids(f"{breaks} {also}")
        declared[name] = Mutant(
            name=name,
            primary=f"KVW-{breaks}",
            change=change,
            expected={level: (speaks if level in levels else frozenset()) | _ids(extra[level]) for level in LEVELS},
            levels=levels,
            reason=reason,
            reports=tuple(reports.split()),
            session=session,
            peer={**made_of(part), **peer},
            module=part.__module__,
        )
        return part

    return mark


def _ids(text: str) -> frozenset[str]:
    return frozenset(f"KVW-{part}" for part in text.split())


def made_of(part: type[ZmqPublisher] | type[ReplayServer] | type[Engine] | type[Announcer]) -> dict[str, Any]:
    """The field of a ``Peer`` that brings a changed part in."""
    if issubclass(part, ZmqPublisher):
        return {"make_publisher": part}
    if issubclass(part, ReplayServer):
        return {"make_publisher": partial(Serving, part)}
    if issubclass(part, Announcer):
        return {"make_engine": partial(Announcing, part)}
    return {"make_engine": part}
