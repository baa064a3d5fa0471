"""The judge of hashing: what a hash must tell apart, whoever computed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.hashed import Blocks, cached, chain, event, hashing, judged, signed, story, text
from tests.kit.stories import Event, Story, removed

from kvwire.hashes.functions import NO_SCOPE, Scope
from kvwire.standard.statement import Statement

SALTED = Scope(salt="tenant-a")
ADAPTED = Scope(lora=7)
DIGEST = bytes(range(32))
OPAQUE = Statement(algorithm="opaque")


def opaque(*batches: Sequence[Event]) -> dict[str, str]:
    return judged(story(*batches, statement=OPAQUE))


def test_one_hash_for_other_tokens() -> None:
    assert opaque([event([1, 2], text(2))], [event([1, 3], [text(2)[0], text(1, seed=2)[0]])])["008"] == "PASS"
    assert opaque([event([1, 2], text(2))], [event([1, 2], [text(2)[0], text(1, seed=2)[0]])])["008"] == "FAIL"
    assert opaque([event([1, 1], text(2))])["008"] == "FAIL"
    assert opaque([event([1], text(1))]) == {}


def test_one_hash_behind_parents_of_other_tokens() -> None:
    """A hash that leaves out the parent. A parent that is nil once is wrong, or the other is: no proof."""
    first, second, shared = text(3)
    chains = [[event([1, 9], [first, shared])], [event([2, 9], [second, shared])]]
    assert opaque(*chains)["008"] == "FAIL"
    assert opaque(chains[0], [event([9], [shared])])["008"] == "PASS"
    assert opaque(chains[0], [event([9], [shared], parent=77)])["008"] == "PASS"


def test_a_new_incarnation_may_hash_anew() -> None:
    told = story([event([1, 2], text(2))], statement=OPAQUE)
    told.restart()
    told.begin()
    told.send(event([1, 2], text(2, seed=2)))
    assert judged(told)["008"] == "PASS"


def rerun(
    *second: int, scope: Scope = NO_SCOPE, other: Scope | None = None, mm: bool = False, extra: Any = ()
) -> str | None:
    """A prompt, its removal, and the same prompt again, hashed as ``second``."""
    blocks: Blocks = [(DIGEST, *range(15)), *text(1)] if mm else text(2)
    keys: dict[str, Any] = {"mm_keys": [[], []]} if mm else {"extra_keys": extra} if extra else {}
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    cached(told, blocks, scope)
    told.send(event([1, 2], blocks, **keys))
    told.send({"type": "BlockRemoved", "block_hashes": [2, 1], "medium": "GPU"})
    cached(told, text(1, seed=9))
    cached(told, blocks, scope if other is None else other)
    told.send(event(second, blocks, **keys))
    return judged(told).get("006")


def test_equal_chains() -> None:
    assert rerun(1, 2) == "PASS"
    assert rerun(1, 3) == "FAIL"
    assert rerun(4, 5, scope=SALTED) == "FAIL"
    assert rerun(4, 5, other=SALTED) is None  # either scope can be meant
    assert rerun(4, 5, mm=True) is None


def test_extra_keys_that_are_there_may_be_more_than_tokens() -> None:
    """An engine that has such keys sends them of every block, nil where there is none."""
    assert [rerun(1, 3, extra=extra) for extra in ([None, None], [None, ["a1"]])] == ["FAIL", None]


def test_equal_chains_need_prompts() -> None:
    assert "006" not in opaque([event([1], text(1))], [removed([1])], [event([2], text(1))])


def shared(
    first: Sequence[int], second: Sequence[int], *, suffix: bool, gap: bool = False, twice: bool = False
) -> str | None:
    """The same two blocks in two scopes, hashed as ``first`` and ``second``; with a block more of each prompt's own."""
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    tails = [text(1, seed=3), text(1, seed=4)] if suffix else [[], []]
    for at, (scope, hashes) in enumerate([(NO_SCOPE, first), (SALTED, second)]):
        blocks: Blocks = [*text(2), *tails[at]]
        cached(told, blocks, scope)
        if twice and not at:
            cached(told, blocks, scope)
        if gap and at:
            told.drop()
        if hashes:
            parent = first[1] if len(hashes) == 1 else None
            told.send(event(hashes, blocks[-len(hashes) :], parent=parent))
        cached(told, text(1, seed=9 + at))  # so that the next of the two cannot have begun
    told.send()
    return judged(told).get("005")


@pytest.mark.parametrize(
    ("first", "second", "suffix", "said"),
    [
        ((1, 2, 3), (4, 5, 6), True, "PASS"),
        ((1, 2, 3), (1, 2, 6), True, "FAIL"),  # stored anew
        ((1, 2, 3), (6,), True, "FAIL"),  # announced once: the child's parent tells
        ((1, 2), (4, 5), False, "PASS"),
        ((1, 2), (1, 2), False, "FAIL"),
        ((1, 2), (), False, "INCONCLUSIVE"),  # not announced: shed, lost, or equal
        ((), (), False, None),
    ],
)
def test_scopes(first: tuple[int, ...], second: tuple[int, ...], suffix: bool, said: str | None) -> None:
    assert shared(first, second, suffix=suffix) == said


def test_scopes_are_not_told_apart_by_what_another_cause_explains() -> None:
    """A second prompt in the first scope can be why a hash is stored anew; a lost batch, why one is missing."""
    assert shared((1, 2), (1, 2), suffix=False, twice=True) == "INCONCLUSIVE"
    assert shared((1, 2), (4, 5), suffix=False, gap=True) == "PASS"
    assert shared((1, 2), (), suffix=False, gap=True) == "INCONCLUSIVE"


def test_a_copy_in_another_medium_is_no_other_scope() -> None:
    told = Story(can=("cache",), statement=OPAQUE)
    cached(told, text(2))
    told.send(event([1, 2], text(2)))
    cached(told, text(1, seed=9))
    cached(told, text(2), SALTED)
    told.send(event([1, 2], text(2), medium="CPU"))
    assert judged(told)["005"] == "INCONCLUSIVE"
    told.send(event([3, 4], text(2)))
    assert judged(told)["005"] == "PASS"


def test_a_store_that_is_sent_twice_is_no_shared_hash() -> None:
    """A fault of its own: both scopes' hashes are seen."""
    told = Story(can=("cache",), statement=OPAQUE)
    cached(told, text(1))
    told.send(event([1], text(1)))
    cached(told, text(1, seed=9))
    cached(told, text(1), SALTED)
    told.send(event([1], text(1)))
    told.send(event([signed(2**63)], text(1)))
    assert judged(told)["005"] == "PASS"


def test_equal_hashes_by_a_real_function() -> None:
    """SGLang's hashes take no LoRA: parity holds, and two adapters share their blocks."""
    told = Story(can=("cache",), statement=Statement(algorithm="x-sglang-sha256"))
    told.begin()
    for at, scope in enumerate([ADAPTED, Scope(lora=8)]):
        blocks: Blocks = [*text(2), *text(1, seed=3 + at)]
        cached(told, blocks, scope)
        told.send(event(chain("x-sglang-sha256", blocks), blocks))
        cached(told, text(1, seed=9 + at))
    said = judged(told)
    assert (said["001"], said["002"], said["005"]) == ("PASS", "PASS", "FAIL")
    assert (
        "stored anew when its tokens ran with LoRA 8; it was that with LoRA 7"
        in hashing(told.trace()).tallies["KVW-HSH-005"].findings[0].seen
    )
