"""Adapter: the ``ZmqEventPublisher`` of vLLM 0.23 to 0.33, driven from the outside.

``python adapter.py FOLDER``, where FOLDER was filled by ``prepare.py`` with the files of one version. The publisher,
its factory, its events and its configuration are vLLM's own files; the modules in ``load`` take the place of what
would import torch. Requests and answers: ../README.md.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import os
import queue
import shutil
import signal
import struct
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any, TextIO

STATEMENT: dict[str, Any] = {
    "edition": "1",
    "residency": "set",
    "ring": 10_000,
    "queue": 100_000,
    "default_endpoint": "tcp://*:5557",
}
"""What vLLM declares by its defaults. The hashes are the caller's, so no algorithm is declared."""
MAPS_SINCE = (0, 24)
"""The first minor version whose events are maps; before it they are arrays."""
REPLAY_TOPIC_SINCE = (0, 26)
"""The first minor version whose replay has a topic frame."""

TOPIC = "kv-events"
"""The topic unless asked otherwise; vLLM's default is the empty one, which would hide a missing topic frame."""
OPTIONS = {"queue": "max_queue_size", "hwm": "hwm", "ring": "buffer_steps", "topic": "topic"}
"""Options of ``start`` and the fields of vLLM's ``KVEventsConfig`` that take them."""
DEPLOYMENT = {"world", "ranks_per_host", "block_size"}
"""Options that tell of the deployment: nothing in vLLM hands them to its publisher, and the events carry the last."""
SHUTDOWN_S = 5.0
"""How long to wait for a queue that was full when vLLM's shutdown was called."""
NULLABLE = ("parent_block_hash", "lora_id", "medium", "lora_name")
"""Fields that vLLM's structs require and its engine fills with None."""


class Refused(Exception):
    """The request cannot be honoured; ``adapter:`` leads where the adapter says so and not the publisher."""


class Adapter:
    """One publisher and the verbs that drive it."""

    can = ("hello", "start", "publish", "burst", "fault", "stats", "restart", "stop")

    def __init__(self, folder: Path) -> None:
        self.version = (folder / "VERSION").read_text(encoding="ascii").strip()
        self.peer = load(folder)
        self.zmq = importlib.import_module("zmq")
        self.publisher: Any = None
        self.config: dict[str, Any] = {}
        self.rank = 0
        self.private: str | None = None

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        name = "vllm ZmqEventPublisher"
        return {
            "protocol": "kvwire-adapter-1.1",
            "implementation": name,
            "version": self.version,
            "statement": {
                **STATEMENT,
                **forms(self.version),
                "implementation": {"name": name, "version": self.version},
            },
            "can": list(self.can),
            "sets": ["engine", "ts"],
        }

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.publisher is not None:
            raise Refused("adapter: it is started already")
        given = options(request, {"endpoint", "replay", "rank", *OPTIONS, *DEPLOYMENT})
        self.private = tempfile.mkdtemp(prefix="kvwire-vllm-")
        replay = given.get("replay", f"ipc://{self.private}/replay")
        self.config = {
            "endpoint": given.get("endpoint", f"ipc://{self.private}/events"),
            "replay_endpoint": None if replay == "none" else replay,
            "topic": TOPIC,
            **{field: given[option] for option, field in OPTIONS.items() if option in given},
        }
        self.rank = given.get("rank", 0)
        return self.begin()

    def begin(self) -> dict[str, Any]:
        """Begin a life of the publisher with the options of ``start``, as vLLM's scheduler does."""
        try:
            config = self.peer.KVEventsConfig(enable_kv_cache_events=True, publisher="zmq", **self.config)
            self.publisher = self.peer.EventPublisherFactory.create(config, self.rank)
        except (ValueError, AssertionError, OSError, self.zmq.ZMQError) as error:
            self.close()
            raise Refused(f"{type(error).__name__}: {error}") from error
        # What newer versions report by get_publisher_config().
        endpoint, replay = self.publisher._endpoint, self.publisher._replay_endpoint  # noqa: SLF001
        return {
            "endpoint": endpoint,
            "replay": replay,
            "topic": self.config["topic"],
            "rank": self.rank,
            "mode": "connect" if binds(endpoint) else "bind",
        }

    def publish(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.offer(self.batch(request["batch"]))

    def burst(self, request: dict[str, Any]) -> dict[str, Any]:
        answers = [self.offer(batch) for batch in [self.batch(projected) for projected in request["batches"]]]
        return {key: [answer[key] for answer in answers] for key in ("accepted", "blocked_us")}

    def batch(self, projected: dict[str, Any]) -> Any:
        """The struct of one projected batch."""
        if projected["data_parallel_rank"] not in (None, self.rank):
            raise Refused(f"adapter: the publisher fills in its own rank, {self.rank} since start")
        events = [self.event(event) for event in projected["events"]]
        return self.peer.KVEventBatch(ts=plain(projected["ts"]), events=events)

    def event(self, projected: dict[str, Any]) -> Any:
        """The struct of one projected event; nil and absent are the same to vLLM."""
        name = projected.get("type")
        if name not in ("BlockStored", "BlockRemoved", "AllBlocksCleared"):
            raise Refused(f"adapter: vLLM has no event {name!r}")
        struct_type = getattr(self.peer, name)
        known = struct_type.__struct_fields__
        fields = {key: value for key, value in plain(projected).items() if key != "type" and value is not None}
        if unknown := sorted(set(fields) - set(known)):
            raise Refused(f"adapter: vLLM's {name} has no field {', '.join(unknown)}")
        return struct_type(**{key: None for key in NULLABLE if key in known} | fields)

    def offer(self, batch: Any) -> dict[str, Any]:
        """Hand one batch to the running publisher and time the call."""
        if self.publisher is None:
            raise Refused("adapter: it is not started")
        before = time.monotonic_ns()
        self.publisher.publish(batch)
        return {"accepted": True, "blocked_us": (time.monotonic_ns() - before) // 1000}

    def fault(self, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("kind") != "encode":
            raise Refused(f"adapter: no way to cause the fault {request.get('kind')!r} in this publisher")
        too_large = self.peer.BlockRemoved(block_hashes=[1 << 70], medium="GPU")
        self.offer(self.peer.KVEventBatch(ts=time.time(), events=[too_large]))
        return {}

    def stats(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"offered": None, "sent": None, "dropped": None, "rss": resident_bytes("self")}

    def restart(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.publisher is None:
            raise Refused("adapter: it is not started")
        self.end()
        return self.begin()

    def stop(self, _: dict[str, Any]) -> dict[str, Any]:
        self.close()
        return {}

    def end(self) -> None:
        """End this life by vLLM's own shutdown, then the context, as the end of vLLM's process would.

        Without the second an ipc file is unlinked after the next life has bound it.
        """
        publisher, self.publisher = self.publisher, None
        try:
            if publisher is not None:
                publisher.shutdown()
        except queue.Full:
            # It could not put its own end into a full queue, and left thread and sockets. The thread drains the queue
            # nevertheless: ask again, so that the sockets are not closed under it, and still report the failure.
            deadline = time.monotonic() + SHUTDOWN_S
            while time.monotonic() < deadline:
                with contextlib.suppress(queue.Full):
                    publisher.shutdown()
                    break
                time.sleep(0.01)
            raise
        finally:
            self.zmq.Context.instance().destroy(linger=0)

    def close(self) -> None:
        try:
            self.end()
        finally:
            if self.private is not None:
                shutil.rmtree(self.private)
                self.private = None


def load(folder: Path) -> Any:
    """The module of vLLM's publisher, imported without torch from the files under ``folder``."""

    def stand_in(name: str, **members: Any) -> None:
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module

    for package in ("vllm", "vllm.config", "vllm.distributed", "vllm.utils", "vllm.v1", "vllm.v1.core"):
        stand_in(package, __path__=[str(folder.joinpath(*package.split(".")))])
    pydantic = importlib.import_module("pydantic")
    dataclass = importlib.import_module("pydantic.dataclasses").dataclass
    strict = pydantic.ConfigDict(extra="forbid")
    stand_in("vllm.logger", init_logger=logging.getLogger)
    stand_in("vllm.config.utils", config=functools.partial(dataclass, config=strict))
    stand_in("vllm.v1.core.kv_cache_utils", ExternalBlockHash=bytes | int)
    return importlib.import_module("vllm.distributed.kv_events")


def forms(version: str) -> dict[str, str]:
    """The profile, and the forms of events and replay, that a version declares by its source."""
    minor = tuple(int(part) for part in version.split(".")[:2])
    replay_form = "replay-topic" if minor >= REPLAY_TOPIC_SINCE else "replay-bare"
    if minor >= MAPS_SINCE:
        return {"profile": "replay", "form": "map", "replay_form": replay_form}
    return {"profile": "legacy-array-v", "form": "array-v", "replay_form": replay_form}


def binds(endpoint: str) -> bool:
    """Whether vLLM's PUB socket binds an endpoint; it connects to any other, so that the subscriber has to bind."""
    return "*" in endpoint or "::" in endpoint or endpoint.startswith(("ipc://", "inproc://"))


def options(request: dict[str, Any], takes: set[str]) -> dict[str, Any]:
    """The options given with ``start``; one that the publisher does not have is refused by name."""
    given = {key: value for key, value in request.items() if key not in ("id", "verb") and value is not None}
    if unknown := sorted(set(given) - takes):
        raise Refused(f"adapter: this publisher has no option {', '.join(unknown)}")
    return given


def plain(value: Any, *, decimal: bool = False) -> Any:
    """The value of a JSON projection; integers of the fields that travel as decimal strings become integers."""
    if isinstance(value, dict):
        if set(value) == {"hex"}:
            return bytes.fromhex(value["hex"])
        if set(value) == {"int"}:
            return int(value["int"])
        if set(value) == {"float", "bits"}:
            return struct.unpack(">d", bytes.fromhex(value["bits"]))[0]
        wide = ("block_hashes", "parent_block_hash", "lora_id")
        return {key: plain(item, decimal=key in wide) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, decimal=decimal) for item in value]
    return int(value) if decimal and isinstance(value, str) else value


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
    run(Adapter(Path(sys.argv[1])), stdout)
