"""ENV: frames, topic, number and payload, as they came."""

from __future__ import annotations

from tests.kit.stories import TOPIC, Story, cleared, number_frame, payload, stored

from kvwire.judges.verdict import Reason, Verdict
from kvwire.wire.msgpack import LIMITS

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def honest() -> Story:
    """Three batches, each heard by both witnesses, which is one occasion."""
    story = Story().begin()
    story.send(stored("a"))
    story.send()
    return story


def test_an_honest_stream_shows_each_sentence_as_often_as_it_could_have_broken_it() -> None:
    outcomes = honest().outcomes()
    assert {name: (outcomes[name].verdict, outcomes[name].witnesses) for name in outcomes if name[:3] == "ENV"} == {
        "ENV-001": (PASS, 3),
        "ENV-002": (PASS, 2),  # the first message has nothing to differ from
        "ENV-003": (PASS, 3),
        "ENV-004": (PASS, 3),
        "ENV-005": (PASS, 2),  # number 0 looks the same in either byte order
        "ENV-006": (PASS, 3),
    }


def test_two_frames_break_one_sentence_and_say_nothing_of_the_others() -> None:
    story = Story()
    story.frames(number_frame(1), payload(), by="a")
    assert story.verdict("ENV-001") == (FAIL, 1)
    assert story.place("ENV-001") == (None, "message", 0, (number_frame(1) + payload())[:24].hex())
    assert story.outcome("ENV-001").findings[0].seen == f"2 frames: {number_frame(1).hex()} | {payload().hex()}"
    assert {name for name in story.witnessed() if name.startswith("ENV")} == {"ENV-001"}


def test_a_fourth_frame_and_no_frame_at_all() -> None:
    story = Story()
    story.frames(TOPIC, number_frame(1), payload(), b"more", by="a")
    story.frames(by="a")
    assert [finding.seen[:8] for finding in story.outcome("ENV-001").findings] == ["4 frames", "0 frames"]


def test_a_topic_that_changes() -> None:
    story = honest()
    story.frames(b"kv/2", number_frame(3), payload(), by="a")
    assert story.verdict("ENV-002") == (FAIL, 3)
    assert story.place("ENV-002") == (None, "topic", 0, b"kv/2".hex())
    assert story.outcome("ENV-002").findings[0].expected == "the topic b'kv' of the messages before"


def test_another_topic_than_declared_is_named() -> None:
    story = Story(topic=b"other").begin()
    assert story.verdict("ENV-003") == (FAIL, 1)
    assert "b'other'" in story.outcome("ENV-003").findings[0].seen
    assert story.verdict("ENV-002") == (OPEN, 0)  # a copy that another witness heard is no second message


def test_a_topic_that_is_not_declared_is_not_claimed() -> None:
    outcome = Story(declared_topic=None).begin().outcome("ENV-003")
    assert (outcome.verdict, outcome.reason) == (Verdict.NOT_APPLICABLE, Reason.NOT_CLAIMED)


def test_a_topic_that_is_not_utf8_and_one_that_is_empty() -> None:
    story = Story(topic=b"\xff\xfe", declared_topic=None).begin(by="a")
    assert story.verdict("ENV-004") == (FAIL, 1)
    assert story.place("ENV-004") == (None, "topic", 0, "fffe")
    assert Story(topic=b"", declared_topic="").begin(by="a").verdict("ENV-004") == (PASS, 1)


def test_a_number_of_four_bytes() -> None:
    story = Story()
    story.frames(TOPIC, b"\0\0\0\1", payload(), by="a")
    assert story.verdict("ENV-005") == (FAIL, 1)
    assert story.place("ENV-005") == (None, "sequence", 0, "00000001")


def test_little_endian_numbers_are_read_as_what_they_are() -> None:
    story = Story()
    for number in (0, 1, 258):
        story.frames(TOPIC, number.to_bytes(8, "little"), payload(), by="a")
    assert story.outcome("ENV-005").violations == 2
    assert story.outcome("ENV-005").findings[1].expected == "0000000000000102, the number 258 in big-endian order"
    assert story.place("ENV-005") == (None, "sequence", 0, "0100000000000000")


def test_a_large_number_is_a_number() -> None:
    story = Story()
    story.live(2**48 - 1, payload(), by="a")
    story.live(0x0001_0203_0405_0607, payload(), by="a")
    assert story.verdict("ENV-005") == (PASS, 2)


def test_bytes_behind_the_value() -> None:
    story = Story()
    story.live(7, payload() + b"\xc0\xc0", by="a")
    assert story.verdict("ENV-006") == (FAIL, 1)
    assert story.place("ENV-006") == ("7", "payload", len(payload()), "c0c0")
    assert story.outcome("ENV-006").findings[0].seen == "2 bytes after the value"


def test_a_payload_that_ends_early_and_one_that_is_empty() -> None:
    story = Story()
    story.live(1, payload()[:-1], by="a")
    story.live(2, b"", by="a")
    assert story.verdict("ENV-006") == (FAIL, 2)
    assert story.place("ENV-006") == ("1", "payload", len(payload()) - 1, "")


def test_a_string_that_is_not_utf8_is_found_where_it_stands() -> None:
    story = Story()
    content = payload(stored("a", medium="GPU")).replace(b"\xa3GPU", b"\xa3G\xffU")
    story.live(1, content, by="a")
    assert story.verdict("ENV-006") == (FAIL, 1)
    offset = content.index(b"\xa3G\xffU")
    assert story.place("ENV-006") == ("1", "payload", offset, content[offset : offset + 24].hex())
    assert set(story.spoken()) == {"ENV-006"}


def test_what_exceeds_the_bounds_of_the_harness_is_no_fault_of_the_publisher() -> None:
    story = Story()
    story.live(1, b"\x91" * (LIMITS.depth + 2) + b"\xc0", by="a")
    outcome = story.outcome("ENV-006")
    assert (outcome.verdict, outcome.witnesses) == (OPEN, 0)
    assert "this harness's limit" in outcome.reason
    assert story.spoken() == {}


def test_replay_is_not_read_as_live() -> None:
    story = honest()
    before = story.verdict("ENV-001")
    story.replay()
    assert story.verdict("ENV-001") == before


def test_silence_shows_nothing() -> None:
    outcomes = Story().outcomes()
    assert {outcomes[name].verdict for name in outcomes if name.startswith("ENV")} == {OPEN}


def test_the_clear_of_a_life_is_a_message_like_any_other() -> None:
    story = Story()
    story.send(cleared(), by="b")
    assert story.verdict("ENV-001") == (PASS, 1)
