"""Envelope, replay and endpoint vectors against the reference."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest

from kvwire.vectors import access
from kvwire.vectors.model import (
    EndpointExpected,
    EndpointFile,
    EndpointInput,
    EnvelopeExpected,
    EnvelopeFile,
    EnvelopeInput,
    ReplayExpected,
    ReplayFile,
    ReplayInput,
    Test,
)
from kvwire_reference import endpoints, wire

LIVE = cast("EnvelopeFile", access.load("envelope/live")).tests
REQUESTS = cast("ReplayFile", access.load("replay/request")).tests
ANSWERS = cast("ReplayFile", access.load("replay/answer")).tests
BINDING = cast("EndpointFile", access.load("endpoint/binding")).tests


def frames(texts: tuple[str, ...]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


@pytest.mark.parametrize("test", LIVE, ids=lambda test: test.id)
def test_live(test: Test[EnvelopeInput, EnvelopeExpected]) -> None:
    given = frames(test.input.frames)
    if test.result == "valid":
        message = wire.parse_live(given)
        assert message.topic.hex() == test.expected.topic
        assert str(message.sequence) == test.expected.sequence
        assert message.payload.hex() == test.expected.payload
        assert wire.live_frames(message.topic, message.sequence, message.payload) == given
        message.topic.decode()
    elif test.expected.fault == "topic-not-utf-8":
        with pytest.raises(UnicodeDecodeError):
            given[0].decode()
    elif test.expected.fault == "payload-empty":
        assert given[2] == b""
    else:
        with pytest.raises(wire.WireError):
            wire.parse_live(given)


@pytest.mark.parametrize("test", REQUESTS, ids=lambda test: test.id)
def test_request(test: Test[ReplayInput, ReplayExpected]) -> None:
    given = frames(test.input.frames or ())
    if test.result == "valid":
        start = wire.parse_replay_request(given)
        assert str(start) == test.expected.start
        assert wire.replay_request_frames(start) == given
    else:
        with pytest.raises(wire.WireError):
            wire.parse_replay_request(given)
    assert all(value != test.expected.start for value in test.mistakes.values())


FORMAL = {"frame-count", "delimiter", "number-length", "bare", "mixed-forms"}
"""Faults that the reference's reader of one message tells."""


@pytest.mark.parametrize("test", ANSWERS, ids=lambda test: test.id)
def test_answer(test: Test[ReplayInput, ReplayExpected]) -> None:
    """The answer is read again, message by message; what is asked of it is written down here a second time."""
    messages = [frames(message) for message in test.input.messages or ()]
    if test.expected.fault in FORMAL:
        with pytest.raises(wire.WireError):
            [wire.parse_replay_answer(message) for message in messages]
        return
    read = [wire.parse_replay_answer(message) for message in messages]
    numbers = [message.sequence for message in read if message is not None]
    start = int(test.input.start or "")
    ends = [message for message, parsed in zip(messages, read, strict=True) if parsed is None]
    live = {frames_[1]: (frames_[0], frames_[2]) for frames_ in map(frames, test.input.live)}
    faults = {
        "end-twice": len(ends) > 1 and read[-2:] == [None, None],
        "after-end": (None in read and read[-1] is not None) or (len(ends) > 1 and read[-2] is not None),
        "below-start": any(number < start for number in numbers),
        "number-twice": any(a == b for a, b in pairwise(numbers)),
        "not-ascending": any(a > b for a, b in pairwise(numbers)),
        "end-topic": any(end[1] for end in ends),
        "end-payload": any(end[3] for end in ends) and not test.input.extensions,
        "end-payload-form": any(end[3] and end[3][0] != 0x92 for end in ends) and bool(test.input.extensions),
        "topic-differs": any(m[2] in live and m[1] != live[m[2]][0] for m in messages),
        "payload-differs": any(m[2] in live and m[3] != live[m[2]][1] for m in messages),
    }
    assert [name for name, present in faults.items() if present] == (
        [test.expected.fault] if test.expected.fault else []
    )
    if test.result == "valid":
        assert tuple(map(str, numbers)) == test.expected.numbers
        holes = any(b > a + 1 for a, b in pairwise(numbers))
        outcome = "no-end" if not ends else "hole" if holes else "complete" if numbers else "empty"
        assert outcome == test.expected.outcome


@pytest.mark.parametrize("test", BINDING, ids=lambda test: test.id)
def test_binding(test: Test[EndpointInput, EndpointExpected]) -> None:
    given, expected = test.input, test.expected

    def check() -> endpoints.RankEndpoints:
        return endpoints.check_endpoints(
            given.endpoint,
            given.replay,
            world_size=given.world,
            ranks_per_host=given.ranks_per_host,
            rank=given.rank,
            wildcard="wide" in test.flags,
        )

    if expected.fault is None:
        assert tuple(check()) == (expected.publish, expected.replay)
        return
    with pytest.raises(endpoints.EndpointError) as caught:
        check()
    assert caught.value.cause == expected.fault
    assert not expected.names or any(name in str(caught.value) for name in expected.names)


def test_the_table_of_the_standard_is_here() -> None:
    rows = {(t.input.endpoint, t.input.replay, t.input.ranks_per_host): t.result for t in BINDING if t.input.rank == 0}
    base = "tcp://127.0.0.1"
    assert rows[f"{base}:5557", f"{base}:5558", 2] == rows[f"{base}:5558", f"{base}:5557", 2] == "invalid"
    assert rows[f"{base}:5557", f"{base}:5558", 1] == "valid"
