"""The ledger's truth tables: what is known of residency after each event, under set and counted residency."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady

from kvwire.cache import ledger as ledgers
from kvwire.cache.ledger import Cleared, Key, Ledger, Location, State, Stores

R, A, U = State.RESIDENT, State.ABSENT, State.UNKNOWN
Residency = Literal["set", "counted"]


def key(name: str, medium: str | None = "GPU", group: int = 0) -> Key:
    return Key(Location(medium, group), ord(name))


def ledger_of(residency: Residency) -> Ledger:
    return Ledger(lambda *_: residency == "counted")


def apply(ledger: Ledger, step: str) -> list[State]:
    """Do one step and return what was known before: ``+ab`` stores, ``-a`` removes, ``?a`` asks for a parent.

    ``0`` is a life known from 0, ``143`` one that is not, ``hole`` and ``clear`` are what they say, and so are
    ``clear-CPU`` and ``clear-GPU``; ``CPU+a`` and ``1+a`` name another medium or group.
    """
    match step:
        case "0" | "143":
            ledger.begin(origin_known=step == "0")
            return []
        case "hole":
            ledger.hole()
            return []
        case "clear":
            ledger.clear()
            return []
        case "clear-CPU" | "clear-GPU":
            ledger.clear(Cleared(medium=step[-3:]))
            return []
    at = next(i for i, sign in enumerate(step) if sign in "+-?")
    where, sign, names = step[:at], step[at], step[at + 1 :]
    group = int(where) if where.isdigit() else 0
    medium = "GPU" if not where or where.isdigit() else None if where == "nil" else where
    if sign == "?":
        return [ledger.parent_state(group, ord(name)) for name in names]
    keys = [key(name, medium, group) for name in names]
    return [ledger.store(k) if sign == "+" else ledger.remove(k)[0] for k in keys]


def seen(residency: Residency, script: str) -> list[State]:
    ledger = ledger_of(residency)
    return [state for step in script.split() for state in apply(ledger, step)]


@pytest.mark.parametrize(
    ("script", "states"),
    [
        # 1: joined at 143: store b under a; remove b; store c under b; remove x, x
        ("143 ?a +b -b ?b +c -x -x", [U, U, R, U, U, U, A]),
        # 2: from 0: store a; hole; store b under a; store a; clear; store d under a
        ("0 +a hole ?a +b +a clear ?a +d", [A, U, U, U, A, A]),
        # 3: a restart first seen at 143, and 3b: seen from 0, a child of the old life
        ("0 +a 143 ?a +b", [A, U, U]),
        ("0 +a 0 ?a +b", [A, A, A]),
        # 4: a salted chain is a chain
        ("0 +a ?a +b ?b +c -cba", [A, R, A, R, A, R, R, R]),
        # 7: a was announced, b was not (capped), c is its child; 7b: the chain simply ends and goes on later
        ("0 +a ?b +c", [A, A, A]),
        ("0 +a ?a +b ?b +c", [A, R, A, R, A]),
        # 8: window group 1: a, b; remove a; d under q
        ("0 1+ab 1-a 1?a 1?q", [A, A, R, A, A]),
        # 9: GPU a, CPU a, remove from GPU, b under a, remove from CPU, c under a
        ("0 +a CPU+a -a ?a +b CPU-a ?a +c", [A, A, R, R, A, R, A, A]),
        # nil is a medium of its own
        ("0 nil+a +a nil-a ?a -a ?a", [A, A, R, R, R, A]),
        ("0 nil+a -a", [A, A]),
        # 10: a clear while idle, then a removal
        ("0 +a clear -a", [A, A]),
        # a clear makes absent under a hole and after a late join too
        ("143 +a clear -a +b ?b ?c", [U, A, A, R, A]),
        ("0 hole clear +a -a", [A, R]),
        # a clear of a medium, under holes too, and no parent is absent that another medium can hold
        ("0 +a CPU+a clear-CPU -a CPU-a", [A, A, R, A]),
        ("143 CPU+a clear-CPU CPU-a CPU-b -b ?c", [U, A, A, U, U]),
        ("0 +a CPU+a clear-CPU ?a -a ?a", [A, A, R, R, A]),
        ("143 clear-CPU hole CPU-a", [U]),
        # duplicates
        ("0 +a +a", [A, R]),
        ("143 +a +a", [U, R]),
        ("143 -a +a +a", [U, A, R]),
        # groups are apart
        ("0 +a 1+a 1-a -a", [A, A, R, R]),
        ("0 1+a ?a", [A, A]),
    ],
)
def test_set_residency(script: str, states: list[State]) -> None:
    assert seen("set", script) == states


@pytest.mark.parametrize(
    ("script", "states"),
    [
        # 6: from 0: a, a; -a; b under a; -a; -a
        ("0 +a +a -a ?a +b -a -a", [A, R, R, R, A, R, A]),
        # 6b: joined late: a; -a; b under a; -a
        ("143 +a -a ?a +b -a", [U, R, U, U, U]),
        ("143 +a +a -a", [U, R, R]),
        # after the removal of one copy of an unknown number nothing is certain, until a clear
        ("143 +a -a +a -a clear -a", [U, R, U, R, A]),
        ("0 +a +a hole +a -a -a", [A, R, U, R, U]),
        ("143 -a -a", [U, U]),
        ("0 -a +a -a -a", [A, A, R, A]),
        ("143 clear +a +a -a -a -a", [A, R, R, R, A]),
    ],
)
def test_counted_residency(script: str, states: list[State]) -> None:
    assert seen("counted", script) == states


def test_a_removal_that_names_another_group_leaves_doubt_wherever_it_may_have_meant() -> None:
    ledger = ledger_of("set")
    for step in ("0", "+a", "1+a", "2+a", "1-a"):
        apply(ledger, step)
    assert ledger.resident() == {key("a"), key("a", group=2)}
    assert ledger.remove(key("a", "CPU", 1)) == (A, frozenset())
    assert ledger.remove(key("a", group=2)) == (R, frozenset())
    assert ledger.remove(key("a", group=3)) == (A, frozenset({0}))
    assert ledger.resident() == frozenset()
    assert ledger.state(key("a")) is A


@pytest.mark.parametrize("residency", ["set", "counted"])
@pytest.mark.parametrize(
    ("script", "states"),
    [
        ("0 +a 1-a ?a -a ?a", [A, A, R, A, A]),  # until a removal names the right group
        ("0 +a 1-a +a ?a -a ?a", [A, A, A, R, R, A]),  # or a store does
        ("0 +a CPU+a 1-a -a ?a CPU-a ?a", [A, A, A, A, R, R, A]),
        ("0 +a 1-a 1+a -a ?a 1?a", [A, A, A, A, A, R]),
        ("0 +a 1-a clear ?a", [A, A, A]),
        ("0 +a 1-a clear-CPU ?a clear-GPU ?a", [A, A, R, A]),
        ("143 +a 1-a ?a -a ?a", [U, U, R, U, U]),
    ],
)
def test_a_parent_is_not_doubted(residency: Residency, script: str, states: list[State]) -> None:
    assert seen(residency, script) == states


def test_copies_of_others_are_apart_from_the_engines_own() -> None:
    ledger = ledger_of("set")
    ledger.begin(origin_known=True)
    places = [Location("CPU", 0), Location("CPU", 0, "host-b"), Location("CPU", 0, None, "worker-7")]
    for place in places:
        assert ledger.store(Key(place, 7)) is A
    ledger.clear(Cleared(medium="CPU", ownership="worker-7"))
    assert ledger.resident() == {Key(place, 7) for place in places[:2]}
    assert ledger.remove(Key(places[1], 7)) == (R, frozenset())
    ledger.clear(Cleared(ownership=None))
    assert ledger.parent_state(0, 7) is A
    assert [place.own for place in places] == [True, False, False]
    assert str(places[1]._replace(ownership="w")) == "medium CPU, group 0, locality host-b, ownership w"


def test_copies_are_counted_where_they_are_said_to_be() -> None:
    ledger = Ledger(lambda medium, group: (medium, group) == ("CPU", 0))
    ledger.begin(origin_known=True)
    states = [
        state for step in ["+a", "+a", "-a", "-a", "CPU+a", "CPU+a", "CPU-a", "CPU-a"] for state in apply(ledger, step)
    ]
    assert states == [A, R, R, A, A, R, R, R]


def test_complete_is_what_nothing_was_missed_of() -> None:
    ledger = ledger_of("set")
    assert not ledger.complete
    for step, complete in (("0", True), ("+a", True), ("hole", False), ("+b", False), ("clear", True), ("143", False)):
        apply(ledger, step)
        assert ledger.complete is complete


@pytest.mark.parametrize("residency", ["set", "counted"])
def test_where_nothing_was_missed_nothing_is_kept_of_what_is_absent(residency: Residency) -> None:
    ledger = ledger_of(residency)
    for step in ("0", "+abc", "-ad"):
        apply(ledger, step)
    assert (ledger.known, ledger.held) == (2, 2)
    for step in ("hole", "+a", "-b"):
        apply(ledger, step)
    assert ledger.held == 1


STEPS = st.lists(
    st.tuples(st.sampled_from(["+", "-", "hole", "clear"]), st.sampled_from("ab"), st.sampled_from(["GPU", "CPU"])),
    max_size=40,
)


@steady
@given(STEPS, st.booleans(), st.sampled_from(["set", "counted"]))
def test_what_is_said_to_be_known_is_true(
    steps: list[tuple[str, str, str]], from_zero: bool, residency: Residency
) -> None:
    """A cache that obeys, seen through holes: a known state is the cache's own."""
    ledger = ledger_of(residency)
    counts = dict.fromkeys(((name, medium) for name in "ab" for medium in ("GPU", "CPU")), 0 if from_zero else 1)
    ledger.begin(origin_known=from_zero)
    for what, name, medium in steps:
        place = (name, medium)
        if what == "hole":
            counts[place] = 1 - min(counts[place], 1)  # something happened that nobody saw
            ledger.hole()
        elif what == "clear":
            counts = dict.fromkeys(counts, 0)
            ledger.clear()
        elif what == "+" and (residency == "counted" or not counts[place]):
            assert ledger.store(key(name, medium)) in (R if counts[place] else A, U)
            counts[place] += 1
        elif what == "-" and counts[place]:
            assert ledger.remove(key(name, medium))[0] in (R, U)
            counts[place] -= 1
        for (held, where), count in counts.items():
            assert ledger.state(key(held, where)) in (R if count else A, U)
        for held in "ab":
            resident = any(count for (other, _), count in counts.items() if other == held)
            assert ledger.parent_state(0, ord(held)) in (R if resident else A, U)


def test_stores_are_remembered_by_the_batch_that_came_last() -> None:
    stores = Stores()
    stores.add(1, [7, 8])
    stores.add(2, [8])
    assert [stores.last(block) for block in (7, 8, 9)] == [1, 2, None]
    stores.begin()
    assert stores.last(8) is None


def test_only_so_many_stores_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "REMEMBERED", 4)
    stores = Stores()
    for number in range(20):
        stores.add(number, [number])
    assert [block for block in range(20) if stores.last(block) is not None] == [16, 17, 18, 19]
