"""The judge of hashing: one function, told truly; scopes, equal chains and different chains."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.kit.hashed import (
    Blocks,
    cached,
    chain,
    event,
    hashing,
    judged,
    signed,
    story,
    text,
    verdict,
    wired,
)
from tests.kit.stories import Event, Story, removed

from kvwire.hashes.functions import NO_SCOPE, TRUE, Function, Scope
from kvwire.hashes.mistakes import BY_NAME
from kvwire.judges.area import judges_of
from kvwire.judges.hashing import Hashing
from kvwire.judges.verdict import Reason, Verdict
from kvwire.standard import registry
from kvwire.standard.statement import Statement

SALTED = Scope(salt="tenant-a")
ADAPTED = Scope(lora=7)
DIGEST = bytes(range(32))


def stream(name: str, *lengths: int, size: int = 16, scope: Scope = NO_SCOPE, **keys: Any) -> list[list[Event]]:
    """Chains by one function, one batch each."""
    return [wired(BY_NAME[name], text(n, size, seed=50 + at), scope, **keys) for at, n in enumerate(lengths)]


def finding(told: Story, requirement: str) -> str:
    """What the first finding expected and saw."""
    tally = hashing(told.trace()).tallies[f"KVW-HSH-{requirement}"]
    return f"expected {tally.findings[0].expected}; seen {tally.findings[0].seen}"


def declared(algorithm: str) -> Statement:
    return Statement(algorithm=algorithm)


def test_every_sentence_has_its_place() -> None:
    wanted = {
        requirement.id
        for requirement in registry.load().binding("publisher")
        if requirement.area == "HSH" and requirement.judged
    }
    assert {judge.requirement for judge in judges_of(Hashing)} == wanted


# --- one function ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", TRUE, ids=[function.name for function in TRUE])
def test_every_function_passes_with_its_count(function: Function) -> None:
    area = hashing(story(*stream(function.name, 40, 67)).trace())
    tally = area.tallies["KVW-HSH-001"]
    assert (verdict(tally), tally.witnesses) == ("PASS", 107)
    assert tally.notes == [f"matches ×107 {function.label}"]
    assert verdict(area.tallies.get("KVW-HSH-002")) == ""


def test_the_revision_of_v1_is_named_once_a_digest_tells_it() -> None:
    name = TRUE[-1].name
    blocks: Blocks = [*text(2), (DIGEST, *range(15)), *text(2, seed=2)]
    told = story([event(chain(name, blocks), blocks, mm_keys=[[] for _ in blocks])], statement=declared("v1_block_key"))
    assert judged(told) == {"001": "PASS", "002": "PASS", "008": "PASS"}
    assert hashing(told.trace()).tallies["KVW-HSH-001"].notes == [f"matches ×5 {name}"]


@pytest.mark.parametrize(
    ("name", "size", "blocks", "said"),
    [
        ("v1_block_key/no-wrap", 16, 12, "FAIL"),
        ("v1_block_key/no-wrap", 16, 7, "INCONCLUSIVE"),
        ("v1_block_key/no-wrap", 1, 60, "FAIL"),  # 37 % of first blocks are right
        ("v1_block_key/no-wrap", 1, 7, "INCONCLUSIVE"),
        ("v1_block_key/no-parent", 16, 12, "FAIL"),
        ("v2_sha256_64/u32/short-parent", 16, 12, "FAIL"),
        ("v2_sha256_64/u64/no-root-key", 16, 8, "FAIL"),
        ("x-dynamo-xxh3/seed-0", 16, 8, "FAIL"),
    ],
)
def test_a_mistake_without_announcement(name: str, size: int, blocks: int, said: str) -> None:
    told = story(*stream(name, blocks, size=size))
    assert judged(told)["001"] == said
    tally = hashing(told.trace()).tallies["KVW-HSH-001"]
    assert (tally.opened == 0) is (said == "FAIL")
    assert BY_NAME[name].wrong in (tally.findings[0].seen if tally.findings else tally.open_reason)


def test_first_blocks_that_a_mistake_leaves_right_do_not_hide_it() -> None:
    told = story(*stream("v1_block_key/no-wrap", *[1] * 60, size=1))
    area = hashing(told.trace())
    assert area.parity.matched > 10
    assert judged(told)["001"] == "FAIL"
    tally = area.tallies["KVW-HSH-001"]
    assert tally.witnesses == tally.violations, "what a truth of that many gives as well is no occasion"


def test_short_blocks_that_a_mistake_gives_as_well_decide_nothing() -> None:
    blocks = [text(1, size=1, seed=seed) for seed in range(60)]
    both = [one for one in blocks if chain("v1_block_key", one) == chain("v1_block_key/no-wrap", one)]
    told = story(*([event(chain("v1_block_key", one), one)] for one in both))
    tally = hashing(told.trace()).tallies["KVW-HSH-001"]
    assert tally.violations == 0
    assert tally.open_reason == f"a known mistake gives the {len(both)} short blocks that match, too"


def test_an_eight_block_truth_outweighs_a_mistake() -> None:
    """Nine chains that are right, and one that is not: the stream's function is known, and broken."""
    told = story(
        *stream("v1_block_key", 9), *[[event(chain("v1_block_key/no-wrap", text(2, seed=2)), text(2, seed=2))]]
    )
    assert judged(told)["001"] == "FAIL"
    assert "32-bit wrap missing" in finding(told, "001")
    assert hashing(told.trace()).tallies["KVW-HSH-001"].violations == 2


@pytest.mark.parametrize(("before", "said"), [(8, "FAIL"), (7, "INCONCLUSIVE")])
def test_a_wrong_hash_behind_right_ones(before: int, said: str) -> None:
    blocks = text(before + 1)
    hashes = [*chain("v2_sha256_64/u32", blocks)[:before], 2**40]
    told = story([event(hashes, blocks)])
    assert judged(told)["001"] == said
    if said == "FAIL":
        wanted = chain("v2_sha256_64/u32", blocks)[-1]
        assert f"expected {wanted}, the hash by `v2_sha256_64/u32`, as 8 other blocks" in finding(told, "001")
        (place,) = [found.where for found in hashing(told.trace()).tallies["KVW-HSH-001"].findings]
        assert place.number == "1"
        assert place.hex is not None
        assert place.hex.startswith("cf0000010000000000")


@pytest.mark.parametrize("label", [None, "v2_sha256_64"])
def test_width_switched_in_mid_stream(label: str | None) -> None:
    keys: dict[str, Any] = {} if label is None else {"hash_algo": label}
    told = story(*stream("v2_sha256_64/u32", 5, **keys), *stream("v2_sha256_64/u64", 3, **keys))
    said = judged(told)
    assert said["001"] == "FAIL"
    assert "`v2_sha256_64/u32`, as before; seen" in finding(told, "001")
    # the bare label covers either width: that it is one throughout is KVW-HSH-001
    assert said.get("002") == (None if label is None else "PASS")


def test_width_switched_under_a_qualified_label() -> None:
    keys: dict[str, Any] = {"hash_algo": "v2_sha256_64/u32"}
    told = story(*stream("v2_sha256_64/u32", 5, **keys), *stream("v2_sha256_64/u64", 3, **keys))
    assert {"001": "FAIL", "002": "FAIL"}.items() <= judged(told).items()
    assert "eight bytes each" in finding(told, "002")


def test_random_hashes_are_inconclusive() -> None:
    source = random.Random(1)
    told = story(*[[event([source.randrange(2**64) for _ in range(9)], text(9, seed=at))] for at in range(9)])
    assert judged(told) == {"001": "INCONCLUSIVE", "008": "PASS"}
    reason = hashing(told.trace()).tallies["KVW-HSH-001"].open_reason
    assert reason == "no known function reproduces these hashes, and none is declared `opaque`"


def test_what_stays_open_names_the_nearest_mistake() -> None:
    tally = hashing(story(*stream("v1_block_key/no-wrap", 7)).trace()).tallies["KVW-HSH-001"]
    wrong = BY_NAME["v1_block_key/no-wrap"].wrong
    assert tally.open_reason.endswith(f"; nearest: 7 by `v1_block_key/no-wrap`: {wrong}")


@pytest.mark.parametrize(
    ("algorithm", "one", "true"),
    [
        (None, "", Reason.NOT_USED),
        ("opaque", Reason.NOT_CLAIMED, Reason.NOT_CLAIMED),
        ("v1_block_key", "", ""),
    ],
)
def test_a_stream_without_a_block_owes_what_is_said_of_its_hashes(algorithm: str | None, one: str, true: str) -> None:
    told = Story(statement=Statement(algorithm=algorithm)).begin()
    for name, reason in (("HSH-001", one), ("HSH-002", true)):
        outcome = told.outcome(name)
        assert outcome.verdict is (Verdict.NOT_APPLICABLE if reason else Verdict.INCONCLUSIVE)
        assert not reason or outcome.reason == reason


def test_opaque_is_not_recomputed() -> None:
    source = random.Random(1)
    batches = [[event([source.randrange(2**64) for _ in range(9)], text(9, seed=at))] for at in range(9)]
    assert judged(story(*batches, statement=declared("opaque"))) == {"008": "PASS"}
    for batch in batches:
        batch[0]["hash_algo"] = "opaque"
    assert judged(story(*batches)) == {"003": "PASS", "008": "PASS", "009": "PASS"}


def test_a_restart_may_change_the_function_and_its_label() -> None:
    told = story(*stream("v2_sha256_64/u64", 9, hash_algo="v2_sha256_64/u64"))
    told.restart()
    told.begin()
    told.send(*wired(BY_NAME["v2_sha256_64/u32"], text(9), hash_algo="v2_sha256_64/u32"))
    said = judged(told)
    assert (said["001"], said["002"], said["003"]) == ("PASS", "PASS", "PASS")
    told.disconnect()
    told.send(*wired(BY_NAME["v2_sha256_64/u64"], text(9), hash_algo="v2_sha256_64/u64"))  # a new life, perhaps
    assert judged(told) == said


# --- scopes that are not on the wire -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v1_block_key", "v2_sha256_64/u32"])
@pytest.mark.parametrize("scope", [SALTED, ADAPTED], ids=["salt", "lora"])
@pytest.mark.parametrize("statement", [None, "right"])
def test_a_salted_chain_is_no_failure(name: str, scope: Scope, statement: str | None) -> None:
    told = story(
        *stream(name, 12),
        wired(BY_NAME[name], text(6, seed=2), scope),
        statement=declared(name) if statement else None,
    )
    said = judged(told)
    assert said["001"] == "PASS"
    assert said.get("002") == ("PASS" if statement else None)
    (_, note) = hashing(told.trace()).tallies["KVW-HSH-001"].notes
    assert "scope is not on the wire" in note


def test_salted_chains_alone_are_inconclusive() -> None:
    told = story(wired(BY_NAME["v2_sha256_64/u32"], text(6), SALTED), statement=declared("v2_sha256_64/u32"))
    assert judged(told) == {"001": "INCONCLUSIVE", "002": "INCONCLUSIVE", "008": "PASS"}


@pytest.mark.parametrize("name", ["v1_block_key", "v2_sha256_64/u64"])
@pytest.mark.parametrize("scope", [NO_SCOPE, SALTED, ADAPTED, Scope(lora=0, salt="b")], ids=lambda scope: scope.text)
def test_a_scope_that_we_chose(name: str, scope: Scope) -> None:
    told = Story(can=("cache",), statement=declared(name))
    told.begin()
    cached(told, text(3), scope)
    told.send(*wired(BY_NAME[name], text(3), scope))
    assert judged(told) == {"001": "PASS", "002": "PASS", "008": "PASS"}
    wrong = Story(can=("cache",), statement=declared(name))
    cached(wrong, text(3), scope)
    wrong.send(event([value ^ 1 for value in chain(name, text(3), scope)], text(3)))
    assert judged(wrong)["002"] == "FAIL"


def test_mixed_scopes() -> None:
    """Ten chains in scopes of ours, with shared tokens; the engine answers late."""
    told = Story(can=("cache",), statement=declared("v1_block_key"))
    told.begin()
    scopes = [NO_SCOPE, SALTED, ADAPTED, Scope(lora=7, salt="b"), Scope(salt="b")]
    shared = text(2)
    for at, scope in enumerate(scopes):
        cached(told, [*shared, *text(2, seed=at + 2)], scope)
    for at, scope in enumerate(scopes):
        blocks: Blocks = [*shared, *text(2, seed=at + 2)]
        told.send(*wired(BY_NAME["v1_block_key"], blocks, scope))
    assert judged(told) == {"001": "PASS", "002": "PASS", "005": "PASS", "008": "PASS", "014": "PASS"}


@pytest.mark.parametrize("name", [function.name for function in TRUE if function.family == "key-chain"])
def test_a_mid_stream_join_of_a_key_chain(name: str) -> None:
    told = story(wired(BY_NAME[name], text(20))[1:], statement=declared(name))
    assert judged(told) == {"001": "INCONCLUSIVE", "002": "INCONCLUSIVE", "008": "PASS"}


# --- what is announced -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["announced", "declared"])
@pytest.mark.parametrize(
    ("label", "name", "text_of"),
    [
        ("v1_block_key", "v1_block_key/no-wrap", "32-bit wrap missing"),
        ("v2_sha256_64/u32", "v2_sha256_low64/u32", "the last eight bytes of the key are sent, not the first"),
        ("v2_sha256_64", "v2_sha256_low64/u64", "the last eight bytes of the key are sent, not the first"),
        ("v2_sha256_64/u32", "v2_sha256_64/u64", "tokens are hashed as eight bytes each"),
        ("v2_sha256_64/u32", "x-sglang-sha256", "the root key is missing"),
        ("x-dynamo-xxh3", "x-dynamo-xxh3/seed-0", "the seed of XXH3 is 0"),
    ],
)
def test_an_untrue_label(way: str, label: str, name: str, text_of: str) -> None:
    """One block is enough, long or short, where another function or mistake gives its hash."""
    if way == "announced":
        told = story(*stream(name, 1, size=16, hash_algo=label))
    else:
        told = story(*stream(name, 1, size=16), statement=declared(label))
    assert judged(told)["002"] == "FAIL"
    assert text_of in finding(told, "002")


def test_a_registry_function_under_another_label_is_one_function() -> None:
    told = story(*stream("v2_sha256_low64/u32", 20, hash_algo="v2_sha256_64/u32"))
    said = judged(told)
    assert (said["001"], said["002"]) == ("PASS", "FAIL")
    assert hashing(told.trace()).tallies["KVW-HSH-002"].violations == 20


def test_label_and_statement_contradict_each_other() -> None:
    told = story(*stream("v1_block_key", 9, hash_algo="v1_block_key"), statement=declared("v2_sha256_64"))
    assert "`v2_sha256_64` announced, as the statement declares; seen `v1_block_key`" in finding(told, "002")
    told = story(*stream("v2_sha256_64/u32", 9, hash_algo="v2_sha256_64/u32"), statement=declared("v2_sha256_64"))
    assert judged(told)["002"] == "PASS"


def test_the_label_of_the_full_key_is_no_label_of_the_wire() -> None:
    told = story(*stream("v2_sha256_64/u32", 9, hash_algo="v2_sha256"))
    said = judged(told)
    assert (said["001"], said["002"], said["004"], said["009"]) == ("PASS", "FAIL", "FAIL", "INCONCLUSIVE")


def test_an_unknown_label_stays_open() -> None:
    told = story(*stream("v1_block_key", 9, hash_algo="v1"))
    said = judged(told)
    assert (said["001"], said["002"], said["009"]) == ("PASS", "INCONCLUSIVE", "INCONCLUSIVE")
    assert hashing(told.trace()).tallies["KVW-HSH-002"].open_reason == "`v1` names no function of edition 1"


def test_two_labels() -> None:
    one = event(chain("v1_block_key", text(2)), text(2), hash_algo="v1_block_key")
    other = {**removed("a"), "hash_algo": "v2_sha256_64"}
    assert judged(story([one], [one], [other]))["003"] == "FAIL"
    twice = hashing(story([one], [other], [other]).trace()).tallies["KVW-HSH-003"]
    assert twice.violations == 2, "each is held against the first one"
    assert judged(story([one], [removed("a")], [one]))["003"] == "PASS"
    assert "003" not in judged(story([one]))


@pytest.mark.parametrize(
    ("label", "name", "qualified", "four"),
    [
        ("v2_sha256_64/u32", "v2_sha256_64/u32", "PASS", "PASS"),
        ("v2_sha256_64", "v2_sha256_64/u32", "FAIL", "PASS"),
        ("v2_sha256_64", "v2_sha256_64/u64", "FAIL", "FAIL"),
        ("v2_sha256_64/u64", "v2_sha256_64/u64", "PASS", "FAIL"),
        ("v2_sha256_64/u64", "v2_sha256_64/u32", "PASS", "PASS"),  # untrue, and another sentence's matter
        ("v2_sha256_low64/u64", "v2_sha256_low64/u64", "PASS", "FAIL"),
        ("v2_sha256_64/u32", "v1_block_key", "PASS", None),  # of no width of these
        ("v2_sha256_64/u32", "v1_block_key/no-wrap", "PASS", None),
        ("v1_block_key", "v1_block_key", None, None),
    ],
)
def test_widths(label: str, name: str, qualified: str | None, four: str | None) -> None:
    """FAIL here is a violation; the keyword makes it a WARN."""
    said = judged(story(*stream(name, 9, hash_algo=label)))
    assert (said.get("004"), said.get("007"), said["009"]) == (qualified, four, "PASS")


def test_what_we_offered_is_not_the_publishers() -> None:
    told = Story(can=("publish",), sets=("engine", "ts"))
    told.publish(event([2**40], text(1), hash_algo="v1_block_key"))
    assert judged(told) == {"009": "PASS"}
    told.offer(event([2**41], text(1, seed=2)))
    told.send(event([2**42], text(1, seed=2)))
    assert judged(told)["001"] == "INCONCLUSIVE"


@pytest.mark.parametrize("name", ["v1_block_key", "v2_sha256_64/u32"])
@pytest.mark.parametrize("cut", [1, 4, 8])
def test_parts_that_no_announced_group_has(name: str, cut: int) -> None:
    """One group is announced; its blocks of 16 are named by the last of their parts."""
    told = Story(can=("cache",), statement=declared(name))
    told.begin()
    for seed in range(4):
        blocks = text(3, seed=seed)
        fine: Blocks = [block[at : at + cut] for block in blocks for at in range(0, 16, cut)]
        hashes = chain(name, fine)[16 // cut - 1 :: 16 // cut]
        cached(told, blocks)
        told.send(event(hashes[:2], blocks[:2]), event(hashes, blocks, first=2))
    assert (judged(told)["001"], judged(told)["002"]) == ("PASS", "PASS")
    cached(told, text(1, seed=9))
    told.send(event([1], text(1, seed=9)))
    assert judged(told)["002"] == "FAIL"


@pytest.mark.parametrize("again", [True, False], ids=["stored-before", "first"])
@pytest.mark.parametrize("named", [None, 5], ids=["nil", "skips"])
@pytest.mark.parametrize("function", TRUE, ids=[function.name for function in TRUE])
def test_a_hash_behind_another_block_than_its_parent_names_that(
    function: Function, named: int | None, *, again: bool
) -> None:
    """No scope gives a first block, or one behind another, the hash that it has in its chain; what follows is right."""
    blocks = text(24)
    hashes = chain(function.name, blocks)
    keys: dict[str, Any] = {"extra_keys": None} if function.label.startswith("x-vllm") else {}
    told = story([event(hashes[: 24 if again else 12], blocks[: 24 if again else 12], **keys)])
    if again:
        gone = event(hashes, blocks, first=12)["block_hashes"]
        told.send({"type": "BlockRemoved", "block_hashes": gone[::-1], "medium": "GPU"})
    late = event(hashes, blocks, first=12, **keys)
    late["parent_block_hash"] = None if named is None else signed(hashes[named])
    told.send(late)
    tally = hashing(told.trace()).tallies["KVW-HSH-001"]
    assert (verdict(tally), tally.violations) == ("FAIL", 1)
    assert f"{hashes[12]}, its hash behind {hashes[11]}: the parent is wrong" in finding(told, "001")
    assert tally.notes == [f"matches ×{35 if again else 23} {function.label}"]


@pytest.mark.parametrize("name", ["v1_block_key", "v2_sha256_64/u32", "x-sglang-sha256"])
def test_a_salted_chain_is_behind_no_other_block(name: str) -> None:
    """Nothing says that it is salted; its first block has a parent of nil, and that is right."""
    told = story(*stream(name, 12), *stream(name, 4, 7, scope=SALTED))
    assert verdict(hashing(told.trace()).tallies["KVW-HSH-001"]) == "PASS"


@pytest.mark.parametrize("own", [0, 3])
def test_an_adapter_enters_by_the_id_of_its_publisher(own: int) -> None:
    """What we call 7 it knows by a name and a number of its own."""
    name = "v2_sha256_64/u32"
    told = Story(can=("cache",), statement=declared(name))
    told.begin()
    cached(told, text(3), ADAPTED)
    blocks = text(3)
    told.send(event(chain(name, blocks, Scope(lora=own)), blocks, lora_id=own, lora_name="seven"))
    assert judged(told)["002"] == "PASS"
    cached(told, text(1, seed=9), ADAPTED)
    told.send(event([1], text(1, seed=9), lora_id=own, lora_name="seven"))
    assert judged(told)["002"] == "FAIL"


# --- what a mismatch has to know ---------------------------------------------------------------------------------

VLLM, SGLANG = "x-vllm-sha256-cbor/bare", "x-sglang-sha256"


def others(count: int, seed: int, **keys: Any) -> list[Event]:
    """A chain whose hashes nothing known gives."""
    blocks = text(count, seed=seed)
    return [event([2**40 + 1000 * seed + at for at in range(count)], blocks, **keys)]


def test_a_life_whose_function_is_not_known_is_not_held_against_that_of_the_life_before() -> None:
    """vLLM with a seed, or another of its functions, after a restart: alone it would be open."""
    plain: dict[str, Any] = {"extra_keys": [None] * 9}
    salted = stream(VLLM, 2, scope=SALTED, extra_keys=[["tenant-a"], None])  # so that others are known to have none
    told = story(*stream(VLLM, 9, **plain), *salted)
    told.restart()
    told.begin()
    told.send(*others(9, 3, **plain))
    assert judged(told)["001"] == "PASS"
    told.send(*wired(BY_NAME[VLLM], text(9, seed=4), **plain))
    told.send(*others(9, 5, **plain))
    assert judged(told)["001"] == "FAIL"  # here both are of one life


@pytest.mark.parametrize("keys", [{}, {"extra_keys": None}])
def test_extra_keys_that_an_event_leaves_out_can_be_what_makes_its_hashes(keys: dict[str, Any]) -> None:
    """A copy in another medium, of a chain with an image, from a connector that knows no extra keys."""
    told = story(*stream(VLLM, 9, extra_keys=[None] * 9), *stream(VLLM, 9, medium="CPU", extra_keys=[None] * 9))
    blocks = text(10, seed=50)
    told.send(event([*chain(VLLM, blocks[:9]), 2**40], blocks, first=9, medium="CPU", **keys))
    assert judged(told)["001"] == "PASS"
    told.send(event([*chain(VLLM, blocks[:9]), 2**41], blocks, first=9, medium="CPU", extra_keys=[None]))
    assert judged(told)["001"] == "FAIL"


def test_which_part_of_a_coarse_block_its_extra_keys_belong_to_is_not_known() -> None:
    plain: dict[str, Any] = {"extra_keys": [None] * 9}
    blocks = text(9)
    fine: Blocks = [block[at : at + 4] for block in blocks for at in range(0, 16, 4)]
    salted = (others(1, seed, extra_keys=[["tenant-a"]]) for seed in (2, 3))
    told = story(next(salted), [event(chain(VLLM, fine)[3::4], blocks, **plain)], next(salted))
    said = hashing(told.trace()).tallies["KVW-HSH-001"]
    assert (said.witnesses, said.violations) == (9, 0)


def test_how_an_adapter_enters_hashes_of_sglang_is_not_known() -> None:
    """Its default leaves it out, its namespaced format does not."""
    told = story(*stream(SGLANG, 9, scope=SALTED, cache_salt="tenant-a"))
    told.send(*others(1, 3, cache_salt="tenant-a", lora_name="a"))
    assert judged(told)["001"] == "PASS"
    told.send(*others(1, 4, cache_salt="tenant-a"))
    assert judged(told)["001"] == "FAIL"
