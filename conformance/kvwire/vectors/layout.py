"""How the files of ``vectors/`` are laid out: canonical bytes, one test, note or file a line, so that diffs are small.

Members stand in the order of ``kvwire.vectors.model``, notes sorted by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kvwire.vectors.model import Manifest

_ID = re.compile(r'"(?:id|path)":"([^"]+)"')
_NOTE = re.compile(r'\s*"([^"]+)":\{"kind"')


def line(value: Any) -> str:
    """One value on one line, without spaces."""
    return msgspec.json.encode(value).decode()


def _members(value: Any, leave_out: str) -> str:
    """The members of a struct but one, as ``"a":…,"b":…``; absent ones stay absent."""
    members = {name: member for name, member in msgspec.to_builtins(value).items() if name != leave_out}
    return line(members)[1:-1]


def write(file: Any, **members: Mapping[str, Any] | Iterable[str]) -> bytes:
    """The bytes of a file: its head, then objects (one member a line) and lists (of lines with their indent)."""
    parts = [f' "{name}":{line(getattr(file, name))}' for name in ("schema", "spec_edition", "generator", "count")]
    for name, items in members.items():
        if isinstance(items, Mapping):
            lines = [f"  {line(key)}:{line(value)}" for key, value in items.items()]
            parts.append(f' "{name}":{{\n' + ",\n".join(lines) + "\n }")
        else:
            parts.append(f' "{name}":[\n' + ",\n".join(items) + "\n ]")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def lines(items: Iterable[Any], indent: str = "  ") -> list[str]:
    """One value a line."""
    return [indent + line(item) for item in items]


def write_file(file: Any) -> bytes:
    """The bytes of a file of tests."""
    groups = [
        f' {{{_members(group, "tests")},\n  "tests":[\n' + ",\n".join(lines(group.tests, "   ")) + "\n  ]}"
        for group in file.groups
    ]
    return write(file, notes=dict(sorted(file.notes.items())), groups=groups)


def write_manifest(manifest: Manifest) -> bytes:
    """The bytes of ``MANIFEST.json``."""
    return write(manifest, files=lines(manifest.files))


def name_of(text: str) -> str | None:
    """The id of the test, the path of the file or the name of the note that a line holds; None when it holds none."""
    match = _ID.search(text) or _NOTE.match(text)
    return None if match is None else match[1]
