"""Adapter: ``python -m dynamo.mocker`` (ai-dynamo 1.6.1), a mock engine that hashes, evicts, publishes and replays.

``python adapter.py`` in an environment that has the packages of requirements.txt. Nothing is stubbed; the model is a
tokenizer of three words and a configuration, no weights. Requests and answers: ../README.md.

The mocker binds its event sockets to every interface, whatever it is told: run it briefly, or in a network namespace.
Needs Linux: the addresses that it really bound are read from /proc.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

STATEMENT: dict[str, Any] = {
    "edition": "1",
    "profile": "replay",
    "form": "map",
    "algorithm": "x-dynamo-xxh3",
    "residency": "set",
    "replay_form": "replay-topic",
    "ring": 10_000,
    "groups": [{"idx": 0}],
}
"""What the mocker does by its code; the ring was measured."""

BLOCK_SIZE = 16
CAPACITY = 64
"""Blocks of the cache: small, so that a few prompts evict."""
GENERATED = 2
"""Tokens to generate for each prompt. The last one is in no block; the first completes a block that lacks one, so that
chains go on beyond the prompts."""
START_S = 20.0
"""From the start of the process until its sockets are bound; measured 0.2 s to 0.5 s."""
REQUEST_S = 10.0
"""One prompt through the engine; measured 20 ms."""
STOP_S = 1.5
"""An orderly end of the process; after that it is killed."""

TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": 2}, "unk_token": "<unk>"},
}
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 3,
    "max_position_embeddings": 1 << 20,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}
DIE_WITH_PARENT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
os.execv(sys.executable, [sys.executable, "-m", "dynamo.mocker", *sys.argv[1:]])
"""
"""Run before the mocker in its own process, so that a killed adapter leaves no open port behind."""


class Refused(Exception):
    """The request cannot be honoured; ``adapter:`` leads where the adapter says so and not the publisher."""


class Adapter:
    """One mocker process, the client that sends it prompts, and the verbs that drive both."""

    can = ("hello", "start", "cache", "stats", "restart", "stop")

    def __init__(self) -> None:
        self.version = importlib.metadata.version("ai-dynamo")
        os.environ.update(DYN_LOG="warn", DYN_SDK_DISABLE_ANSI_LOGGING="1", HF_HUB_OFFLINE="1")
        self.peer = importlib.import_module("dynamo.runtime")
        # The mocker itself runs in a process of its own. What it imports is tried here, so that a missing package ends
        # the adapter at once instead of looking like a refusal of the mocker.
        importlib.import_module("dynamo.mocker.args")
        self.settings: dict[str, Any] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.loop: asyncio.Runner | None = None
        self.runtime: Any = None
        self.client: Any = None
        self.private: Path | None = None

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "protocol": "kvwire-adapter-1.1",
            "implementation": "dynamo.mocker",
            "version": self.version,
            "statement": {**STATEMENT, "implementation": {"name": "dynamo.mocker", "version": self.version}},
            "can": list(self.can),
            "sets": [],
        }

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.process is not None:
            raise Refused("adapter: it is started already")
        given = options(request, {"endpoint", "replay", "topic", "rank", "world", "block_size", "capacity"})
        if given.get("topic", "") or given.get("rank", 0) or given.get("world", 1) != 1:
            raise Refused("adapter: the mocker's topic is empty, and one adapter drives one mocker of rank 0")
        chosen, replay = free_ports()
        self.settings = {
            "events": given_port(given, "endpoint", chosen),
            "replay": None if given.get("replay") == "none" else given_port(given, "replay", replay),
            "block_size": given.get("block_size", BLOCK_SIZE),
            "capacity": given.get("capacity", CAPACITY),
        }
        return self.begin()

    def begin(self) -> dict[str, Any]:
        """Begin a life of the mocker and wait until its sockets are bound and the client has found it."""
        self.private = Path(tempfile.mkdtemp(prefix="kvwire-mocker-"))
        (self.private / "store").mkdir()
        (self.private / "tokenizer.json").write_text(json.dumps(TOKENIZER), encoding="ascii")
        (self.private / "config.json").write_text(json.dumps(MODEL), encoding="ascii")
        # The file store takes the place of etcd. The event plane, which is not the stream under test, would bind four
        # more ports on every interface; told of a broker, it dials instead, and nobody listens in the private folder.
        os.environ.update(
            DYN_FILE_KV=str(self.private / "store"),
            DYN_ZMQ_BROKER_URL=f"xsub=ipc://{self.private}/xsub , xpub=ipc://{self.private}/xpub",
            DYN_TCP_RPC_HOST="127.0.0.1",
            DYN_TCP_RESPONSE_STREAM_HOST="127.0.0.1",
        )
        try:
            bound = self.launch()
            self.loop = asyncio.Runner()
            self.loop.run(asyncio.wait_for(self.connect(), START_S))
        except BaseException:
            self.close()
            raise
        return bound

    def launch(self) -> dict[str, Any]:
        """Start the process; the answer names the addresses that the kernel says it listens on."""
        assert self.private is not None
        events, replay = self.settings["events"], self.settings["replay"]
        wanted = sorted(port for port in (events, replay) if port)
        sizes = ["--block-size", str(self.settings["block_size"])]
        sizes += ["--num-gpu-blocks-override", str(self.settings["capacity"])]
        ports = ["--zmq-kv-events-ports", events, *(["--zmq-replay-ports", replay] if replay else [])]
        where = ["--model-path", str(self.private), "--model-name", "tiny", "--discovery-backend", "file"]
        command = [*where, "--event-plane", "zmq", "--speedup-ratio", "0", *sizes, *ports]
        log = self.private / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", DIE_WITH_PARENT, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            said = log.read_text(encoding="utf-8", errors="replace")
            if self.process.poll() is not None or "Failed to create ZMQ KV event sink" in said:
                lines = [line for line in said.splitlines() if line.strip()]
                raise Refused(lines[-1] if lines else f"it ended with code {self.process.returncode}")
            listening = listeners(self.process.pid)
            if sorted(port for port, _ in listening if port in wanted) == wanted:
                bound = {port: f"tcp://{address}:{port}" for port, address in listening}
                return {
                    "endpoint": bound[events],
                    "replay": bound[replay] if replay else None,
                    "topic": "",
                    "rank": 0,
                    "mode": "connect",
                }
            time.sleep(0.02)
        raise TimeoutError(f"the mocker has not bound its sockets within {START_S} s")

    async def connect(self) -> None:
        """Find the mocker as Dynamo's frontend does."""
        loop = asyncio.get_running_loop()
        self.runtime = self.peer.DistributedRuntime(loop, "file", "tcp", event_plane="zmq")
        self.client = await self.runtime.endpoint("dynamo.backend.generate").client()
        await self.client.wait_for_instances()

    def cache(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.loop is None:
            raise Refused("adapter: it is not started")
        for scope in ("lora", "salt", "mm"):
            if request.get(scope):
                raise Refused(f"adapter: the mocker caches by token ids alone, {scope} does not reach its hashes")
        tokens = request["tokens"]
        if not all(isinstance(token, int) and 0 <= token < 1 << 32 for token in tokens):
            raise Refused("adapter: the mocker takes token ids in 0…2^32−1")
        answer = self.loop.run(asyncio.wait_for(self.generate(tokens), REQUEST_S))
        if isinstance(ending := answer["finish_reason"], dict):
            raise Refused(str(ending["error"]))
        return {"cached_tokens": answer["completion_usage"]["prompt_tokens_details"]["cached_tokens"]}

    async def generate(self, tokens: list[int]) -> Any:
        """Send one prompt, and give the last answer."""
        prompt = {
            "model": "tiny",
            "token_ids": tokens,
            "stop_conditions": {"max_tokens": GENERATED, "ignore_eos": True},
            "sampling_options": {},
            "output_options": {},
            "eos_token_ids": [],
            "annotations": [],
        }
        answers = [answer.data() async for answer in await self.client.round_robin(prompt)]
        return answers[-1]

    def stats(self, _: dict[str, Any]) -> dict[str, Any]:
        memory = None if self.process is None else resident_bytes(self.process.pid)
        return {"offered": None, "sent": None, "dropped": None, "rss": memory}

    def restart(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.process is None:
            raise Refused("adapter: it is not started")
        self.process.kill()
        self.close()
        return self.begin()

    def stop(self, _: dict[str, Any]) -> dict[str, Any]:
        self.close()
        return {}

    def close(self) -> None:
        """End the client and the mocker, in order where it still runs, and remove what they left."""
        if self.runtime is not None:
            self.runtime.shutdown()
        if self.loop is not None:
            self.loop.close()
        self.runtime = self.client = self.loop = None
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
            self.process.kill()
            self.process.wait()
            self.process = None
        if self.private is not None:
            shutil.rmtree(self.private)
            self.private = None


def given_port(given: dict[str, Any], option: str, chosen: str) -> str:
    """The port of an endpoint option; the mocker takes ports only, and binds them to every interface."""
    endpoint = given.get(option)
    if endpoint is None:
        return chosen
    for every in ("tcp://0.0.0.0:", "tcp://*:"):
        if endpoint.startswith(every):
            return str(endpoint.removeprefix(every))
    raise Refused(f"adapter: {option} {endpoint!r}: the mocker takes a port only and binds it on 0.0.0.0")


def free_ports() -> tuple[str, str]:
    """Two ports that were free a moment ago on every interface."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("", 0))
        second.bind(("", 0))
        return str(first.getsockname()[1]), str(second.getsockname()[1])


def listeners(pid: int) -> list[tuple[str, str]]:
    """Port and address of the IPv4 sockets on which a process listens, from Linux's /proc."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            inodes.add(str(descriptor.readlink()))
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        address, port = fields[1].split(":")
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            found.append((str(int(port, 16)), socket.inet_ntoa(bytes.fromhex(address)[::-1])))
    return found


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
