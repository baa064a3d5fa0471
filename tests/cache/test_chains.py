"""Which chain a block belongs to, and in which scopes it can have been run."""

from __future__ import annotations

from tests.kit.hashed import cached, event, text
from tests.kit.stories import Story

from kvwire.cache.chains import ROOT, Chains, Window, extend
from kvwire.hashes.functions import NO_SCOPE, Scope, Token
from kvwire.trace.stimuli import prompts

DIGEST = bytes(range(32))
SALTED = Scope(salt="tenant-a")


def test_what_is_used_is_not_forgotten() -> None:
    """A prefix stored once stays known while chains go on from it."""
    window: Window[int, str] = Window(2)
    window.put(1, "a")
    for key in range(2, 9):
        window.put(key, "b")
        assert window.get(1) == "a"
    assert (len(window), window.forgotten) == (2, 6)


def test_scopes_come_from_the_prompts_that_can_have_run() -> None:
    shared, other = text(2, 4), text(1, 4, seed=2)
    told = Story(can=("cache",))
    cached(told, [*shared, *other], NO_SCOPE)
    told.send(event([1, 2, 3], [*shared, *other]))
    cached(told, text(1, 4, seed=5))
    cached(told, shared, SALTED)
    told.send(event([4, 5], shared))
    told.send(event([6], text(1, 4, seed=3), parent=5))
    chains = Chains(prompts(list(enumerate(told.records))))
    seen = []
    for batch in told.timeline().incarnations[0].batches:
        for stored in batch.reading.events:
            seen += [link.scopes for link, _ in chains.stored(stored, batch.record)]
    bare, both = frozenset({NO_SCOPE}), frozenset({NO_SCOPE, SALTED})
    # the last block is of no prompt: it was generated behind the one that ends there
    assert seen == [bare, bare, bare, both, both, frozenset({SALTED})]
    assert chains.scopes == (NO_SCOPE, SALTED)


def test_the_next_prompt_can_have_begun() -> None:
    """A stimulus is recorded with its answer; what it causes can be seen before."""
    blocks = text(1, 4)
    told = Story(can=("cache",))
    told.send(event([1], blocks))
    cached(told, blocks, SALTED)
    chains = Chains(prompts(list(enumerate(told.records))))
    (batch,) = told.timeline().incarnations[0].batches
    ((link, prior),) = chains.stored(batch.reading.events[0], batch.record)
    assert prior is None
    assert link.scopes == frozenset({SALTED})


def test_chains_are_told_apart_by_tokens() -> None:
    digest: tuple[Token, ...] = (DIGEST,)
    words = tuple(int.from_bytes(DIGEST[at : at + 8], "little") for at in range(0, 32, 8))
    assert len({extend(ROOT, tokens) for tokens in [digest, words, (1, 2), (2, 1), (1,)]}) == 5
    assert extend(extend(ROOT, (1,)), (2,)) != extend(ROOT, (1, 2))
