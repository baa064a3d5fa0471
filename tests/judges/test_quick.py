"""The quick way: batches without faults come to the same as if they were shown to the judges one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady
from tests.kit.hashed import chain, event, signed, text, wired
from tests.kit.stories import Event, Story, block, cleared, everything, payload, removed, stored
from tests.kit.whole import Told, passing, told, whole

from benchmarks.streams import LABELS, SHAPES, Deviation, Function, Shape, Stream
from kvwire.conclusion.judging import records_of
from kvwire.conclusion.passing import Passing
from kvwire.hashes.mistakes import BY_NAME
from kvwire.standard.statement import Group, Residency, Statement
from kvwire.trace.records import Trace


def heard(payloads: Sequence[bytes], statement: Statement, *, first: int = 0) -> Trace:
    """What a witness heard of them, numbered from ``first``."""
    story = Story(replay=False, statement=statement, can=())
    for number, content in enumerate(payloads, first):
        story.live(number, content, by="a")
    return story.trace()


def judged(trace: Trace, *, quick: bool, slow_by_chance: float = 0.0, seed: int = 0) -> Passing:
    (stream,) = trace.header.streams
    one = passing(trace, stream, everything(), quick=quick)
    rng = random.Random(seed)
    for name in ("_stored", "_removed"):
        way: Callable[..., bool] = getattr(one.quick, name)
        setattr(one.quick, name, lambda *event, way=way: rng.random() >= slow_by_chance and way(*event))
    for index, record in records_of(trace, stream.name):
        one.take(index, record)
    one.judged()
    return one


def alike(trace: Trace) -> Told:
    """Assert that all ways come to the same, and say what."""
    slow = judged(trace, quick=False)
    expected = told(slow.showing.tallies)
    for chance in (0.0, 0.3):
        quick = judged(trace, quick=True, slow_by_chance=chance, seed=len(trace.records))
        assert told(quick.showing.tallies) == expected
        assert quick.showing.appearance.events == slow.showing.appearance.events
        assert quick.showing.appearance.form == slow.showing.appearance.form
        assert quick.facts.ledger.resident() == slow.facts.ledger.resident()
        assert quick.facts.identity.prefixes(4096) == slow.facts.identity.prefixes(4096)
    return expected


def taken(trace: Trace) -> int:
    """How many batches go the quick way."""
    (stream,) = trace.header.streams
    one = passing(trace, stream, everything())
    count = 0
    for index, record in records_of(trace, stream.name):
        before = one.quick.step.batches
        one.take(index, record)
        count += one.quick.step.batches > before
    return count


# --- streams of engines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deviation", ["", "unsigned", "array", "x-key"])
@pytest.mark.parametrize("function", LABELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_of_an_engine(shape: Shape, function: Function, deviation: Deviation) -> None:
    batches = {"a": 120, "b": 30, "c": 160}[shape]
    trace = heard(list(Stream(shape, function, batches, deviation).payloads), Statement(algorithm=LABELS[function]))
    said = alike(trace)
    assert said["KVW-HSH-001"][0] > 100
    assert taken(trace) > batches // 2, "a constant deviation is counted, and nobody's reason to be slow"


@pytest.mark.parametrize("function", LABELS)
@pytest.mark.parametrize("first", [0, 143])
def test_a_stream_that_is_joined_late(function: Function, first: int) -> None:
    payloads = list(Stream("c", function, 220).payloads)[20:]
    alike(heard(payloads, Statement(algorithm=LABELS[function]), first=first))


@pytest.mark.parametrize("algorithm", [None, "opaque", "v2_sha256_64", "v1_block_key", "x-unheard-of"])
@pytest.mark.parametrize("function", LABELS)
def test_whatever_is_declared_of_the_function(function: Function, algorithm: str | None) -> None:
    alike(heard(list(Stream("c", function, 120).payloads), Statement(algorithm=algorithm)))


@pytest.mark.parametrize("function", LABELS)
@pytest.mark.parametrize("at", [40, 90])
def test_a_hash_that_is_wrong_among_many(function: Function, at: int) -> None:
    """What was to be recomputed with others is decided by itself then, and is found."""
    payloads = list(Stream("a", function, 120).payloads)
    ts, events, rank = msgspec.msgpack.decode(payloads[at])
    events[-1]["block_hashes"] = [77]
    payloads[at] = msgspec.msgpack.encode([ts, events, rank])
    said = alike(heard(payloads, Statement(algorithm=LABELS[function])))
    if function == "v2":
        assert said["KVW-HSH-001"][1] >= 1
    else:  # extra ids, which are on no wire, may explain it
        assert "1 blocks not recomputed: its reuse scope is not on the wire" in said["KVW-HSH-001"][5]


@pytest.mark.parametrize("first", [0, 143])
@pytest.mark.parametrize("function", ["opaque", "v1_block_key", "v2_sha256_64/u32"])
@pytest.mark.parametrize("residency", ["set", "counted", "refresh"])
def test_blocks_that_come_back(residency: Residency, function: str, first: int) -> None:
    """In another medium beside the first, after a removal, whole or in parts, and stored again while they are there."""
    sent = [payload(cleared(), ts=0.0)] if first == 0 else [payload(stored("z", size=16), ts=0.0)]
    for at in range(30):
        blocks = text(3, seed=at)
        hashes = chain("v1_block_key" if function == "opaque" else function, blocks)
        gone: Event = {**removed([]), "block_hashes": [signed(value) for value in hashes]}
        events = [event(hashes, blocks), event(hashes, blocks, medium="CPU")]
        if residency != "set":
            events += [event(hashes, blocks), event(hashes, blocks, medium="CPU")]
        events += [gone, event(hashes[:2], blocks[:2]), event(hashes, blocks, first=2)]
        events += [gone, {**gone, "medium": "CPU"}] if at % 3 else [{**gone, "medium": "CPU"}]
        sent += [payload(*events[:3], ts=float(at + 1)), payload(*events[3:], ts=float(at + 1))]
    trace = heard(sent, Statement(algorithm=function, residency=residency), first=first)
    said = alike(trace)
    broken = {name for name in said if said[name][1]}
    assert not [name for name in broken if name[4:7] in ("EVT", "CHN", "HSH", "RES")]
    assert taken(trace) > 40


@pytest.mark.parametrize("unsaid", [0, 20])
@pytest.mark.parametrize("label", ["v2_sha256_64/u64", "v2_sha256_low64/u64", "v2_sha256_low64/u32"])
def test_the_width_of_tokens_is_counted(label: str, unsaid: int) -> None:
    """Once it is announced; eight bytes should be four, which is counted once three examples are shown."""
    sent = [payload(cleared(), ts=0.0)]
    for at in range(60):
        said: dict[str, Any] = {} if at < unsaid else {"hash_algo": label}
        sent.append(payload(*wired(BY_NAME[label], text(2, seed=at), **said), ts=float(at + 1)))
    trace = heard(sent, Statement(algorithm=label))
    count = 120 - 2 * unsaid
    witnesses, violations, _, _, findings, _ = alike(trace)["KVW-HSH-007"]
    assert (witnesses, violations, len(findings)) == ((count, count, 3) if label.endswith("/u64") else (count, 0, 0))
    assert taken(trace) > 40


@pytest.mark.parametrize(("label", "unqualified"), [("v2_sha256_64", 60), ("v2_sha256_64/u32", 0), ("v2", None)])
def test_a_label_that_does_not_name_the_width_is_found_each_time(label: str, unqualified: int | None) -> None:
    chains = [wired(BY_NAME["v2_sha256_64/u32"], text(1, seed=at), hash_algo=label) for at in range(60)]
    sent = [payload(cleared(), ts=0.0), *(payload(*events, ts=float(at)) for at, events in enumerate(chains))]
    said = alike(heard(sent, Statement()))
    assert said.get("KVW-HSH-004", (None, None))[1] == unqualified


@pytest.mark.parametrize(("memory", "exceeded"), [(2**16, False), (20, True)])
def test_a_window_group_goes_the_quick_way(memory: int, exceeded: bool) -> None:
    """Its parents may have been freed; how many stores are remembered has a bound, and that it was reached is said."""
    window: dict[str, Any] = {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 16}
    sent: list[bytes] = [payload(cleared(), ts=0.0)]
    for at in range(60):
        events = [stored([at], at - 1 if at else None, **window)]
        if at > 1:
            events.append(removed([at - 2]))
        sent.append(payload(*events, ts=float(at + 1)))
    trace = heard(sent, Statement(algorithm="opaque", window_memory=memory))
    said = alike(trace)
    assert said["KVW-CHN-002"][0] > 50
    assert taken(trace) > 40
    assert ("the memory for window groups was exceeded" in str(said["KVW-CHN-002"])) is exceeded


def test_a_coarse_clock_is_shown_by_the_last_of_its_stamps() -> None:
    sent = [payload(stored([at]) if at else cleared(), ts=float(at // 10)) for at in range(40)]
    (finding,) = alike(heard(sent, Statement(algorithm="opaque")))["KVW-BAT-007"][4]
    assert (finding.seen, finding.where.number) == ("40 stamps, all of them whole multiples of 1 s", "39")


@pytest.mark.parametrize("shown", [1, 0])
def test_stamps_are_compared_in_their_order_though_every_other_batch_is_shown(shown: int) -> None:
    """And it is the last of them that shows the clock, whichever way it went."""
    events = [stored([at], medium="gpu" if at % 2 == shown else "GPU") for at in range(40)]
    sent = [payload(cleared(), ts=0.0), *(payload(one, ts=float(at // 2)) for at, one in enumerate(events))]
    (finding,) = alike(heard(sent, Statement(algorithm="opaque")))["KVW-BAT-007"][4]
    assert finding.where.number == "40"


# --- streams at random ---------------------------------------------------------------------------------------------

NAMES = st.integers(0, 9)
MEDIA = st.sampled_from(["GPU", "GPU", "GPU", "CPU", None, "x-a", "gpu", ""])


@st.composite
def batches(draw: st.DrawFn) -> list[bytes]:
    """Batches of events about few blocks: stored, removed, stored again, some of them with a fault."""
    count = draw(st.integers(4, 24))
    stamps = [float(draw(st.integers(number, number + 1))) for number in range(count)]
    return [payload(*draw(st.lists(_events(), max_size=3)), ts=ts) for ts in stamps]


@st.composite
def _events(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["stored"] * 6 + ["removed"] * 4 + ["cleared", "array", "odd"]))
    medium = draw(MEDIA)
    more: dict[str, Any] = draw(
        st.sampled_from(
            [{}] * 5
            + [{"group_idx": 1}, {"group_idx": 2, "kv_cache_spec_kind": "sliding_window"}, {"x-a": 1}, {"v": 1}]
            + [{"lora_id": 3}, {"hash_algo": "v1_block_key"}, {"extra_keys": None}, {"locality": "host-b"}]
        )
    )
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=draw(st.booleans())))
    if kind == "cleared":
        return draw(st.sampled_from([cleared(), {**cleared(), "medium": "CPU"}]))
    if kind == "removed":
        keys = {key: value for key, value in more.items() if key in ("group_idx", "locality", "hash_algo", "x-a")}
        return removed(names, medium, **keys)
    if kind == "odd":
        return draw(st.sampled_from([{"type": "BlockMoved"}, {**stored("a"), "block_size": 3}, 7]))
    parent = draw(st.none() | NAMES)
    event: Event = stored(names, parent, size=draw(st.sampled_from([4, 4, 4, 8])), medium=medium, **more)
    if draw(st.integers(0, 9)) == 0:
        event["block_hashes"] = [value % 2**64 for value in event["block_hashes"]]
    if kind == "array":
        hashes, parent, tokens = event["block_hashes"], event["parent_block_hash"], event["token_ids"]
        return ["BlockStored", hashes, parent, tokens, event["block_size"], None, medium, None]
    return event


STATEMENTS = st.sampled_from(
    [
        Statement(algorithm="opaque"),
        Statement(algorithm="opaque", residency="counted"),
        Statement(algorithm="opaque", residency="refresh"),
        Statement(),
        Statement(algorithm="opaque", form="array-v"),
        Statement(algorithm="opaque", groups=(Group(idx=1, kind="full_attention", block_size=8),)),
    ]
)


@steady
@given(batches(), STATEMENTS, st.sampled_from([0, 143]))
@pytest.mark.slow
def test_whatever_a_stream_does(payloads: list[bytes], statement: Statement, first: int) -> None:
    alike(heard([payload(cleared(), ts=0.0), payload(stored("z"), ts=0.0), *payloads], statement, first=first))


# --- what it takes -------------------------------------------------------------------------------------------------


def _stores(**more: Any) -> Iterator[bytes]:
    yield payload(cleared(), ts=0.0)
    for number in range(60):
        yield payload(stored([number], **more), ts=float(number))


@pytest.mark.parametrize(
    ("statement", "more", "quick"),
    [
        (Statement(algorithm="opaque"), {}, True),
        (Statement(algorithm="opaque"), {"group_idx": 1, "kv_cache_spec_kind": "sliding_window"}, True),
        (Statement(algorithm="opaque"), {"extra_keys": None, "v": 1}, True),
        (Statement(algorithm="opaque"), {"medium": "gpu"}, False),
        (Statement(algorithm="opaque", salt="tag"), {}, False),
        (Statement(algorithm="opaque", extensions=("partial_entries",)), {}, False),
    ],
)
def test_it_takes_what_it_was_made_for_and_nothing_else(
    statement: Statement, more: dict[str, Any], quick: bool
) -> None:
    trace = heard(list(_stores(**more)), statement)
    count = taken(trace)
    assert (count > 50) if quick else not count
    alike(trace)


@pytest.mark.parametrize(("topic", "rank"), [("kv", 0), (None, None)])
def test_what_is_counted_of_a_clean_stream_is_what_it_shows_as_a_whole(topic: str | None, rank: int | None) -> None:
    story = Story(
        replay=False, statement=Statement(algorithm="opaque"), declared_topic=topic, declared_rank=rank, can=()
    )
    for number, content in enumerate(_stores()):
        story.live(number, content, by="a")
    trace = story.trace()
    said = told(judged(trace, quick=True).showing.tallies)
    assert said == told(whole(trace, story.info).tallies)
    assert ("KVW-RNK-003" in said, "KVW-ENV-003" in said) == (rank is not None, topic is not None)


def test_a_finding_behind_batches_that_were_counted_names_the_batch_that_stored_its_block() -> None:
    payloads = [*_stores(), payload(stored([7]), ts=100.0)]
    said = alike(heard(payloads, Statement(algorithm="opaque")))
    (finding,) = said["KVW-RES-001"][4]
    assert finding.where.stored == "8"
    assert str(block(7) % 2**64) in finding.seen


UNSIGNED = {**stored("a"), "block_hashes": [2**63 + 5]}
WINDOWED: Event = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 16}


@pytest.mark.parametrize(
    ("faulty", "broken"),
    [
        ([{**stored("a"), "block_hashes": [0]}], {"EVT-009"}),
        ([{**stored("a"), "parent_block_hash": 0}], {"EVT-009", "CHN-003"}),
        ([stored("aa")], {"CHN-004", "RES-001"}),
        ([stored("ab", "b")], {"CHN-003", "CHN-004"}),
        ([stored("a", "q")], {"CHN-003"}),
        ([stored("a", 1, group_idx=1, kv_cache_spec_kind="full_attention")], {"CHN-003"}),
        ([stored("a", **WINDOWED), stored("c", "b", **WINDOWED)], {"CHN-002"}),
        ([{**stored("a"), "token_ids": [1, 2, 3]}], {"EVT-013"}),
        ([stored("a", size=8)], {"EVT-014"}),
        ([stored([1])], {"RES-001"}),
        ([{**stored([1], medium="CPU"), "token_ids": [1, 2, 3, 4]}], {"HSH-008"}),
        ([UNSIGNED], {"EVT-008"}),
        ([{**stored("a"), "parent_block_hash": block(2) % 2**64}], {"EVT-008"}),
        ([{**removed([]), "block_hashes": [block(2) % 2**64]}], {"EVT-008"}),
        ([{**removed([]), "block_hashes": [0]}], {"EVT-009", "RES-002"}),
        ([removed([1, 1])], {"RES-002"}),
        ([removed([1, "q"])], {"RES-002"}),
        ([removed([1]), removed([1])], {"RES-002"}),
        ([stored("a", group_idx=1), removed("a")], {"EVT-017"}),
        ([stored("a", medium="")], {"EVT-015"}),
        ([removed([1], medium="gpu")], {"EVT-016", "RES-002"}),
        ([stored("a", **WINDOWED), stored("b", **{**WINDOWED, "kv_cache_spec_sliding_window": 8})], {"EVT-036"}),
        ([stored("a", "q", **WINDOWED)], {"CHN-002"}),
        ([["BlockRemoved", [block(1)], "GPU"]], {"EVT-001"}),
        ([stored("b", "x", group_idx=1), stored("x", "b", group_idx=1)], {"CHN-004"}),
        (
            [
                stored("a", **WINDOWED),
                removed("a", group_idx=1),
                stored("b", "a", **WINDOWED),
                stored("a", "b", **WINDOWED),
            ],
            {"CHN-004"},
        ),
        ([cleared(), stored([1]), stored([2])], set()),
        ([stored("a", hash_algo="opaque"), stored("b", hash_algo="x-other")], {"HSH-003"}),
        ([stored("a", hash_algo="opaque"), removed("a", hash_algo="x-other")], {"HSH-003"}),
    ],
)
def test_one_fault_behind_batches_that_were_counted(faulty: list[Event], broken: set[str]) -> None:
    """In a batch of its own, and behind an event without faults."""
    _, *stores = list(_stores())[:12]
    for sent in ([payload(one, ts=100.0) for one in faulty], [payload(stored("z"), *faulty, ts=100.0)]):
        trace = heard([payload(cleared(), ts=0.0), *stores, *sent], Statement(algorithm="opaque"))
        said = alike(trace)
        assert {name[4:] for name in said if said[name][1]} == broken
        assert taken(trace) > 8


@pytest.mark.parametrize(
    ("faulty", "broken"),
    [
        ([stored("a", "q")], set()),
        ([stored("ab", "b")], {"CHN-004"}),
        ([{**stored("a"), "parent_block_hash": 0}], {"EVT-009"}),
        ([stored("b", "x"), stored("x", "b")], {"CHN-004"}),
        ([removed("q"), removed("q")], {"RES-002"}),
        ([removed("q"), stored("q"), stored("q")], {"RES-001"}),
    ],
)
def test_one_fault_of_a_stream_that_was_joined_late(faulty: list[Event], broken: set[str]) -> None:
    trace = heard(
        [*list(_stores())[1:12], *(payload(one, ts=100.0) for one in faulty)], Statement(algorithm="opaque"), first=143
    )
    said = alike(trace)
    assert {name[4:] for name in said if said[name][1]} == broken
    assert taken(trace) > 8


@pytest.mark.parametrize("quick", [True, False])
def test_a_finding_behind_a_life_that_may_be_over_names_no_batch_of_it(quick: bool) -> None:
    story = Story(replay=False, statement=Statement(algorithm="opaque"), can=())
    story.begin("a").send(stored("a"), by="a")
    story.disconnect("a")
    story.connect("a")
    story.send(cleared(), by="a")
    story.send(stored("b", "a"), by="a")
    (finding,) = told(judged(story.trace(), quick=quick).showing.tallies)["KVW-CHN-003"][4]
    assert finding.where.stored is None
    assert finding.seen.endswith("is resident in none of its locations")


def test_a_block_that_comes_to_hang_below_itself_is_found() -> None:
    """Its first copy is the root of the chain, and the second one, in another medium, hangs on its end."""
    circle = [stored("x"), stored("yz", "x"), stored("x", "z", medium="CPU")]
    trace = heard([*_stores(), *(payload(one, ts=100.0) for one in circle)], Statement(algorithm="opaque"))
    assert alike(trace)["KVW-CHN-004"][1] == 1
    assert taken(trace) > 50


SHOWN = stored("odd", medium="gpu")
"""A medium that is not registered is shown each time, and what else is stored is counted."""
UNKNOWN = {"type": "BlockMoved"}


@pytest.mark.parametrize(
    "tail",
    [
        [(stored("a"), 30.0)],
        [(SHOWN, 200.0), (SHOWN, 150.0)],
        [(SHOWN, 200.0), (stored("a"), 150.0)],
        [(UNKNOWN, 200.0), (UNKNOWN, 150.0)],
    ],
    ids=["behind counted ones", "behind one that was shown", "before one that could be counted", "of no known type"],
)
def test_a_clock_that_goes_back_is_found_wherever_it_does(tail: list[tuple[Event, float]]) -> None:
    trace = heard([*_stores(), *(payload(one, ts=ts) for one, ts in tail)], Statement(algorithm="opaque"))
    (finding,) = alike(trace)["KVW-BAT-004"][4]
    assert finding.where.number == str(60 + len(tail))


def test_a_life_that_begins_with_an_empty_batch_owes_its_clear_all_the_same() -> None:
    _, *stores = _stores()
    trace = heard([payload(ts=0.0), *stores], Statement(algorithm="opaque"))
    assert alike(trace)["KVW-SEQ-008"][:2] == (1, 1)
    assert taken(trace) > 40


def test_kinds_other_than_the_declared_one_are_shown() -> None:
    stores = [stored([at], group_idx=1, kv_cache_spec_kind="mamba") for at in range(20)]
    sent = [payload(cleared(), ts=0.0), *(payload(one, ts=1.0) for one in stores)]
    statement = Statement(algorithm="opaque", groups=(Group(idx=1, kind="full_attention"),))
    assert alike(heard(sent, statement))["KVW-EVT-036"][:2] == (20, 20)


def test_arrays_as_declared_are_counted_and_a_map_among_them_is_found() -> None:
    stores: list[Any] = [["BlockStored", [block(at)], None, [1, 2, 3, at], 4, None, "GPU", None] for at in range(20)]
    stores += [stored("a"), ["BlockMoved"]]
    sent = [payload(cleared(), ts=0.0), *(payload(one, ts=1.0) for one in stores)]
    trace = heard(sent, Statement(algorithm="opaque", form="array-v"))
    said = alike(trace)
    assert (said["KVW-EVT-037"][:2], said["KVW-EVT-001"][1]) == ((23, 2), 21)
    assert taken(trace) > 10


def test_blocks_of_another_size_than_is_declared_are_shown() -> None:
    trace = heard(list(_stores()), Statement(algorithm="opaque", block_size=8))
    assert alike(trace)["KVW-EVT-014"][:2] == (60, 60)
