"""The JSON projection: what a batch is in a file, and that nothing is lost on the way there (spec/projection.md)."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.finding import steady
from tests.kit.stories import T0, Event, block, cleared, pack, payload, removed, stored

from kvwire.wire.msgpack import walk
from kvwire.wire.projection import (
    batch_projection,
    float_bits,
    plain_event,
    project_batch,
    project_float,
    project_value,
    read_float,
)


def projected(content: bytes) -> Any:
    """The projection, through JSON text and back."""
    return json.loads(json.dumps(project_batch(walk(content))))


def value(content: bytes) -> Any:
    """The projection of a lone value."""
    return json.loads(json.dumps(project_value(walk(content))))


def test_a_batch() -> None:
    store = stored("ab", "r", size=2, hash_algo="v1_block_key")
    content = payload(store, removed("b"), cleared(), ts=T0 + 0.25, rank=7)
    first, second, third = [block(name) for name in "abr"]
    assert projected(content) == {
        "ts": {"float": "1735689600.25", "bits": "41d9dd2160100000"},
        "events": [
            {
                "type": "BlockStored",
                "block_hashes": [str(first), str(second)],
                "parent_block_hash": str(third),
                "token_ids": store["token_ids"],
                "block_size": 2,
                "lora_id": None,
                "medium": "GPU",
                "lora_name": None,
                "hash_algo": "v1_block_key",
            },
            {"type": "BlockRemoved", "block_hashes": [str(second)], "medium": "GPU"},
            {"type": "AllBlocksCleared"},
        ],
        "data_parallel_rank": 7,
    }


def test_the_field_decides_what_is_a_string_and_not_the_value() -> None:
    content = payload({**stored("a"), "block_hashes": [5], "lora_id": 3, "group_idx": 2, "x": 9, "y": {"lora_id": 4}})
    (event,) = projected(content)["events"]
    assert (event["block_hashes"], event["lora_id"], event["group_idx"], event["x"]) == (["5"], "3", 2, 9)
    assert event["y"] == {"lora_id": "4"}


def test_a_decimal_string_keeps_the_sign_that_was_on_the_wire() -> None:
    content = payload({**removed("a"), "block_hashes": [-1, 2**64 - 1, 0]})
    assert projected(content)["events"][0]["block_hashes"] == ["-1", "18446744073709551615", "0"]


def test_known_keys_come_in_order_and_others_behind_them_sorted() -> None:
    content = payload({"v": 1, "zeta": 1, "medium": None, "alpha": 1, "block_hashes": [], "type": "BlockRemoved"})
    assert list(projected(content)["events"][0]) == ["type", "block_hashes", "medium", "v", "alpha", "zeta"]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"\xc0", None),
        (b"\xc3", True),
        (b"\x05", 5),
        (pack(2**53 - 1), 2**53 - 1),
        (pack(2**53), {"int": "9007199254740992"}),
        (pack(-(2**53)), {"int": "-9007199254740992"}),
        (b"\xcb\x3f\xf8" + bytes(6), {"float": "1.5", "bits": "3ff8000000000000"}),
        (b"\xca\x3f\xc0\x00\x00", {"float": "1.5", "bits": "3ff8000000000000"}),
        (b"\xcb\x7f\xf8" + bytes(6), {"float": "nan", "bits": "7ff8000000000000"}),
        (b"\xcb\xff\xf0" + bytes(6), {"float": "-inf", "bits": "fff0000000000000"}),
        (b"\xcb\x80" + bytes(7), {"float": "-0.0", "bits": "8000000000000000"}),
        (pack("é"), "é"),
        (b"\xa2\xff\xfe", {"hex": "fffe", "str": "not UTF-8"}),
        (b"\xc4\x02\x00\xff", {"hex": "00ff"}),
        (b"\xd4\x05\xaa", {"ext": 5, "hex": "aa"}),
        (b"\xd4\xff\xaa", {"ext": -1, "hex": "aa"}),
        (pack([1, [2]]), [1, [2]]),
        (pack({"b": 1, "a": 2}), {"a": 2, "b": 1}),
        (pack({1: 2}), {"map": [[1, 2]]}),
        (b"\x82\xa1a\x01\xa1a\x02", {"map": [["a", 1], ["a", 2]]}),
        (b"\x81\xa1\xff\x01", {"map": [[{"hex": "ff", "str": "not UTF-8"}, 1]]}),
        (pack({"map": 1}), {"map": [["map", 1]]}),
        (pack({"hex": 1}), {"map": [["hex", 1]]}),
        (pack({"str": 1, "hex": 2}), {"map": [["str", 1], ["hex", 2]]}),
        (pack({"int": 1}), {"map": [["int", 1]]}),
        (pack({"float": 1, "bits": 2}), {"map": [["float", 1], ["bits", 2]]}),
        (pack({"ext": 1, "hex": 2}), {"map": [["ext", 1], ["hex", 2]]}),
        (pack({"hex": 1, "other": 2}), {"hex": 1, "other": 2}),
        (pack({}), {}),
    ],
)
def test_values(content: bytes, wanted: Any) -> None:
    assert value(content) == wanted


@pytest.mark.parametrize("content", [pack([1.5, []]), pack([1.5, [], 0, 0]), pack([1.5, None, 0]), pack({"a": 1})])
def test_what_is_no_batch_is_projected_as_the_value_that_it_is(content: bytes) -> None:
    assert projected(content) == value(content)


def test_malformed_values_stay_in_their_place() -> None:
    content = payload({**removed("a"), "block_hashes": [b"\x01" * 32, 1.5]}, ts=T0, rank=None)
    seen = projected(content)
    assert seen["data_parallel_rank"] is None
    assert seen["events"][0]["block_hashes"] == [{"hex": "01" * 32}, {"float": "1.5", "bits": "3ff8000000000000"}]
    assert projected(pack([1, ["AllBlocksCleared"], 2**60])) == {
        "ts": 1,
        "events": ["AllBlocksCleared"],
        "data_parallel_rank": {"int": "1152921504606846976"},
    }


# --- and back -----------------------------------------------------------------------------------------------------


EVENTS = [stored("ab", "r"), removed("a", group_idx=1), cleared(), stored("a", x=[b"\0", 2**60, {"map": {"hex": 5}}])]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    (seen,) = projected(payload(event))["events"]
    assert plain_event(seen) == event


def test_what_the_harness_offers_is_what_would_be_read_of_it() -> None:
    events = [stored("ab", "r", hash_algo="v1_block_key"), removed("a", group_idx=1), cleared()]
    offered = batch_projection(T0 + 0.1, events, 3)
    assert json.loads(json.dumps(offered)) == projected(payload(*events, ts=T0 + 0.1, rank=3))
    assert [plain_event(event) for event in offered["events"]] == events


@steady
@given(st.floats())
def test_a_float_comes_back_by_its_bits(number: float) -> None:
    again = read_float(json.loads(json.dumps(project_float(number))))
    assert struct.pack(">d", again) == struct.pack(">d", number)
    assert float_bits(number) == struct.pack(">d", number).hex()


def test_a_float_is_read_from_a_plain_number_and_from_nothing_else() -> None:
    assert (read_float(1), read_float(-2.5)) == (1.0, -2.5)
    assert math.isnan(read_float({"float": "nan", "bits": "7ff8000000000000"}))
    for wrong in ("1.5", True, None, {"float": "1.5"}, {"bits": 5}):
        with pytest.raises(ValueError, match="a float is written"):
            read_float(wrong)


def test_a_decimal_string_that_is_none() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        plain_event({"type": "BlockRemoved", "block_hashes": ["five"], "medium": None})


@pytest.mark.parametrize("content", [b"\xa1\xff", b"\xd4\x05\xaa", b"\x82\xa1a\x01\xa1a\x02"])
def test_what_has_no_plain_form(content: bytes) -> None:
    with pytest.raises(ValueError, match="has no plain form"):
        plain_event({"type": "x", "y": value(content)})


HASHES = st.integers(-(2**63), 2**64 - 1)
OTHER = st.recursive(
    st.one_of(st.none(), st.booleans(), HASHES, st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["p", "hex", "map"]), inner)),
    max_leaves=5,
)


@steady
@given(st.lists(HASHES, max_size=3), st.none() | HASHES, OTHER)
def test_any_event_comes_back_as_it_was(hashes: list[int], parent: int | None, other: Any) -> None:
    event = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "x": other}
    (seen,) = projected(payload(event))["events"]
    encode = msgspec.msgpack.Encoder(order="deterministic").encode  # the order of keys is not kept
    assert encode(plain_event(seen)) == encode(event)
