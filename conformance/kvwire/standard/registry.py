"""Requirements as data: the generated registry of the standard, and its profiles."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from kvwire.standard import resources

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"]
Binds = Literal["publisher", "consumer", "replay-client"]
DecidedBy = Literal["envelope", "encoder", "engine", "ts", "rank"]

ControlLevel = Literal["passive", "replayable", "driven"]
"""What a run may do: listen, ask the replay socket too, or drive the publisher."""

Memory = Literal["O(1)", "O(holes)", "O(instances)", "O(requests)", "O(resident)", "O(ring)", "O(window)"]
"""What a judge remembers of a stream, at most."""

AREAS = ("ENV", "SEQ", "BAT", "EVT", "CHN", "HSH", "RES", "REP", "RNK", "END", "LIV", "EXP")
"""The areas of the standard, in the order in which reports show them."""


class Requirement(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """One sentence of the standard.

    ``needs`` is ``["passive"]``, ``["replayable"]``, ``["os"]`` or adapter verbs, all required. Exactly one of
    ``judged`` (the judge's file), ``pending``, ``review`` and ``untestable`` (reasons) is set. ``memory`` is the bound
    that its judge declares.
    """

    id: str
    level: Level
    binds: Binds
    sentence: str
    section: str
    since: str
    needs: tuple[str, ...]
    decided_by: DecidedBy
    memory: Memory | None = None
    judged: str | None = None
    pending: str | None = None
    review: str | None = None
    untestable: str | None = None

    @property
    def area(self) -> str:
        """The area, as in ``SEQ``."""
        return self.id.split("-")[1]

    @property
    def mandatory(self) -> bool:
        """Whether breaking it is FAIL (MUST) rather than WARN (SHOULD)."""
        return self.level.startswith("MUST")

    @property
    def status(self) -> str:
        """``judged``, ``pending``, ``review`` or ``untestable``."""
        for name in ("judged", "pending", "review"):
            if getattr(self, name) is not None:
                return name
        return "untestable"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requirements apply, and which of them must be conclusive at which level of control."""

    profile: str
    edition: str
    title: str
    ids: tuple[str, ...]
    conclusive: dict[str, tuple[str, ...]]


class _File(msgspec.Struct, frozen=True, kw_only=True):
    edition: str
    requirements: tuple[Requirement, ...]


class UnknownNameError(LookupError):
    """An id or profile that the registry does not have; the message lists what it has."""


class Registry:
    """All requirements of one edition, by id."""

    def __init__(self, edition: str, requirements: tuple[Requirement, ...]) -> None:
        self.edition = edition
        self.requirements = requirements
        self._by_id = {requirement.id: requirement for requirement in requirements}

    def __getitem__(self, requirement_id: str) -> Requirement:
        return self._by_id[requirement_id]

    def __contains__(self, requirement_id: object) -> bool:
        return requirement_id in self._by_id

    def resolve(self, text: str) -> str:
        """The id that a user means: ``KVW-SEQ-009``, ``SEQ-009`` or ``seq-9``.

        Raises:
            UnknownNameError: when there is none.
        """
        area, _, number = text.strip().upper().removeprefix("KVW-").partition("-")
        name = f"KVW-{area}-{number.zfill(3)}"
        if name not in self._by_id:
            near = [known for known in self._by_id if known.split("-")[1] in text.upper()]
            hint = f"; of that area: {', '.join(near)}" if near else "; `kvwire list` shows them all"
            raise UnknownNameError(f"no requirement {text!r}{hint}")
        return name

    def select(self, words: Iterable[str]) -> frozenset[str]:
        """The ids that a user names, each word an id as in ``resolve`` or an area such as ``SEQ``.

        Raises:
            UnknownNameError: for a word that is neither.
        """
        found: set[str] = set()
        for word in words:
            area = word.strip().upper()
            found |= {r.id for r in self.requirements if r.area == area} or {self.resolve(word)}
        return frozenset(found)

    def binding(self, who: Binds) -> tuple[Requirement, ...]:
        """The requirements that bind a publisher, consumer or replay client."""
        return tuple(r for r in self.requirements if r.binds == who)


def read(path: Path) -> Registry:
    """Read a registry file."""
    file = msgspec.json.decode(path.read_bytes(), type=_File)
    return Registry(file.edition, file.requirements)


def dump(edition: str, requirements: tuple[Requirement, ...]) -> bytes:
    """The registry file for these requirements, canonical bytes."""
    return msgspec.json.format(msgspec.json.encode(_File(edition=edition, requirements=requirements)), indent=1) + b"\n"


@functools.cache
def load() -> Registry:
    """The registry that this installation carries."""
    return read(resources.spec() / "requirements.json")


def profiles() -> tuple[str, ...]:
    """The names of the profiles of this edition."""
    return tuple(sorted(path.stem for path in (resources.spec() / "profiles").glob("*.json")))


@functools.cache
def profile(name: str) -> Profile:
    """One profile.

    Raises:
        UnknownNameError: when there is none of that name.
    """
    path = resources.spec() / "profiles" / f"{name}.json"
    if name not in profiles():
        raise UnknownNameError(f"no profile {name!r}; there are {', '.join(profiles())}")
    return msgspec.json.decode(path.read_bytes(), type=Profile)
