"""No type of ours drifts from its schema, and the projection of every conformant batch is a valid one."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwire.conclusion import result
from kvwire.conclusion.diagnosis.agreement import Agreement
from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.conclusion.untried import Why
from kvwire.judges import verdict
from kvwire.standard import protocol, registry, schemas
from kvwire.standard.registry import ControlLevel
from kvwire.standard.statement import Bounds, Group, Implementation, Medium, Statement, Stream
from kvwire.trace import files
from kvwire.trace.calls import Call, PublishCall
from kvwire.trace.detail import Detail, SocketEvent, Stimulus
from kvwire.trace.kinds import KINDS
from kvwire.trace.marks import Trouble
from kvwire.trace.planned import Left, Planned
from kvwire.trace.records import FORMAT, Header, Part, Record, StreamInfo, Trace
from kvwire.wire.msgpack import walk
from kvwire.wire.projection import batch_projection, project_batch


def members(name: str, definition: str) -> tuple[set[str], set[str]]:
    """The properties of a definition, and the required ones."""
    schema = schemas.load()[name]
    found = schema["$defs"][definition] if definition else schema
    return set(found["properties"]), set(found["required"])


@pytest.mark.parametrize(
    ("struct_type", "name", "definition", "besides"),
    [
        (Statement, "statement", "", set()),
        (Header, "trace", "header", set()),
        (StreamInfo, "trace", "stream", set()),
        (Part, "trace", "part", set()),
        (files.End, "trace", "end", set()),
        (files.Line, "trace", "record", set()),
        (result.Run, "result", "run", {"kind"}),
        (result.Stream, "result", "stream", {"kind"}),
        (StreamProfile, "result", "profile", {"kind"}),
        (Agreement, "result", "agreement", {"kind"}),
        (result.Hole, "result", "hole", {"kind"}),
        (Planned, "trace", "planned", set()),
        (result.Notice, "result", "notice", {"kind"}),
        (result.Trouble, "result", "trouble", {"kind"}),
        (result.Recording, "result", "recording", {"kind"}),
        (result.Total, "result", "total", {"kind"}),
        (result.Outcome, "result", "outcome", {"kind"}),
        (result.Summary, "result", "summary", {"kind"}),
        (verdict.Finding, "result", "finding", set()),
        (verdict.Where, "result", "where", set()),
        (registry.Requirement, "registry", "requirement", set()),
        (registry.ProfileFile, "profile", "", set()),
        (protocol.Start, "adapter", "request-start", {"id", "verb"}),
        (protocol.Bound, "adapter", "bound", set()),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_fields(struct_type: type[msgspec.Struct], name: str, definition: str, besides: set[str]) -> None:
    """Each type and its schema have the same fields, and agree on which have to be there."""
    fields = msgspec.structs.fields(struct_type)
    allowed, required = members(name, definition)
    assert allowed == {field.name for field in fields} | besides
    needed = {field.name for field in fields if field.required}
    assert required - besides == needed


@pytest.mark.parametrize(
    ("struct_type", "verb"),
    [
        (protocol.Hello, "hello"),
        (protocol.Accepted, "publish"),
        (protocol.Burst, "burst"),
        (protocol.Cached, "cache"),
        (protocol.Resident, "resident"),
        (protocol.Stats, "stats"),
    ],
)
def test_answer_fields(struct_type: type[msgspec.Struct], verb: str) -> None:
    answer = schemas.load()["adapter"]["$defs"][f"answer-{verb}"]["properties"]["ok"]
    assert set(answer["properties"]) == set(struct_type.__struct_fields__)


def test_parts_of_a_statement() -> None:
    properties = schemas.load()["statement"]["properties"]
    for struct_type, found in (
        (Implementation, properties["implementation"]["anyOf"][0]),
        (Stream, properties["streams"]["items"]),
        (Group, properties["groups"]["items"]),
        (Medium, properties["media"]["items"]),
        (Bounds, properties["bounds"]),
    ):
        assert set(found["properties"]) == set(struct_type.__struct_fields__)
        for field in msgspec.structs.fields(struct_type):
            default = found["properties"][field.name].get("default", msgspec.NODEFAULT)
            if default is not msgspec.NODEFAULT:
                assert field.default == default


def test_closed_lists() -> None:
    defs = schemas.load()["common"]["$defs"]
    assert defs["level"]["enum"] == list(get_args(registry.Level))
    assert defs["control"]["enum"] == list(get_args(ControlLevel))
    assert defs["decided-by"]["enum"] == list(get_args(registry.DecidedBy)) == list(get_args(protocol.Sets))
    remembered = schemas.load()["registry"]["$defs"]["requirement"]["properties"]["memory"]["enum"]
    assert remembered == list(get_args(registry.Memory))
    assert defs["verb"]["enum"] == list(protocol.VERBS)
    assert set(defs["verdict"]["enum"]) == set(verdict.Verdict)
    assert defs["left"]["enum"] == list(Left)
    lines = schemas.load()["result"]["$defs"]
    assert [*defs["left"]["enum"], *lines["outcome"]["properties"]["why"]["anyOf"][1]["enum"]] == list(Why)
    assert lines["notice"]["properties"]["what"]["enum"] == list(get_args(result.What))
    assert lines["summary"]["properties"]["no_claim"]["items"]["enum"] == list(get_args(result.NoClaim))
    without = schemas.load()["profile"]["properties"]["without"]["items"]["anyOf"]
    assert without[1]["enum"] == list(registry.AREAS)
    assert defs["id"]["pattern"] == f"^KVW-({'|'.join(registry.AREAS)})-[0-9]{{3}}$"
    assert set(schemas.load()["result"]["$defs"]["summary"]["properties"]["exit"]["enum"]) == set(verdict.Exit)


STATEMENT = Statement(
    profile="replay",
    implementation=Implementation(name="example"),
    algorithm="v1_block_key",
    ring=10,
    replay_form="replay-topic",
    salt="tag",
    groups=(Group(idx=1, kind="sliding_window", window=64, block_size=32, residency="counted"),),
    media=(Medium(medium="CPU", residency="refresh"),),
    bounds=Bounds(heartbeat_s=1.0),
    extensions=("end_payload",),
    streams=(Stream(endpoint="ipc:///run/a", name="a", replay="ipc:///run/b", topic="t", rank=0, mode="bind"),),
)
HEADER = Header(
    trace=FORMAT,
    edition="1",
    target="reference:",
    level="driven",
    can=("hello", "cache"),
    sets=("engine", "ts"),
    profile="replay",
    implementation="example 1",
    probes=("prime",),
    plan=(Planned(name="live", serves="ENV", left=Left.REFUSED, lacks=("cache",), said="no"),),
    life_from_start=True,
    statement=STATEMENT,
    streams=(StreamInfo(name="a", endpoint="ipc:///run/a", replay="ipc:///run/b", topic="t", rank=0),),
)
PLACE = verdict.Where(record=3, number="7", frame="payload", offset=1, hex="cb", stored="2", probe="live")
BATCH = batch_projection(1.5, [{"type": "AllBlocksCleared"}], 0)
LINES: list[tuple[str, msgspec.Struct]] = [
    ("statement", STATEMENT),
    ("statement", Statement()),
    ("trace", HEADER),
    ("trace", Header(trace=FORMAT, edition="1", target="zmq:", level="passive")),
    (
        "result",
        result.Run(
            format=result.FORMAT,
            edition="1",
            target="zmq:tcp://127.0.0.1:1",
            implementation="",
            level="replayable",
            profile="core",
            streams=["a"],
            sets=["ts"],
            mode="plain",
            probes=["live"],
            left_out=[],
            statement_sha256=STATEMENT.digest,
            only=["SEQ"],
            not_run={"reset": Left.ONLY},
            reproduce="kvwire check",
        ),
    ),
    ("result", result.Stream(name="a", form="map", batches=1, events={"BlockStored": 2}, incarnations=1, notes=["n"])),
    (
        "result",
        result.Hole(stream="a", incarnation=0, first="1", last="2", attribution="publisher", why="a replay lacks it"),
    ),
    ("result", result.Notice(what="silent", text="it fell silent", streams=["a"], after_s=1.5)),
    ("result", result.Trouble(text="no handshake")),
    (
        "result",
        result.Outcome(
            requirement="KVW-ENV-001",
            stream="a",
            verdict=verdict.Verdict.FAIL,
            level="MUST",
            sentence="A publisher MUST …",
            witnesses=4,
            violations=1,
            findings=[verdict.Finding(expected="three", seen="two", where=PLACE)],
            notes=["n"],
            expected="known",
        ),
    ),
    (
        "result",
        result.Summary(
            headline="not conformant",
            total=2,
            sentences={"FAIL": 1},
            not_judged={"KVW-EVT-022": "not visible in bytes"},
            conclusive_missing=["KVW-ENV-002"],
            no_claim=["only"],
            verdict=verdict.Verdict.FAIL,
            exit=1,
            expected=1,
            unexpected=["KVW-ENV-001 passes"],
        ),
    ),
]


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda value: type(value).__name__)
def test_what_is_written_is_valid(name: str, line: msgspec.Struct) -> None:
    assert schemas.validate(name, json.loads(msgspec.json.encode(line))) == []


def test_a_trace_file_is_valid() -> None:
    records = (
        Record(t_ns=1, source="live-a", stream="a", connection=1, frames=(b"t", b"\0" * 8, b"\x90")),
        Record(t_ns=2, source="replay-12", stream="a", frames=(b"",)),
        Record(t_ns=3, source="monitor", stream="a", detail=SocketEvent(event="CONNECTED")),
        Record(t_ns=4, source="stimulus", life=1, detail=PublishCall(batch=BATCH, accepted=True)),
        Record(t_ns=5, source="harness", detail=Trouble(text="no")),
    )
    for line in files.lines(Trace(header=HEADER, records=records)):
        assert schemas.validate("trace", json.loads(line)) == [], line


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        (
            "hello",
            protocol.Hello(
                protocol=protocol.PROTOCOL,
                implementation="example",
                version="1",
                statement=json.loads(msgspec.json.encode(STATEMENT)),
                can=["hello", "start", "stop"],
                sets=["ts"],
            ),
        ),
        ("start", protocol.Bound(endpoint="tcp://127.0.0.1:5557")),
        ("restart", protocol.Bound(endpoint="ipc:///run/a", replay="ipc:///run/b", topic="t", rank=1, mode="bind")),
        ("publish", protocol.Accepted(accepted=True, blocked_us=3)),
        ("burst", protocol.Burst(accepted=[True, False], blocked_us=[3, 1])),
        ("cache", protocol.Cached(cached_tokens=None)),
        ("resident", protocol.Resident(hashes=["-1", "18446744073709551615"])),
        ("stats", protocol.Stats(offered=3, sent=2, dropped=1)),
    ],
)
def test_answers_are_valid(verb: str, answer: msgspec.Struct) -> None:
    line = {"id": 1, "ok": msgspec.to_builtins(answer)}
    assert schemas.validate("adapter", line) == []
    assert schemas.validate(f"adapter#answer-{verb}", line) == []


@pytest.mark.parametrize(
    "options", [protocol.Start(), protocol.Start(endpoint="tcp://127.0.0.1:0", replay="none", rank=-1, ring=1, cap=5)]
)
def test_requests_are_valid(options: protocol.Start) -> None:
    assert schemas.validate("adapter", {"id": 2, "verb": "start", **msgspec.to_builtins(options)}) == []
    assert schemas.validate("adapter", {"id": 3, "verb": "publish", "batch": BATCH}) == []
    assert schemas.validate("adapter", {"id": 4, "verb": "burst", "batches": [BATCH, BATCH]}) == []


# what records tell


def label(kind: type[Detail]) -> str:
    """The name of a kind's definition."""
    return f"{kind.SOURCE}-{kind.EVENT}"


def bare(schema: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as msgspec makes it, in the way in which ours are written."""
    if "$ref" in schema:
        return bare(parts[schema["$ref"].rpartition("/")[2]], parts)
    if "anyOf" in schema:
        some = [bare(inner, parts) for inner in schema["anyOf"]]
        plain = [inner for inner in some if set(inner) != {"type"}]
        named = [inner["type"] for inner in some if set(inner) == {"type"}]
        types: dict[str, Any] = {"type": named[0] if len(named) == 1 else named}
        return {"anyOf": [*plain, types]} if plain else types
    found: dict[str, Any] = {key: schema[key] for key in ("type", "enum") if key in schema}
    for key in ("items", "additionalProperties"):
        if inner := schema.get(key):
            found[key] = bare(inner, parts)
    if "properties" in schema:
        found["properties"] = {name: bare(inner, parts) for name, inner in schema["properties"].items()}
    return found | ({"required": schema["required"]} if schema.get("required") else {})


def shape(kind: type[Detail], base: type[Detail] | None = None) -> dict[str, Any]:
    """What the fields of a kind are besides those of a base, as a schema says it."""
    made = msgspec.json.schema(kind)
    found = bare(made, made["$defs"])
    if base is None:
        return found
    for name in base.__struct_fields__:
        del found["properties"][name]
    return {"$ref": f"#/$defs/{BASES[base]}"} | {key: value for key, value in found.items() if key != "type" and value}


BASES: dict[type[Detail], str] = {Call: "call", Stimulus: "stimulus"}


def expected(kind: type[Detail]) -> dict[str, Any]:
    """What the definition of a kind says of its ``detail``."""
    return shape(kind, next((base for base in BASES if issubclass(kind, base)), None))


def test_every_kind_of_record_has_its_definition() -> None:
    definitions = schemas.load()["trace"]["$defs"]
    assert {"header", "part", "planned", "stream", "record", "end", *BASES.values(), *map(label, KINDS)} == set(
        definitions
    )
    assert {name: definitions[name] for name in BASES.values()} == {name: shape(base) for base, name in BASES.items()}
    assert definitions["record"]["allOf"] == [{"$ref": f"#/$defs/{label(kind)}"} for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=label)
def test_a_kind_of_record_is_as_its_definition_says(kind: type[Detail]) -> None:
    found = schemas.load()["trace"]["$defs"][label(kind)]
    assert found["if"]["properties"] == {"source": {"const": kind.SOURCE}, "event": {"const": kind.EVENT}}
    assert found["then"]["properties"]["detail"] == expected(kind)
    assert ("detail" in found["then"].get("required", ())) == ("required" in expected(kind))


# projections of conformant batches

HASH = st.integers(-(2**63), 2**64 - 1)
NAME = st.text(min_size=1, max_size=5)
OPTIONAL = {
    "extra_keys": st.none() | st.lists(st.none() | st.lists(st.text(max_size=3) | st.binary(max_size=3), max_size=2)),
    "group_idx": st.none() | st.integers(0, 9),
    "kv_cache_spec_kind": st.none() | NAME,
    "kv_cache_spec_sliding_window": st.none() | st.integers(0, 4096),
    "locality": st.sampled_from(["LOCAL", "REMOTE", None]),
    "ownership": st.none() | NAME,
    "scope": st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
    "session_id": st.none() | NAME,
    "hash_algo": st.none() | NAME,
    "v": st.just(1),
    "x-more": st.floats() | st.integers(-(2**63), 2**64 - 1) | st.dictionaries(st.text(max_size=3), st.booleans()),
}
MEDIUM = st.none() | NAME


@st.composite
def stored(draw: st.DrawFn) -> dict[str, Any]:
    hashes = draw(st.lists(HASH, min_size=1, max_size=3))
    size = draw(st.integers(1, 4))
    token = st.integers(0, 2**32 - 1) | st.binary(min_size=32, max_size=32).map(bytes.hex)
    tokens = draw(st.lists(token, min_size=size * len(hashes), max_size=size * len(hashes)))
    event: dict[str, Any] = {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": draw(st.none() | HASH),
        "token_ids": tokens,
        "block_size": size,
        "lora_id": draw(st.none() | st.integers(0, 2**64 - 1)),
        "medium": draw(MEDIUM),
        "lora_name": draw(st.none() | st.text(max_size=5)),
        **draw(st.fixed_dictionaries({}, optional=OPTIONAL)),
    }
    if any(isinstance(value, str) for value in tokens):
        key = st.fixed_dictionaries(
            {
                "type": st.just("mm_key"),
                "hash": st.binary(min_size=32, max_size=32).map(bytes.hex),
                "start_offset": st.integers(0, 99),
            },
            optional={"uuid": st.text(max_size=3)},
        )
        event["mm_keys"] = draw(st.lists(st.lists(key, max_size=2), min_size=len(hashes), max_size=len(hashes)))
    return event


REMOVED = st.fixed_dictionaries(
    {"type": st.just("BlockRemoved"), "block_hashes": st.lists(HASH, max_size=3), "medium": MEDIUM},
    optional={"group_idx": OPTIONAL["group_idx"]},
)
CLEARED = st.fixed_dictionaries(
    {"type": st.just("AllBlocksCleared")}, optional={"medium": MEDIUM, "ownership": st.none() | NAME, "epoch": NAME}
)
TS = st.floats(0, 1e11, exclude_max=True)


@given(TS, st.lists(stored() | REMOVED | CLEARED, max_size=3), st.integers(0, 2**31 - 1))
@settings(max_examples=60, deadline=None)
def test_projections_of_conformant_batches(ts: float, events: list[dict[str, Any]], rank: int) -> None:
    payload = msgspec.msgpack.encode([ts, events, rank])
    assert schemas.validate("batch", project_batch(walk(payload))) == []


@given(TS, st.lists(REMOVED | CLEARED, max_size=2), st.integers(0, 2**31 - 1))
@settings(max_examples=20, deadline=None)
def test_both_ways_to_project_agree(ts: float, events: list[dict[str, Any]], rank: int) -> None:
    payload = msgspec.msgpack.encode([ts, events, rank])
    assert batch_projection(ts, events, rank) == project_batch(walk(payload))
    assert struct.unpack(">d", bytes.fromhex(batch_projection(ts, events, rank)["ts"]["bits"])) == (ts,)
