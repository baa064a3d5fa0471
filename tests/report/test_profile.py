"""What is on a stream stands in every report: in the result as lines of their own, and in few words in each face."""

from __future__ import annotations

import re

import msgspec
import pytest
from tests.conclusion.diagnosis.test_diagnosis import VLLM, engine, hashed
from tests.kit.stories import Story, cleared, everything, stored

from kvwire.conclusion import result
from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.diagnosis import beginning
from kvwire.conclusion.diagnosis.recognition import seeded
from kvwire.conclusion.doctor import diagnose
from kvwire.conclusion.result import Result
from kvwire.hashes.mistakes import BY_NAME
from kvwire.report.faces import Format, face
from kvwire.standard import registry
from kvwire.trace.records import Trace


def passive(*stories: Story) -> Trace:
    """One run over several engines in which nothing was done to them."""
    traces = [story.trace() for story in stories]
    streams = tuple(info for one in traces for info in one.header.streams)
    header = msgspec.structs.replace(traces[0].header, streams=streams, can=(), level="passive", profile="multimodal")
    return msgspec.structs.replace(
        traces[0], header=header, records=tuple(record for one in traces for record in one.records)
    )


def concluded(made: Trace) -> Result:
    return conclude(made, registry.load(), everything())


def shown(made: Trace, kind: Format = "console") -> str:
    return " ".join(face([concluded(made)], kind).decode().split())


@pytest.mark.parametrize("kind", ["console", "markdown", "html", "junit", "json"])
def test_the_function_that_was_recognised_stands_in_each_face(kind: Format) -> None:
    said = shown(passive(engine(VLLM)), kind)
    name = VLLM.name.replace("_", "\\_")
    assert f'"function":"{VLLM.name}","blocks":12' in said or f"{name} (recomputed 12 of 12)" in said


@pytest.mark.parametrize("kind", ["console", "markdown", "html", "junit", "github"])
def test_what_keeps_a_consumer_from_hits_stands_in_each_face(kind: Format) -> None:
    assert "the engine hashes with PYTHONHASHSEED=42" in shown(passive(engine(seeded(VLLM, "42"))), kind)


def test_the_profile_is_that_of_the_doctor() -> None:
    made = passive(engine(VLLM), engine(seeded(VLLM, "42"), stream="t"))
    assert list(concluded(made).profiles) == diagnose([("t", made)]).streams
    assert list(concluded(made).agreements) == diagnose([("t", made)]).agreements


def test_engines_that_hash_one_prompt_differently_are_told_once_with_the_reason() -> None:
    stories = [engine(VLLM, stream="a"), *(engine(seeded(VLLM, "42"), stream=name) for name in "bcd")]
    said = shown(passive(*stories))
    assert "a and b hash one prompt differently" in said
    assert "another seed: a has none, b runs with PYTHONHASHSEED=42, and 2 more pairs like this" in said
    assert said.count("hash one prompt differently") == 1


def test_numbers_of_several_lives_are_told_as_such() -> None:
    story = Story().told(3)
    story.restart()
    story.told(1)
    text = " ".join(shown(passive(story), "markdown").split())
    assert re.search(r"numbers from 0 on, to [0-2] of the last life, 0 lost, 1 restart", text), text


def test_what_a_harness_did_is_no_trouble_of_the_engine() -> None:
    story = engine(seeded(VLLM, "42"))
    assert "PYTHONHASHSEED=42 (recomputed" in shown(story.trace())
    assert "the engine hashes with" not in shown(story.trace())
    offered = Story(sets=("engine",))
    offered.send(cleared(), stored("ab"))
    assert "recomputed" not in shown(offered.trace())


def test_a_long_recording_is_described_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "RECORDS", 5)
    (profile,) = concluded(passive(engine(VLLM))).profiles
    assert profile.part
    assert profile.batches < 4
    monkeypatch.setattr(beginning, "RECORDS", 20)
    assert not concluded(passive(engine(VLLM))).profiles[0].part
    fleet = [engine(VLLM, stream=f"s{at}") for at in range(3 * beginning.STREAMS)]
    assert all(one.part for one in concluded(passive(*fleet)).profiles)


def test_a_function_that_changes_on_the_way_is_named_beside_the_first() -> None:
    story = engine(VLLM)
    for start in (500, 600):
        tokens, values = (
            list(range(start, start + 64)),
            hashed(BY_NAME["x-sglang-sha256"], range(start, start + 64), 16),
        )
        story.send({**stored("a", size=16), "block_hashes": values, "token_ids": tokens})
    said = shown(passive(story))
    assert "are not those of x-vllm-sha256-cbor/bare: 8 are those of x-sglang-sha256; the function changed" in said


def test_lines_of_kinds_that_a_reader_does_not_know_are_skipped() -> None:
    report = concluded(passive(engine(VLLM)))
    first, *rest = result.dump(report).splitlines(keepends=True)
    later = b"".join([first, b'{"kind":"of-a-later-version","x":1}\n', *rest])
    assert result.parse(later) == result.parse(result.dump(report))
    with pytest.raises(result.ResultError, match="line 2: not of a result stream"):
        result.parse(b"".join([first, b'{"kind":"hole"}\n', *rest]))
