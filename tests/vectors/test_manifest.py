"""The manifest: what there is, that it is whole, and that it follows its schemas."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kvwire import vectors
from kvwire.standard import registry, resources, schemas
from kvwire.trace import files
from kvwire.vectors import access, manifest, sessions
from kvwire.vectors.manifest import DamageError
from kvwire.vectors.model import FILE_TYPES, TRACE_SCHEMA, Listed

FOLDER = resources.vectors()
ENTRIES = vectors.contents().files
MOST_BYTES = 8 * 1024 * 1024


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.schema != TRACE_SCHEMA], ids=lambda entry: entry.path)
def test_every_file_follows_its_schema(entry: Listed) -> None:
    data = json.loads((FOLDER / entry.path).read_bytes())
    kind = "known-answers" if "known-answers" in entry.schema else f"vectors-{entry.schema.split('/')[2]}"
    assert schemas.validate(kind, data) == []
    assert data["schema"] == entry.schema
    assert data["count"] == entry.count
    if entry.schema in FILE_TYPES:
        file = vectors.load(entry.path.removesuffix(".json"))
        assert file.count == len(file.tests) == entry.count
        assert tuple(test.id for test in file.tests) == entry.ids
        for requirement in {r for note in file.notes.values() for r in note.requirements}:
            assert requirement in registry.load()


def test_every_trace_is_a_file_of_its_own_to_the_byte() -> None:
    traces = [entry.path for entry in ENTRIES if entry.schema == TRACE_SCHEMA]
    assert traces == sorted(test.input.trace for test in vectors.load("session/sessions").tests)
    for path in traces:
        assert b"".join(files.lines(files.read(FOLDER / path))) == (FOLDER / path).read_bytes(), path


def test_the_manifest() -> None:
    assert schemas.validate("vectors-manifest", json.loads((FOLDER / manifest.NAME).read_bytes())) == []
    assert manifest.damage(FOLDER) == []
    ids = [name for entry in ENTRIES if entry.schema != "kvwire/vectors/consumers/1" for name in entry.ids]
    assert len(set(ids)) == len(ids) == vectors.contents().count
    kinds = ("hash", "wire", "envelope", "replay", "endpoint", "consumer", "session")
    there = {str(path.relative_to(FOLDER)) for kind in kinds for path in (FOLDER / kind).iterdir()}
    assert there == {entry.path for entry in ENTRIES}
    assert (FOLDER / manifest.EDITION_FILE).read_text() == f"{vectors.contents().spec_edition}\n"


def test_the_size() -> None:
    assert sum(entry.bytes for entry in ENTRIES) < MOST_BYTES


def test_the_readme_names_every_file() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for entry in ENTRIES:
        name = sessions.path_of("NAME") if entry.schema == TRACE_SCHEMA else entry.path
        assert f"`{name}`" in text, entry.path


def test_damage_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FOLDER, copy)
    path = copy / "hash" / "v1_block_key.json"
    path.write_bytes(path.read_bytes().replace(b"924206229973855", b"924206229973856"))
    (copy / "replay" / "answer.json").unlink()
    first, second = manifest.damage(copy)
    assert first.startswith("hash/v1_block_key.json: its sha256 is ")
    assert second == "replay/answer.json: the file is missing"
    data = (copy / manifest.NAME).read_bytes()
    (copy / manifest.NAME).write_bytes(data[: len(data) // 2])
    with pytest.raises(DamageError, match="not a whole manifest"):
        manifest.damage(copy)
    (copy / manifest.NAME).unlink()
    with pytest.raises(DamageError, match="there is no manifest here"):
        manifest.damage(copy)


def test_access() -> None:
    assert "hash/v1_block_key" in vectors.names()
    test = vectors.load("hash/v1_block_key").tests[0]
    assert test.id == "v1-known-root"
    assert vectors.expand(test.input.tokens) == (1, 2, 3, 4)
    with pytest.raises(registry.UnknownNameError, match=r"no vectors 'hash/v3'; there are .*hash/v1_block_key"):
        access.load("hash/v3")
    with pytest.raises(registry.UnknownNameError, match="no schema 'kvwire/vectors/hash/9'"):
        access.decode(b'{"schema": "kvwire/vectors/hash/9"}')


@pytest.mark.parametrize(
    "path", ["../x.json", "/etc/x.json", "hash/../../x.json", "", ".", "a//b", "a\\b", "a\x1b.json"]
)
def test_a_manifest_names_nothing_outside_its_folder(tmp_path: Path, path: str) -> None:
    whole = json.loads((FOLDER / manifest.NAME).read_bytes())
    whole["files"][0]["path"] = path
    (tmp_path / manifest.NAME).write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(DamageError, match="no path inside this folder"):
        manifest.read(tmp_path)


@pytest.mark.parametrize(("field", "value"), [("schema", "kvwire/vectors/manifest/2"), ("spec_edition", "7")])
def test_a_manifest_of_another_edition_is_refused(tmp_path: Path, field: str, value: str) -> None:
    whole = json.loads((FOLDER / manifest.NAME).read_bytes()) | {field: value}
    (tmp_path / manifest.NAME).write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(DamageError, match="this harness knows"):
        manifest.read(tmp_path)
