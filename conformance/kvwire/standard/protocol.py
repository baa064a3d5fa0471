"""The adapter protocol: how the harness drives a publisher that it did not write (spec/schemas/adapter.schema.json).

An adapter is a child process that speaks newline-delimited JSON: one request a line on its standard input, one answer
a line on its standard output, in order. Every 64-bit number is a decimal string; a batch travels as its JSON
projection. A request is ``{"id": 1, "verb": "hello", …}``; its answer carries the same ``id`` and exactly one of
``ok`` (an object), ``unsupported`` (the verb), ``refused`` (a text) or ``error`` (a text).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, get_args

import msgspec

from kvwire.standard.statement import Endpoint, Group, Index

PROTOCOL = "kvwire-adapter-1"
"""What ``hello`` returns, alone or with a minor version behind it: ``kvwire-adapter-1.1``."""
MINOR = 1
"""The newest minor version. Another adds verbs, options of ``start`` and fields of answers, none of which has to be
there; an adapter of an older one goes on as it is.
"""

Verb = Literal["hello", "start", "publish", "burst", "cache", "resident", "reset", "fault", "stats", "restart", "stop"]
VERBS: tuple[str, ...] = get_args(Verb)
"""Every verb, defined from the start; an adapter may answer ``unsupported`` to any but hello, start and stop."""

Sets = Literal["envelope", "encoder", "engine", "ts", "rank"]
"""Who chooses what a sentence speaks of (the ``decided_by`` of the registry)."""
SETS: tuple[str, ...] = get_args(Sets)

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A counter, a time or a size in an answer."""
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Decimal = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,20}\Z")]
"""An integer of 64 bits, of any sign."""


def minor_of(protocol: str) -> int | None:
    """The minor version that a ``protocol`` names, 0 where it names none; None when it is another protocol."""
    found = re.fullmatch(rf"{PROTOCOL}(?:\.(0|[1-9][0-9]{{0,8}}))?", protocol)
    return None if found is None else int(found[1] or 0)


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Who the adapter is.

    ``can`` lists the verbs that it answers, ``sets`` what it or the harness chooses instead of the publisher,
    ``statement`` is the conformance statement of the publisher as an object.
    """

    protocol: str
    implementation: str
    version: str
    statement: dict[str, Any] = msgspec.field(default_factory=dict)
    can: list[str] = msgspec.field(default_factory=list)
    sets: list[str] = msgspec.field(default_factory=list)


class EngineGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cache group that the engine is to have: index, kind, window and block size in tokens, as in a statement.

    ``announced`` is false for one that no event speaks of.
    """

    idx: int = 0
    kind: str | None = None
    window: int | None = None
    block_size: int | None = None
    announced: bool = True


def declared(groups: Iterable[EngineGroup] | None) -> tuple[Group, ...]:
    """What a publisher declares that was started with these groups: those that it announces."""
    return tuple(
        Group(idx=group.idx, kind=group.kind, window=group.window, block_size=group.block_size)
        for group in groups or ()
        if group.announced
    )


class EngineTier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A medium behind the one in which the engine computes: so many blocks go there when they leave that one.

    ``announced`` is false where no event speaks of it.
    """

    medium: str
    capacity: int
    announced: bool = True


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``start`` asks for; an absent field leaves the choice to the adapter.

    ``endpoint`` and ``replay`` are taken literally or refused; without them the adapter chooses loopback or ipc and
    reports it. ``replay`` of ``"none"`` asks for no replay socket; ``ephemeral`` permits port 0, for a port of the
    system's choice, which is then reported. ``queue`` is the publisher's queue in batches,
    ``hwm`` the send high-water mark in messages, ``ring`` the batches retained for replay, ``cap`` the stored blocks
    per iteration, ``block_size`` tokens, ``capacity`` the cache in blocks. ``groups`` are all cache
    groups of the engine, ``tiers`` the media behind the first, ``netting`` that it leaves out what does not outlive an
    iteration. ``tp``, ``pp`` and ``cp`` say over how many
    processes tensors, the pipeline and the context are split, besides the data-parallel ranks of ``world``.
    """

    endpoint: str | None = None
    replay: str | None = None
    topic: str | None = None
    rank: int | None = None
    world: int | None = None
    ranks_per_host: int | None = None
    ephemeral: bool | None = None
    queue: int | None = None
    hwm: int | None = None
    ring: int | None = None
    cap: int | None = None
    block_size: int | None = None
    capacity: int | None = None
    groups: tuple[EngineGroup, ...] | None = None
    tiers: tuple[EngineTier, ...] | None = None
    netting: bool | None = None
    curve: dict[str, Any] | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Where the publisher is bound: the answer to ``start`` and ``restart``. ``mode`` says who binds.

    ``tp``, ``pp`` and ``cp`` are what the publisher was told of its topology: only an adapter that says so has told it.
    """

    endpoint: Endpoint
    replay: Endpoint | None = None
    topic: str = ""
    rank: Whole = 0
    mode: Literal["connect", "bind"] = "connect"
    tp: Size | None = None
    pp: Size | None = None
    cp: Size | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``publish``: whether the publisher took the batch, and how long the call blocked, in µs."""

    accepted: bool
    blocked_us: Natural = 0


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``burst``: for each batch in its order what ``publish`` would have answered."""

    accepted: list[bool]
    blocked_us: list[Natural]


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A multimodal item of a prompt: its digest in hex, and the runs of ``tokens`` that are its own.

    A run is the index of its first token and how many there are. ``uuid`` is the name that a user gave the item.
    """

    digest: str
    runs: tuple[tuple[int, int], ...]
    uuid: str | None = None


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``cache``: how many tokens of the prompt were not computed, as they stood in the cache before it.

    Null when the engine cannot say.
    """

    cached_tokens: Natural | None = None


class Held(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the engine holds in one medium and group: hashes as decimal strings, any sign."""

    medium: str | None = None
    group: Index = 0
    hashes: list[Decimal] = msgspec.field(default_factory=list)


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``resident``: the hashes of the full blocks that the engine holds, as decimal strings, any sign.

    ``places`` has every medium and group of which events speak, empty ones too. An adapter that cannot tell them apart
    leaves it out; its hashes are judged where events speak of one medium and group only.
    """

    hashes: list[Decimal] = msgspec.field(default_factory=list)
    places: list[Held] | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``stats``: batches offered, sent and dropped in one life of the publisher; its memory in bytes.

    The life is the one that runs; after ``stop`` the one that ended.
    """

    offered: Natural | None = None
    sent: Natural | None = None
    dropped: Natural | None = None
    rss: Natural | None = None


class Refused(Exception):
    """The adapter refused a request, with its reason: an answer, not a failure of the adapter."""


class Unsupported(Exception):
    """The adapter does not know the verb, or the publisher cannot do it."""


class AdapterError(Exception):
    """The adapter broke the protocol, reported an error, timed out or died. The message names the line or the cause."""


class Failed(AdapterError):
    """The adapter answered that the request failed; it can be asked for something else."""


class Driver(Protocol):
    """What probes drive a publisher by. Each call raises Refused, Unsupported or AdapterError."""

    @property
    def can(self) -> frozenset[str]:
        """The verbs that the adapter answers."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""

    def hello(self) -> Hello:
        """Ask who the adapter is."""

    def start(self, options: Start) -> Bound:
        """Start the publisher."""

    def publish(self, batch: Mapping[str, Any]) -> Accepted:
        """Offer one batch, given as its JSON projection."""

    def burst(self, batches: Sequence[Mapping[str, Any]]) -> Burst:
        """Offer several batches one right after the other, as a busy engine does.

        They are made ready before the first is offered, or all refused.
        """

    def cache(
        self,
        tokens: Sequence[int | str],
        *,
        lora: str | None = None,
        salt: str | None = None,
        mm: Sequence[Mapping[str, Any]] = (),
    ) -> Cached:
        """Run one prompt through the engine.

        ``lora`` is a decimal LoRA id, ``salt`` the salt's text, ``mm`` has the fields of ``Item``.
        """

    def resident(self) -> Resident:
        """Ask what the engine holds."""

    def reset(self) -> None:
        """Reset the whole cache."""

    def fault(self, kind: str) -> None:
        """Offer a batch that comes to grief: ``encode`` (it cannot be encoded) or ``send`` (it cannot be sent)."""

    def stats(self) -> Stats:
        """Ask for the publisher's counters."""

    def restart(self) -> Bound:
        """End the publisher and start a new life of it on the same endpoints."""

    def stop(self) -> None:
        """Stop the publisher in good order."""
