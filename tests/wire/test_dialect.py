"""What a payload says, in every form; and that the quick way says nothing that the walker would not."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady
from tests.kit.stories import Event, cleared, pack, payload, removed, stored

from kvwire.wire.dialect import read, read_slowly
from kvwire.wire.events import Reading
from kvwire.wire.msgpack import Limits
from kvwire.wire.plain import read_quickly
from kvwire_reference import wire as reference

TS = b"\xcb" + struct.pack(">d", 1.5)


def same(quick: Reading, slow: Reading) -> None:
    """What the fast path may differ in are offsets, and that it was fast."""
    bare = [msgspec.structs.replace(event, start=0, end=0) for event in slow.events]
    assert msgspec.structs.replace(quick, fast=False) == msgspec.structs.replace(slow, events=tuple(bare))


# --- the fast path ------------------------------------------------------------------------------------------------

SIGNED = st.integers(-(2**63), 2**63 - 1).filter(bool)
MEDIA = st.sampled_from(["GPU", "CPU", "STORAGE", "x-cxl", None])
ALGORITHMS = st.sampled_from(["v1_block_key", "v2_sha256_64/u32", "another"])


def optional(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


@st.composite
def stores(draw: st.DrawFn) -> Event:
    """A store without a fault, its keys in the order in which encoders write them."""
    size = draw(st.integers(1, 4))
    hashes = draw(st.lists(SIGNED, min_size=1, max_size=4))
    count = len(hashes) * size
    event = {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": draw(st.none() | SIGNED),
        "token_ids": draw(st.lists(st.integers(0, 2**31 - 1), min_size=count, max_size=count)),
        "block_size": size,
        "lora_id": None,
        "medium": draw(MEDIA),
        "lora_name": None,
    }
    more = draw(
        optional(
            group_idx=st.integers(0, 5),
            kv_cache_spec_kind=st.sampled_from(["full_attention", "sliding_window"]),
            kv_cache_spec_sliding_window=st.integers(0, 9),
            locality=st.sampled_from(["LOCAL", "REMOTE"]),
            ownership=st.text(max_size=3),
            hash_algo=ALGORITHMS,
        )
    )
    groups = ("group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window")
    order = (*groups, "locality", "ownership", "hash_algo")
    return {**event, **{key: more[key] for key in order if key in more}}


@st.composite
def removals(draw: st.DrawFn) -> Event:
    more = draw(optional(group_idx=st.integers(0, 5), locality=st.text(), ownership=st.text(), hash_algo=ALGORITHMS))
    hashes = draw(st.lists(SIGNED, min_size=1, max_size=4))
    event = {"type": "BlockRemoved", "block_hashes": hashes, "medium": draw(MEDIA)}
    return {**event, **{key: more[key] for key in ("group_idx", "locality", "ownership", "hash_algo") if key in more}}


EVENTS = st.lists(st.one_of(stores(), removals()), max_size=4)
STAMPS = st.floats(0, 1e11, exclude_max=True)


@steady
@given(EVENTS, STAMPS, st.integers(0, 2**31 - 1))
def test_what_has_no_fault_is_read_quickly_and_as_the_walker_reads_it(
    events: list[Event], ts: float, rank: int
) -> None:
    content = payload(*events, ts=ts, rank=rank)
    quick = read_quickly(content)
    assert quick is not None
    assert read(content).fast
    same(quick, read_slowly(content))
    assert not quick.flaws
    assert not any(event.flaws or not event.sound for event in quick.events)


@steady
@given(EVENTS, st.data())
def test_what_is_read_quickly_is_what_the_walker_reads_whatever_was_done_to_it(
    events: list[Event], data: st.DataObject
) -> None:
    content = bytearray(payload(*events))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    quick = read_quickly(bytes(content))
    if quick is not None:
        same(quick, read_slowly(bytes(content)))


@steady
@given(stores())
def test_the_headers_of_an_encoder_that_declares_many_keys_have_no_fault_either(event: Event) -> None:
    content = bytearray(payload(event))
    content[11:12] = b"\xde" + struct.pack(">H", len(event))
    quick = read_quickly(bytes(content))
    assert quick is not None
    same(quick, read_slowly(bytes(content)))


def test_the_reference_is_read_quickly() -> None:
    """It declares sixteen keys of a store."""
    batch = reference.Batch(
        1.5,
        (
            reference.BlockStored(
                block_hashes=(-5, 7),
                parent_block_hash=9,
                token_ids=(1, 2, 3, 4),
                block_size=2,
                lora_id=None,
                medium="GPU",
                lora_name=None,
            ),
            reference.BlockRemoved(block_hashes=(7,), medium="GPU"),
        ),
        3,
    )
    reading = read(reference.encode(batch))
    assert (reading.fast, reading.form, reading.rank, reading.ts) == (True, "map", 3, 1.5)
    store, removal = reading.events
    assert (store.hashes, store.parent, store.block(1)) == ((2**64 - 5, 7), 9, (3, 4))
    assert (removal.kind, removal.hashes) == ("removed", (7,))


HARMLESS: dict[str, bytes] = {
    "a wide rank": b"\x93" + TS + b"\x90\xcc\x00",
    "an array16 header": b"\xdc\x00\x03" + TS + b"\x90\x00",
    "an array16 of events": b"\x93" + TS + b"\xdc\x00\x00\x00",
    "a str8 key": payload(removed("a")).replace(b"\xa4type", b"\xd9\x04type"),
    "another key": payload({**removed("a"), "x": 1}),
    "a key of the harness's own fields": payload({**removed("a"), "tag": "y", "other_0": None}),
    "the tag last": payload({"block_hashes": [5], "medium": None, "type": "BlockRemoved"}),
    "a wide integer": payload({**removed("a"), "block_hashes": [77]}).replace(b"\x91\x4d", b"\x91\xcc\x4d"),
    "a nil group": payload(removed("a", group_idx=None)),
    "an edition": payload({**removed("a"), "v": 1}),
    "nil extra keys": payload(stored("a", extra_keys=None)),
}


@pytest.mark.parametrize("content", HARMLESS.values(), ids=HARMLESS)
def test_what_no_sentence_speaks_of_is_read_quickly(content: bytes) -> None:
    quick = read_quickly(content)
    assert quick is not None
    same(quick, read_slowly(content))


def test_what_one_stream_shows_takes_nothing_from_the_next() -> None:
    for number in range(200):
        assert read_quickly(payload({**removed("a"), f"x{number}": 1})) is not None


GUARDED: dict[str, bytes] = {
    "an integer ts": b"\x93\x01\x90\x00",
    "a float32 ts": b"\x93\xca\x3f\xc0\x00\x00\x90\x00",
    "a ts that is not a number": b"\x93\xcb\x7f\xf8" + bytes(6) + b"\x90\x00",
    "an infinite ts": b"\x93\xcb\x7f\xf0" + bytes(6) + b"\x90\x00",
    "two elements": b"\x92" + TS + b"\x90",
    "four elements": b"\x94" + TS + b"\x90\x00\x01",
    "a nil rank": b"\x93" + TS + b"\x90\xc0",
    "a negative rank": b"\x93" + TS + b"\x90\xff",
    "a rank of 2^31": b"\x93" + TS + b"\x90\xce\x80\x00\x00\x00",
    "nil events": b"\x93" + TS + b"\xc0\x00",
    "a map16 header": payload(cleared()).replace(b"\x91\x81", b"\x91\xde\x00\x01"),
    "bytes behind it": payload(cleared()) + b"\xc0",
    "a byte less": payload(cleared())[:-1],
    "a clear": payload(cleared()),
    "a key twice": payload({**removed("a"), "mediun": "GPU"}).replace(b"\xa6mediun", b"\xa6medium"),
    "an ext in an untyped place": payload({**removed("a"), "x": msgspec.msgpack.Ext(5, b"z")}),
    "no lora_name": payload({key: value for key, value in stored("a").items() if key != "lora_name"}),
    "another event": payload({"type": "BlockMoved"}),
    "an array event": payload(["AllBlocksCleared"]),  # type: ignore[arg-type]
    "an unsigned hash": payload({**removed("a"), "block_hashes": [2**63]}),
    "hash 0": payload({**removed("a"), "block_hashes": [0]}),
    "parent 0": payload({**stored("a"), "parent_block_hash": 0}),
    "an unsigned parent": payload({**stored("a"), "parent_block_hash": 2**64 - 1}),
    "a float hash": payload({**removed("a"), "block_hashes": [1.0]}),
    "a bytes hash": payload({**removed("a"), "block_hashes": [b"x" * 32]}),
    "a boolean hash": payload({**removed("a"), "block_hashes": [True]}),
    "a LoRA id": payload({**stored("a"), "lora_id": 7}),
    "a scope tag": payload(stored("a", scope="0" * 16)),
    "extra keys": payload(stored("a", extra_keys=[None])),
    "a nested key": payload({**removed("a"), "x": {"y": 1}}),
    "no hash": payload({**stored("a"), "block_hashes": [], "token_ids": []}),
    "tokens for half a block": payload({**stored("a"), "token_ids": [1, 2]}),
    "a token of 2^32": payload({**stored("a"), "token_ids": [1, 2, 3, 2**32]}),
    "a negative token": payload({**stored("a"), "token_ids": [1, 2, 3, -1]}),
    "a digest token": payload({**stored("a"), "token_ids": [1, 2, 3, "ab" * 32], "mm_keys": [[]]}),
    "a block size of 0": payload({**stored("a"), "block_size": 0}),
    "an empty medium": payload(removed("a", medium="")),
    "an unregistered medium": payload(removed("a", medium="gpu")),
    "a medium that is not UTF-8": payload(removed("a")).replace(b"\xa3GPU", b"\xa3G\xffU"),
    "a negative group": payload(removed("a", group_idx=-1)),
    "a negative window": payload(stored("a", kv_cache_spec_sliding_window=-1)),
    "a float lora_id": payload({**stored("a"), "lora_id": 1.0}),
    "nothing": b"",
    "no msgpack": b"\xc1",
    "a depth bomb": b"\x91" * 100_000,
}


@pytest.mark.parametrize("content", GUARDED.values(), ids=GUARDED)
def test_everything_else_is_the_walkers(content: bytes) -> None:
    assert read_quickly(content) is None
    assert not read(content).fast


def test_bounds_of_the_harness_hold_for_payloads_without_a_fault_too() -> None:
    content = payload(stored(range(20)))
    assert read(content).fast
    for limits in (Limits(values=50), Limits(bytes=100)):
        reading = read(content, limits)
        assert ([flaw.code for flaw in reading.flaws], reading.opaque) == (["limit"], True)


# --- the walker's reading -----------------------------------------------------------------------------------------


def test_an_event_says_where_it_stands() -> None:
    content = payload(cleared(), removed("a"))
    first, second = read_slowly(content).events
    assert content[first.start : first.end] == pack(cleared())
    assert content[second.start : second.end] == pack(removed("a"))


def test_any_width_is_read() -> None:
    content = (
        b"\xdc\x00\x03" + TS + b"\xdd\x00\x00\x00\x01\xdf\x00\x00\x00\x03"
        b"\xd9\x04type\xda\x00\x0cBlockRemoved"
        b"\xacblock_hashes\xdc\x00\x02\xd0\x05\xcf" + bytes(7) + b"\x06\xdb\x00\x00\x00\x06medium\xa3GPU\xd3" + bytes(8)
    )
    reading = read_slowly(content)
    assert (reading.rank, reading.flaws) == (0, ())
    (event,) = reading.events
    assert (event.hashes, event.medium, event.flaws) == ((5, 6), "GPU", ())


def test_the_first_flaw_of_each_sort_is_kept_and_all_unsigned_hashes_are_counted() -> None:
    (event,) = read_slowly(payload({**removed("a"), "block_hashes": [2**63, 2**63 + 1, 0, 0, 5]})).events
    assert [flaw.code for flaw in event.flaws] == ["hash-unsigned", "hash-zero"]
    assert event.unsigned_hashes == 2
    assert event.sound


def test_equal_hashes_are_one_whatever_their_sign() -> None:
    first, second = read_slowly(payload(removed("a"), {**removed("a"), "block_hashes": [-1, 2**64 - 1]})).events
    assert second.hashes == (2**64 - 1, 2**64 - 1)
    assert first.hashes[0] < 2**64


@pytest.mark.parametrize(
    ("event", "opaque"),
    [
        (stored("a"), False),
        ({**stored("a"), "token_ids": None}, False),  # what is resident is clear all the same
        ({**stored("a"), "block_hashes": ["x"]}, True),
        ({**removed("a"), "medium": 3}, True),
        ({**removed("a"), "group_idx": "1"}, True),
        ({"type": "BlockMoved"}, False),  # of another edition
        ({"kind": "BlockRemoved"}, True),  # of none
        (7, True),
    ],
)
def test_what_may_have_changed_residency_and_could_not_be_read(event: Any, opaque: bool) -> None:
    (seen,) = read_slowly(payload(event)).events
    assert seen.opaque is opaque


@pytest.mark.parametrize(
    ("content", "opaque"),
    [(b"\xc1", True), (b"\x91\x01", True), (b"\x93" + TS + b"\xc0\x00", True), (b"\x92" + TS + b"\x90", False)],
)
def test_a_batch_whose_events_could_not_be_read(content: bytes, opaque: bool) -> None:
    assert read_slowly(content).opaque is opaque


def test_a_key_that_is_not_utf8_is_a_string_all_the_same() -> None:
    (event,) = read_slowly(payload({**cleared(), "x?": 1}).replace(b"\xa2x?", b"\xa2x\xff")).events
    assert event.flaws == ()
    (event,) = read_slowly(payload(cleared()).replace(b"\xb0All", b"\xb0A\xffl")).events
    assert (event.flaws, event.kind, event.opaque) == ((), "unknown", True)


def test_multimodal_keys() -> None:
    key = {"type": "mm_key", "hash": "AB" * 32, "start_offset": 3, "uuid": "u"}
    event = {**stored("ab"), "token_ids": ["ab" * 32, *range(7)], "mm_keys": [[key], []]}
    (seen,) = read_slowly(payload(event)).events
    assert seen.mm_keys == (((b"\xab" * 32, 3),), ())
    assert seen.block(0)[0] == b"\xab" * 32
    assert seen.whole


# --- legacy forms -------------------------------------------------------------------------------------------------

ARRAY_V = (
    "93cb3ff8000000000000939cab426c6f636b53746f72656491cffffffffffffffffec092010202c0a3475055c0c0c0c0c094ac426c6f636b"
    "52656d6f76656491cffffffffffffffffea3475055c091b0416c6c426c6f636b73436c656172656400"
)
"""The twelve slots of vLLM's last array events (spec/legacy.md)."""
FIRST = "93cb3ff80000000000009196ab426c6f636b53746f72656491cffffffffffffffffec092010202c0c0"
"""Six slots and a nil rank, as vLLM began in 2025."""
ARRAY_S = (
    "93cb3ff80000000000009397ab426c6f636b53746f72656491d38000000000000001c092010202c0a347505593ac426c6f636b52656d6f76"
    "656491d38000000000000001a347505591b0416c6c426c6f636b73436c656172656400"
)
"""Seven slots with a signed hash (spec/legacy.md)."""
SALTED = (
    "93cb3ff80000000000009198ab426c6f636b53746f72656491d38000000000000001c092010202c0a347505581aa63616368655f73616c74"
    "a17400"
)
"""SGLang's eighth slot (spec/legacy.md)."""


@pytest.mark.parametrize(
    ("content", "form", "first", "kinds"),
    [
        (ARRAY_V, "array-v", 2**64 - 2, ["stored", "removed", "cleared"]),
        (FIRST, "array", 2**64 - 2, ["stored"]),
        (ARRAY_S, "array", 2**63 + 1, ["stored", "removed", "cleared"]),
        (SALTED, "array-s", 2**63 + 1, ["stored"]),
    ],
)
def test_legacy_arrays_by_content(content: str, form: str, first: int, kinds: list[str]) -> None:
    reading = read(bytes.fromhex(content))
    assert (reading.form, [event.kind for event in reading.events]) == (form, kinds)
    store = reading.events[0]
    assert (store.hashes, store.parent, store.tokens, store.block_size) == ((first,), None, (1, 2), 2)
    assert (store.medium, store.group, store.lora_id) == (None if content == FIRST else "GPU", 0, None)
    assert store.cache_salt == ("t" if content == SALTED else None)
    assert all(event.sound for event in reading.events)
    assert store.whole
    assert all(event.flaws[0].code == "not-a-map" for event in reading.events)


STORE = ["BlockStored", [5], None, [1, 2], 2]


@pytest.mark.parametrize(
    ("event", "form"),
    [
        (STORE, "array"),
        ([*STORE, None, "GPU"], "array"),
        ([*STORE, None, "GPU", None], "array-v"),  # slot 7 tells: nil or a string
        ([*STORE, None, "GPU", "adapter"], "array-v"),
        ([*STORE, None, "GPU", {"cache_salt": "t"}], "array-s"),  # or a map
        ([*STORE, None, "GPU", None, None, 1], "array-v"),
        (["BlockRemoved", [5]], "array"),
        (["BlockRemoved", [5], "GPU", 1], "array-v"),
        (["AllBlocksCleared"], "array"),
        ([], "array"),
        ([7, 8], "array"),
    ],
)
def test_the_form_of_an_array_event(event: list[Any], form: str) -> None:
    assert read_slowly(pack([1.5, [event], 0])).form == form


def test_a_clear_of_one_medium_is_no_clear_of_everything() -> None:
    events = read_slowly(pack([1.5, [["AllBlocksCleared", "CPU"], ["AllBlocksCleared", None]], 0])).events
    assert [event.sound for event in events] == [False, True]
    assert "medium" not in events[1].keys


def test_forms_side_by_side() -> None:
    assert read_slowly(pack([1.5, [[*STORE, None, "GPU", None], ["AllBlocksCleared"]], 0])).form == "array-v"
    assert read_slowly(pack([1.5, [["AllBlocksCleared"], cleared()], 0])).form == "mixed"
    assert read_slowly(pack([1.5, [], 0])).form == "none"


@steady
@given(st.binary(max_size=120))
def test_no_payload_raises_anything(content: bytes) -> None:
    reading = read(content)
    assert reading.fast or read_slowly(content) == reading
