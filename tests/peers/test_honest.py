"""Nobody speaks of a publisher that keeps the standard in its own way, and it passes what it must."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from click.testing import CliRunner
from tests.kit.runs import at_levels, dumped, judged, recorded, replayed, spoken
from tests.kit.stories import Story

from kvwire.cli.root import main
from kvwire.peers.honest.catalog import HONEST, problems
from kvwire.peers.honest.mark import HonestError, declared, honest
from kvwire.selftest import honest as quiet
from kvwire.selftest import matrix
from kvwire.selftest.bad_days import BAD_DAYS
from kvwire.selftest.honest import Quiet
from kvwire.standard import registry
from kvwire.standard.registry import LEVELS
from kvwire.trace.records import LIVE, Trace
from kvwire_reference.cache import CacheEngine


@pytest.mark.network
@pytest.mark.parametrize("name", HONEST)
@pytest.mark.slow
def test_nobody_speaks_of_an_honest_peer_in_a_small_run_or_on_a_bad_day(name: str) -> None:
    """At every level of control, live and from the written trace; and it passes what it must."""
    peer = HONEST[name]
    recording = quiet.small(peer)
    for level, told in at_levels(recording, peer.profile).items():
        assert quiet.spoken(peer, told) == [], level
        assert quiet.unpassed(peer, level, told) == [], level
        assert not told.troubles, level
    assert peer.breaks <= spoken(judged(recording, peer.profile))
    assert dumped(replayed(recording), peer.profile) == dumped(recording, peer.profile)
    assert quiet.on_bad_days(peer, recording) == {}


def test_honest_peers_fit_the_standard() -> None:
    assert problems(HONEST.values(), registry.load()) == []


def test_what_does_not_fit_is_named() -> None:
    odd = msgspec.structs.replace(
        HONEST["paged"], name="dials", open=frozenset({"KVW-SEQ-999"}), breaks=frozenset({"KVW-ENV-007"})
    )
    said = [str(problem).partition(": ")[2] for problem in problems([odd], registry.load())]
    assert said == [
        "honest peer dials: KVW-ENV-007 is not judged",
        "honest peer dials: there is no KVW-SEQ-999",
        "honest peer dials: a mutant has that name",
    ]


def test_a_mark_that_is_not_complete_is_refused() -> None:
    with pytest.raises(HonestError, match=r"honest peer 'x': unlike is missing; passes is missing"):
        honest("x")(CacheEngine)
    with pytest.raises(HonestError, match=r"why is it here although it breaks END-001\?"):
        honest("x", unlike="all", passes="END-002", breaks="END-001")(CacheEngine)
    with pytest.raises(HonestError, match=r"kvwire\.peers\.honest\.paged has one of that name"):
        honest("paged", unlike="all", passes="END-002")(CacheEngine)
    assert "x" not in declared


@pytest.mark.network
def test_one_that_is_spoken_of_or_does_not_pass_is_not_exact() -> None:
    """The group is silent because nothing is said, not because nobody looks: a mutant in it is found out."""
    peer = msgspec.structs.replace(HONEST["paged"], passes={level: frozenset({"KVW-LIV-002"}) for level in LEVELS})
    recording = recorded("mutant:integer-ts", quiet.LIMITS, probes=("live", "prompts"))
    results = at_levels(recording, peer.profile)
    assert all("KVW-BAT-002" in quiet.spoken(peer, told) for told in results.values())
    assert all(quiet.unpassed(peer, level, told) == ["KVW-LIV-002"] for level, told in results.items())
    days = quiet.on_bad_days(peer, recording)
    assert set(days) == {f"{name}, {level}" for name, day in BAD_DAYS.items() for level in day.levels}
    assert all("KVW-BAT-002" in said for said in days.values())


def test_a_row_says_what_is_wrong_with_it() -> None:
    silent = Quiet(peer="p", spoken={}, unpassed={}, left=[], troubles=[], amiss=[], seconds=1.0)
    assert silent.exact
    loud = msgspec.structs.replace(silent, spoken={"late, passive": ["KVW-X"]}, unpassed={"driven": ["KVW-Y"]})
    loud = msgspec.structs.replace(loud, left=["KVW-Z"], troubles=["it ended"], amiss=["odd"])
    assert not loud.exact
    assert loud.said == (
        "late, passive: KVW-X spoke",
        "driven: KVW-Y did not pass",
        "KVW-Z left open",
        "it ended",
        "odd",
    )


# bad days


def messages(trace: Trace, source: str) -> list[int]:
    """The numbers that a witness has."""
    return [int.from_bytes(r.frames[1], "big") for r in trace.records if r.source == source and r.frames is not None]


def told(day: str, count: int = 400) -> tuple[list[int], list[int]]:
    """What the witnesses have of so many batches on a bad day."""
    left = BAD_DAYS[day].change(Story().told(count).trace())
    return messages(left, LIVE[0]), messages(left, LIVE[1])


SHAPES: dict[str, Callable[[list[int], list[int]], bool]] = {
    "late": lambda a, b: a == b == list(range(133, 400)),
    "lossy": lambda a, b: a != b and 0 < len({*range(400)} - {*a} - {*b}) < 200,
    "deaf": lambda a, b: max(a) < 200 <= min(b),
    "uneven": lambda a, b: {*a} | {*b} == {*range(400)} and min(len(a), len(b)) < 400,
    "cut": lambda a, b: a == b == list(range(200)),
}


@pytest.mark.parametrize("day", BAD_DAYS)
def test_a_bad_day_leaves_out_what_it_says(day: str) -> None:
    assert SHAPES[day](*told(day)), told(day)


# the faces


def test_honest_peers_are_listed() -> None:
    lines = CliRunner().invoke(main, ["honest", "list", "--json"]).stdout.splitlines()
    listed = [msgspec.json.decode(line) for line in lines]
    assert [line["name"] for line in listed] == list(HONEST)
    assert all(line["unlike"] and line["passes"]["driven"] for line in listed)
    assert "paged" in CliRunner().invoke(main, ["honest", "list"]).stdout


def test_the_matrix_has_both_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, tuple[str, ...]] = {}
    row = Quiet(peer="paged", spoken={}, unpassed={}, left=[], troubles=[], amiss=[], seconds=1.0)

    def mutants(names: tuple[str, ...], *_: object) -> tuple[list[matrix.Row], bool]:
        asked["mutants"] = names
        return [], True

    def peers(names: tuple[str, ...], *_: object) -> tuple[list[Quiet], bool]:
        asked["honest"] = names
        return [row, msgspec.structs.replace(row, peer="radix", troubles=["it ended"])], True

    monkeypatch.setattr(matrix, "measured", mutants)
    monkeypatch.setattr(quiet, "measured", peers)
    done = CliRunner().invoke(main, ["mutants", "matrix", "two-frames", "paged", "radix"])
    assert asked == {"mutants": ("two-frames",), "honest": ("paged", "radix")}
    assert "1 of 2 honest peers passed what they must, and nobody spoke of them" in done.stdout
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("target", "said"),
    [("honest:nobody", "there is no honest peer 'nobody'; there are announces-hits"), ("honest:", "no honest peer ''")],
)
def test_an_honest_peer_that_there_is_not_is_named(target: str, said: str) -> None:
    done = CliRunner().invoke(main, ["check", target])
    assert said in done.output
    assert done.exit_code == 2
