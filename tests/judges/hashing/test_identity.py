"""The judge of hashing: what a hash must tell apart, whoever computed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.kit.hashed import Blocks, cached, chain, event, hashing, judged, signed, story, text
from tests.kit.stories import Event, Story, removed

from kvwire.hashes.functions import NO_SCOPE, Scope
from kvwire.standard.statement import Statement
from kvwire.trace.calls import StatsCall
from kvwire_reference.hashing import v1_block_hash

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


def test_a_finding_shows_the_hash_and_where_it_was_stored_before() -> None:
    other = event([1, 2], [text(2)[0], text(1, seed=2)[0]])
    told = story([event([1, 2], text(2))], [other], statement=OPAQUE)
    (finding,) = hashing(told.trace()).tallies["KVW-HSH-008"].findings
    assert (finding.where.number, finding.where.stored) == ("2", "1")
    assert finding.where.hex is not None
    assert finding.where.hex.startswith("02")
    assert opaque([event([1], text(1))]) == {}


def test_one_hash_behind_parents_of_other_tokens() -> None:
    """A hash that leaves out the parent. A parent that is nil once is wrong, or the other is: that is open."""
    first, second, shared = text(3)
    chains = [[event([1, 9], [first, shared])], [event([2, 9], [second, shared])]]
    assert opaque(*chains)["008"] == "FAIL"
    assert opaque(chains[0], [event([9], [shared])])["008"] == "INCONCLUSIVE"
    assert opaque([event([9], [shared])], chains[0])["008"] == "INCONCLUSIVE"
    assert opaque(chains[0], [event([9], [shared], parent=77)])["008"] == "PASS"


def behind(parent: int | None, *, size: int = 16, also: Blocks | None = None, **keys: Any) -> str:
    """A prompt of five blocks, of which the fourth is announced behind another than the third."""
    blocks = text(5, size)
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    cached(told, blocks)
    cached(told, also or [])
    told.send(event([1, 2, 3], blocks[:3], **keys))
    told.send(event([4, 5], blocks[3:], parent=parent, **keys))
    return judged(told)["008"]


def test_a_parent_that_stands_before_the_block_in_no_prompt() -> None:
    """A parent that was taken from what was stored last, or one for all blocks: its chain is one that nobody ran."""
    assert behind(3) == "PASS"
    assert [behind(1), behind(2)] == ["FAIL", "FAIL"]


def test_a_parent_of_which_the_prompts_do_not_tell() -> None:
    """It is not known, another prompt has it there, what stands there is no text, the group skips blocks."""
    blocks = text(5)
    assert behind(77) == "PASS"
    assert behind(2, also=[blocks[1], blocks[3]]) == "PASS"
    assert behind(2, also=[(DIGEST, *range(15)), blocks[3]]) == "PASS"
    assert behind(2, also=[blocks[3]]) == "PASS"
    assert behind(2, group_idx=1, kv_cache_spec_kind="mamba") == "PASS"
    assert behind(2, size=2) == "PASS"


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
    assert said == {"001": "PASS", "002": "PASS", "008": "PASS", "014": "FAIL"}
    assert (
        "stored anew when its tokens ran with LoRA 8; it was that with LoRA 7"
        in hashing(told.trace()).tallies["KVW-HSH-014"].findings[0].seen
    )


# --- adapters and salts ------------------------------------------------------------------------------------------


def scoped_prompts(hashes: dict[Scope, list[int]], *, counted: bool = False) -> dict[str, str]:
    """The same two blocks and one more in each scope, in turn; a hash of 0 is not announced.

    ``counted``: the publisher's counters are asked after each.
    """
    told = Story(can=("cache", "stats"), statement=OPAQUE)
    told.begin()
    for at, (scope, own) in enumerate(hashes.items()):
        blocks: Blocks = [*text(2), *text(1, seed=3 + at)]
        cached(told, blocks, scope)
        new = [value for value in own if value > 0]
        first = len(own) - len(new)
        told.send(event(new, blocks[first:], parent=-own[first - 1] if first else None))
        if counted:
            told.note(StatsCall(offered=told.next))
        cached(told, text(1, seed=90 + at))
        told.send()
    return judged(told)


SALTS = [Scope(salt="a"), Scope(salt="b")]


def test_a_hash_that_ignores_the_adapter_is_announced_once() -> None:
    """The hashes of other scopes do not excuse it: none of them can be the adapter's."""
    plain, salted = [1, 2, 3], [4, 5, 6]
    said = scoped_prompts({NO_SCOPE: plain, SALTS[0]: salted, ADAPTED: [-1, -2, 9]})
    assert (said["005"], said["014"]) == ("PASS", "FAIL")
    said = scoped_prompts({NO_SCOPE: plain, ADAPTED: [-1, -2, 9], SALTS[0]: salted}, counted=True)
    assert (said["005"], said["014"]) == ("PASS", "FAIL")


def test_a_hash_that_ignores_the_salt_is_announced_once() -> None:
    said = scoped_prompts({NO_SCOPE: [1, 2, 3], ADAPTED: [4, 5, 6], SALTS[0]: [-1, -2, 9]})
    assert (said["005"], said["014"]) == ("FAIL", "PASS")


def test_another_hash_that_can_be_the_right_one_excuses_it() -> None:
    """Nobody counts, so that what comes after the adapter's prompt can be late: the parent may be what is wrong."""
    said = scoped_prompts({NO_SCOPE: [1, 2, 3], ADAPTED: [-1, -2, 9], SALTS[0]: [4, 5, 6]})
    assert said.get("014") != "FAIL"


def test_honest_scopes() -> None:
    scopes = [NO_SCOPE, *SALTS, ADAPTED, Scope(lora=8, salt="a")]
    said = scoped_prompts({scope: [10 * at + 1, 10 * at + 2, 10 * at + 3] for at, scope in enumerate(scopes)})
    assert (said["005"], said["014"]) == ("PASS", "PASS")


@pytest.mark.parametrize(("happens", "said"), [("nothing", "INCONCLUSIVE"), ("loss", "PASS"), ("restart", "PASS")])
def test_a_hash_that_is_missing_where_others_were_told_apart(happens: str, said: str) -> None:
    """Where nothing was lost, it is open whether it is one of those that came."""
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    for at, hashes in enumerate([(1, 2), (3, None)]):
        for scope, value in zip((NO_SCOPE, SALTED), hashes, strict=True):
            cached(told, text(1, seed=at), scope)
            told.send(*([] if value is None else [event([value], text(1, seed=at))]))
            cached(told, text(1, seed=90))
            told.send()
    if happens == "loss":
        told.drop()
        told.send()
    elif happens == "restart":
        told.restart()
        told.begin()
    assert judged(told)["005"] == said


def test_a_promotion_that_a_lost_batch_explains() -> None:
    """The block went to another medium in a batch that nobody heard, and came back while another scope ran."""
    for lost in (True, False):
        told = Story(can=("cache",), statement=OPAQUE)
        told.begin()
        cached(told, text(2))
        told.send(event([1, 2], text(2)))
        if lost:
            told.drop()
        else:
            told.send(event([1, 2], text(2), medium="CPU"), removed_of(1, 2))
        cached(told, text(1, seed=9))
        told.send()
        cached(told, text(2), SALTED)
        told.send(event([1, 2], text(2)))
        cached(told, text(1, seed=10))
        told.send()
        assert judged(told)["005"] == "INCONCLUSIVE"


def removed_of(*hashes: int) -> Event:
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU"}


def adapters(*events: dict[str, Any]) -> dict[str, str]:
    """One chain, stored as these events name its adapter."""
    return opaque(*([event([1, 2], text(2), **more)] for more in events))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"lora_id": 7}, {"lora_id": 8}, "FAIL"),
        ({"lora_name": "a"}, {"lora_name": "b"}, "FAIL"),
        ({"lora_id": 7, "lora_name": "a"}, {"lora_id": 8, "lora_name": "b"}, "FAIL"),
        ({"lora_id": 7, "lora_name": "a"}, {"lora_id": 8, "lora_name": "a"}, None),  # loaded once more
        ({"lora_id": 7, "lora_name": "a"}, {"lora_name": "a"}, None),
        ({"lora_id": 7}, {"lora_name": "b"}, None),
        ({"lora_id": 7}, {}, None),
        ({"lora_id": 7}, {"lora_id": 0}, None),
    ],
)
def test_adapters_on_the_wire(first: dict[str, Any], second: dict[str, Any], said: str | None) -> None:
    assert adapters(first, second).get("014") == said
    told = [event([1, 2], text(2), **first)], [event([3, 4], text(2), **second)]
    assert opaque(*told).get("014") == (said and "PASS")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"scope": "5e40b1feca4586cb"}, {"scope": "e48b7fa0fb96a5e4"}, "FAIL"),
        ({"scope": "5e40b1feca4586cb"}, {"scope": "5e40b1feca4586cb"}, None),
        ({"scope": "5e40b1feca4586cb"}, {}, None),
        ({"scope": "5e40b1feca4586cb"}, {"scope": None}, None),
        ({"scope": "5e40b1feca4586cb", "lora_id": 7}, {"scope": "e48b7fa0fb96a5e4", "lora_id": 7}, "FAIL"),
    ],
)
def test_scope_tags_on_the_wire(first: dict[str, Any], second: dict[str, Any], said: str | None) -> None:
    assert adapters(first, second).get("005") == said
    told = [event([1, 2], text(2), **first)], [event([3, 4], text(2), **second)]
    assert opaque(*told).get("005") == (said and "PASS")


def test_a_hash_under_two_tags_shows_without_a_prompt() -> None:
    told = Story(can=(), statement=Statement(algorithm="opaque", salt="tag"))
    one, other = "5e40b1feca4586cb", "e48b7fa0fb96a5e4"
    for tag in (one, other):
        told.send(event([1], text(1), scope=tag), removed_of(1))
    assert told.spoken()["HSH-005"] == "hash 1 under both"
    assert told.outcome("HSH-005").findings[0].expected == (
        f"another hash for the same tokens under the scope tag {other} than under the scope tag {one}"
    )


# --- blocks of two sizes, collisions, items ----------------------------------------------------------------------


def halves(blocks: Blocks) -> Blocks:
    """The same tokens in blocks of half the size."""
    return [part for block in blocks for part in (block[: len(block) // 2], block[len(block) // 2 :])]


def test_a_coarse_block_has_the_hash_at_its_last_fine_boundary() -> None:
    coarse = text(2)
    fine = [event([1, 2, 3, 4], halves(coarse))]
    assert opaque(fine, [event([2, 4], coarse, group_idx=1)])["008"] == "PASS"
    assert opaque(fine, [event([1, 4], coarse, group_idx=1)])["008"] == "FAIL"
    assert opaque(fine, [event([2, 4], [text(1, seed=5)[0], coarse[1]], group_idx=1)])["008"] == "FAIL"
    assert opaque(fine, [event([4], [coarse[1]], parent=77, group_idx=1)])["008"] == "PASS"  # not seen from its root


def finer_in_the_host(told: Story, scope: Scope, hashes: Sequence[int], blocks: Blocks, **keys: Any) -> None:
    """A prompt whose second block is in another medium too, in two halves, which hang on the first block."""
    cached(told, blocks, scope)
    told.send(
        event(hashes[:2], blocks, **keys),
        event(hashes[2:], halves(blocks[1:]), parent=hashes[0], medium="CPU", **keys),
    )
    cached(told, text(1, seed=80 + hashes[0]))
    told.send()


def test_behind_a_block_of_another_size_no_prompt_tells_the_scope() -> None:
    """A prompt that ends with the first block is no cause of what hangs on it there, whoever ran it."""
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    blocks = text(2)
    cached(told, blocks[:1])
    told.send(event([1], blocks[:1]))
    finer_in_the_host(told, SALTED, [11, 12, 13, 14], blocks)
    finer_in_the_host(told, ADAPTED, [21, 22, 23, 24], blocks, lora_id=7)
    assert judged(told).get("006") != "FAIL"


def test_what_names_an_adapter_is_no_chain_without_one() -> None:
    """Behind the end of a prompt an engine goes on by itself, and which prompt that was, an event can tell."""
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    blocks = text(2)
    cached(told, blocks[:1])
    told.send(event([1, 2], blocks))
    told.send(event([11, 12], blocks, lora_id=7))
    assert judged(told).get("006") != "FAIL"


def test_what_somebody_else_ran_is_not_of_our_prompts() -> None:
    """Another user's adapter ran the tokens of two prompts of ours, which had no adapter, and says so."""
    told = Story(can=("cache",), statement=OPAQUE)
    told.begin()
    blocks = text(2)
    cached(told, blocks[:1])
    told.send(event([21], blocks[:1], lora_id=7))
    cached(told, text(1, seed=90))
    told.send()
    cached(told, blocks, SALTED)
    told.send(event([22], blocks[1:], parent=21, lora_id=7))
    cached(told, text(1, seed=91))
    told.send()
    said = judged(told)
    assert "FAIL" not in {said.get("005"), said.get("006"), said.get("014")}


def colliding() -> tuple[Blocks, int]:
    """Two blocks of two tokens with one hash under `v1_block_key`: the second makes up for the first."""
    first = v1_block_hash((1, 2))
    for token in range(3, 2**16):
        seed = 2 ^ ((mixed(token) + (2 << 6)) % 2**64)
        rest = (first ^ seed) - (seed << 6) - (seed >> 2)
        if 0 <= rest % 2**64 < 2**32 and (other := unmixed(rest % 2**64)) < 2**31:
            assert v1_block_hash((token, other)) == first
            return [(1, 2), (token, other)], first
    raise AssertionError


def mixed(token: int) -> int:
    v = (token ^ (token >> 16)) * 0x45D9F3B % 2**32
    v = (v ^ (v >> 16)) * 0x45D9F3B % 2**32
    return ((v ^ (v >> 16)) + 0x9E3779B9) % 2**32


def unmixed(value: int) -> int:
    inverse = pow(0x45D9F3B, -1, 2**32)
    v = (value - 0x9E3779B9) % 2**32
    for _ in range(2):
        v = (v ^ (v >> 16)) * inverse % 2**32
    return v ^ (v >> 16)


def test_a_function_that_collides_is_excepted() -> None:
    blocks, value = colliding()
    batches = [[event([value], [block])] for block in blocks]
    said = {name: judged(story(*batches, statement=Statement(algorithm=name))) for name in ("v1_block_key", "opaque")}
    assert (said["v1_block_key"].get("008"), said["opaque"]["008"]) == (None, "FAIL")
    told = story(*batches, statement=Statement(algorithm="v1_block_key"))
    (note,) = hashing(told.trace()).tallies["KVW-HSH-008"].notes
    assert note == f"hash {value} stood for a block of other tokens: its function collides there"


def test_items_that_differ() -> None:
    """Placeholders for two images are the same tokens; what `mm_keys` say of them tells."""

    def item(digest: str) -> dict[str, Any]:
        return {"mm_keys": [[{"type": "mm_key", "hash": digest * 32, "start_offset": 0}]]}

    first = [event([1], text(1), **item("ab"))]
    assert opaque(first, [event([1], text(1), **item("cd"))])["008"] == "FAIL"
    assert opaque(first, [event([2], text(1), **item("cd"))])["008"] == "PASS"
    assert opaque(first, [event([1], text(1), **item("ab"))], [event([2], text(1, seed=5))])["008"] == "PASS"
    assert opaque(first, [event([1], text(1))]) == {}


def test_items_are_listed_in_any_order() -> None:
    """The same two items of a block, as another medium lists them."""
    keys = [{"type": "mm_key", "hash": digest * 32, "start_offset": 0} for digest in ("ab", "cd")]
    first, again = event([1], text(1), mm_keys=[keys]), event([1], text(1), mm_keys=[keys[::-1]], medium="CPU")
    assert "008" not in opaque([first], [again])
