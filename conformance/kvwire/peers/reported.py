"""Faults that public reports tell of and that stand nowhere else: one small edit each of a payload or of hashes."""

from __future__ import annotations

import secrets
from typing import Any

from kvwire.peers.payloads import Edited
from kvwire_reference.cache import CacheEngine
from kvwire_reference.hashing import ChainState
from kvwire_reference.publisher import PublisherConfig


class ZeroParent(Edited):
    """Names 0 as the parent of every continuing store."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return event if event["parent_block_hash"] is None else {**event, "parent_block_hash": 0}


class ZeroForNil(Edited):
    """Names 0 as the parent of every first block."""

    def edit_stored(self, event: dict[str, Any]) -> Any:
        return {**event, "parent_block_hash": event["parent_block_hash"] or 0}


class SkipsAParent(Edited):
    """Names the parent's parent as the parent of continuing stores, where there is one."""

    def __init__(self, config: PublisherConfig) -> None:
        self._above: dict[int, int | None] = {}
        super().__init__(config)

    def edit_stored(self, event: dict[str, Any]) -> Any:
        parent = event["parent_block_hash"]
        for value, above in zip(event["block_hashes"], [parent, *event["block_hashes"]], strict=False):
            self._above[value] = above
        skipped = None if parent is None else self._above.get(parent)
        return event if skipped is None else {**event, "parent_block_hash": skipped}


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
