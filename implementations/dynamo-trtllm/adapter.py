"""Adapter: the ``ZmqKvEventPublisher`` of ``dynamo.trtllm.publisher`` (ai-dynamo 1.6.1), driven from the outside.

``python adapter.py`` in an environment that has the packages of requirements.txt. Nothing is stubbed.
The class builds batches and events by itself, one event a message, and stamps them. Requests and answers: ../README.md.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, TextIO

BLOCK_SIZE = 16
"""Tokens of a block, unless ``start`` says otherwise: the constructor wants it."""
TOPIC = "kv-events"
"""The topic unless asked otherwise; the constructor's default is empty, which would hide a wrong frame."""
STATEMENT: dict[str, Any] = {
    "edition": "1",
    "profile": "core",
    "form": "map",
    "residency": "set",
    "replay_form": "none",
    "block_size": BLOCK_SIZE,
}
"""What the class declares by its code. The hashes are the caller's, so no algorithm is declared."""

CARRIES = {
    "BlockStored": {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_name"},
    "BlockRemoved": {"type", "block_hashes"},
    "AllBlocksCleared": {"type"},
}
"""Per event, the fields of the standard for which the class has a parameter (the block size is its constructor's)."""
IMPLIED: dict[str, tuple[Any, ...]] = {"medium": ("GPU",), "group_idx": (0,)}
"""Fields without a parameter, and the values that an engine's events of this class have all the same."""
SHUTDOWN_S = 5.0
"""How long the class's shutdown may take: it closes a socket that lingers for ever."""


class Refused(Exception):
    """The request cannot be honoured; ``adapter:`` leads where the adapter says so and not the publisher."""


class Adapter:
    """One publisher and the verbs that drive it."""

    can = ("hello", "start", "publish", "burst", "fault", "stats", "restart", "stop")

    def __init__(self) -> None:
        self.version = importlib.metadata.version("ai-dynamo")
        self.peer = importlib.import_module("dynamo.trtllm.publisher")
        self.zmq = importlib.import_module("zmq")
        self.publisher: Any = None
        self.config: dict[str, Any] = {}
        self.rank = 0
        self.sent: int | None = None
        self.private: str | None = None

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        name = "dynamo.trtllm ZmqKvEventPublisher"
        return {
            "protocol": "kvwire-adapter-1.1",
            "implementation": name,
            "version": self.version,
            "statement": {**STATEMENT, "implementation": {"name": name, "version": self.version}},
            "can": list(self.can),
            "sets": ["engine", "rank"],
        }

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.publisher is not None:
            raise Refused("adapter: it is started already")
        takes = {"endpoint", "replay", "topic", "rank", "world", "ranks_per_host", "block_size"}
        given = options(request, takes)
        if given.get("replay", "none") != "none":
            raise Refused("adapter: this publisher has no replay socket")
        self.private = tempfile.mkdtemp(prefix="kvwire-trtllm-")
        self.rank = given.get("rank", 0)
        self.config = {
            "zmq_endpoint": given.get("endpoint", f"ipc://{self.private}/events"),
            "kv_block_size": given.get("block_size", BLOCK_SIZE),
            "topic": given.get("topic", TOPIC),
        }
        return self.begin()

    def begin(self) -> dict[str, Any]:
        """Begin a life of the publisher with the options of ``start``."""
        try:
            self.publisher = self.peer.ZmqKvEventPublisher(**self.config)
        except (ValueError, OSError, self.zmq.ZMQError) as error:
            self.close()
            raise Refused(f"{type(error).__name__}: {error}") from error
        return {
            "endpoint": self.publisher.zmq_endpoint,
            "replay": None,
            "topic": self.publisher.topic,
            "rank": self.rank,
            "mode": "connect",
        }

    def publish(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.offer(*self.batch(request["batch"]))

    def burst(self, request: dict[str, Any]) -> dict[str, Any]:
        answers = [self.offer(*call) for call in [self.batch(projected) for projected in request["batches"]]]
        return {key: [answer[key] for answer in answers] for key in ("accepted", "blocked_us")}

    def offer(self, method: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make one call of the publisher and time it."""
        before = time.monotonic_ns()
        method(**arguments)
        return {"accepted": True, "blocked_us": (time.monotonic_ns() - before) // 1000}

    def batch(self, projected: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The method that publishes a projected batch, and its arguments."""
        rank = projected["data_parallel_rank"]
        if len(projected["events"]) != 1:
            raise Refused(f"adapter: a message of this publisher is one event, not {len(projected['events'])}")
        return self.call(projected["events"][0], self.rank if rank is None else rank)

    def call(self, event: dict[str, Any], rank: int) -> tuple[Any, dict[str, Any]]:
        """The method that publishes a projected event, and its arguments.

        A field without a parameter is left out when the class's events imply its value, as the engine's caller leaves
        it out, and refused otherwise: it would turn one event into another.
        """
        if self.publisher is None:
            raise Refused("adapter: it is not started")
        name = event.get("type")
        if name not in CARRIES:
            raise Refused(f"adapter: this publisher has no event {name!r}")
        for key, value in event.items():
            named = key == "lora_id" and event.get("lora_name")
            implied = value is None or value in IMPLIED.get(key, ()) or named
            if key not in CARRIES[name] and not implied:
                raise Refused(f"adapter: {name} of this publisher has no field for {key} = {value!r}")
        if name == "AllBlocksCleared":
            return self.publisher.publish_all_cleared, {"attention_dp_rank": rank}
        hashes = [int(block_hash) for block_hash in event["block_hashes"]]
        if name == "BlockRemoved":
            return self.publisher.publish_removed, {"block_hashes": hashes, "attention_dp_rank": rank}
        if event["block_size"] != self.publisher.kv_block_size:
            size = self.publisher.kv_block_size
            raise Refused(f"adapter: the block size is the constructor's, {size} since start")
        parent = event.get("parent_block_hash")
        return self.publisher.publish_stored, {
            "token_ids": event["token_ids"],
            "num_block_tokens": [event["block_size"]] * len(hashes),
            "block_hashes": hashes,
            "parent_hash": None if parent is None else int(parent),
            "attention_dp_rank": rank,
            "lora_name": event.get("lora_name"),
        }

    def fault(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("kind") != "encode":
            raise Refused(f"adapter: no way to cause the fault {request.get('kind')!r} in this publisher")
        if self.publisher is None:
            raise Refused("adapter: it is not started")
        self.publisher.publish_removed([1 << 70], self.rank)
        return {}

    def stats(self, _: dict[str, Any]) -> dict[str, Any]:
        # The class counts the messages that it encoded and handed to its socket; no offers and no losses.
        if self.publisher is not None:
            self.sent = self.publisher.sequence
        return {"offered": None, "sent": self.sent, "dropped": None, "rss": resident_bytes("self")}

    def restart(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.publisher is None:
            raise Refused("adapter: it is not started")
        self.end()
        return self.begin()

    def stop(self, _: dict[str, Any]) -> dict[str, Any]:
        self.close()
        return {}

    def end(self) -> None:
        """End this life by the class's own shutdown, which ends its context too."""
        if self.publisher is None:
            return
        ending = threading.Thread(target=self.publisher.shutdown, daemon=True)
        self.sent = self.publisher.sequence
        self.publisher = None
        ending.start()
        ending.join(SHUTDOWN_S)
        if ending.is_alive():
            raise TimeoutError(f"the publisher's shutdown did not return within {SHUTDOWN_S} s")

    def close(self) -> None:
        try:
            self.end()
        finally:
            if self.private is not None:
                shutil.rmtree(self.private)
                self.private = None


def options(request: dict[str, Any], takes: set[str]) -> dict[str, Any]:
    """The options given with ``start``; one that the publisher does not have is refused by name."""
    given = {key: value for key, value in request.items() if key not in ("id", "verb") and value is not None}
    if unknown := sorted(set(given) - takes):
        raise Refused(f"adapter: this publisher has no option {', '.join(unknown)}")
    return given


def resident_bytes(pid: int | str) -> int:
    """Resident memory of a process in bytes, from Linux's /proc."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


# The loop below is the same in every adapter.


def serve(adapter: Any, answers: TextIO) -> None:
    """Answer one request a line until the input ends; an error is an answer, with its trace on standard error."""
    for line in sys.stdin.buffer:
        number = None
        try:
            request = json.loads(line)
            number, verb = request["id"], request["verb"]
            known = verb in adapter.can
            answer = {"ok": getattr(adapter, verb)(request)} if known else {"unsupported": verb}
        except Refused as reason:
            answer = {"refused": str(reason)}
        except Exception as error:
            logging.exception("a request failed")
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": number, **answer}), file=answers, flush=True)


def take_stdout() -> TextIO:
    """Keep the real standard output for answers; whatever else prints goes to standard error, the peer included."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def run(adapter: Any, answers: TextIO) -> None:
    """Serve until the input ends or a signal says so; either way the publisher ends and temporary files go."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        serve(adapter, answers)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        adapter.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    stdout = take_stdout()
    run(Adapter(), stdout)
