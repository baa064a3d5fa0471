"""The schemas: their examples, the bounds that a pattern states, and the files of the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kvwire.standard import protocol, schemas
from kvwire.standard.registry import UnknownNameError
from kvwire.wire import projection

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "spec" / "examples").rglob("*.json"))
NAMES = {
    "adapter",
    "all-blocks-cleared",
    "batch",
    "block-removed",
    "block-stored",
    "common",
    "known-answers",
    "profile",
    "registry",
    "result",
    "statement",
    "trace",
    "vectors",
    "vectors-consumer",
    "vectors-consumers",
    "vectors-endpoint",
    "vectors-envelope",
    "vectors-hash",
    "vectors-manifest",
    "vectors-replay",
    "vectors-session",
    "vectors-wire",
}


def part(path: Path) -> str:
    """The schema, or the part of one, that an example is held to."""
    name = path.parts[-3]
    words = path.stem.split("-")
    return f"{name}#answer-{words[1]}" if words[0] == "answer" and words[1] in protocol.VERBS else name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: "/".join(path.parts[-3:]))
def test_examples(path: Path) -> None:
    found = schemas.validate(part(path), json.loads(path.read_bytes()))
    assert len(found) == (path.parts[-2] == "invalid"), found


def test_every_schema_has_examples_of_both_sorts() -> None:
    assert set(schemas.load()) == NAMES
    assert {(path.parts[-3], path.parts[-2]) for path in EXAMPLES} == {
        (name, kind) for name in NAMES - {"common"} for kind in ("valid", "invalid")
    }


def test_schemas_are_schemas() -> None:
    for name, schema in schemas.load().items():
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"urn:kvwire:1:{name}"
        assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_references_stay_here() -> None:
    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for inner in value.values() for found in references(inner)]
        return [found for inner in value for found in references(inner)] if isinstance(value, list) else []

    for schema in schemas.load().values():
        for target in references(schema):
            assert target.startswith(("#/$defs/", "urn:kvwire:1:")), target


def test_messages_are_short_and_say_where() -> None:
    stored = json.loads((ROOT / "spec/examples/block-stored/invalid/hash-above-uint64.json").read_bytes())
    (message,) = schemas.validate("block-stored", stored)
    assert message.startswith("$.block_hashes[0]: '18446744073709551616' is not what it has to be: A decimal string")
    with pytest.raises(UnknownNameError, match="there are adapter, "):
        schemas.validate("batches", {})


@pytest.mark.parametrize(("name", "low", "high"), [("uint64", 0, 2**64 - 1), ("integer64", -(2**63), 2**64 - 1)])
def test_the_bounds_of_decimal_strings(name: str, low: int, high: int) -> None:
    pattern = Draft202012Validator(schemas.load()["common"]["$defs"][name])
    edges = {low, high, 0, 2**63, 2**53, 10**18, 10**19, -(10**18), 1, -1}
    for edge in edges | {sign * 10**digits for digits in range(21) for sign in (1, -1)}:
        for number in range(edge - 12, edge + 13):
            assert pattern.is_valid(str(number)) == (low <= number <= high), number
    for wrong in ("", "+1", "-0", "00", "01", " 1", "1 ", "0x1", "1.0", "١"):
        assert not pattern.is_valid(wrong), wrong


@given(st.integers(-(2**65), 2**66))
@settings(max_examples=300, deadline=None)
def test_decimal_strings(number: int) -> None:
    pattern = schemas.load()["common"]["$defs"]["integer64"]
    assert Draft202012Validator(pattern).is_valid(str(number)) == (-(2**63) <= number < 2**64)


def test_the_bounds_of_ts() -> None:
    bits = schemas.load()["batch"]["properties"]["ts"]["properties"]["bits"]
    valid = Draft202012Validator(bits).is_valid
    for good in (0.0, -0.0, 5e-324, 1.5, 1735689600.25, 1e11 - 1):
        assert valid(projection.float_bits(good)), good
    for bad in (float("inf"), float("-inf"), float("nan"), -1.0, -5e-324, 1735689600250.0, 2.0**37):
        assert not valid(projection.float_bits(bad)), bad


# what the project itself carries


@pytest.mark.parametrize("path", sorted((ROOT / "spec/profiles").glob("*.json")), ids=lambda path: path.stem)
def test_profiles(path: Path) -> None:
    assert schemas.validate("profile", json.loads(path.read_bytes())) == []


def test_the_registry_and_the_known_answers() -> None:
    assert schemas.validate("registry", json.loads((ROOT / "spec/requirements.json").read_bytes())) == []
    answers = json.loads((ROOT / "vectors/hash/known-answers.json").read_bytes())
    assert schemas.validate("known-answers", answers) == []
    assert answers["count"] == len(answers["answers"]) == len({answer["id"] for answer in answers["answers"]})
    for answer in answers["answers"]:
        expected = answer["expected"]
        if "unsigned" in expected:
            assert int(expected["unsigned"]) == int(expected["signed"]) % 2**64, answer["id"]
