"""The wire form: the model publisher's frames, what a consumer must bear, and what must not be sent."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwire_reference import wire
from kvwire_reference.wire import AllBlocksCleared, Batch, BlockRemoved, BlockStored, MmKey

DIGEST = "ab" * 32
FRAMES = [
    line.split("\t")
    for line in Path(__file__).with_name("model_frames.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def stored(**changes: Any) -> BlockStored:
    values: dict[str, Any] = {
        "block_hashes": (-5, 2**63),
        "parent_block_hash": None,
        "token_ids": (1, 2, 3, 4),
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    return BlockStored(**{**values, **changes})


def batch(*events: wire.Event, ts: float = 1.5, rank: int = 0) -> Batch:
    return Batch(ts, events, rank)


def untyped(payload: bytes) -> Any:
    return msgspec.msgpack.decode(payload)


# --- the model publisher's frames -------------------------------------------------------------------------


def test_thirteen_frames() -> None:
    assert len(FRAMES) == 13
    assert [int(sequence, 16) for _, _, sequence, _ in FRAMES] == list(range(13))


@pytest.mark.parametrize(("name", "topic", "sequence", "payload"), FRAMES, ids=[row[0] for row in FRAMES])
def test_model_frame(name: str, topic: str, sequence: str, payload: str) -> None:
    original = bytes.fromhex(payload)
    read = wire.decode(original)
    assert wire.decode_lenient(original) == read
    again = wire.encode(read)
    assert wire.decode(again) == read
    assert untyped(again) == untyped(original)
    message = wire.parse_live([topic.encode(), bytes.fromhex(sequence), original])
    assert wire.live_frames(message.topic, message.sequence, message.payload)[1].hex() == sequence


def test_values_of_the_model_frames() -> None:
    by_name = {name: wire.decode(bytes.fromhex(payload)) for name, _, _, payload in FRAMES}
    (first,) = by_name["stored"].events
    assert isinstance(first, BlockStored)
    assert first.block_hashes == (-2003500929019345749,)
    assert wire.unsigned(first.block_hashes[0]) == 16443243144690205867
    (multimodal,) = by_name["mm_keys+string-token-ids"].events
    assert isinstance(multimodal, BlockStored)
    assert multimodal.token_ids[1] == DIGEST
    assert multimodal.mm_keys is not None
    assert multimodal.mm_keys[1][0] == MmKey(DIGEST, 3, "u-1")
    assert by_name["three-events"].events[2] == BlockRemoved(block_hashes=(6,), medium="GPU")
    assert by_name["cleared"].events == (AllBlocksCleared(),)
    assert by_name["explicit-rank-5"].data_parallel_rank == 5
    assert by_name["empty-batch-fractional-ts"].ts == 0.1


# --- the form ---------------------------------------------------------------------------------------------


def test_required_keys_are_always_there_and_optional_ones_only_when_set() -> None:
    required = {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size"}
    required |= {"lora_id", "medium", "lora_name"}
    optional: dict[str, Any] = {
        "extra_keys": (None, ("k",)),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
        "kv_cache_spec_sliding_window": 4096,
        "locality": "LOCAL",
        "ownership": "pool-1",
        "scope": "5e40b1feca4586cb",
        "session_id": "s-1",
        "mm_keys": ((), (MmKey(DIGEST, 7),)),
        "hash_algo": "v2_sha256_64/u32",
        "v": 1,
    }
    _, (bare, full, removed, cleared), _ = untyped(
        wire.encode(
            batch(
                stored(medium=None),
                stored(**optional),
                BlockRemoved(block_hashes=(1,), medium=None),
                AllBlocksCleared(),
            )
        )
    )
    assert bare.keys() == required
    assert full.keys() == required | optional.keys()
    assert full["mm_keys"][1] == [{"type": "mm_key", "hash": DIGEST, "start_offset": 7}]
    assert removed == {"type": "BlockRemoved", "block_hashes": [1], "medium": None}
    assert cleared == {"type": "AllBlocksCleared"}


def test_an_absent_key_of_a_clear_names_all_and_nil_names_one() -> None:
    scoped = AllBlocksCleared(medium="CPU", ownership=None, epoch="7f3a")
    payload = wire.encode(batch(AllBlocksCleared(), AllBlocksCleared(medium=None), scoped))
    _, events, _ = untyped(payload)
    assert events[0] == {"type": "AllBlocksCleared"}
    assert events[1] == {"type": "AllBlocksCleared", "medium": None}
    assert events[2] == {"type": "AllBlocksCleared", "medium": "CPU", "ownership": None, "epoch": "7f3a"}
    assert wire.decode(payload).events == (AllBlocksCleared(), AllBlocksCleared(medium=None), scoped)


def test_a_location_update_has_no_tokens_and_no_parent() -> None:
    update = stored(token_ids=(), block_size=0, medium="STORAGE")
    assert wire.decode(wire.encode(batch(update))).events == (update,)
    for changed in ({"medium": "GPU"}, {"medium": None}, {"parent_block_hash": 7}):
        with pytest.raises(wire.WireError, match="no location update"):
            wire.encode(batch(msgspec.structs.replace(update, **changed)))
    with pytest.raises(wire.WireError, match="block_size"):
        wire.encode(batch(msgspec.structs.replace(update, token_ids=(1, 2))))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"scope": "5E40B1FECA4586CB"}, "scope"),
        ({"scope": "tenant-a"}, "scope"),
        ({"extra_keys": ("adapter", "adapter")}, "neither nil nor an array"),
        ({"lora_id": -1}, "lora_id"),
    ],
)
def test_new_keys_are_checked(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(wire.WireError, match=complaint):
        wire.encode(batch(stored(**changed)))


def test_ts_is_a_float64_and_the_batch_an_array_of_three() -> None:
    assert wire.encode(batch(ts=1.0, rank=5)).hex() == "93cb3ff00000000000009005"


hashes = st.integers(-(2**63), 2**64 - 1)
token = st.integers(0, 2**32 - 1)
name = st.none() | st.text(min_size=1, max_size=8)
ids = st.none() | st.integers(0, 2**64 - 1)


@st.composite
def events(draw: st.DrawFn) -> wire.Event:
    kind = draw(st.sampled_from((BlockStored, BlockRemoved, AllBlocksCleared)))
    if kind is AllBlocksCleared:
        return AllBlocksCleared()
    found = tuple(draw(st.lists(hashes, min_size=1, max_size=3)))
    group = draw(st.none() | st.integers(0, 9))
    if kind is BlockRemoved:
        return BlockRemoved(block_hashes=found, medium=draw(name), group_idx=group)
    size = draw(st.integers(1, 3))
    count = len(found) * size
    return BlockStored(
        block_hashes=found,
        parent_block_hash=draw(st.none() | hashes),
        token_ids=tuple(draw(st.lists(token, min_size=count, max_size=count))),
        block_size=size,
        lora_id=draw(ids),
        medium=draw(name),
        lora_name=draw(name),
        group_idx=group,
        hash_algo=draw(name),
    )


@settings(max_examples=50, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(events(), max_size=4),
    st.integers(0, 2**31 - 1),
)
def test_every_batch_comes_back(ts: float, happened: list[wire.Event], rank: int) -> None:
    sent = Batch(ts, tuple(happened), rank)
    assert wire.decode(wire.encode(sent)) == wire.decode_lenient(wire.encode(sent)) == sent


# --- what a consumer must bear ----------------------------------------------------------------------------

GOOD = {**msgspec.to_builtins(stored()), "type": "BlockStored"}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([GOOD, {"type": "BlockMigrated", "to": "CPU"}, GOOD], (stored(), stored())),
        ([{"type": "BlockMigrated", "block_hashes": "not even a list"}], ()),
        ([{**GOOD, "zzz": {"a": [1]}}], (stored(),)),
        ([{"zzz": 1, "type": "AllBlocksCleared"}], (AllBlocksCleared(),)),
        ([{**GOOD, "group_idx": None, "hash_algo": None}], (stored(),)),
        ([dict(reversed(GOOD.items()))], (stored(),)),
    ],
    ids=["unknown type", "unknown type, odd content", "unknown key", "unknown key first", "nil", "order"],
)
def test_lenient(sent: list[Any], expected: tuple[wire.Event, ...]) -> None:
    payload = msgspec.msgpack.encode([1.5, sent, 0])
    assert wire.decode_lenient(payload) == batch(*expected)


def test_lenient_leaves_strict_strict() -> None:
    with pytest.raises(msgspec.ValidationError, match="BlockMigrated"):
        wire.decode(msgspec.msgpack.encode([1.5, [{"type": "BlockMigrated"}], 0]))


def wide(value: Any) -> bytes:
    """Write a value in the widest msgpack form that it has."""
    match value:
        case None:
            return b"\xc0"
        case int():
            return (b"\xd3" if value < 0 else b"\xcf") + value.to_bytes(8, "big", signed=value < 0)
        case str():
            return b"\xdb" + len(value).to_bytes(4, "big") + value.encode()
        case list():
            return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(wide, value))
        case dict():
            pairs = b"".join(wide(key) + wide(item) for key, item in value.items())
            return b"\xdf" + len(value).to_bytes(4, "big") + pairs
    return msgspec.msgpack.encode(value)


def test_every_legal_width_is_accepted() -> None:
    event = {**GOOD, "mm_keys": [[], [{"type": "mm_key", "hash": DIGEST, "start_offset": 0}]]}
    expected = batch(stored(mm_keys=((), (MmKey(DIGEST, 0),))))
    assert wire.decode_lenient(wide([1.5, [event], 0])) == wire.decode(wide([1.5, [event], 0])) == expected
    assert wire.decode_lenient(bytes.fromhex("93ca3fc000009000")) == batch()  # float32
    assert wire.decode_lenient(bytes.fromhex("93019000")).ts == 1.0


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc0",
        b"\x92\xcb" + bytes(8) + b"\x90",
        msgspec.msgpack.encode([1.5, [], 0]) + b"\x00",
        msgspec.msgpack.encode([1.5, [["AllBlocksCleared"]], 0]),
        msgspec.msgpack.encode([1.5, [{"block_hashes": []}], 0]),
        msgspec.msgpack.encode([1.5, [{"type": "BlockStored"}], 0]),
        msgspec.msgpack.encode([1.5, [{**GOOD, "token_ids": [1.0]}], 0]),
        msgspec.msgpack.encode([1.5, [], None]),
        msgspec.msgpack.encode([1.5, [{**GOOD, "medium": "?"}], 0]).replace(b"\xa1?", b"\xa1\xff"),
        msgspec.msgpack.encode([1.5, [{**GOOD, "extra_keys": ["?"]}], 0]).replace(b"\xa1?", b"\x91" * 100_000),
    ],
    ids=[
        "empty",
        "nil",
        "array of two",
        "trailing byte",
        "array event",
        "no type",
        "keys missing",
        "float token",
        "nil rank",
        "not UTF-8",
        "deep nesting",
    ],
)
def test_what_cannot_be_read_says_so(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode_lenient(payload)


# --- frames -----------------------------------------------------------------------------------------------


def test_frames_come_back() -> None:
    message = wire.Message(b"kv", 2**64 - 2, b"payload")
    assert wire.parse_live(wire.live_frames(b"kv", 2**64 - 2, b"payload")) == message
    assert wire.parse_replay_answer(wire.replay_batch_frames(b"kv", 2**64 - 2, b"payload")) == message
    assert wire.parse_replay_answer(wire.replay_end_frames()) is None
    assert wire.parse_replay_request(wire.replay_request_frames(7)) == 7
    assert wire.replay_request_frames(258) == [b"", bytes.fromhex("0000000000000102")]
    assert wire.replay_end_frames() == [b"", b"", b"\xff" * 8, b""]


def test_end_marker_may_carry_a_topic_or_a_payload() -> None:
    assert wire.parse_replay_answer([b"", b"kv", wire.END_SEQUENCE, b"\x92\x00\x09"]) is None


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: wire.encode_sequence(2**64 - 1), "sequence: 18446744073709551615 is outside"),
        (lambda: wire.encode_sequence(-1), "sequence: -1"),
        (lambda: wire.decode_sequence(b"\0" * 7), "7 bytes, 8 expected"),
        (lambda: wire.decode_sequence(wire.END_SEQUENCE), "reserved"),
        (lambda: wire.parse_live([b"", b""]), "2 frames, 3 expected"),
        (lambda: wire.parse_replay_request([bytes(8)]), "1 frames, 2 expected"),
        (lambda: wire.parse_replay_request([b"x", bytes(8)]), "delimiter of 1 bytes"),
        (lambda: wire.parse_replay_request([b"", bytes(9)]), "9 bytes, 8 expected"),
        (lambda: wire.parse_replay_answer([b"", bytes(8), b""]), "3 frames, 4 expected"),
        (lambda: wire.parse_replay_answer([b"x", b"", bytes(8), b""]), "delimiter of 1 bytes"),
    ],
)
def test_frame_errors_say_what_is_wrong(call: Any, named: str) -> None:
    with pytest.raises(wire.WireError, match=named):
        call()


# --- what must not be sent --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (batch(ts=float("nan")), "ts: nan"),
        (batch(ts=float("inf")), "ts: inf"),
        (batch(ts=1), "ts: 1 is not a finite float"),
        (batch(rank=-1), "data_parallel_rank: -1 is outside 0…2147483647"),
        (batch(rank=2**31), "data_parallel_rank: 2147483648"),
        (batch(rank=None), "data_parallel_rank: None is not an integer"),  # type: ignore[arg-type]
        (batch(stored(block_hashes=())), r"events\[0\].block_hashes: empty"),
        (batch(stored(block_hashes=(1, 2**64))), r"block_hashes\[1\]: 18446744073709551616"),
        (batch(stored(block_hashes=(1, b"x" * 32))), r"block_hashes\[1\]: .* is not an integer"),
        (batch(stored(block_hashes=(1, True))), r"block_hashes\[1\]: True is not an integer"),
        (batch(stored(parent_block_hash=-(2**63) - 1)), "parent_block_hash: -9223372036854775809"),
        (batch(stored(token_ids=(1, 2, 3))), "token_ids: 3 tokens for 2 blocks of 2"),
        (batch(stored(token_ids=(1, 2, 3, 2**32))), r"token_ids\[3\]: 4294967296"),
        (batch(stored(token_ids=(1, 2, 3, -1))), r"token_ids\[3\]: -1"),
        (batch(stored(token_ids=(1, 2, 3, True))), r"token_ids\[3\]: True is not an integer"),
        (batch(stored(token_ids=(1, 2, 3, 4.0))), r"token_ids\[3\]: 4.0 is not an integer"),
        (batch(stored(token_ids=(1, 2, 3, DIGEST))), "mm_keys: absent"),
        (batch(stored(token_ids=(1, 2, -3, DIGEST), mm_keys=((), ()))), r"token_ids\[2\]: -3"),
        (batch(stored(token_ids=(1, 2, 3, "ab"), mm_keys=((), ()))), r"token_ids\[3\]: 'ab' is not a digest"),
        (batch(stored(mm_keys=((),))), "mm_keys: 1 entries for 2 blocks"),
        (batch(stored(mm_keys=((), (MmKey("ab", 0),)))), r"mm_keys\[1\]: 'ab'"),
        (batch(stored(mm_keys=((), (MmKey(DIGEST, -1),)))), r"mm_keys\[1\].start_offset: -1"),
        (batch(stored(extra_keys=(None,))), "extra_keys: 1 entries for 2 blocks"),
        (batch(stored(block_size=0)), "block_size: 0"),
        (batch(stored(lora_id=-1)), "lora_id: -1"),
        (batch(stored(medium="")), "medium: empty"),
        (batch(stored(group_idx=-1)), "group_idx: -1"),
        (batch(stored(kv_cache_spec_sliding_window=-1)), "kv_cache_spec_sliding_window: -1"),
        (Batch(1.0, ("no event",), 0), r"events\[0\]: an event is expected, not str"),  # type: ignore[arg-type]
        ("no batch", "a batch is expected, not str"),
        (batch(AllBlocksCleared(), BlockRemoved(block_hashes=(), medium=None)), r"events\[1\].block_hashes: empty"),
    ],
)
def test_encode_refuses_and_names(bad: Any, named: str) -> None:
    with pytest.raises(wire.WireError, match=named):
        wire.encode(bad)


PLAIN = stored(block_hashes=(-5, 2**63 - 1))
ODD = (True, -1, 0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -(2**63) - 1, 1.0, "", "GPU", DIGEST, b"x", None, ())
IN_SEQUENCES = ("block_hashes", "token_ids")
OTHERS = {
    "scope": ("5e40b1feca4586cb",),
    "extra_keys": ((None, None), ((), ()), (("a",),)),
    "mm_keys": (((), ()), ((MmKey(DIGEST, 0),), ())),
}


@pytest.mark.parametrize(
    "field", [name for name in BlockStored.__struct_fields__ if name in wire._Plain.__struct_fields__]
)
def test_one_look_at_a_store_sees_what_a_look_at_each_field_sees(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(changed: BlockStored) -> object:
        try:
            return wire.encode(batch(changed))
        except (TypeError, ValueError, OverflowError) as error:
            return type(error), str(error)

    values: list[object] = [*ODD, *OTHERS.get(field, ())]
    if field in IN_SEQUENCES:
        values += [(*getattr(PLAIN, field)[:-1], odd) for odd in ODD]
    events = [msgspec.structs.replace(PLAIN, **{field: value}) for value in values]
    quick = list(map(outcome, events))
    monkeypatch.setattr(wire, "_is_plain", lambda _: False)
    assert quick == list(map(outcome, events))
    assert len({type(one) for one in quick}) == 2, "some are refused and some are not"


def test_stores_of_token_ids_alone_take_one_look() -> None:
    assert wire._is_plain(PLAIN)
    changed = {"parent_block_hash": -1, "group_idx": 3, "medium": None, "lora_name": "adapter"}
    assert wire._is_plain(msgspec.structs.replace(PLAIN, **changed))
    for change in ({"scope": "5e40b1feca4586cb"}, {"token_ids": (1, 2, 3, True)}, {"block_hashes": (-5, 2**63)}):
        assert not wire._is_plain(msgspec.structs.replace(PLAIN, **change))


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_signed_and_unsigned_are_inverse(value: int) -> None:
    assert wire.unsigned(wire.signed(value)) == wire.unsigned(value) == value
    assert -(2**63) <= wire.signed(value) < 2**63


def test_a_client_leaves_the_reserved_start_alone() -> None:
    reserved = int.from_bytes(b"snapshot", "big")
    with pytest.raises(wire.WireError, match="reserved"):
        wire.replay_request_frames(reserved)
    assert wire.parse_replay_request([b"", b"snapshot"]) == reserved, "to a publisher it is a start like others"


@pytest.mark.parametrize(
    "event",
    [
        AllBlocksCleared(),
        AllBlocksCleared(medium="CPU", epoch="e1"),
        AllBlocksCleared(medium=None),
        AllBlocksCleared(ownership=None),
    ],
)
def test_absent_and_nil_are_told_apart_in_a_clear(event: AllBlocksCleared) -> None:
    payload = wire.encode(Batch(0.0, (event,), 0))
    assert wire.decode_lenient(payload) == wire.decode(payload) == Batch(0.0, (event,), 0)
    assert event.names_all == (event == AllBlocksCleared())
