"""What a stretch of a stream without any fault comes to, in numbers: how areas are told of it in bulk."""

from __future__ import annotations

from collections import Counter

from kvwire.history.timeline import Batch
from kvwire.wire.plain import Shape


class Step:
    """Occasions since the areas were told last; each attribute is one fact, counted.

    Of live messages that are no copies: ``in_order``, under a number above the last one of their witness;
    ``messages`` like the ones before, and ``numbered`` those under another number than 0.

    Of batches: ``batches``, none of them the first; ``last`` is the last one.

    Of events: ``shapes`` counts them by shape; ``negative`` have a hash that is below 0 in signed form, ``unsigned``
    one in another form; ``named_kinds`` name kind and window as is right; ``resident_parents`` and
    ``window_parents`` have a parent that may be named, and ``chained`` any, or several blocks; ``labelled`` announce
    the hash function as the ones before, ``qualified`` with the width of tokens. ``exceeded``: a window group was.

    Of blocks: ``stored_anew`` under set residency, ``removed`` and ``removed_set`` of them not under counted residency;
    ``fresh`` have a hash that is new; ``narrow`` and ``wide`` are hashed with four and eight bytes a token.
    """

    __slots__ = (
        "batches",
        "chained",
        "exceeded",
        "fresh",
        "in_order",
        "labelled",
        "last",
        "messages",
        "named_kinds",
        "narrow",
        "negative",
        "numbered",
        "qualified",
        "removed",
        "removed_set",
        "resident_parents",
        "shapes",
        "stored_anew",
        "unsigned",
        "wide",
        "window_parents",
    )

    def __init__(self) -> None:
        self.in_order = self.messages = self.numbered = 0
        self.batches = 0
        self.last: Batch | None = None
        self.shapes: Counter[Shape] = Counter()
        self.negative = self.unsigned = self.named_kinds = 0
        self.resident_parents = self.window_parents = self.chained = 0
        self.labelled = self.qualified = 0
        self.exceeded = False
        self.stored_anew = self.removed = self.removed_set = self.fresh = self.narrow = self.wide = 0
