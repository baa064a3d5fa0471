"""The engine of vLLM on a CPU, with a tiny model of random weights, behind its own server: run a command beside it.

``python engine.py kvwire check {} --record run.kvtrace``. Makes the model and two LoRA adapters that change nothing,
starts ``vllm serve``'s server on a port of loopback with its event sockets on ``ipc`` in a private folder, waits until
it is healthy, writes a conformance statement, and runs the command with the statement and ``--drive`` in the place of
``{}``. Then it ends the server. The exit code is the command's; 4 when the server did not get ready.

``--python`` names the Python that has vLLM, if not this one, ``--log`` a file for what the server says.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

READY_S = 240.0
END_S = 30.0
SHOWN = 30
"""Lines of what a server said that did not get ready."""
NO_RUN = 4
"""The exit code of a run that was none, as the harness has it."""
BLOCK = 32
"""Tokens of a block: the attention on a CPU takes multiples of 32."""
BLOCKS = 64
TOKENS = 1024
"""The longest prompt."""
HEAD = 64
HIDDEN = 2 * HEAD
RANK = 8
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": HIDDEN,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "head_dim": HEAD,
    "vocab_size": 32_000,
    "max_position_embeddings": TOKENS,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "float32",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
ADAPTED = {"q_proj": HIDDEN, "v_proj": HEAD}
"""What the adapters are beside, and its width."""
ADAPTER = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": RANK,
    "lora_alpha": RANK,
    "lora_dropout": 0.0,
    "bias": "none",
    "target_modules": list(ADAPTED),
    "base_model_name_or_path": "tiny",
}
LORAS = ("lora-7", f"lora-{2**40 + 7}")
"""The adapters that the harness asks for, if they are there."""
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # the route that resets the cache
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
}
STATEMENT = """\
edition = "1"
profile = "replay"
algorithm = "x-vllm-sha256"
residency = "{residency}"
replay_form = "replay-topic"
ring = 10000
queue = 100000
block_size = {block}

[implementation]
name = "vllm engine"
version = "{version}"

[[streams]]
endpoint = "{events}"
replay = "{replay}"
topic = "kv-events"
"""


def zeros(tensors: Mapping[str, Sequence[int]]) -> bytes:
    """A safetensors file: the length of its head, the head, and so many zeros."""
    head: dict[str, Any] = {}
    end = 0
    for name, shape in tensors.items():
        begin, end = end, end + 4 * shape[0] * shape[1]
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def make(folder: Path) -> None:
    """Write the model and the adapters; a model of random weights needs a configuration only."""
    (folder / "tiny").mkdir()
    (folder / "tiny" / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    layer = "base_model.model.model.layers.0.self_attn"
    shapes = {f"{layer}.{name}.lora_A.weight": (RANK, HIDDEN) for name in ADAPTED}
    shapes |= {f"{layer}.{name}.lora_B.weight": (width, RANK) for name, width in ADAPTED.items()}
    for lora in LORAS:
        (folder / lora).mkdir()
        (folder / lora / "adapter_config.json").write_text(json.dumps(ADAPTER), encoding="utf-8")
        (folder / lora / "adapter_model.safetensors").write_bytes(zeros(shapes))


def words(python: str, room: Path, port: int) -> list[str]:
    """The command of the server."""
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://{room}/events",
        "replay_endpoint": f"ipc://{room}/replay",
        "topic": "kv-events",
    }
    options: dict[str, object] = {
        "host": "127.0.0.1",
        "port": port,
        "model": room / "tiny",
        "served-model-name": "tiny",
        "load-format": "dummy",
        "dtype": "float32",
        "max-model-len": TOKENS,
        "block-size": BLOCK,
        "num-gpu-blocks-override": BLOCKS,
        "max-num-seqs": 4,
        "max-loras": len(LORAS),
        "max-lora-rank": RANK,
        "kv-events-config": json.dumps(events),
    }
    flags = ("enforce-eager", "enable-prefix-caching", "skip-tokenizer-init", "enable-prompt-tokens-details")
    loras = [f"{lora}={room / lora}" for lora in LORAS]
    return [
        *(python, "-m", "vllm.entrypoints.openai.api_server"),
        *(f"--{name}={value}" for name, value in options.items()),
        *(f"--{name}" for name in (*flags, "enable-lora")),
        *("--lora-modules", *loras),
    ]


def answer(url: str) -> bytes | None:
    """What a URL of the server answers; None while there is nobody."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as given:
            content: bytes = given.read()
    except OSError:
        return None
    return content


def free_port() -> int:
    """A port of loopback that nobody had a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


@contextlib.contextmanager
def serving(python: str, room: Path, log: Path) -> Iterator[str]:
    """A server that is healthy, at this URL; its processes, which are a group of their own, are ended.

    Raises:
        SystemExit: when it does not get ready.
    """
    make(room)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    # A set seed of Python's would be that of the hashes, too.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"} | ENVIRONMENT
    with log.open("wb") as said:
        server = subprocess.Popen(
            words(python, room, port), cwd=room, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            end = time.monotonic() + READY_S
            while answer(f"{url}/health") is None:
                if server.poll() is not None or time.monotonic() >= end:
                    last = log.read_text(errors="replace").splitlines()[-SHOWN:]
                    print(*last, "the server did not get ready", sep="\n", file=sys.stderr)
                    raise SystemExit(NO_RUN)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(0.2)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def main() -> int:
    """Serve, run, end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python that has vLLM (this one)")
    parser.add_argument("--log", type=Path, help="a file for what the server says")
    parser.add_argument("--residency", choices=("counted", "set"), default="counted", help="what is declared")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="with {} for the target")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvwire-") as name:
        room = Path(name)
        with serving(given.python, room, given.log or room / "log") as url:
            version = json.loads(answer(f"{url}/version") or b'{"version": ""}')["version"]
            statement = room / "kvwire.toml"
            text = STATEMENT.format(
                residency=given.residency,
                block=BLOCK,
                version=version,
                events=f"ipc://{room}/events",
                replay=f"ipc://{room}/replay",
            )
            statement.write_text(text, encoding="utf-8")
            target = [str(statement), "--drive", f"openai:{url}/v1"]
            command = [part for word in given.command for part in (target if word == "{}" else [word])]
            return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
