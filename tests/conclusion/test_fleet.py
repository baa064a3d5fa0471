"""Streams of many recordings, held against each other: said once for all of them, as is what cannot be compared."""

from __future__ import annotations

import pytest

from kvwire.cache.chains import NOTHING, Text
from kvwire.conclusion.fleet import PREFIXES, Fleet, Member
from kvwire.conclusion.result import Notice
from kvwire.history.rhythm import Heard

S = 10**9
DAY_NS = 1_700_000_000 * S


def member(
    rank: int = 0,
    *,
    first: float = 0.0,
    last: float = 100.0,
    ended: float = 100.0,
    clock: int | None = DAY_NS,
    endpoint: str = "",
    prefixes: dict[Text, tuple[int, ...]] | None = None,
) -> Member:
    times = Heard(began_ns=0, first_ns=int(first * S), last_ns=int(last * S), longest_ns=S, ended_ns=int(ended * S))
    return Member(
        name="stream-0",
        endpoint=endpoint or f"tcp://host-{rank}:5557",
        ranks=(rank,),
        heard=times,
        clock_ns=clock,
        prefixes=prefixes or {},
    )


def told(*recordings: Member) -> list[Notice]:
    fleet = Fleet()
    for at, one in enumerate(recordings):
        fleet.add([one], f"{at}.mcap")
    return list(fleet.notices())


def prompts(*seeds: int, by: int = 0) -> dict[Text, tuple[int, ...]]:
    """Prefixes, hashed by one function or another."""
    return {NOTHING.longer(bytes([seed, seed // 256])): (by + seed,) for seed in seeds}


def test_a_whole_fleet_has_nothing_to_say() -> None:
    assert told(*(member(rank) for rank in range(32))) == []


def test_ranks_that_stopped_are_said_once() -> None:
    (found,) = told(*(member(rank, last=20.0 if rank < 6 else 100.0) for rank in range(32)))
    assert (found.what, found.after_s, len(found.streams)) == ("stopped", 20.0, 6)
    assert found.text == (
        "0.mcap, 1.mcap, 2.mcap, 3.mcap and 2 more stopped after 20 s, while 26 other streams went on"
    )


def test_a_recording_that_ends_early_has_not_stopped() -> None:
    assert told(member(0, last=20.0, ended=20.0), member(1)) == []


def test_hosts_that_count_from_elsewhere_are_held_against_each_other_by_the_time_of_day() -> None:
    late = member(1, first=30.0, last=60.0, ended=60.0, clock=DAY_NS - 30 * S)
    assert told(member(0, last=29.0, ended=29.0, endpoint="tcp://a:1"), late) == []
    (found,) = told(member(1, last=29.0, ended=29.0, endpoint="tcp://a:1"), late)
    assert found.what == "one-rank"


def test_two_endpoints_with_one_rank_at_one_time() -> None:
    twin = member(3, endpoint="tcp://other:5557")
    (found,) = told(member(3), twin, member(4))
    assert (found.what, found.streams) == ("one-rank", ["0.mcap", "1.mcap"])
    assert found.text == "two streams carry rank 3: 0.mcap, 1.mcap"


@pytest.mark.parametrize(
    "other",
    [
        member(3, first=101.0, last=200.0, ended=200.0, endpoint="tcp://other:5557"),  # one after the other
        member(3),  # one endpoint, recorded twice
    ],
)
def test_one_sender_is_not_two(other: Member) -> None:
    assert told(member(3), other) == []


def test_times_without_a_time_of_day_are_not_compared_and_that_is_said() -> None:
    found = told(member(3, clock=None), member(3, endpoint="tcp://b:1"), member(3, last=9.0, endpoint="tcp://c:1"))
    assert [notice.what for notice in found] == ["stopped", "one-rank", "clocks"]
    assert found[0].streams == ["2.mcap"]
    assert found[1].streams == ["1.mcap", "2.mcap"]
    assert found[2].text.startswith("0.mcap: no time of day, so that who stopped and who was heard at one time is not")


def test_one_recording_needs_no_time_of_day() -> None:
    fleet = Fleet()
    fleet.add([member(0, clock=None), member(0, last=9.0, clock=None, endpoint="tcp://b:1")], "a.mcap")
    assert [notice.what for notice in fleet.notices()] == ["stopped", "one-rank"]


def test_streams_that_hash_one_prompt_differently() -> None:
    shared = range(5)
    found = told(
        member(0, prefixes=prompts(*shared)),
        member(1, prefixes=prompts(*shared)),
        member(2, prefixes=prompts(*shared, 77, by=1000)),
        member(3, prefixes=prompts(*shared, by=1000)),
    )
    (notice,) = found
    assert (notice.what, notice.streams) == ("hashes-differ", ["0.mcap", "2.mcap", "3.mcap"])
    assert notice.text.startswith(
        "2.mcap, 3.mcap and 0.mcap hash one prompt differently: 0 of 10 shared prefixes alike"
    )


def test_one_hash_in_common_is_enough_as_salts_are_not_on_the_wire() -> None:
    other = prompts(0, 1, 2, by=1000) | prompts(3)
    assert told(member(0, prefixes=prompts(0, 1, 2, 3)), member(1, prefixes=other)) == []


def test_too_few_shared_prompts_prove_nothing() -> None:
    assert told(member(0, prefixes=prompts(0, 1, 2)), member(1, prefixes=prompts(1, 2, 3, by=1000))) == []


def test_a_fleet_of_many_prompts_keeps_so_many_and_those_that_are_shared() -> None:
    fleet = Fleet()
    own = sorted({NOTHING.longer(seed.to_bytes(4, "little")): (seed,) for seed in range(5 * PREFIXES)}.items())
    for at in range(5):
        fleet.add([member(at, prefixes=dict(own[at * PREFIXES : (at + 1) * PREFIXES]))], f"{at}.mcap")
        assert len(fleet._first) <= 2 * PREFIXES
    fleet.add([member(9, prefixes={text: (value + 1 << 40,) for text, (value,) in own[:PREFIXES]})], "9.mcap")
    (found,) = fleet.notices()
    assert found.streams == ["0.mcap", "9.mcap"]
