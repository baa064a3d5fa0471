"""Several streams beside which somebody watches: what they show together is told once for all of them."""

from __future__ import annotations

import time

import msgspec
from tests.kit.hashed import chain, event, text
from tests.kit.stories import Story, stored

from kvwire.conclusion.summary import Wanted
from kvwire.conclusion.watching import StreamFacts
from kvwire.trace.records import Trace
from kvwire.watch.beside import Beside, StreamState
from kvwire.watch.lines import Line, Lines
from kvwire.watch.together import ROUND_S, SETTLE_S, Together

FACTS = StreamFacts(
    batches=1,
    events={},
    waiting=0,
    incarnations=1,
    gaps=0,
    missing=0,
    resident=0,
    form="map",
    function=None,
    last_number=0,
    last_t_ns=0,
)
RANKS = 32


def states(silent: set[int]) -> list[StreamState]:
    return [
        StreamState(
            target="t",
            stream=f"rank-{rank}",
            facts=FACTS,
            connected=True,
            lag_s=0.0,
            asked=0,
            unwell="connected, and nothing came" * (rank in silent),
            silent=rank in silent,
        )
        for rank in range(RANKS)
    ]


class Fleet:
    """A fleet whose ranks fall silent and are heard again."""

    def __init__(self) -> None:
        self.said: list[Line] = []
        self.lines = Lines(self.said.append, 0.0)
        self.together = Together(self.lines, ())

    def look(self, now: float, silent: set[int]) -> list[tuple[str, int]]:
        before = len(self.said)
        self.together.look(now, states(silent))
        self.lines.push()
        return [(line.what, len(line.streams) or 1) for line in self.said[before:]]


def test_ranks_that_stop_one_after_the_other_are_told_once_when_no_more_do() -> None:
    fleet = Fleet()
    assert fleet.look(0.0, {1}) == []
    assert fleet.look(2.0, {1, 2}) == []
    assert fleet.look(4.0, {1, 2}) == []
    assert fleet.look(2.0 + SETTLE_S, {1, 2}) == [("stopped", 2)]
    assert fleet.said[-1].words.endswith(
        "stopped t rank-1, rank-2: silent beyond the own rhythm, while 30 other streams go on"
    )
    assert fleet.look(100.0, {1, 2}) == []
    assert fleet.look(101.0, {2}) == [("heard-again", 1)]


def test_a_fleet_that_is_silent_as_a_whole_has_not_stopped() -> None:
    fleet = Fleet()
    assert fleet.look(0.0, set(range(RANKS))) == []
    assert fleet.look(SETTLE_S, set(range(RANKS))) == [("silent", RANKS)]
    assert fleet.look(SETTLE_S + 1, set()) == [("heard-again", RANKS)]


def test_one_that_is_heard_again_before_it_is_told_is_not_told() -> None:
    fleet = Fleet()
    assert fleet.look(0.0, {7}) == []
    assert fleet.look(1.0, set()) == []
    assert fleet.look(50.0, set()) == []


def told(algorithm: str) -> Trace:
    story = Story(can=(), replay=False)
    story.connect()
    story.send(stored([algorithm], size=16))
    for seed in range(4):
        blocks = text(2, seed=seed)
        story.send(event(chain(algorithm, blocks), blocks))
    return story.trace()


def test_targets_with_one_rank_and_other_hashes_are_told_once() -> None:
    said: list[Line] = []
    lines = Lines(said.append, 0.0)
    besides = [Beside(name, lines, "core", Wanted(), replays=False, silent_s=None) for name in "ab"]
    traces = [told(algorithm) for algorithm in ("v1_block_key", "v2_sha256_64/u32")]
    for beside, trace in zip(besides, traces, strict=True):
        stream = msgspec.structs.replace(trace.header.streams[0], endpoint=f"tcp://{beside.name}:1")
        beside.begin(msgspec.structs.replace(trace.header, streams=(stream,), clock_ns=0))
    for together in zip(*(trace.records for trace in traces), strict=True):
        for beside, record in zip(besides, together, strict=True):
            beside.add(msgspec.structs.replace(record, t_ns=time.monotonic_ns()))
    both = Together(lines, besides)
    now = time.monotonic()
    for at in range(9):
        both.look(now + at * ROUND_S / 2, [*besides[0].look(now)[0], *besides[1].look(now)[0]])
    lines.push()
    found = [line for line in said if line.what in ("one-rank", "hashes-differ")]
    assert [line.what for line in found] == ["one-rank", "hashes-differ"]
    assert found[0].text == "two streams carry rank 0: a, b"
    assert found[1].text.startswith("b and a hash one prompt differently: 0 of 8 shared prefixes alike")
