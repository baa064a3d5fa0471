"""Publishers that break the batch, the event or the rank: one small edit each of an encoded payload."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch

Payload = list[Any]
"""``[ts, events, rank]`` in plain values."""


class Edited(ZmqPublisher):
    """Encodes honestly, then edits; ``every`` is how often, ``turn`` counts the batches that hold events."""

    every: ClassVar[int] = 1

    def __init__(self, config: PublisherConfig) -> None:
        self.turn = 0
        super().__init__(config)

    def _encode(self, batch: Batch) -> bytes:
        honest = super()._encode(batch)
        payload: Payload = msgspec.msgpack.decode(honest)
        if batch.events:
            self.turn += 1
        if self.turn % self.every:
            return honest
        return self.write(self.edit(payload))

    def edit(self, payload: Payload) -> Any:
        """Change the payload, by default event by event."""
        payload[1] = [self.edit_event(event) for event in payload[1]]
        return payload

    def edit_event(self, event: dict[str, Any]) -> Any:
        """Change one event, by default by type."""
        match event["type"]:
            case "BlockStored":
                return self.edit_stored(event)
            case "BlockRemoved":
                return self.edit_removed(event)
            case _:
                return event

    def edit_stored(self, event: dict[str, Any]) -> Any:
        """Change one ``BlockStored``."""
        return event

    def edit_removed(self, event: dict[str, Any]) -> Any:
        """Change one ``BlockRemoved``."""
        return event

    def write(self, payload: Any) -> bytes:
        """Encode what came of it."""
        return msgspec.msgpack.encode(payload)


# --- batch -------------------------------------------------------------------------------------------------------


class BatchOfTwo(Edited):
    """Leaves the rank out."""

    def edit(self, payload: Payload) -> Any:
        return payload[:2]


class IntegerTs(Edited):
    """Sends ``ts`` as whole seconds in an integer."""

    def edit(self, payload: Payload) -> Any:
        return [int(payload[0]), *payload[1:]]


class NanTs(Edited):
    """Sends a ``ts`` that is not a number, now and then."""

    every = 5

    def edit(self, payload: Payload) -> Any:
        return [float("nan"), *payload[1:]]


class MillisecondTs(Edited):
    """Sends ``ts`` in milliseconds."""

    def edit(self, payload: Payload) -> Any:
        return [payload[0] * 1000, *payload[1:]]


class TsGoesBack(Edited):
    """Sends a ``ts`` of ten seconds ago, now and then."""

    every = 7

    def edit(self, payload: Payload) -> Any:
        return [payload[0] - 10, *payload[1:]]


class EventsInMap(Edited):
    """Sends ``events`` as a map from index to event, now and then."""

    every = 9

    def edit(self, payload: Payload) -> Any:
        return [payload[0], dict(enumerate(payload[1])), payload[2]]


# --- rank --------------------------------------------------------------------------------------------------------


class NilRank(Edited):
    """Sends nil as rank."""

    def edit(self, payload: Payload) -> Any:
        return [*payload[:2], None]


class SwitchingRank(Edited):
    """Sends another rank, now and then."""

    every = 6

    def edit(self, payload: Payload) -> Any:
        return [*payload[:2], payload[2] + 1]


class WrongRank(Edited):
    """Sends the rank after its own."""

    def _encode(self, batch: Batch) -> bytes:
        return msgspec.msgpack.encode([*msgspec.msgpack.decode(super()._encode(batch))[:2], self.rank + 1])


# --- the event's map ---------------------------------------------------------------------------------------------


class ArrayEvent(Edited):
    """Sends its stores as tagged arrays, vLLM's form until mid-2026."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        slots = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name")
        return ["BlockStored", *(event[slot] for slot in slots)]


class IntegerKey(Edited):
    """Adds a key that is an integer."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, 7: None}


class KeyTwice(Edited):
    """Sends ``medium`` twice in a store."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        pairs = [*event.items(), ("medium", event["medium"])]
        assert len(pairs) < 16
        body = b"".join(msgspec.msgpack.encode(key) + msgspec.msgpack.encode(value) for key, value in pairs)
        return msgspec.Raw(bytes([0x80 | len(pairs)]) + body)


class ExtType(Edited):
    """Sends ``locality`` as a msgpack ext value."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "locality": msgspec.msgpack.Ext(5, b"LOCAL")}


class NoLoraName(Edited):
    """Leaves ``lora_name`` out when it is nil, as SGLang does."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {key: value for key, value in event.items() if key != "lora_name"}


class RemovedWithoutMedium(Edited):
    """Leaves ``medium`` out of removals."""

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return {key: value for key, value in event.items() if key != "medium"}


# --- values of one event -----------------------------------------------------------------------------------------


class BytesHashes(Edited):
    """Sends hashes as eight raw bytes."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "block_hashes": [(value % 2**64).to_bytes(8, "big") for value in event["block_hashes"]]}

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return self.edit_stored(event)


class UnsignedHashes(Edited):
    """Sends hashes unsigned."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        parent = event["parent_block_hash"]
        return {**self.edit_removed(event), "parent_block_hash": None if parent is None else parent % 2**64}

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return {**event, "block_hashes": [value % 2**64 for value in event["block_hashes"]]}


class ZeroHash(Edited):
    """Calls the first block that it ever stores 0, always."""

    zero: int | None = None

    def _name(self, value: int | None) -> int | None:
        return 0 if value == self.zero else value

    def edit_stored(self, event: dict[str, Any]) -> Any:
        if self.zero is None:
            self.zero = event["block_hashes"][0]
        parent = event["parent_block_hash"]
        return {**self.edit_removed(event), "parent_block_hash": None if parent is None else self._name(parent)}

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return {**event, "block_hashes": [self._name(value) for value in event["block_hashes"]]}


class NegativeToken(Edited):
    """Sends the first token of every third store as −1."""

    every = 3

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "token_ids": [-1, *event["token_ids"][1:]]}


class DigestsWithoutKeys(Edited):
    """Sends digest tokens without ``mm_keys``."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {key: value for key, value in event.items() if key != "mm_keys"}


class OtherBlockSize(Edited):
    """Calls the same blocks half as long and twice as many, now and then; hashes between are made up."""

    every = 8

    def edit_stored(self, event: dict[str, Any]) -> Any:
        halves = [half for value in event["block_hashes"] for half in (value ^ 0x5A5A5A5A, value)]
        return {**event, "block_hashes": halves, "block_size": event["block_size"] // 2}


class EmptyMedium(Edited):
    """Sends an empty string as medium of its removals."""

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return {**event, "medium": ""}


class LowerCaseMedium(Edited):
    """Sends ``gpu``."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "medium": "gpu"}

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return self.edit_stored(event)


class TextLoraId(Edited):
    """Sends a LoRA id as text."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        lora = event["lora_id"]
        return {**event, "lora_id": None if lora is None else str(lora)}


class OtherGroupOnRemoval(Edited):
    """Removes from group 1 what it stored in group 0."""

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return {**event, "group_idx": 1}


# --- chains ------------------------------------------------------------------------------------------------------


class DanglingParent(Edited):
    """Names a parent that nobody stored, in every fifth batch of stores."""

    every = 5

    def edit_stored(self, event: dict[str, Any]) -> Any:
        if event["parent_block_hash"] is None:
            return event
        return {**event, "parent_block_hash": event["parent_block_hash"] ^ 0x1234}


class WindowGroup(Edited):
    """Calls its group a sliding window; no fault by itself."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        window = 16 * event["block_size"]
        return {**event, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": window}


class DanglingWindowParent(WindowGroup):
    """Names, in a window group, a parent that nobody ever stored there, now and then."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        parent = event["parent_block_hash"]
        if parent is not None and self.turn % 5 == 0:
            event = {**event, "parent_block_hash": parent ^ 0x1234}
        return super().edit_stored(event)


class NilParent(Edited):
    """Forgets the parent of every continuing store."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "parent_block_hash": None}


class SelfParent(Edited):
    """Names the first block of a store as its own parent, now and then."""

    every = 6

    def edit_stored(self, event: dict[str, Any]) -> Any:
        if event["parent_block_hash"] is None:
            return event
        return {**event, "parent_block_hash": event["block_hashes"][0]}


# --- announcements -----------------------------------------------------------------------------------------------


class Announces(Edited):
    """Announces ``label`` in every event."""

    label: ClassVar[str] = "v2_sha256_64/u64"

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "hash_algo": self.label}

    def edit_removed(self, event: dict[str, Any]) -> Any:
        return self.edit_stored(event)


class BareLabel(Announces):
    """Announces ``v2_sha256_64``, which does not say the token width."""

    label = "v2_sha256_64"


class ChangingLabel(Edited):
    """Announces the bare and the qualified label in turn; both are true."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "hash_algo": "v2_sha256_64" if self.turn % 2 else "v2_sha256_64/u32"}


# --- residency ---------------------------------------------------------------------------------------------------


class StoresTwice(Edited):
    """Repeats a store at the end of its batch, now and then."""

    every = 10

    def edit(self, payload: Payload) -> Any:
        repeated = [event for event in payload[1] if event["type"] == "BlockStored"][-1:]
        return [payload[0], payload[1] + repeated, payload[2]]


class RemovesTwice(Edited):
    """Repeats every removal in its own batch."""

    def edit(self, payload: Payload) -> Any:
        repeated = [event for event in payload[1] if event["type"] == "BlockRemoved"]
        return [payload[0], payload[1] + repeated, payload[2]]
