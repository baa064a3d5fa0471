"""A fleet in the middle of an upgrade: two streams of one run, each with a hash function of its own."""

from __future__ import annotations

import msgspec
import pytest
from tests.kit.hashed import chain, event, text
from tests.kit.stories import Story, everything

from kvwire.conclusion.judging import judge_stream
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.records import Trace

FUNCTIONS = {"rank-0": "v1_block_key", "rank-1": "v2_sha256_64/u32"}


def fleet(statement: Statement) -> Trace:
    """Two ranks that announce nothing, and hash the same prompt by two functions."""
    stories = []
    for rank, (name, algorithm) in enumerate(FUNCTIONS.items()):
        told = Story(stream=name, rank=rank, declared_rank=rank, can=())
        told.begin()
        for seed in range(9):
            blocks = text(1, seed=seed)
            told.send(event(chain(algorithm, blocks), blocks))
        stories.append(told)
    header = msgspec.structs.replace(
        stories[0].trace().header, statement=statement, streams=tuple(told.info for told in stories)
    )
    return Trace(header=header, records=tuple(record for told in stories for record in told.records))


def said(statement: Statement) -> dict[str, tuple[Verdict, Verdict]]:
    """What is said of HSH-001 and HSH-002, stream by stream."""
    recording = fleet(statement)
    found = {}
    for stream in recording.header.streams:
        judged = judge_stream(recording, stream, registry.load(), everything())
        verdicts = {outcome.requirement: outcome.verdict for outcome in judged.outcomes}
        found[stream.name] = verdicts["KVW-HSH-001"], verdicts["KVW-HSH-002"]
    return found


PASS, FAIL = Verdict.PASS, Verdict.FAIL


def test_each_stream_can_declare_its_own() -> None:
    streams = tuple(
        Stream(endpoint=f"tcp://127.0.0.1:{5557 + at}", name=name, algorithm=algorithm)
        for at, (name, algorithm) in enumerate(FUNCTIONS.items())
    )
    assert said(Statement(streams=streams)) == {"rank-0": (PASS, PASS), "rank-1": (PASS, PASS)}
    assert said(Statement(algorithm="v1_block_key", streams=streams[1:])) == {
        "rank-0": (PASS, PASS),
        "rank-1": (PASS, PASS),
    }


@pytest.mark.parametrize(("algorithm", "wrong"), [("v1_block_key", "rank-1"), ("v2_sha256_64/u32", "rank-0")])
def test_one_function_for_all_is_false_of_one(algorithm: str, wrong: str) -> None:
    assert {name for name, verdicts in said(Statement(algorithm=algorithm)).items() if verdicts[1] is FAIL} == {wrong}
