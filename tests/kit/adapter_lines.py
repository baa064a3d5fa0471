"""Lines of the adapter protocol, held against its schema."""

from __future__ import annotations

import json
from typing import Any

from kvwire.standard import schemas
from kvwire.standard.protocol import VERBS


def shape(value: Any) -> Any:
    """What a schema can tell apart, roughly: the members of objects, the sorts of elements, the types of the rest."""
    if isinstance(value, dict):
        return frozenset((name, shape(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return frozenset(map(shape, value))
    if isinstance(value, str):
        return str, value[:2] if value.startswith("x-") else value.isdecimal(), len(value) == 64
    return (type(value), value < 0) if isinstance(value, int) else type(value)


class Lines:
    """Checks lines; of those that have one shape, the first. ``wrong`` says which are not as the schema says."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.asked: set[str] = set()
        """The verbs of the requests."""
        self.answered: set[tuple[str, str]] = set()
        """Verb and sort of the answers."""
        self._seen: set[Any] = set()

    def request(self, line: dict[str, Any]) -> None:
        """Check a request."""
        verb = line["verb"]
        self.asked.add(verb)
        for part in [line] if verb != "burst" else [{**line, "batches": [batch]} for batch in line["batches"]]:
            self._check("adapter#request", verb, part)

    def answer(self, verb: str, line: dict[str, Any]) -> None:
        """Check the answer to a request of that verb."""
        self.answered |= {(verb if verb in VERBS else "x-", sort) for sort in line if sort != "id"}
        self._check("adapter#answer", verb, line)
        if "ok" in line:
            self._check(f"adapter#answer-{verb}", verb, line)

    def _check(self, schema: str, verb: str, line: dict[str, Any]) -> None:
        known = schema, verb, shape(line)
        if known not in self._seen:
            self._seen.add(known)
            self.wrong += [f"{json.dumps(line)[:200]}: {fault}" for fault in schemas.validate(schema, line)]
