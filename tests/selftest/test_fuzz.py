"""The fuzzer finds what it is for, and what is known to be met well stays so."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.kit.stories import Story, stored

from kvwire import cli
from kvwire.judges.verdict import Exit
from kvwire.selftest.fuzz import TARGETS, Finding, Target, fuzz
from kvwire.selftest.fuzz.mutation import Mutate, json_lines, toml
from kvwire.trace import files
from kvwire.trace.records import TraceError


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutated_data_ends_with_a_clear_error_or_a_verdict(target: Target) -> None:
    found = list(fuzz(target, 3, 60.0, at_most=12))
    assert [one for one in found if isinstance(one, Finding)] == []
    assert found[-1] == 12


def test_what_is_met_badly_is_found_once_and_can_be_made_again() -> None:
    def breaks(raw: bytes) -> None:
        raise ZeroDivisionError(len(raw))

    bad = Target(name="bad", seeds=lambda: [b"{}"], run=breaks, clear=(ValueError,))
    *found, count = fuzz(bad, 1, 60.0, at_most=5)
    assert count == 5
    assert len(found) == 1
    assert isinstance(found[0], Finding)
    assert found[0].what.startswith("ZeroDivisionError")
    again = next(iter(fuzz(bad, 1, 60.0, at_most=5)))
    assert isinstance(again, Finding)
    assert again.content == found[0].content


def test_a_target_that_nobody_knows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["selftest", "fuzz", "nothing"]) == Exit.USAGE
    assert "no target 'nothing'; there are payload, trace" in " ".join(capsys.readouterr().err.split())


CALLS: tuple[tuple[str, dict[str, object], str], ...] = (
    ("publish", {"batch": {"ts": 1.0, "events": [{"block_hashes": ["1x"]}]}}, "no batch"),
    ("publish", {"batch": {"events": []}}, "no batch: KeyError"),
    ("burst", {"batches": [{"ts": 1.0, "events": []}], "accepted": [True, True]}, "accepted speaks of 2 batches"),
    ("resident", {"hashes": ["18013317135)90605405"]}, "matching regex"),
    ("cache", {"tokens": [-1]}, "token -1 is neither an id"),
    ("cache", {"tokens": ["zz"]}, "token 'zz' is neither an id"),
)


@pytest.mark.parametrize(("event", "detail", "said"), CALLS)
def test_what_no_harness_writes_is_refused_with_its_line(event: str, detail: dict[str, object], said: str) -> None:
    story = Story()
    story.send(stored("a"))
    lines = list(files.lines(story.trace()))
    lines.insert(
        2, msgspec.json.encode({"t_ns": 1, "source": "stimulus", "stream": "s", "event": event, "detail": detail})
    )
    with pytest.raises(TraceError, match="line 3") as caught:
        files.parse(lines)
    assert said in str(caught.value)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [70, 900, 100_000])
@pytest.mark.parametrize(
    "line",
    [
        '{"t_ns":1,"source":"stimulus","event":"cache","detail":{"tokens":[],"mm":[{"a":DEEP}]}}',
        '{"t_ns":1,"source":"stimulus","event":"hello","detail":{"statement":{"a":DEEP}}}',
        '{"t_ns":1,"source":"stimulus","event":"publish","detail":{"batch":{"ts":1.0,"events":[{"a":DEEP}]}}}',
        '{"t_ns":1,"source":"stimulus","event":"of-another-harness","detail":{"a":DEEP}}',
        '{"end":1,"interrupted":DEEP}',
    ],
)
def test_what_is_nested_deeper_than_anything_that_is_written_is_refused(line: str, depth: int) -> None:
    lines = list(files.lines(Story().trace()))
    lines.insert(1, line.replace("DEEP", nested(depth)).encode() + b"\n")
    with pytest.raises(TraceError, match="line 2"):
        files.parse(lines)


@pytest.mark.parametrize("depth", [70, 100_000])
def test_a_header_is_refused_that_is_nested_too_deeply(depth: int) -> None:
    header = b'{"trace":"kvwire-trace-1","edition":"1","target":"x","level":"passive","can":%s}\n'
    with pytest.raises(TraceError, match="line 1"):
        files.parse([header % nested(depth).encode()])


@pytest.mark.parametrize("field", ["t_ns", "connection", "life"])
def test_numbers_beyond_64_bits_are_refused(field: str) -> None:
    line = {"t_ns": 1, "source": "live-a", "stream": "s", field: 2**64}
    lines = list(files.lines(Story().trace()))
    lines.insert(1, msgspec.json.encode(line))
    with pytest.raises(TraceError, match="line 2"):
        files.parse(lines)


DECLARED: tuple[tuple[dict[str, object], str], ...] = (
    ({"ring": -5}, "ring"),
    ({"edition": "99"}, "edition '99' is unknown"),
    ({"profile": "none"}, "no profile 'none'"),
    ({"extensions": ["own"]}, "no extension 'own'"),
    ({"bounds": {"heartbeat_s": 1e308}}, "heartbeat_s"),
    ({"groups": [{}, {}]}, "two groups"),
)


@pytest.mark.parametrize(("statement", "said"), DECLARED)
def test_a_recording_declares_what_a_statement_can(statement: dict[str, object], said: str) -> None:
    lines = list(files.lines(Story().trace()))
    header = msgspec.json.decode(lines[0])
    lines[0] = msgspec.json.encode(header | {"statement": statement}) + b"\n"
    with pytest.raises(TraceError, match="line 1") as caught:
        files.parse(lines)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("mutate", "raw"), [(json_lines, b'{"a":["00ff",1]}\n{"b":{}}\n'), (toml, b"a = 1\n[b]\nc = 2\n")]
)
def test_a_seed_and_a_number_give_the_same_damage(mutate: Mutate, raw: bytes) -> None:
    made = [[mutate(raw, random.Random(f"{at}")) for at in range(200)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 100


def test_an_input_is_made_again_by_its_number_alone() -> None:
    inputs: list[bytes] = []
    target = Target(name="kept", seeds=lambda: [b"some bytes"], run=inputs.append, clear=())
    assert list(fuzz(target, 1, 60.0, at_most=9)) == [9]
    assert list(fuzz(target, 1, 60.0, first=8, at_most=1)) == [1]
    assert inputs[8] == inputs[9]
