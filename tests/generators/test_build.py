"""The data is what the generators give, and every difference is named with file and test."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kvwire.standard import resources
from kvwire.vectors import identities, layout, manifest
from kvwire_generators import build, known
from kvwire_generators.hash import hash_vectors

FOLDER = resources.vectors()
DATA, PROBLEMS = build.generate(FOLDER)
HASHES = hash_vectors.files()
TESTS = [path for path in DATA if path.endswith(".json") and path != manifest.NAME]


def test_data_and_generators_agree() -> None:
    assert PROBLEMS == []
    assert build.differences(FOLDER, DATA) == []


@pytest.mark.parametrize("path", sorted(DATA))
def test_a_flipped_digit_is_named(path: str) -> None:
    lines = DATA[path].decode().splitlines(keepends=True)
    chance = random.Random(path)
    digits = [(row, at) for row, text in enumerate(lines) for at, sign in enumerate(text) if sign in "0123456789abcdef"]
    for row, at in chance.sample(digits, min(20, len(digits))):
        old = lines[row][at]
        new = chance.choice([digit for digit in "0123456789abcdef" if digit != old])
        changed = [*lines]
        changed[row] = lines[row][:at] + new + lines[row][at + 1 :]
        (problem,) = build.difference(path, DATA[path], "".join(changed).encode())
        assert problem.startswith(f"{path}:{row + 1}: ")
        if name := layout.name_of(lines[row]):
            assert f"{path}:{row + 1}: {name}: " in problem


@pytest.mark.parametrize("path", TESTS)
def test_every_test_stands_on_a_line_of_its_own(path: str) -> None:
    listed = manifest.listed(path, DATA[path])
    names = [name for text in DATA[path].decode().splitlines() if '"id":' in text and (name := layout.name_of(text))]
    assert list(listed.ids) == [name for name in names if name in listed.ids]
    assert len(listed.ids) > 0 or path == "wire/consumers.json"


def test_a_missing_and_a_longer_file_are_named(tmp_path: Path) -> None:
    copy = tmp_path / "vectors"
    shutil.copytree(FOLDER, copy)
    (copy / "replay" / "request.json").unlink()
    with (copy / "envelope" / "live.json").open("a") as file:
        file.write("\n\n")
    (copy / "wire" / "mine.json").write_text("{}")
    (copy / "hash" / "salt_id.json").write_bytes(DATA["hash/salt_id.json"].replace(b"\n", b"\r\n"))
    found = build.differences(copy, DATA)
    assert "replay/request.json: the file is missing: run `tox -e generate`" in found
    assert any(line.startswith("envelope/live.json:") for line in found)
    assert "wire/mine.json: no generator writes this file: remove it" in found
    assert any(line.startswith("hash/salt_id.json") for line in found)
    assert build.strays(copy, DATA) == ["wire/mine.json"]


def test_a_changed_known_answer_is_named() -> None:
    data = (FOLDER / known.PATH).read_bytes()
    for answer in known.read(data):
        wanted = answer.expected.unsigned or answer.expected.key
        assert wanted is not None
        digit = "1" if wanted[-1] != "1" else "2"
        start = data.index(f'"id": "{answer.id}"'.encode())
        at = data.index(wanted.encode(), data.index(b'"expected"', start)) + len(wanted) - 1
        (problem,) = known.problems(data[:at] + digit.encode() + data[at + 1 :], HASHES)
        assert problem.startswith(f"{known.PATH}: {answer.id}: the answer differs from that of ")
    assert known.problems(data, HASHES) == []


def test_an_answer_that_nobody_asks_for_is_named() -> None:
    data = (FOLDER / known.PATH).read_bytes()
    assert known.problems(data.replace(b'"tokens": [5, 6]', b'"tokens": [5, 9]'), HASHES)[0] == (
        f"{known.PATH}: v1-child-partial: no test of v1_block_key asks for it"
    )


def test_a_test_that_is_gone_or_added_is_named() -> None:
    path = "envelope/live.json"
    lines = DATA[path].decode().splitlines(keepends=True)
    row = next(n for n, text in enumerate(lines) if '"envelope-number-258"' in text)
    (gone,) = build.difference(path, DATA[path], "".join(lines[:row] + lines[row + 1 :]).encode())
    assert gone == f"{path}:{row + 1}: envelope-number-258: a line is missing before this one"
    (added,) = build.difference(path, DATA[path], "".join([*lines[:row], *lines[row - 1 : row], *lines[row:]]).encode())
    assert added.endswith(": the line should not be here")


# --- ids ----------------------------------------------------------------------------------------------------------


def test_ids_are_appended() -> None:
    locked, bad = identities.read("b-1 a.json\na-1 a.json\n")
    assert bad == []
    entries, problems = identities.update(locked, {"a-1": "a.json", "b-1": "b.json", "a-0": "a.json"})
    assert problems == []
    assert identities.write(entries) == "b-1 b.json\na-1 a.json\na-0 a.json\n"


def test_an_id_that_is_gone_needs_a_tombstone() -> None:
    locked, _ = identities.read("a-1 a.json\n")
    _, (problem,) = identities.update(locked, {})
    assert problem == "a.json: a-1: the test is gone: bring it back, or write `withdrawn` behind its line in ids.lock"
    locked, bad = identities.read("a-1 a.json withdrawn\n")
    entries, problems = identities.update(locked, {})
    assert bad == problems == []
    assert identities.write(entries) == "a-1 a.json withdrawn\n"


def test_a_withdrawn_id_is_not_used_again() -> None:
    locked, _ = identities.read("a-1 a.json withdrawn\n")
    _, (problem,) = identities.update(locked, {"a-1": "a.json"})
    assert problem == "a.json: a-1: the id was withdrawn and is used again: take another"


@pytest.mark.parametrize("line", ["a-1", "A-1 a.json", "a-1 a.json gone", "a-1 a.json withdrawn x", "a-1 a\na-1 b"])
def test_a_line_that_is_none_is_named(line: str) -> None:
    _, bad = identities.read(line)
    assert len(bad) == 1
    assert bad[0].startswith("ids.lock:")


def test_an_id_has_a_form() -> None:
    _, (problem,) = identities.update({}, {"a_1": "a.json"})
    assert problem.startswith("a.json: a_1: not an id")
