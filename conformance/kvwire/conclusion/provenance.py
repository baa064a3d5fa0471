"""What a result follows from: digests of the standard and of the source of the judges."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from kvwire.standard import resources
from kvwire_reference import hashing

ROOMS = ("standard", "wire", "trace", "hashes", "history", "cache", "judges", "conclusion")
"""What a verdict goes through, and the hashing of the reference."""


def _of(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 over the names and SHA-256 sums of files, sorted by name, as ``sha256sum`` prints them."""
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n" for name, path in sorted(files))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@functools.cache
def standard() -> str:
    """The digest of the standard as judges know it: the registry and the profiles."""
    spec = resources.spec()
    named = [spec / "requirements.json", *(spec / "profiles").glob("*.json")]
    return _of((path.relative_to(spec).as_posix(), path) for path in named)


@functools.cache
def judges() -> str:
    """The digest of the source that a verdict goes through."""
    package = Path(__file__).parents[1]
    ours = [path for room in ROOMS for path in (package / room).rglob("*.py")]
    named = [(path.relative_to(package).as_posix(), path) for path in ours]
    return _of([*named, ("hashing.py", Path(hashing.__file__))])
