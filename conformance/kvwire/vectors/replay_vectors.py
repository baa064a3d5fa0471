"""Replay requests and answers (spec/replay.md)."""

from __future__ import annotations

from kvwire.vectors.making import fault, make
from kvwire.vectors.model import Group, ReplayExpected, ReplayFile, ReplayInput, Test

EMPTY = "93cb41d9dd21606000009000"
END = ("", "", "ffffffffffffffff", "")
NOTES = {"frame-count": fault("the message has another number of frames", "KVW-REP-005")}


def files() -> dict[str, ReplayFile]:
    """The files of ``replay/``."""
    requests = Group(
        name="requests",
        comment="Frames as a DEALER sends them; a ROUTER puts the identity before them.",
        tests=(
            Test(
                id="replay-request-all",
                comment="start 0 asks for everything",
                flags=(),
                requirements=("KVW-REP-021",),
                result="valid",
                input=ReplayInput(frames=("", "0000000000000000")),
                expected=ReplayExpected(start="0"),
            ),
            Test(
                id="replay-request-no-delimiter",
                comment="the delimiter is missing",
                flags=(),
                requirements=("KVW-REP-005",),
                result="invalid",
                input=ReplayInput(frames=("0000000000000000",)),
                expected=ReplayExpected(layer="frame", fault="frame-count"),
            ),
        ),
    )
    answers = Group(
        name="answers",
        comment="All that comes back for one request.",
        tests=(
            Test(
                id="replay-answer-two",
                comment="two batches, end marker",
                flags=(),
                requirements=("KVW-REP-001", "KVW-REP-003"),
                result="valid",
                input=ReplayInput(
                    start="1",
                    messages=(("", "6b76", "0000000000000001", EMPTY), ("", "6b76", "0000000000000002", EMPTY), END),
                ),
                expected=ReplayExpected(form="replay-topic", outcome="complete", numbers=("1", "2")),
            ),
        ),
    )
    schema = "kvwire/vectors/replay/1"
    return {
        "replay/request.json": make(schema, __name__, [requests], NOTES),
        "replay/answer.json": make(schema, __name__, [answers], NOTES),
    }
