"""Faults that public reports tell of and that stand nowhere else: one small edit each of a payload or of hashes."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from kvwire.peers.payload_faults import Edited, Payload
from kvwire_reference.cache import CacheEngine
from kvwire_reference.hashing import ChainState


class ZeroParent(Edited):
    """Names 0 as the parent of every continuing store."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return event if event["parent_block_hash"] is None else {**event, "parent_block_hash": 0}


class ZeroForNil(Edited):
    """Names 0 as the parent of every first block."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "parent_block_hash": event["parent_block_hash"] or 0}


class BigramTokens(Edited):
    """Sends pairs of tokens, each with the one after it, as engines do that draft by EAGLE."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        tokens = event["token_ids"]
        return {**event, "token_ids": [list(pair) for pair in zip(tokens, [*tokens[1:], 0], strict=True)]}


class SpansSkippedBlocks(Edited):
    """Sends with every fifth batch of stores the tokens of one block more than it has hashes."""

    every = 5

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "token_ids": [*event["token_ids"], *event["token_ids"][: event["block_size"]]]}


class SeededHashes(CacheEngine):
    """Begins every chain with a secret of its process, so that no two processes have the same hashes."""

    _secret = tuple(secrets.randbelow(2**31) for _ in range(16))

    def _root_state(self, lora_id: int | None, salt_id: int | None) -> ChainState:
        return self.algorithm.next(super()._root_state(lora_id, salt_id), self._secret)


class HalvesBlockSize(Edited):
    """Says half the size of a block, as of what lies on one of two devices."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "block_size": event["block_size"] // 2}


class TokenlessTier(Edited):
    """Announces stores in host memory too, without tokens or size."""

    def edit(self, payload: Payload) -> Any:
        payload = super().edit(payload)
        payload[1] += [
            {**event, "medium": "CPU", "token_ids": [], "block_size": 0, "parent_block_hash": None}
            for event in payload[1]
            if event["type"] == "BlockStored"
        ]
        return payload


class FinerTier(Edited):
    """Announces stores in host memory too, cut into blocks of half the size."""

    def edit(self, payload: Payload) -> Any:
        payload = super().edit(payload)
        payload[1] += [self._cut(event) for event in payload[1] if event["type"] == "BlockStored"]
        return payload

    def _cut(self, event: dict[str, Any]) -> dict[str, Any]:
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
        return {**event, "medium": "CPU", "block_hashes": hashes, "block_size": size}
