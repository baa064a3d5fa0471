"""Batches, events and frames as they stand on the wire: msgpack maps tagged `type` in an array of three.

Frames of a live message: `[topic][sequence: 8 bytes, big-endian][payload]`. Of a replay request, after the
peer's identity: `[empty][start: 8 bytes]`. Of a replay answer, form `replay-topic`: per batch
`[empty][topic][sequence][payload]`, at the end `[empty][empty][ff × 8][empty]`.

`encode` refuses what the standard forbids a publisher to send. `decode` reads what `encode` writes.
`decode_lenient` reads what a consumer must put up with from publishers newer than itself.
"""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from kvwire_reference.hashing import I64_MIN, U32_MAX, U64_MAX, signed, unsigned

__all__ = [
    "END_SEQUENCE",
    "SNAPSHOT_START",
    "AllBlocksCleared",
    "Batch",
    "BlockRemoved",
    "BlockStored",
    "Event",
    "Hash",
    "Message",
    "MmKey",
    "TokenId",
    "WireError",
    "decode",
    "decode_lenient",
    "decode_sequence",
    "encode",
    "encode_sequence",
    "live_frames",
    "parse_live",
    "parse_replay_answer",
    "parse_replay_request",
    "replay_batch_frames",
    "replay_end_frames",
    "replay_request_frames",
    "signed",
    "unsigned",
]

Hash: TypeAlias = int
"""A 64-bit block hash, −2^63…2^64−1 on the wire (signed preferred). Compare by `unsigned(hash)`."""

TokenId: TypeAlias = int | str
"""A token id, or a multimodal digest token as its 64 hex digits."""

END_SEQUENCE: Final = b"\xff" * 8
SNAPSHOT_START: Final = int.from_bytes(b"snapshot", "big")
"""A start of replay that is no number: a client leaves it to those who mean a snapshot by it [KVW-REP-025]."""
RANK_MAX: Final = 2**31 - 1

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_SCOPE = re.compile(r"[0-9a-f]{16}")
_DEVICE: Final = "GPU"


class WireError(ValueError):
    """A value that must not be sent, or bytes that are not of this form; the message says where."""


class MmKey(msgspec.Struct, frozen=True, tag_field="type", tag="mm_key", omit_defaults=True, gc=False):
    """The part of a multimodal item that a block holds.

    `hash` is the item's hash as 64 hex digits; `start_offset` the index *within the item* of its first token
    in this block; `uuid` the name that the user gave the item, if any.
    """

    hash: str
    start_offset: int
    uuid: str | None = None


class BlockStored(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False):
    """Full blocks that became resident, in chain order.

    `parent_block_hash` precedes the first of `block_hashes` (nil at the start of a chain); each other hash
    follows the one before it. `token_ids` are the tokens of these blocks only, `block_size` of them per block.
    `extra_keys` and `mm_keys` hold one entry per block. The first seven keys are always on the wire, the
    others only when they are not `None`; an absent `group_idx` is group 0. `scope` is the `scope_tag` of the
    chain's salt.

    Without tokens, of `block_size` 0, it is a location update: its hashes are also in `medium`, which is not the
    device, and nothing is said of chains [KVW-EVT-032].
    """

    block_hashes: tuple[Hash, ...]
    parent_block_hash: Hash | None
    token_ids: tuple[TokenId, ...]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: tuple[Any, ...] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None
    ownership: str | None = None
    scope: str | None = None
    session_id: str | None = None
    mm_keys: tuple[tuple[MmKey, ...], ...] | None = None
    hash_algo: str | None = None
    v: int | None = None


class BlockRemoved(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False):
    """Blocks that are no longer resident in the location of their store."""

    block_hashes: tuple[Hash, ...]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None
    ownership: str | None = None
    hash_algo: str | None = None
    v: int | None = None


class AllBlocksCleared(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False):
    """Nothing is resident any more on this stream, or in the locations that it names.

    `medium` and `ownership` name locations: unset, they name all; `None` is the unspecified medium, and the engine.
    `epoch` is opaque, and another one in each incarnation.
    """

    medium: str | msgspec.UnsetType | None = msgspec.UNSET
    ownership: str | msgspec.UnsetType | None = msgspec.UNSET
    epoch: str | None = None
    v: int | None = None

    @property
    def names_all(self) -> bool:
        """Whether it names every location of the stream."""
        return self.medium is msgspec.UNSET and self.ownership is msgspec.UNSET


Event: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events in the order in which they happened, at `ts` seconds since the epoch, on one rank."""

    ts: float
    events: tuple[Event, ...]
    data_parallel_rank: int


class _RawBatch(msgspec.Struct, array_like=True):
    ts: float
    events: list[msgspec.Raw]
    data_parallel_rank: int


class _Tag(msgspec.Struct):
    type: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Batch)
_raw_decoder = msgspec.msgpack.Decoder(_RawBatch)
_tag_decoder = msgspec.msgpack.Decoder(_Tag)
_event_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
_EVENTS: Final = (BlockStored, BlockRemoved, AllBlocksCleared)
_EVENT_TYPES: Final = frozenset(cls.__name__ for cls in _EVENTS)


def encode(batch: Batch) -> bytes:
    """Write a batch as msgpack; raises `WireError` for a value that the standard does not allow."""
    offered: object = batch
    if not isinstance(offered, Batch):
        raise WireError(f"a batch is expected, not {type(offered).__name__}")
    ts: object = batch.ts
    if not isinstance(ts, float) or not math.isfinite(ts):
        raise WireError(f"ts: {ts!r} is not a finite float")
    _check_int("data_parallel_rank", batch.data_parallel_rank, 0, RANK_MAX)
    for index, event in enumerate(batch.events):
        offered = event
        if not isinstance(offered, _EVENTS):
            raise WireError(f"events[{index}]: an event is expected, not {type(offered).__name__}")
        try:
            _check_event(event)
        except WireError as error:
            raise WireError(f"events[{index}].{error}") from None
    return _encoder.encode(batch)


def decode(payload: bytes) -> Batch:
    """Read a batch; raises `msgspec.DecodeError` (or its `ValidationError`) if any event is not known."""
    return _decoder.decode(payload)


def decode_lenient(payload: bytes) -> Batch:
    """Read a batch as a consumer must: unknown keys ignored, events of unknown `type` left out [KVW-EVT-023…025].

    Every legal msgpack width is accepted. Raises `msgspec.DecodeError` (or its `ValidationError`) if the
    batch, or an event of a known type, cannot be read: then its content is unknown.
    """
    try:
        raw = _raw_decoder.decode(payload)
        events = [event for event in raw.events if _tag_decoder.decode(event).type in _EVENT_TYPES]
        return Batch(raw.ts, tuple(map(_event_decoder.decode, events)), raw.data_parallel_rank)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


# --- frames -----------------------------------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True):
    """One numbered batch in its frames, live or replayed."""

    topic: bytes
    sequence: int
    payload: bytes


def encode_sequence(number: int) -> bytes:
    """Write a sequence number (0…2^64−2; the last one is reserved) as 8 bytes, big-endian."""
    if not 0 <= number < U64_MAX:
        raise WireError(f"sequence: {number} is outside 0…{U64_MAX - 1}")
    return number.to_bytes(8, "big")


def decode_sequence(frame: bytes) -> int:
    """Read a sequence frame; raises `WireError` for another length or the reserved number."""
    if len(frame) != 8:
        raise WireError(f"sequence: {len(frame)} bytes, 8 expected")
    if frame == END_SEQUENCE:
        raise WireError("sequence: 2^64−1 is reserved for the end of a replay")
    return int.from_bytes(frame, "big")


def live_frames(topic: bytes, number: int, payload: bytes) -> list[bytes]:
    """Frames of a live message."""
    return [topic, encode_sequence(number), payload]


def parse_live(frames: Sequence[bytes]) -> Message:
    """Read the frames of a live message; raises `WireError`."""
    if len(frames) != 3:
        raise WireError(f"live message: {len(frames)} frames, 3 expected")
    topic, sequence, payload = frames
    return Message(topic, decode_sequence(sequence), payload)


def replay_request_frames(start: int) -> list[bytes]:
    """Frames that a DEALER sends to ask for every retained batch from `start` on; raises `WireError`."""
    if start == SNAPSHOT_START:
        raise WireError(f"start: {start} is reserved; ask from the number before it")
    return [b"", encode_sequence(start)]


def parse_replay_request(frames: Sequence[bytes]) -> int:
    """Read the frames that follow the identity at the ROUTER; returns the start, or raises `WireError`."""
    if len(frames) != 2:
        raise WireError(f"replay request: {len(frames)} frames, 2 expected")
    if frames[0]:
        raise WireError(f"replay request: a delimiter of {len(frames[0])} bytes, an empty one expected")
    return decode_sequence(frames[1])


def replay_batch_frames(topic: bytes, number: int, payload: bytes) -> list[bytes]:
    """Frames of one replayed batch, as seen by the DEALER (a ROUTER puts the identity before them)."""
    return [b"", topic, encode_sequence(number), payload]


def replay_end_frames() -> list[bytes]:
    """Frames of the end marker, as seen by the DEALER."""
    return [b"", b"", END_SEQUENCE, b""]


def parse_replay_answer(frames: Sequence[bytes]) -> Message | None:
    """Read one message of a replay answer; `None` is the end marker. Raises `WireError`."""
    if len(frames) != 4:
        raise WireError(f"replay answer: {len(frames)} frames, 4 expected")
    delimiter, topic, sequence, payload = frames
    if delimiter:
        raise WireError(f"replay answer: a delimiter of {len(delimiter)} bytes, an empty one expected")
    if sequence == END_SEQUENCE:  # its topic and payload frames say nothing
        return None
    return Message(topic, decode_sequence(sequence), payload)


# --- what must not be sent --------------------------------------------------------------------------------
#
# Every batch passes through here before it is sent, so names are put together only for what is refused.


def _check_int(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError(f"{name}: {value!r} is not an integer")
    if not low <= value <= high:
        raise WireError(f"{name}: {value} is outside {low}…{high}")


def _check_ints(name: str, values: Sequence[object], low: int, high: int) -> None:
    if set(map(type, values)) == {int} and low <= min(values) and max(values) <= high:  # type: ignore[type-var, operator]
        return
    for index, value in enumerate(values):
        _check_int(f"{name}[{index}]", value, low, high)


_Signed: TypeAlias = Annotated[int, msgspec.Meta(ge=I64_MIN, le=-I64_MIN - 1)]


class _Plain(msgspec.Struct, array_like=True, gc=False):
    """What most events hold, by type; the fields are those of `BlockStored`, in the order in which they are tried."""

    block_hashes: Annotated[list[_Signed], msgspec.Meta(min_length=1)]
    parent_block_hash: _Signed | None
    token_ids: list[Annotated[int, msgspec.Meta(ge=0, le=U32_MAX)]]
    block_size: Annotated[int, msgspec.Meta(ge=1, le=U32_MAX)]
    medium: Annotated[str, msgspec.Meta(min_length=1)] | None
    group_idx: Annotated[int, msgspec.Meta(ge=0, le=RANK_MAX)] | None
    lora_id: None
    scope: None
    extra_keys: None
    mm_keys: None
    kv_cache_spec_sliding_window: None


def _is_plain(event: BlockStored) -> bool:
    """Whether a store of token ids is in order; False where it takes a closer look, which names what is wrong.

    One conversion by type takes half the time of looking at field after field.
    """
    fields = (
        event.block_hashes,
        event.parent_block_hash,
        event.token_ids,
        event.block_size,
        event.medium,
        event.group_idx,
        event.lora_id,
        event.scope,
        event.extra_keys,
        event.mm_keys,
        event.kv_cache_spec_sliding_window,
    )
    try:
        msgspec.convert(fields, _Plain)
    except msgspec.ValidationError:
        return False
    return len(event.token_ids) == len(event.block_hashes) * event.block_size


def _check_event(event: Event) -> None:
    if isinstance(event, BlockStored) and _is_plain(event):
        return
    if event.medium == "":
        raise WireError("medium: empty; send a name or nil")
    if isinstance(event, AllBlocksCleared):
        return
    if not event.block_hashes:
        raise WireError("block_hashes: empty")
    _check_ints("block_hashes", event.block_hashes, I64_MIN, U64_MAX)
    if event.group_idx is not None:
        _check_int("group_idx", event.group_idx, 0, RANK_MAX)
    if isinstance(event, BlockStored):
        _check_stored(event)


def _check_stored(event: BlockStored) -> None:
    if event.scope is not None and not _SCOPE.fullmatch(event.scope):
        raise WireError(f"scope: {event.scope!r} is not a tag of 16 lower-case hex digits")
    if event.lora_id is not None:
        _check_int("lora_id", event.lora_id, 0, U64_MAX)
    if event.block_size == 0 and not event.token_ids:
        _check_location(event)
        return
    blocks = len(event.block_hashes)
    _check_int("block_size", event.block_size, 1, U32_MAX)
    if len(event.token_ids) != blocks * event.block_size:
        raise WireError(f"token_ids: {len(event.token_ids)} tokens for {blocks} blocks of {event.block_size}")
    if str in map(type, event.token_ids):
        _check_mixed(event)
    else:
        _check_ints("token_ids", event.token_ids, 0, U32_MAX)
    if event.extra_keys is not None:
        _check_extra_keys(event.extra_keys, blocks)
    if event.mm_keys is not None:
        _check_mm_keys(event.mm_keys, blocks)
    if event.parent_block_hash is not None:
        _check_int("parent_block_hash", event.parent_block_hash, I64_MIN, U64_MAX)
    if event.kv_cache_spec_sliding_window is not None:
        _check_int("kv_cache_spec_sliding_window", event.kv_cache_spec_sliding_window, 0, U64_MAX)


def _check_extra_keys(extra_keys: Sequence[object], blocks: int) -> None:
    if len(extra_keys) != blocks:
        raise WireError(f"extra_keys: {len(extra_keys)} entries for {blocks} blocks")
    for block, extra in enumerate(extra_keys):
        if extra is not None and not isinstance(extra, tuple | list):
            raise WireError(f"extra_keys[{block}]: {extra!r} is neither nil nor an array")


def _check_mm_keys(mm_keys: Sequence[Sequence[MmKey]], blocks: int) -> None:
    if len(mm_keys) != blocks:
        raise WireError(f"mm_keys: {len(mm_keys)} entries for {blocks} blocks")
    for block, keys in enumerate(mm_keys):
        for key in keys:
            if not _DIGEST.fullmatch(key.hash):
                raise WireError(f"mm_keys[{block}]: {key.hash!r} is not a hash of 64 hex digits")
            _check_int(f"mm_keys[{block}].start_offset", key.start_offset, 0, U32_MAX)


def _check_location(event: BlockStored) -> None:
    if event.parent_block_hash is not None or event.medium in (None, _DEVICE):
        raise WireError(f"no tokens, and no location update: those have a medium beside {_DEVICE}, no parent")


def _check_mixed(event: BlockStored) -> None:
    for index, token in enumerate(event.token_ids):
        if not isinstance(token, str):
            _check_int(f"token_ids[{index}]", token, 0, U32_MAX)
        elif not _DIGEST.fullmatch(token):
            raise WireError(f"token_ids[{index}]: {token!r} is not a digest of 64 hex digits")
    if event.mm_keys is None:
        raise WireError("mm_keys: absent, although token_ids holds a digest")
