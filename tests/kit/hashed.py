"""Streams whose hashes are those of a known function, true or mistaken: what parity is tested with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from tests.kit.stories import Event, Story

from kvwire.cache.cases import Match, Mismatch, Result, Unknown
from kvwire.cache.chains import Chains
from kvwire.cache.parity import Parity
from kvwire.conclusion.judging import records_of
from kvwire.conclusion.showing import show
from kvwire.hashes.functions import NO_SCOPE, Block, Function, Scope, State, Token
from kvwire.hashes.mistakes import BY_NAME
from kvwire.judges.area import Context
from kvwire.judges.hashing import Hashing
from kvwire.judges.verdict import Tally
from kvwire.standard import registry
from kvwire.trace.calls import CacheCall
from kvwire.trace.records import Trace
from kvwire.trace.stimuli import prompts

Blocks = list[tuple[Token, ...]]


def text(count: int, size: int = 16, seed: int = 1) -> Blocks:
    """Blocks of random text tokens."""
    source = random.Random(seed)
    return [tuple(source.randrange(150_000) for _ in range(size)) for _ in range(count)]


def extra_of(index: int, scope: Scope) -> tuple[Any, ...] | None:
    """The extra keys that vLLM has for a block."""
    parts = (scope.lora_name, scope.salt if index == 0 else None)
    return tuple(part for part in parts if part is not None) or None


def chain(
    name: str,
    blocks: Sequence[tuple[Token, ...]],
    scope: Scope = NO_SCOPE,
    mm: Sequence[tuple[tuple[bytes, int], ...]] | None = None,
) -> list[int]:
    """The hashes of a chain by a function; where a mistake shows nothing, the truth."""
    return [state.hash or 0 for state in states(BY_NAME[name], blocks, scope, mm)]


def states(
    function: Function,
    blocks: Sequence[tuple[Token, ...]],
    scope: Scope = NO_SCOPE,
    mm: Sequence[tuple[tuple[bytes, int], ...]] | None = None,
) -> list[State]:
    """The states of a chain after each of its blocks."""
    truth = BY_NAME[function.truth or function.name]
    right, state = truth.start(scope), function.start(scope)
    assert right is not None
    found: list[State] = []
    parent: int | None = None
    for index, tokens in enumerate(blocks):
        block = Block(tokens, parent, () if mm is None else mm[index], extra_of(index, scope))
        right = truth.step(right, block)
        if state is not None:
            state = function.step(state, block)
        shown = state if state is not None and state.hash is not None else right
        parent = shown.hash
        found.append(shown)
    return found


def signed(value: int) -> int:
    """The form that the wire prefers."""
    return value - 2**64 if value >= 2**63 else value


def event(
    hashes: Sequence[int],
    blocks: Sequence[tuple[Token, ...]],
    parent: int | None = None,
    *,
    first: int = 0,
    **keys: Any,
) -> Event:
    """A ``BlockStored`` of the blocks from ``first`` on, in a chain that begins behind ``parent``."""
    tokens = [t.hex() if isinstance(t, bytes) else t for block in blocks[first:] for t in block]
    above = hashes[first - 1] if first else parent
    made: Event = {
        "type": "BlockStored",
        "block_hashes": [signed(value) for value in hashes[first:]],
        "parent_block_hash": None if above is None else signed(above),
        "token_ids": tokens,
        "block_size": len(blocks[0]),
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    return made | keys


def story(*batches: Iterable[Event], can: Sequence[str] = (), **options: Any) -> Story:
    """A story of one batch each."""
    told = Story(can=can, **options)
    told.begin()
    for events in batches:
        told.send(*events)
    return told


def cached(told: Story, blocks: Sequence[tuple[Token, ...]], scope: Scope = NO_SCOPE) -> None:
    """A prompt of these blocks, run through the engine."""
    tokens = tuple(t.hex() if isinstance(t, bytes) else t for block in blocks for t in block)
    lora = None if scope.lora is None else str(scope.lora)
    told.note(CacheCall(tokens=tokens, lora=lora, salt=scope.salt, cached_tokens=0))


def recompute(told: Story, label: str | None = None, **options: Any) -> tuple[Parity, list[Result]]:
    """Everything that is stored in a story, through a tracker of its own."""
    chains = Chains(prompts(list(enumerate(told.records))))
    parity = Parity(chains.scopes, **options)
    results: list[Result] = []
    for incarnation in told.timeline().incarnations:
        chains.begin()
        parity.begin()
        for batch in incarnation.batches:
            for seen in batch.reading.events:
                if seen.kind == "stored":
                    links = [link for link, _ in chains.stored(seen, batch.record)]
                    results += parity.stored(batch, seen, links, label)
    return parity, results


def kinds(results: Sequence[Result]) -> str:
    """One letter a block: a match, a wrong hash, unknown."""
    return "".join({Match: "m", Mismatch: "w", Unknown: "?"}[type(result)] for result in results)


def wired(function: Function, blocks: Blocks, scope: Scope = NO_SCOPE, **keys: Any) -> list[Any]:
    """A chain in two events, as a publisher that uses the function sends it."""
    hashes = chain(function.name, blocks, scope)
    half = len(blocks) // 2
    parts = []
    for first, last in ((0, half), (half, len(blocks))) if half else ((0, 1),):
        if function.label.startswith("x-vllm"):
            keys["extra_keys"] = [extra_of(at, scope) for at in range(first, last)]
        parts.append(event(hashes[:last], blocks[:last], first=first, **keys))
    return parts


def hashing(trace: Trace) -> Hashing:
    """The judge after it has seen a trace of one stream."""
    (stream,) = trace.header.streams
    records = records_of(trace, stream.name)
    context = Context.of(trace.header, stream, records, registry.load())
    area = Hashing(context)
    show(context, records, [area])
    return area


def verdict(tally: Tally | None) -> str:
    """What becomes of a tally of a MUST: PASS, FAIL or INCONCLUSIVE; ``""`` when the judge said nothing."""
    if tally is None or not (tally.violations or tally.opened or tally.witnesses):
        return ""
    return "FAIL" if tally.violations else "INCONCLUSIVE" if tally.opened else "PASS"


def judged(told: Story) -> dict[str, str]:
    """Every verdict of the hashing judge, by the last three digits of the id."""
    area = hashing(told.trace())
    return {name[-3:]: said for name, tally in sorted(area.tallies.items()) if (said := verdict(tally))}
