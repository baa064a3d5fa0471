"""SEQ-005 of declared streams: each has a counter of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from tests.kit.stories import Story, everything, number_frame, payload

from kvwire.conclusion.judging import judge_stream
from kvwire.conclusion.showing import Judged
from kvwire.judges.verdict import Outcome, Verdict
from kvwire.standard import registry
from kvwire.trace.records import Record, Source, StreamInfo, Trace

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def siblings(*numbers: Sequence[int]) -> list[Judged]:
    """Streams that are listened to, each with these numbers, one message of each in turn."""
    story = Story(can=(), replay=False)
    infos = tuple(StreamInfo(name=f"rank-{at}", endpoint=f"tcp://h:{at + 1}", rank=at) for at in range(len(numbers)))
    records: list[Record] = []
    for turn in range(max(map(len, numbers))):
        for at, own in enumerate(numbers):
            if turn < len(own):
                frames = (b"kv", number_frame(own[turn]), payload(ts=story.tick(), rank=at))
                records.append(Record(t_ns=len(records), source=Source.LIVE_A, stream=f"rank-{at}", frames=frames))
    trace = Trace(header=msgspec.structs.replace(story.trace().header, streams=infos), records=tuple(records))
    return [judge_stream(trace, info, registry.load(), everything()) for info in infos]


def outcome(judged: Judged, requirement: str) -> Outcome:
    return next(found for found in judged.outcomes if found.requirement == f"KVW-{requirement}")


def test_streams_that_are_listened_to() -> None:
    apart = siblings([0, 1, 2, 3], [70, 71, 72, 73])
    assert [outcome(judged, "SEQ-005").verdict for judged in apart] == [PASS, PASS]
    shared = siblings([0, 2, 4, 6], [1, 3, 5, 7])
    assert [outcome(judged, "SEQ-005").verdict for judged in shared] == [FAIL, FAIL]


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ([0, 1], [70, 71, 72], (OPEN, 0)),  # two batches can follow each other by chance
        ([0, 1, 2], [], (OPEN, 0)),  # nothing is sent beside it
        ([0, 1, 3, 4], [2, 70, 71], (PASS, 2)),  # one hole can be where another stream has a number
        ([0, 2, 4, 6], [0, 1, 3, 5], (OPEN, 0)),  # both have a number: there are two counters
        ([0, 2, 5, 6], [1, 3, 70, 71], (PASS, 1)),  # not all of a hole is on the other stream
    ],
)
def test_what_tells_nothing_of_a_counter_that_is_shared(
    own: list[int], other: list[int], expected: tuple[Verdict, int]
) -> None:
    found = outcome(siblings(own, other)[0], "SEQ-005")
    assert (found.verdict, found.witnesses) == expected


def test_one_stream_alone_has_no_other_to_share_with() -> None:
    (alone,) = siblings([0, 1, 2, 3])
    assert outcome(alone, "SEQ-005").verdict is OPEN
