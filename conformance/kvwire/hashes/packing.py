"""Token ids as bytes."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

_ids = array("I")
assert _ids.itemsize == 4


def token_bytes(tokens: Sequence[int]) -> bytes:
    """Token ids as four bytes each, little-endian.

    Raises:
        OverflowError: when one is outside 0…2^32−1.
        TypeError: when one is no integer.
    """
    ids = _ids
    try:
        if isinstance(tokens, list):
            ids.fromlist(tokens)
        else:
            ids.extend(tokens)
        if sys.byteorder == "big":
            ids.byteswap()
        return ids.tobytes()
    finally:
        del ids[:]


def widened(data: bytes, width: int) -> bytes:
    """Token ids of four bytes as such of ``width``, four or eight."""
    if width == 4:
        return data
    wide = array("Q", memoryview(data).cast("I"))
    return wide.tobytes()
