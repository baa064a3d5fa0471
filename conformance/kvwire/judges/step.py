"""What a stretch of a stream without any fault comes to, in numbers: how areas are told of it in bulk."""

from __future__ import annotations


class Step:
    """Occasions since areas were told last; each attribute is one fact, counted.

    ``in_order``: live messages under a number above the last one of their witness.
    """

    __slots__ = ("in_order",)

    def __init__(self) -> None:
        self.in_order = 0
