"""An adapter that means harm: ``adapter KIND [VERB]`` stands before the reference's, and changes what it answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

EVIL = "\x1b[2J\x1b[31mEVIL\x1b]0;pwn\x1b\\[bold red]m[/]\x9b31m\r\nPASS"
DEEP = b"[" * 100_000 + b"]" * 100_000

DAEMON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    os._exit(0)
time.sleep(3600)
"""


def say(raw: bytes) -> None:
    """Write all of it."""
    rest = memoryview(raw)
    while rest:
        rest = rest[os.write(1, rest) :]


def _rest() -> NoReturn:
    while True:
        time.sleep(60)


def _noise(line: bytes) -> NoReturn:
    while True:
        say(line)


def _spam() -> None:
    while True:
        os.write(2, (b"e" * 100 + b"\n") * 1000)


ALONE: dict[str, Callable[[], NoReturn]] = {
    "silent": _rest,
    "lines": lambda: _noise(b"noise line that is no JSON\n" * 10_000),
    "json-lines": lambda: _noise(b'{"id": 0, "ok": {}}\n' * 10_000),
    "zeros": lambda: _noise(bytes(1_000_000)),
}
"""Who says nothing that is an answer."""


def _pad(size: int) -> Callable[[dict[str, Any]], bytes]:
    def padded(answer: dict[str, Any]) -> bytes:
        answer["ok"]["pad"] = "x" * size
        return _line(answer)

    return padded


def _nested(answer: dict[str, Any]) -> bytes:
    return b'{"id": %d, "ok": {"a": ' % answer["id"] + DEEP + b"}}\n"


def _lists(answer: dict[str, Any]) -> bytes:
    return b'{"id": %d, "ok": {"a": [' % answer["id"] + b"{}," * 5_000_000 + b"{}]}}\n"


def _evil(answer: dict[str, Any]) -> bytes:
    return _line({"id": answer["id"], "error": EVIL * 3})


def _many(answer: dict[str, Any]) -> bytes:
    return _line(answer) * 200_000


def _loud(answer: dict[str, Any]) -> bytes:
    return b"noise %s\n" % EVIL.replace("\n", " ").encode() * 200_000 + _line(answer)


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


ANSWERS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "pad-100": _pad(100_000_000),
    "nested": _nested,
    "lists": _lists,
    "evil": _evil,
    "many": _many,
    "loud": _loud,
    "half": lambda answer: _line(answer)[:10],
    "nothing": lambda _: b"",
}
"""What becomes of an answer."""


def main() -> None:
    """Attack."""
    kind, *verbs = sys.argv[1:]
    if kind in ALONE:
        ALONE[kind]()
    if kind == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "grandchild":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], stdin=subprocess.DEVNULL)
    if kind == "daemon":
        subprocess.Popen([sys.executable, "-c", DAEMON], stdin=subprocess.DEVNULL, start_new_session=True).wait()
    if kind == "stderr":
        threading.Thread(target=_spam, daemon=True).start()
    inner = [sys.executable, "-P", "-m", "kvwire.peers.reference"]
    publisher = subprocess.Popen(inner, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert publisher.stdin is not None
    assert publisher.stdout is not None
    while line := sys.stdin.buffer.readline():
        asked = json.loads(line)
        hit = asked.get("verb") in verbs
        if hit and kind == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if hit and kind == "hangs":
            _rest()
        publisher.stdin.write(line)
        answer = json.loads(publisher.stdout.readline())
        say(ANSWERS[kind](answer) if hit and kind in ANSWERS else _line(answer))
    if kind == "ignores":
        _rest()
    publisher.stdin.close()
    publisher.wait(5)


if __name__ == "__main__":
    main()
