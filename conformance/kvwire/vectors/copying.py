"""Copies of the vectors for other projects."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from kvwire.standard import reading
from kvwire.standard.registry import UnknownNameError
from kvwire.vectors import identities, manifest
from kvwire.vectors.layout import write_manifest
from kvwire.vectors.manifest import EDITION_FILE, DamageError
from kvwire.vectors.model import Listed, Manifest
from kvwire.vectors.sessions import PATH, SUFFIX

BESIDE = ("LICENSE", "README.md", EDITION_FILE, identities.NAME)
"""What goes with every copy, besides the manifest."""


def choose(contents: Manifest, names: tuple[str, ...]) -> tuple[Listed, ...]:
    """The files of these kinds (``hash``) or names (``hash/v1_block_key``); all of them for no name.

    With the trace of a session comes ``session/sessions.json``, which says what it is.

    Raises:
        UnknownNameError: for a name that fits no file; the message lists what there is.
    """
    if not names:
        return contents.files
    chosen: set[str] = set()
    for name in names:
        found = {f.path for f in contents.files if name in (f.path, f.path.rpartition(".")[0], f.path.split("/")[0])}
        if not found:
            kinds = sorted({f.path.split("/")[0] for f in contents.files})
            files = [f.path.removesuffix(".json") for f in contents.files if not f.path.endswith(SUFFIX)]
            files += ["session/NAME"] * (len(files) < len(contents.files))
            raise UnknownNameError(f"no vectors {name!r}; there are {', '.join(kinds)}, in them {', '.join(files)}")
        chosen |= found
    if any(path.endswith(SUFFIX) for path in chosen):
        chosen.add(PATH)
    return tuple(f for f in contents.files if f.path in chosen)


def export(source: Path, target: Path, names: tuple[str, ...]) -> tuple[Listed, ...]:
    """Copy vectors, with a manifest of what is copied; what an earlier copy left there goes.

    Raises:
        UnknownNameError: for a name that fits no file.
        DamageError: when the source is damaged.
        FileExistsError: when the target holds something else than an earlier copy.
    """
    contents = manifest.read(source)
    chosen = choose(contents, names)
    if found := manifest.damage(source):
        raise DamageError("; ".join(found))
    if target.exists():
        _clear(target)
    copied = msgspec.structs.replace(contents, files=chosen, count=sum(len(entry.ids) for entry in chosen))
    target.mkdir(parents=True, exist_ok=True)
    (target / manifest.NAME).write_bytes(write_manifest(copied))  # first: what breaks off can be begun again
    for path in (*(entry.path for entry in chosen), *BESIDE):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, target / path)
    return chosen


def differing(source: Path, target: Path) -> list[str]:
    """What differs between a copy and its source, a line each; names that the copy left out do not count.

    Raises:
        DamageError: when the target holds no copy.
    """
    held = {entry.path: entry for entry in manifest.read(source).files}
    found = []
    for entry in manifest.read(target).files:
        here, there = target / entry.path, source / entry.path
        if entry.path not in held:
            found.append(f"{entry.path}: not in this edition any more")
        elif not here.is_file():
            found.append(f"{entry.path}: missing")
        elif here.stat().st_size != there.stat().st_size or here.read_bytes() != there.read_bytes():
            found.append(f"{entry.path}: other bytes")
    return found


def _clear(target: Path) -> None:
    if not target.is_dir():
        raise FileExistsError(f"{target} is a file: name a folder")
    if not any(target.iterdir()):
        return
    if not (target / manifest.NAME).is_file():
        raise FileExistsError(f"{target} is not empty and holds no earlier copy: name a new folder")
    for entry in manifest.read(target).files:
        path = target / entry.path
        if reading.real(target) in reading.real(path).parents:
            path.unlink(missing_ok=True)
