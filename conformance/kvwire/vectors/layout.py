"""How the files of ``vectors/`` are laid out: canonical bytes, one test, note or file a line, so that diffs are small.

Members stand in the order of ``kvwire.vectors.model``, notes sorted by name.
"""

from __future__ import annotations

import re
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


def _block(items: list[str], indent: str) -> str:
    return ",\n".join(f"{indent}{item}" for item in items)


def write_file(file: Any) -> bytes:
    """The bytes of a file of tests."""
    head = [f'"{name}":{line(getattr(file, name))}' for name in ("schema", "spec_edition", "generator", "count")]
    notes = [f"{line(name)}:{line(file.notes[name])}" for name in sorted(file.notes)]
    groups = [
        f' {{{_members(group, "tests")},\n  "tests":[\n{_block([line(test) for test in group.tests], "   ")}\n  ]}}'
        for group in file.groups
    ]
    text = "{\n" + _block(head, " ")
    text += ',\n "notes":{\n' + _block(notes, "  ") + "\n },\n"
    return (text + ' "groups":[\n' + ",\n".join(groups) + "\n ]\n}\n").encode()


def write_manifest(manifest: Manifest) -> bytes:
    """The bytes of ``MANIFEST.json``."""
    head = [f'"{name}":{line(getattr(manifest, name))}' for name in ("schema", "spec_edition", "generator", "count")]
    files = _block([line(file) for file in manifest.files], "  ")
    return ("{\n" + _block(head, " ") + ',\n "files":[\n' + files + "\n ]\n}\n").encode()


def name_of(text: str) -> str | None:
    """The id of the test, the path of the file or the name of the note that a line holds; None when it holds none."""
    match = _ID.search(text) or _NOTE.match(text)
    return None if match is None else match[1]
