"""END: what a `start` had to lead to, what it led to, and when nothing is known of the publisher."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.instances import EVENTS, ROOM, Instance
from tests.kit.stories import Story

from kvwire.judges.verdict import Reason, Verdict
from kvwire.trace.calls import BoundAt, StartCall, StopCall
from kvwire.trace.marks import Ports

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE
REPLAY = "tcp://127.0.0.1:25657"


def instance(**story: object) -> Instance:
    """An instance in a story whose own publisher was started by the adapter as it liked."""
    told = Story(sets=(), **story)  # type: ignore[arg-type]
    told.note(StartCall(bound=BoundAt(endpoint="ipc:///x", mode="connect")))
    told.connect()
    return Instance(told)


def verdicts(one: Instance, *names: str) -> list[tuple[Verdict, int]]:
    outcomes = one.story.outcomes()
    return [(outcomes[f"END-{name}"].verdict, outcomes[f"END-{name}"].witnesses) for name in names]


def reason(one: Instance, name: str) -> str:
    return one.story.outcome(f"END-{name}").reason


def spoken(one: Instance) -> set[str]:
    return {name.removeprefix("END-") for name in one.story.spoken() if name.startswith("END")}


# --- refusals


def test_a_refusal_that_names_what_it_refuses() -> None:
    one = instance().refuses("'tcp://127.0.0.1' has no port", "tcp://127.0.0.1", replay="none")
    assert verdicts(one, "004", "012") == [(PASS, 1), (PASS, 1)]
    assert spoken(one) == set()


def test_a_refusal_that_does_not() -> None:
    one = instance().refuses("no port", "tcp://127.0.0.1")
    assert verdicts(one, "004", "012") == [(PASS, 1), (FAIL, 1)]


def test_what_should_have_been_refused() -> None:
    one = instance().accepts("tcp://127.0.0.1:70000", replay="none")
    assert spoken(one) == {"005"}
    finding = one.story.outcome("END-005").findings[0]
    assert "its port is not in 1…65535" in finding.expected
    assert finding.seen == "accepted: it says that it is bound at 'tcp://127.0.0.1:70000'"


def test_a_refusal_of_the_adapter_is_no_evidence() -> None:
    one = instance().refuses("adapter: this publisher has no option replay", "tcp://127.0.0.1")
    outcome = one.story.outcome("END-004")
    assert (outcome.verdict, outcome.witnesses) == (OPEN, 0)
    assert "the adapter refused it" in outcome.reason
    assert verdicts(one, "012", "013") == [(OPEN, 0), (OPEN, 0)]


def test_what_the_adapter_refused_does_not_matter_where_the_publisher_spoke() -> None:
    one = instance().refuses("adapter: no", "tcp://127.0.0.1").refuses("'tcp://127.0.0.1:'", "tcp://127.0.0.1:")
    assert verdicts(one, "004") == [(PASS, 1)]


START = StartCall(endpoint="tcp://127.0.0.1")


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        ({"error": "it ended"}, "the adapter failed: it ended"),
        ({"unsupported": "start"}, "the adapter failed: start"),
        ({}, "the adapter gave no answer"),
    ],
)
def test_an_adapter_that_failed_says_nothing(ending: dict[str, str], why: str) -> None:
    one = instance()
    one.note(START.answered(ending))
    assert verdicts(one, "004") == [(OPEN, 0)]
    assert why in reason(one, "004")
    assert spoken(one) == set()


def test_ranks_mean_nothing_to_a_publisher_that_is_told_its_rank_with_each_batch() -> None:
    one = instance()
    one.story.sets = ("rank",)
    one.accepts("tcp://127.0.0.1:65535", rank=0, world=2)
    outcome = one.story.outcome("END-006")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.OURS)


# --- before any socket


def accepted_in_the_room(one: Instance, *, changed: bool = True) -> Instance:
    return one.accepts(ROOM + "a", replay="none").looked(changed=changed).reached(ROOM + "a")


def late(one: Instance, *, changed: bool) -> Instance:
    return one.refuses("'tcp://127.0.0.1'", ROOM + "b", replay="tcp://127.0.0.1").looked(changed=changed)


def test_nothing_is_opened_before_a_refusal() -> None:
    assert verdicts(late(accepted_in_the_room(instance()), changed=False), "013") == [(PASS, 1)]
    assert spoken(late(accepted_in_the_room(instance()), changed=True)) == {"013"}


def test_files_that_are_not_seen_from_here_show_nothing() -> None:
    for one in (late(instance(), changed=False), late(accepted_in_the_room(instance(), changed=False), changed=False)):
        assert verdicts(one, "013") == [(OPEN, 0)]
        assert "no accepted endpoint shows that its files can be seen from here" in reason(one, "013")


def test_a_path_that_no_system_takes_shows_nothing_of_the_order() -> None:
    long = ROOM + "x" * 100
    one = accepted_in_the_room(instance()).refuses(f"{long!r} is too long", long).looked(changed=False)
    assert verdicts(one, "011", "013") == [(PASS, 1), (OPEN, 0)]


# --- binding


def test_the_publisher_under_test_is_bound_where_it_is_heard() -> None:
    assert verdicts(instance(), "001") == [(PASS, 1)]
    unheard = Story(sets=())
    unheard.note(StartCall(bound=BoundAt(endpoint=EVENTS)))
    assert unheard.verdict("END-001") == (OPEN, 0)


def test_it_dials() -> None:
    story = Story(sets=())
    story.note(StartCall(bound=BoundAt(endpoint=EVENTS, mode="bind")))
    assert "END-001" in story.spoken()


def test_clients_find_it() -> None:
    one = instance().accepts(EVENTS, replay=REPLAY).reached(EVENTS, REPLAY)
    assert verdicts(one, "001", "015") == [(PASS, 2), (OPEN, 0)]


def test_nobody_answers() -> None:
    one = instance().accepts(EVENTS, replay=REPLAY).reached(EVENTS).reached(REPLAY, outcome="none")
    assert spoken(one) == {"001"}
    assert REPLAY in one.story.outcome("END-001").findings[0].seen


def test_a_sound_endpoint_is_refused() -> None:
    one = instance().refuses("not today", EVENTS)
    assert spoken(one) == {"001"}
    taken = instance().refuses("Address already in use", EVENTS)
    taken.note(Ports(free=False))
    assert spoken(taken) == set()
    ranked = instance().refuses("Address already in use", EVENTS, rank=3, world=4)
    ranked.note(Ports(free=False))
    assert "somebody else had the port meanwhile" in reason(ranked, "002")


@pytest.mark.parametrize(
    ("endpoint", "own", "sentence"),
    [(EVENTS, "tcp://127.0.0.1:25560", "002"), (ROOM + "a", ROOM + "a_dp3", "003")],
)
def test_ranks_have_endpoints_of_their_own(endpoint: str, own: str, sentence: str) -> None:
    right = instance().accepts(endpoint, own, rank=3, world=4, replay="none").reached(own)
    assert verdicts(right, sentence, "001") == [(PASS, 1), (PASS, 2)]
    wrong = instance().accepts(endpoint, rank=3, world=4, replay="none").reached(own, outcome="none").reached(endpoint)
    assert spoken(wrong) == {sentence}
    refused = instance().refuses("ranks? no", endpoint, rank=3, world=4)
    assert spoken(refused) == {sentence}
    unsure = instance().accepts(endpoint, rank=3, world=4, replay="none")
    unsure.reached(own, outcome="none", attempts=1).reached(endpoint)
    assert spoken(unsure) == set()
    assert "too few attempts" in reason(unsure, sentence)


def test_a_start_of_a_rank_is_one_occasion() -> None:
    one = instance().accepts(EVENTS, "tcp://127.0.0.1:25560", rank=3, world=4, replay=REPLAY)
    one.reached("tcp://127.0.0.1:25560", "tcp://127.0.0.1:25660")
    assert verdicts(one, "002", "001") == [(PASS, 1), (PASS, 2)]


def test_a_publisher_that_dials_shows_its_rank_by_replay() -> None:
    replay = "tcp://127.0.0.1:25660"
    one = instance().accepts(EVENTS, "tcp://127.0.0.1:25560", mode="bind", rank=3, world=4, replay=REPLAY)
    one.reached(replay)
    assert spoken(one) == {"001"}
    assert verdicts(one, "002") == [(PASS, 1)]
    alone = instance().accepts(EVENTS, "tcp://127.0.0.1:25560", mode="bind", rank=3, world=4, replay="none")
    assert verdicts(alone, "002") == [(OPEN, 0)]


def test_ephemeral_ports() -> None:
    zero = "tcp://127.0.0.1:0"
    good = instance().accepts(zero, "tcp://127.0.0.1:40000", ephemeral=True).reached("tcp://127.0.0.1:40000")
    assert verdicts(good, "014") == [(PASS, 1)]
    assert spoken(instance().accepts(zero, ephemeral=True)) == {"014"}
    assert spoken(instance().accepts("tcp://127.0.0.1:*")) == {"014"}
    lying = instance().accepts(zero, "tcp://127.0.0.1:40000", ephemeral=True)
    assert spoken(lying.reached("tcp://127.0.0.1:40000", outcome="none")) == {"014"}
    unsure = instance().accepts(zero, "tcp://127.0.0.1:40000", ephemeral=True)
    unsure.reached("tcp://127.0.0.1:40000", outcome="none", attempts=1)
    assert verdicts(unsure, "014") == [(OPEN, 0)]
    assert "too few attempts" in reason(unsure, "014")


def test_who_has_no_ephemeral_ports_has_none_to_report() -> None:
    one = instance().refuses("port '*'", "tcp://127.0.0.1:*")
    assert reason(one, "014") == Reason.NOT_USED
    assert spoken(one) == set()
    assert verdicts(instance().accepts("tcp://127.0.0.1:*", mode="bind"), "014") == [(OPEN, 0)]


def test_ipv6() -> None:
    own = "tcp://[::1]:25557"
    assert verdicts(instance().accepts(own).reached(own), "015") == [(PASS, 1)]
    one = instance().refuses("No such device", own)
    assert (spoken(one), one.story.outcome("END-015").verdict) == ({"015"}, WARN)
    silent = instance().accepts(own).reached(own, outcome="none")
    assert (spoken(silent), verdicts(silent, "015")) == ({"001"}, [(OPEN, 0)])


# --- hosts, ranks, and places that are taken


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"endpoint": "tcp://:5557"}, "016"),
        ({"endpoint": "tcp://[::1:5557"}, "016"),
        ({"endpoint": "udp://127.0.0.1:5557"}, "007"),
        ({"endpoint": "tcp://"}, "008"),
        ({"endpoint": EVENTS, "replay": "tcp://127.0.0.1:25558", "world": 2, "ranks_per_host": 2}, "009"),
        ({"endpoint": EVENTS, "rank": -1, "world": 2}, "017"),
        ({"endpoint": EVENTS, "rank": 2, "world": 2}, "017"),
        ({"endpoint": ROOM + "x" * 87, "world": 2}, "011"),
        ({"endpoint": "ipc:///x", "replay": "ipc:///x_dp1", "world": 2, "ranks_per_host": 2}, "010"),
    ],
)
def test_each_start_that_has_to_be_refused_is_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    assert spoken(instance().accepts(**asked)) == {sentence}
    right = instance().refuses(f"no: {asked['endpoint']}", **asked)
    assert verdicts(right, sentence) == [(PASS, 1)]
    assert spoken(right) == set()


def test_a_rank_that_offends_has_no_endpoint_to_name() -> None:
    one = instance().refuses("rank 2 is none of 2", EVENTS, rank=2, world=2)
    assert verdicts(one, "017", "012") == [(PASS, 1), (OPEN, 0)]


def test_the_endpoint_that_a_rank_derives_is_named_as_well() -> None:
    one = instance().refuses("'tcp://127.0.0.1:65536' is no port", "tcp://127.0.0.1:65535", rank=1, world=2)
    assert verdicts(one, "006", "012") == [(PASS, 1), (PASS, 1)]


def second(one: Instance) -> Instance:
    """Another instance of the same run."""
    return Instance(one.story, "instance-2")


@pytest.mark.parametrize("place", [EVENTS, ROOM + "a"])
def test_an_endpoint_in_use(place: str) -> None:
    first = instance().accepts(place, replay="none").reached(place)
    second(first).accepts(place, replay="none")
    assert spoken(first) == {"018"}
    first = instance().accepts(place, replay="none").reached(place)
    second(first).refuses(f"{place} is in use", place, replay="none").looked(changed=True)
    assert verdicts(first, "018", "012", "013") == [(PASS, 1), (PASS, 1), (OPEN, 0)]
    assert spoken(first) == set()


def test_an_endpoint_is_not_in_use_that_nobody_answers_at_or_that_was_given_up() -> None:
    silent = instance().accepts(EVENTS, replay="none").reached(EVENTS, outcome="none")
    second(silent).accepts(EVENTS, replay="none").reached(EVENTS)
    assert spoken(silent) == {"001"}
    stopped = instance().accepts(EVENTS, replay="none").reached(EVENTS)
    stopped.note(StopCall())
    second(stopped).accepts(EVENTS, replay="none").reached(EVENTS)
    assert spoken(stopped) == set()
    ranks = instance().accepts(EVENTS, replay="none", world=2).reached(EVENTS)
    second(ranks).accepts(EVENTS, "tcp://127.0.0.1:25558", rank=1, world=2, replay="none").reached(
        "tcp://127.0.0.1:25558"
    )
    assert spoken(ranks) == set()


# --- what nobody has to speak, and machines that stand still


def test_a_publisher_that_speaks_tcp_only_and_says_so() -> None:
    one = instance().accepts(EVENTS, replay="none").reached(EVENTS)
    one.refuses(f"{ROOM}a: this publisher speaks tcp only", ROOM + "a", replay=ROOM + "b")
    one.refuses(f"{ROOM}a: this publisher speaks tcp only", ROOM + "a", rank=3, world=4)
    one.refuses(f"{ROOM}c: this publisher speaks tcp only", "udp://127.0.0.1:1", replay=ROOM + "c")
    assert spoken(one) == set()
    assert verdicts(one, "001", "003", "007", "012") == [(PASS, 2), (OPEN, 0), (OPEN, 0), (OPEN, 0)]
    assert "none has to be spoken" in one.story.outcome("END-003").reason


def test_a_scheme_that_was_accepted_once_or_is_not_named_is_no_scheme_that_is_not_spoken() -> None:
    moody = instance().accepts(EVENTS, replay="none").reached(EVENTS).refuses("not today", ROOM + "a", replay="none")
    assert spoken(moody) == {"001"}
    once = instance().accepts(EVENTS, replay="none").reached(EVENTS)
    once.accepts(ROOM + "a", replay="none").reached(ROOM + "a").refuses(f"{ROOM}b?", ROOM + "b", replay="none")
    assert spoken(once) == {"001"}


def test_who_is_bound_nowhere_refuses_a_scheme_that_has_to_be_spoken() -> None:
    assert spoken(instance().refuses(f"{EVENTS}: no tcp here", EVENTS)) == {"001"}


def test_a_place_that_was_taken_and_an_adapter_that_failed_leave_a_scheme_unspoken() -> None:
    one = instance().accepts(EVENTS, replay="none").reached(EVENTS)
    one.refuses(f"{ROOM}a: this publisher speaks tcp only", ROOM + "a", replay="none")
    one.refuses("Address already in use", ROOM + "b", replay=REPLAY)
    one.note(Ports(free=False))
    one.note(StartCall(endpoint=ROOM + "c").answered({"error": "it ended"}))
    assert spoken(one) == set()


def test_a_handshake_that_failed_while_the_machine_stood_still_shows_nothing() -> None:
    def late(seconds: float) -> Instance:
        one = instance().accepts(EVENTS, replay="none").reached(EVENTS, outcome="none")
        one.story.stands_still(seconds=seconds)
        return one

    assert verdicts(late(3.0), "001") == [(OPEN, 1)]
    assert spoken(late(0.1)) == {"001"}
