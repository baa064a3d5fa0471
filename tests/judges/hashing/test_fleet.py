"""Fleets: two streams of one run, in the middle of an upgrade too, each with a hash function and a form of its own."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.kit.hashed import chain, event, text
from tests.kit.stories import SPOKEN, Event, Story, cleared, everything, pack

from kvwire.conclusion.judging import judge_stream
from kvwire.judges.verdict import Outcome, Verdict
from kvwire.standard import registry
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.records import Trace

V1, V2 = "v1_block_key", "v2_sha256_64/u32"
FUNCTIONS = {"rank-0": V1, "rank-1": V2}
PROFILE = "ranks"
SLOTS = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name")
"""Of an array, behind its tag."""

Tell = Callable[[], Trace]
FLEETS: list[tuple[Tell, dict[str, set[str]]]] = []


def heard(**spoken: str) -> Callable[[Tell], Tell]:
    """Add a fleet, and the sentences that its streams break: none, unless they are named."""

    def add(tell: Tell) -> Tell:
        FLEETS.append((tell, {name.replace("_", "-"): set(ids.split()) for name, ids in spoken.items()}))
        return tell

    return add


def worker(rank: int) -> Story:
    """A stream that nobody drives."""
    return Story(stream=f"rank-{rank}", rank=rank, declared_rank=rank, can=(), replay=False)


def life(told: Story, algorithm: str, *, announced: bool = False, arrays: bool = False) -> None:
    """A clear, and the same prompts by a function, each a block, with a second block behind the last."""

    def send(made: Event) -> None:
        shown = [made["type"], *(made[key] for key in SLOTS if key in made)] if arrays else made
        told.send(content=pack([told.tick(), [shown], told.rank]))

    send(cleared())
    for seed in range(9):
        blocks = text(1 + (seed == 8), seed=seed)
        send({**event(chain(algorithm, blocks), blocks), **({"hash_algo": algorithm} if announced else {})})


def together(*streams: Story, statement: Statement | None = None) -> Trace:
    """The streams of one run."""
    header = msgspec.structs.replace(
        streams[0].trace().header,
        statement=statement or Statement(),
        streams=tuple(told.info for told in streams),
        profile=PROFILE,
    )
    return Trace(header=header, records=tuple(record for told in streams for record in told.records))


def fleet(statement: Statement | None = None, *, announced: bool = False) -> Trace:
    """Two ranks that hash the same prompts by two functions."""
    streams = []
    for rank, algorithm in enumerate(FUNCTIONS.values()):
        streams.append(worker(rank))
        life(streams[-1], algorithm, announced=announced)
    return together(*streams, statement=statement)


@heard()
def mixed() -> Trace:
    """One rank hashes by v1, one by v2, and neither says so: each by its own, throughout."""
    return fleet()


@heard()
def mixed_and_announced() -> Trace:
    """One rank hashes by v1, one by v2, and each announces it."""
    return fleet(announced=True)


@heard()
def upgraded_one_by_one() -> Trace:
    """Rank 1 goes from v1 to v2 at a restart, and announces both; rank 0 stays behind."""
    behind, ahead = worker(0), worker(1)
    life(behind, V1, announced=True)
    life(ahead, V1, announced=True)
    ahead.restart()
    life(ahead, V2, announced=True)
    return together(behind, ahead)


@heard(rank_0="EVT-001", rank_1="EVT-001")
def from_arrays_to_maps() -> Trace:
    """Rank 1 goes from arrays hashed by v1 to maps hashed by v2; arrays are what edition 1 does not allow."""
    behind, ahead = worker(0), worker(1)
    life(behind, V1, arrays=True)
    life(ahead, V1, arrays=True)
    ahead.restart()
    life(ahead, V2, announced=True)
    return together(behind, ahead)


@heard(rank_1="CHN-003")
def with_a_parent_on_another_rank() -> Trace:
    """A child on rank 1 names as parent a block that only rank 0 holds: streams know nothing of each other."""
    streams = worker(0), worker(1)
    blocks = text(2, seed=99)
    for rank, told in enumerate(streams):
        life(told, V2)
        told.send(event(chain(V2, blocks)[: rank + 1], blocks[: rank + 1], first=rank))
    return together(*streams)


@heard(rank_1="HSH-001")
def upgraded_without_a_restart() -> Trace:
    """Rank 1 goes from v1 to v2 within one life, which no reader can follow."""
    behind, ahead = worker(0), worker(1)
    life(behind, V1)
    life(ahead, V1)
    life(ahead, V2)
    return together(behind, ahead)


def by_stream(recording: Trace) -> dict[str, dict[str, Outcome]]:
    """The outcomes of each stream."""
    return {
        stream.name: {
            outcome.requirement.removeprefix("KVW-"): outcome
            for outcome in judge_stream(recording, stream, registry.load(), everything()).outcomes
        }
        for stream in recording.header.streams
    }


@pytest.mark.parametrize(("tell", "spoken"), FLEETS, ids=[tell.__name__ for tell, _ in FLEETS])
def test_who_speaks_of_a_fleet(tell: Tell, spoken: dict[str, set[str]]) -> None:
    for name, outcomes in by_stream(tell()).items():
        speak = {what for what, outcome in outcomes.items() if outcome.verdict in SPOKEN}
        assert speak == spoken.get(name, set())
        assert outcomes["HSH-001"].witnesses > 0


def test_what_an_upgrade_leaves_behind_is_counted_life_by_life() -> None:
    """Nine arrays and a clear before, as many maps after."""
    outcomes = by_stream(from_arrays_to_maps())
    assert (outcomes["rank-1"]["EVT-001"].violations, outcomes["rank-1"]["EVT-001"].witnesses) == (10, 20)
    assert outcomes["rank-1"]["HSH-001"].notes == [f"matches ×10 {V1}", f"matches ×10 {V2}"]


def said(statement: Statement) -> dict[str, tuple[Verdict, Verdict]]:
    """What is said of HSH-001 and HSH-002, stream by stream."""
    return {
        name: (outcomes["HSH-001"].verdict, outcomes["HSH-002"].verdict)
        for name, outcomes in by_stream(fleet(statement)).items()
    }


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
