"""What strangers wrote, made safe to show: one function, behind every face.

Topics, events, adapters, statements and file names come from whoever is tested, and a terminal, a CI log or a page
obeys some characters instead of showing them: C0 and C1 controls (ESC begins a sequence, a newline forges a row), what
changes the direction of text, what has no width, and halves of surrogate pairs, which no encoder takes.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

_UNSEEN = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # without width, directions, separators
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations, tags
    "\ud800-\udfff"
    "]"
)
_COMMAND = re.compile("::(?=[A-Za-z-]+[^:]*::)")
"""What a CI system obeys at the begin of a line, where a wrapped text can come to stand."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

Struct = TypeVar("Struct", bound=msgspec.Struct)


def _code(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def visible(text: str) -> str:
    r"""The text on one line, each character that is obeyed or unseen written as Python would: `\x1b`, `\n`."""
    return _COMMAND.sub(r":\\x3a", _UNSEEN.sub(_code, text))


def safe(struct: Struct) -> Struct:
    """A struct whose every text, however deep, keys included, is ``visible``.

    Raises:
        msgspec.ValidationError: when a text of a closed list holds such a character; a result that was read has none.
    """
    return msgspec.convert(_walked(msgspec.to_builtins(struct)), type(struct))


def _walked(value: object) -> object:
    match value:
        case str():
            return visible(value)
        case dict():
            return {_walked(key): _walked(item) for key, item in value.items()}
        case list() | tuple():
            return [_walked(item) for item in value]
        case _:
            return value


def ascii_json(raw: bytes) -> bytes:
    r"""JSON text with those characters as ``\uXXXX``: the same values, and nothing that a terminal obeys."""
    return _UNSEEN_IN_JSON.sub(_json_code, raw.decode()).encode()


_UNSEEN_IN_JSON = re.compile(_UNSEEN.pattern.replace("\x00-\x1f", ""))
"""JSON escapes C0 itself, and a newline between lines is no character of a text."""


def _json_code(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
