"""RNK and SEQ-005: each rank tells its own number, by a counter of its own, on a stream of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from tests.kit.instances import Instance
from tests.kit.stories import Event, Story, everything, number_frame, payload, stored

from kvwire.conclusion.judging import Judged, judge_stream
from kvwire.judges.verdict import Outcome, Verdict
from kvwire.standard import registry
from kvwire.trace.marks import Ranks
from kvwire.trace.records import Record, Source, StreamInfo, Trace

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
SIZE = 4


def tokens(rank: int, block: int) -> list[int]:
    """The tokens of a rank's block: those of no other."""
    return [1000 * (rank + 1) + SIZE * block + at for at in range(SIZE)]


def announced(rank: int, block: int) -> Event:
    """The store of that block."""
    return {**stored([f"{rank}/{block}"]), "token_ids": tokens(rank, block)}


def deployment(ranks: int = 3, **story: object) -> tuple[Story, list[Instance]]:
    """Instances that were started as ranks of one deployment, and are reached."""
    told = Story(sets=(), **story)  # type: ignore[arg-type]
    members = [Instance(told, f"instance-{rank}") for rank in range(ranks)]
    for rank, member in enumerate(members):
        own = f"ipc:///run/kv{f'_dp{rank}' if rank else ''}"
        member.accepts("ipc:///run/kv", own, rank=rank, world=ranks, replay="none").reached(own)
    told.note(Ranks(members={member.name: rank for rank, member in enumerate(members)}))
    return told, members


def work(members: Sequence[Instance], count: int = 4, *, tag: Sequence[int] | None = None) -> None:
    """Each rank runs prompts in turn, and announces them."""
    for block in range(count):
        for rank, member in enumerate(members):
            member.cache(*tokens(rank, block))
            member.sends(block, announced(rank, block), rank=rank if tag is None else tag[rank])


def verdicts(story: Story) -> list[Verdict]:
    outcomes = story.outcomes()
    return [outcomes[name].verdict for name in ("RNK-003", "RNK-004", "SEQ-005")]


def test_ranks_that_mind_their_own_business() -> None:
    story, members = deployment()
    work(members)
    outcomes = story.outcomes()
    assert {name: outcomes[name].witnesses for name in ("RNK-003", "RNK-004", "SEQ-005")} == {
        "RNK-003": 12,
        "RNK-004": 12,
        "SEQ-005": 9,
    }
    assert verdicts(story) == [PASS, PASS, PASS]


def test_every_rank_says_that_it_is_rank_0() -> None:
    story, members = deployment()
    work(members, tag=(0, 0, 0))
    assert verdicts(story) == [FAIL, PASS, PASS]
    assert story.outcome("RNK-003").violations == 8


def test_one_counter_for_all() -> None:
    story, members = deployment()
    number = 0
    for block in range(4):
        for rank, member in enumerate(members):
            member.cache(*tokens(rank, block))
            member.sends(number, announced(rank, block), rank=rank)
            number += 1
    assert verdicts(story) == [PASS, PASS, FAIL]


def test_holes_that_nobody_fills_are_no_shared_counter() -> None:
    story, members = deployment()
    for block in range(6):
        for rank, member in enumerate(members):
            member.cache(*tokens(rank, block))
            member.sends(2 * block, announced(rank, block), rank=rank)
    assert story.outcome("SEQ-005").violations == 0


def test_a_rank_without_a_stream() -> None:
    story, members = deployment()
    work(members[:2])
    members[2].cache(*tokens(2, 0))
    assert verdicts(story) == [PASS, FAIL, PASS]
    assert "no block on it" in story.outcome("RNK-004").findings[0].seen


def test_all_ranks_on_one_stream() -> None:
    story, members = deployment(2)
    for block in range(4):
        for rank, member in enumerate(members):
            member.cache(*tokens(rank, block))
            members[0].sends(2 * block + rank, announced(rank, block), rank=0)
    assert "RNK-004" in story.spoken()


def test_nothing_of_any_rank_tells_nothing() -> None:
    story, members = deployment()
    for rank, member in enumerate(members):
        member.cache(*tokens(rank, 0))
    assert verdicts(story)[1] is OPEN


def test_no_ranks_could_be_started() -> None:
    story = Story(sets=())
    Instance(story).refuses("adapter: rank 0 only", rank=1, world=3)
    story.note(Ranks(members={}))
    assert "adapter: rank 0 only" in story.outcome("RNK-004").reason
    assert "adapter: rank 0 only" in story.outcome("SEQ-005").reason


def test_a_rank_that_is_handed_on_with_each_batch_is_not_the_publishers() -> None:
    story, members = deployment()
    story.sets = ("rank",)
    work(members, tag=(0, 0, 0))
    assert verdicts(story) == [Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE, OPEN]


def test_a_rank_that_stops_while_others_go_on_is_reported() -> None:
    story, members = deployment()
    work(members, 2)
    for block in range(2, 8):
        for rank in (0, 2):
            members[rank].cache(*tokens(rank, block))
            members[rank].sends(block, announced(rank, block), rank=rank)
    outcome = story.outcome("RNK-004")
    assert outcome.verdict is PASS
    (note,) = outcome.notes
    assert note.startswith("rank 1 stopped")
    assert "while rank 0, rank 2 went on" in note


# --- declared streams


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


def test_one_stream_alone_has_no_other_to_share_with() -> None:
    (alone,) = siblings([0, 1, 2, 3])
    assert outcome(alone, "SEQ-005").verdict is OPEN


def test_a_declared_stream_that_stops_is_reported_too() -> None:
    stopped, going = siblings([0, 1], range(20))
    assert any(note.startswith("rank-0 stopped") for note in stopped.notes)
    assert going.notes == ()
