"""What an honest peer is: a publisher that is conformant, how it is unlike the reference, and what it must pass.

``@honest(...)`` on the class of an engine, an announcer, a publisher or a replay server says all there is to say of it.
A peer that only is configured otherwise is marked on the part of the reference that it configures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, Unpack

import msgspec

from kvwire.peers.adapter import Engine, MakeEngine, MakePublisher
from kvwire.peers.mutant import made_of
from kvwire.standard.protocol import Start
from kvwire.standard.registry import LEVELS, ControlLevel
from kvwire_reference.announcer import Announcer
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.replay import ReplayServer

PROBES = ("live", "prompts", "reset", "residency", "restart")
"""The small run of an honest peer, unless said otherwise."""


class Honest(msgspec.Struct, frozen=True, kw_only=True):
    """One publisher of whom nobody may speak.

    ``unlike`` says in one sentence what is unlike the reference. ``passes`` holds, per level of control, the ids that
    must pass in a small run, ``open`` those of the profile's ``conclusive`` list that a whole run may leave open.
    ``breaks`` are ids that it is rightly heard for, as the standard allows nobody to be so, and ``reason`` says why it
    is here all the same. ``start`` is what it is started with, ``probes`` and ``profile`` are those of the small run.
    ``peer`` are the fields of ``kvwire.peers.adapter.Peer`` that it sets; ``api`` is how its engine is reached where
    that is no adapter.
    """

    name: str
    unlike: str
    passes: Mapping[ControlLevel, frozenset[str]]
    open: frozenset[str]
    breaks: frozenset[str]
    reason: str
    start: Start
    probes: tuple[str, ...]
    profile: str
    peer: Mapping[str, Any]
    module: str
    api: bool = False

    @property
    def target(self) -> str:
        """What ``kvwire check`` calls it."""
        return f"honest:{self.name}"


class HonestError(ValueError):
    """What is said of an honest peer is not complete, or is of nothing; the message names it."""


class PeerFields(TypedDict, total=False):
    """The fields of a ``Peer`` that an honest one may set beside its class."""

    algorithm: str
    multimodal: bool
    salt: Literal["none", "tag"]
    heartbeat: float
    statement: Mapping[str, Any]
    make_engine: MakeEngine
    make_publisher: MakePublisher
    scheme: Literal["ipc", "tcp"]
    mode: Literal["connect", "bind"]


Part = TypeVar("Part", bound=type[ZmqPublisher] | type[ReplayServer] | type[Engine] | type[Announcer])

declared: dict[str, Honest] = {}
"""By name, every honest peer whose module was imported."""


def honest(
    name: str,
    *,
    unlike: str = "",
    passes: str = "",
    passive: str = "",
    replayable: str = "",
    open: str = "",  # noqa: A002 - the word for it
    breaks: str = "",
    reason: str = "",
    start: Start | None = None,
    probes: tuple[str, ...] = PROBES,
    profile: str = "replay",
    api: bool = False,
    **peer: Unpack[PeerFields],
) -> Callable[[Part], Part]:
    """Mark the class that makes the difference. Ids are written without ``KVW-`` and divided by spaces.

    ``passes`` must pass where the peer is driven, ``replayable`` and ``passive`` at those levels.

    Raises:
        HonestError: when a part is missing, or the name is taken.
    """
    faults = [f"{part} is missing" for part, given in (("unlike", unlike), ("passes", passes)) if not given]
    if breaks and not reason:
        faults.append(f"reason is missing: why is it here although it breaks {breaks}?")
    if name in declared:
        faults.append(f"{declared[name].module} has one of that name")
    if faults:
        raise HonestError(f"honest peer {name!r}: {'; '.join(faults)}")

    def mark(part: Part) -> Part:
        given = {"passive": passive, "replayable": replayable, "driven": passes}
        declared[name] = Honest(
            name=name,
            unlike=unlike,
            passes={level: _ids(given[level]) for level in LEVELS},
            open=_ids(open),
            breaks=_ids(breaks),
            reason=reason,
            start=start or Start(),
            probes=probes,
            profile=profile,
            peer={**made_of(part), **peer},
            module=part.__module__,
            api=api,
        )
        return part

    return mark


def _ids(text: str) -> frozenset[str]:
    return frozenset(f"KVW-{part}" for part in text.split())
