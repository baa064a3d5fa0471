"""Whether the profiles of the standard (spec/profiles/*.json) fit its registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from kvwire.standard.prose import Problem
from kvwire.standard.registry import (
    AREAS,
    ProfileError,
    ProfileFile,
    Registry,
    UnknownNameError,
    area_of,
    lower,
    united,
)

FOLDER = "profiles"
_BEYOND = {"passive": frozenset({"passive"}), "replayable": frozenset({"passive", "replayable"})}
"""What a judge can get at a level; a driven run can have any verb."""


def _faults(name: str, files: Mapping[str, ProfileFile], registry: Registry) -> Iterator[tuple[str, str]]:
    """Id and fault, for every entry of one profile that does not fit."""
    extended = united(files[name].extends, files, (name,))
    left_out = files[name].without
    for part in left_out:
        if not any(part in (one, area_of(one)) for one in extended):
            yield part if part not in AREAS else "", f"nothing that it extends has {part}: remove it"
    for requirement_id, level in files[name].sentences.items():
        if requirement_id not in registry:
            yield requirement_id, _unknown(requirement_id, registry)
        elif registry[requirement_id].binds != "publisher":
            binds = registry[requirement_id].binds
            yield requirement_id, f"binds a {binds}, and profiles are about publishers: remove it"
        elif {requirement_id, area_of(requirement_id)} & set(left_out):
            yield requirement_id, "stands under `without` too: remove one"
        elif requirement_id in extended and lower(level, extended[requirement_id]) == extended[requirement_id]:
            yield requirement_id, "what it extends has this id, from the same level or a lower one: remove it"
        elif level is not None and (fault := _out_of_reach(level, requirement_id, registry)):
            yield requirement_id, f"wanted conclusive at level {level}, but {fault}: name another level, or null"


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


def _twice(raw: bytes) -> list[str]:
    """The keys that stand twice in one object of a JSON text; readers of JSON take the last of them in silence."""
    found: list[str] = []

    def object_of(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        found.extend(sorted({key for key in keys if keys.count(key) > 1}))

    json.loads(raw, object_pairs_hook=object_of)
    return found


def problems(folder: Path, registry: Registry) -> list[Problem]:
    """Every fault of the profiles of a ``spec`` folder, and publishers' ids that no profile lists."""
    found: list[Problem] = []
    files: dict[str, ProfileFile] = {}
    listed: set[str] = set()
    for path in sorted((folder / FOLDER).glob("*.json")):
        file = f"{folder.name}/{FOLDER}/{path.name}"
        raw = path.read_bytes()
        try:
            profile = msgspec.json.decode(raw, type=ProfileFile)
        except msgspec.MsgspecError as error:
            found.append(Problem(file, 0, "", f"not a profile: {error}; see {folder.name}/schemas/profile.schema.json"))
            continue
        files[path.stem] = profile
        if (profile.profile, profile.edition) != (path.stem, registry.edition):
            message = (
                f"it calls itself {profile.profile!r} of edition {profile.edition!r}: name it as the file is named"
            )
            found.append(Problem(file, 0, "", message))
        found += [Problem(file, 0, name, "listed twice: remove one") for name in _twice(raw)]
    for name in files:
        file = f"{folder.name}/{FOLDER}/{name}.json"
        try:
            listed.update(united((name,), files))
            found += [Problem(file, 0, about, fault) for about, fault in _faults(name, files, registry)]
        except ProfileError as error:
            found.append(Problem(file, 0, "", str(error)))
    for requirement in registry.binding("publisher"):
        if requirement.id not in listed:
            message = "no profile lists it, so no run would judge it: add it to one"
            found.append(Problem(f"{folder.name}/{FOLDER}", 0, requirement.id, message))
    return found
