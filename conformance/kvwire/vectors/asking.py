"""Questions to an implementation and what its answers are worth: the contents of ``kvwire vectors verify``.

A question is ``{"id", "kind", "algorithm"?, "width"?, "input": {…}}``, with runs of tokens written out and one question
for each encoding of a payload. An answer is ``{"id", …}`` with the members of ``expected``, ``{"id", "refused": why}``
or ``{"id", "unsupported": true}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from kvwire.vectors.differing import short, told
from kvwire.vectors.inputs import rounded
from kvwire.vectors.model import AnyFile, HashInput, Run, WireInput

Grade = Literal["passed", "failed", "unsupported"]
COMPARED: dict[str, tuple[str, ...]] = {
    "wire": ("projection",),
    "envelope": ("topic", "sequence", "payload"),
    "replay": ("start", "form", "outcome", "numbers"),
    "endpoint": ("publish", "replay"),
}
"""The members that an answer of each kind has to have, as far as they are expected; hashes and consumers have rules of
their own."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question: the test behind it, the file of the test, and its line."""

    id: str
    file: str
    kind: str
    test: Any
    algorithm: str | None
    line: bytes


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is worth; ``why`` says what is wrong, ``mistakes`` which known ones it is."""

    id: str
    file: str
    grade: Grade
    why: str = ""
    mistakes: tuple[str, ...] = ()


def labels(test: Any) -> frozenset[str]:
    """What a test can be chosen by: its flags, result, fault and layer."""
    names = {*test.flags, test.result, test.expected.fault, getattr(test.expected, "layer", None)}
    return frozenset(name for name in names if name is not None)


def questions(
    name: str, file: AnyFile, *, wanted: Iterable[str] = (), unwanted: Iterable[str] = ()
) -> Iterator[Question]:
    """The questions of a file, of the tests that have all wanted labels and no unwanted one."""
    kind = file.schema.split("/")[2]
    take, leave = frozenset(wanted), frozenset(unwanted)
    for group in file.groups:
        for test in group.tests:
            if not take <= labels(test) or leave & labels(test):
                continue
            for number, given in enumerate(_inputs(test.input)):
                identity = f"{test.id}#{number}" if number else test.id
                asked: dict[str, Any] = {"id": identity, "kind": kind}
                if group.algorithm is not None:
                    asked["algorithm"] = group.algorithm
                if group.width is not None:
                    asked["width"] = group.width
                asked["input"] = given
                yield Question(
                    id=identity,
                    file=name,
                    kind=kind,
                    test=test,
                    algorithm=group.algorithm,
                    line=msgspec.json.encode(asked) + b"\n",
                )


def _inputs(given: Any) -> Iterator[dict[str, Any]]:
    plain: dict[str, Any] = msgspec.to_builtins(given)
    if isinstance(given, HashInput):
        yield {**plain, "tokens": list(_written(given))}
        return
    if isinstance(given, WireInput):
        for payload in (given.payload, *given.encodings):
            yield {"payload": payload}
        return
    yield plain


def _written(given: HashInput) -> Iterator[int | str]:
    """The tokens with runs written out; strings stay as they are, whatever their length."""
    for item in given.tokens:
        if isinstance(item, Run):
            yield from (item.start + index * item.step for index in range(item.count))
        else:
            yield item


# --- answers ------------------------------------------------------------------------------------------------------


def _same(wanted: Any, found: Any) -> bool:
    """Equality of JSON values: true is not 1, 4.0 is not 4, and of a projected float the bits count."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        if wanted.keys() == found.keys() == {"float", "bits"}:
            return bool(wanted["bits"] == found["bits"])
        return wanted.keys() == found.keys() and all(_same(wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(map(_same, wanted, found))
    return bool(type(wanted) is type(found) and wanted == found)


def _like(wanted: Any, found: Any) -> bool:
    """Equality outside of projections: a decimal string may come as an integer."""
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        return len(wanted) == len(found) and all(map(_like, wanted, found))
    if isinstance(wanted, str) and isinstance(found, int) and not isinstance(found, bool):
        return wanted == str(found)
    return _same(wanted, found)


def _named(question: Question, values: Iterable[Any]) -> tuple[str, ...]:
    """The known mistakes that give one of these values, as a number modulo 2^64 or as it stands."""
    texts = (str(rounded(int(value))) if _whole(value) else value for value in values)
    found = {text for value in texts if isinstance(value, str | int) for text in _spellings(str(value))}
    return tuple(name for name, value in question.test.mistakes.items() if _spellings(value) & found)


def _whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _spellings(text: str) -> frozenset[str]:
    if text.removeprefix("-").isdecimal() and len(text) < 25:
        return frozenset({text, str(int(text) % 2**64)})
    return frozenset({text.lower()})


def _expected(question: Question) -> dict[str, Any]:
    expected: dict[str, Any] = msgspec.to_builtins(question.test.expected)
    return expected


def _hash_faults(question: Question, expected: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    full = (question.algorithm or "").startswith("v2_sha256/")
    needed = ("key",) if full else ("unsigned", "signed")
    given = [name for name in ("unsigned", "signed", "key", "chain") if name in answer and name in expected]
    if not set(needed) & set(given):
        return [f"the answer has no {' or '.join(f'`{name}`' for name in needed)}"]
    return [
        f"`{name}` is {short(answer[name])}, expected {short(expected[name])}"
        for name in given
        if not _like(expected[name], answer[name])
    ]


def _other_faults(question: Question, expected: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    equal = _same if question.kind == "wire" else _like
    faults = []
    for name in COMPARED[question.kind]:
        if name not in expected and answer.get(name) is not None and name != "projection":
            faults.append(f"`{name}` is {short(answer[name])}, where none is expected")
        elif name in expected and name not in answer:
            faults.append(f"the answer has no `{name}`")
        elif name in expected and not equal(expected[name], answer[name]):
            faults.append(told(expected[name], answer[name], equal, name))
    return faults


def _place(held: Any) -> tuple[Any, ...]:
    names = ("medium", "group", "locality", "ownership", "algorithm")
    return tuple(held.get(name) for name in names) if isinstance(held, Mapping) else ()


def _tables(holds: Any) -> Any:
    """What is held, by place; the order of places and hashes means nothing, and an empty table is none."""
    if not isinstance(holds, list | tuple) or not all(isinstance(held, Mapping) for held in holds):
        return None
    return {
        _place(held): sorted(map(str, hashes))
        for held in holds
        if isinstance(hashes := held.get("hashes"), list | tuple) and hashes
    }


def _step_faults(wanted: Mapping[str, Any], found: Any) -> Iterator[str]:
    """What is wrong with the state after one step. What is absent in both is nothing; ``holds`` can be left open."""
    if not isinstance(found, Mapping):
        yield f"the state is {short(found)}"
        return
    names = ["asks", "sure", *(["finds", "reproduces"] if "finds" in wanted else [])]
    names += ["last"] if "holds" in wanted else []
    for name in names:
        if not _like(wanted.get(name), found.get(name)):
            yield f"`{name}` is {short(found.get(name))}, expected {short(wanted.get(name))}"
    if "holds" in wanted and _tables(found.get("holds")) != _tables(wanted["holds"]):
        yield f"`holds` is {short(found.get('holds'))}, expected {short(wanted['holds'])}"


def _consumer_faults(question: Question, expected: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """The first step after which a consumer knows something else; what follows from it is not told."""
    states, steps = answer.get("steps"), question.test.input.steps
    if not isinstance(states, list | tuple) or len(states) != len(steps):
        return [f"`steps` are not {len(steps)} states"]
    for number, (step, wanted, found) in enumerate(zip(steps, expected["steps"], states, strict=True), 1):
        told = " ".join([step.event, *(name for _, name in step.messages)])
        if faults := "; ".join(_step_faults(wanted, found)):
            return [f"after step {number} ({step.stream}: {told}) {faults}"]
    return []


def grade(question: Question, answer: Mapping[str, Any]) -> Graded:
    """What an answer is worth."""
    test = question.test

    def graded(mark: Grade, why: str = "", mistakes: tuple[str, ...] = ()) -> Graded:
        return Graded(id=question.id, file=question.file, grade=mark, why=why, mistakes=mistakes)

    if answer.get("unsupported") is True:
        return graded("unsupported")
    if "refused" in answer:
        if test.result == "valid":
            return graded("failed", f"refused ({short(answer['refused'])}), but it is valid")
        return graded("passed")
    if test.result == "invalid":
        return graded("failed", f"not refused: {test.expected.fault}, {test.comment}")
    expected = _expected(question)
    rule = {"hash": _hash_faults, "consumer": _consumer_faults}.get(question.kind, _other_faults)
    faults = rule(question, expected, answer)
    if not faults:
        return graded("passed")
    return graded("failed", "; ".join(faults), _named(question, answer.values()))
