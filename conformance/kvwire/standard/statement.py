"""The conformance statement, ``kvwire.toml``: what a publisher declares about itself (spec/statement.md).

Whatever a sentence of the standard calls "declared" stands here; an absent field has the default that the standard
states. Adapters return it in ``hello``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from kvwire.standard import reading, registry

EDITIONS = ("1",)
"""The editions that this harness knows."""

Form = Literal["map", "array-v", "array-s"]
Residency = Literal["set", "refresh", "counted"]
Salt = Literal["none", "tag", "clear"]

MOST = 2**31 - 1
"""The largest count, size or number that can be declared."""
DAY_S = 86_400.0
Count = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Index = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=DAY_S)]
Milliseconds = Annotated[float, msgspec.Meta(gt=0, le=1000 * DAY_S)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Endpoint = Annotated[str, msgspec.Meta(pattern=r"^[a-z]+://.+$")]

LOCATION_UPDATES = "location_updates"
PARTIAL_ENTRIES = "partial_entries"
"""Extensions that say which stores are no full blocks."""
EXTENSIONS = ("end_payload", LOCATION_UPDATES, PARTIAL_ENTRIES)
"""Those of the standard; others begin with ``x-``."""


class StatementError(ValueError):
    """The statement cannot be used; the message names the field and the way out."""


class Implementation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose publisher it is."""

    name: Name
    version: str = ""


class Stream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One stream: one endpoint, one counter, one rank.

    ``endpoint`` and ``replay`` are ZeroMQ endpoints as a client reaches them. ``mode`` is ``connect`` (the publisher
    binds, as the standard asks) or ``bind`` (the publisher dials and the harness binds). ``topic`` and ``rank`` of
    None are not declared. ``algorithm`` of None: that of the statement.
    """

    endpoint: Endpoint
    name: str = ""
    replay: Endpoint | None = None
    topic: str | None = None
    rank: Index | None = None
    mode: Literal["connect", "bind"] = "connect"
    algorithm: Name | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One cache group: its ``group_idx``, kind, window and block size in tokens, and residency policy.

    A ``kind`` of None is not declared. A ``window`` of None is none where a kind is declared, and not declared where
    none is. A ``block_size`` or ``residency`` of None is that of the statement.
    """

    idx: Index = 0
    kind: str | None = None
    window: Count | None = None
    block_size: Count | None = None
    residency: Residency | None = None


class Medium(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One medium whose residency policy differs from that of its groups and of the statement."""

    medium: Name
    residency: Residency


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Declared bounds, seconds unless said, with the standard's defaults."""

    reset_visible_s: Seconds = 5.0
    replay_resume_s: Seconds = 10.0
    live_delay_s: Seconds = 1.0
    stop_s: Seconds = 1.0
    publish_ms: Milliseconds = 100.0
    replay_clients: Count = 16
    replay_waiting: Count = 8
    heartbeat_s: Seconds | None = None


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A conformance statement.

    ``algorithm`` is a wire algorithm of the registry, a named foreign function, ``opaque``, or None (not declared).
    ``residency`` is the policy where neither a group nor a medium has its own. ``salt`` is how events tell of cache
    salts, ``scope_key`` whether their tags are made with a deployment key. ``ring`` is the number of batches retained
    for replay, ``queue`` the declared capacity of the publisher's queue in batches. ``default_endpoint`` is what the
    publisher binds when nobody says where. ``window_memory`` is how many blocks of window groups are remembered.
    """

    edition: str = "1"
    profile: Name | None = None
    implementation: Implementation | None = None
    form: Form = "map"
    algorithm: Name | None = None
    residency: Residency = "set"
    salt: Salt = "none"
    scope_key: bool = False
    replay_form: Literal["replay-topic", "replay-bare", "none"] | None = None
    ring: Count | None = None
    queue: Count | None = None
    block_size: Count | None = None
    default_endpoint: Name | None = None
    window_memory: Count = 65536
    groups: tuple[Group, ...] = ()
    media: tuple[Medium, ...] = ()
    bounds: Bounds = Bounds()
    extensions: tuple[str, ...] = ()
    streams: tuple[Stream, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of the statement, hashed into every result."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    def group(self, idx: int) -> Group | None:
        """What is declared of a group; None when nothing is."""
        return next((group for group in self.groups if group.idx == idx), None)

    def declared_block_size(self, idx: int) -> int | None:
        """The block size that is declared for a group, in tokens; None when none is.

        That of the top level is for group 0 and declared groups: any other one is taken as its stores describe it.
        """
        group = self.group(idx)
        if group is None:
            return None if idx else self.block_size
        return self.block_size if group.block_size is None else group.block_size

    def residency_of(self, medium: str | None, idx: int) -> Residency:
        """The residency policy of a medium and group: the most particular one that is declared."""
        for declared in self.media:
            if declared.medium == medium:
                return declared.residency
        group = self.group(idx)
        return self.residency if group is None or group.residency is None else group.residency

    def of_stream(self, name: str) -> Statement:
        """What is declared of one stream: its own ``algorithm`` takes the place of that of all streams."""
        own = next((stream.algorithm for stream in self.streams if stream.name == name), None)
        return self if own is None else msgspec.structs.replace(self, algorithm=own)

    def started(
        self, *, ring: int | None, queue: int | None, block_size: int | None, groups: tuple[Group, ...] = ()
    ) -> Statement:
        """What is declared, with what a publisher was started with instead of its defaults.

        Another block size makes others of groups too, which are then not declared, unless it was started with groups.
        """
        everywhere = block_size or self.block_size
        declared = self.groups
        if everywhere != self.block_size and any(group.block_size is not None for group in declared):
            declared = tuple(
                msgspec.structs.replace(group, block_size=None if group.block_size is not None else everywhere)
                for group in declared
            )
            everywhere = block_size if groups else None
        return msgspec.structs.replace(
            self,
            ring=ring or self.ring,
            queue=queue or self.queue,
            block_size=everywhere,
            groups=groups or declared,
        )


def problem(statement: Statement) -> tuple[tuple[str | int, ...], str] | None:
    """What no type says of a statement and does not fit: where, and why; None when all does."""
    if statement.edition not in EDITIONS:
        seen, known = reading.shown(statement.edition), ", ".join(map(repr, EDITIONS))
        return ("edition",), f"edition {seen} is unknown; this harness knows edition {known}"
    if statement.profile is not None:
        try:
            registry.profile(statement.profile)
        except registry.UnknownNameError as error:
            return ("profile",), str(error)
    for at, name in enumerate(statement.extensions):
        if name not in EXTENSIONS and not name.startswith("x-"):
            known = ", ".join(EXTENSIONS)
            why = f"no extension {reading.shown(name)}; there are {known}, and those of others begin with x-"
            return ("extensions", at), why
    for field, what, declared in (
        ("streams", "streams have one name", [stream.name or None for stream in statement.streams]),
        ("groups", "groups have one idx", [group.idx for group in statement.groups]),
        ("media", "media have one name", [medium.medium for medium in statement.media]),
        ("extensions", "extensions have one name", statement.extensions),
    ):
        if (twice := next(_twice(declared), None)) is not None:
            return (field, twice), f"two {what}: {reading.shown(declared[twice])}"
    return None


def _twice(values: Sequence[object]) -> Iterator[int]:
    return (at for at, value in enumerate(values) if value is not None and value in values[:at])


def convert(raw: Any, where: str, text: str = "") -> Statement:
    """The statement of a decoded object; ``text`` is the TOML that it comes from, for the line.

    Raises:
        StatementError: when a field is unknown or has a wrong value; the message names ``where``, the field, its value
            and what it may be.
    """
    try:
        statement = msgspec.convert(raw, Statement)
    except msgspec.ValidationError as error:
        raise StatementError(
            f"{where}{reading.complaint(error, raw, text)}; the fields are described in spec/statement.md and "
            "spec/schemas/statement.schema.json"
        ) from None
    if (found := problem(statement)) is not None:
        place, why = found
        line = reading.line_of(text, place) if text else None
        raise StatementError(f"{where}{'' if line is None else f', line {line}'}: `{reading.path_of(place)}`: {why}")
    return statement


def read(path: Path) -> Statement:
    """The statement of a TOML file.

    Raises:
        StatementError: when the file cannot be read or is no statement.
    """
    try:
        raw, text = reading.toml(path)
    except reading.TomlError as error:
        raise StatementError(str(error)) from None
    return convert(raw, str(path), text)
