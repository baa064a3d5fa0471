"""Publishers that break the batch, the rank or the form of an event: one small edit each of an encoded payload."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from kvwire.peers.mutant import LISTENED, Session, mutant
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher
from kvwire_reference.wire import Batch

Payload = list[Any]
"""``[ts, events, rank]`` in plain values."""
Event = dict[str, Any]
"""An event in plain values."""


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
        return honest if self.turn % self.every else msgspec.msgpack.encode(self.edit(payload))

    def edit(self, payload: Payload) -> Payload:
        """Change the payload, by default event by event."""
        payload[1] = [self.edit_event(event) for event in payload[1]]
        return payload

    def edit_event(self, event: Event) -> Any:
        """Change one event, by default by type."""
        match event["type"]:
            case "BlockStored":
                return self.edit_stored(event)
            case "BlockRemoved":
                return self.edit_removed(event)
            case _:
                return event

    def edit_stored(self, event: Event) -> Any:
        """Change one ``BlockStored``."""
        return self.edit_blocks(event)

    def edit_removed(self, event: Event) -> Event:
        """Change one ``BlockRemoved``."""
        return self.edit_blocks(event)

    def edit_blocks(self, event: Event) -> Event:
        """Change an event that names blocks, whatever became of them."""
        return event


def of_type(payload: Payload, name: str) -> list[Event]:
    """The events of one type."""
    return [event for event in payload[1] if event["type"] == name]


def without(event: Event, name: str) -> Event:
    """An event without one of its keys."""
    return {key: value for key, value in event.items() if key != name}


# --- batch -------------------------------------------------------------------------------------------------------


@mutant("batch-of-two", breaks="BAT-001", change="the rank is left out", reports="aibrix#1720", session=LISTENED)
class BatchOfTwo(Edited):
    def edit(self, payload: Payload) -> Payload:
        return payload[:2]


@mutant("integer-ts", breaks="BAT-002", change="ts is an integer", session=LISTENED)
class IntegerTs(Edited):
    def edit(self, payload: Payload) -> Payload:
        return [int(payload[0]), *payload[1:]]


@mutant("nan-ts", breaks="BAT-003", change="ts is not a number now and then", session=LISTENED)
class NanTs(Edited):
    every = 5

    def edit(self, payload: Payload) -> Payload:
        return [float("nan"), *payload[1:]]


@mutant("millisecond-ts", breaks="BAT-003", change="ts counts milliseconds", session=LISTENED)
class MillisecondTs(Edited):
    def edit(self, payload: Payload) -> Payload:
        return [payload[0] * 1000, *payload[1:]]


@mutant("ts-goes-back", breaks="BAT-004", change="ts falls by ten seconds now and then", session=LISTENED)
class TsGoesBack(Edited):
    every = 7

    def edit(self, payload: Payload) -> Payload:
        return [payload[0] - 10, *payload[1:]]


@mutant("events-in-map", breaks="BAT-005", change="events is a map now and then", session=LISTENED)
class EventsInMap(Edited):
    """The map leads from index to event."""

    every = 9

    def edit(self, payload: Payload) -> Payload:
        return [payload[0], dict(enumerate(payload[1])), payload[2]]


# --- rank --------------------------------------------------------------------------------------------------------


@mutant("nil-rank", breaks="RNK-001", change="the rank is nil", reports="TensorRT-LLM#6563", session=LISTENED)
class NilRank(Edited):
    def edit(self, payload: Payload) -> Payload:
        return [*payload[:2], None]


@mutant(
    "switching-rank",
    breaks="RNK-002",
    change="the rank changes now and then",
    also="RNK-003",
    reason="the rank is declared",
    session=LISTENED,
)
class SwitchingRank(Edited):
    every = 6

    def edit(self, payload: Payload) -> Payload:
        return [*payload[:2], payload[2] + 1]


@mutant(
    "wrong-rank",
    breaks="RNK-003",
    change="another rank than the declared one",
    reports="llm-d-inference-sim#575",
    session=LISTENED,
)
class WrongRank(ZmqPublisher):
    def _encode(self, batch: Batch) -> bytes:
        return msgspec.msgpack.encode([*msgspec.msgpack.decode(super()._encode(batch))[:2], self.rank + 1])


# --- the event's map ---------------------------------------------------------------------------------------------


@mutant(
    "array-event",
    breaks="EVT-001",
    change="stores are tagged arrays",
    reports="kthena#1535 dynamo#3180",
    session=LISTENED,
)
class ArrayEvent(Edited):
    """As vLLM until mid-2026."""

    def edit_stored(self, event: Event) -> Any:
        slots = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"]
        if "group_idx" in event:
            slots += ["extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"]
        return ["BlockStored", *(event.get(slot) for slot in slots)]


@mutant("integer-key", breaks="EVT-002", change="a map key is an integer", session=LISTENED)
class IntegerKey(Edited):
    def edit_stored(self, event: Event) -> Any:
        return {**event, 7: None}


@mutant("key-twice", breaks="EVT-003", change="the key medium stands there twice", session=LISTENED)
class KeyTwice(Edited):
    def edit_stored(self, event: Event) -> Any:
        pairs = [*event.items(), ("medium", event["medium"])]
        assert len(pairs) < 16
        body = b"".join(msgspec.msgpack.encode(key) + msgspec.msgpack.encode(value) for key, value in pairs)
        return msgspec.Raw(bytes([0x80 | len(pairs)]) + body)


@mutant("ext-type", breaks="EVT-004", change="a value is of an ext type", session=LISTENED)
class ExtType(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "x-place": msgspec.msgpack.Ext(5, b"LOCAL")}


@mutant(
    "no-lora-name",
    breaks="EVT-005",
    change="lora_name is left out",
    reports="llm-d-inference-sim#272",
    session=LISTENED,
)
class NoLoraName(Edited):
    """As SGLang does when it is nil."""

    def edit_stored(self, event: Event) -> Event:
        return without(event, "lora_name")


@mutant(
    "removed-without-medium",
    breaks="EVT-006",
    change="removals have no medium",
    also="RES-001 RES-002",
    driven="RES-003",
    reason="an absent medium is one of its own: nothing was stored there, and what was stored elsewhere stays",
    session=LISTENED,
)
class RemovedWithoutMedium(Edited):
    def edit_removed(self, event: Event) -> Event:
        return without(event, "medium")


# --- events that come twice --------------------------------------------------------------------------------------


@mutant(
    "stores-twice", breaks="RES-001", change="a store is repeated", reports="dynamo#8012 vllm#45261", session=LISTENED
)
class StoresTwice(Edited):
    """Repeats the last store of a batch right behind it: further on its blocks may be gone again."""

    every = 10

    def edit(self, payload: Payload) -> Payload:
        events = list(payload[1])
        if stores := of_type(payload, "BlockStored"):
            events.insert(events.index(stores[-1]) + 1, stores[-1])
        return [payload[0], events, payload[2]]


@mutant(
    "removes-twice",
    breaks="RES-004",
    change="counted residency, and every removal comes twice",
    driven="EVT-017",
    reason="of a block that another group still holds, the second removal is one from the wrong group",
    reports="dynamo#8012",
    statement={"residency": "counted"},
    session=LISTENED,
)
class RemovesTwice(Edited):
    """Repeats removals in their own batch."""

    def edit(self, payload: Payload) -> Payload:
        return [payload[0], payload[1] + of_type(payload, "BlockRemoved"), payload[2]]


@mutant(
    "coarse-clock",
    breaks="BAT-007",
    change="batches are stamped with twentieths of a second",
    levels=("replayable", "driven"),
    session=Session(probes=("live", "prompts", "restart"), level="replayable", limits={"prompts": 60}),
)
class CoarseClock(ZmqPublisher):
    def _encode(self, batch: Batch) -> bytes:
        return super()._encode(msgspec.structs.replace(batch, ts=math.floor(batch.ts * 20) / 20))
