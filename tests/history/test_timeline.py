"""Falls, holes and disconnects: what a number is, by who saw it when (decision rules of spec/sequence.md)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady
from tests.kit.stories import END_MARKER, T0, TOPIC, Story, foreign, number_frame, payload

from kvwire.history.timeline import Arrival, Attribution, Batch
from kvwire.trace.marks import Trouble

# --- one witness, one connection ----------------------------------------------------------------------------------


def test_numbers_that_rise() -> None:
    story = Story()
    for number in (143, 144, 150):
        story.live(number, payload(ts=T0 + number), by="a")
    assert story.arrivals() == [(143, "first", 0), (144, "next", 0), (150, "ahead", 0)]
    (life,) = story.timeline().incarnations
    assert (life.origin_known, [(gap.first, gap.last) for gap in life.gaps]) == (False, [(145, 149)])
    assert life.gaps[0].attribution is Attribution.UNATTRIBUTED


@pytest.mark.parametrize(
    ("number", "content", "arrival"),
    [
        (1, payload(ts=T0 + 1), Arrival.DUPLICATE),  # seen before, equal bytes
        (1, foreign(1), Arrival.REUSED),  # seen before, other bytes
        (2, foreign(2), Arrival.FILLED),  # not seen before
        (3, foreign(3), Arrival.REUSED),  # the newest itself
        (3, payload(ts=T0 + 3), Arrival.DUPLICATE),
    ],
)
def test_a_number_that_does_not_rise_is_one_of_three_things(number: int, content: bytes, arrival: Arrival) -> None:
    story = Story()
    for seen in (0, 1, 3):
        story.live(seen, payload(ts=T0 + seen), by="a")
    story.live(number, content, by="a")
    assert story.timeline().live[-1].arrival is arrival
    assert story.timeline().live[-1].previous == 3
    assert len(story.timeline().incarnations) == 1


def test_a_reused_number_names_the_record_that_had_it_and_does_not_replace_it() -> None:
    story = Story().told()
    story.live(2, foreign(2), by="a")
    timeline = story.timeline()
    reused = timeline.live[-1]
    assert reused.other is not None
    assert story.records[reused.other].frames == (TOPIC, number_frame(2), story.retained[2])
    assert timeline.incarnations[0].batches[2].payload == story.retained[2]


def test_what_came_out_of_place_does_not_move_the_last_number() -> None:
    story = Story().told()
    story.again(1, by="a")
    story.live(4, payload(ts=T0 + 40), by="a")
    assert story.arrivals()[-2:] == [(1, "duplicate", 0), (4, "next", 0)]


def test_a_filled_hole_is_a_batch_of_its_life_and_no_gap() -> None:
    story = Story().begin()
    story.next = 2
    story.send()
    story.live(1, foreign(1))
    assert story.arrivals()[-1] == (1, "filled", 0)
    assert story.arrivals("b")[-1] == (1, "duplicate", 0)  # live-a was first to hear it
    assert story.timeline().incarnations[0].gaps == ()


# --- two witnesses ------------------------------------------------------------------------------------------------


def test_what_one_lost_and_the_other_has_is_no_gap() -> None:
    story = Story()
    for number in range(6):
        story.send(by="a" if number in (2, 3) else "b" if number == 4 else "ab")
    (life,) = story.timeline().incarnations
    assert story.lives() == [[0, 1, 2, 3, 4, 5]]
    assert life.gaps == ()
    assert {batch.number: sorted(batch.seen_by) for batch in life.batches if batch.number in (2, 4, 5)} == {
        2: ["live-a"],
        4: ["live-b"],
        5: ["live-a", "live-b"],
    }


def test_a_late_copy_is_a_duplicate_though_this_witness_never_had_it() -> None:
    story = Story().told(2)
    story.send(by="a")  # number 2
    story.send()
    story.again(2, by="b")
    assert story.arrivals("b")[-1] == (2, "duplicate", 0)


def test_a_late_copy_is_a_duplicate_though_the_other_witness_lags_behind() -> None:
    """The publisher sends 2 twice; live-b lost the first copy, and what live-a heard arrives after all of live-b's."""
    story = Story().told(2)
    contents = dict([story.make(), story.make()])
    for number in (3, 2):
        story.live(number, contents[number], by="b")
    for number in (2, 3, 2):
        story.live(number, contents[number], by="a")
    assert story.arrivals("b")[-1] == (2, "duplicate", 0)
    assert story.arrivals("a")[-3:] == [(2, "next", 0), (3, "next", 0), (2, "duplicate", 0)]


def test_what_both_hear_late_was_sent_late() -> None:
    story = Story().told(2)
    late, newer = story.make(), story.make()
    story.live(*newer)
    story.live(*late)
    assert story.arrivals("a")[-1] == (2, "filled", 0)
    assert story.arrivals("b")[-1] == (2, "duplicate", 0)


def test_a_late_copy_of_what_a_replay_delivered_is_a_duplicate() -> None:
    story = Story().told(2)
    story.make()
    story.send()
    story.replay()
    story.again(2, by="a")
    assert story.arrivals()[-1] == (2, "duplicate", 0)


def test_other_bytes_than_the_other_witness_has() -> None:
    story = Story().told(2)
    story.send(by="a")
    story.live(2, foreign(2), by="b")
    assert story.arrivals("b")[-1] == (2, "reused", 0)


# --- disconnects and falls ----------------------------------------------------------------------------------------


def falls(*steps: int | str) -> list[tuple[int, str, int]]:
    """Numbers of one witness, each batch with bytes of its own; "x" is a disconnect."""
    story = Story()
    for at, step in enumerate(steps):
        if isinstance(step, int):
            story.live(step, payload(ts=T0 + at), by="a")
        else:
            story.disconnect("a")
            story.connect("a")
    return story.arrivals()


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ([5, 6, "x", 3], (3, "restart", 1)),  # a fall right after a disconnect
        ([5, 6, "x", 7, 8, 3], (3, "restart", 1)),  # old messages were still to be read
        ([5, 6, "x", 0], (0, "restart", 1)),
        ([5, 6, "x", 6], (6, "restart", 1)),  # the same number, other bytes
        ([5, 6, 3], (3, "filled", 0)),
        ([5, 6, "x", 3, 2], (2, "filled", 1)),  # one disconnect excuses one fall
        ([5, 6, "x", "x", 3, 2], (2, "restart", 2)),
        ([5, 6, 3, "x"], (3, "filled", 0)),  # a disconnect that comes later excuses nothing
        (["x", 5, 6, 3], (3, "restart", 1)),  # old messages can stand behind the first disconnect
        ([5, 6, "x", 9], (9, "seam", 0)),
        ([5, 6, "x", 7], (7, "seam", 0)),  # even the number that follows
        ([5, 6, "x", 9, 12], (12, "seam", 0)),
        ([5, 6, "x", 9, 10], (10, "next", 0)),
    ],
)
def test_each_disconnect_excuses_one_fall(steps: list[int | str], last: tuple[int, str, int]) -> None:
    assert falls(*steps)[-1] == last


def test_a_fall_without_a_disconnect_is_not_excused_by_that_of_the_other_witness() -> None:
    story = Story().told()
    story.disconnect("b")
    story.live(1, foreign(1), by="a")
    assert story.arrivals()[-1] == (1, "reused", 0)


def test_where_the_harness_binds_a_second_connection_excuses_too() -> None:
    """A new publisher connects before the old one's connection ends, and then the old one's ends."""
    story = Story(replay=False)
    story.connect("a")
    for at in range(3):
        story.live(at, payload(ts=T0 + at), by="a")
    story.connect("a")
    story.live(0, payload(ts=T0 + 9), by="a")
    story.disconnect("a")
    story.live(1, payload(ts=T0 + 10), by="a")
    assert story.arrivals()[-2:] == [(0, "restart", 1), (1, "next", 1)]


# --- gaps ---------------------------------------------------------------------------------------------------------


def holed() -> Story:
    story = Story().told(2)
    story.drop(2)
    story.send()
    return story


def test_a_gap_is_the_publishers_when_a_complete_answer_around_it_lacks_it() -> None:
    story = holed()
    story.replay(marker=False)
    assert story.timeline().incarnations[0].gaps[0].attribution is Attribution.UNATTRIBUTED
    story.replay(2)
    assert story.timeline().incarnations[0].gaps[0].attribution is Attribution.UNATTRIBUTED
    story.replay()
    assert story.timeline().incarnations[0].gaps[0].attribution is Attribution.PUBLISHER


def test_a_gap_in_which_every_witness_was_disconnected_is_the_transports() -> None:
    story = Story().told(2)
    story.disconnect("a")
    story.connect("a")
    story.drop()
    story.send()
    assert story.timeline().incarnations[0].gaps[0].attribution is Attribution.UNATTRIBUTED
    story = Story().told(2)
    story.disconnect()
    story.connect()
    story.drop()
    story.send()
    assert story.timeline().incarnations[0].gaps[0].attribution is Attribution.TRANSPORT


def test_a_gap_with_trouble_of_ours_is_ours() -> None:
    story = Story().told(2)
    story.note(Trouble(text="the trace is full"))
    story.drop()
    story.send()
    assert story.timeline().incarnations[0].gaps[0].attribution is Attribution.HARNESS


# --- what must hold of every trace --------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 6), st.integers(0, 1)),
        st.tuples(st.sampled_from(["xa", "xb", "ca", "cb"]), st.just(0), st.just(0)),
        st.tuples(st.sampled_from(["replay", "cut"]), st.integers(0, 6), st.integers(0, 1)),
    ),
    max_size=30,
)


@steady
@given(STEPS)
def test_nothing_is_lost_or_told_twice_whatever_came(steps: list[tuple[str, int, int]]) -> None:
    story = Story()
    for what, number, flavour in steps:
        if what in ("a", "b"):
            story.live(number, payload(ts=T0 + 10 * flavour + number), by=what)
        elif what[0] == "x":
            story.disconnect(what[1])
        elif what[0] == "c" and what != "cut":
            story.connect(what[1])
        else:
            client = story.ask(0)
            story.answer_batches(client, {at: payload(ts=T0 + 10 * flavour + at) for at in range(number)})
            if what == "replay":
                story.answer(client, *END_MARKER)
            story.done(client)
    timeline = story.timeline()
    heard = [index for index, record in enumerate(story.records) if record.is_live]
    assert [live.record for live in timeline.live] == heard
    for life in timeline.incarnations:
        numbers = [batch.number for batch in life.batches]
        assert numbers == sorted(set(numbers))
        assert [step.number for step in life.steps() if isinstance(step, Batch)] == numbers
        assert all(gap.first <= gap.last for gap in life.gaps)
        assert all(batch.seen_by for batch in life.batches)
    if not any(what in ("xa", "xb", "ca", "cb") for what, _, _ in steps):
        assert len(timeline.incarnations) <= 1
