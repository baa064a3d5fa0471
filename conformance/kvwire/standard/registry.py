"""Requirements as data: the generated registry of the standard, and its profiles."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from kvwire.standard import reading, resources

Level = Literal["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"]
Binds = Literal["publisher", "consumer", "replay-client"]
DecidedBy = Literal["envelope", "encoder", "engine", "ts", "rank"]

ControlLevel = Literal["passive", "replayable", "driven"]
"""What a run may do: listen, ask the replay socket too, or drive the publisher."""
LEVELS: tuple[ControlLevel, ...] = get_args(ControlLevel)
"""The levels of control, each with all that the one before it can do."""

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
        return area_of(self.id)

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


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Which requirements apply, and which of them must be conclusive at which level of control.

    ``conclusive`` has every level; what one wants, the next one wants too. ``form`` as in ``ProfileFile``.
    """

    profile: str
    edition: str
    title: str
    form: Literal["array-v", "array-s"] | None = None
    ids: tuple[str, ...]
    conclusive: dict[str, tuple[str, ...]]


class ProfileFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A profile as its file says it (spec/profiles/NAME.json): what it adds to the profiles that it extends.

    ``without`` are ids and areas that it leaves out of what those have. ``sentences`` are the ids that it adds, each
    with the lowest level of control that has to bring it to a conclusion, None where no level has to; an id that it has
    by extension stands there when it is wanted from a lower level on. ``form`` is the legacy form of events that a
    stream of the profile has, whatever it declares.
    """

    profile: str
    edition: str
    title: str
    form: Literal["array-v", "array-s"] | None = None
    extends: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    sentences: dict[str, ControlLevel | None] = {}


JOINS = "+"
"""Stands between the names of profiles whose union is meant."""


class ProfileError(ValueError):
    """Profiles that extend each other in a circle, or one that there is not; the message names them."""


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


_FILE, _PROFILE = msgspec.json.Decoder(_File), msgspec.json.Decoder(ProfileFile)


def decoded(raw: bytes) -> Registry:
    """The registry that a file holds.

    Raises:
        msgspec.MsgspecError: when it is none.
    """
    file = reading.json(_FILE.decode, raw)
    return Registry(file.edition, file.requirements)


def read(path: Path) -> Registry:
    """Read a registry file."""
    return decoded(path.read_bytes())


def dump(edition: str, requirements: tuple[Requirement, ...]) -> bytes:
    """The registry file for these requirements, canonical bytes."""
    return msgspec.json.format(msgspec.json.encode(_File(edition=edition, requirements=requirements)), indent=1) + b"\n"


@functools.cache
def load() -> Registry:
    """The registry that this installation carries."""
    return read(resources.spec() / "requirements.json")


# --- profiles ----------------------------------------------------------------------------------------------------


def area_of(requirement_id: str) -> str:
    """The area of an id, as in ``SEQ``."""
    return requirement_id.split("-")[1]


def lower(one: ControlLevel | None, other: ControlLevel | None) -> ControlLevel | None:
    """The lower of two levels; None is above them all."""
    return next((level for level in LEVELS if level in (one, other)), None)


Wanted = dict[str, ControlLevel | None]
"""Ids, each with the lowest level of control that has to bring it to a conclusion."""


def united(names: tuple[str, ...], files: Mapping[str, ProfileFile], way: tuple[str, ...] = ()) -> Wanted:
    """What any of these profiles has, ``way`` being the profiles that led to them.

    Raises:
        ProfileError: when one extends itself, or is not among the files.
    """
    found: Wanted = {}
    for name in names:
        if name in way:
            raise ProfileError(f"it extends itself: {' → '.join((*way[way.index(name) :], name))}")
        if name not in files:
            raise ProfileError(f"{way[-1]} extends {name!r}, and there is no such profile: {', '.join(sorted(files))}")
        file = files[name]
        extended = united(file.extends, files, (*way, name))
        kept = ((one, level) for one, level in extended.items() if not {one, area_of(one)} & set(file.without))
        for one, level in (*kept, *file.sentences.items()):
            found[one] = lower(level, found.get(one))
    return found


def resolve(name: str, files: Mapping[str, ProfileFile]) -> Profile:
    """A profile with all that it has by extension, its ids in the order of the areas; ``+`` joins several.

    Raises:
        ProfileError: when one extends itself, or one that is not among the files.
    """
    parts = name.split(JOINS)
    found = united(tuple(parts), files)
    ids = tuple(sorted(found, key=lambda one: (AREAS.index(area_of(one)), one)))
    return Profile(
        profile=name,
        edition=files[parts[0]].edition,
        title="; ".join(files[part].title for part in parts),
        form=next((files[part].form for part in parts if files[part].form is not None), None),
        ids=ids,
        conclusive={level: tuple(i for i in ids if lower(found[i], level) == found[i]) for level in LEVELS},
    )


@functools.cache
def _files() -> dict[str, ProfileFile]:
    """The profiles of this edition as their files say them."""
    paths = sorted((resources.spec() / "profiles").glob("*.json"))
    return {path.stem: profile_of(path.read_bytes()) for path in paths}


def profile_of(raw: bytes) -> ProfileFile:
    """The profile that a file holds.

    Raises:
        msgspec.MsgspecError: when it is none.
    """
    return reading.json(_PROFILE.decode, raw)


def profiles() -> tuple[str, ...]:
    """The names of the profiles of this edition."""
    return tuple(_files())


@functools.cache
def profile(name: str) -> Profile:
    """One profile, or the union of several, joined by ``+``.

    Raises:
        UnknownNameError: when there is none of that name.
    """
    if unknown := [part for part in name.split(JOINS) if part not in _files()]:
        raise UnknownNameError(f"no profile {unknown[0]!r}; there are {', '.join(profiles())}, and `+` joins several")
    return resolve(name, _files())
