"""An adapter whose engine publishes by a thread of its own, some time after the call has returned.

Arguments: how late events are in seconds, and the declared bound by which a reset shows.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from kvwire.peers.adapter import Peer, serve
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.outlet import Outlet
from kvwire_reference.wire import Batch

LOCK = threading.RLock()


class LateEngine(CacheEngine):
    """Counts a batch as offered when the thread offers it."""

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        threading.Thread(target=self._loop, daemon=True).start()

    def insert(self, *tokens: Any, **options: Any) -> int:
        with LOCK:
            return super().insert(*tokens, **options)

    def reset(self) -> None:
        with LOCK:
            super().reset()

    def flush(self) -> Batch | None:
        """What a call caused is not published by the call."""
        return None

    def _loop(self) -> None:
        while True:
            time.sleep(float(sys.argv[1]))
            with LOCK:
                super().flush()


if __name__ == "__main__":
    bounds = {"reset_visible_s": float(sys.argv[2])}
    serve(Peer(name="late", make_engine=LateEngine, statement={"bounds": bounds}))
