"""From the text behind ``kvwire check`` to a target."""

from __future__ import annotations

import re
from pathlib import Path

from kvwire.attack.targets import adapted, listening
from kvwire.attack.targets.target import Target, TargetError, TraceTarget

KINDS = (
    "reference:?OPTIONS",
    "mutant:NAME",
    "honest:NAME",
    "zmq:ENDPOINT?replay=…",
    "exec:COMMAND",
    "trace:FILE",
    "FILE.toml",
)


def parse(text: str) -> Target:
    """The target that a text names; nothing is opened.

    Raises:
        TargetError: when it names none; the message says which part is wrong, and the way out.
    """
    kind, colon, rest = text.partition(":")
    if kind != "trace" and any("\ud800" <= character <= "\udfff" for character in text):
        raise TargetError(f"{text!r} is not UTF-8")
    match kind if colon else "":
        case "reference" | "mutant" | "honest":
            return adapted.peer(text)
        case "zmq":
            return listening.endpoint(text)
        case "exec":
            return adapted.command(text)
        case "trace":
            return TraceTarget(text, _file(text, rest))
        case "tcp" | "ipc" | "inproc":
            raise TargetError(f"{text!r}: an endpoint is written zmq:{text}")
    if text.endswith(".toml"):
        return listening.declared(text, _file(text, text))
    if re.search(r"\.(kvtrace(\.gz)?|mcap)(\.\d+)?\Z", text):
        path = _file(text, text)
        raise TargetError(f"{text!r}: a recording, which `kvwire judge` takes; as a target it is written trace:{path}")
    raise TargetError(f"{text!r} is no target; a target is one of {', '.join(KINDS)}")


def _file(text: str, name: str) -> Path:
    path = Path(name)
    try:
        there = path.is_file()
    except OSError as error:
        raise TargetError(f"{text!r}: {error.strerror}") from None
    if not there:
        why = "no regular file" if path.exists() else "there is no file"
        raise TargetError(f"{text!r}: {why} {name!r}")
    return path
