"""Two ranks behind one OpenAI-compatible API: whoever sends a prompt there does not know which cache it meets."""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from kvwire.peers.adapter import PATH_ROOM, Adapter, Peer
from kvwire.peers.honest.mark import honest
from kvwire.peers.openai import RESETS, Api
from kvwire.standard import machine
from kvwire_reference.cache import CacheEngine
from kvwire_reference.endpoints import IPC_PATH_MAX

RANKS = 2
OPTIONS = {"topic": "kv-events", "capacity": 256, "block_size": 16}


class Balanced:
    """Prompts go to one rank after the other, a reset to all of them."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = adapters
        self._turns = itertools.cycle(adapters)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request."""
        if request["verb"] == "cache":
            return next(self._turns).answer(request)
        return [adapter.answer(request) for adapter in self._adapters][-1]


def serve(peer: Peer) -> None:
    """Serve two ranks until standard input ends; says how they are checked."""
    with ExitStack() as stack:
        folder = machine.folder(IPC_PATH_MAX - PATH_ROOM)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        live, replay = f"ipc://{folder / 'live'}", f"ipc://{folder / 'replay'}"
        adapters = [stack.enter_context(closing(Adapter(peer))) for _ in range(RANKS)]
        for rank, adapter in enumerate(adapters):
            where = {"endpoint": live, "replay": replay, "rank": rank, "world": RANKS, "ranks_per_host": RANKS}
            adapter.answer({"verb": "start", **OPTIONS, **where})
        api = stack.enter_context(Api(Balanced(adapters), RESETS["vllm"], salts=True))
        thread = threading.Thread(target=api.serve_forever, daemon=True)
        thread.start()
        target = f"zmq:{live}?replay={replay}&topic={OPTIONS['topic']}&ranks={RANKS}"
        print(shlex.join(["kvwire", "check", target, "--drive", f"openai:{api.url}"]), flush=True)
        sys.stdin.buffer.read()
        api.shutdown()


honest(
    "two-ranks-one-api",
    unlike="two ranks, each with a cache and a stream, take turns behind one API",
    passes="RNK-002 RNK-003 SEQ-003 EVT-013 HSH-008",
    open="CHN-001 RES-006",
    profile="ranks+replay",
    probes=("live", "prompts", "reset", "replay"),
    api=True,
)(CacheEngine)
