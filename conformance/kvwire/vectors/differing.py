"""Where two JSON values differ, named place by place: an answer of a thousand characters can lack one key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

SHOWN = 160
"""Characters of a value that a message shows."""
MOST = 3
"""Differences that a message names."""

Equal = Callable[[Any, Any], bool]


def short(value: Any) -> str:
    """A value as JSON, cut."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def places(wanted: Any, found: Any, equal: Equal, at: str) -> Iterator[str]:
    """Each place below ``at`` where ``found`` is not as ``wanted``, in words."""
    if equal(wanted, found):
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping) and {"float", "bits"} - wanted.keys():
        for key, value in wanted.items():
            if key not in found:
                yield f"`{at}.{key}` is missing, expected {short(value)}"
            else:
                yield from places(value, found[key], equal, f"{at}.{key}")
        for key in found.keys() - wanted.keys():
            yield f"`{at}.{key}` is {short(found[key])}, where none is expected"
    elif isinstance(wanted, list | tuple) and isinstance(found, list | tuple) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from places(one, other, equal, f"{at}[{index}]")
    else:
        length = f" ({len(found)} elements, not {len(wanted)})" if _both(wanted, found) else ""
        yield f"`{at}` is {short(found)}, expected {short(wanted)}{length}"


def _both(wanted: Any, found: Any) -> bool:
    return isinstance(wanted, list | tuple) and isinstance(found, list | tuple)


def told(wanted: Any, found: Any, equal: Equal, at: str) -> str:
    """The first differences, and how many there are more."""
    all_of_them = list(places(wanted, found, equal, at))
    rest = len(all_of_them) - MOST
    more = f"; and {rest} more difference{'s' if rest > 1 else ''}" if rest > 0 else ""
    return "; ".join(all_of_them[:MOST]) + more
