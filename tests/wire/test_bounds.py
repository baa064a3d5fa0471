"""What is read of a payload, and remembered of a stream, has bounds; what lies beyond is said and not judged."""

from __future__ import annotations

import struct

import msgspec
import pytest
from tests.kit.hashed import hashing
from tests.kit.stories import Story, cleared, payload, stored

from kvwire.cache.ledger import Cleared, Key, Ledger, Location, State
from kvwire.conclusion import allowance as bounds
from kvwire.conclusion import showing
from kvwire.conclusion.description import NAME, NAMES, OTHERS, Appearance
from kvwire.history import timeline
from kvwire.history.timeline import Batch
from kvwire.judges import facts
from kvwire.wire.dialect import read
from kvwire.wire.events import GROUPS
from kvwire.wire.msgpack import LIMITS


def raw(count: int, event: bytes) -> bytes:
    """A payload of so many events."""
    return b"\x93\xcb" + struct.pack(">d", 1.7e9) + b"\xdd" + struct.pack(">I", count) + event * count + b"\x00"


def test_events_that_say_nothing_are_counted_and_not_built() -> None:
    reading = read(raw(100_000, b"\x80"))
    assert reading.events == ()
    assert reading.opaque
    assert "100000 events, more than the" in reading.flaws[-1].seen


def test_events_that_say_something_are_all_read() -> None:
    event = msgspec.msgpack.encode(["AllBlocksCleared"])
    assert len(read(raw(20_000, event)).events) == 20_000


def test_more_values_than_are_read_are_a_limit_of_ours() -> None:
    reading = read(raw(1, b"\x91\xdd" + struct.pack(">I", LIMITS.values) + b"\x01" * LIMITS.values))
    assert [flaw.code for flaw in reading.flaws] == ["limit"]


def test_a_group_beyond_those_that_are_told_apart_is_not_followed() -> None:
    low, high = (read(payload(stored("a", group_idx=idx))).events[0] for idx in (GROUPS - 1, GROUPS))
    assert low.sound
    assert high.opaque


def test_readings_are_forgotten_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "READ_BYTES", 5_000)
    payloads = [payload(stored([number])) for number in range(9)]
    batches = [Batch(number=n, payload=content, record=n, seen_by=frozenset()) for n, content in enumerate(payloads)]
    first = batches[0].reading
    for batch in batches[1:]:
        assert batch.reading.events
    assert "reading" not in batches[0].__dict__
    assert "reading" in batches[-1].__dict__
    assert batches[0].reading == first


def test_events_with_faults_are_shown_as_long_as_there_is_an_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "EVENTS", 10)
    monkeypatch.setattr(bounds, "EVENTS_A_SECOND", 0)
    story = Story()
    for _ in range(30):
        story.send(stored("a", medium="nowhere"))
    assert any("batches with faults were not read" in note for note in story.judged().notes)


def test_batches_without_faults_need_no_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "EVENTS", 0)
    story = Story()
    for number in range(30):
        story.send(stored([number]))
    judged = story.judged()
    assert judged.notes == ()
    assert judged.events == {"BlockStored": 30}


def test_the_allowance_grows_with_the_time_of_the_recording() -> None:
    allowance = bounds.Allowance()

    def read() -> None:
        allowance.read(Batch(number=0, payload=raw(100, b"\x80"), record=0, seen_by=frozenset()))

    read()
    allowance._left = 0
    read()
    assert allowance.beyond == 1
    allowance.now_ns = 10**9
    read()
    assert allowance.beyond == 1
    assert 0 < allowance._left < bounds.EVENTS_A_SECOND


def test_more_blocks_than_are_followed_are_forgotten_and_nobody_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(showing, "RESIDENT", 20)
    monkeypatch.setattr(showing, "LOOKED_BYTES", 100)
    story = Story()
    story.send(cleared())
    for number in range(60):
        story.send(stored([number]))
    assert any("blocks of a stream are not followed" in note for note in story.judged().notes)
    assert not [requirement for requirement in story.spoken() if requirement.startswith("RES")]


def test_locations_beyond_those_that_are_followed_are_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "LOCATIONS", 5)
    story = Story()
    story.send(cleared())
    for number in range(40):
        story.send(stored([number], medium=f"x-{number}"))
    story.send(stored("a", medium="x-39"), stored("a", medium="x-39"))
    story.send(stored("b", "a", medium="x-0"))
    assert not [requirement for requirement in story.spoken() if requirement.startswith(("RES", "CHN"))]
    assert hashing(story.trace()).facts.ledger.locations == 5


def test_a_clear_names_what_it_ends() -> None:
    ledger = Ledger(lambda *_: False)
    ledger.begin(origin_known=True)
    gpu, cpu = (Key(Location(medium, 0), 7) for medium in ("GPU", "CPU"))
    ledger.store(gpu)
    ledger.store(cpu)
    assert ledger.named(Cleared(medium="CPU")) == {cpu}
    ledger.clear(Cleared(medium="CPU"))
    assert ledger.state(gpu) is State.RESIDENT
    assert ledger.known == 1
    assert ledger.locations == 2


def test_names_of_events_are_told_apart_up_to_a_number_and_a_length() -> None:
    appearance = Appearance()
    for number in range(3 * NAMES):
        appearance.add(read(payload({"type": f"T{number}"})))
    appearance.add(read(payload({"type": "x" * 10_000})))
    assert len(appearance.tags) == NAMES + 1
    assert appearance.tags[OTHERS] == 2 * NAMES + 1
    assert max(map(len, appearance.unknown)) <= NAME + 1


def test_a_finding_quotes_no_more_than_a_reader_wants() -> None:
    story = Story()
    story.send({**stored("a"), "k" * 100_000: 1, "token_ids": "x" * 100_000})
    texts = [
        text for one in story.outcomes().values() for found in one.findings for text in (found.expected, found.seen)
    ]
    assert texts
    assert max(map(len, texts)) < 3000
