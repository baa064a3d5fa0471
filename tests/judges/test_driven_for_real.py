"""What driving real publishers taught: late answers, publishers that refuse, restamp, lose keys, and know no salt."""

from __future__ import annotations

import pytest
from tests.kit.stories import END_MARKER, TOPIC, Event, Story, cleared, number_frame, payload, removed, stored

from kvwire.judges.verdict import Verdict
from kvwire.trace.calls import CacheCall
from kvwire.trace.marks import ReplayBehind

pytestmark = pytest.mark.network

KIND = "start-9-bytes"


def asked_wrongly(*answer: tuple[bytes, ...], kind: str = KIND) -> Story:
    """A malformed request, another one behind it on its connection, and what came back."""
    story = Story().begin()
    story.send(stored("a"))
    client = story.ask(None, kind)
    story.note(ReplayBehind(client=client, start=str(2**32)))
    for frames in answer:
        story.answer(client, *frames)
    story.done(client, "marker" if END_MARKER in answer else "timeout")
    return story


def batch(number: int) -> tuple[bytes, ...]:
    return (b"", TOPIC, number_frame(number), payload())


def test_a_malformed_request_that_was_read_and_met_with_silence() -> None:
    outcome = asked_wrongly(END_MARKER).outcome("REP-006")
    assert (outcome.verdict, outcome.witnesses) == (Verdict.PASS, 1)


def test_a_malformed_request_that_nobody_is_known_to_have_read() -> None:
    outcome = asked_wrongly().outcome("REP-006")
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "behind it" in outcome.reason


@pytest.mark.parametrize(("kind", "sentence"), [(KIND, "REP-006"), ("frames-three", "REP-005")])
@pytest.mark.parametrize("answer", [[batch(0), END_MARKER], [batch(0), END_MARKER, END_MARKER], [batch(0)]])
def test_a_malformed_request_that_was_answered(kind: str, sentence: str, answer: list[tuple[bytes, ...]]) -> None:
    assert sentence in asked_wrongly(*answer, kind=kind).spoken()


def test_a_publisher_that_heeds_no_start_is_not_blamed_for_what_the_request_behind_caused() -> None:
    story = asked_wrongly(batch(0), END_MARKER)
    client = story.ask(1)
    story.answer_batches(client, story.retained)
    story.answer(client, *END_MARKER)
    story.done(client)
    assert story.outcome("REP-006").verdict is Verdict.INCONCLUSIVE
    assert "REP-002" in story.spoken()


def test_an_end_marker_alone_is_told_from_that_of_the_request_behind() -> None:
    assert asked_wrongly(END_MARKER).outcome("REP-016").witnesses == 0
    assert asked_wrongly(END_MARKER, END_MARKER).outcome("REP-016").witnesses == 1


def restamped(*refused: int, lost: int | None = None) -> Story:
    """A publisher that stamps batches itself and leaves ``medium`` out; some offers are refused."""
    story = Story()
    events: list[Event] = [stored("a"), stored("b", "a"), removed("b"), stored("c"), cleared(), stored("d")]
    for at, event in enumerate(events):
        if at in refused:
            story.offer(event, refused="adapter: no", accepted=False)
            continue
        story.offer(event)
        if at == lost:
            continue
        story.send({key: value for key, value in event.items() if key != "medium"})
    return story


def test_batches_are_recognised_by_their_events_whatever_was_lost_of_them() -> None:
    outcomes = restamped().outcomes()
    assert (outcomes["SEQ-002"].verdict, outcomes["SEQ-002"].witnesses) == (Verdict.PASS, 5)
    assert (outcomes["SEQ-009"].verdict, outcomes["SEQ-009"].witnesses) == (Verdict.PASS, 6)
    assert {"EVT-005", "EVT-006"} <= set(restamped().spoken())


def test_nothing_is_concluded_across_a_refused_offer() -> None:
    outcome = restamped(3).outcome("SEQ-002")
    assert (outcome.verdict, outcome.witnesses) == (Verdict.PASS, 3)


def test_a_batch_that_was_dropped_without_its_number_is_seen_all_the_same() -> None:
    assert restamped(lost=3).outcome("SEQ-002").verdict is Verdict.FAIL


def test_a_salt_that_was_refused_is_no_occasion() -> None:
    story = Story()
    story.note(CacheCall(tokens=(1, 2, 3, 4), salt="tenant-0123", refused="adapter: no salts"))
    story.send(stored("a"))
    assert story.outcome("EVT-019").verdict is Verdict.INCONCLUSIVE
    story.note(CacheCall(tokens=(1, 2, 3, 4), salt="tenant-0123", cached_tokens=0))
    story.send(stored("b"))
    assert story.outcome("EVT-019").verdict is Verdict.PASS
