"""Publishers that break what an event says: one small edit each of its values."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import ClassVar

from kvwire.peers.mutant import LISTENED, OPAQUE, Session, mutant
from kvwire.peers.payload_faults import Edited, Event, Payload, of_type, without

# --- hashes ------------------------------------------------------------------------------------------------------


class _Renamed(Edited, ABC):
    """Calls blocks otherwise, wherever they are named."""

    @abstractmethod
    def name(self, value: int) -> int:
        """What the block of a hash is called."""

    def edit_blocks(self, event: Event) -> Event:
        event["block_hashes"] = [self.name(value) for value in event["block_hashes"]]
        if event.get("parent_block_hash") is not None:
            event["parent_block_hash"] = self.name(event["parent_block_hash"])
        return event


@mutant("bytes-hashes", breaks="EVT-007", change="hashes are raw bytes", reports="vllm#26264", session=LISTENED)
class BytesHashes(Edited):
    """Parents stay what they are."""

    def edit_blocks(self, event: Event) -> Event:
        return {**event, "block_hashes": [(value % 2**64).to_bytes(8, "big") for value in event["block_hashes"]]}


@mutant(
    "unsigned-hashes", breaks="EVT-008", change="hashes are unsigned", reports="TensorRT-LLM#17023", session=LISTENED
)
class UnsignedHashes(_Renamed):
    def name(self, value: int) -> int:
        return value % 2**64


@mutant("zero-hash", breaks="EVT-009", change="one block is called 0", statement=OPAQUE, session=LISTENED)
class ZeroHash(_Renamed):
    """The first block that it ever stores, always."""

    _zero: int | None = None

    def edit_stored(self, event: Event) -> Event:
        if self._zero is None:
            self._zero = event["block_hashes"][0]
        return self.edit_blocks(event)

    def name(self, value: int) -> int:
        return 0 if value == self._zero else value


# --- tokens and sizes --------------------------------------------------------------------------------------------


@mutant("negative-token", breaks="EVT-010", change="a token is -1 now and then", session=LISTENED)
class NegativeToken(Edited):
    every = 3

    def edit_stored(self, event: Event) -> Event:
        return {**event, "token_ids": [-1, *event["token_ids"][1:]]}


@mutant("bigram-tokens", breaks="EVT-010", change="token_ids holds pairs", reports="dynamo#6872", session=LISTENED)
class BigramTokens(Edited):
    """Each token with the one after it, as engines do that draft by EAGLE."""

    def edit_stored(self, event: Event) -> Event:
        tokens = event["token_ids"]
        return {**event, "token_ids": [list(pair) for pair in zip(tokens, [*tokens[1:], 0], strict=True)]}


@mutant(
    "digests-without-keys",
    breaks="EVT-012",
    change="digest tokens have no mm_keys",
    reports="TensorRT-LLM#18810",
    multimodal=True,
    session=Session(probes=("live", "prompts"), level="passive", profile="multimodal"),
)
class DigestsWithoutKeys(Edited):
    def edit_stored(self, event: Event) -> Event:
        return without(event, "mm_keys")


MULTIMODAL = Session(probes=("live", "prompts"), level="passive", profile="multimodal")


class _OtherKeys(Edited, ABC):
    """Sends other `mm_keys` with items."""

    @abstractmethod
    def key(self, key: Event) -> Event | None:
        """What becomes of one; None: it is left out."""

    def edit_stored(self, event: Event) -> Event:
        changed = [[self.key(dict(key)) for key in block] for block in event.get("mm_keys", ())]
        return {**event, "mm_keys": [[key for key in block if key is not None] for block in changed]}


@mutant(
    "numbered-items",
    breaks="EVT-030",
    change="the uuid of an item is a number",
    multimodal=True,
    session=MULTIMODAL,
)
class NumberedItems(_OtherKeys):
    def key(self, key: Event) -> Event:
        return {**key, "uuid": 7}


@mutant(
    "sized-items",
    breaks="EVT-030",
    change="the keys of items say how long these are",
    multimodal=True,
    session=MULTIMODAL,
)
class SizedItems(_OtherKeys):
    def key(self, key: Event) -> Event:
        return {**key, "length": 4}


@mutant(
    "other-items",
    breaks="EVT-031",
    change="the keys of items have another digest than their tokens",
    multimodal=True,
    session=MULTIMODAL,
)
class OtherItems(_OtherKeys):
    def key(self, key: Event) -> Event:
        return {**key, "hash": hashlib.sha256(key["hash"].encode()).hexdigest()}


@mutant(
    "forgets-long-items",
    breaks="EVT-031",
    change="an item that goes on in the next block has no key there",
    levels=("driven",),
    multimodal=True,
    session=Session(probes=("live", "prompts"), profile="multimodal"),
)
class ForgetsLongItems(_OtherKeys):
    def key(self, key: Event) -> Event | None:
        return None if key["start_offset"] else key


@mutant(
    "flat-extra-keys", breaks="EVT-029", change="extra_keys holds the keys of all blocks in a row", session=LISTENED
)
class FlatExtraKeys(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "extra_keys": ["adapter-7"] * len(event["block_hashes"])}


@mutant(
    "extra-keys-of-the-first-block",
    breaks="EVT-029",
    change="extra_keys has one element too few for the blocks behind the first",
    session=LISTENED,
)
class ExtraKeysOfTheFirstBlock(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "extra_keys": [[]] * max(1, len(event["block_hashes"]) - 1)}


@mutant(
    "spans-skipped-blocks",
    breaks="EVT-013",
    change="a store has the tokens of more blocks than it has hashes",
    reports="vllm#44451",
    session=LISTENED,
)
class SpansSkippedBlocks(Edited):
    every = 5

    def edit_stored(self, event: Event) -> Event:
        return {**event, "token_ids": [*event["token_ids"], *event["token_ids"][: event["block_size"]]]}


@mutant(
    "halves-block-size",
    breaks="EVT-013",
    change="block_size is half of what a block holds",
    also="EVT-014",
    reason="it is not the declared one either",
    reports="sglang#35298",
    session=LISTENED,
)
class HalvesBlockSize(Edited):
    """As of what lies on one of two devices."""

    def edit_stored(self, event: Event) -> Event:
        return {**event, "block_size": event["block_size"] // 2}


@mutant(
    "other-block-size",
    breaks="EVT-014",
    change="blocks are called half as long now and then",
    driven="HSH-008 RES-001 RES-003",
    reason="what it makes up for the halves of two groups' blocks is the same now and then; the engine does not hold "
    "the blocks that were made up, and never removes them",
    reports="sglang#6824 dynamo#9376",
    statement=OPAQUE,
    session=LISTENED,
)
class OtherBlockSize(Edited):
    """Calls the same blocks half as long and twice as many; hashes between are made up."""

    every = 8

    def edit_stored(self, event: Event) -> Event:
        halves = [half for value in event["block_hashes"] for half in (value ^ 0x5A5A5A5A, value)]
        return {**event, "block_hashes": halves, "block_size": event["block_size"] // 2}


# --- medium, group and LoRA adapter ------------------------------------------------------------------------------


@mutant("empty-medium", breaks="EVT-015", change="the medium of removals is an empty string", session=LISTENED)
class EmptyMedium(Edited):
    def edit_removed(self, event: Event) -> Event:
        return {**event, "medium": ""}


@mutant("lower-case-medium", breaks="EVT-016", change="the medium is called gpu", session=LISTENED)
class LowerCaseMedium(Edited):
    def edit_blocks(self, event: Event) -> Event:
        return {**event, "medium": "gpu"} if event.get("medium") == "GPU" else event


@mutant(
    "other-group-on-removal",
    breaks="EVT-017",
    change="removals name another group than stores",
    reports="smg#1652",
    session=LISTENED,
)
class OtherGroupOnRemoval(Edited):
    def edit_removed(self, event: Event) -> Event:
        return {**event, "group_idx": 1}


@mutant(
    "text-lora-id",
    breaks="EVT-021",
    change="lora_id is a string",
    session=Session(probes=("live", "prompts"), level="passive"),
)
class TextLoraId(Edited):
    def edit_stored(self, event: Event) -> Event:
        lora = event["lora_id"]
        return {**event, "lora_id": None if lora is None else str(lora)}


@mutant(
    "negative-lora-id",
    breaks="EVT-021",
    change="LoRA ids are negative",
    statement=OPAQUE,
    session=Session(probes=("live", "prompts"), level="passive"),
)
class NegativeLoraId(Edited):
    """As of ids that are 64 bits without a sign, and are sent with one."""

    def edit_stored(self, event: Event) -> Event:
        lora = event["lora_id"]
        return {**event, "lora_id": None if lora is None else lora - 2**63}


@mutant("numbered-session", breaks="EVT-021", change="session_id is a number", session=LISTENED)
class NumberedSession(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "session_id": 7}


@mutant(
    "kind-of-another-name",
    breaks="EVT-036",
    change="stores call their group by another kind than the declared one",
    statement={"groups": [{"idx": 0, "kind": "full_attention"}]},
    session=LISTENED,
)
class KindOfAnotherName(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "kv_cache_spec_kind": "mla_attention"}


@mutant(
    "declares-arrays",
    breaks="EVT-037",
    change="a legacy form is declared, and maps are sent",
    statement={"form": "array-v"},
    session=LISTENED,
)
class DeclaresArrays(Edited):
    """Declared is the form before an update of the engine."""


@mutant(
    "unknown-type-among-others",
    breaks="EVT-034",
    change="an event of an unknown type stands beside stores",
    session=LISTENED,
)
class UnknownTypeAmongOthers(Edited):
    def edit(self, payload: Payload) -> Payload:
        stores = of_type(payload, "BlockStored")
        payload[1] += [{"type": "BlockUpdated", "block_hashes": event["block_hashes"]} for event in stores]
        return payload


# --- salts -------------------------------------------------------------------------------------------------------

SALTED = Session(probes=("live", "prompts"))


@mutant(
    "tags-first-blocks",
    breaks="EVT-028",
    change="only the first store of a salted chain has the scope tag",
    levels=("driven",),
    salt="tag",
    session=SALTED,
)
class TagsFirstBlocks(Edited):
    def edit_stored(self, event: Event) -> Event:
        return event if event["parent_block_hash"] is None else without(event, "scope")


@mutant(
    "tag-in-capitals",
    breaks="EVT-028",
    change="scope tags are written in capitals",
    salt="tag",
    session=Session(probes=("live", "prompts"), level="passive"),
)
class TagInCapitals(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "scope": event["scope"].upper()} if "scope" in event else event


@mutant(
    "tags-undeclared",
    breaks="EVT-038",
    change="scope tags are sent, and the statement knows of none",
    salt="tag",
    statement={"salt": "none"},
    session=Session(probes=("live", "prompts"), level="passive"),
)
class TagsUndeclared(Edited):
    """Declared is what held before tags were switched on."""


# --- a second tier -----------------------------------------------------------------------------------------------


class _SecondTier(Edited, ABC):
    """Announces stores in host memory too."""

    def edit(self, payload: Payload) -> Payload:
        payload[1] += [{**self.copied(event), "medium": "CPU"} for event in of_type(payload, "BlockStored")]
        return payload

    @abstractmethod
    def copied(self, event: Event) -> Event:
        """What is announced there."""


@mutant(
    "tokenless-tier",
    breaks="EVT-013",
    change="stores in another medium have no tokens",
    also="EVT-014 RES-001",
    driven="RES-003",
    reason="nor a size; nothing is ever removed there, and comes again",
    reports="vllm#43468",
    session=LISTENED,
)
class TokenlessTier(_SecondTier):
    def copied(self, event: Event) -> Event:
        return {**event, "token_ids": [], "block_size": 0, "parent_block_hash": None}


@mutant(
    "finer-tier",
    breaks="EVT-014",
    change="stores in another medium have smaller blocks",
    also="RES-001",
    driven="RES-003",
    reason="nothing is ever removed there, and comes again",
    reports="vllm#51614",
    statement=OPAQUE,
    session=LISTENED,
)
class FinerTier(_SecondTier):
    """Cuts blocks in half."""

    def copied(self, event: Event) -> Event:
        size = event["block_size"] // 2
        tokens = event["token_ids"]
        hashes: list[int] = []
        above = event["parent_block_hash"]
        for start in range(0, len(tokens), size):
            own = repr((above, event["lora_id"], tokens[start : start + size])).encode()
            above = int.from_bytes(hashlib.blake2b(own, digest_size=8).digest(), "big", signed=True)
            hashes.append(above)
            if len(hashes) % 2 == 0:
                above = event["block_hashes"][len(hashes) // 2 - 1]
        return {**event, "block_hashes": hashes, "block_size": size}


# --- parents -----------------------------------------------------------------------------------------------------


class _OtherParent(Edited, ABC):
    """Names another parent of continuing stores."""

    @abstractmethod
    def parent(self, event: Event) -> int:
        """The one that it names."""

    def edit_stored(self, event: Event) -> Event:
        return event if event["parent_block_hash"] is None else {**event, "parent_block_hash": self.parent(event)}


@mutant(
    "dangling-parent",
    breaks="CHN-003",
    change="a parent is not resident",
    driven="CHN-002",
    reason="in a window group it was never stored",
    reports="vllm#58119 llm-d-kv-cache#372",
    session=LISTENED,
)
class DanglingParent(_OtherParent):
    """Nobody ever stored it."""

    every = 5

    def parent(self, event: Event) -> int:
        return int(event["parent_block_hash"]) ^ 0x1234


@mutant(
    "dangling-window-parent", breaks="CHN-002", change="a parent in a window group was never stored", session=LISTENED
)
class DanglingWindowParent(DanglingParent):
    """All of its events are of a window group, which is no fault by itself."""

    every = 1

    def edit_stored(self, event: Event) -> Event:
        if self.turn % 5 == 0:
            event = super().edit_stored(event)
        window = 16 * event["block_size"]
        return {**event, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": window}


@mutant(
    "self-parent",
    breaks="CHN-004",
    change="a block is its own parent",
    also="CHN-003 HSH-008",
    driven="CHN-002",
    reason="the block is not resident when it is named, nor stored before, and begins a chain of its own",
    reports="sglang#13488",
    statement=OPAQUE,
    session=LISTENED,
)
class SelfParent(_OtherParent):
    every = 6

    def parent(self, event: Event) -> int:
        return int(event["block_hashes"][0])


@mutant(
    "zero-parent",
    breaks="CHN-003",
    change="the parent of a continuing store is 0",
    also="EVT-009",
    driven="CHN-002",
    reason="0 is no hash to be named, and was never stored in a window group",
    reports="llm-d-inference-sim#570",
    session=LISTENED,
)
class ZeroParent(_OtherParent):
    def parent(self, event: Event) -> int:
        return 0


@mutant(
    "zero-for-nil",
    breaks="CHN-003",
    change="the parent of a first block is 0",
    also="EVT-009",
    driven="CHN-001 CHN-002",
    reason="0 is no hash to be named, nor was it stored, and a prompt's first block has no parent",
    reports="llm-d-inference-sim#570",
    session=LISTENED,
)
class ZeroForNil(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "parent_block_hash": event["parent_block_hash"] or 0}


@mutant(
    "nil-parent",
    breaks="CHN-001",
    change="continuing stores have no parent",
    levels=("driven",),
    driven="HSH-006 HSH-008",
    reason="a chain that begins anew in its middle is another chain with the same hash, in a group of other blocks too",
    reports="vllm-ascend#12002 TensorRT-LLM#3543 llm-d-router#2153",
    statement=OPAQUE,
    session=Session(),
)
class NilParent(Edited):
    def edit_stored(self, event: Event) -> Event:
        return {**event, "parent_block_hash": None}


# --- announcements -----------------------------------------------------------------------------------------------


@mutant("announces-other-width", breaks="HSH-002", change="/u64 is announced and /u32 computed", session=LISTENED)
@mutant(
    "eight-byte-tokens",
    breaks="HSH-007",
    change="eight-byte tokens are hashed and announced",
    algorithm="v2_sha256_64/u64",
    session=LISTENED,
)
class Announces(Edited):
    """Announces ``label`` in every event that names blocks."""

    label: ClassVar[str] = "v2_sha256_64/u64"

    def edit_blocks(self, event: Event) -> Event:
        return {**event, "hash_algo": self.label}


@mutant("bare-label", breaks="HSH-004", change="the label does not say the token width", session=LISTENED)
class BareLabel(Announces):
    label = "v2_sha256_64"


@mutant(
    "changing-label",
    breaks="HSH-003",
    change="two labels are announced in turn",
    also="HSH-004",
    reason="one of the labels is bare",
    session=LISTENED,
)
class ChangingLabel(Edited):
    """The bare and the qualified one; both are true."""

    def edit_stored(self, event: Event) -> Event:
        return {**event, "hash_algo": "v2_sha256_64" if self.turn % 2 else "v2_sha256_64/u32"}
