"""Corruptions of vectors: one digit or letter of one test, changed where any change makes the test wrong."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Place = tuple[str | int, ...]


class Corruption(NamedTuple):
    """What was changed: the file, the test, the algorithm of its group, and the change in words."""

    path: str
    test: str
    algorithm: str
    words: str


def leaves(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """Every string and number in a value, by its place."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*place, key))
    elif isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        yield place, value


def sites(kind: str, test: dict[str, Any]) -> list[Place]:
    """The places of a test where any change makes it wrong."""
    given, expected, valid = test.get("input", test), test["expected"], test.get("result", "valid") == "valid"
    inside: Place = ("input",) if "input" in test else ()
    unchecked = {"fault", "layer", "also", *(["form"] if kind == "wire" else [])}
    found = [place for place, _ in leaves(expected, ("expected",)) if place[1] not in unchecked]
    names: list[str] = []
    if kind == "hash" and valid:
        names = ["tokens", "parent", "parent_key", "extra_keys"]
        names += ["lora_id"] if "parent_key" not in given else []
        names += ["salt_id", "salt"] if not {"parent", "parent_key", "extra_keys"} & set(given) else []
        names += (
            ["extra_ids", "mm_keys"] if not any(isinstance(token, str) for token in given.get("tokens", [])) else []
        )
    elif kind == "wire" and "projection" in expected and expected.get("fault") != "trailing-bytes":
        names = ["payload", "encodings"] if "KVW-ENV-006" not in test["requirements"] else []
    elif valid:
        names = {"envelope": ["frames"], "endpoint": ["endpoint", "rank"]}.get(kind, [])
    found += [place for name in names if name in given for place, _ in leaves(given[name], (*inside, name))]
    return [place for place in found if not (place[-1] == "step" and at(test, (*place[:-1], "count")) == 1)]


def at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def change(value: str | int, source: random.Random) -> str | int:
    """The same with one digit or one letter changed, of the same kind: hex stays hex, decimals stay decimals."""
    text = str(value)
    digits = "0123456789" if re.fullmatch(r"-?\d+(\.\d+)?", text) else "0123456789abcdef"
    plain = re.fullmatch(r"([0-9a-f]{2})+", text) or digits == "0123456789"
    while True:
        where = source.randrange(len(text))
        known = digits if plain else "abcdefghijklmnopqrstuvwxyz"
        changed = text[:where] + source.choice(known) + text[where + 1 :]
        first = changed.lstrip("-")
        if changed == text or text[where] in "-." or (digits == "0123456789" and first[0] == "0" and len(first) > 1):
            continue
        if "." in text and re.fullmatch(r"[-\d.]+", changed) and float(changed) == float(text):
            continue
        return changed if isinstance(value, str) else int(changed)


def corrupt(folder: Path, path: str, copy: Path, source: random.Random, *, seal: bool = True) -> Corruption:
    """Copy one file, with one digit or letter changed where it makes a test wrong, and a manifest of that file alone.

    ``seal``: the manifest has the digest of the changed file, so that only its content gives the change away.
    """
    file = json.loads((folder / path).read_bytes())
    kind = file["schema"].split("/")[2]
    groups = file.get("groups") or [{"algorithm": one["algorithm"], "tests": [one]} for one in file["answers"]]
    group, test = source.choice([(group, one) for group in groups for one in group["tests"] if sites(kind, one)])
    place = source.choice(sites(kind, test))
    before = at(test, place)
    at(test, place[:-1])[place[-1]] = change(before, source)
    data = json.dumps(file, ensure_ascii=False, indent=1).encode()
    (copy / path).parent.mkdir(parents=True)
    (copy / path).write_bytes(data)
    manifest = json.loads((folder / "MANIFEST.json").read_bytes())
    manifest["files"] = [one for one in manifest["files"] if one["path"] == path]
    if seal:
        manifest["files"][0].update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (copy / "MANIFEST.json").write_text(json.dumps(manifest))
    words = f"{'.'.join(map(str, place))}: {before} became {at(test, place)}"
    return Corruption(path, test["id"], str(group.get("algorithm")), words)
