"""REP: what an answer holds, how it ends, what malformed requests get, and what is retained."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kit.stories import (
    END_MARKER,
    TOPIC,
    Story,
    cleared,
    foreign,
    number_frame,
    pack,
    stored,
    thrice,
)

from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard.statement import Statement
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import ReplayBehind
from kvwire.wire.framing import END_SEQUENCE

PASS, FAIL, WARN, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE
FUTURE = 2**32


def speaks(story: Story) -> set[str]:
    """What of REP is broken."""
    return {name for name in story.spoken() if name.startswith("REP")}


def exchange(story: Story, *messages: tuple[bytes, ...], start: int = 0, outcome: str = "marker") -> str:
    """One request and exactly these messages in answer."""
    client = story.ask(start)
    for frames in messages:
        story.answer(client, *frames)
    story.done(client, outcome)
    return client


def batch(story: Story, number: int) -> tuple[bytes, ...]:
    """A retained batch, as it should be replayed."""
    return (b"", TOPIC, number_frame(number), story.retained[number])


def test_an_honest_exchange() -> None:
    story = Story().told(4)
    story.replay(1)
    story.replay(FUTURE)
    outcomes = story.outcomes()
    assert {n: o.witnesses for n, o in outcomes.items() if n.startswith("REP") and o.verdict is PASS} == {
        "REP-001": 3,
        "REP-002": 3,
        "REP-003": 2,
        "REP-004": 1,
        "REP-008": 3,
        "REP-013": 3,
        "REP-014": 2,
    }


def test_a_stream_without_replay_is_not_asked_and_one_that_was_not_asked_shows_nothing() -> None:
    outcomes = Story(replay=False).told(2).outcomes()
    assert {outcomes[n].reason for n in outcomes if n in ("REP-001", "REP-003", "REP-008")} == {Reason.BEYOND}
    outcomes = Story().told(2).outcomes()
    assert {outcomes[n].verdict for n in outcomes if n in ("REP-001", "REP-003", "REP-008")} == {OPEN}


# --- REP-001 ------------------------------------------------------------------------------------------------------


def test_a_replayed_batch_without_topic() -> None:
    story = Story().told(1)
    exchange(story, (b"", number_frame(0), story.retained[0]), END_MARKER)
    assert speaks(story) == {"REP-001"}
    assert story.outcome("REP-001").violations == 1
    assert story.outcome("REP-001").findings[0].seen == "3 frames, no topic (form replay-bare)"


@pytest.mark.parametrize(
    ("frame", "change"),
    [
        ("topic", lambda frames: (b"", b"", *frames[2:])),
        ("payload", lambda frames: (*frames[:3], frames[3][:-1] + b"\x07")),
        ("payload", lambda frames: (*frames[:3], frames[3][:-1])),
    ],
)
def test_a_replayed_batch_that_differs_from_the_live_one(
    frame: str, change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
) -> None:
    story = Story().told(2)
    exchange(story, batch(story, 0), change(batch(story, 1)), END_MARKER)
    assert speaks(story) == {"REP-001"}
    assert story.verdict("REP-001") == (FAIL, 2)
    number, where, offset, _ = story.place("REP-001")
    assert (number, where) == ("1", frame)
    assert offset == (0 if frame == "topic" else len(story.retained[1]) - 1)


def test_a_batch_that_differs_in_two_frames_is_one_finding() -> None:
    story = Story().told(1)
    exchange(story, (b"", b"other", number_frame(0), foreign(0)), END_MARKER)
    assert story.outcome("REP-001").violations == 1
    assert story.place("REP-001")[1] == "topic"


def test_a_batch_that_nobody_heard_live_is_not_compared() -> None:
    story = Story().told(2)
    story.send(by="")
    story.replay()
    assert story.verdict("REP-001") == (PASS, 2)


def test_everything_replayed_with_new_stamps() -> None:
    story = Story().told(3)
    client = story.ask()
    story.answer_batches(client, {number: foreign(number) for number in story.retained})
    story.answer(client, *END_MARKER)
    story.done(client)
    story.send()
    assert speaks(story) == {"REP-001"}
    assert story.outcome("REP-001").violations == 3


def test_an_answer_of_the_new_life_is_not_compared_with_the_old_one() -> None:
    story = Story().told(4)
    story.restart()
    story.told(3, by="")
    story.replay()
    story.send()
    assert speaks(story) == set()
    assert story.verdict("REP-001") == (OPEN, 0)


def test_messages_of_no_form() -> None:
    story = Story().told(1)
    exchange(story, (TOPIC, number_frame(0), story.retained[0]), END_MARKER)  # the delimiter is missing
    assert "REP-001" in speaks(story)
    assert story.outcome("REP-001").findings[0].seen.startswith(f"3 frames: {TOPIC.hex()} | 0000000000000000 | ")
    exchange(story, (TOPIC,), (TOPIC, TOPIC), END_MARKER)
    assert story.outcome("REP-001").violations == 2  # one an answer


def test_a_number_of_four_bytes_is_compared_with_the_batch_that_was_sent_with_these_bytes() -> None:
    story = Story().told(2)
    exchange(story, batch(story, 0), (b"", TOPIC, b"\0\0\0\x01", story.retained[1]), END_MARKER)
    assert story.verdict("REP-001") == (FAIL, 2)
    assert story.place("REP-001")[1] == "sequence"
    assert story.verdict("REP-002") == (PASS, 1)


def test_a_number_of_four_bytes_was_perhaps_sent_like_that() -> None:
    story = Story().told(1)
    number, content = story.make()
    story.frames(TOPIC, bytes(3) + bytes([number]), content)
    exchange(story, batch(story, 0), (b"", TOPIC, bytes(3) + bytes([number]), content), END_MARKER)
    assert story.verdict("REP-001") == (PASS, 1)


def test_an_answer_that_is_not_over_shows_nothing() -> None:
    story = Story().told(2)
    story.answer(story.ask(), *batch(story, 1))
    assert not {name for name in story.witnessed() if name.startswith("REP")}


# --- REP-002 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "seen"),
    [
        ([0, 1, 2], "number 0 as the first"),
        ([1, 2, 2], "number 2 after 2"),
        ([2, 1, 0], "number 1 after 2"),
    ],
)
def test_numbers_below_the_start_twice_or_falling(numbers: list[int], seen: str) -> None:
    story = Story().told(3)
    exchange(story, *(batch(story, number) for number in numbers), END_MARKER, start=1)
    assert speaks(story) == {"REP-002"}
    assert story.outcome("REP-002").violations == 1
    assert story.outcome("REP-002").findings[0].seen == seen


# --- the end marker -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "seen"),
    [
        ([], "no end marker within the bound after 1 batches"),
        ([END_MARKER, END_MARKER], "2 end markers"),
        ([(b"", END_SEQUENCE, b"")], "an end marker of 3 frames, no topic (form replay-bare)"),
        ([(b"", TOPIC, END_SEQUENCE, b"")], "an end marker whose topic is b'kv'"),
        (
            [(b"", END_SEQUENCE)],
            "no end marker within the bound after 1 batches; 1 messages of another shape, the first of 2 frames",
        ),
    ],
)
def test_an_answer_that_ends_wrongly(ends: list[tuple[bytes, ...]], seen: str) -> None:
    story = Story().told(1)
    if ends:
        exchange(story, batch(story, 0), *ends)
    else:
        thrice(lambda: exchange(story, batch(story, 0), outcome="timeout"))
    assert speaks(story) == {"REP-003"}
    assert story.outcome("REP-003").findings[0].seen == seen


def test_batches_behind_the_marker() -> None:
    story = Story().told(2)
    exchange(story, batch(story, 0), END_MARKER, batch(story, 1))
    assert story.spoken()["REP-003"] == "batches after the end marker"


@pytest.mark.parametrize("outcome", ["disconnected", "count"])
@pytest.mark.parametrize(("start", "name"), [(0, "REP-003"), (FUTURE, "REP-004")])
def test_an_answer_that_was_cut_short_stays_open(outcome: str, start: int, name: str) -> None:
    story = Story().told(2)
    exchange(story, start=start, outcome=outcome)
    assert story.verdict(name) == (OPEN, 0)
    assert "marker: " in story.outcome(name).reason
    assert speaks(story) == set()


def test_an_answer_that_another_one_overtook_ended_without_a_marker() -> None:
    story = Story().told(2)
    exchange(story, batch(story, 0), outcome="overtaken")
    assert speaks(story) == {"REP-003"}
    story = Story().told(2)
    exchange(story, start=FUTURE, outcome="overtaken")
    assert speaks(story) == {"REP-004"}


@pytest.mark.parametrize(("start", "name"), [(0, "REP-003"), (FUTURE, "REP-004")])
def test_a_marker_that_came_in_a_later_attempt_was_late(start: int, name: str) -> None:
    story = Story().told(1)
    exchange(story, start=start, outcome="timeout")
    story.replay(start)
    assert speaks(story) == set()
    assert [note[:23] for note in story.outcome(name).notes] == ["late on a busy machine:"]


def test_nothing_to_send_and_no_marker() -> None:
    story = Story().told(2)
    thrice(lambda: exchange(story, start=FUTURE, outcome="timeout"))
    assert speaks(story) == {"REP-004"}
    assert story.outcome("REP-004").findings[0].where.record == len(story.records) - 5


@pytest.mark.parametrize("situation", ["vanishing", "beyond", "paused", "beside"])
def test_a_start_in_the_future_under_pressure_may_stay_without_an_answer(situation: str) -> None:
    story = Story()
    story.send()
    client = story.ask(7, situation=situation)
    story.done(client, "vanished" if situation == "vanishing" else "bound")
    assert "REP-004" not in speaks(story)
    story.replay(7, situation=situation)
    assert story.verdict("REP-004") == (PASS, 1)


def test_two_markers_for_nothing() -> None:
    story = Story().told(2)
    exchange(story, END_MARKER, END_MARKER, start=FUTURE)
    assert speaks(story) == {"REP-003"}
    assert story.verdict("REP-004") == (PASS, 1)


def test_a_payload_in_the_marker() -> None:
    story = Story().told(1)
    exchange(story, batch(story, 0), (b"", b"", END_SEQUENCE, pack([0, 0])))
    assert speaks(story) == {"REP-014"}
    assert story.place("REP-014") == (None, "payload", 0, "920000")
    assert "REP-015" not in story.witnessed()


@pytest.mark.parametrize(("content", "used"), [(pack([0, 0]), 1), (pack([3, 0]), 0), (b"junk", 0), (b"", 0)])
def test_a_declared_payload_in_the_marker(content: bytes, used: int) -> None:
    story = Story(statement=Statement(extensions=("end_payload",))).told(1)
    exchange(story, batch(story, 0), (b"", b"", END_SEQUENCE, content))
    assert speaks(story) == set()
    outcome = story.outcome("REP-015")
    assert (outcome.witnesses, bool(outcome.notes)) == (used, bool(content) and not used)


# --- malformed requests -------------------------------------------------------------------------------------------


def malformed(kind: str, *messages: tuple[bytes, ...], story: Story | None = None) -> Story:
    """A good exchange, a malformed request with this answer, and the request after it, answered."""
    story = Story().told(2) if story is None else story
    story.replay()
    client = story.ask(None, kind)
    for frames in messages:
        story.answer(client, *frames)
    story.done(client, "marker" if messages else "timeout")
    return story


@pytest.mark.parametrize(
    ("kind", "name", "verdict"),
    [("frames-three", "REP-005", FAIL), ("delimiter-filled", "REP-006", WARN), ("start-4-bytes", "REP-006", WARN)],
)
def test_a_malformed_request_that_gets_batches(kind: str, name: str, verdict: Verdict) -> None:
    first = Story().told(2)
    story = malformed(kind, batch(first, 0), END_MARKER, story=first)
    assert speaks(story) == {name}
    assert story.outcome(name).verdict is verdict
    assert malformed(kind, END_MARKER).verdict(name) == (PASS, 1)
    assert malformed(kind).verdict(name) == (PASS, 1)


def test_the_marker_alone_is_a_permission() -> None:
    assert malformed("frames-three", END_MARKER).verdict("REP-016") == (PASS, 1)
    assert malformed("frames-three").outcome("REP-016").reason == Reason.NOT_USED


def test_a_publisher_that_heeds_no_start_may_answer_the_request_behind_the_malformed_one() -> None:
    for heedless, ends, broken in ((True, 1, False), (True, 2, True), (False, 1, True)):
        story = Story().told(2)
        exchange(story, *(batch(story, number) for number in range(0 if heedless else 1, 2)), END_MARKER, start=1)
        client = story.ask(None, "frames-three")
        story.note(ReplayBehind(client=client, start=str(FUTURE)))
        for frames in (batch(story, 0), batch(story, 1), *[END_MARKER] * ends):
            story.answer(client, *frames)
        story.done(client)
        outcome = story.outcome("REP-005")
        assert outcome.verdict is (FAIL if broken else OPEN)
        assert broken or outcome.reason.endswith("starts are not heeded")
        assert story.outcome("REP-016").reason == Reason.NOT_USED


SHIFTED = [
    (b"", b"", bytes(8), b""),
    (b"", b"", b"\xff" * 4, b""),
    (b"", END_SEQUENCE, b"", b""),
    (b"", b"", END_SEQUENCE),
]
"""End markers of another shape."""


@pytest.mark.parametrize("frames", SHIFTED)
def test_an_end_marker_of_another_shape_is_no_batch(frames: tuple[bytes, ...]) -> None:
    story = Story().told(2)
    story.replay()
    client = story.ask(None, "frames-three")
    story.note(ReplayBehind(client=client, start=str(FUTURE)))
    story.answer(client, *frames)
    story.done(client)
    assert story.verdict("REP-005")[0] is OPEN
    thrice(lambda: exchange(story, batch(story, 1), frames, start=1, outcome="timeout"))
    assert speaks(story) == {"REP-003"}
    assert "1 messages of another shape" in story.outcome("REP-003").findings[0].seen


def test_the_next_request_after_a_malformed_one() -> None:
    story = malformed("frames-three")
    story.replay(1)
    assert story.verdict("REP-007") == (PASS, 1)
    story = malformed("frames-three")
    exchange(story, outcome="timeout")
    exchange(story, outcome="timeout")
    assert story.outcome("REP-007").verdict is OPEN
    exchange(story, outcome="timeout")
    assert speaks(story) == {"REP-007"}
    story = malformed("frames-three")
    exchange(story, (TOPIC,), outcome="overtaken")
    assert story.spoken()["REP-007"].endswith("; 1 messages of another shape, the first of 1 frames")


def test_the_next_request_is_one_also_where_its_connection_ended() -> None:
    story = malformed("frames-three")
    exchange(story, outcome="disconnected")
    story.replay()
    assert story.verdict("REP-007") == (OPEN, 0)
    assert story.outcome("REP-007").reason == "no answer: the connection ended in the middle of it"


@pytest.mark.parametrize(
    ("answer", "spoken", "alone"), [((END_MARKER,), set(), 0), ((END_MARKER,) * 2, set(), 1), ((), {"REP-007"}, 0)]
)
def test_the_next_request_on_the_same_connection(
    answer: tuple[tuple[bytes, ...], ...], spoken: set[str], alone: int
) -> None:
    story = Story().told(2)
    story.replay()
    story.replay(FUTURE)
    client = story.ask(None, "frames-three")
    story.note(ReplayBehind(client=client, start=str(FUTURE)))
    for frames in answer:
        story.answer(client, *frames)
    if answer:
        story.done(client, "marker")
    else:
        thrice(lambda: story.done(client, "timeout"))
    assert speaks(story) == spoken
    assert story.outcome("REP-007").witnesses == 1
    assert story.outcome("REP-016").witnesses == alone
    assert story.verdict("REP-005") == ((PASS, 1) if answer else (OPEN, 0))
    assert answer or story.outcome("REP-005").reason.startswith("neither a malformed request nor")


def test_a_publisher_that_never_answers_is_not_blamed_for_what_came_before() -> None:
    story = Story().told(2)
    thrice(lambda: exchange(story, outcome="timeout"))
    story.done(story.ask(None, "frames-three"), "timeout")
    thrice(lambda: exchange(story, outcome="timeout"))
    assert speaks(story) == {"REP-003"}


# --- REP-008 and REP-013 ------------------------------------------------------------------------------------------


def test_a_hole_that_a_later_answer_fills() -> None:
    story = Story().told(6)
    story.replay(without=[3])
    assert story.outcome("REP-008").verdict is OPEN  # left out, or not retained: nothing tells
    assert speaks(story) == set()
    story.replay()
    assert speaks(story) == {"REP-008"}
    assert story.outcome("REP-008").findings[0].seen == (
        "the end marker after 5 batches; 1 are missing, first 3, which another answer holds"
    )


def test_an_answer_that_lacks_a_batch_is_one_occasion() -> None:
    story = Story().told(4)
    story.replay(without=[1])
    story.replay()
    assert story.outcome("REP-008").violations == 1


def test_a_marker_that_comes_early() -> None:
    story = Story().told(6)
    story.replay(without=[4, 5])
    assert story.outcome("REP-008").verdict is OPEN  # cut, or not retained: nothing tells
    assert speaks(story) == set()
    story.replay(4)
    assert speaks(story) == {"REP-008"}


def test_a_batch_that_was_never_retained() -> None:
    story = Story().told(6)
    story.replay(without=[2])
    story.replay(without=[2])
    assert speaks(story) == set()
    story.replay(2, without=[2])
    assert speaks(story) == {"REP-013"}
    assert story.outcome("REP-013").findings[0].seen == "1 that no answer holds, the first 2"


def test_the_marker_alone_though_there_is_something() -> None:
    story = Story().told(3)
    exchange(story, END_MARKER)
    assert speaks(story) == {"REP-013"}


def test_a_ring_that_evicts_from_its_oldest_end() -> None:
    story = Story(ring=3).told(6)
    story.replay()
    assert speaks(story) == set()
    assert story.verdict("REP-013") == (PASS, 3)


def test_a_ring_that_is_shorter_than_declared() -> None:
    story = Story(ring=3, statement=Statement(ring=5)).told(6)
    story.replay()
    assert speaks(story) == {"REP-013"}
    assert story.outcome("REP-013").findings[0].seen == "2 that no answer holds, the first 1"


def test_a_hole_that_an_eviction_may_have_made() -> None:
    """The client was slow: what it had not read was evicted, and the answer went on from the oldest retained."""
    story = Story(ring=4).told(4)
    story.replay()
    client = story.ask()
    story.answer(client, *batch(story, 0))
    for _ in range(4):
        story.send()
    story.answer_batches(client, story.retained)
    story.answer(client, *END_MARKER)
    story.done(client)
    assert speaks(story) == set()
    assert story.outcome("REP-008").verdict is OPEN
    assert "3 batches are missing" in story.outcome("REP-008").reason


@pytest.mark.parametrize("ring", [None, 4])
def test_a_hole_while_nothing_new_was_published_is_no_eviction(ring: int | None) -> None:
    story = Story(ring=4, statement=Statement(ring=ring)).told(4)
    story.replay(without=[1])
    story.replay(1, without=[1])
    for _ in range(9):
        story.send()
    assert speaks(story) == {"REP-013"}


@pytest.mark.parametrize(("ring", "broken"), [(1000, {"REP-008"}), (None, set())])
def test_a_hole_that_the_declared_ring_has_room_for_is_no_eviction(ring: int | None, broken: set[str]) -> None:
    """An answer before it held the batch, and something was published meanwhile."""
    story = Story(statement=Statement(ring=ring)).told(6)
    story.replay()
    client = story.ask()
    story.send()
    story.answer_batches(client, {number: story.retained[number] for number in (0, 1, 2, 4, 5, 6)})
    story.answer(client, *END_MARKER)
    story.done(client)
    assert speaks(story) == broken
    assert story.outcome("REP-008").verdict is (FAIL if broken else OPEN)


def test_what_the_publisher_dropped_was_never_sent() -> None:
    story = Story().told(2)
    story.drop(2)
    story.send()
    story.replay()
    assert story.verdict("REP-013") == (PASS, 3)


def test_an_answer_is_not_asked_for_what_was_sent_after_the_request() -> None:
    story = Story().told(3)
    client = story.ask()
    story.send()
    story.answer_batches(client, {number: story.retained[number] for number in range(3)})
    story.answer(client, *END_MARKER)
    story.done(client)
    assert story.verdict("REP-008") == (PASS, 3)
    assert speaks(story) == set()


def test_a_new_life_does_not_hold_what_the_old_one_sent() -> None:
    story = Story().told(20)
    story.restart()
    story.told(2, by="")
    story.replay()
    story.send(stored("later"))
    for _ in range(9):
        story.send()
    assert speaks(story) == set()


def test_a_new_life_whose_first_number_is_above_the_last_one() -> None:
    story = Story().told(4)
    story.replay()
    story.restart()
    story.told(9, by="")
    story.send(cleared())
    story.replay(7)
    assert speaks(story) == set()


# --- several answers on one connection ---------------------------------------------------------------------------


def pipelined(*order: tuple[int, int | None]) -> Story:
    """Two requests on one connection; the messages in order: by client, a number or the end marker."""
    story = Story().told(4)
    clients = [story.ask(), story.ask(connection="replay-1", situation="paused")]
    for client, number in order:
        if number is None:
            story.answer(clients[client], *END_MARKER)
        else:
            story.answer_batches(clients[client], {number: story.retained[number]})
    for name in clients:
        story.done(name)
    story.replay()
    return story


def test_a_connection_that_was_made_again_under_answers_tells_nothing() -> None:
    """The publisher restarted: the first answer is cut, and what is read next answers another request, or that life."""
    story = Story().told(8)
    story.note(SocketEvent(event="HANDSHAKE_SUCCEEDED", of="replay-1"))
    clients = [story.ask(), *(story.ask(start, connection="replay-1", situation="paused") for start in (5, 2))]
    story.answer_batches(clients[0], {number: story.retained[number] for number in range(4)})
    story.restart()
    story.told(8)
    story.note(SocketEvent(event="HANDSHAKE_SUCCEEDED", of="replay-1"))
    story.answer_batches(clients[0], {number: story.retained[number] for number in range(2, 8)})
    story.answer(clients[0], *END_MARKER)
    for client, outcome in zip(clients, ("marker", "timeout", "timeout"), strict=True):
        story.done(client, outcome)
    assert story.spoken() == {}
    assert story.outcome("REP-002").verdict is OPEN
    assert [max(life) for life in story.lives()] == [7, 7]
    assert all(answer.source not in clients for answer in story.timeline().answers)


def test_answers_that_come_mixed_are_one_fault() -> None:
    """All batches and both markers arrive, one publisher's thread a request: whose each is nobody can say."""
    turns = [(0, number) for number in (0, 0, 1, 1, 2, 3)]
    for ends in (
        [(0, 2), (0, 3), (0, None), (0, None)],
        [(0, 2), (0, 3), (0, None), (1, None)],
        [(0, None), (1, 2), (1, 3), (1, None)],
    ):
        assert speaks(pipelined(*turns, *ends)) == {"REP-002"}
    apart = [(0, 0), (0, 1), (0, 2), (0, 3), (0, None), (1, 0), (1, 1), (1, 2), (1, 3), (1, None)]
    assert speaks(pipelined(*apart)) == set()
    assert pipelined(*apart).verdict("REP-003") == (PASS, 3)


def test_behind_one_end_marker_too_many_nobody_can_say_whose_a_batch_is() -> None:
    """What answers the second request is read as the answer to the third, which asks for later ones."""
    story = Story().told(4)
    clients = [story.ask(), *(story.ask(start, connection="replay-1", situation="paused") for start in (1, 3))]
    story.answer_batches(clients[0], story.retained)
    story.answer(clients[0], *END_MARKER)
    story.answer(clients[1], *END_MARKER)
    story.answer_batches(clients[2], {number: story.retained[number] for number in (1, 2, 3)})
    for _ in range(2):
        story.answer(clients[2], *END_MARKER)
    for name in clients:
        story.done(name)
    assert speaks(story) == {"REP-003"}
    assert story.outcome("REP-003").findings[0].seen == "4 end markers"
    assert story.outcome("REP-002").reason.startswith("more end markers than requests")


# --- retained before it is sent ----------------------------------------------------------------------------------


def test_a_batch_that_is_sent_before_it_is_retained() -> None:
    """It was heard, asked for at once, and not there; then it was."""
    story = Story().told(4)
    number, content = story.make(stored("z"))
    story.live(number, content)
    story.replay(without=[number])
    story.replay()
    assert speaks(story) == {"REP-013"}
    assert story.outcome("REP-013").findings[0].expected.startswith("number 4 in the ring")
    story = Story().told(5)
    story.replay()
    story.replay(without=[4])  # it was there already
    story.replay()
    assert speaks(story) == {"REP-008"}


def test_a_batch_that_is_asked_for_while_it_is_sent() -> None:
    """The request came first."""
    story = Story().told(4)
    client = story.ask()
    number, content = story.make(stored("z"))
    story.live(number, content)
    story.answer_batches(client, {n: c for n, c in story.retained.items() if n < number})
    story.answer(client, *END_MARKER)
    story.done(client)
    story.replay()
    assert speaks(story) == set()
