"""Every field of a statement is held against the stream.

With a wrong value a sentence speaks of a publisher that is honest otherwise, or a line here says why nobody can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from tests.kit.hashed import chain, event, text
from tests.kit.stories import END_MARKER, T0, Event, Story, block, cleared, pack, payload, stored

from kvwire.conclusion.conclude import conclude
from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.standard.statement import (
    Bounds,
    Group,
    Implementation,
    Medium,
    Statement,
    StatementError,
    Stream,
    convert,
)
from kvwire.trace.attempts import ATTEMPTS
from kvwire.trace.calls import BurstCall, CacheCall, ResetCall
from kvwire.trace.marks import (
    EndpointSeen,
    Freed,
    IdleDone,
    LiveAwaited,
    ReplayResumed,
    ResetDone,
    StrainBegins,
    StrainDone,
)
from kvwire.wire.projection import batch_projection
from kvwire_reference.hashing import scope_tag

Tell = Callable[[Statement], Story]
declare: Callable[..., Statement] = partial(Statement, ring=1000)


class Row(NamedTuple):
    """A publisher, what is true of it, what is not, and the sentences that speak then."""

    tell: Tell
    true: Statement
    false: Statement
    speaks: str


# --- publishers ---------------------------------------------------------------------------------------------------


def telling(*batches: list[Event], **options: Any) -> Tell:
    """A publisher that sends these batches after its clear."""

    def tell(statement: Statement) -> Story:
        story = Story(statement=statement, **options).begin()
        for events in batches:
            story.send(*events)
        return story

    return tell


def hashing(statement: Statement) -> Story:
    """Hashes by a known function."""
    blocks = text(9)
    return telling([event(chain("v2_sha256_64/u32", blocks), blocks)])(statement)


def arrays(statement: Statement) -> Story:
    """Array events, as vLLM sent them."""
    story = Story(statement=statement)
    story.send(
        content=pack([T0, [["BlockStored", [block("a")], None, [1, 2, 3, 4], 4, None, "GPU", None, None, 0]], 0])
    )
    return story


def salting(**keys: Any) -> Tell:
    """A salted prompt, and its block with these keys."""

    def tell(statement: Statement) -> Story:
        story = Story(statement=statement).begin()
        story.note(CacheCall(tokens=tuple(stored("a")["token_ids"]), salt="tenant-7f3a", cached_tokens=0))
        story.send(stored("a", **keys))
        return story

    return tell


def answering(*, topic: bool = True, **story: Any) -> Tell:
    """Four batches, and one whole replay of what is retained."""

    def tell(statement: Statement) -> Story:
        told = Story(statement=statement, **story).told(4)
        client = told.ask(0)
        for number, content in told.retained.items():
            frames = (b"", told.topic, number.to_bytes(8, "big"), content)
            told.answer(client, *(frames if topic else (b"", *frames[2:])))
        told.answer(client, *(END_MARKER if topic else (b"", *END_MARKER[2:])))
        told.done(client)
        told.replay()
        return told

    return tell


def marking(statement: Statement) -> Story:
    """End markers that say what is retained."""
    story = Story(statement=statement).told(4)
    client = story.ask(0)
    story.answer_batches(client, story.retained)
    story.answer(client, *END_MARKER[:3], b"\x92\x00\x03")
    story.done(client)
    return story


def shedding(statement: Statement) -> Story:
    """A queue of two: of four batches that are offered at once the last two are dropped."""
    story = Story(sets=("engine", "ts"), statement=statement).begin()
    made = [(story.tick(), (stored(f"{name}1"), stored(f"{name}2"))) for name in "abcd"]
    batches = tuple(batch_projection(ts, events, 0) for ts, events in made)
    story.note(BurstCall(batches=batches, accepted=(True, True, False, False), blocked_us=(3,) * 4))
    for ts, events in made[:2]:
        story.send(content=payload(*events, ts=ts))
    story.drop(2)
    story.publish(stored("e"))
    return story


def resetting(statement: Statement) -> Story:
    """The clear comes when the next prompt runs, and no wait was long enough."""
    story = Story(statement=statement).begin()
    bound = statement.bounds.reset_visible_s
    seen = bound >= 60
    for _ in range(ATTEMPTS):
        story.send(stored("ab"))
        story.note(ResetCall())
        if seen:
            story.send(cleared())
        story.note(ResetDone(outcome="seen" if seen else "bound", after_s=min(bound, 40.0), bound_s=bound))
        if not seen:
            story.send(cleared())
    return story


def resuming(statement: Statement) -> Story:
    """Gives a client up that pauses for 1.5 s."""
    story = Story(statement=statement).told(10)
    for _ in range(ATTEMPTS):
        client = story.ask(0, situation="paused", rcvhwm=1)
        story.note(ReplayResumed(connection=client, rcvhwm=1, paused_s=1.5, requests=1, retained=2000))
        story.answer_batches(client, {number: story.retained[number] for number in range(4)})
        story.done(client, "timeout", statement.bounds.replay_resume_s)
    story.replay()
    return story


def busy(statement: Statement) -> Story:
    """A live batch takes 3 s while replay is busy."""
    story = Story(statement=statement).told(4)
    bound = statement.bounds.live_delay_s
    story.note(LiveAwaited(during="nothing", outcome="seen", after_s=0.1, bound_s=bound, offered=1))
    seen = bound > 3
    outcome: Literal["seen", "bound"] = "seen" if seen else "bound"
    for _ in range(ATTEMPTS):
        story.note(LiveAwaited(during="replay", outcome=outcome, after_s=min(3, bound), bound_s=bound, offered=1))
    return story


def stopping(statement: Statement) -> Story:
    """The port is held for 3 s after a stop."""
    story = Story(statement=statement).begin()
    bound = statement.bounds.stop_s
    outcome: Literal["free", "held"] = "free" if bound > 3 else "held"
    for _ in range(ATTEMPTS):
        story.note(Freed(endpoint="tcp://127.0.0.1:5557", outcome=outcome, after_s=min(3, bound), bound_s=bound))
    return story


def blocking(statement: Statement) -> Story:
    """Calls that wait 300 ms, whenever it is tried."""
    story = Story(statement=statement).begin()
    for _ in range(3):
        story.note(StrainBegins(situation="full queue"))
        batch = batch_projection(story.tick(), [stored("a")], 0)
        story.note(BurstCall(batches=(batch,), accepted=(True,), blocked_us=(300_000,)))
        story.note(StrainDone(situation="full queue"))
    return story


def serving(statement: Statement) -> Story:
    """Serves four clients at once: whoever is beyond that gets nothing in time."""
    story = Story(statement=statement).told(4)
    for at in range(min(8, statement.bounds.replay_clients)):
        story.replay(situation="together", marker=at < 4)
    return story


def queueing(statement: Statement) -> Story:
    """Lets two requests of a client wait, and drops the others."""
    story = Story(statement=statement).told(10)
    first = story.ask(0, situation="paused", rcvhwm=1)
    waiting = min(4, statement.bounds.replay_waiting)
    others = [story.ask(at, situation="paused", rcvhwm=1, connection=first) for at in range(1, waiting)]
    story.note(ReplayResumed(connection=first, rcvhwm=1, paused_s=1.5, requests=waiting, retained=2000))
    for at, client in enumerate((first, *others)):
        if at < 2:
            story.answer_batches(client, {n: c for n, c in story.retained.items() if n >= at})
            story.answer(client, *END_MARKER)
        story.done(client, "marker" if at < 2 else "overtaken")
    story.replay()
    return story


def idling(statement: Statement) -> Story:
    """An empty batch every 5 s."""
    story = Story(statement=statement).begin()
    interval = statement.bounds.heartbeat_s or 0.0
    seen = interval >= 5
    for _ in range(ATTEMPTS):
        story.note(IdleDone(outcome="seen" if seen else "bound", after_s=2 * interval, bound_s=2 * interval))
    return story


def at_home(statement: Statement) -> Story:
    """Is found where its statement says that it binds by default."""
    story = Story(statement=statement).begin()
    assert statement.default_endpoint is not None
    story.note(EndpointSeen(endpoint=statement.default_endpoint, default=True))
    return story


SEVERAL: Event = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 8}
WINDOW = Group(idx=1, kind="sliding_window", window=8)
grouped = telling([stored("ab", kv_cache_spec_kind="full_attention"), stored("ab", **SEVERAL)])
twice = telling([stored("ab"), stored("ab", medium="CPU"), stored("ab", medium="CPU")])
again = telling([stored("ab")], [stored("ab")])
update = telling([stored("ab"), {**stored("ab", medium="STORAGE"), "token_ids": [], "block_size": 0}])
partly = telling([stored("ab", size=16), stored("x", "nobody", size=4)])


def own(**stream: Any) -> Statement:
    """What is declared of the one stream."""
    return declare(streams=(Stream(endpoint="tcp://127.0.0.1:5557", name="s", **stream),))


def placed(statement: Statement) -> Story:
    """A stream of rank 0 with the topic ``kv``, whose statement may say otherwise."""
    (stream,) = statement.streams
    return telling([stored("a")], [], declared_topic=stream.topic, declared_rank=stream.rank)(statement)


CPU = Medium(medium="CPU", residency="counted")
ROWS: dict[str, list[Row]] = {
    "form": [
        Row(hashing, declare(), declare(form="array-v"), "EVT-037"),
        Row(arrays, declare(form="array-v"), declare(form="array-s"), "EVT-001 EVT-037"),
        Row(arrays, declare(form="array-v"), declare(), "EVT-001"),
    ],
    "algorithm": [
        Row(hashing, declare(algorithm="v2_sha256_64/u32"), declare(algorithm="v2_sha256_64/u64"), "HSH-002"),
        Row(hashing, declare(algorithm="v2_sha256_64/u32"), declare(algorithm="x-vllm-sha256-cbor"), "HSH-002"),
    ],
    "residency": [
        Row(again, declare(residency="refresh"), declare(), "RES-001"),
        Row(again, declare(residency="counted"), declare(), "RES-001"),
    ],
    "salt": [
        Row(salting(extra_keys=[["tenant-7f3a"]]), declare(salt="clear"), declare(), "EVT-019"),
        Row(salting(extra_keys=[["tenant-7f3a"]]), declare(salt="clear"), declare(salt="tag"), "EVT-019 EVT-028"),
        Row(salting(), declare(), declare(salt="tag"), "EVT-028"),
        Row(salting(scope=scope_tag("tenant-7f3a")), declare(salt="tag"), declare(), "EVT-038"),
        Row(salting(scope=scope_tag("tenant-7f3a")), declare(salt="tag"), declare(salt="clear"), "EVT-038"),
    ],
    "scope_key": [
        Row(
            salting(scope=scope_tag("tenant-7f3a", b"k")),
            declare(salt="tag", scope_key=True),
            declare(salt="tag"),
            "EVT-028",
        ),
        Row(
            salting(scope=scope_tag("tenant-7f3a")), declare(salt="tag"), declare(salt="tag", scope_key=True), "EVT-028"
        ),
    ],
    "replay_form": [
        Row(answering(), declare(replay_form="replay-topic"), declare(replay_form="replay-bare"), "REP-026"),
        Row(answering(), declare(), declare(replay_form="none"), "REP-026"),
    ],
    "ring": [Row(answering(ring=3), declare(ring=3), declare(), "REP-013")],
    "queue": [Row(shedding, declare(queue=2), declare(queue=20), "SEQ-009")],
    "block_size": [Row(hashing, declare(block_size=16), declare(block_size=32), "EVT-014")],
    "default_endpoint": [
        Row(
            at_home,
            declare(default_endpoint="tcp://127.0.0.1:5557"),
            declare(default_endpoint="tcp://*:5557"),
            "EXP-001",
        )
    ],
    "groups.idx": [
        Row(grouped, declare(groups=(WINDOW,)), declare(groups=(msgspec.structs.replace(WINDOW, idx=0),)), "EVT-036")
    ],
    "groups.kind": [
        Row(
            grouped,
            declare(groups=(WINDOW,)),
            declare(groups=(msgspec.structs.replace(WINDOW, kind="chunked_local_attention"),)),
            "EVT-036",
        )
    ],
    "groups.window": [
        Row(
            grouped,
            declare(groups=(WINDOW,)),
            declare(groups=(msgspec.structs.replace(WINDOW, window=16),)),
            "EVT-036",
        )
    ],
    "groups.block_size": [
        Row(
            grouped,
            declare(block_size=4, groups=(WINDOW,)),
            declare(block_size=4, groups=(msgspec.structs.replace(WINDOW, block_size=16),)),
            "EVT-014",
        )
    ],
    "groups.residency": [
        Row(again, declare(groups=(Group(residency="refresh"),)), declare(groups=(Group(residency="set"),)), "RES-001")
    ],
    "media.medium": [
        Row(twice, declare(media=(CPU,)), declare(media=(msgspec.structs.replace(CPU, medium="DISK"),)), "RES-001")
    ],
    "media.residency": [
        Row(twice, declare(media=(CPU,)), declare(media=(msgspec.structs.replace(CPU, residency="set"),)), "RES-001")
    ],
    "bounds.reset_visible_s": [
        Row(resetting, declare(bounds=Bounds(reset_visible_s=60)), declare(bounds=Bounds(reset_visible_s=5)), "RES-006")
    ],
    "bounds.replay_resume_s": [
        Row(resuming, declare(bounds=Bounds(replay_resume_s=1)), declare(bounds=Bounds(replay_resume_s=5)), "REP-010")
    ],
    "bounds.live_delay_s": [
        Row(busy, declare(bounds=Bounds(live_delay_s=4)), declare(bounds=Bounds(live_delay_s=1)), "REP-011")
    ],
    "bounds.stop_s": [Row(stopping, declare(bounds=Bounds(stop_s=4)), declare(bounds=Bounds(stop_s=1)), "LIV-005")],
    "bounds.publish_ms": [
        Row(blocking, declare(bounds=Bounds(publish_ms=400)), declare(bounds=Bounds(publish_ms=100)), "LIV-001")
    ],
    "bounds.replay_clients": [
        Row(serving, declare(bounds=Bounds(replay_clients=4)), declare(bounds=Bounds(replay_clients=16)), "REP-012")
    ],
    "bounds.replay_waiting": [
        Row(queueing, declare(bounds=Bounds(replay_waiting=2)), declare(bounds=Bounds(replay_waiting=8)), "REP-010")
    ],
    "bounds.heartbeat_s": [
        Row(idling, declare(bounds=Bounds(heartbeat_s=5)), declare(bounds=Bounds(heartbeat_s=1)), "LIV-002")
    ],
    "extensions": [
        Row(marking, declare(extensions=("end_payload",)), declare(), "REP-014"),
        Row(update, declare(extensions=("location_updates",)), declare(), "EVT-013 EVT-014"),
        Row(partly, declare(extensions=("partial_entries",), block_size=16), declare(block_size=16), "CHN-003 EVT-014"),
    ],
    "streams.topic": [Row(placed, own(topic="kv"), own(topic="kv-events"), "ENV-003")],
    "streams.rank": [Row(placed, own(rank=0), own(rank=1), "RNK-003")],
    "streams.algorithm": [
        Row(hashing, own(algorithm="v2_sha256_64/u32"), own(algorithm="v1_block_key"), "HSH-002"),
    ],
}
NOBODY: dict[str, str] = {
    "edition": "an edition that nobody knows is refused",
    "profile": "names what the publisher is held to, and promises no more than its sentences; a legacy one is its form",
    "implementation": "a name for reports",
    "implementation.name": "a name for reports",
    "implementation.version": "a name for reports",
    "groups": "a group that is not declared is taken as its stores describe it",
    "media": "see its fields",
    "bounds": "see its fields",
    "streams": "see its fields",
    "window_memory": "the judge's own memory, of which it says when it was too small",
    "streams.endpoint": "where the publisher is not, it is not reached: an error of the run",
    "streams.replay": "where the publisher is not, it is not reached: an error of the run",
    "streams.mode": "two that both dial, or both bind, do not meet: an error of the run",
    "streams.name": "a name for reports",
}
"""Why no sentence speaks of a wrong value.

Of values in the table only some are promises. A bound, a queue or a ring that is declared too small is kept all the
same, and so is a policy of residency that allows more than is made use of. An extension that is not used, and
``salt = "clear"``, are permissions. Who declares ``opaque`` says that nobody has to recompute.
"""


def fields(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Every field of a statement, with a dot before those of its parts."""
    parts: dict[str, type[msgspec.Struct]] = {
        "implementation": Implementation,
        "bounds": Bounds,
        "groups": Group,
        "media": Medium,
        "streams": Stream,
    }
    for field in msgspec.structs.fields(struct):
        yield prefix + field.name
        if struct is Statement and field.name in parts:
            yield from fields(parts[field.name], f"{field.name}.")


def test_every_field_is_in_one_of_the_tables() -> None:
    assert sorted(fields(Statement)) == sorted([*ROWS, *NOBODY])


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{name}-{at}") for name, rows in ROWS.items() for at, row in enumerate(rows)]
)
def test_a_wrong_value_makes_a_sentence_speak(row: Row) -> None:
    honest, caught = (set(row.tell(statement).spoken()) for statement in (row.true, row.false))
    assert caught - honest == set(row.speaks.split()) - honest
    assert honest <= {"EVT-001", "SEQ-008"}, "honest, but for a legacy form"


def test_a_profile_of_another_form_is_no_way_to_pass() -> None:
    result = conclude(hashing(declare()).trace(), registry.load(), registry.profile("legacy-array-v"))
    assert [o.requirement for o in result.outcomes if o.verdict is Verdict.FAIL] == ["KVW-EVT-037"]


def test_an_edition_that_nobody_knows_is_refused() -> None:
    with pytest.raises(StatementError, match="edition '99' is unknown"):
        convert({"edition": "99"}, "kvwire.toml")


def test_what_one_row_declares_differs_from_what_is_true_in_its_field_alone() -> None:
    for name, row in ((name, row) for name, rows in ROWS.items() for row in rows):
        pairs = ((field, getattr(row.true, field), getattr(row.false, field)) for field in Statement.__struct_fields__)
        differing = {field for field, true, false in pairs if true != false}
        assert differing == {name.partition(".")[0]}, name
