"""Replay requests and answers (spec/replay.md)."""

from __future__ import annotations

from typing import Any

from kvwire.vectors.model import Cite, Group, Note, ReplayExpected, ReplayFile, ReplayInput
from kvwire_generators.frames import replay_requests
from kvwire_generators.frames.envelope_vectors import CLEARED, EMPTY, KV
from kvwire_generators.frames.replay_requests import ReplayTest
from kvwire_generators.making import fault, links, make

Message = tuple[str, ...]

FF = "ff" * 8
END: Message = ("", "", FF, "")
BARE_END: Message = ("", FF, "")

NOTES: dict[str, Note] = {
    "frame-count": fault("the message has another number of frames", "KVW-REP-001"),
    "delimiter": fault("the delimiter is not empty", "KVW-REP-001"),
    "number-length": fault("a number has another length than 8 bytes", "KVW-REP-001"),
    "not-ascending": fault("the numbers do not ascend", "KVW-REP-002"),
    "number-twice": fault("a number comes twice", "KVW-REP-002"),
    "below-start": fault("a number is below the start", "KVW-REP-002"),
    "end-twice": fault("there is more than one end marker", "KVW-REP-003"),
    "after-end": fault("a batch follows the end marker", "KVW-REP-003"),
    "end-topic": fault("the end marker has a topic", "KVW-REP-003"),
    "end-payload": fault("the end marker has a payload that no extension is declared for", "KVW-REP-014"),
    "end-payload-form": fault("the payload of the end marker is no array of two numbers", "KVW-REP-015"),
    "topic-differs": fault("a replayed topic is not the one that was sent live", "KVW-REP-001"),
    "payload-differs": fault("a replayed payload is not the one that was sent live", "KVW-REP-001"),
    "bare": fault("the answer is of the legacy form without topic frames", "KVW-REP-001", "KVW-REP-003"),
    "mixed-forms": fault("messages with and without topic frames in one answer", "KVW-REP-001"),
    "incomplete": Note(
        kind="property",
        description="an answer that a client has to take as incomplete",
        requirements=("KVW-REP-022", "KVW-REP-023"),
        links=links("KVW-REP-022"),
    ),
    "big-integer": Note(kind="property", description="numbers beyond 2^53, which floating point cannot hold"),
    "replay-bare": Note(kind="legacy", description="replay without topic frames", links=("legacy.md",)),
}


def _number(value: int) -> str:
    return f"{value:016x}"


def batch(number: int, topic: str = KV, payload: str = EMPTY) -> Message:
    """A replayed batch as a DEALER reads it."""
    return ("", topic, _number(number), payload)


def bare(number: int, payload: str = EMPTY) -> Message:
    """A replayed batch of the legacy form."""
    return ("", _number(number), payload)


def _answer(
    slug: str,
    comment: str,
    start: int,
    messages: tuple[Message, ...],
    outcome: Any,
    numbers: tuple[int, ...],
    *requirements: str,
    cites: Cite | None = None,
    **more: Any,
) -> ReplayTest:
    flags = ["incomplete"] * (outcome in ("hole", "no-end")) + ["big-integer"] * any(n > 2**53 for n in numbers)
    return ReplayTest(
        id=f"replay-answer-{slug}",
        comment=comment,
        flags=tuple(flags),
        requirements=tuple(sorted({"KVW-REP-001", "KVW-REP-002", *requirements})),
        result="valid" if cites is None else "acceptable",
        cites=cites,
        input=ReplayInput(start=str(start), messages=messages, **more),
        expected=ReplayExpected(form="replay-topic", outcome=outcome, numbers=tuple(map(str, numbers))),
    )


def _answers() -> tuple[ReplayTest, ...]:
    two = (batch(1), batch(2))
    end = ("KVW-REP-003",)
    return (
        _answer("two", "two batches and the end marker", 1, (*two, END), "complete", (1, 2), *end),
        _answer("one", "one batch", 5, (batch(5), END), "complete", (5,), *end),
        _answer(
            "topic-empty",
            "a stream with an empty topic",
            1,
            (batch(1, ""), batch(2, ""), END),
            "complete",
            (1, 2),
            *end,
        ),
        _answer(
            "topic-number",
            "a topic of eight bytes ff, which is not the end marker: the third frame decides",
            1,
            (batch(1, FF), END),
            "complete",
            (1,),
            *end,
        ),
        _answer(
            "events",
            "batches with and without events",
            0,
            (batch(0, KV, CLEARED), batch(1), END),
            "complete",
            (0, 1),
            *end,
        ),
        _answer(
            "live",
            "equal to what was sent live",
            1,
            (*two, END),
            "complete",
            (1, 2),
            *end,
            live=((KV, _number(1), EMPTY), (KV, _number(2), EMPTY)),
        ),
        _answer(
            "largest",
            "the largest numbers",
            2**64 - 3,
            (batch(2**64 - 3), batch(2**64 - 2), END),
            "complete",
            (2**64 - 3, 2**64 - 2),
            *end,
        ),
        _answer(
            "late",
            "begins above the start: what lies between is no longer retained",
            1,
            (batch(40), batch(41), END),
            "complete",
            (40, 41),
            *end,
        ),
        _answer(
            "nothing",
            "nothing is retained, or the start lies in the future",
            1,
            (END,),
            "empty",
            (),
            *end,
            "KVW-REP-004",
        ),
        _answer(
            "hole",
            "a number is missing: dropped, or evicted before it could be sent",
            1,
            (batch(1), batch(3), END),
            "hole",
            (1, 3),
            "KVW-REP-023",
        ),
        _answer(
            "hole-wide",
            "a hundred numbers are missing",
            1,
            (batch(1), batch(102), END),
            "hole",
            (1, 102),
            "KVW-REP-023",
        ),
        _answer("no-end", "no end marker before the deadline", 1, two, "no-end", (1, 2), "KVW-REP-022"),
        _answer(
            "no-end-hole",
            "a hole, and no end marker",
            1,
            (batch(1), batch(3)),
            "no-end",
            (1, 3),
            "KVW-REP-022",
            "KVW-REP-023",
        ),
        _answer("silence", "nothing before the deadline", 1, (), "no-end", (), "KVW-REP-022", "KVW-REP-024"),
        _answer(
            "end-payload-declared",
            "the oldest and the newest number, as declared",
            40,
            (batch(40), ("", "", FF, "922828")),
            "complete",
            (40,),
            "KVW-REP-015",
            extensions=("end_payload",),
        ),
        _answer(
            "end-payload-empty",
            "the extension is declared and not used",
            40,
            (batch(40), END),
            "complete",
            (40,),
            "KVW-REP-015",
            extensions=("end_payload",),
        ),
    )


def _broken(
    slug: str,
    comment: str,
    start: int,
    messages: tuple[Message, ...],
    name: str,
    *,
    layer: Any = "semantics",
    **more: Any,
) -> ReplayTest:
    return ReplayTest(
        id=f"replay-answer-{slug}",
        comment=comment,
        flags=(),
        requirements=NOTES[name].requirements,
        result="invalid",
        input=ReplayInput(start=str(start), messages=messages, **more),
        expected=ReplayExpected(layer=layer, fault=name),
    )


def _faults() -> tuple[ReplayTest, ...]:
    two = (batch(1), batch(2))
    live = ((KV, _number(1), EMPTY), (KV, _number(2), CLEARED))
    return (
        _broken("five-frames", "an empty frame too many", 1, (("", *batch(1)), END), "frame-count", layer="frame"),
        _broken("two-frames", "a number and a payload", 1, ((_number(1), EMPTY), END), "frame-count", layer="frame"),
        _broken(
            "no-delimiter",
            "the topic where the delimiter belongs, a frame behind",
            1,
            ((KV, _number(1), EMPTY, ""), END),
            "delimiter",
            layer="frame",
        ),
        _broken("end-two-frames", "an end marker of two frames", 1, (*two, (FF, "")), "frame-count", layer="frame"),
        _broken(
            "number-short",
            "a number of seven bytes",
            1,
            (("", KV, "00" * 7, EMPTY), END),
            "number-length",
            layer="frame",
        ),
        _broken("descending", "the newest first", 1, (batch(2), batch(1), END), "not-ascending"),
        _broken("twice", "a number twice", 1, (batch(1), batch(1), batch(2), END), "number-twice"),
        _broken("twice-later", "the answer begins again", 1, (*two, *two, END), "not-ascending"),
        _broken("below-start", "a batch that was not asked for", 2, (batch(1), batch(2), END), "below-start"),
        _broken("end-twice", "two end markers", 1, (*two, END, END), "end-twice"),
        _broken("end-first", "the end marker before the batches", 1, (END, *two), "after-end"),
        _broken("end-between", "an end marker between batches", 1, (batch(1), END, batch(2), END), "after-end"),
        _broken(
            "end-topic",
            "the topic of the stream in the end marker",
            1,
            (*two, ("", KV, FF, "")),
            "end-topic",
            layer="frame",
        ),
        _broken(
            "end-payload",
            "the oldest and the newest number, not declared",
            1,
            (*two, ("", "", FF, "920102")),
            "end-payload",
            layer="frame",
        ),
        _broken(
            "end-payload-three",
            "three numbers",
            1,
            (*two, ("", "", FF, "93010203")),
            "end-payload-form",
            layer="schema",
            extensions=("end_payload",),
        ),
        _broken(
            "end-payload-text",
            "text",
            1,
            (*two, ("", "", FF, "a3656e64")),
            "end-payload-form",
            layer="schema",
            extensions=("end_payload",),
        ),
        _broken(
            "topic-differs",
            "an empty topic in place of the live one",
            1,
            (batch(1, ""), END),
            "topic-differs",
            live=live,
        ),
        _broken(
            "payload-differs",
            "another payload than the live one",
            1,
            (batch(1), batch(2), END),
            "payload-differs",
            live=live,
        ),
    )


def _bare(
    slug: str, comment: str, start: int, messages: tuple[Message, ...], outcome: Any, numbers: tuple[int, ...]
) -> ReplayTest:
    flags = ["replay-bare"] + ["incomplete"] * (outcome in ("hole", "no-end"))
    return ReplayTest(
        id=f"replay-bare-{slug}",
        comment=comment,
        flags=tuple(flags),
        requirements=("KVW-REP-001", "KVW-REP-003"),
        result="invalid",
        input=ReplayInput(start=str(start), messages=messages),
        expected=ReplayExpected(
            form="replay-bare", outcome=outcome, numbers=tuple(map(str, numbers)), layer="frame", fault="bare"
        ),
    )


def _legacy() -> tuple[ReplayTest, ...]:
    return (
        _bare("two", "two batches and the end marker", 1, (bare(1), bare(2), BARE_END), "complete", (1, 2)),
        _bare("nothing", "the end marker alone", 1, (BARE_END,), "empty", ()),
        _bare("hole", "a number is missing", 1, (bare(1), bare(3), BARE_END), "hole", (1, 3)),
        _bare("no-end", "no end marker", 1, (bare(1), bare(2)), "no-end", (1, 2)),
        _bare("late", "begins above the start", 1, (bare(40), BARE_END), "complete", (40,)),
        _broken(
            "mixed-forms",
            "a batch without, an end marker with a topic frame",
            1,
            (bare(1), END),
            "mixed-forms",
            layer="frame",
        ),
    )


def files() -> dict[str, ReplayFile]:
    """The files of ``replay/``."""
    schema = "kvwire/vectors/replay/1"
    requests = Group(
        name="requests",
        comment="Frames as a DEALER sends them; a ROUTER reads the identity of the client in front of them.",
        tests=replay_requests.requests(),
    )
    answers = (
        Group(
            name="answers", comment="All that comes back for one request, until nothing more does.", tests=_answers()
        ),
        Group(name="faults", comment="Answers with one fault.", tests=_faults()),
        Group(name="replay-bare", comment="The legacy form.", tests=_legacy()),
    )
    return {
        "replay/request.json": make(schema, replay_requests.__name__, [requests], replay_requests.NOTES),
        "replay/answer.json": make(schema, __name__, answers, NOTES),
    }
