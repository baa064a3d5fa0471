"""An engine that is driven by its own API: ``--drive openai:URL`` beside a target that is listened to.

Prompts go to ``URL/completions`` as token ids and ask for one token. Only the host of that URL is spoken to: no proxy,
no redirection. What the engine can do is seen, not assumed: the routes that reset a cache are asked for with
``OPTIONS``, which does nothing; salts are sent where the description that the server gives of itself
(``/openapi.json``) has a ``cache_salt``; a LoRA adapter is the model ``lora-ID`` among those that it lists; how
many tokens a block has, unless it is declared, is what its stream says. What its vocabulary is nobody says: see
``VOCABULARY``.
"""

from __future__ import annotations

import dataclasses
import http.client
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

import msgspec

from kvwire.attack.targets.block_sizes import block_size
from kvwire.attack.targets.listening import ListenTarget
from kvwire.attack.targets.target import Opened, Target, TargetError
from kvwire.attack.witness import Recorder
from kvwire.standard import reading
from kvwire.standard.protocol import (
    Accepted,
    AdapterError,
    Bound,
    Burst,
    Cached,
    Hello,
    Natural,
    Refused,
    Resident,
    Start,
    Stats,
    Unsupported,
)
from kvwire.trace.calls import CacheCall, ResetCall

KIND = "openai:"
RESETS = ("/reset_prefix_cache", "/flush_cache")
"""Routes beside ``/v1`` that reset the whole cache: vLLM's (in its development mode) and SGLang's."""
RESET_S = 5.0
"""For how long a reset is asked for again that was not made, because somebody's blocks are in use."""
RESET_AGAIN_S = 0.1
ANSWER_S = 30.0
"""How long an answer may take as a whole."""
ANSWER_BYTES = 4 * 1024 * 1024
"""Read, it takes 40 times that much memory at the worst."""
VOCABULARY = range(30_000)
"""Token ids of prompts. An engine without a tokenizer checks no id, and dies of one that its model does not know; no
model that is in use knows so few.
"""
SHOWN = 200
"""How many characters of an answer are shown."""
REFUSALS = (400, 413, 422)
"""Statuses that say that something is not done, and not that the server is in trouble."""
DONE = range(200, 300)
EXISTS = 405
"""What a server answers to ``OPTIONS`` on a route that takes something else."""
ABSENT = (404, 405, 501)


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: Natural | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens_details: _Details | None = None


class _Completion(msgspec.Struct, frozen=True):
    usage: _Usage | None = None


class _Reset(msgspec.Struct, frozen=True):
    success: bool = True


class _Model(msgspec.Struct, frozen=True):
    id: str
    parent: str | None = None


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


class _Schemas(msgspec.Struct, frozen=True):
    schemas: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class _Description(msgspec.Struct, frozen=True):
    components: _Schemas = _Schemas()


class _Status(Exception):
    """An answer whose status says that it was not done."""

    def __init__(self, status: int, url: str, text: str) -> None:
        super().__init__(f"{url} answered with HTTP status {status}" + (f": {text}" if text else ""))
        self.status = status


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """The user named one host."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


class Server:
    """The server at a URL such as ``http://127.0.0.1:8000/v1``, asked over HTTP by the standard library."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.root = self.url.removesuffix("/v1")
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirection).open

    def ask(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> bytes:
        """The body of the answer.

        Raises:
            _Status: when its status says that it was not done.
            AdapterError: when there is no answer, or a longer one than is read.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - http or https: see ``drive``
        got: list[tuple[int, bytes] | str] = []
        # Python's own timeout is of each byte: who sends one now and then would never be given up.
        asking = threading.Thread(target=lambda: got.append(self._got(request)), daemon=True)
        asking.start()
        asking.join(ANSWER_S)
        answer = got[0] if got else f"none within {ANSWER_S:g} s"
        if isinstance(answer, str):
            raise AdapterError(f"{method} {url}: no answer: {answer}")
        status, content = answer
        if status not in DONE:
            raise _Status(status, url, content[:SHOWN].decode(errors="replace").strip())
        if len(content) > ANSWER_BYTES:
            raise AdapterError(f"{method} {url}: the answer has more than {ANSWER_BYTES} bytes")
        return content

    def _got(self, request: urllib.request.Request) -> tuple[int, bytes] | str:
        """The status and the body of the answer; why there is none."""
        try:
            try:
                answer = self._open(request, timeout=ANSWER_S)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                return answer.status, answer.read(ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = error.reason if isinstance(error, urllib.error.URLError) else error
            return str(why) or type(why).__name__

    def models(self) -> list[_Model]:
        """What it serves; the first is the engine's own."""
        url = f"{self.url}/models"
        try:
            found = reading.json(msgspec.json.Decoder(_Models).decode, self.ask("GET", url)).data
        except _Status as error:
            raise AdapterError(
                f"{error}; is it the base of an OpenAI-compatible API, as http://HOST:PORT/v1?"
            ) from None
        except msgspec.MsgspecError as error:
            raise AdapterError(f"{url}: not a list of models: {error}") from None
        if not found:
            raise AdapterError(f"{url}: it lists no model")
        return found

    def reset_route(self) -> str | None:
        """The URL that resets its cache, or None."""
        return next((url for url in map(self.root.__add__, RESETS) if self._has(url)), None)

    def _has(self, url: str) -> bool:
        try:
            self.ask("OPTIONS", url)
        except _Status as error:
            return error.status == EXISTS
        return True

    def takes_salt(self) -> bool:
        """Whether it says that a completion may have a ``cache_salt``."""
        try:
            content = self.ask("GET", f"{self.root}/openapi.json")
            schemas = reading.json(msgspec.json.Decoder(_Description).decode, content).components.schemas
        except (_Status, msgspec.MsgspecError):
            return False
        return any(
            name.endswith("CompletionRequest")
            and not name.endswith("ChatCompletionRequest")
            and isinstance(properties := schema.get("properties"), dict)
            and "cache_salt" in properties
            for name, schema in schemas.items()
        )


class ApiDriver:
    """Drives an engine by its API; implements ``protocol.Driver``. Every call is recorded on ``stream``.

    Raises, when made:
        AdapterError: when the server is not there or lists no model.
    """

    def __init__(self, server: Server, recorder: Recorder, stream: str) -> None:
        self.stream = stream
        self._server = server
        self._recorder = recorder
        models = server.models()
        self.model = next((model.id for model in models if model.parent is None), models[0].id)
        self._models = {model.id for model in models}
        self._reset = server.reset_route()
        self._salts = server.takes_salt()

    @property
    def can(self) -> frozenset[str]:
        """Prompts, and to reset the cache where the server has a route for it."""
        return frozenset({"cache"} if self._reset is None else {"cache", "reset"})

    @property
    def alive(self) -> bool:
        """It is not a process of ours: whether it answers is seen when it is asked."""
        return True

    def cache(
        self,
        tokens: Sequence[int | str],
        *,
        lora: str | None = None,
        salt: str | None = None,
        mm: Sequence[Mapping[str, Any]] = (),
    ) -> Cached:
        """Run one prompt through the engine."""
        call = CacheCall(tokens=tuple(tokens), lora=lora, salt=salt, mm=tuple(mm) or None)
        with self._recorder.calling(call, self.stream) as answer:
            answer["cached_tokens"] = cached = self._run(call)
        return Cached(cached_tokens=cached)

    def reset(self) -> None:
        """Reset the whole cache."""
        with self._recorder.calling(ResetCall(), self.stream):
            self._clear()

    def _run(self, call: CacheCall) -> int | None:
        url = f"{self._server.url}/completions"
        body = {"prompt": call.tokens, "model": self.model, "max_tokens": 1, "temperature": 0}
        if call.mm is not None or not all(isinstance(token, int) for token in call.tokens):
            raise Refused("prompts of this API are text tokens; it takes no multimodal items")
        if call.lora is not None:
            body["model"] = f"lora-{call.lora}"
            if body["model"] not in self._models:
                raise Refused(f"{self._server.url}/models lists no model {body['model']!r}")
        if call.salt is not None:
            if not self._salts:
                raise Refused(f"{self._server.root}/openapi.json knows no cache_salt of a completion")
            body["cache_salt"] = call.salt
        try:
            done = reading.json(msgspec.json.Decoder(_Completion).decode, self._server.ask("POST", url, body))
        except _Status as error:
            if error.status in REFUSALS:
                raise Refused(str(error)) from None
            raise AdapterError(str(error)) from None
        except msgspec.MsgspecError as error:
            raise AdapterError(f"{url}: not the answer of a completion: {error}") from None
        details = None if done.usage is None else done.usage.prompt_tokens_details
        return None if details is None else details.cached_tokens

    def _clear(self) -> None:
        if self._reset is None:
            raise Unsupported("reset")
        end = time.monotonic() + RESET_S
        while not_made := self._not_made(self._reset):
            if time.monotonic() >= end:
                raise Refused(not_made)
            self._recorder.wait(lambda: False, RESET_AGAIN_S)

    def _not_made(self, url: str) -> str:
        """Ask for a reset; why it was not made, if so."""
        try:
            content = self._server.ask("POST", url)
        except _Status as error:
            if error.status in ABSENT:
                raise Unsupported("reset") from None
            if error.status in REFUSALS:
                return str(error)
            raise AdapterError(str(error)) from None
        try:
            made = reading.json(msgspec.json.Decoder(_Reset).decode, content).success
        except msgspec.MsgspecError:  # SGLang says it in words, and by its status
            made = True
        return "" if made else f"{url} answered {content[:SHOWN].decode(errors='replace')}"

    # what an API has no words for

    def hello(self) -> Hello:
        """Not known."""
        self._unknown("hello")

    def start(self, options: Start) -> Bound:  # noqa: ARG002 - as the protocol has it
        """Not known: it runs already."""
        self._unknown("start")

    def publish(self, batch: Mapping[str, Any]) -> Accepted:  # noqa: ARG002
        """Not known."""
        self._unknown("publish")

    def burst(self, batches: Sequence[Mapping[str, Any]]) -> Burst:  # noqa: ARG002
        """Not known."""
        self._unknown("burst")

    def resident(self) -> Resident:
        """Not known."""
        self._unknown("resident")

    def fault(self, kind: str) -> None:  # noqa: ARG002
        """Not known."""
        self._unknown("fault")

    def stats(self) -> Stats:
        """Not known."""
        self._unknown("stats")

    def restart(self) -> Bound:
        """Not known."""
        self._unknown("restart")

    def stop(self) -> None:
        """Not known: whoever started it stops it."""
        self._unknown("stop")

    def _unknown(self, verb: str) -> NoReturn:
        raise Unsupported(verb)


@dataclasses.dataclass(frozen=True)
class DrivenTarget:
    """Streams to subscribe to, and the API of the engine behind the first of them."""

    target: ListenTarget
    drive: str
    server: Server

    @property
    def text(self) -> str:
        """What the user wrote, without the option."""
        return self.target.text

    def open(self, recorder: Recorder) -> Opened:
        """Set the witnesses on the streams, ask the server what it can do, and listen for the size of its blocks."""
        opened = self.target.open(recorder)
        driver = ApiDriver(self.server, recorder, opened.streams[0].name)
        size = opened.statement.block_size or block_size(recorder, driver.stream, VOCABULARY, driver.cache)
        return dataclasses.replace(
            opened,
            driver=driver,
            drive=self.drive,
            start=Start(block_size=size),
            vocabulary=VOCABULARY,
            can=tuple(sorted(driver.can)),
            implementation=opened.implementation or driver.model,
        )


def drive(target: Target, text: str) -> DrivenTarget:
    """A target that is listened to, driven by ``openai:URL``.

    Raises:
        TargetError: when the target is not of that sort, or the URL is none of http or https.
    """
    if not isinstance(target, ListenTarget):
        raise TargetError(f"--drive {text}: {target.text!r} is not driven by an API; zmq:… and FILE.toml are")
    url = text.removeprefix(KIND)
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, a bracket that is not closed
        known = False
    if not text.startswith(KIND) or not known or not re.fullmatch("[!-~]+", url):
        raise TargetError(f"--drive {text}: write openai:http://HOST:PORT/v1")
    if "?" in url or "#" in url:
        raise TargetError(f"--drive {text}: the URL is the base of the API, without ? and #")
    return DrivenTarget(target, text, Server(url))
