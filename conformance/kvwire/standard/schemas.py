"""The JSON Schemas of the standard (spec/schemas/), and whether a value is as one of them says.

They hold files, control lines and examples to the standard. Payloads are the walker's: a schema sees
a projection, and takes 4.0 for an integer.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry

from kvwire.standard import resources
from kvwire.standard.registry import UnknownNameError

URN = "urn:kvwire:1:"
SUFFIX = ".schema.json"
SHOWN = 240
"""How many characters of a message are shown."""


@functools.cache
def load() -> dict[str, dict[str, Any]]:
    """Every schema by its name, as in ``batch``."""
    paths = sorted((resources.spec() / "schemas").glob(f"*{SUFFIX}"))
    return {path.name.removesuffix(SUFFIX): json.loads(path.read_bytes()) for path in paths}


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    """The validator of a schema, or of a part of one: ``adapter#answer-start`` names an anchor."""
    if name.partition("#")[0] not in load():
        raise UnknownNameError(f"no schema {name!r}; there are {', '.join(load())}")
    registry: Registry[Any] = Registry().with_contents((schema["$id"], schema) for schema in load().values())
    return Draft202012Validator({"$ref": URN + name}, registry=registry)


def _nearest(error: ValidationError) -> ValidationError:
    """The error that says most: of several alternatives, one of the branch that fits best."""

    def misfit(inners: list[ValidationError]) -> tuple[bool, bool, int]:
        constant = any(inner.validator == "const" for inner in inners)
        family = any(inner.validator == "type" and not inner.relative_path for inner in inners)
        return constant, family, len(inners)

    while error.context:
        branches: dict[Any, list[ValidationError]] = defaultdict(list)
        for inner in error.context:
            branches[inner.schema_path[0]].append(inner)
        error = min(branches.values(), key=misfit)[0]
    return error


def _line(error: ValidationError) -> str:
    message = error.message
    if error.validator == "pattern" and isinstance(error.schema, dict) and "$comment" in error.schema:
        message = f"{error.instance!r} is not what it has to be: {error.schema['$comment']}"
    if len(message) > SHOWN:
        message = message[: SHOWN - 1] + "…"
    return f"{error.json_path}: {message}"


def validate(name: str, instance: Any) -> list[str]:
    """What is wrong with an instance by the schema of that name: one line per fault, with its JSON path.

    ``name`` is a schema (``batch``) or a part of one that has an anchor (``adapter#answer-start``).

    Raises:
        UnknownNameError: when there is no such schema.
    """
    errors = sorted(_validator(name).iter_errors(instance), key=lambda error: error.json_path)
    return [_line(_nearest(error)) for error in errors]
