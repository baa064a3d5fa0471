"""How far the live stream had come when something was done: by numbers, and only when it is certain."""

from __future__ import annotations

from tests.kit.stories import Story, stored

from kvwire.history.progress import BEGIN, Moment, moments
from kvwire.trace.calls import CacheCall, ResetCall, ResidentCall, RestartCall, StatsCall
from kvwire.trace.marks import Settled
from kvwire.trace.records import told


def of(story: Story) -> list[Moment]:
    return list(moments(list(enumerate(story.records)), story.timeline()))


def test_a_stimulus_stands_at_the_newest_number_that_was_heard_before_it() -> None:
    story = Story()
    story.note(ResetCall())
    story.told(2)
    story.note(ResetCall())
    story.send(stored("z"))
    story.note(ResetCall())
    assert [(moment.place, moment.known) for moment in of(story)] == [(BEGIN, False), ((0, 1), True), ((0, 2), True)]
    assert [moment.index for moment in of(story)] == [index for index, _ in told(enumerate(story.records), ResetCall)]


def test_a_late_copy_does_not_move_the_stream_back() -> None:
    story = Story().told(3)
    story.again(0)
    story.note(ResetCall())
    assert [moment.place for moment in of(story)] == [(0, 2)]


def test_what_only_a_replay_showed_was_not_heard() -> None:
    story = Story().told(2)
    story.send(stored("z"), by="")
    story.replay()
    story.note(ResetCall())
    assert [m.place for m in of(story) if isinstance(m.stimulus, ResetCall)] == [(0, 1)]


def test_a_restart_leaves_the_place_uncertain_until_something_is_heard_again() -> None:
    story = Story().told(2)
    story.restart(ours=True)
    story.note(CacheCall(tokens=(1,)))
    story.told(1)
    story.note(CacheCall(tokens=(2,)))
    assert [(type(m.stimulus), m.place, m.known, m.drained) for m in of(story)] == [
        (RestartCall, (0, 1), True, True),
        (CacheCall, (0, 1), False, False),
        (CacheCall, (1, 0), True, True),
    ]


def test_drained_is_what_the_publisher_counted_and_was_heard() -> None:
    story = Story().told(2)
    story.note(StatsCall(offered=3))
    story.note(ResetCall())
    story.send(stored("z"))
    story.note(ResetCall())
    story.note(StatsCall(error="gone", offered=9))
    story.note(ResetCall())
    assert [m.drained for m in of(story) if isinstance(m.stimulus, ResetCall)] == [False, True, True]


def test_an_engine_is_idle_from_its_mark_until_it_is_asked_to_do_something() -> None:
    story = Story().told(2)
    for stimulus in (
        Settled(drained=True),
        ResidentCall(hashes=()),
        Settled(drained=True, idle=True),
        StatsCall(offered=2),
        ResidentCall(hashes=()),
        CacheCall(tokens=(1,)),
        ResidentCall(hashes=()),
        Settled(drained=False, idle=True),
        ResidentCall(hashes=()),
    ):
        story.note(stimulus)
    assert [moment.idle for moment in of(story) if isinstance(moment.stimulus, ResidentCall)] == [
        False,
        True,
        False,
        False,
    ]
    story.note(Settled(drained=True, idle=True))
    story.note(StatsCall(offered=3))  # one more than was heard
    story.note(ResidentCall(hashes=()))
    assert not of(story)[-1].idle


def test_who_was_cut_off_from_every_witness_may_be_another_by_now() -> None:
    """A supervisor can have started it again: what it says is nothing of the life that was heard."""
    story = Story().told(3)
    story.note(Settled(drained=True, idle=True))
    story.disconnect(by="a")
    story.note(ResidentCall())
    story.connect(by="a")
    story.disconnect(by="b")
    story.connect(by="b")
    story.note(ResidentCall())
    story.send(stored("z"))
    story.note(ResidentCall())
    asked = [moment for moment in of(story) if isinstance(moment.stimulus, ResidentCall)]
    assert [(moment.known, moment.idle) for moment in asked] == [(True, True), (False, False), (True, False)]


def test_what_is_read_behind_the_word_of_a_disconnect_is_of_the_old_connection() -> None:
    story = Story().told(3)
    story.disconnect()
    story.send(stored("z"))
    story.connect()
    story.note(ResidentCall())
    assert not of(story)[-1].known
