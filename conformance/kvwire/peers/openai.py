"""The reference behind a small OpenAI-compatible server on loopback: ``python -m kvwire.peers.openai``.

It serves what an engine driven by its API needs: models, completions of token ids, a route that resets the cache, and a
description of itself. The one token that it answers with is made up. It prints ``kvwire check … --drive …`` and runs
until its standard input ends.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from kvwire.peers.adapter import Adapter, Peer, chosen, options
from kvwire.standard.protocol import Refused

MODEL = "kvwire-reference"
LORAS = tuple(f"lora-{number}" for number in (7, 2**40 + 7))
"""Its LoRA adapters: models whose names end with their ids."""
RESETS = {"vllm": "/reset_prefix_cache", "sglang": "/flush_cache", "none": ""}
BODY_BYTES = 16 * 1024 * 1024


class Answers(Protocol):
    """What carries out the verbs: an adapter, or several behind it."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request; raises Refused or Unsupported."""


class Api(ThreadingHTTPServer):
    """The server: one engine, one prompt at a time."""

    daemon_threads = True

    def __init__(self, adapter: Answers, reset: str, *, salts: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._adapter = adapter
        self._engine = threading.Lock()
        self.reset = reset
        self.salts = salts
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        """One verb of the adapter."""
        with self._engine:
            return self._adapter.answer({"verb": verb, **arguments})

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a prompt; raises Refused."""
        model, tokens = request.get("model"), request.get("prompt")
        if model != MODEL and model not in LORAS:
            raise Refused(f"there is no model {model!r}")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise Refused("the prompt is not a list of token ids")
        scope: dict[str, Any] = {} if model == MODEL else {"lora": model.rpartition("-")[2]}
        if self.salts and request.get("cache_salt"):
            scope["salt"] = request["cache_salt"]
        cached = self.ask("cache", tokens=tokens, **scope)["cached_tokens"]
        return {
            "object": "text_completion",
            "model": model,
            "choices": [{"index": 0, "text": "", "finish_reason": "length"}],
            "usage": {
                "prompt_tokens": len(tokens),
                "completion_tokens": 1,
                "total_tokens": len(tokens) + 1,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }

    def models(self) -> dict[str, Any]:
        """What it serves."""
        own = {"id": MODEL, "object": "model"}
        return {"object": "list", "data": [own, *({"id": i, "object": "model", "parent": MODEL} for i in LORAS)]}

    def description(self) -> dict[str, Any]:
        """The part of an OpenAPI document that says what a completion takes."""
        names = ("model", "prompt", "max_tokens", "temperature", *(("cache_salt",) if self.salts else ()))
        return {"components": {"schemas": {"CompletionRequest": {"properties": {name: {} for name in names}}}}}


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        match self.path:
            case "/v1/models":
                self._answer(200, self.server.models())
            case "/openapi.json":
                self._answer(200, self.server.description())
            case _:
                self._answer(404)

    def do_OPTIONS(self) -> None:
        self._answer(405 if self.path == self.server.reset else 404)

    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length") or 0), BODY_BYTES)
        body = self.rfile.read(length)
        if self.path == self.server.reset:
            self.server.ask("reset")
            self._answer(200)
        elif self.path == "/v1/completions":
            try:
                self._answer(200, self.server.complete(json.loads(body)))
            except Refused as refusal:
                self._answer(400, {"error": {"message": str(refusal), "code": 400}})
        else:
            self._answer(404)

    def _answer(self, status: int, body: dict[str, Any] | None = None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main(argv: list[str] | None = None) -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description="The reference behind an OpenAI-compatible API.")
    options(parser)
    parser.add_argument("--reset", choices=tuple(RESETS), default="vllm", help="whose route resets the cache")
    parser.add_argument("--block-size", type=int, default=16, help="tokens of a block")
    parser.add_argument("--no-salts", action="store_true", help="completions know no cache_salt")
    arguments = parser.parse_args(argv)
    adapter = Adapter(Peer(**chosen(arguments)))
    try:
        started = {"verb": "start", "topic": "kv-events", "capacity": 256, "block_size": arguments.block_size}
        bound = adapter.answer(started)
        with Api(adapter, RESETS[arguments.reset], salts=not arguments.no_salts) as api:
            thread = threading.Thread(target=api.serve_forever, daemon=True)
            thread.start()
            target = f"zmq:{bound['endpoint']}?replay={bound['replay']}&topic=kv-events"
            print(shlex.join(["kvwire", "check", target, "--drive", f"openai:{api.url}"]), flush=True)
            sys.stdin.buffer.read()
            api.shutdown()
    finally:
        adapter.close()


if __name__ == "__main__":
    main()
