"""Answers of adapters: each field is of its type and in its range, or is refused with its name and value."""

from __future__ import annotations

import msgspec
import pytest

from kvwire.attack.targets.answers import answer_in, is_of, said, shaped, unreadable
from kvwire.standard import protocol
from kvwire.standard.protocol import AdapterError, Failed, Refused, Unsupported

DEEP = b"[" * 100_000 + b"]" * 100_000
SHAPES: dict[str, type[msgspec.Struct]] = {
    "hello": protocol.Hello,
    "start": protocol.Bound,
    "publish": protocol.Accepted,
    "burst": protocol.Burst,
    "cache": protocol.Cached,
    "resident": protocol.Resident,
    "stats": protocol.Stats,
}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"id": 3, "ok": {"a": ' + DEEP + b"}}", "nested too deeply"),
        (b'{"id": 3, "ok": {"a": "\\ud800"}}', "half of a surrogate pair"),
        (b'{"ok": {"a": "\xff\xfe"}, "id": 3}', "UTF-8"),
        (b'{"id": 3, "ok": {"offered": NaN}}', "invalid character"),
        (b'{"id": 3, "ok": {"offered": 1e999}}', "out of range"),
        (b'{"id": 3, "ok": {', "truncated"),
    ],
)
def test_an_answer_that_is_no_json_is_told_from_noise(line: bytes, why: str) -> None:
    assert answer_in(line) is None
    assert why in unreadable(line, 3)


@pytest.mark.parametrize("line", [b"loading", b"{'id': 3}", b'{"id": 33, "ok": NaN}', b'see {"id": 3', DEEP, b"\xff"])
def test_other_lines_are_noise(line: bytes) -> None:
    assert answer_in(line) is None
    assert unreadable(line, 3) == ""


@pytest.mark.parametrize("value", [[1], {}, "1", True, 1.0, None, 10**30, [[[1]]]])
def test_only_an_integer_is_an_id(value: object) -> None:
    answer = answer_in(msgspec.json.encode({"id": value, "ok": {}}))
    assert answer is not None
    assert not is_of(answer, 1)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ({"ok": None}, AdapterError, "`ok` is not an object: None"),
        ({"ok": []}, AdapterError, "`ok` is not an object"),
        ({}, AdapterError, "has none of ok"),
        ({"ok": {}, "refused": "no"}, AdapterError, "has ok and refused of"),
        ({"refused": ["no"]}, AdapterError, "`refused` is not a text"),
        ({"error": 5}, AdapterError, "`error` is not a text: 5"),
        ({"refused": "no"}, Refused, "no"),
        ({"error": "x" * 10_000}, Failed, "…"),
        ({"unsupported": "cache"}, Unsupported, "cache"),
    ],
)
def test_an_answer_says_one_thing(answer: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        said("cache", {"id": 1, **answer})
    assert type(raised.value) is error
    assert len(str(raised.value)) < 3_000


def test_an_answer_that_is_deep_is_refused_before_it_is_recorded() -> None:
    value: object = 1
    for _ in range(100):
        value = [value]
    with pytest.raises(AdapterError, match="nested more than 64 deep"):
        said("hello", {"id": 1, "ok": {"statement": value}})


@pytest.mark.parametrize(
    ("verb", "content", "field"),
    [
        ("hello", {"protocol": 1, "implementation": "x", "version": ""}, "protocol"),
        ("hello", {"protocol": "p", "implementation": "x", "version": "", "can": "hello"}, "can"),
        ("hello", {"protocol": "p", "implementation": "x", "version": "", "statement": []}, "statement"),
        ("start", {"endpoint": "garbage"}, "endpoint"),
        ("start", {"endpoint": "ipc:///x", "replay": "garbage"}, "replay"),
        ("start", {"endpoint": "ipc:///x", "rank": 10**20}, "rank"),
        ("start", {"endpoint": "ipc:///x", "mode": "dial"}, "mode"),
        ("start", {"endpoint": "ipc:///x", "tp": 0}, "tp"),
        ("start", {"endpoint": "ipc:///x", "topic": None}, "topic"),
        ("publish", {"accepted": 1}, "accepted"),
        ("publish", {"accepted": True, "blocked_us": -1}, "blocked_us"),
        ("burst", {"accepted": [True], "blocked_us": [2**63]}, "blocked_us"),
        ("cache", {"cached_tokens": -1}, "cached_tokens"),
        ("cache", {"cached_tokens": 1.5}, "cached_tokens"),
        ("resident", {"hashes": ["x"]}, "hashes"),
        ("resident", {"hashes": ["1\n"]}, "hashes"),
        ("resident", {"hashes": [5]}, "hashes"),
        ("resident", {"hashes": [], "places": [{"group": -1}]}, "group"),
        ("resident", {"hashes": [], "places": [{"hashes": ["9" * 21]}]}, "hashes"),
        ("stats", {"offered": 2**63}, "offered"),
        ("stats", {"sent": -1}, "sent"),
        ("stats", {"dropped": "3"}, "dropped"),
        ("stats", {"rss": 10**30}, "rss"),
    ],
)
def test_a_field_out_of_its_range_is_refused_by_name(verb: str, content: dict[str, object], field: str) -> None:
    with pytest.raises(AdapterError, match=f"its answer to `{verb}` is not as the protocol says: .*{field}"):
        shaped(verb, content, SHAPES[verb])
