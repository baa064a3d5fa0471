"""What records tell: every kind is read into its struct and written as it was; what is not known is left in peace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.trace.test_trace import HEADER

from kvwire.standard import resources, schemas
from kvwire.trace import files
from kvwire.trace.calls import BoundAt, BurstCall, CacheCall, Call, PublishCall, StartCall
from kvwire.trace.detail import Detail, SocketEvent, UnknownDetail
from kvwire.trace.kinds import KINDS
from kvwire.trace.marks import ProcessExit, ReplayRequest
from kvwire.trace.records import Record, TraceError, told
from kvwire.wire.projection import batch_projection

EMPTY = batch_projection(0.0, [], 0)
SESSIONS = sorted((resources.vectors() / "session").glob("*.kvtrace"))


def read(source: str, event: str, detail: dict[str, Any]) -> Record:
    record = {"t_ns": 1, "source": source, "event": event, "detail": detail}
    end = {"end": 1, "interrupted": False}
    (found,) = files.parse([HEADER, json.dumps(record).encode(), json.dumps(end).encode()]).records
    return found


def test_every_session_is_written_as_it_was_read() -> None:
    kinds: dict[type[Detail], bytes] = {}
    for path in SESSIONS:
        lines = path.read_bytes().splitlines(keepends=True)
        parsed = files.parse(lines)
        assert list(files.lines(parsed)) == lines, path.name
        kinds |= {
            type(r.detail): raw for r, raw in zip(parsed.records, lines[1:], strict=False) if r.detail is not None
        }
    assert len(SESSIONS) > 100
    assert UnknownDetail not in kinds
    assert len(kinds) > len(KINDS) / 2
    for raw in kinds.values():
        assert schemas.validate("trace", json.loads(raw)) == [], raw


def test_an_event_that_is_not_known_is_kept() -> None:
    record = read("stimulus", "x-later", {"b": [1, {"y": None, "x": 2.5}], "a": "z"})
    assert record.detail == UnknownDetail(event="x-later", raw={"a": "z", "b": [1, {"x": 2.5, "y": None}]})
    assert files.record_line(record).endswith(b'"event":"x-later","detail":{"a":"z","b":[1,{"x":2.5,"y":null}]}}')


def test_the_source_tells_kinds_of_one_name_apart() -> None:
    assert isinstance(read("stimulus", "start", {}).detail, StartCall)
    assert read("process", "start", {"command": ["x"]}).detail.__class__.__name__ == "ProcessStart"
    assert isinstance(read("harness", "start", {}).detail, UnknownDetail)


def test_fields_that_a_kind_does_not_know_are_left() -> None:
    assert read("stimulus", "cache", {"tokens": [1, "ab" * 32], "later": [1]}).detail == CacheCall(
        tokens=(1, "ab" * 32)
    )


@pytest.mark.parametrize(
    ("source", "event", "detail", "found"),
    [
        ("stimulus", "replay-request", {"client": "replay-1"}, ReplayRequest(client="replay-1")),
        ("stimulus", "publish", {"batch": EMPTY, "accepted": True}, PublishCall(batch=EMPTY, accepted=True)),
        ("stimulus", "start", {"bound": {"endpoint": "x"}}, StartCall(bound=BoundAt(endpoint="x"))),
        ("process", "exit", {"how": "signal 9"}, ProcessExit(how="signal 9")),
        ("monitor", "DISCONNECTED", {}, SocketEvent(event="DISCONNECTED", of="live-a")),
    ],
)
def test_what_an_old_trace_does_not_say(source: str, event: str, detail: dict[str, Any], found: Detail) -> None:
    assert read(source, event, detail).detail == found


@pytest.mark.parametrize(
    ("source", "event", "detail", "said"),
    [
        (
            "stimulus",
            "cache",
            {"tokens": [1], "cached_tokens": "all"},
            r"'cache': Expected `int .* `\$\.cached_tokens`",
        ),
        ("stimulus", "start", {"bound": {"endpoint": 5}}, r"'start': Expected `str`.* `\$\.bound\.endpoint`"),
        ("stimulus", "replay-done", {"client": "c"}, r"'replay-done': .*missing required field `outcome`"),
        ("stimulus", "reset-done", {"outcome": "perhaps", "bound_s": 1.0}, r"'reset-done': Invalid .* `\$\.outcome`"),
        ("monitor", "DISCONNECTED", {"of": 5}, r"'DISCONNECTED': Expected `str`.* `\$\.of`"),
    ],
)
def test_a_field_of_a_wrong_type_is_named_with_its_line(
    source: str, event: str, detail: dict[str, Any], said: str
) -> None:
    with pytest.raises(TraceError, match=f"^line 2: {source} {said}"):
        read(source, event, detail)


def test_a_call_is_what_was_asked_for_and_then_what_was_answered() -> None:
    call = BurstCall(batches=(EMPTY, EMPTY))
    assert call.arguments == {"batches": (EMPTY, EMPTY)}
    answered = call.answered({"accepted": [True, False], "blocked_us": [1, 2]})
    assert answered == BurstCall(batches=(EMPTY, EMPTY), accepted=(True, False), blocked_us=(1, 2))
    assert [call.succeeded, *(call.answered({why: "no"}).succeeded for why in Call.__struct_fields__[1:])] == [
        True,
        False,
        False,
        False,
    ]


def test_where_a_publisher_is_bound_is_told_as_its_endpoint() -> None:
    call = StartCall(replay="none", bound=BoundAt(endpoint="tcp://127.0.0.1:1"))
    assert call.asked_for == "`start` (replay 'none', bound 'tcp://127.0.0.1:1')"


def test_records_are_found_by_kind() -> None:
    records = [(3, read("stimulus", "reset", {})), (5, read("stimulus", "start", {})), (7, Record(t_ns=0, source="x"))]
    assert list(told(records, StartCall)) == [(5, StartCall())]
    assert [index for index, _ in told(records, Call)] == [3, 5]
