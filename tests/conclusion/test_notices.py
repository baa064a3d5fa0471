"""What a reader must know at once: lost connections, silence, deaths, refusals, streams that have one rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from tests.kit.stories import Story, everything, payload, stored

from kvwire.conclusion.conclude import conclude
from kvwire.conclusion.result import Notice
from kvwire.standard import registry
from kvwire.trace.calls import BoundAt, CacheCall, RestartCall
from kvwire.trace.detail import SocketEvent
from kvwire.trace.marks import ProbeMark, ProcessExit, Unreachable
from kvwire.trace.records import FORMAT, Header, Record, StreamInfo, Trace

Told = tuple[float, str, str]
"""When, on which stream, and what: ``up`` and ``down`` of its connections, or the rank of a batch."""


def trace(told: Iterable[Told], *, target: str = "zmq:", end: float = 10.0, names: Sequence[str] = ("s",)) -> Trace:
    """What one witness saw of streams, from 0 to ``end`` s."""
    records = [Record(t_ns=0, source="harness", detail=ProbeMark(name="live", phase="begins"))]
    numbers = dict.fromkeys(names, 0)
    for at, name, what in told:
        t_ns = int(at * 1e9)
        if what in ("up", "down"):
            event = "HANDSHAKE_SUCCEEDED" if what == "up" else "DISCONNECTED"
            records.append(Record(t_ns=t_ns, source="monitor", stream=name, detail=SocketEvent(event=event)))
            continue
        number = numbers[name]
        numbers[name] += 1
        batch = payload(stored([f"{name}{number}"]), ts=1.7e9 + at, rank=int(what))
        frames = (b"kv", number.to_bytes(8, "big"), batch)
        records.append(Record(t_ns=t_ns, source="live-a", stream=name, frames=frames))
    mark = ProbeMark(name="live", phase="ends")
    records.append(Record(t_ns=int(end * 1e9), source="harness", detail=mark))
    streams = tuple(StreamInfo(name=name, endpoint=f"tcp://{name}:1") for name in names)
    header = Header(trace=FORMAT, edition="1", target=target, level="passive", streams=streams)
    return Trace(header=header, records=tuple(records))


def notices(told: Iterable[Told], **fields: object) -> list[Notice]:
    made = trace(told, **fields)  # type: ignore[arg-type]
    return list(conclude(made, registry.load(), everything()).notices)


def heard(*times: float, name: str = "s", rank: int = 0) -> list[Told]:
    return [(at, name, str(rank)) for at in times]


STEADY = heard(*range(1, 10))


def test_a_connection_that_does_not_come_back() -> None:
    (found,) = notices([(0.0, "s", "up"), *heard(1, 2, 3, 4, 5), (6.0, "s", "down")])
    assert (found.what, found.streams, found.after_s) == ("connection-lost", ["s"], 6.0)
    assert found.text == "connection to s lost after 6 s, not back"


def test_connections_that_are_lost_together_are_one_line() -> None:
    told = [
        (at, name, what) for name in RANKS for at, what in ((0.0, "up"), (1.0, "0"), (6.0 + RANKS.index(name), "down"))
    ]
    (found,) = [notice for notice in notices(told, names=RANKS) if notice.what == "connection-lost"]
    assert (found.streams, found.after_s) == (list(RANKS), 6.0)
    assert found.text == "connections to rank-0, rank-1, rank-2, rank-3 and 28 more lost after 6 s, not back"


def test_one_that_does_is_said_and_no_loss() -> None:
    back = [(0.0, "s", "up"), *heard(1, 2, 3), (3.5, "s", "down"), (4.0, "s", "up"), *heard(5, 6, 7, 8, 9)]
    (found,) = notices(back)
    assert (found.what, found.text) == ("connection-back", "connection to s lost after 3.5 s, back after 4 s")


def test_one_of_two_connections_is_no_loss() -> None:
    """Two publishers that dial one socket of ours."""
    assert notices([(0.0, "s", "up"), (0.1, "s", "up"), *STEADY, (9.5, "s", "down")]) == []


def test_the_end_of_a_publisher_that_the_harness_stops_is_no_loss() -> None:
    told = [(0.0, "s", "up"), *heard(1, 2), (2.5, "s", "down")]
    assert notices(told, target="reference:") == []
    assert notices(told, target="exec:python a.py") == []


def test_a_stream_that_falls_silent_for_good() -> None:
    (found,) = notices([(0.0, "s", "up"), *heard(0.5, 1, 1.5, 2, 2.5)])
    assert (found.what, found.after_s) == ("silent", 2.5)
    assert found.text == "s fell silent after 2.5 s: nothing more in 7.5 s"


@pytest.mark.parametrize("times", [(1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 4, 7), (8.5,)])
def test_a_slow_stream_has_not_fallen_silent(times: tuple[float, ...]) -> None:
    assert notices([(0.0, "s", "up"), *heard(*times)]) == []


def test_connected_and_nothing_came() -> None:
    (found,) = notices([(0.0, "s", "up")], end=3.0)
    assert (found.what, found.text) == ("nothing-came", "connected, and nothing came in 3 s")


def test_of_several_streams_the_silent_ones_are_named_in_one_line() -> None:
    up = [(0.0, name, "up") for name in "abc"]
    (found,) = notices([*up, *heard(*range(1, 10), name="a", rank=1)], names="abc")
    assert (found.what, found.streams) == ("nothing-came", ["b", "c"])
    assert found.text == "connected, and nothing came of b, c in 10 s"


def rounds(names: Sequence[str], count: int, last: int | None = None, silent: Iterable[str] = ()) -> list[Told]:
    """Every stream sends once a round, one after the other; the silent ones until a round."""
    return [
        (0.01 * (turn * len(names) + at), name, str(at))
        for turn in range(count)
        for at, name in enumerate(names)
        if last is None or turn < last or name not in silent
    ]


RANKS = [f"rank-{rank}" for rank in range(32)]


def test_ranks_that_take_turns_have_not_stopped() -> None:
    assert notices(rounds(RANKS, 4), names=RANKS, end=1.3) == []


def test_ranks_that_stopped_are_said_once() -> None:
    silent = RANKS[:6]
    (found,) = notices(rounds(RANKS, 12, 2, silent), names=RANKS, end=3.9)
    assert (found.what, found.streams) == ("stopped", silent)
    said = "rank-0, rank-1, rank-2, rank-3 and 2 more stopped after 0.3 s, while 26 other streams went on"
    assert found.text == said


def test_two_streams_that_carry_one_rank() -> None:
    told = [*heard(*range(1, 10), name="a"), *heard(*range(1, 10), name="b")]
    (found,) = notices(told, names="ab")
    assert (found.what, found.text) == ("one-rank", "two streams carry rank 0: a, b")
    assert notices([*heard(*range(1, 10), name="a"), *heard(*range(1, 10), name="b", rank=1)], names="ab") == []


def test_several_senders_behind_one_endpoint() -> None:
    story = Story().begin()
    for number in range(4):
        story.live(number, payload(stored([number]), ts=story.tick(), rank=1), by="a")
        story.send(stored([100 + number]), by="a")
    (found,) = (n for n in conclude(story.trace(), registry.load(), everything()).notices if n.what != "one-rank")
    assert (found.what, found.streams) == ("several-senders", ["s"])
    assert found.text == "s from 0 s on: two senders: a second counter goes from 0 to 3 beside the first"


def test_refused_prompts_are_counted_by_what_they_have() -> None:
    story = Story().told(2)
    for lora in ("7", None, "8"):
        refused = None if lora is None else "no\nadapters"
        story.note(CacheCall(tokens=(1, 2), lora=lora, refused=refused))
    (found,) = conclude(story.trace(), registry.load(), everything()).notices
    assert (found.what, found.text) == (
        "refused",
        "refused: 2 of 2 prompts with LoRA, the first after 0 s (no adapters)",
    )
    assert found.after_s == pytest.approx(0.004)


@pytest.mark.parametrize(("bound", "moved"), [("tcp://127.0.0.1:5557", False), ("tcp://127.0.0.1:40001", True)])
def test_a_restart_that_moved_is_why_nothing_is_reached(bound: str, moved: bool) -> None:
    story = Story().told(2)
    story.note(RestartCall(bound=BoundAt(endpoint=bound)))
    story.note(Unreachable(endpoint="tcp://127.0.0.1:5557", of=("live-a",), bound_s=5.0))
    (trouble,) = conclude(story.trace(), registry.load(), everything()).troubles
    assert (f"`restart` answered {bound}, and a new life is asked for on the same" in trouble.text) == moved
    assert ("is a publisher there" in trouble.text) != moved


def test_a_death_has_its_time() -> None:
    story = Story().told(2)
    story.records = [msgspec.structs.replace(record, t_ns=10**9 * at) for at, record in enumerate(story.records)]
    end = ProcessExit(how="exit code 7", code=7, expected=False)
    story.records.append(Record(t_ns=12_300_000_000, source="process", stream="s", detail=end))
    (found,) = conclude(story.trace(), registry.load(), everything()).notices
    assert (found.what, found.text) == ("died", "the adapter's process ended by itself after 12.3 s (exit code 7)")
