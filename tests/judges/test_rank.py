"""RNK, and SEQ-005 of ranks: each tells its own number, by a counter of its own, on a stream of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.instances import Instance
from tests.kit.stories import T0, Event, Story, blocks, cleared, pack, payload, removed, stored, thrice

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.calls import BoundAt, CacheCall, ResidentCall, StartCall
from kvwire.trace.marks import Ranks, RankWait, Settled, TailDone

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


@pytest.mark.parametrize("can", [(), ("publish",)], ids=["in one pass", "as a whole"])
@pytest.mark.parametrize("what", ["ranks", "topics"])
def test_what_several_caches_say_on_one_stream_is_held_against_none(what: str, can: tuple[str, ...]) -> None:
    """Gathered ranks, and emitters that share a counter: each has the same block, and loses it."""
    story = Story(can=can, declared_topic=None, declared_rank=None).begin()
    for event in (stored(["a"]), stored(["b"], "a"), removed(["b"]), removed(["a"])):
        for source in range(2):
            told = payload(event, ts=story.tick(), rank=source if what == "ranks" else 0)
            story.topic = b"kv@b" if what == "topics" and source else b"kv"
            story.send(content=told)
    assert set(story.spoken()) == {"RNK-002" if what == "ranks" else "ENV-002"}


def test_two_ranks_behind_one_endpoint_are_counted_message_by_message() -> None:
    story = Story().begin()
    for number in range(4):
        story.send(stored([number]))
        story.live(number, payload(stored([100 + number]), ts=story.clock, rank=1))
    outcomes = story.outcomes()
    assert [(outcomes[n].violations, outcomes[n].witnesses) for n in ("RNK-002", "RNK-003")] == [(4, 8), (4, 9)]


def test_ranks_that_mind_their_own_business() -> None:
    story, members = deployment()
    work(members)
    outcomes = story.outcomes()
    assert {name: outcomes[name].witnesses for name in ("RNK-002", "RNK-003", "RNK-004", "SEQ-005")} == {
        "RNK-002": 9,
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


def test_a_batch_of_a_rank_that_tells_none_shows_nothing_of_what_it_tells() -> None:
    story, members = deployment(2)
    work(members, 2)
    members[1].sends(2, rank=None)
    outcomes = story.outcomes()
    assert [(outcomes[n].verdict, outcomes[n].witnesses) for n in ("RNK-002", "RNK-003")] == [(PASS, 2), (PASS, 4)]


def test_tokens_that_several_ranks_were_given_tell_of_none() -> None:
    story, members = deployment(2)
    work(members, 2)
    for member in members:
        member.cache(*tokens(0, 9))
    members[1].sends(2, announced(0, 9), rank=1)
    assert story.verdict("RNK-004") == (PASS, 4)


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
    members[2].note(TailDone(outcome="bound", after_s=1.0, bound_s=1.0))
    assert verdicts(story) == [PASS, OPEN, PASS]
    thrice(lambda: members[2].note(TailDone(outcome="bound", after_s=1.0, bound_s=1.0)))
    assert verdicts(story) == [PASS, FAIL, PASS]
    assert "no block on it" in story.outcome("RNK-004").findings[0].seen


def test_a_rank_that_nobody_got_to_is_not_without_a_stream() -> None:
    story, members = deployment(2)
    work(members)
    members.append(Instance(story, "instance-2").accepts("ipc:///run/kv", "ipc:///run/kv_dp2", rank=2, world=3))
    story.note(Ranks(members={member.name: rank for rank, member in enumerate(members)}))
    members[2].cache(*tokens(2, 0))
    thrice(lambda: members[2].note(TailDone(outcome="bound", after_s=1.0, bound_s=1.0)))
    outcome = story.outcome("RNK-004")
    assert (outcome.verdict, outcome.reason) == (OPEN, "no handshake with rank 2")


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
    outcome = story.outcome("RNK-004")
    assert (outcome.verdict, outcome.reason) == (OPEN, "no block of any rank was seen")


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


def test_the_gathered_form_is_one_stream_for_all() -> None:
    """Rank 0 sends what all have, tagged with theirs."""
    story, members = deployment(2)
    number = 0
    for block in range(3):
        for rank, member in enumerate(members):
            member.cache(*tokens(rank, block))
            members[0].sends(number, announced(rank, block), rank=rank)
            number += 1
    assert {"RNK-002", "RNK-003", "RNK-004"} <= set(story.spoken())
    assert "RNK-005" not in story.spoken()


def holds(member: Instance, *held: tuple[int, int]) -> None:
    """Its engine is asked what it holds."""
    member.note(ResidentCall(hashes=tuple(map(str, blocks(f"{rank}/{at}" for rank, at in held)))))


def test_the_union_of_the_streams_is_what_the_engines_hold() -> None:
    story, members = deployment(2)
    work(members, 2)
    for rank, member in enumerate(members):
        holds(member, (rank, 0), (rank, 1))
    outcome = story.outcome("RNK-004")
    assert (outcome.verdict, outcome.witnesses) == (PASS, 8)


def test_a_block_that_one_rank_holds_and_another_announces() -> None:
    story, members = deployment(2)
    for rank, member in enumerate(members):
        member.sends(0, stored([f"{rank}/0"]), rank=rank)  # tokens that tell nothing
    holds(members[0], (0, 0), (1, 0))
    holds(members[1])
    outcome = story.outcome("RNK-004")
    assert outcome.violations == 1
    assert outcome.findings[0].seen == "1 of them on the stream of rank 1 alone"


@pytest.mark.parametrize("end", [removed(["0/0"]), cleared()])
def test_a_block_that_a_stream_announced_and_ended_is_on_it_no_more(end: Event) -> None:
    story, members = deployment(2)
    members[1].sends(0, stored(["0/0"]), rank=1).sends(1, end, rank=1)
    holds(members[0], (0, 0))
    holds(members[1])
    assert story.outcome("RNK-004").violations == 0


# --- ranks that wait for each other


def waits(*told: tuple[str, str], held_up_s: float = 0.0, rank: int = 0) -> Story:
    """What the others were, and what came of the work of one rank."""
    story = Story().begin()
    for peers, outcome in told:
        wait = RankWait(
            instance="instance-1",
            rank=rank,
            peers=peers,  # type: ignore[arg-type]
            outcome=outcome,  # type: ignore[arg-type]
            after_s=0.1 if outcome in ("heard", "ended") else 2.0,
            bound_s=2.0,
            why="no answer to `cache` within 5 s" if outcome == "hung" else "",
        )
        story.note(wait)
        if held_up_s:
            story.stands_still(seconds=held_up_s)
    return story


ALONE = ("none", "heard")
SILENT = [("idle", "bound")] * 3
HANGS = [("idle", "hung")] * 3


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ([ALONE, ("idle", "heard"), ("stopped", "heard"), ("killed", "heard")], PASS),
        ([ALONE, *SILENT, ("busy", "heard")], FAIL),
        ([ALONE, ("idle", "heard"), *[("stopped", "bound")] * 3], FAIL),
        ([ALONE, ("idle", "heard"), *[("killed", "ended")] * 3], FAIL),
        ([ALONE, *HANGS], FAIL),
        ([ALONE, *SILENT, *[("busy", "bound")] * 3], OPEN),
        ([("none", "bound"), *HANGS], OPEN),
        ([("none", "bound")], OPEN),
        ([ALONE, *HANGS[:2]], OPEN),
        ([ALONE, ("idle", "bound"), ("idle", "bound"), ("busy", "heard")], OPEN),
        ([ALONE, ("idle", "bound"), ("idle", "heard")], PASS),
        ([], OPEN),
    ],
)
def test_a_rank_waits_for_no_other(told: list[tuple[str, str]], verdict: Verdict) -> None:
    assert waits(*told).outcome("RNK-005").verdict is verdict


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([("none", "bound")], "nothing was heard of a rank alone, before there were others"),
        ([ALONE, *SILENT, ("busy", "bound")], "rank 0 was not heard while the other ranks were idle, nor when they"),
        ([ALONE, *HANGS[:2]], "rank 0 was not heard while the other ranks were idle, and too few attempts"),
    ],
)
def test_why_nobody_knows_whether_a_rank_waits(told: list[tuple[str, str]], why: str) -> None:
    assert waits(*told).outcome("RNK-005").reason.startswith(why)


def test_a_rank_that_was_not_heard_once_is_a_remark() -> None:
    (note,) = waits(ALONE, ("idle", "bound"), ("idle", "heard")).outcome("RNK-005").notes
    assert note == "rank 0 was not heard in one attempt while the other ranks were idle, and in others it was"


def test_a_rank_that_waits_is_told_with_what_the_others_were() -> None:
    (silent,) = waits(ALONE, *SILENT, ("busy", "heard"), rank=2).outcome("RNK-005").findings
    assert silent.expected == "a batch of rank 2 within 2 s of its work, while the other ranks were idle"
    assert silent.seen == "in 3 attempts of 3 nothing came"
    (hung,) = waits(ALONE, *HANGS).outcome("RNK-005").findings
    assert hung.seen.endswith("did not return: no answer to `cache` within 5 s")


def test_a_machine_that_stands_still_makes_no_rank_wait() -> None:
    assert waits(ALONE, *SILENT, ("busy", "heard"), held_up_s=1.5).outcome("RNK-005").verdict is OPEN


def test_a_rank_that_was_heard_although_the_machine_stood_still_was_heard() -> None:
    told = (ALONE, ("idle", "heard"), ("stopped", "heard"), ("killed", "heard"))
    judged = waits(*told, held_up_s=1.5).outcome("RNK-005")
    assert judged.verdict is PASS
    assert judged.witnesses == 3


# --- topologies


WHOLE = StartCall(tp=2, bound=BoundAt(endpoint="ipc:///x", tp=2, pp=1, cp=1))
PIECES = StartCall(pp=2)
TOLD = BoundAt(endpoint="ipc:///x", tp=1, pp=2, cp=1)


@pytest.mark.parametrize(
    ("calls", "verdict", "why"),
    [
        ([WHOLE, PIECES.answered({"refused": "pipeline parallelism of 2"})], PASS, ""),
        ([WHOLE, PIECES.answered({"bound": TOLD})], FAIL, ""),
        ([WHOLE, PIECES.answered({"bound": BoundAt(endpoint="ipc:///x")})], OPEN, "the adapter does not say"),
        ([WHOLE, PIECES.answered({"refused": "adapter: no option"})], OPEN, "adapter: no option: the adapter refused"),
        ([WHOLE, PIECES.answered({"error": "it ended"})], OPEN, "the adapter failed: it ended"),
        ([PIECES.answered({"refused": "pp? no"})], OPEN, "no topology is taken"),
        ([WHOLE.answered({"refused": "tp? no"}), PIECES.answered({"refused": "pp? no"})], OPEN, "no topology is taken"),
    ],
)
def test_blocks_in_pieces_have_no_stream(calls: list[StartCall], verdict: Verdict, why: str) -> None:
    story = Story(sets=()).begin()
    one = Instance(story)
    for call in calls:
        one.note(call)
    outcome = story.outcome("RNK-006")
    assert outcome.verdict is verdict
    assert outcome.reason.startswith(why)


# --- one stream


def sent(*contents: bytes) -> Story:
    """A story of these payloads, numbered from 0."""
    story = Story()
    for content in contents:
        story.send(content=content)
    return story


def speaks(story: Story) -> dict[str, int]:
    """What of RNK is broken, and how often."""
    found = story.outcomes().items()
    return {name: outcome.violations for name, outcome in found if name.startswith("RNK") and outcome.violations}


def test_an_honest_stream() -> None:
    story = Story().begin()
    story.send(stored("a"))
    story.send()
    witnesses = {name: outcome.witnesses for name, outcome in story.outcomes().items() if name.startswith("RNK")}
    assert witnesses == {"RNK-001": 3, "RNK-002": 2, "RNK-003": 3, "RNK-004": 0, "RNK-005": 0, "RNK-006": 0}


@pytest.mark.parametrize("rank", [None, -1, 2**31, "0", 0.0])
def test_a_rank_that_is_none(rank: Any) -> None:
    story = sent(pack([T0, [], rank]))
    assert speaks(story) == {"RNK-001": 1}
    assert story.place("RNK-001")[:3] == ("0", "payload", 11)
    assert {name for name in story.witnessed() if name.startswith("RNK")} == {"RNK-001"}


def test_a_rank_that_changes_and_is_not_the_declared_one() -> None:
    story = sent(payload(), payload(rank=1), payload(rank=70_000))
    assert speaks(story) == {"RNK-002": 2, "RNK-003": 2}
    assert story.place("RNK-002") == ("1", "payload", 11, "01")
    assert story.outcome("RNK-002").findings[1].where.hex == "ce00011170"


def test_the_rank_holds_over_a_restart() -> None:
    story = Story().begin()
    story.restart()
    story.live(0, payload(cleared(), ts=T0 + 99, rank=3))
    assert speaks(story) == {"RNK-002": 1, "RNK-003": 1}


def test_a_rank_that_is_not_declared_is_not_claimed() -> None:
    outcome = Story(declared_rank=None).begin().outcome("RNK-003")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_CLAIMED)


def test_a_rank_that_the_adapter_passes_on_is_not_the_publishers() -> None:
    story = Story(sets=("engine", "ts", "rank"), declared_rank=None, statement=Statement())
    story.publish(stored("a"))
    story.publish(stored("b", "a"))
    assert story.outcome("RNK-001").reason == Reason.OURS
    assert story.outcome("RNK-002").reason == Reason.OURS
    story.send(content=payload(rank=9, ts=T0 + 99))
    assert speaks(story) == {"RNK-002": 1}


def test_a_rank_that_the_adapter_passes_on_is_not_judged_under_a_number_that_is_used_again() -> None:
    story = Story(sets=("engine", "ts", "rank"))
    story.publish(stored("a"))
    ts = story.offer(stored("b"), rank=3)
    story.live(0, payload(stored("b"), ts=ts, rank=3))
    assert {name for name in story.witnessed() if name.startswith("RNK")} == set()


# --- caches that are off the stream


PROMPT = tuple(token for at in range(3) for token in tokens(0, at))


@pytest.mark.parametrize(
    ("names", "broken"),
    [
        ("xyz", {"HSH-006", "RES-003"}),  # by a seed of its own
        ("abc", {"RES-001"}),  # by the same function
    ],
)
def test_blocks_of_a_draft_model_show_as_something_else(names: str, broken: set[str]) -> None:
    """RNK-007 is for review; what is not off the stream is heard all the same."""
    story = Story(can=("cache", "resident"), statement=Statement(algorithm="opaque")).begin()
    story.note(CacheCall(tokens=PROMPT, cached_tokens=0))
    for chain in ("abc", names):
        story.send({**stored(chain), "token_ids": list(PROMPT)})
    story.note(Settled(drained=True, idle=True))
    story.note(ResidentCall(hashes=tuple(map(str, blocks("abc")))))
    assert story.spoken().keys() == broken


def test_blocks_that_a_cache_is_measured_with_show_as_not_held() -> None:
    story = Story(can=("cache", "resident"), statement=Statement(algorithm="opaque")).begin()
    story.send({**stored("ab"), "token_ids": [0] * 2 * SIZE})
    story.note(Settled(drained=True, idle=True))
    story.note(ResidentCall(hashes=()))
    assert story.spoken().keys() == {"RES-003"}
