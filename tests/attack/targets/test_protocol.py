"""Every request that the harness sends, and every answer of our own adapters, is as the schema says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.kit.adapter_lines import Lines
from tests.kit.runs import LIMITS, recorded

from kvwire.attack.probes.kit.session import Mode
from kvwire.attack.targets.process import AdapterProcess
from kvwire.standard import protocol, schemas
from kvwire.trace import files
from kvwire.trace.calls import Call
from kvwire.trace.kinds import KINDS

ROOT = Path(__file__).parents[3]
TRACES = sorted((*ROOT.glob("vectors/session/**/*.kvtrace*"), *ROOT.glob("implementations/*/traces/*.kvtrace.gz")))
ANSWERS: dict[str, type[msgspec.Struct]] = {
    "hello": protocol.Hello,
    "publish": protocol.Accepted,
    "burst": protocol.Burst,
    "cache": protocol.Cached,
    "resident": protocol.Resident,
    "stats": protocol.Stats,
}
"""What of a call's record is the answer; besides them it is ``bound``."""
CALLS = {kind.EVENT: kind for kind in KINDS if issubclass(kind, Call)}


def asked(kind: type[Call]) -> set[str]:
    """The fields of a call that its request has."""
    answer = ANSWERS.get(kind.EVENT)
    answered = {"bound", *(() if answer is None else answer.__struct_fields__)}
    return set(kind.__struct_fields__) - set(Call.__struct_fields__) - answered


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """What passes between the harness and its adapters in a test; checked when the run is over."""
    requests: list[bytes] = []
    answers: list[tuple[str, bytes]] = []
    send, read = AdapterProcess._send, AdapterProcess._read

    def sending(process: AdapterProcess, verb: str, line: bytes, deadline: float) -> None:
        requests.append(line)
        process.asked = verb  # type: ignore[attr-defined]
        send(process, verb, line, deadline)

    def reading(process: AdapterProcess, line: bytes) -> dict[str, object] | None:
        answers.append((process.asked, line))  # type: ignore[attr-defined]
        return read(process, line)

    monkeypatch.setattr(AdapterProcess, "_send", sending)
    monkeypatch.setattr(AdapterProcess, "_read", reading)
    found = Lines()
    yield found
    for line in requests:
        found.request(json.loads(line))
    for verb, line in answers:
        found.answer(verb, json.loads(line))
    assert found.wrong == []
    assert set(protocol.VERBS) - found.asked <= {"cache", "resident", "reset"}
    assert ("x-", "unsupported") in found.answered


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "mode"),
    [("reference:?multimodal=true&heartbeat=0.3", "thorough"), ("reference:?role=publish", "plain")],
)
@pytest.mark.usefixtures("lines")
def test_every_line_of_a_whole_run_is_valid(target: str, mode: Mode) -> None:
    light = msgspec.structs.replace(LIMITS, prompts=60, batches=40)
    trace = recorded(target, light, mode=mode)
    assert trace.header.left_out == () or mode == "plain"
    assert "stop" in trace.header.probes


def test_every_recorded_call_was_a_valid_request() -> None:
    """The traces of the vectors and of the implementations: with what they asked, and what they were answered."""
    lines = Lines()
    for path in TRACES:
        for record in files.read(path).records:
            if not isinstance(call := record.detail, Call):
                continue
            said = json.loads(msgspec.json.encode(call))
            wanted = asked(type(call))
            lines.request({"id": 1, "verb": call.event, **{name: said[name] for name in wanted if name in said}})
            if call.succeeded:
                unsaid = {*wanted, "must_survive"}
                answer = said.get("bound", {name: value for name, value in said.items() if name not in unsaid})
                lines.answer(call.event, {"id": 1, "ok": answer})
    assert lines.wrong == []
    assert lines.asked == set(protocol.VERBS)


@pytest.mark.parametrize("verb", protocol.VERBS)
def test_a_request_is_what_its_record_tells(verb: str) -> None:
    properties = schemas.load()["adapter"]["$defs"][f"request-{verb}"]["properties"]
    assert set(properties) == {"id", "verb", *asked(CALLS[verb])}


def test_an_item_of_a_prompt_is_what_the_schema_says() -> None:
    found = schemas.load()["adapter"]["$defs"]["request-cache"]["properties"]["mm"]["items"]
    fields = msgspec.structs.fields(protocol.Item)
    assert set(found["properties"]) == {field.name for field in fields}
    assert set(found["required"]) == {field.name for field in fields if field.required}


@pytest.mark.parametrize(
    ("said", "minor"),
    [
        ("kvwire-adapter-1", 0),
        ("kvwire-adapter-1.0", 0),
        ("kvwire-adapter-1.12", 12),
        ("kvwire-adapter-12", None),
        ("kvwire-adapter-1.", None),
        ("kvwire-adapter-1.01", None),
        ("kvwire-adapter-1.9999999999", None),
        ("kvwire-adapter-2", None),
    ],
)
def test_minor_versions(said: str, minor: int | None) -> None:
    assert protocol.minor_of(said) == minor
    hello = {"protocol": said, "implementation": "x", "version": "", "statement": {}, "can": [], "sets": []}
    assert (schemas.validate("adapter#answer-hello", {"id": 1, "ok": hello}) == []) == (minor is not None)
