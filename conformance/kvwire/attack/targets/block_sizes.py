"""How many tokens a block of a running engine has, as it announces it: prompts that grow until one is heard of."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence

from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import Refused
from kvwire.wire.dialect import read
from kvwire.wire.framing import split_live

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
"""Tokens of the prompts, one after the other and from the first again: less than a block of some engine announces
nothing, and an engine can refuse the longer ones.
"""
AGAIN_S = 0.1
"""How long what a prompt caused may take to be heard before the next is run."""
BOUND_S = 5.0
"""When a handshake, and then a store, is given up."""


def block_size(
    recorder: Recorder, stream: str, vocabulary: Sequence[int], cache: Callable[[Sequence[int]], object]
) -> int | None:
    """The block size of the first store that a witness hears while ``cache`` runs prompts; None within the bounds."""
    tokens = random.Random()  # no two runs alike: what an engine was asked before it may have without a word
    witnesses = recorder.witnesses(stream)
    told: list[int] = []
    at = 0

    def heard() -> bool:
        nonlocal at
        for record in recorder.records[at:]:
            parts = split_live(record.frames) if record.stream == stream and record.is_live and record.frames else None
            if parts is not None:
                told.extend(event.block_size for event in read(parts[1]).events if event.block_size)
        at = len(recorder.records)
        return bool(told)

    if not recorder.wait(lambda: any(recorder.handshakes(stream, witness) for witness in witnesses), BOUND_S):
        return None
    end = time.monotonic() + BOUND_S
    for length in itertools.cycle(LENGTHS):
        if time.monotonic() >= end:
            break
        try:
            cache([tokens.choice(vocabulary) for _ in range(length)])
        except Refused:
            if length == LENGTHS[0]:
                break
        if recorder.wait(heard, AGAIN_S):
            break
    return told[0] if told else None
