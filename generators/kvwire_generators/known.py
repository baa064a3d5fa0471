"""``hash/known-answers.json``: numbers from elsewhere, each of which has to be found among the generated tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kvwire.vectors.inputs import expand
from kvwire.vectors.model import HashExpected, HashFile, HashInput, Test

PATH = "hash/known-answers.json"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One known answer; its members are those of ``HashInput`` and ``HashExpected``."""

    id: str
    flags: tuple[str, ...]
    algorithm: str
    block_size: int | None
    tokens: tuple[int | str, ...]
    expected: HashExpected
    parent: str | None = None
    lora_id: str | None = None
    salt_id: str | None = None
    salt: str | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True):
    answers: tuple[Answer, ...]


def read(data: bytes) -> tuple[Answer, ...]:
    """The known answers of a file."""
    return msgspec.json.decode(data, type=_File).answers


def _asks(given: HashInput | Answer) -> tuple[Any, ...]:
    salt_id = given.salt_id if given.salt is None else None
    return (expand(given.tokens), given.parent, given.lora_id, salt_id, given.salt)


def _says(answer: Answer, test: Test[HashInput, HashExpected]) -> bool:
    if "mistake" in answer.flags:
        return test.mistakes.get(answer.algorithm.partition("/")[2]) == answer.expected.unsigned
    expected = test.expected
    return all(
        wanted is None or wanted == found
        for wanted, found in (
            (answer.expected.unsigned, expected.unsigned),
            (answer.expected.signed, expected.signed),
            (answer.expected.key, expected.key),
        )
    )


def problems(data: bytes, files: Mapping[str, HashFile]) -> list[str]:
    """The known answers that no generated test gives: file, id and what was found instead."""
    found = []
    for answer in read(data):
        algorithm = answer.algorithm.partition("/")[0] if "mistake" in answer.flags else answer.algorithm
        asked = [
            test
            for file in files.values()
            for group in file.groups
            if group.algorithm == algorithm
            for test in group.tests
            if test.result == "valid" and _asks(test.input) == _asks(answer) and _alone(test.input)
        ]
        if not asked:
            found.append(f"{PATH}: {answer.id}: no test of {algorithm} asks for it")
        elif not any(_says(answer, test) for test in asked):
            found.append(f"{PATH}: {answer.id}: the answer differs from that of {asked[0].id}")
    return found


def _alone(given: HashInput) -> bool:
    return given.extra_ids is None and given.mm_keys is None and given.extra_keys is None and given.parent_key is None
