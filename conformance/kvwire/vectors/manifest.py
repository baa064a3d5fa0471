"""``MANIFEST.json``: what an edition of the vectors consists of, and whether a copy is whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvwire.standard import reading
from kvwire.vectors.model import EDITION, MANIFEST_SCHEMA, TRACE_SCHEMA, Listed, Manifest
from kvwire.vectors.sessions import SUFFIX

NAME = "MANIFEST.json"
EDITION_FILE = "EDITION"
_INSIDE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""A path that stays below its folder."""
_manifest = msgspec.json.Decoder(Manifest)


class _Named(msgspec.Struct):
    id: str


class _Group(msgspec.Struct):
    tests: tuple[_Named, ...]


class _File(msgspec.Struct, kw_only=True):
    """A file whose tests stand in groups or, as known answers do, in one list."""

    schema: str
    count: int
    groups: tuple[_Group, ...] = ()
    answers: tuple[_Named, ...] = ()


class DamageError(ValueError):
    """A copy of the vectors is not what its manifest says; the message names the file and what to do."""


def listed(path: str, data: bytes) -> Listed:
    """One file as the manifest lists it; a trace holds no tests, those who name it do."""
    trace = path.endswith(SUFFIX)
    file = _File(schema=TRACE_SCHEMA, count=0) if trace else msgspec.json.decode(data, type=_File)
    names = [test.id for group in file.groups for test in group.tests] + [answer.id for answer in file.answers]
    return Listed(
        path=path,
        schema=file.schema,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        count=file.count,
        ids=tuple(names),
    )


def build(files: Mapping[str, bytes]) -> Manifest:
    """The manifest of these files, by path."""
    entries = tuple(listed(path, files[path]) for path in sorted(files))
    return Manifest(
        schema=MANIFEST_SCHEMA,
        spec_edition=EDITION,
        generator=__name__,
        count=sum(len(entry.ids) for entry in entries),
        files=entries,
    )


def read(folder: Path) -> Manifest:
    """The manifest of a folder of vectors.

    Raises:
        DamageError: when it is missing, cut short, or of another format.
    """
    path = folder / NAME
    try:
        manifest = reading.json(_manifest.decode, reading.content(path, reading.RESULT_BYTES))
    except FileNotFoundError:
        raise DamageError(f"{path}: there is no manifest here; name a folder of kvwire vectors") from None
    except OSError as error:
        raise DamageError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise DamageError(f"{path}: not a whole manifest ({error}); copy the vectors again") from None
    if manifest.schema != MANIFEST_SCHEMA or manifest.spec_edition != EDITION:
        raise DamageError(
            f"{path}: schema {reading.shown(manifest.schema)}, edition {reading.shown(manifest.spec_edition)}; this "
            f"harness knows {MANIFEST_SCHEMA} of edition {EDITION}"
        )
    for entry in manifest.files:
        if not _INSIDE.fullmatch(entry.path):
            raise DamageError(f"{path}: {reading.shown(entry.path)} is no path inside this folder")
    return manifest


def damage(folder: Path) -> list[str]:
    """Where the files of a folder differ from its manifest: a line per file."""
    found = []
    for entry in read(folder).files:
        path = folder / entry.path
        if not path.is_file():
            found.append(f"{entry.path}: the file is missing")
            continue
        try:
            digest = hashlib.sha256(reading.content(path, reading.RESULT_BYTES)).hexdigest()
        except OSError as error:
            found.append(f"{entry.path}: {error.strerror}")
            continue
        if digest != entry.sha256:
            found.append(f"{entry.path}: its sha256 is {digest}, the manifest says {entry.sha256}")
    return found
