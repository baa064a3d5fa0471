"""What an adapter writes: which lines are answers, and what they say (spec/schemas/adapter.schema.json)."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from kvwire.standard import reading
from kvwire.standard.protocol import AdapterError, Failed, Refused, Unsupported

SHOWN = 200
"""How many characters of a line are shown."""
TEXT = 2000
"""How many characters of a refusal or an error are kept."""

_Shape = TypeVar("_Shape", bound=msgspec.Struct)


def answer_in(line: bytes) -> dict[str, Any] | None:
    """The answer in a line: an object with an ``id``; None when it is noise."""
    try:
        answer = reading.json(msgspec.json.decode, line)
    except msgspec.MsgspecError:
        return None
    return answer if isinstance(answer, dict) and "id" in answer else None


def is_of(answer: dict[str, Any], number: int) -> bool:
    """Whether an answer carries this id: an integer, and no other value that equals it."""
    return type(answer["id"]) is int and answer["id"] == number


def unreadable(line: bytes, number: int) -> str:
    """Why a line is no JSON that was meant as the answer to the request of this id; empty where it was not."""
    if not re.match(rb'\s*\{(?:.*[,{\s])?"id"\s*:\s*%d\b' % number, line, re.DOTALL):
        return ""
    try:
        reading.json(msgspec.json.decode, line)
    except msgspec.MsgspecError as error:
        if re.search(rb"\\u[dD][89a-fA-F]", line) and "malformed: invalid character" not in str(error):
            return "it holds half of a surrogate pair"
        return str(error)
    return ""


def said(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The content of an answer.

    Raises:
        Unsupported, Refused, Failed: when it says so.
        AdapterError: when it is not as the protocol says.
    """
    if reading.is_deep(answer):
        raise AdapterError(f"its answer to `{verb}` is nested more than {reading.DEPTH} deep")
    ways = [name for name in ("ok", "unsupported", "refused", "error") if name in answer]
    if len(ways) != 1:
        seen = " and ".join(ways) or "none"
        raise AdapterError(
            f"its answer to `{verb}` has {seen} of ok, unsupported, refused, error, not one: {short(answer)}"
        )
    content = answer[ways[0]]
    if ways == ["ok"] and isinstance(content, dict):
        return content
    if ways == ["unsupported"]:
        raise Unsupported(verb)
    if ways == ["ok"] or not isinstance(content, str):
        wanted = "an object" if ways == ["ok"] else "a text"
        raise AdapterError(f"its answer to `{verb}`: `{ways[0]}` is not {wanted}: {short(content)}")
    content = content if len(content) <= TEXT else content[: TEXT - 1] + "…"
    if ways == ["refused"]:
        raise Refused(content)
    raise Failed(f"`{verb}` failed in the adapter: {content}")


def shaped(verb: str, content: dict[str, Any], shape: type[_Shape]) -> _Shape:
    """The content of an answer as the type of its verb.

    Raises:
        AdapterError: when it is not as the protocol says; the message names the field and its value.
    """
    try:
        return msgspec.convert(content, shape)
    except msgspec.ValidationError as error:
        place = reading.place_of(error)
        seen = reading.at(content, place)
        value = f" (it is {reading.shown(seen)})" if place and seen is not None else ""
        raise AdapterError(f"its answer to `{verb}` is not as the protocol says: {error}{value}") from None


def short(value: object) -> str:
    """A value in at most a line."""
    return reading.shown(value, SHOWN)
