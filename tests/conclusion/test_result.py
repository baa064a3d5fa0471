"""Result streams that are none: of another format or edition, cut short, doubled, or with a field of a wrong type."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.stories import Story, stored

from kvwire.conclusion import result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import ResultError
from kvwire.standard import registry


@pytest.fixture(scope="module")
def raw() -> bytes:
    story = Story()
    story.send(stored("a"))
    return result.dump(conclude(story.trace(), registry.load(), registry.profile("core")))


def changed(raw: bytes, kind: str, fields: dict[str, object]) -> bytes:
    """The stream with other fields in its first line of that kind."""
    lines = [msgspec.json.decode(line) for line in raw.splitlines()]
    next(line for line in lines if line["kind"] == kind).update(fields)
    return b"\n".join(msgspec.json.encode(line) for line in lines)


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        (
            "run",
            {"format": "kvwire-result-2"},
            "line 1: format 'kvwire-result-2', this harness reads 'kvwire-result-1'",
        ),
        ("run", {"edition": "2"}, "line 1: edition '2' is unknown; this harness knows edition '1'"),
        ("run", {"edition": 1}, "line 1: not of a result stream"),
        ("run", {"streams": "s"}, "line 1: not of a result stream"),
        ("outcome", {"witnesses": "many"}, "not of a result stream"),
        ("outcome", {"verdict": "GOOD"}, "not of a result stream"),
        ("outcome", {"findings": [{}]}, "not of a result stream"),
        ("outcome", {"notes": [[]]}, "not of a result stream"),
        ("summary", {"exit": "0"}, "not of a result stream"),
        ("summary", {"total": None}, "not of a result stream"),
        ("summary", {"kind": "sum"}, "the last line is no `summary`"),
    ],
)
def test_a_line_of_another_sort_is_refused(raw: bytes, kind: str, fields: dict[str, object], says: str) -> None:
    with pytest.raises(ResultError) as refused:
        result.parse(changed(raw, kind, fields))
    assert says in str(refused.value)


def test_what_is_not_whole_or_twice_there_is_refused(raw: bytes) -> None:
    lines = raw.splitlines(keepends=True)
    deep = b'{"kind":"trouble","text":"","more":' + b"[" * 100_000
    for content, says in (
        (b"", "0 lines `run` and 0 lines `summary`"),
        (b"".join(lines[:-1]), "the last line is no `summary`: the result is not whole"),
        (raw[:-20], f"line {len(lines)}: not of a result stream"),
        (raw + lines[-1], "2 lines `summary`"),
        (lines[0] + raw, "2 lines `run`"),
        (raw + lines[1], "the last line is no `summary`"),
        (raw + deep, "too deeply"),
        (b'{"kind":"recording","name":"a"}\n' + raw, "of several recordings"),
        (b"\xff\xfe", "line 1: not of a result stream"),
    ):
        with pytest.raises(ResultError, match=says):
            result.parse(content)
