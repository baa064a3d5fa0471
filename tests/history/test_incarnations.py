"""Restarts, and what replay tells of them: whose life a batch or an answer belongs to (spec/sequence.md)."""

from __future__ import annotations

import pytest
from tests.kit.stories import END_MARKER, T0, Story, cleared, foreign, payload, stored

from kvwire.history.timeline import Batch, Gap

# --- restarts -----------------------------------------------------------------------------------------------------


def test_a_restart_seen_from_0() -> None:
    story = Story().told()
    story.restart()
    story.told(3, by="ab")
    assert story.lives() == [[0, 1, 2, 3], [0, 1, 2]]
    assert [life.origin_known for life in story.timeline().incarnations] == [True, True]


def test_a_restart_first_seen_in_the_middle() -> None:
    story = Story().told(6)
    story.restart()
    story.told(3, by="")
    story.send()
    assert story.lives() == [[0, 1, 2, 3, 4, 5], [3]]
    assert not story.timeline().incarnations[1].origin_known


def test_a_restart_first_seen_above_the_last_number_is_a_seam_until_a_replay_tells() -> None:
    story = Story().told()
    story.restart()
    story.told(8, by="")
    story.send()
    story.send()
    timeline = story.timeline()
    (life,) = timeline.incarnations
    assert life.seams == {8}
    assert [(gap.first, gap.last, gap.maybe_restart) for gap in life.gaps] == [(4, 7, True)]
    assert story.arrivals()[-2:] == [(8, "seam", 0), (9, "next", 0)]
    story.replay()
    assert story.lives() == [[0, 1, 2, 3], list(range(10))]
    assert story.arrivals()[-2:] == [(8, "restart", 1), (9, "next", 1)]


def test_a_replay_that_holds_both_sides_tells_that_there_was_no_restart() -> None:
    story = Story().told()
    story.disconnect()
    story.connect()
    story.make()
    story.send()
    assert story.timeline().incarnations[0].seams == {5}
    story.replay()
    (life,) = story.timeline().incarnations
    assert (life.seams, life.gaps) == (frozenset(), ())
    assert story.arrivals()[-1] == (5, "ahead", 0)


def test_a_witness_without_a_disconnect_tells_so_too() -> None:
    story = Story().told()
    story.disconnect("a")
    story.connect("a")
    story.send(by="b")
    story.send()
    (life,) = story.timeline().incarnations
    assert (life.seams, life.gaps) == (frozenset(), ())


def test_a_seam_without_a_missing_number_is_a_step_of_its_own() -> None:
    story = Story().told(2)
    story.disconnect()
    story.send()
    (life,) = story.timeline().incarnations
    assert life.gaps == ()
    steps = [step.number if isinstance(step, Batch) else (step.first, step.last) for step in life.steps()]
    assert steps == [0, 1, (2, 1), 2]
    assert [step.maybe_restart for step in life.steps() if isinstance(step, Gap)] == [True]


def test_two_witnesses_race_over_a_restart() -> None:
    """Live-a is already in the new life while live-b still delivers the old one, in trace order."""
    story = Story().told(5)
    old = [story.make(stored([50])), story.make(stored([51]))]
    story.live(*old[0], by="a")
    story.die()
    story.disconnect("a")
    story.connect("a")
    story.told(2, by="")
    story.send(stored([102]), by="a")
    story.live(*old[0], by="b")
    story.send(stored([103]), by="a")
    story.live(*old[1], by="b")
    story.disconnect("b")
    story.connect("b")
    story.send(stored([104]))
    assert story.arrivals("a")[-4:] == [(5, "next", 0), (2, "restart", 1), (3, "next", 1), (4, "next", 1)]
    assert story.arrivals("b")[-3:] == [(5, "next", 0), (6, "next", 0), (4, "restart", 1)]
    assert story.lives() == [[0, 1, 2, 3, 4, 5, 6], [2, 3, 4]]


def test_one_witness_falls_and_the_other_rises_over_the_same_restart() -> None:
    story = Story().told(5)
    story.send(by="a")
    story.send(by="a")  # live-b heard up to 4, live-a up to 6
    story.restart()
    story.told(6, by="")
    story.send()  # number 6: equal to live-a's last, above live-b's
    story.send()
    assert story.arrivals("a")[-2:] == [(6, "restart", 1), (7, "next", 1)]
    assert story.arrivals("b")[-2:] == [(6, "restart", 1), (7, "next", 1)]
    assert story.lives() == [[0, 1, 2, 3, 4, 5, 6], [6, 7]]


def test_an_answer_of_the_new_life_comes_before_anything_live_of_it() -> None:
    story = Story().told()
    story.restart()
    story.told(3, by="")
    client = story.replay()
    story.send()
    story.send()
    timeline = story.timeline()
    assert story.lives() == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]
    answer = next(answer for answer in timeline.answers if answer.source == client)
    assert (answer.incarnation, answer.newest_live) == (1, None)


def test_an_answer_of_the_new_life_comes_before_the_disconnects_are_heard() -> None:
    """The parent process asks for itself; what the witnesses heard is still on its way to it."""
    story = Story().told()
    old = story.make()
    story.live(*old, by="a")
    story.die()
    story.told(3, by="")
    story.replay()
    story.live(*old, by="b")
    story.disconnect()
    story.connect()
    story.send()
    assert story.lives() == [[0, 1, 2, 3, 4], [0, 1, 2, 3]]


def test_an_answer_across_a_restart_is_of_the_life_that_gave_it() -> None:
    """Asked and answered in the old life, and heard to its end after a witness knows of the restart."""
    story = Story().told()
    client = story.ask()
    story.answer_batches(client, story.retained)
    story.disconnect("a")
    story.answer(client, *END_MARKER)
    story.done(client)
    story.restart("b")
    story.told(2, by="ab")
    answer = story.timeline().answers[0]
    assert (answer.incarnation, answer.numbers) == (0, (0, 1, 2, 3))
    assert story.lives() == [[0, 1, 2, 3], [0, 1]]


def test_an_answer_that_ends_below_what_was_live_is_of_a_new_life() -> None:
    story = Story()
    story.next = 100
    for _ in range(3):
        story.send()
    story.restart()
    story.told(2, by="")
    client = story.replay(1)  # 1 and the marker, though 102 was live: and no number is in both
    assert story.lives() == [[100, 101, 102], [1]]
    assert next(answer.incarnation for answer in story.timeline().answers if answer.source == client) == 1


def test_an_end_marker_alone_belongs_to_nobody_when_a_restart_may_lie_before_it() -> None:
    story = Story().told()
    story.restart()
    story.replay(2)
    assert story.timeline().answers[0].incarnation is None
    story = Story().told()
    story.retained.clear()
    story.replay(2)
    assert story.timeline().answers[0].incarnation == 0


def test_what_a_replay_changed_is_not_a_new_life() -> None:
    story = Story().told()
    client = story.ask()
    story.answer_batches(client, {number: foreign(number) for number in story.retained})
    story.answer(client, *END_MARKER)
    story.done(client)
    story.send()
    assert story.lives() == [[0, 1, 2, 3, 4]]
    assert [batch.payload for batch in story.timeline().incarnations[0].batches] == list(story.retained.values())
    story.restart()
    story.told(3, by="ab")
    assert story.lives() == [[0, 1, 2, 3, 4], [0, 1, 2]]


@pytest.mark.parametrize("end", ["stop", "restart"])
def test_nor_when_the_stream_ends_after_it_or_the_harness_ends_it(end: str) -> None:
    story = Story().told()
    client = story.ask()
    story.answer_batches(client, {number: foreign(number) for number in story.retained})
    story.answer(client, *END_MARKER)
    story.done(client)
    if end == "stop":
        story.disconnect()
    else:
        story.restart(ours=True)
        story.told(9, by="")
        story.send()
    assert story.timeline().answers[0].incarnation == 0
    assert "REP-001" in story.spoken()


def test_two_lives_whose_bytes_are_equal_for_a_while() -> None:
    """A publisher whose ``ts`` does not tell lives apart."""
    story = Story()
    for events in ([cleared()], [stored("a")], [stored("b")]):
        story.send(content=payload(*events, ts=T0))
    story.restart()
    for events in ([cleared()], [stored("a")], [stored("c")]):
        story.send(content=payload(*events, ts=T0))
    assert {arrival for _, arrival, _ in story.arrivals()} <= {"first", "next", "duplicate", "restart"}
    assert story.arrivals()[-1] == (2, "restart", 1)


def test_an_answer_is_of_no_life_that_is_over_though_its_bytes_are_equal() -> None:
    story = Story()
    for events in ([cleared()], [stored("a")], [stored("b")]):
        story.send(content=payload(*events, ts=T0))
    story.restart()
    story.send(content=payload(cleared(), ts=T0), by="")
    client = story.ask()
    story.send(content=payload(stored("c"), ts=T0))
    story.answer_batches(client, {0: story.retained[0]})
    story.answer(client, *END_MARKER)
    story.done(client)
    assert story.timeline().answers[0].incarnation == 1  # it ends below 2, which the old life had reached
    story.replay(0)
    assert story.lives() == [[0, 1, 2], [0, 1]]


def test_a_stream_that_only_replay_shows() -> None:
    story = Story()
    for _ in range(3):
        story.make()
    story.replay()
    story.make()
    story.replay(2)
    (life,) = story.timeline().incarnations
    assert [batch.number for batch in life.batches] == [0, 1, 2, 3]
    assert (life.batches[0].live, life.seams) == (None, frozenset())


def test_replay_ends_where_the_live_stream_begins() -> None:
    story = Story()
    for _ in range(5):
        story.make()
    story.replay()
    story.send()
    (life,) = story.timeline().incarnations
    assert (life.origin_known, life.gaps, life.seams) == (True, (), frozenset())


# --- clocks that stand still --------------------------------------------------------------------------------------


def test_bytes_that_stand_under_several_numbers_tie_no_lives() -> None:
    """Empty batches by a clock that stands still are equal in every life."""
    story = Story()
    empty = payload(ts=T0)
    for content in (payload(cleared(), ts=T0), empty, empty, empty):
        story.send(content=content)
    story.restart()
    story.drop()  # the beginning of the new life, which would tell it apart
    for _ in range(2):
        story.send(content=empty)
    story.send(content=payload(stored("a"), ts=T0))
    story.send(content=payload(stored("b"), ts=T0))
    assert story.spoken() == {}
    assert story.lives()[-1][-2:] == [3, 4]
    assert story.timeline().incarnations[0].seams == {1, 3}


def test_a_number_that_was_missing_is_no_filled_hole_where_an_earlier_life_has_its_bytes() -> None:
    story = Story()
    empty = payload(ts=T0)
    for content in (payload(cleared(), ts=T0), empty, empty, empty):
        story.send(content=content)
    story.restart()
    story.send(content=payload({**cleared(), "epoch": "b"}, ts=T0))
    story.drop(68)
    story.send(content=payload(stored("a"), ts=T0))
    story.restart()
    story.drop(3)
    story.send(content=empty)
    assert story.spoken() == {}


def test_an_answer_is_of_the_life_whose_beginning_one_witness_heard() -> None:
    """The other one still hears the old life."""
    story = Story().told(9)
    story.die()
    story.disconnect("a")
    story.connect("a")
    story.begin(by="a")
    story.disconnect("a")
    story.connect("a")
    story.replay()
    story.disconnect("b")
    story.connect("b")
    story.send(stored("z"))
    assert story.lives() == [[*range(9)], [0, 1]]


@pytest.mark.parametrize("back", ["live", "replay"])
def test_lives_stand_in_the_order_in_which_one_witness_heard_them(back: str) -> None:
    """Though the other one heard of the second life first."""
    story = Story().told(3, by="")
    old = dict(story.retained)
    story.disconnect("a")
    story.connect("a")
    story.die()
    story.begin(by="a")
    for number, content in old.items():
        story.live(number, content, by="b")
    story.disconnect("b")
    if back == "live":
        story.connect("b")
        story.again(0, by="b")
    else:
        story.replay()
    assert story.lives() == [[0, 1, 2], [0]]


def test_behind_batches_that_come_again_a_life_may_have_begun() -> None:
    story = Story().told()
    story.disconnect()
    story.connect()
    story.again(2)
    story.again(3)
    story.send()
    (life,) = story.timeline().incarnations
    assert life.seams == {4}


@pytest.mark.parametrize("marker", [True, False])
def test_an_answer_that_did_not_end_lacks_nothing(marker: bool) -> None:
    story = Story()
    story.next = 98
    for by in ("", "", "ab", "ab", "ab"):
        story.send(by=by)
    story.disconnect()
    story.connect()
    story.replay(without=(100, 101, 102), marker=marker, attempts=1)
    assert story.lives() == ([[100, 101, 102], [98, 99]] if marker else [[98, 99, 100, 101, 102]])


@pytest.mark.parametrize(("noticed", "count"), [("", 3), ("before", 8), ("after", 8), ("twice", 8)])
def test_an_answer_of_a_life_that_nobody_heard_is_not_of_the_one_before(noticed: str, count: int) -> None:
    """It ends below what was live; or the connection ended before it, and nobody came back, or behind it."""
    story = Story(can=()).told(6)
    story.die()
    if noticed in ("before", "twice"):
        story.disconnect()
    story.told(count, by="")
    story.replay()
    if noticed in ("after", "twice"):
        story.disconnect()
    if noticed == "after":
        story.connect()
    assert story.lives() == [[*range(6)], [*range(count)]]
    assert "REP-001" not in story.spoken()


def test_a_request_that_nobody_answers_is_of_no_life() -> None:
    story = Story().told()
    story.disconnect()
    story.replay(without=range(4), marker=False, attempts=1)
    assert story.lives() == [[0, 1, 2, 3]]
    assert story.timeline().answers[0].incarnation is None


def test_what_comes_behind_a_handshake_may_be_of_a_new_life_though_something_came_late_before_it() -> None:
    story = Story().told(3)
    late = story.make(stored("z"))
    story.disconnect()
    story.live(*late)
    story.die()
    story.connect()
    story.told(4, by="")
    story.send()
    (life,) = story.timeline().incarnations
    assert life.seams == {3, 4}


def test_what_was_heard_of_an_answer_is_not_of_a_life_that_is_over() -> None:
    """Its one batch is equal in both lives, and nothing tells where it would have ended."""
    story = Story()
    for events in ([cleared()], [stored("a")], [stored("b")]):
        story.send(content=payload(*events, ts=T0))
    story.restart()
    story.send(content=payload(cleared(), ts=T0), by="")
    story.send(stored("z"))
    story.disconnect()
    story.replay(without=(1,), marker=False, attempts=1)
    assert story.lives() == [[0, 1, 2], [0, 1]]


# --- what an answer tells of a life that ended later --------------------------------------------------------------


def test_an_answer_of_what_was_live_is_of_that_life_however_short_it_is() -> None:
    story = Story(can=()).told(8)
    story.replay()
    story.replay(4, without=(6, 7))
    story.send()
    story.restart()
    story.told(3)
    assert story.lives() == [list(range(9)), [0, 1, 2]]
    assert story.spoken().keys() == {"REP-008"}


def test_what_may_have_been_sent_again_at_the_same_time_is_no_sign_of_a_life() -> None:
    again = [payload(cleared(), ts=T0), *(payload(stored(name), ts=T0) for name in "bcd")]
    story = Story(can=())
    for content in again:
        story.send(content=content)
    story.die()  # nobody has noticed yet
    for content in again[:2]:
        story.make(content=content)
    story.replay()
    story.disconnect()
    story.connect()
    story.send(stored("e"))
    assert story.lives() == [[0, 1, 2, 3], [0, 1, 2]]
    assert not story.spoken()


def test_an_answer_before_one_that_is_certainly_of_a_life_is_of_it_too() -> None:
    story = Story(can=()).told(6)
    story.retained[4] = foreign(4)
    story.replay(4)
    del story.retained[4]
    story.replay()
    story.restart()
    story.told(3)
    assert story.lives() == [[0, 1, 2, 3, 4, 5], [0, 1, 2]]
    assert "REP-001" in story.spoken()


def test_an_answer_behind_it_may_be_of_the_next_life() -> None:
    story = Story(can=()).told(6)
    story.replay()
    story.die()
    story.told(8, by="")
    story.replay(4)
    story.disconnect()
    story.connect()
    story.send()
    assert story.lives() == [[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8]]
    assert not story.spoken()
