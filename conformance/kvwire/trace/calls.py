"""Calls of a driver: for each verb of the adapter protocol the arguments of the request beside those of the answer.

A call has the fields of its answer only where it succeeded. The words are those of ``kvwire.standard.protocol``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

import msgspec

from kvwire.standard.protocol import Decimal, EngineGroup, EngineTier, Natural, Start, Whole
from kvwire.standard.statement import Index
from kvwire.trace.detail import Stimulus
from kvwire.wire.endpoint_rules import Asked
from kvwire.wire.events import DIGEST, TWO_64
from kvwire.wire.projection import check_batch

SHOWN = 60
"""How many characters of an argument are shown."""


class Call(Stimulus, frozen=True, kw_only=True):
    """One call. One that failed says how: ``refused`` or ``error`` with a text, ``unsupported`` with the verb."""

    refused: str | None = None
    unsupported: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the publisher carried it out."""
        return self.refused is None and self.unsupported is None and self.error is None

    @property
    def arguments(self) -> dict[str, Any]:
        """What was asked for, as long as there is no answer."""
        own = (name for name in self.__struct_fields__ if name not in Call.__struct_fields__)
        return {name: value for name in own if (value := getattr(self, name)) is not None}

    @property
    def asked_for(self) -> str:
        """The request in a few words, as long as there is no answer: its verb, and each argument or how long it is."""
        told = ", ".join(f"{name} {_brief(value)}" for name, value in self.arguments.items())
        return f"`{self.event}`" + (f" ({told})" if told else "")

    def answered(self, answer: Mapping[str, Any]) -> Self:
        """The same with fields of an answer, or of a failure.

        Raises:
            msgspec.ValidationError: when one is of a wrong type.
        """
        return msgspec.convert({**self.arguments, **answer}, type(self))


class HelloCall(Call, frozen=True, kw_only=True):
    """The adapter was asked who it is."""

    EVENT: ClassVar[str] = "hello"
    protocol: str | None = None
    implementation: str | None = None
    version: str | None = None
    statement: Mapping[str, Any] | None = None
    can: tuple[str, ...] | None = None
    sets: tuple[str, ...] | None = None


class BoundAt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a publisher said that it is; ``mode`` says who binds, the publisher unless it is ``bind``."""

    endpoint: str
    replay: str | None = msgspec.field(default_factory=type(None))  # null is written
    topic: str | None = None
    rank: Whole | None = None
    mode: Literal["connect", "bind"] | None = None
    tp: Whole | None = None
    pp: Whole | None = None
    cp: Whole | None = None

    @property
    def dials(self) -> bool:
        """Whether it connects, and leaves the binding to its subscribers."""
        return self.mode == "bind"


class StartCall(Call, frozen=True, kw_only=True):
    """The publisher was to start with these options; ``bound`` is the answer."""

    EVENT: ClassVar[str] = "start"
    endpoint: str | None = None
    replay: str | None = None
    topic: str | None = None
    rank: Whole | None = None
    world: Whole | None = None
    ranks_per_host: Whole | None = None
    ephemeral: bool | None = None
    queue: Whole | None = None
    hwm: Whole | None = None
    ring: Whole | None = None
    cap: Whole | None = None
    block_size: Whole | None = None
    capacity: Whole | None = None
    groups: tuple[EngineGroup, ...] | None = None
    tiers: tuple[EngineTier, ...] | None = None
    netting: bool | None = None
    curve: Mapping[str, Any] | None = None
    tp: Whole | None = None
    pp: Whole | None = None
    cp: Whole | None = None
    bound: BoundAt | None = None

    @classmethod
    def of(cls, options: Start) -> StartCall:
        """The call that asks for options, without an answer."""
        return msgspec.convert(options, cls, from_attributes=True)

    @property
    def pieces(self) -> bool:
        """Whether a block would lie in pieces on several processes: the pipeline or the context is split."""
        return (self.pp or 1) > 1 or (self.cp or 1) > 1

    @property
    def asked(self) -> Asked:
        """What it says of where to bind."""
        rank = self.rank or 0
        return Asked(
            endpoint=self.endpoint,
            replay=self.replay,
            rank=rank,
            world=self.world or rank + 1,
            ranks_per_host=self.ranks_per_host or 1,
            ephemeral=bool(self.ephemeral),
        )


class PublishCall(Call, frozen=True, kw_only=True):
    """A batch was offered, as its JSON projection; whether it was taken, and how long that took, in µs."""

    EVENT: ClassVar[str] = "publish"
    batch: Mapping[str, Any] | None = None
    accepted: bool | None = None
    blocked_us: Natural | None = None

    def __post_init__(self) -> None:
        """What was offered can be read again."""
        if self.batch is not None:
            check_batch(self.batch)


class BurstCall(Call, frozen=True, kw_only=True):
    """Several batches were offered one right after the other; the answer speaks of each, in their order."""

    EVENT: ClassVar[str] = "burst"
    batches: tuple[Mapping[str, Any], ...] = ()
    accepted: tuple[bool, ...] | None = None
    blocked_us: tuple[Natural, ...] | None = None

    def __post_init__(self) -> None:
        """What was offered can be read again, and each answer speaks of one batch."""
        for batch in self.batches:
            check_batch(batch)
        for name, answers in (("accepted", self.accepted), ("blocked_us", self.blocked_us)):
            if answers and self.batches and len(answers) != len(self.batches):
                raise ValueError(f"{name} speaks of {len(answers)} batches, and {len(self.batches)} were offered")


class CacheCall(Call, frozen=True, kw_only=True):
    """A prompt was run: its tokens as they stand in events (multimodal ones in hex), its LoRA id in decimal, its salt.

    ``cached_tokens`` of them were cached before, as the engine says.
    """

    EVENT: ClassVar[str] = "cache"
    tokens: tuple[int | str, ...]
    lora: Decimal | None = None
    salt: str | None = None
    mm: tuple[Mapping[str, Any], ...] | None = None
    cached_tokens: Natural | None = None

    def __post_init__(self) -> None:
        """Tokens are what can stand in an event."""
        for token in self.tokens:
            if not (0 <= token < TWO_64 if isinstance(token, int) else DIGEST.match(token)):
                raise ValueError(f"token {_brief(token)} is neither an id in 0…2^64−1 nor a digest of 64 hex digits")


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an engine holds in one medium and group: hashes in decimal, of any sign."""

    medium: str | None = None
    group: Index = 0
    hashes: tuple[Decimal, ...] = ()


class ResidentCall(Call, frozen=True, kw_only=True):
    """The engine was asked what it holds: hashes in decimal, of any sign; by medium and group where it says."""

    EVENT: ClassVar[str] = "resident"
    hashes: tuple[Decimal, ...] | None = None
    places: tuple[Place, ...] | None = None

    @property
    def held(self) -> frozenset[int]:
        """The hashes mod 2^64, wherever they are."""
        return _unsigned(self.hashes or ())

    @property
    def by_place(self) -> Mapping[tuple[str | None, int], frozenset[int]] | None:
        """The hashes mod 2^64 by medium and group; None where it does not say."""
        if self.places is None:
            return None
        return {(place.medium, place.group): _unsigned(place.hashes) for place in self.places}


def _unsigned(hashes: Iterable[str]) -> frozenset[int]:
    return frozenset(int(value) % TWO_64 for value in hashes)


class ResetCall(Call, frozen=True, kw_only=True):
    """The whole cache was reset."""

    EVENT: ClassVar[str] = "reset"


class FaultCall(Call, frozen=True, kw_only=True):
    """A batch was offered that comes to grief: ``encode`` (it cannot be encoded) or ``send`` (it cannot be sent)."""

    EVENT: ClassVar[str] = "fault"
    kind: str


class StatsCall(Call, frozen=True, kw_only=True):
    """The publisher's counters: batches offered, sent and dropped since ``start``; its resident memory in bytes."""

    EVENT: ClassVar[str] = "stats"
    offered: Natural | None = None
    sent: Natural | None = None
    dropped: Natural | None = None
    rss: Natural | None = None


class RestartCall(Call, frozen=True, kw_only=True):
    """The publisher was ended, and a new life of it begun on the same endpoints."""

    EVENT: ClassVar[str] = "restart"
    bound: BoundAt | None = None


class StopCall(Call, frozen=True, kw_only=True):
    """The publisher was to stop in good order."""

    EVENT: ClassVar[str] = "stop"


def _brief(value: object) -> str:
    if isinstance(value, Mapping | tuple):
        return f"of {len(value)}"
    text = repr(value.endpoint if isinstance(value, BoundAt) else value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


OFFERING = (PublishCall, BurstCall, FaultCall)
"""The calls that offer batches."""
REPLACING = (StartCall, RestartCall, StopCall)
"""The calls that begin or end a life of the publisher."""
ASKING = (HelloCall, ResidentCall, StatsCall)
"""The calls that ask the publisher to do nothing."""
