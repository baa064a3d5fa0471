"""Whether the profiles of the standard (spec/profiles/*.json) fit its registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec

from kvwire.standard.prose import Problem
from kvwire.standard.registry import ControlLevel, Profile, Registry, UnknownNameError

FOLDER = "profiles"
LEVELS: tuple[str, ...] = get_args(ControlLevel)
_BEYOND = {"passive": frozenset({"passive"}), "replayable": frozenset({"passive", "replayable"})}
"""What a judge can get at a level; a driven run can have any verb."""


def _faults(profile: Profile, registry: Registry) -> Iterator[tuple[str, str]]:
    """Id and fault, for every id of one profile that does not fit."""
    for name in sorted({name for name in profile.ids if profile.ids.count(name) > 1}):
        yield name, "listed twice: remove one"
    for name in profile.ids:
        if name not in registry:
            yield name, _unknown(name, registry)
        elif registry[name].binds != "publisher":
            yield name, f"binds a {registry[name].binds}, and profiles are about publishers: remove it"
    if tuple(profile.conclusive) != LEVELS:
        yield "", f"`conclusive` needs the levels {', '.join(LEVELS)}, in this order"
    for level, names in profile.conclusive.items():
        for name in names:
            if name not in profile.ids:
                yield name, f"wanted conclusive at level {level}, but not in `ids`: add it there or remove it here"
            elif name in registry and (fault := _out_of_reach(level, name, registry)):
                yield name, f"wanted conclusive at level {level}, but {fault}: remove it"


def _unknown(name: str, registry: Registry) -> str:
    try:
        return f"ids stand in full here: write {registry.resolve(name)}"
    except UnknownNameError:
        return "the standard does not have this id: correct or remove it"


def _out_of_reach(level: str, name: str, registry: Registry) -> str:
    requirement = registry[name]
    if requirement.judged is None:
        return f"it is not judged ({requirement.status})"
    if beyond := sorted(set(requirement.needs) - _BEYOND.get(level, set(requirement.needs))):
        return f"its judge needs {', '.join(beyond)}"
    return ""


def problems(folder: Path, registry: Registry) -> list[Problem]:
    """Every fault of the profiles of a ``spec`` folder, and publishers' ids that no profile lists."""
    found: list[Problem] = []
    listed: set[str] = set()
    for path in sorted((folder / FOLDER).glob("*.json")):
        file = f"{folder.name}/{FOLDER}/{path.name}"
        try:
            profile = msgspec.json.decode(path.read_bytes(), type=Profile)
        except msgspec.MsgspecError as error:
            found.append(Problem(file, 0, "", f"not a profile: {error}; see {folder.name}/schemas/profile.schema.json"))
            continue
        listed.update(profile.ids)
        if (profile.profile, profile.edition) != (path.stem, registry.edition):
            message = (
                f"it calls itself {profile.profile!r} of edition {profile.edition!r}: name it as the file is named"
            )
            found.append(Problem(file, 0, "", message))
        found += [Problem(file, 0, name, fault) for name, fault in _faults(profile, registry)]
    for requirement in registry.binding("publisher"):
        if requirement.id not in listed:
            message = "no profile lists it, so no run would judge it: add it to one"
            found.append(Problem(f"{folder.name}/{FOLDER}", 0, requirement.id, message))
    return found
