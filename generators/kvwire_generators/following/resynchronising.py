"""Joins, duplicates, holes, disconnects, restarts: which questions they lead to, and what is certain afterwards.

The tables of ``spec/consumer.md`` are here case by case, with 10 in place of 100.
"""

from __future__ import annotations

from typing import Any

from kvwire.vectors.model import ConsumerStream, Group
from kvwire_generators.following.scripts import ConsumerGroup, ConsumerTest, cleared, removed, scenario, stored

SILENT = (ConsumerStream(name="s", replay=False),)
ELEVEN = " ".join(f"a{n}" for n in range(11))
OLD = f"back > 0; replay {ELEVEN}; end; gone; back > 10"
"""A consumer that holds batch 10 of life ``a``, and whose connection was lost and is back."""


def span(life: str, first: int, last: int, *without: int) -> str:
    """Batches of a life."""
    return " ".join(f"{life}{n}" for n in range(first, last + 1) if n not in without)


def joins() -> list[ConsumerTest]:
    """Joining."""
    ask = ("SEQ-011", "SEQ-012")
    return [
        scenario("join-nothing-yet", "nothing was published yet", "back > 0; end; live a0 a1", "a0 a1", 1, *ask),
        scenario("join-whole", "from the beginning", "joined; live a4", "a0 a1 a2 a3 a4", 4, *ask),
        scenario(
            "join-mid-stream",
            "mid-stream; the ring holds everything",
            "back > 0; live a5 a6; live a7; replay a0 a1 a2 a3 a4 a5 a6; end; live a8",
            span("a", 0, 8),
            8,
            *ask,
        ),
        scenario(
            "join-evicted",
            "mid-stream; the beginning is no longer retained",
            "back > 0; live a5; replay a3 a4 a5 a6; end; live a7",
            span("a", 3, 7),
            7,
            *ask,
            sure=False,
        ),
        scenario(
            "join-evicted-clear",
            "mid-stream; a clear makes everything known",
            "back > 0; replay a3 a4; end; live a5; live a6",
            "a6",
            6,
            "RES-011",
            batches={"a5": [cleared()]},
        ),
        scenario(
            "join-nothing-retained",
            "mid-stream; nothing is retained",
            "back > 0; live a5; end > 0; end; live a6",
            "a5 a6",
            6,
            *ask,
            sure=False,
        ),
        scenario(
            "join-still-reading",
            "what comes live before the answer has ended is kept back",
            "back > 0; live a5",
            "",
            None,
            "SEQ-011",
            sure=False,
        ),
        scenario(
            "join-first-while-asking",
            "the first batches come while the question is open",
            "back > 0; live a0 a1; end",
            "a0 a1",
            1,
            *ask,
        ),
        scenario(
            "join-first-lost",
            "the first batch was sent before the subscription stood: a gap from the start",
            "back > 0; end; live a1 > 0; replay a0 a1; end",
            "a0 a1",
            1,
            *ask,
        ),
        scenario(
            "join-below-the-answer",
            "a batch heard live that the ring has lost again: in order of numbers, whatever its source",
            "back > 0; live a5; replay a7 a8; end",
            "a7 a8",
            8,
            "SEQ-018",
            sure=False,
        ),
    ]


def duplicates() -> list[ConsumerTest]:
    """Duplicates."""
    return [
        scenario(
            "duplicate-of-replay",
            "live batches that replay has brought",
            "back > 0; live a2; replay a0 a1 a2 a3 a4; end; live a3 a4 a5",
            span("a", 0, 5),
            5,
            "SEQ-015",
        ),
        scenario(
            "duplicate-live",
            "a batch twice, an older one again",
            "joined; live a4; live a4 a2; live a5",
            span("a", 0, 5),
            5,
            "SEQ-015",
        ),
        scenario(
            "duplicate-kept-back",
            "a batch twice that waits for a hole to be filled",
            "joined; live a5 > 3; live a5; replay a3 a4 a5; end",
            span("a", 0, 5),
            5,
            "SEQ-015",
        ),
        scenario(
            "duplicate-removal",
            "a duplicate is not applied again: the block that it stored was removed since",
            "joined; live a4; live a3",
            "a0 a1 a2",
            4,
            "SEQ-015",
            batches={"a4": [removed("a3")]},
        ),
    ]


def holes() -> list[ConsumerTest]:
    """Holes."""
    final = ("SEQ-017", "SEQ-018", "REP-023")
    return [
        scenario(
            "hole-filled",
            "replay fills it",
            "joined; live a6 > 3; live a7; replay a3 a4 a5 a6; end; live a8",
            span("a", 0, 8),
            8,
            "SEQ-012",
            "SEQ-013",
        ),
        scenario(
            "hole-final",
            "replay does not fill it: what was held is not certain, and it is never asked for again",
            "joined; live a6 > 3; replay a3 a4 a6; end; live a7",
            "a6 a7",
            7,
            *final,
            sure=False,
        ),
        scenario(
            "hole-two-final", "two of them", "joined; live a9 > 3; replay a3 a5 a7 a9; end", "a9", 9, *final, sure=False
        ),
        scenario(
            "hole-and-clear",
            "a clear makes everything known again",
            "joined; live a6 > 3; replay a3 a4 a6; end; live a7; live a8",
            "a8",
            8,
            *final,
            "RES-011",
            batches={"a7": [cleared()]},
        ),
        scenario(
            "hole-not-final-yet",
            "an answer that did not end makes no hole final",
            "joined; live a6 > 3; replay a3 a4 a6; deadline > 4; replay a4 a5 a6; end",
            span("a", 0, 6),
            6,
            "REP-022",
            "SEQ-017",
            flags="early",
        ),
        scenario(
            "hole-behind-the-answer",
            "the answer ended below a batch that was held when it was asked for: final as well",
            "joined; live a6 > 3; replay a3; end",
            "a6",
            6,
            *final,
            sure=False,
        ),
        scenario(
            "hole-after-the-question",
            "a hole that opened after the question was sent is a question of its own",
            "joined; live a5 > 3; live a7; replay a3 a4 a5; end > 5; replay a5 a6 a7; end",
            span("a", 0, 7),
            7,
            "SEQ-012",
        ),
        scenario(
            "hole-open",
            "the answer begins above the last number: what was held is not certain",
            "joined; live a6 > 3; replay a5 a6; end",
            "a5 a6",
            6,
            "SEQ-016",
            "SEQ-018",
            sure=False,
        ),
        scenario(
            "hole-open-adjacent",
            "the answer begins just above it: nothing is missing, yet nothing is proven",
            "joined; live a5 > 3; replay a4 a5; end",
            "a4 a5",
            5,
            "SEQ-016",
            "SEQ-018",
            sure=False,
        ),
        scenario(
            "hole-open-kept-back",
            "batches held below such an answer may be of either life",
            "joined; live a5 > 3; live a6; replay b8 b9; end; live b10",
            "b8 b9 b10",
            10,
            "SEQ-016",
            "SEQ-018",
            sure=False,
        ),
        scenario(
            "hole-removal-unseen",
            "a removal in the hole: a consumer that keeps a1 routes to a block that is gone",
            "joined; live a5 > 3; replay a3 a5; end; live a6",
            "a5 a6",
            6,
            *final,
            sure=False,
            batches={"a4": [removed("a1")]},
        ),
    ]


def disconnects() -> list[ConsumerTest]:
    """Disconnects."""
    ask = ("SEQ-012", "SEQ-013")
    return [
        scenario(
            "disconnect-same-life",
            "the same life goes on",
            "joined; gone; back > 3; live a5; replay a3 a4 a5; end",
            span("a", 0, 5),
            5,
            *ask,
        ),
        scenario(
            "disconnect-quiet",
            "the same life, which has said nothing since",
            "joined; gone; back > 3; replay a3; end; live a4",
            span("a", 0, 4),
            4,
            *ask,
        ),
        scenario(
            "disconnect-kept-back",
            "what comes live afterwards waits for the answer",
            "joined; gone; back > 3; live a4",
            span("a", 0, 3),
            3,
            *ask,
            sure=False,
        ),
        scenario(
            "disconnect-while-asking",
            "a second one while the question is open: its answer never comes",
            "joined; gone; back > 3; gone; back > 3; replay a3; end",
            span("a", 0, 3),
            3,
            *ask,
        ),
        scenario(
            "disconnect-before-anything",
            "before anything came",
            "back > 0; gone; back > 0; end; live a0",
            "a0",
            0,
            *ask,
        ),
        scenario(
            "disconnect-held-before",
            "what was held back before it may be of another life than the answer",
            "back > 0; live a5; gone; back > 0; replay b3 b4; end; live b5",
            "b3 b4 b5",
            5,
            "SEQ-018",
            sure=False,
        ),
        scenario(
            "disconnect-held-above",
            "what was held back before it does not continue the answer",
            "joined; live a9 > 3; gone; back > 3; replay b7 b8; end; live b9",
            "b7 b8 b9",
            9,
            "SEQ-016",
            "SEQ-018",
            sure=False,
        ),
    ]


def restart_table() -> list[ConsumerTest]:
    """The two tables of consumer.md."""
    fall = ("SEQ-012", "SEQ-013", "SEQ-014")
    return [
        scenario("restart-nothing-sent", "restart; nothing sent yet", f"{OLD}; end > 0; end; live b0", "b0", 0, *fall),
        scenario(
            "restart-below-whole",
            "restart; at 5, ring from 0",
            f"{OLD}; end > 0; replay {span('b', 0, 5)}; end",
            span("b", 0, 5),
            5,
            *fall,
        ),
        scenario(
            "restart-below-evicted",
            "restart; at 5, ring from 2",
            f"{OLD}; end > 0; replay {span('b', 2, 5)}; end",
            span("b", 2, 5),
            5,
            *fall,
            sure=False,
        ),
        scenario(
            "restart-above-whole",
            "restart; at 13, ring from 0: batch 10 differs",
            f"{OLD}; replay b10 > 0; replay {span('b', 0, 13)}; end",
            span("b", 0, 13),
            13,
            *fall,
        ),
        scenario(
            "restart-above-evicted",
            "restart; at 13, ring from 9: batch 10 differs",
            f"{OLD}; replay b10 > 0; replay {span('b', 9, 13)}; end",
            span("b", 9, 13),
            13,
            *fall,
            sure=False,
        ),
        scenario(
            "restart-open",
            "restart; at 17, ring from 15: open, and handled as a hole",
            f"{OLD}; replay b15 b16 b17; end; live b18",
            span("b", 15, 18),
            18,
            "SEQ-016",
            "SEQ-018",
            sure=False,
        ),
        scenario(
            "restart-cut-off",
            "restart; at 17, ring from 15, and no end marker: ask again",
            f"{OLD}; replay b15 b16; deadline > 10; replay b15 b16 b17; end",
            span("b", 15, 17),
            17,
            "REP-022",
            "SEQ-016",
            sure=False,
        ),
        scenario("same-life-quiet", "the same life, at 10", f"{OLD}; replay a10; end", ELEVEN, 10, *fall),
        scenario(
            "same-life-whole",
            "the same life, at 13, ring from 2",
            f"{OLD}; replay {span('a', 10, 13)}; end",
            span("a", 0, 13),
            13,
            *fall,
        ),
        scenario(
            "same-life-hole",
            "the same life, at 14, without 12: a final hole",
            f"{OLD}; replay a10 a11 a13 a14; end",
            "a13 a14",
            14,
            "SEQ-013",
            "SEQ-017",
            "SEQ-018",
            sure=False,
        ),
        scenario(
            "same-life-evicted",
            "the same life, at 17, ring from 15: as open as after a restart",
            f"{OLD}; replay a15 a16 a17; end",
            "a15 a16 a17",
            17,
            "SEQ-016",
            "SEQ-018",
            sure=False,
        ),
    ]


def restarts() -> list[ConsumerTest]:
    """Other ways to see a restart, most of them without a disconnect."""
    fall = ("SEQ-014",)
    return [
        scenario(
            "restart-seen-above",
            "live, above the last number: it looks like a gap",
            "joined; live b6 > 3; replay b3 > 0; replay b0 b1 b2 b3 b4 b5 b6; end; live b7",
            span("b", 0, 7),
            7,
            *fall,
            "SEQ-013",
        ),
        scenario(
            "restart-seen-next",
            "the new life goes on just where the old one ended",
            "joined; gone; back > 3; live b4; replay b3 > 0; replay b0 b1 b2 b3 b4; end",
            span("b", 0, 4),
            4,
            *fall,
            "SEQ-013",
        ),
        scenario(
            "restart-seen-at-0",
            "live, at 0: nothing has to be asked for",
            "joined; live b0; live b1",
            "b0 b1",
            1,
            *fall,
        ),
        scenario(
            "restart-seen-at-0-asking",
            "live, at 0, while the question after a disconnect is open: it is asked anew",
            "joined; gone; back > 3; live b0 > 0; replay b0; end; live b1",
            "b0 b1",
            1,
            *fall,
            "SEQ-012",
        ),
        scenario(
            "restart-seen-below",
            "live, below the last number",
            "back > 0; replay a0 a1 a2 a3 a4 a5; end; live b4 > 0; replay b3 b4; end; live b5",
            "b3 b4 b5",
            5,
            *fall,
            sure=False,
        ),
        scenario(
            "restart-seen-same-number",
            "live, at the very last number",
            "joined; live b3 > 0; replay b0 b1 b2 b3; end",
            span("b", 0, 3),
            3,
            *fall,
        ),
        scenario(
            "restart-in-an-answer",
            "an answer and what is held back disagree: neither is kept",
            "back > 0; live b5; replay a0 a1 a5 > 0; replay b0 b1 b2 b3 b4 b5; end",
            span("b", 0, 5),
            5,
            *fall,
        ),
        scenario(
            "restart-twice",
            "two, before the question was answered",
            "joined; gone; back > 3; live b4; gone; back > 3; live c0 > 0; replay c0; end",
            "c0",
            0,
            *fall,
        ),
        scenario(
            "restart-drops-the-rest",
            "what comes of the answer that told of it is not of the next question",
            "joined; gone; back > 3; replay b3 > 0; end; live b0; live b1",
            "b0 b1",
            1,
            *fall,
        ),
    ]


def epochs() -> list[ConsumerTest]:
    """Epochs: names of incarnations."""
    one, two = cleared(epoch="one"), cleared(epoch="two")
    both = {"a0": [one], "b0": [two]}
    return [
        scenario(
            "epoch-kept",
            "the same in a later clear: the same life",
            "joined; live a4; live a5",
            "a5",
            5,
            "SEQ-014",
            batches={"a0": [one], "a4": [one]},
        ),
        scenario(
            "epoch-other",
            "another one, at the next number: a new life that nothing else shows",
            "joined; live b4 > 0; replay b0 b1 b2 b3 b4; end; live b5",
            "b4 b5",
            5,
            "SEQ-014",
            batches={**both, "b4": [two, stored("b4")]},
        ),
        scenario(
            "epoch-other-medium",
            "another one, in a clear that names a medium: the rest of the new life is read from 0",
            "joined; live b4 > 0; replay b0 b1 b2 b3 b4; end",
            "b1 b2 b3",
            4,
            "SEQ-014",
            "RES-011",
            batches={**both, "b4": [cleared(epoch="two", medium="CPU")]},
        ),
        scenario(
            "epoch-other-evicted",
            "another one, and its beginning is no longer retained",
            "joined; live b4 > 0; replay b3 b4; end",
            "b3",
            4,
            "SEQ-014",
            batches={**both, "b4": [cleared(epoch="two", medium="CPU")]},
            sure=False,
        ),
        scenario(
            "epoch-first-heard",
            "the first one that is heard is no other",
            "back > 0; replay a3 a4; end; live a5",
            "",
            5,
            "SEQ-014",
            batches={"a5": [two]},
        ),
        scenario(
            "epoch-nil",
            "a clear without one, or with nil, tells nothing of the life",
            "joined; live a4 ; live a5; live a6",
            "a6",
            6,
            "SEQ-014",
            batches={"a0": [one], "a4": [cleared()], "a5": [cleared(epoch=None)]},
        ),
        scenario(
            "epoch-silent",
            "another one, without replay",
            "back; live a0; live a1 a2; live b3; live b4",
            "b3 b4",
            4,
            "SEQ-014",
            batches={"a0": [one], "b3": [two, stored("b3")]},
            streams=SILENT,
        ),
    ]


def deadlines() -> list[ConsumerTest]:
    """Answers that do not end."""
    more = ("REP-022", "REP-024")
    return [
        scenario(
            "deadline-twice",
            "no end marker says nothing, not even without a batch",
            "joined; gone; back > 3; deadline > 3; deadline > 3; replay a3; end",
            span("a", 0, 3),
            3,
            *more,
        ),
        scenario(
            "deadline-joining",
            "while joining: what comes live still waits",
            "back > 0; live a5; deadline > 0; live a6; replay a0 a1 a2 a3 a4 a5 a6; end",
            span("a", 0, 6),
            6,
            *more,
        ),
        scenario(
            "deadline-in-between",
            "what came of an unfinished answer, in order, can be applied",
            "back > 0; replay a0 a1; deadline > 1; replay a1 a2; end",
            "a0 a1 a2",
            2,
            *more,
            flags="early",
        ),
    ]


def without_replay() -> list[ConsumerTest]:
    """Streams that offer no replay."""
    silent: dict[str, Any] = {"streams": SILENT}
    return [
        scenario(
            "silent-from-0", "heard from the first batch on", "back; live a0; live a1", "a0 a1", 1, "SEQ-018", **silent
        ),
        scenario("silent-late", "joined late", "back; live a3; live a4", "a3 a4", 4, "SEQ-018", **silent, sure=False),
        scenario(
            "silent-gap",
            "every gap is final",
            "back; live a0 a1; live a3; live a4",
            "a3 a4",
            4,
            "SEQ-018",
            **silent,
            sure=False,
        ),
        scenario(
            "silent-disconnect",
            "a disconnect ends certainty",
            "back; live a0 a1; gone; back; live a2; live a3",
            "a2 a3",
            3,
            "SEQ-018",
            **silent,
            sure=False,
        ),
        scenario(
            "silent-fall",
            "a lower number is a restart all the same",
            "back; live a0 a1 a2; live b0; live b1",
            "b0 b1",
            1,
            "SEQ-014",
            **silent,
        ),
        scenario(
            "silent-fall-above-0",
            "a lower number above 0: the beginning is not known",
            "back; live a0 a1 a2; live b1; live b2",
            "b1 b2",
            2,
            "SEQ-014",
            **silent,
            sure=False,
        ),
        scenario(
            "silent-duplicate", "a batch twice", "back; live a0 a1; live a1 a2", "a0 a1 a2", 2, "SEQ-015", **silent
        ),
    ]


def groups() -> list[ConsumerGroup]:
    """All of them, by subject."""
    told = (
        ("joining", "A consumer begins.", joins()),
        ("duplicates", "Equal number, equal bytes.", duplicates()),
        ("holes", "Numbers that are missing.", holes()),
        ("disconnects", "The connection is lost and comes back.", disconnects()),
        ("tables", "The two tables of consumer.md, with 10 in place of 100.", restart_table()),
        ("restarts", "Other ways to see a new incarnation.", restarts()),
        ("epochs", "Incarnations that have a name.", epochs()),
        ("deadlines", "Answers without an end marker.", deadlines()),
        ("without replay", "Streams that offer none.", without_replay()),
    )
    return [Group(name=name, comment=comment, tests=tuple(tests)) for name, comment, tests in told]
